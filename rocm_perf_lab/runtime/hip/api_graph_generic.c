// Exported functions for nodes of any type, events of nodes, copies of variables, and the drawing of a graph.
#define _GNU_SOURCE
#include <stdio.h>

#include "graph.h"

// ---- nodes of any type ----

HIP_API hipError_t hipGraphAddNode(hipGraphNode_t *node, hipGraph_t graph, const hipGraphNode_t *from, size_t count, hipGraphNodeParams *params) {
  HIP_ENTER();
  if (!params) HIP_RETURN(hipErrorInvalidValue);
  switch ((int)params->type) {
    case hipGraphNodeTypeKernel: return hipGraphAddKernelNode(node, graph, from, count, &params->kernel);
    case hipGraphNodeTypeMemcpy: return hipGraphAddMemcpyNode(node, graph, from, count, &params->memcpy.copyParams);
    case hipGraphNodeTypeMemset: return hipGraphAddMemsetNode(node, graph, from, count, &params->memset);
    case hipGraphNodeTypeHost: return hipGraphAddHostNode(node, graph, from, count, &params->host);
    case hipGraphNodeTypeGraph: return hipGraphAddChildGraphNode(node, graph, from, count, params->graph.graph);
    case hipGraphNodeTypeEmpty: return hipGraphAddEmptyNode(node, graph, from, count);
    case hipGraphNodeTypeWaitEvent: return hipGraphAddEventWaitNode(node, graph, from, count, params->eventWait.event);
    case hipGraphNodeTypeEventRecord: return hipGraphAddEventRecordNode(node, graph, from, count, params->eventRecord.event);
    case hipGraphNodeTypeMemAlloc: return hipGraphAddMemAllocNode(node, graph, from, count, &params->alloc);
    case hipGraphNodeTypeMemFree: return hipGraphAddMemFreeNode(node, graph, from, count, params->free.dptr);
    default: HIP_RETURN(hipErrorInvalidValue);
  }
}

HIP_API hipError_t hipGraphNodeSetParams(hipGraphNode_t node, hipGraphNodeParams *params) {
  HIP_ENTER();
  if (!node || !params || node->type != params->type) HIP_RETURN(hipErrorInvalidValue);
  switch ((int)params->type) {
    case hipGraphNodeTypeKernel: return hipGraphKernelNodeSetParams(node, &params->kernel);
    case hipGraphNodeTypeMemcpy: return hipGraphMemcpyNodeSetParams(node, &params->memcpy.copyParams);
    case hipGraphNodeTypeMemset: return hipGraphMemsetNodeSetParams(node, &params->memset);
    case hipGraphNodeTypeHost: return hipGraphHostNodeSetParams(node, &params->host);
    case hipGraphNodeTypeWaitEvent: return hipGraphEventWaitNodeSetEvent(node, params->eventWait.event);
    case hipGraphNodeTypeEventRecord: return hipGraphEventRecordNodeSetEvent(node, params->eventRecord.event);
    default: HIP_RETURN(hipErrorInvalidValue);
  }
}

HIP_API hipError_t hipGraphExecNodeSetParams(hipGraphExec_t exec, hipGraphNode_t node, hipGraphNodeParams *params) {
  HIP_ENTER();
  if (!node || !params || node->type != params->type) HIP_RETURN(hipErrorInvalidValue);
  switch ((int)params->type) {
    case hipGraphNodeTypeKernel: return hipGraphExecKernelNodeSetParams(exec, node, &params->kernel);
    case hipGraphNodeTypeMemcpy: return hipGraphExecMemcpyNodeSetParams(exec, node, &params->memcpy.copyParams);
    case hipGraphNodeTypeMemset: return hipGraphExecMemsetNodeSetParams(exec, node, &params->memset);
    case hipGraphNodeTypeHost: return hipGraphExecHostNodeSetParams(exec, node, &params->host);
    case hipGraphNodeTypeGraph: return hipGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
    case hipGraphNodeTypeWaitEvent: return hipGraphExecEventWaitNodeSetEvent(exec, node, params->eventWait.event);
    case hipGraphNodeTypeEventRecord: return hipGraphExecEventRecordNodeSetEvent(exec, node, params->eventRecord.event);
    default: HIP_RETURN(hipErrorInvalidValue);
  }
}

// ---- events of nodes ----

static hipError_t get_event(hipGraphNode_t node, hipGraphNodeType type, hipEvent_t *event) {
  if (!node || !event || node->type != type) return hipErrorInvalidValue;
  *event = (hipEvent_t)node->operation.event.event;
  return hipSuccess;
}

static hipError_t set_event(struct hipGraphNode *node, hipGraphNodeType type, hipEvent_t handle) {
  struct ihipEvent_t *event;
  if (!node || node->type != type) return hipErrorInvalidValue;
  HIP_TRY(hip_event_of(handle, &event));
  node->operation.event.event = event;
  return hipSuccess;
}

static struct hipGraphNode *of_exec(hipGraphExec_t exec, hipGraphNode_t node) { return hip_is_exec(exec) ? hip_exec_node(exec, node) : NULL; }

