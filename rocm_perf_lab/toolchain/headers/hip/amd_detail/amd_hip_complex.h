// Name under which ROCm implements hip/hip_complex.h.
#pragma once
#include <hip/hip_complex.h>
