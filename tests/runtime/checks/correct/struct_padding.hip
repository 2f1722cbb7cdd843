// Structures are copied with their padding, which nobody wrote.
#include "../program.h"
struct Item {
  char kind;
  double value;
};
__global__ void make(Item *items) {
  items[threadIdx.x].kind = 1;
  items[threadIdx.x].value = threadIdx.x;
}
__global__ void copy(const Item *from, Item *to) { to[63 - threadIdx.x] = from[threadIdx.x]; }
int main() {
  Item *a, *b;
  HIP(hipMalloc(&a, 64 * sizeof(Item)));
  HIP(hipMalloc(&b, 64 * sizeof(Item)));
  make<<<1, 64>>>(a);
  copy<<<1, 64>>>(a, b);
  copy<<<1, 64>>>(b, a);
  std::vector<Item> items = host(a, 64);
  HIP(hipFree(a));
  HIP(hipFree(b));
  return ended(items[5].value == 5 && items[5].kind == 1);
}
