#include <hip/hip_runtime.h>

template <int control, int row_mask = 0xf, int bank_mask = 0xf, bool zero = true>
__device__ int moved(int old, int x) { return __builtin_amdgcn_update_dpp(old, x, control, row_mask, bank_mask, zero); }

extern "C" __global__ void reduce_lds(const float* x, float* out) {
  __shared__ float part[256];
  part[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  for (int step = 128; step > 0; step >>= 1) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

#ifndef __GFX10__  // wavefronts of 64 lanes
extern "C" __global__ void reduce_dpp(const int* x, int* out) {
  int v = x[blockIdx.x * 64 + threadIdx.x];
  v += moved<0x111>(0, v);               // row_shr:1
  v += moved<0x112>(0, v);               // row_shr:2
  v += moved<0x114>(0, v);               // row_shr:4
  v += moved<0x118>(0, v);               // row_shr:8
  v += moved<0x142, 0xa, 0xf, false>(0, v);  // row_bcast:15
  v += moved<0x143, 0xc, 0xf, false>(0, v);  // row_bcast:31
  out[blockIdx.x * 64 + threadIdx.x] = v;
  if (threadIdx.x == 0) out[gridDim.x * 64 + blockIdx.x] = __builtin_amdgcn_readlane(v, 63);
}

extern "C" __global__ void dpp_patterns(const int* x, int* out) {
  int v = x[threadIdx.x], l = threadIdx.x;
  out[l] = moved<0x1b>(0, v);                     // quad_perm:[3,2,1,0]
  out[l + 64] = moved<0x121>(0, v);               // row_ror:1
  out[l + 128] = moved<0x140>(0, v);              // row_mirror
  out[l + 192] = moved<0x141>(0, v);              // row_half_mirror
  out[l + 256] = moved<0x103, 0xf, 0xf, false>(-5, v);  // row_shl:3, lanes without a source keep the old value
  out[l + 320] = moved<0x130>(0, v);              // wave_shl:1
  out[l + 384] = moved<0x138>(0, v);              // wave_shr:1
  out[l + 448] = moved<0x134>(0, v);              // wave_rol:1
  out[l + 512] = moved<0x13c>(0, v);              // wave_ror:1
  out[l + 576] = moved<0x152>(0, v);              // row_newbcast:2
  out[l + 640] = moved<0xe4, 0x5, 0x3, false>(-7, v);   // only rows 0, 2 and banks 0, 1
  out[l + 704] = __builtin_amdgcn_mov_dpp(v, 0x1, 0xf, 0xf, true);  // quad_perm:[1,0,0,0]
  int odd = -1;
  if (l & 1) odd = moved<0x111, 0xf, 0xf, false>(-9, v);  // sources outside EXEC
  out[l + 768] = odd;
}

extern "C" __global__ void reduce_shuffles(const float* x, float* out, double* out2, const long* y, long* out3) {
  float v = x[threadIdx.x], w = v;
  for (int mask = 32; mask; mask >>= 1) v = fmaxf(v, __shfl_xor(v, mask));
  for (int d = 32; d; d >>= 1) w += __shfl_down(w, d);
  double u = x[threadIdx.x];
  for (int d = 1; d < 64; d <<= 1) {
    double from = __shfl_up(u, d);
    if (threadIdx.x >= d) u += from;
  }
  out[threadIdx.x] = v;
  if (threadIdx.x == 0) out[64] = w;
  out2[threadIdx.x] = u;
  out3[threadIdx.x] = __shfl(y[threadIdx.x], (threadIdx.x * 7) & 63) + __shfl_xor(y[threadIdx.x], 3, 16);
}

extern "C" __global__ void votes(const int* x, unsigned long long* out, int* out2) {
  int v = x[threadIdx.x];
  unsigned long long b = __ballot(v > 0);
  if (threadIdx.x == 0) {
    out[0] = b;
    out[1] = __popcll(b);
  }
  out2[threadIdx.x] = __any(v == 12345) | __all(v > -1000) << 1 | __any(v == x[5]) << 2 | __all(v > 0) << 3;
  if (v & 1) {
    unsigned long long odd = __ballot(1);
    int rank = __builtin_amdgcn_mbcnt_hi(odd >> 32, __builtin_amdgcn_mbcnt_lo(odd, 0));
    out2[64 + threadIdx.x] = rank * 100 + __ffsll(odd) + (__clzll(odd) << 16);
    int first = __builtin_amdgcn_readfirstlane(v);
    out2[128 + threadIdx.x] = first;
  }
}

extern "C" __global__ void waterfall(const int* keys, int* out) {  // one turn for each distinct key of the wave
  int key = keys[threadIdx.x], turn = 0;
  bool done = false;
  while (!done) {
    int leader = __builtin_amdgcn_readfirstlane(key);
    turn++;
    if (key == leader) {
      out[threadIdx.x] = turn * 1000 + leader;
      done = true;
    }
  }
}
#endif

__device__ float block_sum(float v, float* scratch) {
  for (int mask = 16; mask; mask >>= 1) v += __shfl_xor(v, mask);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = v;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < (int)(blockDim.x >> 5); i++) sum += scratch[i];
  return sum;
}

extern "C" __global__ void softmax(const float* in, float* out, int n) {
  __shared__ float part[256];
  const float* row = in + blockIdx.x * n;
  float m = -INFINITY;
  for (int i = threadIdx.x; i < n; i += 256) m = fmaxf(m, row[i]);
  part[threadIdx.x] = m;
  __syncthreads();
  for (int s = 128; s; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + s]);
    __syncthreads();
  }
  m = part[0];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += expf(row[i] - m);
  sum = block_sum(sum, part);
  for (int i = threadIdx.x; i < n; i += 256) out[blockIdx.x * n + i] = expf(row[i] - m) / sum;
}

