// The older name of the extensions.
#pragma once
#include <hip/hip_ext.h>
