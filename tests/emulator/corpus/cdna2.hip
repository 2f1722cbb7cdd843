#include <hip/hip_runtime.h>

// What gfx90a has and later architectures dropped: products of pairs of brain floats, products of four bytes. Atomics of
// f64 are in all of them.
typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f16v __attribute__((ext_vector_type(16)));
typedef float f32v __attribute__((ext_vector_type(32)));
typedef int i4 __attribute__((ext_vector_type(4)));
typedef int i16v __attribute__((ext_vector_type(16)));
typedef short s2 __attribute__((ext_vector_type(2)));
typedef _Float16 h2 __attribute__((ext_vector_type(2)));

#ifdef __gfx90a__
#define MFMA(name, intrinsic, input, output)                                                        \
  extern "C" __global__ void __launch_bounds__(64) name(const input* a, const input* b, const output* c, output* d) { \
    int l = threadIdx.x;                                                                            \
    d[l] = __builtin_amdgcn_mfma_##intrinsic(a[l], b[l], c[l], 0, 0, 0);                            \
  }
MFMA(f32_32x32x2bf16, f32_32x32x2bf16, s2, f32v)
MFMA(f32_16x16x2bf16, f32_16x16x2bf16, s2, f16v)
MFMA(f32_4x4x2bf16, f32_4x4x2bf16, s2, f4)
MFMA(f32_32x32x4bf16, f32_32x32x4bf16, s2, f16v)
MFMA(f32_16x16x8bf16, f32_16x16x8bf16, s2, f4)
MFMA(i32_32x32x8i8, i32_32x32x8i8, int, i16v)
MFMA(i32_16x16x16i8, i32_16x16x16i8, int, i4)

extern "C" __global__ void __launch_bounds__(64) gemm_pairs(const s2* a, const s2* b, float* c, int k) {  // b transposed; 32 x 32
  int l = threadIdx.x, half = k / 2;
  f16v sum = {};
  for (int pair = 0; pair < half; pair += 2)
    sum = __builtin_amdgcn_mfma_f32_32x32x4bf16(a[(l & 31) * half + pair + l / 32], b[(l & 31) * half + pair + l / 32], sum, 0, 0, 0);
  for (int i = 0; i < 16; i++) c[(8 * (i / 4) + 4 * (l / 32) + i % 4) * 32 + (l & 31)] = sum[i];
}

// Older multiplications and additions, which compilers no longer select.
extern "C" __global__ void multiply_and_add(const float* a, const float* b, const float* c, float* out) {
  int i = threadIdx.x, n = blockDim.x;
  float r = c[i], s, t, u;
  asm volatile("v_mac_f32_e32 %0, %1, %2" : "+v"(r) : "v"(a[i]), "v"(b[i]));
  asm volatile("v_mad_f32 %0, %1, -%2, |%3|" : "=v"(s) : "v"(a[i]), "v"(b[i]), "v"(c[i]));
  asm volatile("v_madmk_f32 %0, %1, 0x40600000, %2" : "=v"(t) : "v"(a[i]), "v"(b[i]));
  asm volatile("v_madak_f32 %0, %1, %2, 0xc0200000" : "=v"(u) : "v"(a[i]), "v"(b[i]));
  out[i] = r;
  out[i + n] = s;
  out[i + 2 * n] = t;
  out[i + 3 * n] = u;
}
#endif

typedef __attribute__((address_space(1))) double global_double;
typedef __attribute__((address_space(3))) double shared_double;
extern "C" __global__ void double_atomics(const double* x, double* cells, double* returned, double* histogram) {
  __shared__ double local[8];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  if (t < 8) local[t] = t == 6 ? 1e300 : t == 7 ? -1e300 : 0;
  __syncthreads();
  __builtin_amdgcn_global_atomic_fadd_f64((global_double*)&cells[0], x[i]);
  __builtin_amdgcn_global_atomic_fmin_f64((global_double*)&cells[1], x[i]);
  __builtin_amdgcn_global_atomic_fmax_f64((global_double*)&cells[2], x[i]);
  __builtin_amdgcn_flat_atomic_fadd_f64(&cells[3], -x[i]);
  __builtin_amdgcn_flat_atomic_fmax_f64(&cells[4], -x[i]);
  returned[(int)__builtin_amdgcn_global_atomic_fadd_f64((global_double*)&cells[5], 1.0)] = i;
  __builtin_amdgcn_ds_atomic_fadd_f64((shared_double*)&local[t % 4], x[i]);
  unsafeAtomicAdd(&local[4], 1.0);
  atomicAdd(&local[5], x[i]);
  __hip_atomic_fetch_min(&local[6], x[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  __hip_atomic_fetch_max(&local[7], x[i], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  __syncthreads();
  if (t < 6) unsafeAtomicAdd(&histogram[t], local[t]);
  if (t == 6) unsafeAtomicMin(&histogram[6], local[6]);
  if (t == 7) unsafeAtomicMax(&histogram[7], local[7]);
}

extern "C" __global__ void unsafe_sums(const float* x, float* sums, const h2* pairs, h2* sum, int stride) {  // no old values
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsafeAtomicAdd(&sums[i % 8 * stride], x[i]);
  typedef __attribute__((address_space(1))) h2 global_pair;
  __builtin_amdgcn_global_atomic_fadd_v2f16((global_pair*)sum, pairs[i]);
  if (x[i] > 0) unsafeAtomicMax(&sums[8 * stride], x[i]);
  if (x[i] < 0) unsafeAtomicMin(&sums[9 * stride], x[i]);
}

extern "C" __global__ void buffer_loads_to_lds(const int* in, int* out) {  // 4 bytes per lane, M0 is the base
  __shared__ int tile[256];
  int t = threadIdx.x, first = t / 64 * 64;
  __amdgpu_buffer_rsrc_t resource = __builtin_amdgcn_make_buffer_rsrc((void*)in, 0, 1000, 0x00020000);  // the last 6 are outside
  typedef __attribute__((address_space(3))) int shared_int;
  __builtin_amdgcn_raw_ptr_buffer_load_lds(resource, (shared_int*)(tile + first), 4, t * 4, 0, 0, 0);
  __builtin_amdgcn_s_waitcnt(0x0f70);  // vmcnt(0)
  __syncthreads();
  out[t] = tile[255 - t];
}

typedef float f2 __attribute__((ext_vector_type(2)));
extern "C" __global__ void packed_gemv(const f2* matrix, const f2* vector, float* out, int columns) {  // V_PK_FMA_F32
  __shared__ float part[256];
  int row = blockIdx.x, t = threadIdx.x;
  f2 sum = {0, 0}, other = {0, 0};
  for (int c = t; c < columns / 2; c += 256) {
    sum += matrix[row * (columns / 2) + c] * vector[c];
    other = __builtin_elementwise_fma(matrix[row * (columns / 2) + c].yx, vector[c] * 0.5f, other);
  }
  part[t] = sum.x + sum.y + 3 * other.x - 2 * other.y;
  __syncthreads();
  for (int s = 128; s; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    __syncthreads();
  }
  if (t == 0) out[row] = part[0];
}
