// Persistent workgroups take tasks from a queue that grows while they run.
#include "../../program.h"
struct Queue {
  unsigned head, tail, pending;
};
__global__ void work(Queue *queue, unsigned *tasks, unsigned *ready, unsigned long long *sum) {
  __shared__ unsigned task, got;
  for (;;) {
    if (threadIdx.x == 0) {
      got = 0;
      unsigned head = __hip_atomic_load(&queue->head, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
      if (head < __hip_atomic_load(&queue->tail, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) &&
          atomicCAS(&queue->head, head, head + 1) == head) {
        while (!__hip_atomic_load(&ready[head], __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT)) __builtin_amdgcn_s_sleep(1);
        task = tasks[head];
        got = 1;
      } else if (!__hip_atomic_load(&queue->pending, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {
        got = 2;
      }
    }
    __syncthreads();
    unsigned state = got, value = task;
    __syncthreads();
    if (state == 2) return;
    if (state == 1) atomicAdd(sum, (unsigned long long)value);
    if (threadIdx.x == 0 && state == 1) {
      for (unsigned child = 0; value > 1 && child < 2; child++) {
        atomicAdd(&queue->pending, 1u);
        unsigned slot = atomicAdd(&queue->tail, 1u);
        tasks[slot] = value / 2;
        __hip_atomic_store(&ready[slot], 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
      }
      atomicSub(&queue->pending, 1u);
    }
  }
}
int main() {
  Queue *queue = device(std::vector<Queue>{{0, 1, 1}});
  std::vector<unsigned> first(64);
  first[0] = 16;
  std::vector<unsigned> flags(64);
  flags[0] = 1;
  unsigned *tasks = device(first), *ready = device(flags);
  unsigned long long *sum = device(std::vector<unsigned long long>(1));
  work<<<4, 64>>>(queue, tasks, ready, sum);
  bool right = host(sum, 1)[0] == 64ull * 16 * 5;
  HIP(hipFree(queue));
  HIP(hipFree(tasks));
  HIP(hipFree(ready));
  HIP(hipFree(sum));
  return ended(right);
}
