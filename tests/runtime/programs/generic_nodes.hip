// Nodes of graphs that are added and changed by their type, and drawn; pools that processes share.
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

__global__ void add(int* x, int value) { x[threadIdx.x] += value; }
__device__ int variable[64];

static void expect(hipError_t error, hipError_t expected) {
  EQUAL(error, expected);
  EQUAL(hipGetLastError(), expected);
}

static hipGraphNode_t node(hipGraph_t graph, std::vector<hipGraphNode_t> from, hipGraphNodeParams params) {
  hipGraphNode_t made;
  HIP(hipGraphAddNode(&made, graph, from.data(), from.size(), &params));
  return made;
}
static hipGraphNodeParams kernel_of(void** arguments) {
  hipGraphNodeParams params{};
  params.type = hipGraphNodeTypeKernel;
  params.kernel.func = reinterpret_cast<void*>(add);
  params.kernel.gridDim = dim3(1);
  params.kernel.blockDim = dim3(64);
  params.kernel.kernelParams = arguments;
  return params;
}
void nodes() {
  int *x = device_array<int>(64), value = 5;
  void* arguments[] = {&x, &value};
  hipGraph_t graph;
  HIP(hipGraphCreate(&graph, 0));
  hipGraphNodeParams fill{}, host{}, empty{};
  fill.type = hipGraphNodeTypeMemset;
  fill.memset = {.dst = x, .elementSize = 4, .height = 1, .value = 100, .width = 64};
  host.type = hipGraphNodeTypeHost;
  static int calls;
  host.host = {[](void* data) { calls += *static_cast<int*>(data); }, &value};
  hipGraphNode_t filled = node(graph, {}, fill), added = node(graph, {filled}, kernel_of(arguments));
  node(graph, {added}, host);
  empty.type = hipGraphNodeTypeEmpty;
  node(graph, {filled}, empty);
  HIP(hipGraphDebugDotPrint(graph, "/tmp/rocm-perf-lab-generic.dot", 0));
  hipGraphExec_t exec;
  HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  HIP(hipGraphLaunch(exec, nullptr));
  EQUAL(to_host(x, 64)[63], 105);
  EQUAL(calls, 5);
  value = 7;
  hipGraphNodeParams changed = kernel_of(arguments);
  HIP(hipGraphExecNodeSetParams(exec, added, &changed));
  HIP(hipGraphLaunch(exec, nullptr));
  EQUAL(to_host(x, 64)[63], 107);
  expect(hipGraphNodeSetParams(filled, &changed), hipErrorInvalidValue);  // of another type
  FILE* file = fopen("/tmp/rocm-perf-lab-generic.dot", "r");
  char text[512] = {};
  TRUE(fread(text, 1, sizeof text - 1, file) > 0);
  fclose(file);
  unlink("/tmp/rocm-perf-lab-generic.dot");
  EQUAL(strcmp(text, "digraph graph_0 {\n  node_0 [label=\"MEMSET\"];\n  node_1 [label=\"_Z3addPii\"];\n  node_2 [label=\"HOST\"];\n"
                     "  node_3 [label=\"EMPTY\"];\n  node_0 -> node_1;\n  node_1 -> node_2;\n  node_0 -> node_3;\n}\n"), 0);
  HIP(hipGraphExecDestroy(exec));
  HIP(hipGraphDestroy(graph));
}
void events_of_nodes() {
  hipEvent_t first, second, found;
  HIP(hipEventCreate(&first));
  HIP(hipEventCreate(&second));
  hipGraph_t graph;
  HIP(hipGraphCreate(&graph, 0));
  hipGraphNode_t record;
  HIP(hipGraphAddEventRecordNode(&record, graph, nullptr, 0, first));
  HIP(hipGraphEventRecordNodeGetEvent(record, &found));
  TRUE(found == first);
  expect(hipGraphEventWaitNodeGetEvent(record, &found), hipErrorInvalidValue);
  hipGraphExec_t exec;
  HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  HIP(hipGraphExecEventRecordNodeSetEvent(exec, record, second));
  HIP(hipGraphLaunch(exec, nullptr));
  HIP(hipEventSynchronize(second));
  float milliseconds;
  expect(hipEventElapsedTime(&milliseconds, first, second), hipErrorInvalidHandle);  // the first one was never recorded
}
void copies_of_variables() {
  std::vector<int> in(64, 9), out(64);
  hipGraph_t graph;
  HIP(hipGraphCreate(&graph, 0));
  hipGraphNode_t to, back;
  HIP(hipGraphAddMemcpyNodeToSymbol(&to, graph, nullptr, 0, HIP_SYMBOL(variable), in.data(), 8, 0, hipMemcpyHostToDevice));
  HIP(hipGraphAddMemcpyNodeFromSymbol(&back, graph, &to, 1, out.data(), HIP_SYMBOL(variable), 8, 0, hipMemcpyDeviceToHost));
  HIP(hipGraphMemcpyNodeSetParamsToSymbol(to, HIP_SYMBOL(variable), in.data(), 4, 252, hipMemcpyHostToDevice));
  HIP(hipGraphMemcpyNodeSetParamsFromSymbol(back, out.data(), HIP_SYMBOL(variable), 8, 248, hipMemcpyDeviceToHost));
  expect(hipGraphMemcpyNodeSetParamsToSymbol(to, HIP_SYMBOL(variable), in.data(), 8, 252, hipMemcpyHostToDevice), hipErrorInvalidValue);
  hipGraphExec_t exec;
  HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  HIP(hipGraphLaunch(exec, nullptr));
  HIP(hipDeviceSynchronize());
  EQUAL(out[0], 0);
  EQUAL(out[1], 9);
}

