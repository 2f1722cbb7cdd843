// Exported functions that add nodes to graphs, and read and change their parameters.
#define _GNU_SOURCE
#include <stdlib.h>

#include "graph.h"

static void release(const struct hip_operation *operation) {
  if (operation->kind == HIP_OPERATION_KERNEL) free(operation->kernel.kernarg);
}

static hipError_t check_new(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count) {
  if (!node || !hip_is_graph(graph) || (count && !from)) return hipErrorInvalidValue;
  for (size_t k = 0; k < count; k++)
    if (!from[k] || from[k]->graph != graph) return hipErrorInvalidValue;
  return hipSuccess;
}

// Adds a node with an operation, whose kernarg is released.
static hipError_t add(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, hipGraphNodeType type,
                      const struct hip_operation *operation) {
  *node = hip_node_add(graph, type, from, count);
  hipError_t error = *node ? hip_node_set_operation(*node, operation) : hipErrorOutOfMemory;
  release(operation);
  return error;
}

static hipError_t change(struct hipGraphNode *node, hipGraphNodeType type, const struct hip_operation *operation) {
  hipError_t error = node && node->type == type ? hip_node_set_operation(node, operation) : hipErrorInvalidValue;
  release(operation);
  return error;
}

static struct hipGraphNode *of_exec(hipGraphExec_t exec, hipGraphNode_t node) { return hip_is_exec(exec) ? hip_exec_node(exec, node) : NULL; }

// ---- kernels ----

static hipError_t add_kernel(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, const hipKernelNodeParams *params) {
  struct hip_operation operation = {0};
  HIP_TRY(check_new(node, graph, from, count));
  HIP_TRY(hip_kernel_of_params(params, hip_current_device(), &operation));
  HIP_TRY(add(node, graph, from, count, hipGraphNodeTypeKernel, &operation));
  (*node)->host_function = params->func;
  return hipSuccess;
}

HIP_API hipError_t hipGraphAddKernelNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count,
                                         const hipKernelNodeParams *params) {
  HIP_ENTER();
  HIP_RETURN(add_kernel(node, graph, from, count, params));
}

static hipError_t change_kernel(struct hipGraphNode *node, const hipKernelNodeParams *params) {
  struct hip_operation operation = {0};
  if (!node || node->type != hipGraphNodeTypeKernel) return hipErrorInvalidValue;
  HIP_TRY(hip_kernel_of_params(params, node->operation.kernel.function->device, &operation));
  HIP_TRY(change(node, hipGraphNodeTypeKernel, &operation));
  node->host_function = params->func;
  return hipSuccess;
}

HIP_API hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t node, const hipKernelNodeParams *params) {
  HIP_ENTER();
  HIP_RETURN(change_kernel(node, params));
}

HIP_API hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipKernelNodeParams *params) {
  HIP_ENTER();
  HIP_RETURN(change_kernel(of_exec(exec, node), params));
}

HIP_API hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t node, hipKernelNodeParams *params) {
  HIP_ENTER();
  if (!node || !params || node->type != hipGraphNodeTypeKernel) HIP_RETURN(hipErrorInvalidValue);
  const struct hip_kernel_launch *launch = &node->operation.kernel;
  *params = (hipKernelNodeParams){.blockDim = {launch->block[0], launch->block[1], launch->block[2]},
                                  .func = (void *)node->host_function,
                                  .gridDim = {launch->grid[0], launch->grid[1], launch->grid[2]},
                                  .kernelParams = hip_node_arguments(node),
                                  .sharedMemBytes = launch->dynamic_lds_bytes};
  HIP_RETURN(params->kernelParams ? hipSuccess : hipErrorOutOfMemory);
}

// ---- copies ----

static hipError_t add_copy(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, const hipMemcpy3DParms *params) {
  struct hip_operation operation = {0};
  HIP_TRY(check_new(node, graph, from, count));
  HIP_TRY(hip_copy_of_params(params, &operation));
  HIP_TRY(add(node, graph, from, count, hipGraphNodeTypeMemcpy, &operation));
  (*node)->copy = *params;
  return hipSuccess;
}

static hipError_t change_copy(struct hipGraphNode *node, const hipMemcpy3DParms *params) {
  struct hip_operation operation = {0};
  HIP_TRY(hip_copy_of_params(params, &operation));
  HIP_TRY(change(node, hipGraphNodeTypeMemcpy, &operation));
  node->copy = *params;
  return hipSuccess;
}

