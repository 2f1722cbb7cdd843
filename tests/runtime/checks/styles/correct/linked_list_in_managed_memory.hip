// The host builds a linked list in managed memory, a kernel walks and changes it, the host reads it afterwards.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <new>

struct Node {
  int value;
  Node *next;
  static void *operator new(size_t bytes) {
    void *p;
    if (hipMallocManaged(&p, bytes) != hipSuccess) throw std::bad_alloc();
    return p;
  }
  static void operator delete(void *p) { (void)hipFree(p); }
};

__global__ void add(Node *head, int amount) {
  if (threadIdx.x == 0)
    for (Node *node = head; node; node = node->next) node->value += amount;
}

int main() {
  Node *head = nullptr;
  for (int i = 0; i < 10; i++) head = new Node{i, head};
  add<<<1, 64>>>(head, 5);
  add<<<1, 64>>>(head, 7);
  if (hipStreamSynchronize(nullptr) != hipSuccess) return 1;
  int sum = 0;
  while (head) {
    Node *next = head->next;
    sum += head->value;
    delete head;
    head = next;
  }
  if (sum != 45 + 120) return 2;
  std::puts("right");
}
