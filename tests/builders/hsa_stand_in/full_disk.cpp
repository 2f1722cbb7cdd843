// Preloaded: after FULL_DISK_AFTER bytes, pwrite() finds the disk full.
#include <dlfcn.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

extern "C" ssize_t pwrite(int file, const void* bytes, size_t size, off_t offset) {
  static std::atomic<long> left{std::atol(std::getenv("FULL_DISK_AFTER"))};
  static auto real = reinterpret_cast<decltype(&pwrite)>(dlsym(RTLD_NEXT, "pwrite"));
  if ((left -= long(size)) < 0) {
    errno = ENOSPC;
    return -1;
  }
  return real(file, bytes, size, offset);
}
