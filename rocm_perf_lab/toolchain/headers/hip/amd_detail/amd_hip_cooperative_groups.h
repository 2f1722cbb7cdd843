// Name under which ROCm implements hip/hip_cooperative_groups.h.
#pragma once
#include <hip/hip_cooperative_groups.h>
