// HIP's header defines a macro __local, which is a name in libc++ (join_view.h).
#pragma once
#include_next <hip/hip_runtime.h>
#undef __local
