// hipModuleLaunchKernel with an argument buffer whose size leaves out the last argument.
#include "../../program.h"
#include <hip/hiprtc.h>
static const char *source = R"(extern "C" __global__ void axpy(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
})";
struct Arguments {
  const float *x;
  float *y;
  float a;
  int n;
};
int main() {
  hiprtcProgram program;
  if (hiprtcCreateProgram(&program, source, "axpy.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS) return 5;
  if (hiprtcCompileProgram(program, 0, nullptr) != HIPRTC_SUCCESS) return 6;
  size_t size;
  if (hiprtcGetCodeSize(program, &size) != HIPRTC_SUCCESS) return 7;
  std::vector<char> code(size);
  if (hiprtcGetCode(program, code.data()) != HIPRTC_SUCCESS) return 8;
  (void)hiprtcDestroyProgram(&program);
  hipModule_t module;
  hipFunction_t axpy;
  HIP(hipModuleLoadData(&module, code.data()));
  HIP(hipModuleGetFunction(&axpy, module, "axpy"));
  float *x = device(std::vector<float>(256, 1)), *y = device(std::vector<float>(256, 2));
  Arguments arguments{x, y, 3, 256};
  size_t bytes = sizeof arguments - sizeof(int);  // the mistake
  void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
  (void)hipModuleLaunchKernel(axpy, 1, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra);  // DEFECT bad_arguments|failed_launch|bad_geometry
  (void)hipDeviceSynchronize();
  (void)hipModuleUnload(module);
  (void)hipFree(x);
  (void)hipFree(y);
  return 0;
}
