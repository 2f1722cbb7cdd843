// HIP's header defines a macro __local, which is a name in libc++ (join_view.h). The headers of ROCm 6 and older include some of the
// standard library, on which programs rely.
#pragma once
#ifdef __cplusplus
#include <algorithm>
#include <limits>
#endif
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include_next <hip/hip_runtime.h>
#undef __local
