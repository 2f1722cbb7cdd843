// Exported functions that belong to no other part: entry points by name, profilers, contexts, user objects.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

// ---- entry points ----

HIP_API hipError_t hipGetProcAddress(const char *name, void **function, int version, uint64_t flags, hipDriverProcAddressQueryResult *result) {
  HIP_ENTER();
  (void)version, (void)flags;
  if (!name || !function) HIP_RETURN(hipErrorInvalidValue);
  Dl_info here;
  void *library = dladdr((void *)hipGetProcAddress, &here) ? dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
  *function = library && strncmp(name, "hip", 3) == 0 ? dlsym(library, name) : NULL;
  if (library) dlclose(library);
  if (result) *result = *function ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  HIP_RETURN(*function ? hipSuccess : hipErrorInvalidValue);
}

// ---- profilers: AMD's runtime refuses them, too ----

HIP_API hipError_t hipProfilerStart(void) {
  HIP_ENTER();
  HIP_RETURN(hipErrorNotSupported);
}

HIP_API hipError_t hipProfilerStop(void) {
  HIP_ENTER();
  HIP_RETURN(hipErrorNotSupported);
}

// ---- compute units: streams use all of them ----

HIP_API hipError_t hipExtStreamGetCUMask(hipStream_t handle, uint32_t words, uint32_t *mask) {
  enum { WORD_BITS = 32 };
  HIP_ENTER();
  struct ihipStream_t *stream;
  hipError_t error = hip_stream_of(handle, &stream);
  if (error != hipSuccess) HIP_RETURN(error);
  uint32_t units = stream->device->compute_units;
  if (!mask || words < (units + WORD_BITS - 1) / WORD_BITS) HIP_RETURN(hipErrorInvalidValue);
  for (uint32_t k = 0; k < words; k++) mask[k] = units >= (k + 1) * WORD_BITS ? UINT32_MAX : units > k * WORD_BITS ? (1u << units % WORD_BITS) - 1 : 0;
  return hipSuccess;
}

// ---- contexts: as in AMD's runtime, the rest is not supported ----

HIP_API hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig *config) {
  HIP_ENTER();
  if (!config) HIP_RETURN(hipErrorInvalidValue);
  *config = hipSharedMemBankSizeFourByte;
  return hipSuccess;
}

// ---- objects of the application that graphs keep ----

struct hipUserObject {            // *hipUserObject_t
  void *object;
  hipHostFn_t destroy;
  atomic_uint references;
};

static void let_go(struct hipUserObject *object, unsigned number) {
  if (atomic_fetch_sub(&object->references, number) != number) return;
  object->destroy(object->object);
  free(object);
}

HIP_API hipError_t hipUserObjectCreate(hipUserObject_t *result, void *object, hipHostFn_t destroy, unsigned references, unsigned flags) {
  HIP_ENTER();
  if (!result || !destroy || !references || flags != hipUserObjectNoDestructorSync) HIP_RETURN(hipErrorInvalidValue);
  struct hipUserObject *made = calloc(1, sizeof *made);
  if (!made) HIP_RETURN(hipErrorOutOfMemory);
  *made = (struct hipUserObject){.object = object, .destroy = destroy};
  atomic_store(&made->references, references);
  *result = made;
  return hipSuccess;
}

HIP_API hipError_t hipUserObjectRetain(hipUserObject_t object, unsigned number) {
  HIP_ENTER();
  if (!object || !number) HIP_RETURN(hipErrorInvalidValue);
  atomic_fetch_add(&object->references, number);
  return hipSuccess;
}

HIP_API hipError_t hipUserObjectRelease(hipUserObject_t object, unsigned number) {
  HIP_ENTER();
  if (!object || !number || atomic_load(&object->references) < number) HIP_RETURN(hipErrorInvalidValue);
  let_go(object, number);
  return hipSuccess;
}

HIP_API hipError_t hipGraphRetainUserObject(hipGraph_t graph, hipUserObject_t object, unsigned number, unsigned flags) {
  HIP_ENTER();
  if (!hip_is_graph(graph) || !object || !number || (flags && flags != hipGraphUserObjectMove)) HIP_RETURN(hipErrorInvalidValue);
  struct hip_graph_object *kept = calloc(1, sizeof *kept);
  if (!kept) HIP_RETURN(hipErrorOutOfMemory);
  if (!flags) atomic_fetch_add(&object->references, number);
  *kept = (struct hip_graph_object){object, number, graph->objects};
  graph->objects = kept;
  return hipSuccess;
}

HIP_API hipError_t hipGraphReleaseUserObject(hipGraph_t graph, hipUserObject_t object, unsigned number) {
  HIP_ENTER();
  if (!hip_is_graph(graph) || !object || !number) HIP_RETURN(hipErrorInvalidValue);
  for (struct hip_graph_object *kept = graph->objects; kept; kept = kept->next) {
    if (kept->object != object || kept->number < number) continue;
    kept->number -= number;
    let_go(object, number);
    return hipSuccess;
  }
  HIP_RETURN(hipErrorInvalidValue);
}

void hip_graph_objects_release(struct ihipGraph *graph) {
  while (graph->objects) {
    struct hip_graph_object *kept = graph->objects;
    graph->objects = kept->next;
    if (kept->number) let_go(kept->object, kept->number);
    free(kept);
  }
}
