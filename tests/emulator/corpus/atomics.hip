#include <hip/hip_runtime.h>

extern "C" __global__ void histogram(const unsigned* x, unsigned* bins, int n) {
  __shared__ unsigned local[64];
  if (threadIdx.x < 64) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i] >> 26], 1u);
  __syncthreads();
  if (threadIdx.x < 64 && local[threadIdx.x]) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

extern "C" __global__ void global_integers(const int* x, int* out, unsigned* uout, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = x[i];
  atomicAdd(&out[0], v);
  atomicSub(&out[1], v);
  atomicMin(&out[2], v);
  atomicMax(&out[3], v);
  atomicAnd(&out[4], v | 0xff);
  atomicOr(&out[5], v & 0xff0);
  atomicXor(&out[6], v);
  atomicMin(&uout[0], (unsigned)v);
  atomicMax(&uout[1], (unsigned)v);
  atomicInc(&uout[2], 10u);
  atomicDec(&uout[3], 10u);
}

extern "C" __global__ void global_longs(const long long* x, unsigned long long* out, long long* sout, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  long long v = x[i];
  atomicAdd(&out[0], (unsigned long long)v);
  atomicXor(&out[1], (unsigned long long)v);
  atomicMin(&out[2], (unsigned long long)v);
  atomicMax(&out[3], (unsigned long long)v);
  atomicAnd(&out[4], (unsigned long long)v | 0xffff0000ffffull);
  atomicOr(&out[5], (unsigned long long)v & 0xf0f0f0f0f0f0f0ull);
  __hip_atomic_fetch_min(&sout[0], v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  __hip_atomic_fetch_max(&sout[1], v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// Old values: lanes act one after the other, so that they are known.
extern "C" __global__ void returned_values(int* cells, int* out, unsigned long long* wide, unsigned long long* out2) {
  int l = threadIdx.x;
  for (int turn = 0; turn < 64; turn++)
    if (turn == l) {
      out[l] = atomicAdd(&cells[0], l);
      out[64 + l] = atomicExch(&cells[1], l * l);
      out[128 + l] = atomicCAS(&cells[2], l, l + (l % 5 != 4));
      out[192 + l] = atomicInc((unsigned*)&cells[3], 6u);
      out[256 + l] = atomicDec((unsigned*)&cells[4], 6u);
      out[320 + l] = atomicMax(&cells[5], (l * 37) % 64);
      out2[l] = atomicAdd(&wide[0], 0x100000001ull * l);
      out2[64 + l] = atomicExch(&wide[1], ~0ull / (l + 1));
      out2[128 + l] = atomicCAS(&wide[2], (unsigned long long)l, (unsigned long long)l + 1);
    }
}

extern "C" __global__ void lds_atomics(const int* x, int* out, unsigned long long* out2) {
  __shared__ int cell[8];
  __shared__ unsigned long long wide[4];
  __shared__ float real[2];
  __shared__ int returned[256];
  int t = threadIdx.x, v = x[t];
  if (t < 8) cell[t] = 0;
  if (t < 4) wide[t] = t == 2 ? ~0ull : 0;
  if (t < 2) real[t] = 0;
  __syncthreads();
  atomicAdd(&cell[0], v);
  atomicMin(&cell[1], v);
  atomicMax(&cell[2], v);
  atomicXor(&cell[3], v);
  atomicInc((unsigned*)&cell[4], 100u);
  returned[atomicAdd(&cell[5], 1)] = t;  // tickets: a permutation
  atomicAdd(&wide[0], (unsigned long long)v * 0x10001ull);
  atomicMax(&wide[1], (unsigned long long)(unsigned)v << 20);
  atomicMin(&wide[2], (unsigned long long)(unsigned)v << 20);
  atomicAdd(&real[0], (float)(v & 1023));
  int expected;
  do expected = cell[6]; while (atomicCAS(&cell[6], expected, expected + 3) != expected);  // contended
  __syncthreads();
  if (t < 8) out[t] = cell[t];
  if (t < 2) out[8 + t] = (int)real[t];
  if (t < 3) out2[t] = wide[t];
  atomicAdd(&out[10], returned[t]);
}

extern "C" __global__ void global_floats(const float* x, float* out, const double* y, double* out2, float* returned) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&out[0], x[i]);
  unsafeAtomicAdd(&out[1], x[i]);
  atomicMax(&out[2], x[i]);
  atomicMin(&out[3], x[i]);
  atomicAdd(&out2[0], y[i]);
  unsafeAtomicAdd(&out2[1], y[i]);
  unsafeAtomicMax(&out2[2], y[i]);
  unsafeAtomicMin(&out2[3], y[i]);
  float before = atomicAdd(&out[4], 1.0f);
  returned[(int)before] = i;
  __hip_atomic_exchange(&out[5], 3.5f, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

#if !defined(__gfx90a__) && !defined(__GFX10__)
typedef _Float16 half2v __attribute__((ext_vector_type(2)));
typedef short short2v __attribute__((ext_vector_type(2)));
extern "C" __global__ void packed_floats(half2v* h, short2v* b, const _Float16* x) {
  __shared__ half2v local;
  if (threadIdx.x == 0) local = half2v{0, 0};
  __syncthreads();
  half2v v = {x[threadIdx.x], (_Float16)-x[threadIdx.x]};
  typedef half2v __attribute__((address_space(1)))* global_half2;
  typedef short2v __attribute__((address_space(1)))* global_short2;
  __builtin_amdgcn_global_atomic_fadd_v2f16((global_half2)h, v);
  __builtin_amdgcn_global_atomic_fadd_v2bf16((global_short2)b, short2v{0x3f80, (short)0xbf80});  // +1, -1
  typedef half2v __attribute__((address_space(3)))* shared_half2;
  __builtin_amdgcn_ds_atomic_fadd_v2f16((shared_half2)&local, v);
  __syncthreads();
  if (threadIdx.x == 0) h[1] = local;
}
#endif

extern "C" __global__ void spin_lock(int* lock, int* value, int rounds) {  // one lane of each workgroup
  if (threadIdx.x == 0)
    for (int i = 0; i < rounds; i++) {
      while (atomicCAS(lock, 0, 1) != 0) __builtin_amdgcn_s_sleep(1);
      __threadfence();
      *(volatile int*)value = *(volatile int*)value * 3 + 1;
      __threadfence();
      atomicExch(lock, 0);
    }
}

__device__ unsigned finished;
extern "C" __global__ void last_block_reduces(const int* x, int* parts, int* out) {
  __shared__ int sum;
  __shared__ bool last;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(&finished, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int total = 0;
    for (unsigned i = 0; i < gridDim.x; i++) total += ((volatile int*)parts)[i];
    *out = total;
  }
}
