// Kernels of the test application.
#include <hip/hip_runtime.h>

struct Node {
  Node* next;
  float value;
  int visits;
};

__device__ float gain = 1.0f;
__device__ int launches;
__constant__ float offsets[4] = {1.0f, 2.0f, 3.0f, 4.0f};

// In place: a snapshot taken after the dispatch has the wrong inputs.
extern "C" __global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * factor * gain + offsets[i & 3];
  if (i == 0) launches += 1;
}

// Follows pointers through memory that is not an argument.
extern "C" __global__ void walk(Node* head, float* total) {
  float sum = 0;
  for (Node* node = head; node != nullptr; node = node->next) {
    sum += node->value;
    node->visits += 1;
  }
  *total = sum;
}

// Each workgroup reverses its tile, through dynamic LDS.
extern "C" __global__ void reverse_tile(const float* in, float* out) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

template <typename T>
__global__ void add_to(T* x, const T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += y[i];
}
template __global__ void add_to<float>(float*, const float*, int);

extern "C" __global__ void spin(volatile int* stop) {
  while (*stop == 0) {}
}

extern "C" __global__ void touch(float* far) { *far = 1.0f; }

extern "C" __global__ void count_up(int* cell) {
  for (int i = 0; i < 1000; ++i) __hip_atomic_fetch_add(cell, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
