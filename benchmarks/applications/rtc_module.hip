// Kernels compiled at run time: hiprtc with options and headers, name expressions, module globals, compile errors.
#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define HIP_CHECK(x)                                                             \
  if (hipError_t e = (x); e != hipSuccess) {                                     \
    fprintf(stderr, "line %d: %s\n", __LINE__, hipGetErrorString(e));            \
    exit(1);                                                                     \
  }
#define RTC_CHECK(x)                                                             \
  if (hiprtcResult r = (x); r != HIPRTC_SUCCESS) {                               \
    fprintf(stderr, "line %d: %s\n", __LINE__, hiprtcGetErrorString(r));         \
    exit(1);                                                                     \
  }

static const char* const source = R"(
#include "polynomial.h"
extern "C" { __device__ int launches; __constant__ float coefficients[DEGREE + 1]; }
template <typename T> __global__ void evaluate(const T* x, T* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = horner<T>(coefficients, x[i]);
  if (i == 0) launches++;
}
)";
static const char* const header = R"(
template <typename T> __device__ T horner(const float* c, T x) {
  T sum = 0;
  for (int k = DEGREE; k >= 0; k--) sum = sum * x + T(c[k]);
  return sum;
}
)";

template <typename T>
static int evaluate(hipModule_t module, const char* name, const std::vector<float>& c) {
  hipFunction_t function;
  HIP_CHECK(hipModuleGetFunction(&function, module, name));
  const int n = 1000;
  std::vector<T> x(n), y(n);
  for (int i = 0; i < n; i++) x[i] = T(i % 21 - 10);
  T *d_x, *d_y;
  HIP_CHECK(hipMalloc(&d_x, n * sizeof(T)));
  HIP_CHECK(hipMalloc(&d_y, n * sizeof(T)));
  HIP_CHECK(hipMemcpy(d_x, x.data(), n * sizeof(T), hipMemcpyHostToDevice));
  struct {
    const T* x;
    T* y;
    int n;
  } arguments = {d_x, d_y, n};
  size_t size = sizeof arguments;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
  HIP_CHECK(hipModuleLaunchKernel(function, (n + 99) / 100, 1, 1, 100, 1, 1, 0, nullptr, nullptr, extra));
  int count = n;
  void* parameters[] = {&d_x, &d_y, &count};
  HIP_CHECK(hipModuleLaunchKernel(function, (n + 63) / 64, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr));
  HIP_CHECK(hipMemcpy(y.data(), d_y, n * sizeof(T), hipMemcpyDeviceToHost));
  HIP_CHECK(hipFree(d_x));
  HIP_CHECK(hipFree(d_y));
  int wrong = 0;
  for (int i = 0; i < n; i++) {
    T sum = 0;
    for (size_t k = c.size(); k-- > 0;) sum = sum * x[i] + T(c[k]);
    wrong += sum != y[i];  // small integers: exact
  }
  return wrong;
}

int main() {
  hiprtcProgram program;
  const char *headers[] = {header}, *names[] = {"polynomial.h"};
  RTC_CHECK(hiprtcCreateProgram(&program, source, "evaluate.hip", 1, headers, names));
  RTC_CHECK(hiprtcAddNameExpression(program, "evaluate<float>"));
  RTC_CHECK(hiprtcAddNameExpression(program, "evaluate<double>"));
  hipDeviceProp_t properties;
  HIP_CHECK(hipGetDeviceProperties(&properties, 0));
  const std::string architecture = std::string("--offload-arch=") + properties.gcnArchName;
  const char* options[] = {architecture.c_str(), "-DDEGREE=3", "-O3"};
  if (hiprtcCompileProgram(program, 3, options) != HIPRTC_SUCCESS) {
    size_t size;
    RTC_CHECK(hiprtcGetProgramLogSize(program, &size));
    std::vector<char> log(size);
    RTC_CHECK(hiprtcGetProgramLog(program, log.data()));
    fprintf(stderr, "%s\n", log.data());
    return 1;
  }
  const char *for_float, *for_double;
  RTC_CHECK(hiprtcGetLoweredName(program, "evaluate<float>", &for_float));
  RTC_CHECK(hiprtcGetLoweredName(program, "evaluate<double>", &for_double));
  size_t size;
  RTC_CHECK(hiprtcGetCodeSize(program, &size));
  std::vector<char> code(size);
  RTC_CHECK(hiprtcGetCode(program, code.data()));
  hipModule_t module;
  HIP_CHECK(hipModuleLoadData(&module, code.data()));
  const std::vector<float> coefficients = {7, -2, 3, 1};
  hipDeviceptr_t address;
  size_t bytes;
  HIP_CHECK(hipModuleGetGlobal(&address, &bytes, module, "coefficients"));
  HIP_CHECK(hipMemcpyHtoD(address, const_cast<float*>(coefficients.data()), bytes));
  HIP_CHECK(hipModuleGetGlobal(&address, nullptr, module, "launches"));
  HIP_CHECK(hipMemset(address, 0, sizeof(int)));
  const int wrong = evaluate<float>(module, for_float, coefficients) + evaluate<double>(module, for_double, coefficients);
  int launches = 0;
  HIP_CHECK(hipMemcpyDtoH(&launches, address, sizeof launches));
  hipFunction_t missing;
  const hipError_t absent = hipModuleGetFunction(&missing, module, "missing");
  RTC_CHECK(hiprtcDestroyProgram(&program));
  HIP_CHECK(hipModuleUnload(module));

  RTC_CHECK(hiprtcCreateProgram(&program, "__global__ void broken(int* x) { *x = undeclared; }", "broken.hip", 0, nullptr, nullptr));
  const hiprtcResult result = hiprtcCompileProgram(program, 1, options);
  RTC_CHECK(hiprtcGetProgramLogSize(program, &size));
  std::string log(size, '\0');
  RTC_CHECK(hiprtcGetProgramLog(program, log.data()));
  RTC_CHECK(hiprtcDestroyProgram(&program));
  const bool reported = result == HIPRTC_ERROR_COMPILATION && log.find("undeclared") != std::string::npos;
  printf("rtc: %d wrong, %zu bytes of coefficients, %d launches, %s, broken source %s\n", wrong, bytes, launches, hipGetErrorName(absent),
         reported ? "reported" : "NOT reported");
  return wrong == 0 && launches == 4 && absent == hipErrorNotFound && reported ? 0 : 1;
}
