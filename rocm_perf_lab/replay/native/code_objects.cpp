#include "code_objects.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "failure.h"
#include "sha256.h"

namespace capture {

CodeObjects::CodeObjects(const Api& api, const std::string& directory) : api_(api) {
  file_ = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file_ < 0) file_ = memfd_create("code objects", MFD_CLOEXEC);
}

void CodeObjects::reader_created(hsa_code_object_reader_t reader, const void* bytes, size_t size) {
  Sha256 hash;
  hash.update(bytes, size);
  const std::string sha256 = hash.finish();
  std::lock_guard guard(lock_);
  readers_[reader.handle] = sha256;
  if (blobs_.count(sha256)) return;
  for (size_t done = 0; done < size;) {
    ssize_t count = pwrite(file_, static_cast<const char*>(bytes) + done, size - done, off_t(end_ + done));
    if (count <= 0) return;  // `code_of` reports the missing code object
    done += size_t(count);
  }
  blobs_[sha256] = {end_, size};
  end_ += size;
}

void CodeObjects::reader_created(hsa_code_object_reader_t reader, int file, size_t offset, size_t size) {
  struct stat facts;
  if (fstat(file, &facts) != 0 || uint64_t(facts.st_size) < offset) return;
  if (size == 0) size = size_t(facts.st_size) - offset;
  std::string bytes(size, '\0');
  if (pread(file, bytes.data(), size, off_t(offset)) != ssize_t(size)) return;
  reader_created(reader, bytes.data(), size);
}

void CodeObjects::reader_destroyed(hsa_code_object_reader_t reader) {
  std::lock_guard guard(lock_);
  readers_.erase(reader.handle);  // the bytes are kept: executables loaded from them still exist
}

void CodeObjects::loaded(hsa_executable_t executable, hsa_code_object_reader_t reader) {
  std::lock_guard guard(lock_);
  if (auto found = readers_.find(reader.handle); found != readers_.end()) executables_[executable.handle].push_back(found->second);
}

void CodeObjects::symbol_seen(hsa_executable_t executable, hsa_executable_symbol_t symbol) {
  std::lock_guard guard(lock_);
  owners_[symbol.handle] = executable.handle;
}

bool CodeObjects::kernel_seen(uint64_t object, hsa_executable_symbol_t symbol) {
  {
    std::lock_guard guard(lock_);
    auto found = kernels_.find(object);
    if (found != kernels_.end() && found->second.handle.handle == symbol.handle) return false;
  }
  Kernel kernel{object, symbol, symbol_name(symbol)};
  std::lock_guard guard(lock_);
  return !kernels_.insert_or_assign(object, kernel).second;
}

std::vector<uint64_t> CodeObjects::executable_destroyed(hsa_executable_t executable) {
  std::lock_guard guard(lock_);
  std::vector<uint64_t> gone;
  for (auto kernel = kernels_.begin(); kernel != kernels_.end();) {
    auto owner = owners_.find(kernel->second.handle.handle);
    const bool is_gone = owner != owners_.end() && owner->second == executable.handle;
    if (is_gone) gone.push_back(kernel->first);
    kernel = is_gone ? kernels_.erase(kernel) : std::next(kernel);
  }
  for (auto owner = owners_.begin(); owner != owners_.end();)
    owner = owner->second == executable.handle ? owners_.erase(owner) : std::next(owner);
  executables_.erase(executable.handle);
  return gone;
}

std::string CodeObjects::name_of(uint64_t kernel_object) {
  std::lock_guard guard(lock_);
  auto found = kernels_.find(kernel_object);
  return found == kernels_.end() ? "" : found->second.symbol;
}

