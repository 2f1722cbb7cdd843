// Upload, compute and download on three streams with two buffers; events order the stages and the reuse of the buffers.
#include <hip/hip_runtime.h>
#include <array>
#include <cstdio>
#include <vector>

struct Fail {};
static void ok(hipError_t status) {
  if (status != hipSuccess) throw Fail{};
}

__global__ void square(const float *in, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * in[i];
}

int main() try {
  constexpr int chunk = 1024, chunks = 6;
  std::array<hipStream_t, 3> streams;
  for (auto &stream : streams) ok(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  auto [up, compute, down] = streams;
  std::array<float *, 2> in, out;
  std::array<hipEvent_t, 2> uploaded, computed, downloaded;
  for (int k = 0; k < 2; k++) {
    ok(hipMalloc(&in[k], chunk * sizeof(float)));
    ok(hipMalloc(&out[k], chunk * sizeof(float)));
    for (auto *event : {&uploaded[k], &computed[k], &downloaded[k]}) ok(hipEventCreateWithFlags(event, hipEventDisableTiming));
  }
  float *source, *result;
  ok(hipHostMalloc((void **)&source, chunk * chunks * sizeof(float)));
  ok(hipHostMalloc((void **)&result, chunk * chunks * sizeof(float)));
  for (int i = 0; i < chunk * chunks; i++) source[i] = float(i % 50);
  for (int c = 0; c < chunks; c++) {
    const int k = c & 1;
    if (c >= 2) ok(hipStreamWaitEvent(up, computed[k], 0));
    ok(hipMemcpyAsync(in[k], source + c * chunk, chunk * sizeof(float), hipMemcpyHostToDevice, up));
    ok(hipEventRecord(uploaded[k], up));
    ok(hipStreamWaitEvent(compute, uploaded[k], 0));
    if (c >= 2) ok(hipStreamWaitEvent(compute, downloaded[k], 0));
    square<<<chunk / 256, 256, 0, compute>>>(in[k], out[k]);
    ok(hipEventRecord(computed[k], compute));
    ok(hipStreamWaitEvent(down, computed[k], 0));
    ok(hipMemcpyAsync(result + c * chunk, out[k], chunk * sizeof(float), hipMemcpyDeviceToHost, down));
    ok(hipEventRecord(downloaded[k], down));
  }
  ok(hipEventSynchronize(downloaded[(chunks - 1) & 1]));
  bool right = true;
  for (int i = 0; i < chunk * chunks; i++) right &= result[i] == float(i % 50) * float(i % 50);
  for (int k = 0; k < 2; k++) {
    ok(hipFree(in[k]));
    ok(hipFree(out[k]));
    for (auto event : {uploaded[k], computed[k], downloaded[k]}) ok(hipEventDestroy(event));
  }
  ok(hipHostFree(source));
  ok(hipHostFree(result));
  for (auto stream : streams) ok(hipStreamDestroy(stream));
  std::puts(right ? "right" : "wrong");
  return !right;
} catch (Fail) {
  return 9;
}
