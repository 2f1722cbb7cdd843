// Executable graphs. The nodes of a launch run one after the other in the stream, in an order that their dependencies allow.
#define _GNU_SOURCE
#include <stdlib.h>

#include "graph.h"

enum { WORD_BITS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hipGraphExec *executables;

int hip_is_exec(const struct hipGraphExec *exec) {
  pthread_mutex_lock(&lock);
  const struct hipGraphExec *at = executables;
  while (at && at != exec) at = at->next;
  pthread_mutex_unlock(&lock);
  return exec && at;
}

struct hipGraphNode *hip_exec_node(const struct hipGraphExec *exec, const struct hipGraphNode *node) {
  return node ? hip_graph_clone_of(exec->graph, node) : NULL;
}

static hipError_t instantiate(struct hipGraphExec **result, const struct ihipGraph *graph, unsigned long long flags) {
  if (!result || !hip_is_graph(graph)) return hipErrorInvalidValue;
  struct hipGraphExec *exec = calloc(1, sizeof *exec);
  if (!exec) return hipErrorOutOfMemory;
  exec->graph = hip_graph_clone(graph);
  exec->order = exec->graph ? hip_graph_order(exec->graph) : NULL;
  exec->flags = flags;
  if (!exec->order) {
    if (exec->graph) hip_graph_destroy(exec->graph);
    free(exec);
    return hipErrorInvalidValue;
  }
  exec->graph->is_part = 1;
  pthread_mutex_lock(&lock);
  exec->next = executables;
  executables = exec;
  pthread_mutex_unlock(&lock);
  *result = exec;
  return hipSuccess;
}

static hipError_t destroy(struct hipGraphExec *exec) {
  pthread_mutex_lock(&lock);
  struct hipGraphExec **at = &executables;
  while (*at && *at != exec) at = &(*at)->next;
  int found = exec && *at;
  if (found) *at = exec->next;
  pthread_mutex_unlock(&lock);
  if (!found) return hipErrorInvalidValue;
  for (int k = 0; k < HIP_MAX_DEVICES; k++)
    if (exec->others[k]) hip_stream_destroy(exec->others[k]);
  hip_graph_destroy(exec->graph);
  free(exec->order);
  free(exec);
  return hipSuccess;
}

// ---- launch ----

// Makes `after` wait for all that was submitted to `before`.
static hipError_t follow(struct ihipStream_t *after, struct ihipStream_t *before) {
  struct hip_signal *marker = hip_stream_marker(before);
  hipError_t error = marker ? hip_stream_wait_signal(after, marker) : hipSuccess;
  hip_signal_release(marker);
  return error;
}

static hipError_t execute_elsewhere(struct hipGraphExec *exec, struct ihipStream_t *stream, const struct hip_operation *operation) {
  struct hip_device *device = operation->kernel.function->device;
  struct ihipStream_t **other = &exec->others[device->index];
  if (!*other) HIP_TRY(hip_stream_create(device, hipStreamNonBlocking, 0, other));
  HIP_TRY(follow(*other, stream));
  HIP_TRY(hip_execute(*other, operation));
  return follow(stream, *other);
}

static hipError_t run(struct hipGraphExec *exec, struct hipGraphNode *const *order, uint32_t count, struct ihipStream_t *stream);

static hipError_t run_child(struct hipGraphExec *exec, const struct ihipGraph *child, struct ihipStream_t *stream) {
  struct hipGraphNode **order = hip_graph_order(child);
  if (!order) return hipErrorOutOfMemory;
  hipError_t error = run(exec, order, child->count, stream);
  free(order);
  return error;
}

static hipError_t run_node(struct hipGraphExec *exec, const struct hipGraphNode *node, struct ihipStream_t *stream) {
  if (node->is_disabled || (node->operation.kind == HIP_OPERATION_EMPTY && !node->child)) return hipSuccess;
  int is_elsewhere = node->operation.kind == HIP_OPERATION_KERNEL && node->operation.kernel.function->device != stream->device;
  if (node->child) return run_child(exec, node->child, stream);
  return is_elsewhere ? execute_elsewhere(exec, stream, &node->operation) : hip_execute(stream, &node->operation);
}

static hipError_t run(struct hipGraphExec *exec, struct hipGraphNode *const *order, uint32_t count, struct ihipStream_t *stream) {
  for (uint32_t k = 0; k < count; k++) HIP_TRY(run_node(exec, order[k], stream));
  return hipSuccess;
}

// ---- launch for the checks of the driver ----

struct node_set { uint64_t words[HIP_NODE_WORDS]; };

// The nodes that node k of the order depends on.
static struct node_set ancestors_of(struct hipGraphNode *const *order, uint32_t k, const struct node_set *known) {
  struct node_set found = {0};
  for (uint32_t d = 0; d < order[k]->from_count; d++) {
    uint32_t from = 0;
    while (from < k && order[from] != order[k]->from[d]) from++;
    if (from == k) continue;
    found.words[from / WORD_BITS] |= UINT64_C(1) << from % WORD_BITS;
    for (int w = 0; w < HIP_NODE_WORDS; w++) found.words[w] |= known[from].words[w];
  }
  return found;
}

// Slices of a copy or fill of boxes are looked at as rows of one.
static void tell_box(const struct hip_box *box, uint64_t width, uint64_t height, uint64_t depth, int writes) {
  for (uint64_t z = 0; z < depth; z++) hip_driver_node_accesses(box->address + z * box->slice, width, height, box->pitch, writes);
}

static void tell_accesses(const struct hip_operation *operation) {
  const struct hip_copy *copy = &operation->copy;
  const struct hip_fill *fill = &operation->fill;
  if (operation->kind == HIP_OPERATION_COPY) {
    tell_box(&copy->to, copy->width, copy->height, copy->depth, 1);
    tell_box(&copy->from, copy->width, copy->height, copy->depth, 0);
  } else if (operation->kind == HIP_OPERATION_FILL) {
    tell_box(&fill->to, fill->width, fill->height, fill->depth, 1);
  }
}

static hipError_t run_watched(struct hipGraphExec *exec, struct ihipStream_t *stream) {
  struct node_set *known = calloc(HIP_WATCHED_NODES, sizeof *known);
  if (!known) return hipErrorOutOfMemory;
  hipError_t error = hipSuccess;
  for (uint32_t k = 0; k < exec->graph->count && error == hipSuccess; k++) {
    known[k] = ancestors_of(exec->order, k, known);
    hip_driver_begin_node(k, known[k].words);
    if (!exec->order[k]->is_disabled) tell_accesses(&exec->order[k]->operation);
    error = run_node(exec, exec->order[k], stream);
    hip_driver_end_node();
  }
  free(known);
  return error;
}

static hipError_t launch(struct hipGraphExec *exec, hipStream_t handle) {
  struct ihipStream_t *stream;
  if (!hip_is_exec(exec)) return hipErrorInvalidValue;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (stream->capture) return hipErrorStreamCaptureUnsupported;
  if (exec->graph->count <= HIP_WATCHED_NODES && hip_driver_watches_graph()) return run_watched(exec, stream);
  return run(exec, exec->order, exec->graph->count, stream);
}

// ---- update ----

static hipGraphExecUpdateResult update_node(struct hipGraphNode *to, const struct hipGraphNode *from) {
  if (to->type != from->type) return hipGraphExecUpdateErrorNodeTypeChanged;
  if (to->from_count != from->from_count) return hipGraphExecUpdateErrorTopologyChanged;
  if (to->type == hipGraphNodeTypeMemcpy && to->operation.copy.kind != from->operation.copy.kind) return hipGraphExecUpdateErrorParametersChanged;
  if (hip_node_set_operation(to, &from->operation) != hipSuccess) return hipGraphExecUpdateError;
  to->host_function = from->host_function;
  to->copy = from->copy;
  to->origin = from;
  return hipGraphExecUpdateSuccess;
}

static hipGraphExecUpdateResult update_graph(struct ihipGraph *to, const struct ihipGraph *from, hipGraphNode_t *failed) {
  if (to->count != from->count) return hipGraphExecUpdateErrorTopologyChanged;
  for (uint32_t k = 0; k < to->count; k++) {
    hipGraphExecUpdateResult result = update_node(to->nodes[k], from->nodes[k]);
    if (result == hipGraphExecUpdateSuccess && to->nodes[k]->child) result = update_graph(to->nodes[k]->child, from->nodes[k]->child, failed);
    if (result == hipGraphExecUpdateSuccess) continue;
    if (failed) *failed = from->nodes[k];
    return result;
  }
  return hipGraphExecUpdateSuccess;
}

// ---- exported ----

HIP_API hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *failed, char *log, size_t log_bytes) {
  HIP_ENTER();
  if (failed) *failed = NULL;
  if (log && log_bytes) *log = 0;
  HIP_RETURN(instantiate(exec, graph, 0));
}

