// Several processes share device memory: handles travel through pipes, workers write their part of the buffer.
#include <hip/hip_runtime.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

static void require(bool condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "%s failed\n", what);
  _exit(1);
}
#define HIP(x) require((x) == hipSuccess, #x)

constexpr int WORKERS = 3, PART = 4000;

__global__ void work(int* data, int worker) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < PART) data[i] = data[i] * 2 + worker;
}

static int worker_process(int worker, int from_parent) {
  hipIpcMemHandle_t handle;
  require(read(from_parent, &handle, sizeof handle) == sizeof handle, "read");
  int* data;
  HIP(hipIpcOpenMemHandle(reinterpret_cast<void**>(&data), handle, hipIpcMemLazyEnablePeerAccess));
  work<<<(PART + 255) / 256, 256>>>(data + worker * PART, worker);
  HIP(hipGetLastError());
  HIP(hipDeviceSynchronize());
  HIP(hipIpcCloseMemHandle(data));
  return 0;
}

int main() {
  int pipes[WORKERS][2];
  pid_t children[WORKERS];
  for (int w = 0; w < WORKERS; w++) {  // fork before the first HIP call: the runtime's state is not shared
    require(pipe(pipes[w]) == 0, "pipe");
    children[w] = fork();
    require(children[w] >= 0, "fork");
    if (children[w] == 0) return worker_process(w, pipes[w][0]);
  }
  const int n = WORKERS * PART;
  std::vector<int> host(n);
  for (int i = 0; i < n; i++) host[i] = i;
  int* data;
  HIP(hipMalloc(&data, n * sizeof(int)));
  HIP(hipMemcpy(data, host.data(), n * sizeof(int), hipMemcpyHostToDevice));
  hipIpcMemHandle_t handle;
  HIP(hipIpcGetMemHandle(&handle, data));
  int failed = 0;
  for (int w = 0; w < WORKERS; w++) require(write(pipes[w][1], &handle, sizeof handle) == sizeof handle, "write");
  for (int w = 0; w < WORKERS; w++) {
    int status = 0;
    require(waitpid(children[w], &status, 0) == children[w], "waitpid");
    failed += status != 0;
  }
  HIP(hipMemcpy(host.data(), data, n * sizeof(int), hipMemcpyDeviceToHost));
  HIP(hipFree(data));
  int wrong = 0;
  for (int i = 0; i < n; i++) wrong += host[i] != 2 * i + i / PART;
  printf("ipc: %d workers, %d failed, %d elements wrong\n", WORKERS, failed, wrong);
  return failed || wrong ? 1 : 0;
}
