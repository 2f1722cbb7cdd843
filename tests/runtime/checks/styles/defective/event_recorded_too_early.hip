// The event is recorded before the kernel that it stands for is launched.
#include <hip/hip_runtime.h>
#include <array>
#include <cstdio>
#include <memory>

struct StreamDeleter { void operator()(hipStream_t s) const { (void)hipStreamDestroy(s); } };
struct EventDeleter { void operator()(hipEvent_t e) const { (void)hipEventDestroy(e); } };
struct MemoryDeleter { void operator()(void *p) const { (void)hipFree(p); } };
using Stream = std::unique_ptr<ihipStream_t, StreamDeleter>;
using Event = std::unique_ptr<ihipEvent_t, EventDeleter>;
template <class T>
using Memory = std::unique_ptr<T[], MemoryDeleter>;

static Stream make_stream() { hipStream_t s; (void)hipStreamCreateWithFlags(&s, hipStreamNonBlocking); return Stream(s); }
static Event make_event() { hipEvent_t e; (void)hipEventCreateWithFlags(&e, hipEventDisableTiming); return Event(e); }
template <class T>
static Memory<T> make_memory(size_t n) { T *p; (void)hipMalloc(&p, n * sizeof(T)); return Memory<T>(p); }

__global__ void write(double *p, double value) { p[blockIdx.x * blockDim.x + threadIdx.x] = value; }  // DEFECT stream_race
__global__ void scale(double *out, const double *in) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 3 * in[i];  // DEFECT stream_race|memory_uninitialised
}

int main() {
  auto first = make_stream(), second = make_stream();
  auto written = make_event();
  auto a = make_memory<double>(2048), b = make_memory<double>(2048);
  (void)hipEventRecord(written.get(), first.get());
  write<<<8, 256, 0, first.get()>>>(a.get(), 2.5);  // DEFECT stream_race
  (void)hipStreamWaitEvent(second.get(), written.get(), 0);
  scale<<<8, 256, 0, second.get()>>>(b.get(), a.get());  // DEFECT stream_race
  (void)hipDeviceSynchronize();
  std::puts("ended");
}