KernelCode CodeObjects::code_of(uint64_t kernel_object) {
  Kernel kernel;
  std::vector<std::pair<std::string, Blob>> blobs;
  {
    std::lock_guard guard(lock_);  // released before calling the runtime, which may call `symbol_seen` while it holds its own locks
    auto found = kernels_.find(kernel_object);
    if (found == kernels_.end()) throw Failure("the kernel was loaded before the capture tool");
    kernel = found->second;
    auto owner = owners_.find(kernel.handle.handle);
    for (const std::string& sha256 : candidates(owner == owners_.end() ? 0 : owner->second)) blobs.emplace_back(sha256, blobs_[sha256]);
  }
  for (const auto& [sha256, blob] : blobs) {
    KernelCode code;
    code.bytes = read(blob);
    ElfImage image(code.bytes);
    auto address = image.symbol(kernel.symbol);
    if (!address) continue;
    code.sha256 = sha256;
    code.load_delta = kernel_object - *address;
    code.load_base = code.load_delta + image.lowest();
    code.load_size = image.highest() - image.lowest();
    const auto descriptor = image.descriptor(*address).value_or(ElfImage::Sizes{});
    code.kernarg_size = ask(kernel.handle, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE);
    code.group_size = descriptor.group;
    code.scratch_size = descriptor.scratch;
    if (code.kernarg_size == 0) code.kernarg_size = descriptor.kernarg;  // assembly kernels report 0
    if (auto noted = image.noted_kernarg_size(kernel.symbol); noted && code.kernarg_size == 0) code.kernarg_size = uint32_t(*noted);
    for (Variable variable : image.variables()) {
      variable.address += code.load_delta;
      code.variables.push_back(variable);
    }
    return code;
  }
  throw Failure("the code object of kernel " + kernel.symbol + " was loaded by a call that the tool does not intercept");
}

std::vector<LoadedRange> CodeObjects::loaded_ranges() {
  std::map<uint64_t, LoadedRange> ranges;  // by begin
  std::lock_guard guard(lock_);
  std::map<std::string, std::string> images;
  for (const auto& [object, kernel] : kernels_) {
    bool known = std::any_of(ranges.begin(), ranges.end(), [object = object](const auto& item) {
      return item.second.begin <= object && object < item.second.end;
    });
    auto owner = owners_.find(kernel.handle.handle);
    if (known || owner == owners_.end()) continue;
    for (const std::string& sha256 : candidates(owner->second)) {
      const std::string bytes = read(blobs_[sha256]);
      ElfImage image(bytes);
      if (auto address = image.symbol(kernel.symbol)) {
        const uint64_t delta = object - *address;
        ranges[delta + image.lowest()] = {delta + image.lowest(), delta + image.highest()};
        break;
      }
    }
  }
  std::vector<LoadedRange> sorted;
  sorted.reserve(ranges.size());
  for (const auto& item : ranges) sorted.push_back(item.second);
  return sorted;
}

// Returns the code objects loaded into the executable; all code objects if the executable is unknown.
std::vector<std::string> CodeObjects::candidates(uint64_t executable) {
  if (auto found = executables_.find(executable); found != executables_.end()) return found->second;
  std::vector<std::string> all;
  all.reserve(blobs_.size());
  for (const auto& item : blobs_) all.push_back(item.first);
  return all;
}

std::string CodeObjects::read(const Blob& blob) const {
  std::string bytes(blob.size, '\0');
  return pread(file_, bytes.data(), blob.size, off_t(blob.offset)) == ssize_t(blob.size) ? bytes : "";
}

std::string CodeObjects::symbol_name(hsa_executable_symbol_t symbol) const {
  uint32_t length = 0;
  if (api_.hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH, &length) != HSA_STATUS_SUCCESS) return "";
  std::string name(length, '\0');
  api_.hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME, name.data());
  return name.substr(0, name.find('\0'));
}

uint32_t CodeObjects::ask(hsa_executable_symbol_t symbol, int attribute) const {
  uint32_t value = 0;
  api_.hsa_executable_symbol_get_info(symbol, hsa_executable_symbol_info_t(attribute), &value);
  return value;
}

}  // namespace capture
