// Markers of older programs, which have no effect in HIP either.
#pragma once

#define HIP_BEGIN_MARKER(name, group)
#define HIP_END_MARKER()
#define HIP_SCOPED_MARKER(name, group)
