// Structures with padding and a union are copied whole; the padding and the other half of the union are never written.
#include "../../program.h"
struct Particle {
  char kind;
  double mass;
  union {
    float charge;
    double spin[2];
  };
  short tag;
};
__global__ void create(Particle *to) {
  Particle *p = &to[threadIdx.x];
  p->kind = threadIdx.x % 3;
  p->mass = threadIdx.x;
  if (p->kind == 0) p->charge = 1;
  else p->spin[0] = p->spin[1] = 0.5;
  p->tag = -1;
}
__global__ void compact(const Particle *from, Particle *to) {
  __shared__ Particle staged[64];
  staged[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = staged[63 - threadIdx.x];
}
__global__ void weigh(const Particle *from, double *sum) {
  const Particle &p = from[threadIdx.x];
  double value = p.kind == 0 ? p.mass * p.charge : p.mass * (p.spin[0] + p.spin[1]);
  atomicAdd(sum, value);
}
int main() {
  Particle *a, *b;
  HIP(hipMalloc(&a, 64 * sizeof(Particle)));
  HIP(hipMalloc(&b, 64 * sizeof(Particle)));
  double *sum = device(std::vector<double>(1));
  create<<<1, 64>>>(a);
  compact<<<1, 64>>>(a, b);
  HIP(hipMemcpy(a, b, 64 * sizeof(Particle), hipMemcpyDeviceToDevice));
  weigh<<<1, 64>>>(a, sum);
  bool right = host(sum, 1)[0] == 63 * 64 / 2;
  host(b, 64);
  HIP(hipFree(a));
  HIP(hipFree(b));
  HIP(hipFree(sum));
  return ended(right);
}
