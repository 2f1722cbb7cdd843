// Every atomic function of HIP on memory and LDS, for the types that it accepts.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>

#define CHECK(c)                                                              \
  do {                                                                        \
    const hipError_t e = (c);                                                 \
    if (e != hipSuccess) {                                                    \
      std::fprintf(stderr, "%s line %d: %s\n", #c, __LINE__, hipGetErrorString(e)); \
      std::exit(1);                                                           \
    }                                                                         \
  } while (0)

struct Counters {
  int add, sub, smallest, largest, conjunction, disjunction, parity, last, cas;
  unsigned increment, decrement, system;
  unsigned long long add64, largest64, exclusive64;
  float add_float;
  double add_double;
  long long smallest64;
};

static Counters start() {
  Counters c = {};
  c.smallest = INT_MAX;
  c.largest = INT_MIN;
  c.conjunction = -1;
  c.decrement = 7;
  c.smallest64 = LLONG_MAX;
  c.last = -1;
  return c;
}

__device__ void update(Counters* c, int i) {
  const int v = (i * 37) % 1000 - 500;
  atomicAdd(&c->add, v);
  atomicSub(&c->sub, v);
  atomicMin(&c->smallest, v);
  atomicMax(&c->largest, v);
  atomicAnd(&c->conjunction, ~(1 << i % 20));
  atomicOr(&c->disjunction, 1 << i % 30);
  atomicXor(&c->parity, v);
  atomicExch(&c->last, i);
  int old = 0, expected;  // the first exchange tells the value
  do {
    expected = old;
    old = atomicCAS(&c->cas, expected, expected + 3);
  } while (old != expected);
  atomicInc(&c->increment, 9u);
  atomicDec(&c->decrement, 12u);
  atomicAdd_system(&c->system, 1u);
  atomicAdd(&c->add64, (unsigned long long)i << 20);
  atomicMax(&c->largest64, (unsigned long long)i * i);
  atomicXor(&c->exclusive64, (unsigned long long)i << 32 | i);
  atomicAdd(&c->add_float, float(v));
  atomicAdd(&c->add_double, 0.5 * v);
  atomicMin(&c->smallest64, (long long)v * 1000000000ll);
}

__global__ void in_memory(Counters* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) update(c, i);
}

__global__ void in_lds(Counters* c, Counters initial, int n) {
  __shared__ Counters local;
  if (threadIdx.x == 0) local = initial;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) update(&local, i);
  __syncthreads();
  if (threadIdx.x == 0) *c = local;
}

static Counters expected(int n) {
  Counters c = start();
  for (int i = 0; i < n; i++) {
    const int v = (i * 37) % 1000 - 500;
    c.add += v;
    c.sub -= v;
    c.smallest = std::min(c.smallest, v);
    c.largest = std::max(c.largest, v);
    c.conjunction &= ~(1 << i % 20);
    c.disjunction |= 1 << i % 30;
    c.parity ^= v;
    c.cas += 3;
    c.increment = c.increment >= 9 ? 0 : c.increment + 1;
    c.decrement = c.decrement == 0 || c.decrement > 12 ? 12 : c.decrement - 1;
    c.system++;
    c.add64 += (unsigned long long)i << 20;
    c.largest64 = std::max(c.largest64, (unsigned long long)i * i);
    c.exclusive64 ^= (unsigned long long)i << 32 | i;
    c.add_float += v;
    c.add_double += 0.5 * v;
    c.smallest64 = std::min(c.smallest64, v * 1000000000ll);
  }
  return c;
}

static int compare(const Counters& a, const Counters& b, int n) {
#define SAME(field) (a.field == b.field ? 0 : (std::printf("%s differs\n", #field), 1))
  return SAME(add) + SAME(sub) + SAME(smallest) + SAME(largest) + SAME(conjunction) + SAME(disjunction) + SAME(parity) + SAME(cas) +
         SAME(increment) + SAME(decrement) + SAME(system) + SAME(add64) + SAME(largest64) + SAME(exclusive64) + SAME(add_float) +
         SAME(add_double) + SAME(smallest64) + (a.last >= 0 && a.last < n ? 0 : 1);
}

int main() {
  const int n = 3000;
  const Counters initial = start();
  Counters *device, memory, lds;
  CHECK(hipMalloc(&device, 2 * sizeof(Counters)));
  CHECK(hipMemcpy(device, &initial, sizeof initial, hipMemcpyHostToDevice));
  in_memory<<<(n + 127) / 128, 128>>>(device, n);
  in_lds<<<1, 256>>>(device + 1, initial, n);
  CHECK(hipGetLastError());
  CHECK(hipMemcpy(&memory, device, sizeof memory, hipMemcpyDeviceToHost));
  CHECK(hipMemcpy(&lds, device + 1, sizeof lds, hipMemcpyDeviceToHost));
  CHECK(hipFree(device));
  const int wrong = compare(memory, expected(n), n) + compare(lds, expected(n), n);
  std::printf("atomics: %d of 36 wrong, sum %d, increments wrap to %u, decrements to %u\n", wrong, memory.add, memory.increment, memory.decrement);
  return wrong ? 1 : 0;
}
