// Managed memory: a linked structure that host and device both change, a __managed__ counter, advice and prefetch.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <new>

static void check(hipError_t status, const char* file, int line) {
  if (status != hipSuccess) {
    fprintf(stderr, "%s(%d): %s\n", file, line, hipGetErrorString(status));
    exit(1);
  }
}
#define CHECK(s) check(s, __FILE__, __LINE__)

struct Managed {  // objects of derived classes live in managed memory
  void* operator new(size_t size) {
    void* p;
    CHECK(hipMallocManaged(&p, size));
    return p;
  }
  void operator delete(void* p) { CHECK(hipFree(p)); }
};

struct Matrix : Managed {
  int rows, columns;
  float* data;
  Matrix(int r, int c) : rows(r), columns(c) {
    CHECK(hipMallocManaged(&data, r * c * sizeof(float), hipMemAttachGlobal));
    for (int i = 0; i < r * c; i++) data[i] = float(i % 10);
  }
  ~Matrix() { CHECK(hipFree(data)); }
  __host__ __device__ float& at(int r, int c) { return data[r * columns + c]; }
};

__managed__ int visits = 100;

__global__ void add_transposed(Matrix* m, Matrix* t) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r >= m->rows || c >= m->columns) return;
  m->at(r, c) += t->at(c, r);
  if (r == c) atomicAdd(&visits, 1);
}

int main() {
  int wrong = 0;
  {
    Matrix *m = new Matrix(60, 45), *t = new Matrix(45, 60);
    int device = 0;
    CHECK(hipGetDevice(&device));
    CHECK(hipMemAdvise(t->data, 45 * 60 * sizeof(float), hipMemAdviseSetReadMostly, device));
    CHECK(hipMemPrefetchAsync(m->data, 60 * 45 * sizeof(float), device, nullptr));
    for (int round = 0; round < 3; round++) {
      add_transposed<<<dim3(6, 8), dim3(8, 8)>>>(m, t);
      CHECK(hipGetLastError());
      CHECK(hipDeviceSynchronize());
      m->at(round, round) = 0;  // the host writes between the launches
      visits += 1000;
    }
    for (int r = 0; r < 60; r++)
      for (int c = 0; c < 45; c++) {
        const int added = (c * 60 + r) % 10;
        const int expected = r == c && r < 3 ? (2 - r) * added : (r * 45 + c) % 10 + 3 * added;
        wrong += m->at(r, c) != expected;
      }
    delete m;
    delete t;
  }
  printf("managed: visits %d, %d wrong\n", visits, wrong);
  return wrong == 0 && visits == 100 + 3 * 45 + 3000 ? 0 : 1;
}
