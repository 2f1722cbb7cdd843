// Graphs and their nodes: creation, dependencies, order, clones.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "graph.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ihipGraph *graphs;

void hip_graphs_forget(void) {
  pthread_mutex_init(&lock, NULL);
  graphs = NULL;
  hip_graphs_forget_captures();
  hip_graph_memory_forget();
}

struct ihipGraph *hip_graph_create(void) {
  struct ihipGraph *graph = calloc(1, sizeof *graph);
  if (!graph) return NULL;
  pthread_mutex_lock(&lock);
  graph->next = graphs;
  graphs = graph;
  pthread_mutex_unlock(&lock);
  return graph;
}

int hip_is_graph(const struct ihipGraph *graph) {
  pthread_mutex_lock(&lock);
  const struct ihipGraph *at = graphs;
  while (at && at != graph) at = at->next;
  pthread_mutex_unlock(&lock);
  return graph && at;
}

static void free_node(struct hipGraphNode *node) {
  if (node->operation.kind == HIP_OPERATION_KERNEL) free(node->operation.kernel.kernarg);
  if (node->child) hip_graph_destroy(node->child);
  hip_graph_memory_release(node->memory);
  free(node->arguments);
  free(node->from);
  free(node);
}

void hip_graph_destroy(struct ihipGraph *graph) {
  pthread_mutex_lock(&lock);
  struct ihipGraph **at = &graphs;
  while (*at && *at != graph) at = &(*at)->next;
  if (*at) *at = graph->next;
  pthread_mutex_unlock(&lock);
  for (uint32_t k = 0; k < graph->count; k++) free_node(graph->nodes[k]);
  hip_graph_objects_release(graph);
  free(graph->nodes);
  free(graph);
}

static int append(struct hipGraphNode ***list, uint32_t *count, uint32_t *capacity, struct hipGraphNode *node) {
  if (*count == *capacity) {
    uint32_t bigger_capacity = 2 * *capacity + 4;
    struct hipGraphNode **bigger = realloc(*list, bigger_capacity * sizeof(struct hipGraphNode *));
    if (!bigger) return 0;
    *list = bigger;
    *capacity = bigger_capacity;
  }
  (*list)[(*count)++] = node;
  return 1;
}

int hip_node_depends(struct hipGraphNode *node, struct hipGraphNode *from) {
  for (uint32_t k = 0; k < node->from_count; k++)
    if (node->from[k] == from) return 1;
  return append(&node->from, &node->from_count, &node->from_capacity, from);
}

struct hipGraphNode *hip_node_add(struct ihipGraph *graph, hipGraphNodeType type, struct hipGraphNode *const *from, size_t count) {
  struct hipGraphNode *node = calloc(1, sizeof *node);
  if (!node) return NULL;
  node->graph = graph;
  node->type = type;
  node->operation.kind = HIP_OPERATION_EMPTY;
  int made = 1;
  for (size_t k = 0; k < count; k++) made = made && hip_node_depends(node, from[k]);
  if (made && append(&graph->nodes, &graph->count, &graph->capacity, node)) return node;
  free_node(node);
  return NULL;
}

static void remove_dependency(struct hipGraphNode *node, const struct hipGraphNode *from) {
  uint32_t kept = 0;
  for (uint32_t k = 0; k < node->from_count; k++)
    if (node->from[k] != from) node->from[kept++] = node->from[k];
  node->from_count = kept;
}

void hip_node_remove(struct hipGraphNode *node) {
  struct ihipGraph *graph = node->graph;
  uint32_t kept = 0;
  for (uint32_t k = 0; k < graph->count; k++) {
    if (graph->nodes[k] == node) continue;
    remove_dependency(graph->nodes[k], node);
    graph->nodes[kept++] = graph->nodes[k];
  }
  graph->count = kept;
  free_node(node);
}

hipError_t hip_node_set_operation(struct hipGraphNode *node, const struct hip_operation *operation) {
  struct hip_operation copy = *operation;
  if (copy.kind == HIP_OPERATION_KERNEL) {
    copy.kernel.kernarg = malloc(copy.kernel.kernarg_bytes + 1);
    if (!copy.kernel.kernarg) return hipErrorOutOfMemory;
    memcpy(copy.kernel.kernarg, operation->kernel.kernarg, copy.kernel.kernarg_bytes);
  }
  if (node->operation.kind == HIP_OPERATION_KERNEL) free(node->operation.kernel.kernarg);
  node->operation = copy;
  return hipSuccess;
}