static hipMemPool_t made_pool() {
  hipMemPoolProps properties{};
  properties.allocType = hipMemAllocationTypePinned;
  properties.handleTypes = hipMemHandleTypePosixFileDescriptor;
  properties.location.type = hipMemLocationTypeDevice;
  hipMemPool_t pool;
  HIP(hipMemPoolCreate(&pool, &properties));
  return pool;
}
// Part of the following check, in a process of its own: descriptors 100 (pool), 101 (data) and 102 (answer).
void import_pool() {
  hipMemPool_t pool;
  HIP(hipMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(intptr_t(100)), hipMemHandleTypePosixFileDescriptor, 0));
  hipMemPoolPtrExportData data;
  EQUAL(read(101, &data, sizeof data), ssize_t(sizeof data));
  int* x;
  HIP(hipMemPoolImportPointer(reinterpret_cast<void**>(&x), pool, &data));
  EQUAL(to_host(x, 64)[63], 40);
  add<<<1, 64>>>(x, 2);
  HIP(hipDeviceSynchronize());
  HIP(hipFree(x));
  EQUAL(write(102, "d", 1), ssize_t(1));
}
void shared_pool() {
  int to_child[2], to_parent[2];
  EQUAL(pipe(to_child) + pipe(to_parent), 0);
  hipMemPool_t pool = made_pool();
  int *x, file = -1;
  HIP(hipMallocFromPoolAsync(reinterpret_cast<void**>(&x), 256, pool, nullptr));
  HIP(hipMemset(x, 0, 256));
  add<<<1, 64>>>(x, 40);
  HIP(hipDeviceSynchronize());
  HIP(hipMemPoolExportToShareableHandle(&file, pool, hipMemHandleTypePosixFileDescriptor, 0));
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    dup2(file, 100), dup2(to_child[0], 101), dup2(to_parent[1], 102);
    execl("/proc/self/exe", "generic_nodes", "import_pool", static_cast<char*>(nullptr));
    _exit(9);
  }
  hipMemPoolPtrExportData data;
  HIP(hipMemPoolExportPointer(&data, x));
  EQUAL(write(to_child[1], &data, sizeof data), ssize_t(sizeof data));
  char done;
  EQUAL(read(to_parent[0], &done, 1), ssize_t(1));
  int status;
  EQUAL(waitpid(child, &status, 0), child);
  EQUAL(status, 0);
  EQUAL(to_host(x, 64)[63], 42);
  int* own;
  HIP(hipMalloc(&own, 64));
  expect(hipMemPoolExportPointer(&data, own), hipErrorInvalidValue);  // of no pool
  HIP(hipFreeAsync(x, nullptr));
  HIP(hipMemPoolDestroy(pool));
  close(file);
}

int main(int argc, char** argv) {
  if (argc == 2 && !strcmp(argv[1], "import_pool")) return run_checks(argc, argv, {{"import_pool", import_pool}});
  return run_checks(argc, argv, {{"nodes", nodes}, {"events_of_nodes", events_of_nodes}, {"copies_of_variables", copies_of_variables},
                                 {"shared_pool", shared_pool}});
}
