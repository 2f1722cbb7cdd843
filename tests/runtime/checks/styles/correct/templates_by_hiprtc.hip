// Template kernels compiled at run time by name expressions, launched through modules with both kinds of arguments.
#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>
#include <cstdio>
#include <string>
#include <vector>

static const char *kSource = R"code(
template <typename T, int Factor>
__global__ void scale(T *data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= T(Factor);
}
)code";

int main() {
  hiprtcProgram program;
  if (hiprtcCreateProgram(&program, kSource, "scale.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS) return 1;
  const std::vector<std::string> names{"scale<float, 3>", "scale<long, 5>"};
  for (const auto &name : names)
    if (hiprtcAddNameExpression(program, name.c_str()) != HIPRTC_SUCCESS) return 1;
  if (hiprtcCompileProgram(program, 0, nullptr) != HIPRTC_SUCCESS) return 2;
  size_t bytes;
  if (hiprtcGetCodeSize(program, &bytes) != HIPRTC_SUCCESS) return 2;
  std::vector<char> code(bytes);
  if (hiprtcGetCode(program, code.data()) != HIPRTC_SUCCESS) return 2;
  hipModule_t module;
  if (hipModuleLoadData(&module, code.data()) != hipSuccess) return 3;
  hipFunction_t functions[2];
  for (int k = 0; k < 2; k++) {
    const char *lowered;
    if (hiprtcGetLoweredName(program, names[k].c_str(), &lowered) != HIPRTC_SUCCESS) return 3;
    if (hipModuleGetFunction(&functions[k], module, lowered) != hipSuccess) return 3;
  }
  if (hiprtcDestroyProgram(&program) != HIPRTC_SUCCESS) return 3;
  int n = 100;
  std::vector<float> floats(n, 2);
  std::vector<long> longs(n, 2);
  void *f, *l;
  if (hipMalloc(&f, n * sizeof(float)) || hipMalloc(&l, n * sizeof(long))) return 4;
  if (hipMemcpy(f, floats.data(), n * sizeof(float), hipMemcpyHostToDevice) || hipMemcpy(l, longs.data(), n * sizeof(long), hipMemcpyHostToDevice)) return 4;
  void *parameters[] = {&f, &n};
  if (hipModuleLaunchKernel(functions[0], 2, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr)) return 5;
  struct { void *data; int n; } packed{l, n};
  size_t size = sizeof packed;
  void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
  if (hipModuleLaunchKernel(functions[1], 2, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra)) return 5;
  if (hipMemcpy(floats.data(), f, n * sizeof(float), hipMemcpyDeviceToHost) || hipMemcpy(longs.data(), l, n * sizeof(long), hipMemcpyDeviceToHost)) return 6;
  if (hipFree(f) || hipFree(l) || hipModuleUnload(module)) return 6;
  if (floats[99] != 6 || longs[99] != 10) return 7;
  std::puts("right");
}
