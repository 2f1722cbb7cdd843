// Exported functions for graphs and their structure.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "graph.h"

HIP_API hipError_t hipGraphCreate(hipGraph_t *graph, unsigned int flags) {
  HIP_ENTER();
  if (!graph || flags) HIP_RETURN(hipErrorInvalidValue);
  *graph = hip_graph_create();
  HIP_RETURN(*graph ? hipSuccess : hipErrorOutOfMemory);
}

HIP_API hipError_t hipGraphDestroy(hipGraph_t graph) {
  HIP_ENTER();
  if (!hip_is_graph(graph)) HIP_RETURN(hipErrorInvalidValue);
  hip_graph_destroy(graph);
  return hipSuccess;
}

HIP_API hipError_t hipGraphClone(hipGraph_t *clone, hipGraph_t graph) {
  HIP_ENTER();
  if (!clone || !hip_is_graph(graph)) HIP_RETURN(hipErrorInvalidValue);
  *clone = hip_graph_clone(graph);
  HIP_RETURN(*clone ? hipSuccess : hipErrorOutOfMemory);
}

HIP_API hipError_t hipGraphNodeFindInClone(hipGraphNode_t *node, hipGraphNode_t origin, hipGraph_t clone) {
  HIP_ENTER();
  if (!node || !origin || !hip_is_graph(clone)) HIP_RETURN(hipErrorInvalidValue);
  *node = hip_graph_clone_of(clone, origin);
  HIP_RETURN(*node ? hipSuccess : hipErrorInvalidValue);
}

// Copies up to `*count` of `available` nodes; without `nodes` stores how many there are. Places beyond the last are NULL.
static hipError_t list(hipGraphNode_t *nodes, size_t *count, hipGraphNode_t *found, uint32_t available) {
  for (size_t k = 0; nodes && k < *count; k++) nodes[k] = k < available ? found[k] : NULL;
  if (!nodes || *count > available) *count = available;
  return hipSuccess;
}

HIP_API hipError_t hipGraphGetNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count) {
  HIP_ENTER();
  if (!hip_is_graph(graph) || !count) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(list(nodes, count, graph->nodes, graph->count));
}

static int is_dependency_of(const struct hipGraphNode *from, const struct hipGraphNode *node) {
  for (uint32_t k = 0; k < node->from_count; k++)
    if (node->from[k] == from) return 1;
  return 0;
}

// The roots of a graph, or the nodes that depend on `from`.
static hipError_t list_chosen(const struct ihipGraph *graph, const struct hipGraphNode *from, hipGraphNode_t *nodes, size_t *count) {
  struct hipGraphNode **found = calloc((size_t)graph->count + 1, sizeof(struct hipGraphNode *));
  uint32_t available = 0;
  if (!found) return hipErrorOutOfMemory;
  for (uint32_t k = 0; k < graph->count; k++)
    if (from ? is_dependency_of(from, graph->nodes[k]) : !graph->nodes[k]->from_count) found[available++] = graph->nodes[k];
  hipError_t error = list(nodes, count, found, available);
  free(found);
  return error;
}

HIP_API hipError_t hipGraphGetRootNodes(hipGraph_t graph, hipGraphNode_t *nodes, size_t *count) {
  HIP_ENTER();
  if (!hip_is_graph(graph) || !count) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(list_chosen(graph, NULL, nodes, count));
}

HIP_API hipError_t hipGraphNodeGetDependencies(hipGraphNode_t node, hipGraphNode_t *nodes, size_t *count) {
  HIP_ENTER();
  if (!node || !count) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(list(nodes, count, node->from, node->from_count));
}

HIP_API hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t node, hipGraphNode_t *nodes, size_t *count) {
  HIP_ENTER();
  if (!node || !count) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(list_chosen(node->graph, node, nodes, count));
}

static hipError_t edges(const struct ihipGraph *graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *count) {
  size_t found = 0, most = from ? *count : 0;
  for (uint32_t k = 0; k < graph->count; k++)
    for (uint32_t n = 0; n < graph->nodes[k]->from_count; n++, found++) {
      if (found >= most) continue;
      from[found] = graph->nodes[k]->from[n];
      to[found] = graph->nodes[k];
    }
  if (!from || *count > found) *count = found;
  return hipSuccess;
}

HIP_API hipError_t hipGraphGetEdges(hipGraph_t graph, hipGraphNode_t *from, hipGraphNode_t *to, size_t *count) {
  HIP_ENTER();
  if (!hip_is_graph(graph) || !count || !from != !to) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(edges(graph, from, to, count));
}

static hipError_t connect_nodes(const struct ihipGraph *graph, const hipGraphNode_t *from, const hipGraphNode_t *to, size_t count) {
  for (size_t k = 0; k < count; k++) {
    if (!from[k] || !to[k] || from[k] == to[k] || from[k]->graph != graph || to[k]->graph != graph || is_dependency_of(from[k], to[k]))
      return hipErrorInvalidValue;
    if (!hip_node_depends(to[k], from[k])) return hipErrorOutOfMemory;
  }
  return hipSuccess;
}

HIP_API hipError_t hipGraphAddDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to, size_t count) {
  HIP_ENTER();
  if (!hip_is_graph(graph) || (count && (!from || !to))) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(connect_nodes(graph, from, to, count));
}

static hipError_t disconnect(const struct ihipGraph *graph, struct hipGraphNode *from, struct hipGraphNode *to) {
  if (!from || !to || from->graph != graph || to->graph != graph || !is_dependency_of(from, to)) return hipErrorInvalidValue;
  uint32_t at = 0;
  while (to->from[at] != from) at++;
  memmove(&to->from[at], &to->from[at + 1], (--to->from_count - at) * sizeof(struct hipGraphNode *));
  return hipSuccess;
}

HIP_API hipError_t hipGraphRemoveDependencies(hipGraph_t graph, const hipGraphNode_t *from, const hipGraphNode_t *to, size_t count) {
  HIP_ENTER();
  if (!hip_is_graph(graph) || (count && (!from || !to))) HIP_RETURN(hipErrorInvalidValue);
  for (size_t k = 0; k < count; k++) {
    hipError_t error = disconnect(graph, from[k], to[k]);
    if (error != hipSuccess) HIP_RETURN(error);
  }
  return hipSuccess;
}

HIP_API hipError_t hipGraphNodeGetType(hipGraphNode_t node, hipGraphNodeType *type) {
  HIP_ENTER();
  if (!node || !type) HIP_RETURN(hipErrorInvalidValue);
  *type = node->type;
  return hipSuccess;
}

HIP_API hipError_t hipGraphDestroyNode(hipGraphNode_t node) {
  HIP_ENTER();
  if (!node) HIP_RETURN(hipErrorInvalidValue);
  hip_node_remove(node);
  return hipSuccess;
}
