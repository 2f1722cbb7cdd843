// Preloaded: pwrite() reports a full disk after FULL_DISK_AFTER bytes.
#include <dlfcn.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace {

long room() {
  const char* text = std::getenv("FULL_DISK_AFTER");
  return text != nullptr ? std::strtol(text, nullptr, 10) : 0;
}

}  // namespace

extern "C" ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  static std::atomic<long> left{room()};
  static auto real = reinterpret_cast<decltype(&pwrite)>(dlsym(RTLD_NEXT, "pwrite"));
  if ((left -= long(size)) < 0) {
    errno = ENOSPC;
    return -1;
  }
  return real(file, bytes, size, offset);
}
