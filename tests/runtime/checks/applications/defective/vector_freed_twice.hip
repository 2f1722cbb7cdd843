// A class without a copy constructor: the copy's destructor frees the same memory.
#include "../../program.h"
struct Vector {
  float *data = nullptr;
  explicit Vector(int n) { HIP(hipMalloc(&data, n * sizeof(float))); }
  ~Vector() { (void)hipFree(data); }  // DEFECT double_free
};
__global__ void fill(float *to) { to[threadIdx.x] = 1; }
static void use(Vector vector) { fill<<<1, 64>>>(vector.data); }
int main() {
  Vector vector(64);
  use(vector);
  HIP(hipDeviceSynchronize());
  return 0;
}
