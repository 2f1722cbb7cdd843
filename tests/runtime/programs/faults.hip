// Programs that go wrong, one for each argument: what they print and how they end is up to the runtime.
#include <hip/hip_runtime.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void store(int* x, size_t at) { x[at] = 1; }
__global__ void load(int* x, size_t at) { x[0] = x[at] + 1; }
__global__ void illegal() { asm volatile(".long 0xffffffff"); }
__global__ void trap() { __builtin_trap(); }
__global__ void check(int n) { assert(n == 3); }
__global__ void spin(volatile int* x) {
  while (x[0] == 0) x[1]++;
}
__global__ void call_nowhere(int* x) {
  auto* function = reinterpret_cast<void (*)(int*)>(reinterpret_cast<size_t>(x) + (size_t{1} << 40));
  function(x);
}

static bool is(const char* argument, const char* name) { return !strcmp(argument, name); }

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  int* x;
  if (hipMalloc(&x, 4096) != hipSuccess || hipMemset(x, 0, 4096) != hipSuccess) return 90;
  if (is(what, "store")) store<<<1, 1>>>(x, size_t{1} << 38);
  if (is(what, "load")) load<<<1, 1>>>(x, size_t{1} << 38);
  if (is(what, "null")) store<<<1, 64>>>(nullptr, 0);
  if (is(what, "host_pointer")) load<<<1, 64>>>(static_cast<int*>(calloc(1 << 20, 4)), 5);
  if (is(what, "freed")) {
    int* y;
    if (hipMalloc(&y, 64 << 20) != hipSuccess || hipFree(y) != hipSuccess) return 91;
    store<<<1, 1>>>(y, 5);
  }
  if (is(what, "read_only") || is(what, "protected") || is(what, "writable")) {  // pages of the host that it cannot write, or could not
    int first = is(what, "protected") ? PROT_READ | PROT_WRITE : PROT_READ;
    void* page = mmap(nullptr, 8192, first, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    load<<<1, 1>>>(x, (static_cast<int*>(page) - x));  // a fault makes the page accessible
    if (hipDeviceSynchronize() != hipSuccess) return 93;
    if (first != PROT_READ) mprotect(page, 8192, PROT_READ);
    if (is(what, "writable")) mprotect(page, 8192, PROT_READ | PROT_WRITE);
    store<<<1, 1>>>(static_cast<int*>(page), 5);
  }
  if (is(what, "peer")) {  // memory of the other GPU, without peer access
    if (hipSetDevice(1) != hipSuccess) return 92;
    store<<<1, 1>>>(x, 0);
  }
  if (is(what, "illegal")) illegal<<<1, 1>>>();
  if (is(what, "trap")) trap<<<1, 1>>>();
  if (is(what, "assert")) check<<<1, 64>>>(4);
  if (is(what, "assert_holds")) check<<<1, 64>>>(3);
  if (is(what, "call_nowhere")) call_nowhere<<<1, 1>>>(x);
  bool spins = is(what, "endless");
  for (const char* end : {"_exit", "abort", "kill", "segfault"}) spins = spins || is(what, end);
  if (spins) {
    spin<<<4, 64>>>(x);
    usleep(200000);
    printf("spinning\n");
    fflush(stdout);
  }
  if (is(what, "_exit")) _exit(4);
  if (is(what, "abort")) abort();
  if (is(what, "kill")) raise(SIGKILL);
  if (is(what, "segfault")) raise(SIGSEGV);
  hipError_t status = hipDeviceSynchronize();
  printf("status %s\n", hipGetErrorName(status));
  return status == hipSuccess ? 0 : 1;
}
