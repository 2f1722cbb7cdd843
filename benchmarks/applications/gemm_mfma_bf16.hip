// Matrix cores, bfloat16 (gfx942): v_mfma_f32_32x32x8_bf16 on packed values, LDS double buffering.
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

typedef short bf16x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));

static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static float from_bf16(uint16_t value) {
  const uint32_t bits = uint32_t(value) << 16;
  float result;
  memcpy(&result, &bits, 4);
  return result;
}

constexpr int STEP = 16;

__global__ void gemm_tn(const uint16_t* a, const uint16_t* b, float* c, int n, int k) {
  __shared__ alignas(8) uint16_t tiles[2][2][32][STEP + 4];
  const int lane = threadIdx.x, at = lane % 32, half = lane / 32;
  const int row = blockIdx.y * 32, column = blockIdx.x * 32;
  f32x16 sum = {0};
  auto load = [&](int buffer, int first) {
    for (int i = lane; i < 32 * STEP; i += 64) {
      tiles[buffer][0][i / STEP][i % STEP] = a[(row + i / STEP) * k + first + i % STEP];
      tiles[buffer][1][i / STEP][i % STEP] = b[(column + i / STEP) * k + first + i % STEP];
    }
  };
  load(0, 0);
  for (int step = 0; step * STEP < k; step++) {
    __syncthreads();
    if ((step + 1) * STEP < k) load((step + 1) % 2, (step + 1) * STEP);
    for (int part = 0; part < STEP; part += 8) {
      const bf16x4 x = *reinterpret_cast<const bf16x4*>(&tiles[step % 2][0][at][part + 4 * half]);
      const bf16x4 y = *reinterpret_cast<const bf16x4*>(&tiles[step % 2][1][at][part + 4 * half]);
      sum = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(x, y, sum, 0, 0, 0);
    }
  }
  for (int i = 0; i < 16; i++) c[(row + 8 * (i / 4) + 4 * half + i % 4) * n + column + at] = sum[i];
}

int main() {
  const int m = 64, n = 64, k = 96;
  std::vector<uint16_t> a(m * k), b(n * k);
  std::vector<float> c(m * n, -1);
  for (int i = 0; i < m * k; i++) a[i] = to_bf16(float((i * 5) % 31 - 15) / 16);
  for (int i = 0; i < n * k; i++) b[i] = to_bf16(float((i * 3) % 37 - 18) / 32);
  uint16_t *da = nullptr, *db = nullptr;
  float* dc = nullptr;
  int status = 1, wrong = 0;
  if (hipMalloc((void**)&da, a.size() * 2) || hipMalloc((void**)&db, b.size() * 2) || hipMalloc((void**)&dc, c.size() * 4)) goto end;
  if (hipMemcpy(da, a.data(), a.size() * 2, hipMemcpyHostToDevice)) goto end;
  if (hipMemcpy(db, b.data(), b.size() * 2, hipMemcpyHostToDevice)) goto end;
  gemm_tn<<<dim3(n / 32, m / 32), 64>>>(da, db, dc, n, k);
  if (hipDeviceSynchronize() || hipMemcpy(c.data(), dc, c.size() * 4, hipMemcpyDeviceToHost)) goto end;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int l = 0; l < k; l++) sum += from_bf16(a[i * k + l]) * from_bf16(b[j * k + l]);
      wrong += sum != c[i * n + j];  // multiples of 1/512 below 2^15: exact
    }
  printf("mfma bf16: %d wrong, c[0][0] = %.4f\n", wrong, c[0]);
  status = wrong != 0;
end:
  if (hipError_t error = hipGetLastError()) fprintf(stderr, "error: %s\n", hipGetErrorString(error));
  (void)hipFree(da);
  (void)hipFree(db);
  (void)hipFree(dc);
  return status;
}