HIP_API hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t *exec, hipGraph_t graph, unsigned long long flags) {
  HIP_ENTER();
  HIP_RETURN(instantiate(exec, graph, flags));
}

HIP_API hipError_t hipGraphInstantiateWithParams(hipGraphExec_t *exec, hipGraph_t graph, hipGraphInstantiateParams *params) {
  HIP_ENTER();
  if (!params) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = instantiate(exec, graph, params->flags);
  params->errNode_out = NULL;
  params->result_out = error == hipSuccess ? hipGraphInstantiateSuccess : hipGraphInstantiateError;
  HIP_RETURN(error);
}

HIP_API hipError_t hipGraphExecGetFlags(hipGraphExec_t exec, unsigned long long *flags) {
  HIP_ENTER();
  if (!hip_is_exec(exec) || !flags) HIP_RETURN(hipErrorInvalidValue);
  *flags = exec->flags;
  return hipSuccess;
}

HIP_API hipError_t hipGraphExecDestroy(hipGraphExec_t exec) {
  HIP_ENTER();
  HIP_RETURN(destroy(exec));
}

HIP_API hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(launch(exec, stream));
}

HIP_API hipError_t hipGraphLaunch_spt(hipGraphExec_t exec, hipStream_t stream) {
  HIP_ENTER();
  HIP_RETURN(launch(exec, stream ? stream : hipStreamPerThread));
}

