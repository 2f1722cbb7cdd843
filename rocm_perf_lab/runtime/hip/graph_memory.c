// Memory of graphs: an allocation node has it as long as the node or a clone of it exists, so that every launch sees the same address.
// Launches of a graph do not allocate and free: the nodes order the work only.
#define _GNU_SOURCE
#include <stdlib.h>

#include "graph.h"

struct hip_graph_memory {
  uint64_t address, bytes, id;    // id: of the block
  struct hip_device *device;
  atomic_uint references;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t reserved[HIP_MAX_DEVICES], reserved_high[HIP_MAX_DEVICES];

static void count(const struct hip_graph_memory *memory, int is_new) {
  uint64_t *sum = &reserved[memory->device->index], *high = &reserved_high[memory->device->index];
  uint64_t whole = (memory->bytes + HIP_PAGE_BYTES - 1) / HIP_PAGE_BYTES * HIP_PAGE_BYTES;
  pthread_mutex_lock(&lock);
  *sum = is_new ? *sum + whole : *sum - whole;
  if (*sum > *high) *high = *sum;
  pthread_mutex_unlock(&lock);
}

void hip_graph_memory_forget(void) {
  pthread_mutex_init(&lock, NULL);
  for (int i = 0; i < HIP_MAX_DEVICES; i++) reserved[i] = reserved_high[i] = 0;
}

struct hip_graph_memory *hip_graph_memory_hold(struct hip_graph_memory *memory) {
  if (memory) atomic_fetch_add(&memory->references, 1);
  return memory;
}

void hip_graph_memory_release(struct hip_graph_memory *memory) {
  struct hip_memory block;
  if (!memory || atomic_fetch_sub(&memory->references, 1) != 1) return;
  count(memory, 0);
  // The application may have freed it, and the address may belong to another block.
  if (hip_memory_find((const void *)memory->address, &block) && block.id == memory->id) {
    hip_device_synchronize(memory->device);
    hip_memory_free(memory->address);
  }
  free(memory);
}

static struct hip_graph_memory *create(struct hip_device *device, uint64_t bytes) {
  struct hip_memory block;
  struct hip_graph_memory *memory = calloc(1, sizeof *memory);
  if (!memory || hip_memory_allocate(device, HIP_MEMORY_DEVICE, bytes, 0, 0, &block) != hipSuccess) {
    free(memory);
    return NULL;
  }
  hip_memory_find((const void *)block.address, &block);  // its number
  *memory = (struct hip_graph_memory){.address = block.address, .bytes = bytes, .id = block.id, .device = device};
  atomic_store(&memory->references, 1);
  count(memory, 1);
  return memory;
}

static int is_of_graph(const struct ihipGraph *graph, const hipGraphNode_t *from, size_t count_) {
  if (!hip_is_graph(graph) || (count_ && !from)) return 0;
  for (size_t k = 0; k < count_; k++)
    if (!from[k] || from[k]->graph != graph) return 0;
  return 1;
}

HIP_API hipError_t hipGraphAddMemAllocNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count_,
                                           hipMemAllocNodeParams *params) {
  HIP_ENTER();
  if (!node || !params || !params->bytesize || !is_of_graph(graph, from, count_)) HIP_RETURN(hipErrorInvalidValue);
  struct hip_device *device = hip_device_at(params->poolProps.location.id);
  if (params->poolProps.allocType != hipMemAllocationTypePinned || params->poolProps.location.type != hipMemLocationTypeDevice || !device)
    HIP_RETURN(hipErrorInvalidValue);
  struct hip_graph_memory *memory = create(device, params->bytesize);
  if (!memory) HIP_RETURN(hipErrorOutOfMemory);
  *node = hip_node_add(graph, hipGraphNodeTypeMemAlloc, from, count_);
  if (!*node) {
    hip_graph_memory_release(memory);
    HIP_RETURN(hipErrorOutOfMemory);
  }
  (*node)->memory = memory;
  params->dptr = (void *)memory->address;
  return hipSuccess;
}

HIP_API hipError_t hipGraphMemAllocNodeGetParams(hipGraphNode_t node, hipMemAllocNodeParams *params) {
  HIP_ENTER();
  if (!node || !params || !node->memory) HIP_RETURN(hipErrorInvalidValue);
  *params = (hipMemAllocNodeParams){.bytesize = node->memory->bytes, .dptr = (void *)node->memory->address};
  params->poolProps.allocType = hipMemAllocationTypePinned;
  params->poolProps.location = (hipMemLocation){hipMemLocationTypeDevice, node->memory->device->index};
  return hipSuccess;
}

HIP_API hipError_t hipGraphAddMemFreeNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count_, void *address) {
  HIP_ENTER();
  if (!node || !address || !is_of_graph(graph, from, count_)) HIP_RETURN(hipErrorInvalidValue);
  *node = hip_node_add(graph, hipGraphNodeTypeMemFree, from, count_);
  if (!*node) HIP_RETURN(hipErrorOutOfMemory);
  (*node)->freed = address;
  return hipSuccess;
}

HIP_API hipError_t hipGraphMemFreeNodeGetParams(hipGraphNode_t node, void *address) {
  HIP_ENTER();
  if (!node || !address || node->type != hipGraphNodeTypeMemFree) HIP_RETURN(hipErrorInvalidValue);
  *(void **)address = node->freed;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetGraphMemAttribute(int index, hipGraphMemAttributeType attribute, void *value) {
  HIP_ENTER();
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  if (!value) HIP_RETURN(hipErrorInvalidValue);
  switch (attribute) {
    case hipGraphMemAttrUsedMemCurrent: *(uint64_t *)value = 0; return hipSuccess;  // no launch is in progress, as far as graphs free
    case hipGraphMemAttrReservedMemCurrent: *(uint64_t *)value = reserved[index]; return hipSuccess;
    case hipGraphMemAttrUsedMemHigh: case hipGraphMemAttrReservedMemHigh: *(uint64_t *)value = reserved_high[index]; return hipSuccess;
    default: HIP_RETURN(hipErrorInvalidValue);
  }
}

HIP_API hipError_t hipDeviceSetGraphMemAttribute(int index, hipGraphMemAttributeType attribute, void *value) {
  HIP_ENTER();
  int is_high = attribute == hipGraphMemAttrUsedMemHigh || attribute == hipGraphMemAttrReservedMemHigh;
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  if (!value || !is_high || *(uint64_t *)value) HIP_RETURN(hipErrorInvalidValue);  // they can be reset only
  reserved_high[index] = reserved[index];
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGraphMemTrim(int index) {
  HIP_ENTER();
  HIP_RETURN(hip_device_at(index) ? hipSuccess : hipErrorInvalidDevice);
}
