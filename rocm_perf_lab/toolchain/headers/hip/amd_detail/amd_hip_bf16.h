// Name under which ROCm implements hip/hip_bf16.h.
#pragma once
#include <hip/hip_bf16.h>
