// Memory nodes of graphs, objects that graphs keep, and entry points by name.
#include <cstdint>

#include "check.h"

__global__ void fill(int* p, int value) { p[threadIdx.x] = value; }

static hipGraphNode_t allocation(hipGraph_t graph, size_t bytes, int** address) {
  hipMemAllocNodeParams params{};
  params.poolProps.allocType = hipMemAllocationTypePinned;
  params.poolProps.location = {hipMemLocationTypeDevice, 0};
  params.bytesize = bytes;
  hipGraphNode_t node = nullptr;
  HIP(hipGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
  *address = static_cast<int*>(params.dptr);
  return node;
}

// allocate -> kernel -> copy to the host -> free; the graph is destroyed before it runs.
static void memory_nodes() {
  hipGraph_t graph;
  HIP(hipGraphCreate(&graph, 0));
  int* memory = nullptr;
  int out[64] = {};
  hipGraphNode_t allocated = allocation(graph, sizeof out, &memory), ran, copied, freed;
  int value = 7;
  void* arguments[] = {&memory, &value};
  hipKernelNodeParams launch{};
  launch.func = reinterpret_cast<void*>(fill);
  launch.gridDim = dim3(1);
  launch.blockDim = dim3(64);
  launch.kernelParams = arguments;
  HIP(hipGraphAddKernelNode(&ran, graph, &allocated, 1, &launch));
  HIP(hipGraphAddMemcpyNode1D(&copied, graph, &ran, 1, out, memory, sizeof out, hipMemcpyDeviceToHost));
  HIP(hipGraphAddMemFreeNode(&freed, graph, &copied, 1, memory));
  hipMemAllocNodeParams back{};
  void* address = nullptr;
  HIP(hipGraphMemAllocNodeGetParams(allocated, &back));
  HIP(hipGraphMemFreeNodeGetParams(freed, &address));
  TRUE(back.dptr == memory && back.bytesize == sizeof out && address == memory);
  hipGraphNodeType first, last;
  HIP(hipGraphNodeGetType(allocated, &first));
  HIP(hipGraphNodeGetType(freed, &last));
  TRUE(first == hipGraphNodeTypeMemAlloc && last == hipGraphNodeTypeMemFree);
  hipGraphExec_t exec;
  HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  HIP(hipGraphDestroy(graph));
  for (int round = 0; round < 2; round++) {
    memset(out, 0, sizeof out);
    HIP(hipGraphLaunch(exec, nullptr));
    HIP(hipDeviceSynchronize());
    TRUE(out[0] == 7 && out[63] == 7);
  }
  uint64_t reserved = 0;
  HIP(hipDeviceGetGraphMemAttribute(0, hipGraphMemAttrReservedMemHigh, &reserved));
  TRUE(reserved >= sizeof out);
  HIP(hipGraphExecDestroy(exec));
  HIP(hipDeviceGraphMemTrim(0));
}

static void user_objects() {
  int calls = 0;
  hipUserObject_t object;
  auto count = [](void* data) { ++*static_cast<int*>(data); };
  HIP(hipUserObjectCreate(&object, &calls, count, 1, hipUserObjectNoDestructorSync));
  HIP(hipUserObjectRetain(object, 1));
  HIP(hipUserObjectRelease(object, 1));
  TRUE(calls == 0);
  hipGraph_t graph;
  HIP(hipGraphCreate(&graph, 0));
  HIP(hipGraphRetainUserObject(graph, object, 1, hipGraphUserObjectMove));
  HIP(hipGraphDestroy(graph));
  TRUE(calls == 1);
}

static void entry_points() {
  void* function = nullptr;
  hipDriverProcAddressQueryResult result;
  HIP(hipGetProcAddress("hipGetDeviceCount", &function, 60000, 0, &result));
  int count = 0;
  HIP(reinterpret_cast<hipError_t (*)(int*)>(function)(&count));
  TRUE(count == 1 && result == HIP_GET_PROC_ADDRESS_SUCCESS);
  TRUE(hipGetProcAddress("hipNothing", &function, 60000, 0, &result) == hipErrorInvalidValue);
  TRUE(function == nullptr && result == HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  (void)hipGetLastError();
}

// The GPU has no image instructions: textures are refused, and their destruction is not.
static void no_images() {
  hipChannelFormatDesc format = hipCreateChannelDesc<float>();
  TRUE(format.x == 32 && format.y == 0 && format.f == hipChannelFormatKindFloat);
  hipArray_t array = nullptr;
  TRUE(hipMallocArray(&array, &format, 64, 64, 0) == hipErrorNotSupported);
  TRUE(hipMallocArray(nullptr, &format, 64, 64, 0) == hipErrorInvalidValue);
  TRUE(hipFreeArray(nullptr) == hipErrorInvalidValue);
  (void)hipGetLastError();
  HIP(hipDestroyTextureObject(0));
}

static void range_attributes() {
  int* managed = nullptr;
  HIP(hipMallocManaged(&managed, 4096));
  HIP(hipMemAdvise(managed, 4096, hipMemAdviseSetReadMostly, 0));
  int mostly = -7, location = -7;
  void* values[] = {&mostly, &location};
  size_t sizes[] = {sizeof mostly, sizeof location};
  hipMemRangeAttribute attributes[] = {hipMemRangeAttributeReadMostly, hipMemRangeAttributePreferredLocation};
  HIP(hipMemRangeGetAttributes(values, sizes, attributes, 2, managed, 4096));
  TRUE(mostly == 1 && location == hipInvalidDeviceId);
  HIP(hipFree(managed));
}

int main(int argc, char** argv) {
  return run_checks(argc, argv, {
    {"memory_nodes", memory_nodes}, {"user_objects", user_objects}, {"entry_points", entry_points},
    {"no_images", no_images}, {"range_attributes", range_attributes},
  });
}
