// Launches with events, for machines without ROCm.
#pragma once

#include <hip/hip_runtime.h>

extern "C" hipError_t hipExtModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, size_t,
                                               hipStream_t, void**, void**, hipEvent_t = nullptr, hipEvent_t = nullptr,
                                               unsigned = 0);

namespace rocm_perf_lab {
// The arguments have the types of the kernel's parameters here.
template <class... Parameters>
inline void launch_with_events(void (*kernel)(Parameters...), const dim3& grid, const dim3& block, unsigned lds_bytes, hipStream_t stream,
                               hipEvent_t start, hipEvent_t stop, unsigned flags, Parameters... arguments) {
  void* pointers[] = {static_cast<void*>(&arguments)..., nullptr};
  (void)::hipExtLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, lds_bytes, stream, start, stop,
                             static_cast<int>(flags));
}
}  // namespace rocm_perf_lab

template <class... Parameters, class... Arguments>
inline void hipExtLaunchKernelGGL(void (*kernel)(Parameters...), const dim3& grid, const dim3& block, unsigned lds_bytes,
                                  hipStream_t stream, hipEvent_t start, hipEvent_t stop, unsigned flags, Arguments... arguments) {
  rocm_perf_lab::launch_with_events<Parameters...>(kernel, grid, block, lds_bytes, stream, start, stop, flags, arguments...);
}