HIP_API hipError_t hipGraphAddMemcpyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count,
                                         const hipMemcpy3DParms *params) {
  HIP_ENTER();
  HIP_RETURN(add_copy(node, graph, from, count, params));
}

HIP_API hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, void *to, const void *source,
                                           size_t bytes, hipMemcpyKind kind) {
  HIP_ENTER();
  hipMemcpy3DParms params = hip_linear_copy(to, source, bytes, kind);
  HIP_RETURN(add_copy(node, graph, from, count, &params));
}

HIP_API hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t node, const hipMemcpy3DParms *params) {
  HIP_ENTER();
  HIP_RETURN(change_copy(node, params));
}

HIP_API hipError_t hipGraphMemcpyNodeSetParams1D(hipGraphNode_t node, void *to, const void *source, size_t bytes, hipMemcpyKind kind) {
  HIP_ENTER();
  hipMemcpy3DParms params = hip_linear_copy(to, source, bytes, kind);
  HIP_RETURN(change_copy(node, &params));
}

HIP_API hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, hipMemcpy3DParms *params) {
  HIP_ENTER();
  HIP_RETURN(change_copy(of_exec(exec, node), params));
}

HIP_API hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec, hipGraphNode_t node, void *to, const void *source, size_t bytes,
                                                     hipMemcpyKind kind) {
  HIP_ENTER();
  hipMemcpy3DParms params = hip_linear_copy(to, source, bytes, kind);
  HIP_RETURN(change_copy(of_exec(exec, node), &params));
}

HIP_API hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t node, hipMemcpy3DParms *params) {
  HIP_ENTER();
  if (!node || !params || node->type != hipGraphNodeTypeMemcpy) HIP_RETURN(hipErrorInvalidValue);
  *params = node->copy;
  return hipSuccess;
}

// A linear copy to or from a variable of the device.
static hipError_t symbol_copy(const void *symbol, size_t offset, void *host, const void *source, size_t bytes, hipMemcpyKind kind, hipMemcpy3DParms *params) {
  uint64_t address;
  HIP_TRY(hip_variable_part(symbol, hip_current_device(), bytes, offset, &address));
  void *place = (void *)address;
  *params = host ? hip_linear_copy(host, place, bytes, kind) : hip_linear_copy(place, source, bytes, kind);
  return hipSuccess;
}

HIP_API hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, const void *symbol,
                                                 const void *source, size_t bytes, size_t offset, hipMemcpyKind kind) {
  HIP_ENTER();
  hipMemcpy3DParms params;
  hipError_t error = symbol_copy(symbol, offset, NULL, source, bytes, kind, &params);
  HIP_RETURN(error == hipSuccess ? add_copy(node, graph, from, count, &params) : error);
}

HIP_API hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, void *to,
                                                   const void *symbol, size_t bytes, size_t offset, hipMemcpyKind kind) {
  HIP_ENTER();
  hipMemcpy3DParms params;
  if (!to) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = symbol_copy(symbol, offset, to, NULL, bytes, kind, &params);
  HIP_RETURN(error == hipSuccess ? add_copy(node, graph, from, count, &params) : error);
}

// ---- fills ----

static hipError_t add_fill(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, const hipMemsetParams *params) {
  struct hip_operation operation = {0};
  HIP_TRY(check_new(node, graph, from, count));
  HIP_TRY(hip_fill_of_params(params, &operation));
  return add(node, graph, from, count, hipGraphNodeTypeMemset, &operation);
}

static hipError_t change_fill(struct hipGraphNode *node, const hipMemsetParams *params) {
  struct hip_operation operation = {0};
  HIP_TRY(hip_fill_of_params(params, &operation));
  return change(node, hipGraphNodeTypeMemset, &operation);
}

HIP_API hipError_t hipGraphAddMemsetNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, const hipMemsetParams *params) {
  HIP_ENTER();
  HIP_RETURN(add_fill(node, graph, from, count, params));
}

HIP_API hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t node, const hipMemsetParams *params) {
  HIP_ENTER();
  HIP_RETURN(change_fill(node, params));
}

HIP_API hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipMemsetParams *params) {
  HIP_ENTER();
  HIP_RETURN(change_fill(of_exec(exec, node), params));
}

HIP_API hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t node, hipMemsetParams *params) {
  HIP_ENTER();
  if (!node || !params || node->type != hipGraphNodeTypeMemset) HIP_RETURN(hipErrorInvalidValue);
  *params = hip_params_of_fill(&node->operation.fill);
  return hipSuccess;
}

