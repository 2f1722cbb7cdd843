// A profiler for rocprofiler-sdk that requests no tables: its presence makes the runtime ignore HSA_TOOLS_LIB.
#include <cstdint>

extern "C" void* rocprofiler_configure(uint32_t, const char*, uint32_t, void*) { return nullptr; }
