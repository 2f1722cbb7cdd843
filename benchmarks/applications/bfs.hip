// Breadth-first search of a grid graph with obstacles and long-range edges: queues of vertices per level.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <utility>
#include <vector>

template <typename T>
T* upload(const std::vector<T>& values) {
  T* memory = nullptr;
  if (hipMalloc((void**)&memory, values.size() * sizeof(T)) != hipSuccess ||
      hipMemcpy(memory, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice) != hipSuccess) {
    std::fprintf(stderr, "upload: %s\n", hipGetErrorString(hipGetLastError()));
    std::exit(1);
  }
  return memory;
}
static void require(hipError_t error) {
  if (error == hipSuccess) return;
  std::fprintf(stderr, "%s\n", hipGetErrorString(error));
  std::exit(1);
}

__global__ void expand(const int* row, const int* column, const int* queue, int size, int* next, int* next_size, int* level, int depth) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= size) return;
  const int v = queue[i];
  for (int e = row[v]; e < row[v + 1]; e++) {
    const int w = column[e];
    if (atomicCAS(&level[w], -1, depth) == -1) next[atomicAdd(next_size, 1)] = w;
  }
}

int main() {
  const int side = 64, n = side * side;
  std::mt19937 random(11);
  std::vector<bool> wall(n);
  for (int v = 1; v < n; v++) wall[v] = random() % 4 == 0;
  std::vector<int> row(n + 1), column;
  for (int v = 0; v < n; v++) {
    row[v] = int(column.size());
    if (!wall[v]) {
      const int x = v % side, y = v / side;
      const int neighbours[] = {x > 0 ? v - 1 : -1, x < side - 1 ? v + 1 : -1, y > 0 ? v - side : -1, y < side - 1 ? v + side : -1,
                                random() % 50 == 0 ? int(random() % n) : -1};
      for (int w : neighbours)
        if (w >= 0 && !wall[w]) column.push_back(w);
    }
  }
  row[n] = int(column.size());
  std::vector<int> level(n, -1), expected(n, -1);
  level[0] = expected[0] = 0;
  std::deque<int> todo = {0};
  while (!todo.empty()) {
    const int v = todo.front();
    todo.pop_front();
    for (int e = row[v]; e < row[v + 1]; e++)
      if (expected[column[e]] < 0) {
        expected[column[e]] = expected[v] + 1;
        todo.push_back(column[e]);
      }
  }
  int *d_row = upload(row), *d_column = upload(column), *d_level = upload(level);
  int *queue = upload(std::vector<int>(n, 0)), *next = upload(std::vector<int>(n, 0)), *d_size = upload(std::vector<int>(1, 0));
  int size = 1, depth = 0;
  while (size > 0) {
    require(hipMemset(d_size, 0, sizeof(int)));
    expand<<<(size + 127) / 128, 128>>>(d_row, d_column, queue, size, next, d_size, d_level, ++depth);
    require(hipGetLastError());
    require(hipMemcpy(&size, d_size, sizeof(int), hipMemcpyDeviceToHost));
    std::swap(queue, next);
  }
  require(hipMemcpy(level.data(), d_level, n * sizeof(int), hipMemcpyDeviceToHost));
  int reached = 0;
  for (int l : level) reached += l >= 0;
  std::printf("bfs: %d of %d vertices in %d levels, %s\n", reached, n, depth - 1, level == expected ? "correct" : "WRONG");
  for (int* memory : {d_row, d_column, d_level, queue, next, d_size}) require(hipFree(memory));
  return level == expected ? 0 : 1;
}
