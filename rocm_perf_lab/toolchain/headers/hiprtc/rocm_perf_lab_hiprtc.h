// Included before sources of the language `hiprtc`: the declarations that HIP's runtime compiler provides without includes.
// The headers of HIP are those of ROCm if it is installed.
#pragma once

#include <hip/hip_runtime.h>

// hip_runtime.h leaves these out for the runtime compiler, which has them built in.
#pragma push_macro("NULL")
#pragma push_macro("CHAR_BIT")
#undef NULL
#undef CHAR_BIT
#define NULL nullptr
#define CHAR_BIT __CHAR_BIT__
#include <hip/amd_detail/device_library_decls.h>
#include <hip/amd_detail/math_fwd.h>
#include <hip/amd_detail/hip_assert.h>
#include <hip/amd_detail/amd_warp_functions.h>
#include <hip/amd_detail/amd_device_functions.h>
#include <hip/amd_detail/amd_warp_sync_functions.h>
#include <hip/amd_detail/amd_hip_unsafe_atomics.h>
#include <hip/amd_detail/amd_hip_atomic.h>
#pragma pop_macro("NULL")
#pragma pop_macro("CHAR_BIT")

#include <hip/hip_fp16.h>
#include <hip/hip_bfloat16.h>
#include <hip/hip_cooperative_groups.h>

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

#ifndef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __assert_fail(#condition, __FILE__, __LINE__, __PRETTY_FUNCTION__))
#endif
#endif