extern "C" __global__ void layernorm(const float* in, const float* gamma, const float* beta, float* out, int n) {
  __shared__ float part[8];
  const float* row = in + blockIdx.x * n;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
  float mean = block_sum(sum, part) / n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
  float scale = rsqrtf(block_sum(squares, part) / n + 1e-5f);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = (row[i] - mean) * scale * gamma[i] + beta[i];
}

extern "C" __global__ void scan(const int* in, int* out, int n) {
  extern __shared__ int buffer[];
  int t = threadIdx.x, from = 0;
  buffer[t] = t < n ? in[blockIdx.x * n + t] : 0;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d <<= 1) {
    int to = from ^ 1;
    buffer[to * blockDim.x + t] = buffer[from * blockDim.x + t] + (t >= d ? buffer[from * blockDim.x + t - d] : 0);
    from = to;
    __syncthreads();
  }
  if (t < n) out[blockIdx.x * n + t] = buffer[from * blockDim.x + t];
}

extern "C" __global__ void bitonic_sort(unsigned* data) {
  __shared__ unsigned key[512];
  for (int i = threadIdx.x; i < 512; i += 256) key[i] = data[blockIdx.x * 512 + i];
  for (int k = 2; k <= 512; k <<= 1)
    for (int j = k >> 1; j; j >>= 1) {
      __syncthreads();
      int i = 2 * threadIdx.x - (threadIdx.x & (j - 1)), other = i + j;
      unsigned a = key[i], b = key[other];
      if ((a > b) == ((i & k) == 0)) {
        key[i] = b;
        key[other] = a;
      }
    }
  __syncthreads();
  for (int i = threadIdx.x; i < 512; i += 256) data[blockIdx.x * 512 + i] = key[i];
}

extern "C" __global__ void divergent_barriers(const int* in, int* out) {
  __shared__ int value[192];
  int t = threadIdx.x, acc = in[t];
  for (int round = 0; round < 3; round++) {
    value[t] = acc;
    __syncthreads();
    if ((t >> 6) == round) {
      for (int i = 0; i < (t & 15); i++) acc += value[(t * 7 + i) % 192] & i;
    } else if (t & 1) {
      acc ^= value[191 - t];
    }
    __syncthreads();
  }
  out[t] = acc;
}

#ifndef __GFX10__
extern "C" __global__ void permutes(const int* x, int* out) {
  int l = threadIdx.x, v = x[l];
  int written = v;
  asm("v_writelane_b32 %0, %1, 9" : "+v"(written) : "s"(77));
  out[l] = __builtin_amdgcn_ds_bpermute(((l * 5 + 3) & 63) << 2, v);
  out[l + 64] = __builtin_amdgcn_ds_permute(((l * 5 + 3) & 63) << 2, v);
  out[l + 128] = __builtin_amdgcn_ds_swizzle(v, 0x401f);   // bit mode: xor 16
  out[l + 192] = __builtin_amdgcn_ds_swizzle(v, 0x8000 | 0x1b);  // quad mode: 3, 2, 1, 0
  out[l + 256] = written;
  out[l + 320] = __builtin_amdgcn_readlane(v, (x[0] & 31) + 8);
  out[l + 384] = __builtin_amdgcn_perm(v, x[63 - l], 0x0c020d07);
  out[l + 448] = __builtin_amdgcn_alignbyte(v, x[63 - l], 3);
  out[l + 512] = __builtin_amdgcn_alignbit(v, x[63 - l], l & 31);
}
#endif