#define EVENT_NODE(name, type)                                                                                                                \
  HIP_API hipError_t hipGraph##name##NodeGetEvent(hipGraphNode_t node, hipEvent_t *event) {                                                   \
    HIP_ENTER();                                                                                                                              \
    HIP_RETURN(get_event(node, type, event));                                                                                                 \
  }                                                                                                                                           \
  HIP_API hipError_t hipGraph##name##NodeSetEvent(hipGraphNode_t node, hipEvent_t event) {                                                    \
    HIP_ENTER();                                                                                                                              \
    HIP_RETURN(set_event(node, type, event));                                                                                                 \
  }                                                                                                                                           \
  HIP_API hipError_t hipGraphExec##name##NodeSetEvent(hipGraphExec_t exec, hipGraphNode_t node, hipEvent_t event) {                           \
    HIP_ENTER();                                                                                                                              \
    HIP_RETURN(set_event(of_exec(exec, node), type, event));                                                                                  \
  }
EVENT_NODE(EventRecord, hipGraphNodeTypeEventRecord)
EVENT_NODE(EventWait, hipGraphNodeTypeWaitEvent)

// ---- copies of variables ----

HIP_API hipError_t hipGraphMemcpyNodeSetParamsToSymbol(hipGraphNode_t node, const void *symbol, const void *source, size_t bytes, size_t offset,
                                                       hipMemcpyKind kind) {
  HIP_ENTER();
  uint64_t place;
  hipError_t error = hip_variable_part(symbol, hip_current_device(), bytes, offset, &place);
  HIP_RETURN(error == hipSuccess ? hipGraphMemcpyNodeSetParams1D(node, (void *)place, source, bytes, kind) : error);
}

HIP_API hipError_t hipGraphMemcpyNodeSetParamsFromSymbol(hipGraphNode_t node, void *to, const void *symbol, size_t bytes, size_t offset,
                                                         hipMemcpyKind kind) {
  HIP_ENTER();
  uint64_t place;
  hipError_t error = hip_variable_part(symbol, hip_current_device(), bytes, offset, &place);
  HIP_RETURN(error == hipSuccess ? hipGraphMemcpyNodeSetParams1D(node, to, (void *)place, bytes, kind) : error);
}

HIP_API hipError_t hipGraphExecMemcpyNodeSetParamsToSymbol(hipGraphExec_t exec, hipGraphNode_t node, const void *symbol, const void *source,
                                                           size_t bytes, size_t offset, hipMemcpyKind kind) {
  HIP_ENTER();
  uint64_t place;
  hipError_t error = hip_variable_part(symbol, hip_current_device(), bytes, offset, &place);
  HIP_RETURN(error == hipSuccess ? hipGraphExecMemcpyNodeSetParams1D(exec, node, (void *)place, source, bytes, kind) : error);
}

HIP_API hipError_t hipGraphExecMemcpyNodeSetParamsFromSymbol(hipGraphExec_t exec, hipGraphNode_t node, void *to, const void *symbol, size_t bytes,
                                                             size_t offset, hipMemcpyKind kind) {
  HIP_ENTER();
  uint64_t place;
  hipError_t error = hip_variable_part(symbol, hip_current_device(), bytes, offset, &place);
  HIP_RETURN(error == hipSuccess ? hipGraphExecMemcpyNodeSetParams1D(exec, node, to, (void *)place, bytes, kind) : error);
}

// ---- drawing ----

static const char *label_of(const struct hipGraphNode *node) {
  switch ((int)node->type) {
    case hipGraphNodeTypeKernel: return node->operation.kernel.function->name;
    case hipGraphNodeTypeMemcpy: return "MEMCPY";
    case hipGraphNodeTypeMemset: return "MEMSET";
    case hipGraphNodeTypeHost: return "HOST";
    case hipGraphNodeTypeGraph: return "GRAPH";
    case hipGraphNodeTypeWaitEvent: return "EVENT_WAIT";
    case hipGraphNodeTypeEventRecord: return "EVENT_RECORD";
    case hipGraphNodeTypeMemAlloc: return "MEM_ALLOC";
    case hipGraphNodeTypeMemFree: return "MEM_FREE";
    default: return "EMPTY";
  }
}

static unsigned index_of(const struct ihipGraph *graph, const struct hipGraphNode *node) {
  unsigned k = 0;
  while (graph->nodes[k] != node) k++;
  return k;
}

HIP_API hipError_t hipGraphDebugDotPrint(hipGraph_t graph, const char *path, unsigned flags) {
  HIP_ENTER();
  (void)flags;
  if (!hip_is_graph(graph) || !path) HIP_RETURN(hipErrorInvalidValue);
  FILE *file = fopen(path, "we");
  if (!file) HIP_RETURN(hipErrorOperatingSystem);
  fputs("digraph graph_0 {\n", file);
  for (uint32_t k = 0; k < graph->count; k++) fprintf(file, "  node_%u [label=\"%s\"];\n", k, label_of(graph->nodes[k]));
  for (uint32_t k = 0; k < graph->count; k++)
    for (uint32_t n = 0; n < graph->nodes[k]->from_count; n++) fprintf(file, "  node_%u -> node_%u;\n", index_of(graph, graph->nodes[k]->from[n]), k);
  fputs("}\n", file);
  HIP_RETURN(fclose(file) ? hipErrorOperatingSystem : hipSuccess);
}
