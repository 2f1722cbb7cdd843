// A kernel generated as text writes one element per work-item, and the host rounds the grid up.
#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

static std::vector<char> compiled(const std::string &operation) {
  std::ostringstream text;
  text << "extern \"C\" __global__ void transform(float *data, int n) {\n"
       << "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
       << "  float x = i;\n"
       << "  data[i] = " << operation << ";\n}\n";
  hiprtcProgram program;
  if (hiprtcCreateProgram(&program, text.str().c_str(), "generated.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS) return {};
  const char *options[] = {"-O3"};
  if (hiprtcCompileProgram(program, 1, options) != HIPRTC_SUCCESS) return {};
  size_t bytes = 0;
  (void)hiprtcGetCodeSize(program, &bytes);
  std::vector<char> code(bytes);
  (void)hiprtcGetCode(program, code.data());
  (void)hiprtcDestroyProgram(&program);
  return code;
}

int main() {
  const std::vector<char> code = compiled("x * x + 1.0f");
  hipModule_t module;
  hipFunction_t transform;
  if (code.empty() || hipModuleLoadData(&module, code.data()) != hipSuccess) return 1;
  if (hipModuleGetFunction(&transform, module, "transform") != hipSuccess) return 1;
  int n = 700;
  float *data = nullptr;
  if (hipMalloc(&data, n * sizeof(float)) != hipSuccess) return 1;
  void *parameters[] = {&data, &n};
  if (hipModuleLaunchKernel(transform, (n + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr) != hipSuccess) return 1;  // DEFECT out_of_bounds
  (void)hipDeviceSynchronize();
  std::puts("ended");
  (void)hipFree(data);
  (void)hipModuleUnload(module);
}
