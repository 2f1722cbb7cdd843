// The name of this header in the ROCprofiler SDK.
#pragma once
#include "../roctx.h"
