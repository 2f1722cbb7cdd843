// The name of this header in ROCTracer.
#pragma once
#include "../roctx.h"