void **hip_node_arguments(struct hipGraphNode *node) {
  const struct hip_kernel_launch *launch = &node->operation.kernel;
  uint32_t count = launch->function->explicit_count;
  void **arguments = realloc(node->arguments, (count + 1) * sizeof(void *));
  if (!arguments) return NULL;
  for (uint32_t k = 0; k < count; k++) arguments[k] = (uint8_t *)launch->kernarg + launch->function->arguments[k].offset;
  node->arguments = arguments;
  return arguments;
}

static uint32_t position_of(const struct ihipGraph *graph, const struct hipGraphNode *node) {
  uint32_t k = 0;
  while (k < graph->count && graph->nodes[k] != node) k++;
  return k;
}

static int clone_node(struct ihipGraph *clone, const struct hipGraphNode *node) {
  struct hipGraphNode *made = hip_node_add(clone, node->type, NULL, 0);
  if (!made || hip_node_set_operation(made, &node->operation) != hipSuccess) return 0;
  made->origin = node;
  made->host_function = node->host_function;
  made->copy = node->copy;
  made->is_disabled = node->is_disabled;
  made->memory = hip_graph_memory_hold(node->memory);
  made->freed = node->freed;
  if (node->child && !(made->child = hip_graph_clone(node->child))) return 0;
  if (made->child) made->child->is_part = 1;
  return 1;
}

static int clone_dependencies(const struct ihipGraph *clone, const struct ihipGraph *graph) {
  for (uint32_t k = 0; k < graph->count; k++)
    for (uint32_t n = 0; n < graph->nodes[k]->from_count; n++) {
      uint32_t position = position_of(graph, graph->nodes[k]->from[n]);
      if (position == graph->count || !hip_node_depends(clone->nodes[k], clone->nodes[position])) return 0;
    }
  return 1;
}

struct ihipGraph *hip_graph_clone(const struct ihipGraph *graph) {
  struct ihipGraph *clone = hip_graph_create();
  if (!clone) return NULL;
  clone->origin = graph;
  int made = 1;
  for (uint32_t k = 0; made && k < graph->count; k++) made = clone_node(clone, graph->nodes[k]);
  if (made && clone_dependencies(clone, graph)) return clone;
  hip_graph_destroy(clone);
  return NULL;
}

struct hipGraphNode *hip_graph_clone_of(const struct ihipGraph *graph, const struct hipGraphNode *origin) {
  for (uint32_t k = 0; k < graph->count; k++) {
    if (graph->nodes[k]->origin == origin) return graph->nodes[k];
    struct hipGraphNode *inside = graph->nodes[k]->child ? hip_graph_clone_of(graph->nodes[k]->child, origin) : NULL;
    if (inside) return inside;
  }
  return NULL;
}

static int is_ready(const struct hipGraphNode *node) {
  for (uint32_t k = 0; k < node->from_count; k++)
    if (!node->from[k]->mark) return 0;
  return 1;
}

struct hipGraphNode **hip_graph_order(const struct ihipGraph *graph) {
  struct hipGraphNode **order = calloc((size_t)graph->count + 1, sizeof(struct hipGraphNode *));
  if (!order) return NULL;
  for (uint32_t k = 0; k < graph->count; k++) graph->nodes[k]->mark = 0;
  uint32_t done = 0;
  for (int moved = 1; moved && done < graph->count;) {  // one round, if nodes were created after their dependencies
    moved = 0;
    for (uint32_t k = 0; k < graph->count; k++) {
      struct hipGraphNode *node = graph->nodes[k];
      if (node->mark || !is_ready(node)) continue;
      node->mark = 1;
      order[done++] = node;
      moved = 1;
    }
  }
  if (done == graph->count) return order;
  free(order);
  return NULL;
}

static int reaches(struct hipGraphNode *node, const struct hipGraphNode *from) {
  if (node == from) return 1;
  if (node->mark) return 0;
  node->mark = 1;
  for (uint32_t k = 0; k < node->from_count; k++)
    if (reaches(node->from[k], from)) return 1;
  return 0;
}

int hip_node_reaches(struct hipGraphNode *node, const struct hipGraphNode *from) {
  for (uint32_t k = 0; k < node->graph->count; k++) node->graph->nodes[k]->mark = 0;
  return reaches(node, from);
}
