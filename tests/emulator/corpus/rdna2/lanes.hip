#include <hip/hip_runtime.h>

template <int control, bool zero = true>
__device__ int moved(int old, int x) { return __builtin_amdgcn_update_dpp(old, x, control, 0xf, 0xf, zero); }

extern "C" __global__ void shuffles(const int* x, int* out) {
  int l = threadIdx.x, v = x[l], s = v;
  for (int mask = 16; mask; mask >>= 1) s += __shfl_xor(s, mask);
  out[l] = s;
  int scan = v;
  for (int d = 1; d < 32; d <<= 1) {
    int from = __shfl_up(scan, d, 32);
    if ((l & 31) >= d) scan += from;
  }
  out[l + blockDim.x] = scan;
  out[l + 2 * blockDim.x] = __shfl(v, (l * 7) & 31, 32);
  out[l + 3 * blockDim.x] = __shfl_down(v, 3, 8);
}

extern "C" __global__ void patterns(const int* x, int* out) {
  int l = threadIdx.x, v = x[l], n = blockDim.x;
  out[l] = moved<0x1b>(0, v);            // quad_perm:[3,2,1,0]
  out[l + n] = moved<0x140>(0, v);       // row_mirror
  out[l + 2 * n] = moved<0x141>(0, v);   // row_half_mirror
  out[l + 3 * n] = moved<0x152>(0, v);   // row_share:2
  out[l + 4 * n] = moved<0x165>(0, v);   // row_xmask:5
  out[l + 5 * n] = moved<0x103, false>(-5, v);  // row_shl:3 keeps the old value without a source
  out[l + 6 * n] = __builtin_amdgcn_mov_dpp8(v, 0x1ac688);
  out[l + 7 * n] = __builtin_amdgcn_permlane16(v, v, 0x76543201, 0x0fedcba9, true, false);
  out[l + 8 * n] = __builtin_amdgcn_permlanex16(v, v, 0x76543210, 0xfedcba98, true, false);
}

extern "C" __global__ void votes(const int* x, int* out, int* ranks) {
  int l = threadIdx.x, v = x[l];
  out[l] = __any(v == 5) | __all(v > -1000) << 1 | __all(v > 0) << 2;
  ranks[l] = -1;
  if (v & 1) {
    unsigned long long odd = __ballot(1);
    ranks[l] = __builtin_amdgcn_mbcnt_hi(odd >> 32, __builtin_amdgcn_mbcnt_lo(odd, 0));
  }
}

extern "C" __global__ void waterfall(const int* keys, int* out) {
  int key = keys[threadIdx.x];
  for (;;) {
    int leader = __builtin_amdgcn_readfirstlane(key);
    if (key == leader) {
      out[threadIdx.x] = leader * 3 + 1;
      break;
    }
  }
}

extern "C" __global__ void ids(int* out) {
  int item = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  int group = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[group * 60 + item] = group * 100000 + threadIdx.x + 100 * threadIdx.y + 1000 * threadIdx.z;
}

extern "C" __global__ void private_arrays(const int* x, int* out, int n) {
  volatile int local[40];
  int l = threadIdx.x;
  for (int i = 0; i < 40; i++) local[i] = x[l] * i + l;
  int sum = 0;
  for (int i = 0; i < n; i++) sum += local[(i * 7 + l) % 40];
  out[l] = sum;
}

__device__ __attribute__((noinline)) int through_pointer(const int* p, int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum = sum * 3 + p[i];
  return sum;
}
extern "C" __global__ void flat_pointers(const int* x, int* out) {
  __shared__ int shared[8];
  int own[8], l = threadIdx.x;
  if (l < 8) shared[l] = x[l];
  for (int i = 0; i < 8; i++) own[i] = x[i] * l;
  __syncthreads();
  const int* p = l % 3 == 0 ? shared : l % 3 == 1 ? own : x;
  out[l] = through_pointer(p, 8);
}

extern "C" __global__ void float_atomics(const float* x, float* lowest, float* highest) {
  int l = threadIdx.x;
  asm volatile("global_atomic_fmin %0, %1, off" ::"v"(lowest), "v"(x[l]) : "memory");
  asm volatile("global_atomic_fmax %0, %1, off" ::"v"(highest), "v"(x[l]) : "memory");
}

extern "C" __global__ void matrix_product(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][17], bs[16][17];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    as[y][x] = a[row * n + k + x];
    bs[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += as[y][i] * bs[i][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
