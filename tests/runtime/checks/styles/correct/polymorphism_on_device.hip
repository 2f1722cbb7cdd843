// Virtual functions and function pointers on the device; a __device__ pointer is set by hipMemcpyToSymbol.
#include <hip/hip_runtime.h>
#include <cstdio>

struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
  float radius;
  __device__ explicit Circle(float r) : radius(r) {}
  __device__ float area() const override { return 3 * radius * radius; }
};

__device__ float *results;
__constant__ float factors[4];
using Function = float (*)(float);
__device__ float twice(float x) { return 2 * x; }
__device__ float half_of(float x) { return x / 2; }
__device__ Function functions[] = {twice, half_of};

__global__ void construct(Shape **shapes, int n) {
  int i = threadIdx.x;
  if (i < n) shapes[i] = i % 2 ? static_cast<Shape *>(new Circle(float(i))) : static_cast<Shape *>(new Square(float(i)));
}
__global__ void measure(Shape **shapes, int n) {
  int i = threadIdx.x;
  if (i >= n) return;
  results[i] = functions[i % 2](shapes[i]->area()) * factors[i % 4];
  delete shapes[i];
}

int main() {
  const int n = 8;
  Shape **shapes;
  float *memory, host[n], scale[4] = {1, 1, 1, 1};
  if (hipMalloc((void **)&shapes, n * sizeof(Shape *)) || hipMalloc(&memory, sizeof host)) return 1;
  if (hipMemcpyToSymbol(HIP_SYMBOL(results), &memory, sizeof memory) || hipMemcpyToSymbol(HIP_SYMBOL(factors), scale, sizeof scale)) return 1;
  construct<<<1, 64>>>(shapes, n);
  measure<<<1, 64>>>(shapes, n);
  if (hipMemcpy(host, memory, sizeof host, hipMemcpyDeviceToHost) || hipFree(shapes) || hipFree(memory)) return 1;
  if (host[2] != 8 || host[3] != 13.5f) return 2;
  std::puts("right");
}
