// malloc, free, new, printf and assert on the device; a list is built by one kernel and consumed by the next.
#include <hip/hip_runtime.h>
#include <cassert>
#include <cstdio>

struct Item {
  int value;
  Item *next;
};

__global__ void build(Item **head, int n) {
  if (threadIdx.x || blockIdx.x) return;
  *head = nullptr;
  for (int i = 0; i < n; i++) {
    Item *item = static_cast<Item *>(malloc(sizeof(Item)));
    assert(item != nullptr);
    item->value = i;
    item->next = *head;
    *head = item;
  }
}
__global__ void consume(Item **head, int *sum) {
  if (threadIdx.x) return;
  int total = 0;
  for (Item *item = *head; item;) {
    Item *next = item->next;
    total += item->value;
    free(item);
    item = next;
  }
  *sum = total;
  printf("sum on the device: %d\n", total);
}

int main() {
  Item **head;
  int *sum, result;
  if (hipMalloc((void **)&head, sizeof *head) != hipSuccess || hipMalloc((void **)&sum, sizeof *sum) != hipSuccess) return 1;
  hipLaunchKernelGGL(build, 2, 64, 0, 0, head, 20);
  hipLaunchKernelGGL(consume, 1, 64, 0, 0, head, sum);
  if (hipMemcpy(&result, sum, sizeof result, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  if (hipFree(head) != hipSuccess || hipFree(sum) != hipSuccess || result != 190) return 2;
  std::puts("right");
}
