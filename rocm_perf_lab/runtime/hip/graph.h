// Graphs: nodes with operations and their dependencies. A clone keeps for each node the node that it was made from.
#ifndef HIP_GRAPH_H
#define HIP_GRAPH_H
#include "modules.h"

struct hipGraphNode {             // *hipGraphNode_t
  struct ihipGraph *graph;
  hipGraphNodeType type;
  struct hip_operation operation; // its kernarg belongs to the node
  const void *host_function;      // of a kernel node: as in its parameters
  void **arguments;               // of a kernel node: pointers into its kernarg, once they were asked for
  hipMemcpy3DParms copy;          // of a memcpy node
  struct ihipGraph *child;        // belongs to the node
  struct hip_graph_memory *memory;  // of an allocation node
  void *freed;                    // of a free node: as in its parameters
  const struct hipGraphNode *origin;
  struct hipGraphNode **from;     // dependencies
  uint32_t from_count, from_capacity;
  int is_disabled;
  uint32_t mark;                  // of a traversal
};
struct ihipGraph {                // *hipGraph_t
  struct hipGraphNode **nodes;    // in the order of their creation
  uint32_t count, capacity;
  const struct ihipGraph *origin;
  int is_part;                    // of a node
  struct hip_graph_object { struct hipUserObject *object; unsigned number; struct hip_graph_object *next; } *objects;
  struct ihipGraph *next;
};
struct hipGraphExec {             // *hipGraphExec_t
  struct ihipGraph *graph;
  struct hipGraphNode **order;
  unsigned long long flags;
  struct ihipStream_t *others[HIP_MAX_DEVICES];  // streams for nodes on other devices
  struct hipGraphExec *next;
};

// ---- graph.c ----
struct ihipGraph *hip_graph_create(void);
void hip_graph_destroy(struct ihipGraph *graph);
int hip_is_graph(const struct ihipGraph *graph);           // a graph of the application that exists
struct hipGraphNode *hip_node_add(struct ihipGraph *graph, hipGraphNodeType type, struct hipGraphNode *const *from, size_t count);
void hip_node_remove(struct hipGraphNode *node);
int hip_node_depends(struct hipGraphNode *node, struct hipGraphNode *from);  // adds a dependency unless it exists; 0: no memory
// Copies an operation into a node; a kernel's arguments too.
hipError_t hip_node_set_operation(struct hipGraphNode *node, const struct hip_operation *operation);
// Pointers to the explicit arguments of a kernel node; valid until its parameters change. NULL: no memory.
void **hip_node_arguments(struct hipGraphNode *node);
struct ihipGraph *hip_graph_clone(const struct ihipGraph *graph);
// The nodes so that each follows its dependencies; NULL: a cycle, or no memory. The caller frees them.
struct hipGraphNode **hip_graph_order(const struct ihipGraph *graph);
struct hipGraphNode *hip_graph_clone_of(const struct ihipGraph *graph, const struct hipGraphNode *origin);
// Whether `from` is `node` or one of the nodes that it depends on.
int hip_node_reaches(struct hipGraphNode *node, const struct hipGraphNode *from);

// ---- graph_memory.c ----
struct hip_graph_memory *hip_graph_memory_hold(struct hip_graph_memory *memory);  // NULL is allowed here and below
void hip_graph_memory_release(struct hip_graph_memory *memory);
void hip_graph_memory_forget(void);

// ---- api_other.c ----
void hip_graph_objects_release(struct ihipGraph *graph);   // objects that the application gave to it

// ---- capture.c ----
void hip_graphs_forget_captures(void);

// ---- graph_params.c: operations out of the parameters of nodes ----
// `device`: of the kernel if its function is a host function. The kernarg is malloc'ed.
hipError_t hip_kernel_of_params(const hipKernelNodeParams *params, struct hip_device *device, struct hip_operation *operation);
hipError_t hip_copy_of_params(const hipMemcpy3DParms *params, struct hip_operation *operation);
hipMemcpy3DParms hip_params_of_copy(const struct hip_copy *copy);
hipMemcpy3DParms hip_linear_copy(void *to, const void *from, size_t bytes, hipMemcpyKind kind);
hipError_t hip_fill_of_params(const hipMemsetParams *params, struct hip_operation *operation);
hipMemsetParams hip_params_of_fill(const struct hip_fill *fill);

// ---- graph_exec.c ----
struct hipGraphNode *hip_exec_node(const struct hipGraphExec *exec, const struct hipGraphNode *node);  // NULL: it has none for it
int hip_is_exec(const struct hipGraphExec *exec);
#endif
