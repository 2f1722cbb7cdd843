#include "directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "failure.h"
#include "json.h"

namespace capture {
namespace {

constexpr const char* kVersion = "1";
constexpr size_t kPageOutBytes = 1 << 20;
constexpr uint64_t kCachedShare = 16;  // of the memory: below the share at which Linux writes pages out

[[noreturn]] void fail(const std::string& path) { throw Failure(path + ": " + std::strerror(errno)); }

std::string utc_now() {
  char text[32];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Counts the bytes that this process has written; returns whether they are too many for the page cache.
bool exceeds_cache(uint64_t bytes) {
  static std::atomic<uint64_t> written{0};
  static const uint64_t most = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE)) / kCachedShare;
  return (written += bytes) > most;
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path) {
  file_ = open(path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_RDWR, 0600);
  if (file_ < 0) fail(path);
}

OutputFile::~OutputFile() { close(file_); }

void OutputFile::write(const void* bytes, size_t size, uint64_t offset) {
  const auto* at = static_cast<const char*>(bytes);
  for (size_t done = 0; done < size;) {
    ssize_t count = pwrite(file_, at + done, size - done, off_t(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(path_);
    done += size_t(count);
  }
  // A small capture is packed and removed before it reaches the disk. Writeback of a large one starts now: gigabytes of dirty pages
  // would block all writers of the machine later.
  if (size >= kPageOutBytes && exceeds_cache(size)) sync_file_range(file_, off_t(offset), off_t(size), SYNC_FILE_RANGE_WRITE);
}

void OutputFile::set_size(uint64_t size) {
  if (ftruncate(file_, off_t(size)) != 0) fail(path_);
}

void OutputFile::read(void* bytes, size_t size, uint64_t offset) const {
  auto* at = static_cast<char*>(bytes);
  for (size_t done = 0; done < size;) {
    ssize_t count = pread(file_, at + done, size - done, off_t(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(path_);
    done += size_t(count);
  }
}

Directory::Directory(const std::string& path) : path_(path) {
  if (mkdir(path.c_str(), 0700) != 0) fail(path);
}

void Directory::make_directory(const std::string& name) {
  if (mkdir(path(name).c_str(), 0700) != 0 && errno != EEXIST) fail(path(name));
}

void Directory::put(const std::string& name, const std::string& bytes) {
  OutputFile(path(name)).write(bytes.data(), bytes.size(), 0);
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  record(name, bytes.size(), hash.finish());
}

void Directory::record(const std::string& name, uint64_t size, const std::string& sha256) { files_[name] = {size, sha256}; }

uint64_t Directory::free_bytes() const {
  struct statvfs facts;
  return statvfs(path_.c_str(), &facts) == 0 ? uint64_t(facts.f_bavail) * facts.f_frsize : UINT64_MAX;
}

void Directory::finish(bool is_emulated) {
  Json json;
  json.open('{').member("format", "rocm-perf-lab-capture").member("format_version", 1);
  json.key("files").open('{');
  for (const auto& [name, entry] : files_)
    json.key(name).open('{').member("size", entry.size).member("sha256", entry.sha256).close('}');
  json.close('}');
  json.key("provenance").open('{').member("writer", "capture tool").member("version", kVersion);
  json.member("created", utc_now()).member("emulated", is_emulated).close('}').close('}');
  if (!replace_file(path("manifest.json"), json.text() + "\n")) fail(path("manifest.json"));
}

bool replace_file(const std::string& path, const std::string& text) {
  const std::string scratch = path + ".new";
  int file = open(scratch.c_str(), O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC | O_WRONLY, 0600);
  if (file < 0) return false;
  const bool written = ::write(file, text.data(), text.size()) == ssize_t(text.size());
  close(file);
  if (written && rename(scratch.c_str(), path.c_str()) == 0) return true;
  const int why = errno;
  unlink(scratch.c_str());
  errno = why;
  return false;
}

}  // namespace capture
