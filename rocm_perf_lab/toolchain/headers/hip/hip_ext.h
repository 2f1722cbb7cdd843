// Launches with events, for machines without ROCm: only the declarations, so that host code that uses them compiles.
#pragma once

#include <hip/hip_runtime.h>

extern "C" hipError_t hipExtModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, size_t,
                                               hipStream_t, void**, void**, hipEvent_t = nullptr, hipEvent_t = nullptr,
                                               unsigned = 0);

template <class... Arguments, class Kernel = void (*)(Arguments...)>
inline void hipExtLaunchKernelGGL(Kernel kernel, const dim3& grid, const dim3& block, unsigned lds_bytes, hipStream_t stream,
                                  hipEvent_t, hipEvent_t, unsigned, Arguments... arguments) {
  kernel<<<grid, block, lds_bytes, stream>>>(arguments...);
}
