// Micro-benchmarks written from the published descriptions of those that measured MI300X.
#include <hip/hip_runtime.h>
#define K extern "C" __global__

// Dependent loads: `next` holds a cycle through the lines of the buffer. All lanes follow the same pointer.
K void pointer_chase(const unsigned* next, unsigned* out, int steps) {
  unsigned at = 0;
  for (int s = 0; s < steps; s++) {
    asm volatile("" : "+v"(at));  // in a vector register, so that the load is not scalar
    at = next[at];
  }
  out[threadIdx.x] = at;
}
