// A kernel that runs while the host feeds it: a ring of requests in pinned memory, flags in both directions.
#include <hip/hip_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#define ENSURE(call)                                                            \
  do {                                                                          \
    if (hipError_t e = (call)) {                                                \
      fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(e));                 \
      exit(EXIT_FAILURE);                                                       \
    }                                                                           \
  } while (0)

constexpr unsigned SLOTS = 4, WORDS = 128, STOP = 0xffffffffu;
struct Channel {
  unsigned produced, consumed;  // numbers of requests; each has one writer
  unsigned length[SLOTS];
  unsigned data[SLOTS][WORDS];
  unsigned long long answer[SLOTS];
};

__global__ void serve(Channel* channel) {
  __shared__ unsigned long long sum;
  for (unsigned request = 0;; request++) {
    if (threadIdx.x == 0) {
      sum = 0;
      while (__hip_atomic_load(&channel->produced, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM) == request) __builtin_amdgcn_s_sleep(8);
    }
    __syncthreads();
    const unsigned slot = request % SLOTS, length = channel->length[slot];
    if (length == STOP) return;
    for (unsigned i = threadIdx.x; i < length; i += blockDim.x) atomicAdd(&sum, (unsigned long long)channel->data[slot][i] * i);
    __syncthreads();
    if (threadIdx.x == 0) {
      channel->answer[slot] = sum;
      __hip_atomic_store(&channel->consumed, request + 1, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
    }
  }
}

int main() {
  Channel* channel;
  ENSURE(hipHostMalloc(&channel, sizeof *channel, hipHostMallocCoherent | hipHostMallocMapped));
  *channel = Channel{};
  hipStream_t stream;
  ENSURE(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  serve<<<1, 64, 0, stream>>>(channel);
  ENSURE(hipGetLastError());
  auto& produced = reinterpret_cast<std::atomic<unsigned>&>(channel->produced);
  auto& consumed = reinterpret_cast<std::atomic<unsigned>&>(channel->consumed);
  const unsigned requests = 25;
  unsigned long long expected[SLOTS] = {}, total = 0;
  unsigned wrong = 0, read = 0;
  auto collect = [&] {
    for (; read < consumed.load(std::memory_order_acquire); read++) {
      wrong += channel->answer[read % SLOTS] != expected[read % SLOTS];
      total += channel->answer[read % SLOTS];
    }
  };
  for (unsigned r = 0; r <= requests; r++) {
    while (r - read == SLOTS) collect();
    const unsigned slot = r % SLOTS, length = r == requests ? STOP : 1 + r * 5 % WORDS;
    channel->length[slot] = length;
    if (r < requests) {
      expected[slot] = 0;
      for (unsigned i = 0; i < length; i++) {
        channel->data[slot][i] = r * 1000 + i;
        expected[slot] += (unsigned long long)(r * 1000 + i) * i;
      }
    }
    produced.store(r + 1, std::memory_order_release);
  }
  ENSURE(hipStreamSynchronize(stream));
  collect();
  printf("producer and consumer: %u of %u answers, %u wrong, total %llu\n", read, requests, wrong, total);
  ENSURE(hipStreamDestroy(stream));
  ENSURE(hipHostFree(channel));
  return wrong || read != requests ? 1 : 0;
}
