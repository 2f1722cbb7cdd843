// The host sleeps on a condition variable that a host function of the stream notifies, and then reads the pinned result.
#include <hip/hip_runtime.h>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool isOpen = false;
  static void open(void *self) {
    auto *gate = static_cast<Gate *>(self);
    {
      std::lock_guard<std::mutex> hold(gate->mutex);
      gate->isOpen = true;
    }
    gate->changed.notify_all();
  }
  void pass() {
    std::unique_lock<std::mutex> hold(mutex);
    changed.wait(hold, [this] { return isOpen; });
  }
};

__global__ void cubes(long *p) { p[threadIdx.x] = long(threadIdx.x) * threadIdx.x * threadIdx.x; }

int main() {
  long *pinned, *device;
  hipStream_t stream;
  if (hipHostMalloc((void **)&pinned, 128 * sizeof(long)) || hipMalloc(&device, 128 * sizeof(long)) || hipStreamCreate(&stream)) return 1;
  Gate gate;
  cubes<<<1, 128, 0, stream>>>(device);
  if (hipMemcpyAsync(pinned, device, 128 * sizeof(long), hipMemcpyDeviceToHost, stream) || hipLaunchHostFunc(stream, Gate::open, &gate)) return 1;
  gate.pass();
  long seen = pinned[100];
  std::promise<long> promise;
  auto future = promise.get_future();
  struct Job { std::promise<long> *promise; long *pinned; } job{&promise, pinned};
  cubes<<<1, 64, 0, stream>>>(device);
  if (hipMemcpyAsync(pinned, device + 1, sizeof(long), hipMemcpyDeviceToHost, stream)) return 1;
  auto callback = [](hipStream_t, hipError_t, void *user) {
    auto *job = static_cast<Job *>(user);
    job->promise->set_value(job->pinned[0]);
  };
  if (hipStreamAddCallback(stream, callback, &job, 0)) return 1;
  long second = future.get();
  pinned[0] = 5;
  if (hipStreamSynchronize(stream) || hipStreamDestroy(stream) || hipFree(device) || hipHostFree(pinned)) return 1;
  if (seen != 1000000 || second != 1) return 2;
  std::puts("right");
}
