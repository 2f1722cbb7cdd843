// Micro-benchmarks written from the published descriptions of those that measured MI300X.
#include <hip/hip_runtime.h>
#define K extern "C" __global__

// Dependent loads, unrolled 32 times: every load returns the byte offset of the next one. All lanes follow one chain.
K void pointer_chase(const unsigned* ring, unsigned* out, int steps) {
  unsigned at = 0;
  for (int s = 0; s < steps; s += 32)
    asm volatile(".rept 32\n global_load_dword %0, %0, %1\n s_waitcnt vmcnt(0)\n .endr" : "+v"(at) : "s"(ring) : "memory");
  out[threadIdx.x] = at;
}

// Every workgroup of 1024 reads 64 elements per work-item; `sets` interleaved chunks are shared by all workgroups.
K void shared_chunks(const double* in, double* out, int sets) {
  double sum = 0;
#pragma unroll
  for (int i = 0; i < 64; i++) sum += in[1024 * ((size_t)sets * i + blockIdx.x % sets) + threadIdx.x];
  if (sum * 1.3 == 23.12) out[threadIdx.x] = sum;
}

// Streaming kernels with one element per work-item.
#define STREAM(NAME, ...)                                                                                                \
  K void stream_##NAME(double* a, const double* b, const double* c, const double* d, size_t n) {                           \
    const int i = threadIdx.x + blockIdx.x * blockDim.x;                                                                   \
    __VA_ARGS__                                                                                                            \
  }
STREAM(init, if (i < n) a[i] = 0.23;)
STREAM(read, if (i < n && b[i] == 123.0) a[i] = 1;)
STREAM(scale, if (i < n) a[i] = b[i] * 1.2;)
STREAM(triad, if (i < n) a[i] = b[i] * d[i] + c[i];)
STREAM(stencil3, if (i < n - 1 && i > 0) a[i] = 0.5 * b[i - 1] - b[i] + 0.5 * b[i + 1];)
STREAM(stencil5, if (i < n - 2 && i > 1) a[i] = 0.25 * b[i - 2] + 0.25 * b[i - 1] - b[i] + 0.5 * b[i + 1] + 0.5 * b[i + 2];)

// Dependent vector instructions. The loop is unrolled 256 times, so that its end counts little. The instruction has the encoding
// that the compiler chooses for these operands.
#define VALU(NAME, TYPE, INSTRUCTIONS)                                                                                   \
  K void valu_##NAME(TYPE* out, int steps, TYPE s) {                                                                     \
    TYPE x = threadIdx.x, a = blockIdx.x, b = s;                                                                           \
    asm volatile("" : "+v"(a), "+v"(b));                                                                                   \
    for (int i = 0; i < steps; i += 256)                                                                                   \
      asm volatile(".rept 256\n " INSTRUCTIONS "\n .endr" : "+v"(x) : "v"(a), "v"(b), "s"(s));                             \
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;                                                                        \
  }
VALU(fma_f32_3_registers, float, "v_fmac_f32 %0, %1, %2")
VALU(fma_f32_1_constant, float, "v_fmac_f32 %0, %3, %2")
VALU(fma_f32_2_constants, float, "v_fma_f32 %0, %0, %3, 1.0")
VALU(add_f32_2_registers, float, "v_add_f32 %0, %0, %1")
VALU(add_f32_1_constant, float, "v_add_f32 %0, %3, %0")
VALU(mul_f32_2_registers, float, "v_mul_f32 %0, %0, %1")
VALU(mul_f32_1_constant, float, "v_mul_f32 %0, %3, %0")
VALU(fma_f64_3_registers, double, "v_fma_f64 %0, %0, %1, %2")
VALU(fma_f64_1_constant, double, "v_fmac_f64 %0, %3, %2")
VALU(fma_f64_2_constants, double, "v_fma_f64 %0, %0, %3, 1.0")
VALU(add_f64_2_registers, double, "v_add_f64 %0, %0, %1")
VALU(add_f64_1_constant, double, "v_add_f64 %0, %0, %3")
VALU(mul_f64_2_registers, double, "v_mul_f64 %0, %0, %1")
VALU(fma_f16, float, "v_mul_f16 %0, %0, %1\n v_add_f16 %0, %0, %2")  // operators of __half: two instructions

// One chain of matrix instructions on one accumulator.
#define MFMA(NAME, OPERANDS, REGISTERS, ACCUMULATOR)                                                                     \
  K void mfma_##NAME(float* out, int steps) {                                                                            \
    ACCUMULATOR c = {};                                                                                                    \
    REGISTERS a = {}, b = {};                                                                                              \
    for (int i = 0; i < steps; i += 128)                                                                                   \
      asm volatile(".rept 128\n " OPERANDS " %0, %1, %2, %0\n .endr" : "+a"(c) : "v"(a), "v"(b));                         \
    asm volatile("s_nop 15\n s_nop 15" : "+a"(c));                                                                         \
    out[blockIdx.x * blockDim.x + threadIdx.x] = ((float*)&c)[0];                                                          \
  }
typedef float f4 __attribute__((ext_vector_type(4)));
typedef int i4 __attribute__((ext_vector_type(4)));
typedef float f2 __attribute__((ext_vector_type(2)));
typedef double d4 __attribute__((ext_vector_type(4)));
MFMA(f16, "v_mfma_f32_16x16x16_f16", f2, f4)
MFMA(bf16, "v_mfma_f32_16x16x16_bf16", f2, f4)
MFMA(fp8, "v_mfma_f32_16x16x32_fp8_fp8", f2, f4)
MFMA(bf8, "v_mfma_f32_16x16x32_bf8_bf8", f2, f4)
MFMA(i8, "v_mfma_i32_16x16x32_i8", f2, i4)
MFMA(tf32, "v_mfma_f32_16x16x8_xf32", f2, f4)
MFMA(f32, "v_mfma_f32_16x16x4_f32", float, f4)
MFMA(f64, "v_mfma_f64_16x16x4_f64", double, d4)

// 64 LDS reads of one wavefront; adjacent lanes are `stride` bytes apart.
#define LDS_READS(WIDTH, TYPE)                                                                                           \
  K void lds_reads_b##WIDTH(unsigned* out, int stride) {                                                                 \
    __shared__ unsigned tile[8192];                                                                                        \
    for (int i = threadIdx.x; i < 8192; i += 64) tile[i] = i;                                                              \
    __syncthreads();                                                                                                       \
    TYPE x = {};                                                                                                           \
    const unsigned at = (unsigned)(size_t)(__attribute__((address_space(3))) void*)tile + threadIdx.x * stride;            \
    asm volatile("s_barrier\n .rept 64\n ds_read_b" #WIDTH " %0, %1\n .endr\n s_waitcnt lgkmcnt(0)\n s_setprio 0"          \
                 : "=&v"(x) : "v"(at) : "memory");                                                                         \
    out[blockIdx.x * 64 + threadIdx.x] = ((unsigned*)&x)[0];                                                               \
  }
LDS_READS(32, unsigned)
LDS_READS(64, f2)
LDS_READS(128, f4)