HIP_API hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t handle) {
  HIP_ENTER();
  struct ihipStream_t *stream;
  if (!hip_is_exec(exec)) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(hip_stream_of(handle, &stream));  // there is nothing to copy
}

HIP_API hipError_t hipGraphExecUpdate(hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t *failed, hipGraphExecUpdateResult *result) {
  HIP_ENTER();
  if (!hip_is_exec(exec) || !hip_is_graph(graph) || !failed || !result) HIP_RETURN(hipErrorInvalidValue);
  *failed = NULL;
  *result = update_graph(exec->graph, graph, failed);
  HIP_RETURN(*result == hipGraphExecUpdateSuccess ? hipSuccess : hipErrorGraphExecUpdateFailure);
}

HIP_API hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned int is_enabled) {
  HIP_ENTER();
  struct hipGraphNode *own = hip_is_exec(exec) ? hip_exec_node(exec, node) : NULL;
  if (!own || (own->type != hipGraphNodeTypeKernel && own->type != hipGraphNodeTypeMemcpy && own->type != hipGraphNodeTypeMemset))
    HIP_RETURN(hipErrorInvalidValue);
  own->is_disabled = !is_enabled;
  return hipSuccess;
}

HIP_API hipError_t hipGraphNodeGetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned int *is_enabled) {
  HIP_ENTER();
  const struct hipGraphNode *own = hip_is_exec(exec) ? hip_exec_node(exec, node) : NULL;
  if (!own || !is_enabled) HIP_RETURN(hipErrorInvalidValue);
  *is_enabled = !own->is_disabled;
  return hipSuccess;
}