// ---- functions of the host, child graphs, empty nodes, events ----

static struct hip_operation host_of(const hipHostNodeParams *params) {
  return (struct hip_operation){.kind = HIP_OPERATION_HOST, .host = {params->fn, params->userData}};
}

HIP_API hipError_t hipGraphAddHostNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, const hipHostNodeParams *params) {
  HIP_ENTER();
  if (!params || !params->fn) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = check_new(node, graph, from, count);
  if (error != hipSuccess) HIP_RETURN(error);
  struct hip_operation operation = host_of(params);
  HIP_RETURN(add(node, graph, from, count, hipGraphNodeTypeHost, &operation));
}

static hipError_t change_host(struct hipGraphNode *node, const hipHostNodeParams *params) {
  if (!params || !params->fn) return hipErrorInvalidValue;
  struct hip_operation operation = host_of(params);
  return change(node, hipGraphNodeTypeHost, &operation);
}

HIP_API hipError_t hipGraphHostNodeSetParams(hipGraphNode_t node, const hipHostNodeParams *params) {
  HIP_ENTER();
  HIP_RETURN(change_host(node, params));
}

HIP_API hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, const hipHostNodeParams *params) {
  HIP_ENTER();
  HIP_RETURN(change_host(of_exec(exec, node), params));
}

HIP_API hipError_t hipGraphHostNodeGetParams(hipGraphNode_t node, hipHostNodeParams *params) {
  HIP_ENTER();
  if (!node || !params || node->type != hipGraphNodeTypeHost) HIP_RETURN(hipErrorInvalidValue);
  *params = (hipHostNodeParams){node->operation.host.run, node->operation.host.data};
  return hipSuccess;
}

HIP_API hipError_t hipGraphAddEmptyNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count) {
  HIP_ENTER();
  const struct hip_operation operation = {.kind = HIP_OPERATION_EMPTY};
  hipError_t error = check_new(node, graph, from, count);
  HIP_RETURN(error == hipSuccess ? add(node, graph, from, count, hipGraphNodeTypeEmpty, &operation) : error);
}

static hipError_t set_child(struct hipGraphNode *node, const struct ihipGraph *graph) {
  struct ihipGraph *clone = hip_graph_clone(graph);
  if (!clone) return hipErrorOutOfMemory;
  clone->is_part = 1;
  if (node->child) hip_graph_destroy(node->child);
  node->child = clone;
  return hipSuccess;
}

HIP_API hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, hipGraph_t child) {
  HIP_ENTER();
  const struct hip_operation operation = {.kind = HIP_OPERATION_EMPTY};
  if (!hip_is_graph(child) || child == graph) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = check_new(node, graph, from, count);
  if (error == hipSuccess) error = add(node, graph, from, count, hipGraphNodeTypeGraph, &operation);
  HIP_RETURN(error == hipSuccess ? set_child(*node, child) : error);
}

HIP_API hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t node, hipGraph_t *graph) {
  HIP_ENTER();
  if (!node || !graph || !node->child) HIP_RETURN(hipErrorInvalidValue);
  *graph = node->child;
  return hipSuccess;
}

HIP_API hipError_t hipGraphExecChildGraphNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, hipGraph_t child) {
  HIP_ENTER();
  struct hipGraphNode *own = of_exec(exec, node);
  if (!own || !own->child || !hip_is_graph(child) || own->child->count != child->count) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(set_child(own, child));
}

static hipError_t add_event(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, hipEvent_t handle, hipGraphNodeType type) {
  struct ihipEvent_t *event;
  HIP_TRY(check_new(node, graph, from, count));
  HIP_TRY(hip_event_of(handle, &event));
  struct hip_operation operation = {.kind = type == hipGraphNodeTypeEventRecord ? HIP_OPERATION_RECORD : HIP_OPERATION_WAIT, .event = {event, 0}};
  return add(node, graph, from, count, type, &operation);
}

HIP_API hipError_t hipGraphAddEventRecordNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, hipEvent_t event) {
  HIP_ENTER();
  HIP_RETURN(add_event(node, graph, from, count, event, hipGraphNodeTypeEventRecord));
}

HIP_API hipError_t hipGraphAddEventWaitNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, hipEvent_t event) {
  HIP_ENTER();
  HIP_RETURN(add_event(node, graph, from, count, event, hipGraphNodeTypeWaitEvent));
}
