// Stream capture: operations become nodes of a graph. A session begins in one stream; other streams join it by waiting for its events.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "graph.h"

struct session {
  unsigned long long id;
  struct ihipGraph *graph;
  hipStreamCaptureMode mode;
  struct ihipStream_t *origin;
  pthread_t thread;
  int is_invalid, owns_graph;
  struct hip_graph_capture *streams;
  struct session *next;
};
// Of a stream: its session and the nodes that its next operation depends on. Of an event: a copy of that of the stream, when it was recorded.
struct hip_graph_capture {
  unsigned long long session_id;
  struct session *session;        // valid while a session with the id exists
  struct ihipStream_t *stream;
  struct hipGraphNode **leaves;
  uint32_t count;
  struct hip_graph_capture *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct session *sessions;
static unsigned long long last_id;
static _Thread_local hipStreamCaptureMode thread_mode = hipStreamCaptureModeGlobal;

void hip_graphs_forget_captures(void) {
  pthread_mutex_init(&lock, NULL);
  sessions = NULL;
}

static struct session *session_of(const struct hip_graph_capture *capture) {
  struct session *at = sessions;
  while (at && at->id != capture->session_id) at = at->next;
  return at;
}

// ---- leaves ----

static void free_capture(struct hip_graph_capture *capture) {
  free(capture->leaves);
  free(capture);
}

static int set_leaves(struct hip_graph_capture *capture, struct hipGraphNode *const *leaves, uint32_t count) {
  struct hipGraphNode **copy = malloc((count + 1) * sizeof(struct hipGraphNode *));
  if (!copy) return 0;
  if (count) memcpy(copy, leaves, count * sizeof(struct hipGraphNode *));
  free(capture->leaves);
  capture->leaves = copy;
  capture->count = count;
  return 1;
}

static int add_leaves(struct hip_graph_capture *capture, struct hipGraphNode *const *leaves, uint32_t count) {
  struct hipGraphNode **all = realloc(capture->leaves, (capture->count + count + 1) * sizeof(struct hipGraphNode *));
  if (!all) return 0;
  capture->leaves = all;
  for (uint32_t k = 0; k < count; k++) {
    uint32_t at = 0;
    while (at < capture->count && all[at] != leaves[k]) at++;
    if (at == capture->count) all[capture->count++] = leaves[k];
  }
  return 1;
}

static struct hip_graph_capture *join(struct session *session, struct ihipStream_t *stream) {
  struct hip_graph_capture *capture = calloc(1, sizeof *capture);
  if (!capture || !set_leaves(capture, NULL, 0)) {
    free(capture);
    return NULL;
  }
  capture->session_id = session->id;
  capture->session = session;
  capture->stream = stream;
  capture->next = session->streams;
  session->streams = capture;
  __atomic_store_n(&stream->capture, capture, __ATOMIC_RELEASE);
  return capture;
}

// ---- operations ----

static hipGraphNodeType type_of(const struct hip_operation *operation) {
  switch (operation->kind) {
    case HIP_OPERATION_KERNEL: return hipGraphNodeTypeKernel;
    case HIP_OPERATION_COPY: return hipGraphNodeTypeMemcpy;
    case HIP_OPERATION_FILL: return hipGraphNodeTypeMemset;
    case HIP_OPERATION_HOST: return hipGraphNodeTypeHost;
    case HIP_OPERATION_RECORD: return hipGraphNodeTypeEventRecord;
    case HIP_OPERATION_WAIT: return hipGraphNodeTypeWaitEvent;
    case HIP_OPERATION_WAIT_VALUE: case HIP_OPERATION_WRITE_VALUE: return hipGraphNodeTypeBatchMemOp;
    case HIP_OPERATION_ALLOCATE: return hipGraphNodeTypeMemAlloc;
    case HIP_OPERATION_FREE: return hipGraphNodeTypeMemFree;
    default: return hipGraphNodeTypeEmpty;
  }
}

static hipError_t add_node(struct hip_graph_capture *capture, const struct hip_operation *operation) {
  struct hipGraphNode *node = hip_node_add(capture->session->graph, type_of(operation), capture->leaves, capture->count);
  if (!node) return hipErrorOutOfMemory;
  HIP_TRY(hip_node_set_operation(node, operation));
  if (operation->kind == HIP_OPERATION_COPY) node->copy = hip_params_of_copy(&operation->copy);
  if (operation->kind == HIP_OPERATION_KERNEL) node->host_function = hip_host_function_of(operation->kernel.function);
  // Memory of the graph is allocated when the call is captured, and remains: equal addresses in each launch.
  if (operation->kind == HIP_OPERATION_ALLOCATE || operation->kind == HIP_OPERATION_FREE) node->operation.kind = HIP_OPERATION_EMPTY;
  return set_leaves(capture, &node, 1) ? hipSuccess : hipErrorOutOfMemory;
}

static hipError_t record(const struct hip_graph_capture *capture, struct ihipEvent_t *event) {
  struct hip_graph_capture *copy = event->capture ? event->capture : calloc(1, sizeof *copy);
  if (!copy) return hipErrorOutOfMemory;
  if (!set_leaves(copy, capture->leaves, capture->count)) {
    if (!event->capture) free(copy);
    return hipErrorOutOfMemory;
  }
  copy->session_id = capture->session_id;
  event->capture = copy;
  return hipSuccess;
}

static hipError_t add(struct hip_graph_capture *capture, const struct hip_operation *operation) {
  if (capture->session->is_invalid) return hipErrorStreamCaptureInvalidated;
  if (operation->kind == HIP_OPERATION_RECORD && operation->event.flags != hipEventRecordExternal) return record(capture, operation->event.event);
  if (operation->kind == HIP_OPERATION_WAIT && operation->event.flags != hipEventWaitExternal) {
    capture->session->is_invalid = 1;
    return hipErrorStreamCaptureIsolation;
  }
  return add_node(capture, operation);
}

hipError_t hip_capture_add(struct ihipStream_t *stream, const struct hip_operation *operation) {
  pthread_mutex_lock(&lock);
  struct hip_graph_capture *capture = stream->capture;
  hipError_t error = capture ? add(capture, operation) : hipSuccess;
  pthread_mutex_unlock(&lock);
  return capture ? error : hip_execute(stream, operation);
}

static hipError_t wait(struct ihipStream_t *stream, const struct hip_graph_capture *recorded) {
  struct session *session = session_of(recorded);
  if (!session) return hipErrorCapturedEvent;
  if (session->is_invalid) return hipErrorStreamCaptureInvalidated;
  struct hip_graph_capture *capture = stream->capture;
  if (capture && capture->session != session) {
    session->is_invalid = capture->session->is_invalid = 1;
    return hipErrorStreamCaptureMerge;
  }
  if (!capture && stream->is_null) {
    session->is_invalid = 1;
    return hipErrorStreamCaptureImplicit;
  }
  if (!capture && !(capture = join(session, stream))) return hipErrorOutOfMemory;
  return add_leaves(capture, recorded->leaves, recorded->count) ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t hip_capture_wait(struct ihipStream_t *stream, struct ihipEvent_t *event) {
  pthread_mutex_lock(&lock);
  hipError_t error = event->capture ? wait(stream, event->capture) : hipSuccess;
  pthread_mutex_unlock(&lock);
  return error;
}

void hip_capture_forget_event(struct ihipEvent_t *event) {
  pthread_mutex_lock(&lock);
  if (event->capture) free_capture(event->capture);
  event->capture = NULL;
  pthread_mutex_unlock(&lock);
}

// Whether a session makes calls unsafe for this thread.
static int forbids(const struct session *session) {
  if (thread_mode == hipStreamCaptureModeRelaxed || session->mode == hipStreamCaptureModeRelaxed) return 0;
  int is_own = pthread_equal(session->thread, pthread_self());
  return is_own || (session->mode == hipStreamCaptureModeGlobal && thread_mode == hipStreamCaptureModeGlobal);
}

hipError_t hip_capture_forbids(struct ihipStream_t *stream) {
  if (!__atomic_load_n(&sessions, __ATOMIC_ACQUIRE)) return hipSuccess;
  pthread_mutex_lock(&lock);
  hipError_t error = hipSuccess;
  if (stream && stream->capture) {
    stream->capture->session->is_invalid = 1;
    error = hipErrorStreamCaptureUnsupported;
  }
  for (struct session *session = sessions; session && error == hipSuccess; session = session->next) {
    if (!forbids(session)) continue;
    session->is_invalid = 1;
    error = hipErrorStreamCaptureUnsupported;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

// ---- begin and end ----

static void free_session(struct session *session) {
  while (session->streams) {
    struct hip_graph_capture *capture = session->streams;
    session->streams = capture->next;
    __atomic_store_n(&capture->stream->capture, NULL, __ATOMIC_RELEASE);
    free_capture(capture);
  }
  free(session);
}

static hipError_t begin(hipStream_t handle, hipStreamCaptureMode mode, struct ihipGraph *graph, const hipGraphNode_t *from, size_t count) {
  struct ihipStream_t *stream;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (stream->is_null) return hipErrorStreamCaptureUnsupported;
  if (mode > hipStreamCaptureModeRelaxed) return hipErrorInvalidValue;
  if (stream->capture) return hipErrorIllegalState;
  struct session *session = calloc(1, sizeof *session);
  if (!session) return hipErrorOutOfMemory;
  *session = (struct session){.graph = graph ? graph : hip_graph_create(), .mode = mode, .origin = stream, .thread = pthread_self(), .owns_graph = !graph};
  pthread_mutex_lock(&lock);
  session->id = ++last_id;
  struct hip_graph_capture *capture = session->graph ? join(session, stream) : NULL;
  int is_begun = capture && set_leaves(capture, from, (uint32_t)count);
  if (is_begun) {
    session->next = sessions;
    __atomic_store_n(&sessions, session, __ATOMIC_RELEASE);
  } else {
    if (session->owns_graph && session->graph) hip_graph_destroy(session->graph);
    free_session(session);
  }
  pthread_mutex_unlock(&lock);
  return is_begun ? hipSuccess : hipErrorOutOfMemory;
}

// Whether all work of the session is a dependency of the origin's next operation.
static int is_joined(const struct session *session) {
  const struct hip_graph_capture *origin = session->origin->capture;
  for (const struct hip_graph_capture *other = session->streams; other; other = other->next)
    for (uint32_t k = 0; other != origin && k < other->count; k++) {
      uint32_t n = 0;
      while (n < origin->count && !hip_node_reaches(origin->leaves[n], other->leaves[k])) n++;
      if (n == origin->count) return 0;
    }
  return 1;
}

static void close_session(struct session *session) {
  struct session **at = &sessions;
  while (*at != session) at = &(*at)->next;
  __atomic_store_n(at, session->next, __ATOMIC_RELEASE);
  free_session(session);
}

static hipError_t end(struct ihipStream_t *stream, hipGraph_t *graph) {
  if (!stream->capture) return hipErrorIllegalState;
  struct session *session = stream->capture->session;
  if (session->origin != stream) return hipErrorStreamCaptureUnmatched;
  if (session->mode == hipStreamCaptureModeThreadLocal && !pthread_equal(session->thread, pthread_self())) return hipErrorStreamCaptureWrongThread;
  hipError_t error = session->is_invalid ? hipErrorStreamCaptureInvalidated : is_joined(session) ? hipSuccess : hipErrorStreamCaptureUnjoined;
  struct ihipGraph *captured = session->graph;
  int owns = session->owns_graph;
  close_session(session);
  *graph = error == hipSuccess ? captured : NULL;
  if (error != hipSuccess && owns) hip_graph_destroy(captured);
  return error;
}

static hipError_t end_handle(hipStream_t handle, hipGraph_t *graph) {
  struct ihipStream_t *stream;
  if (!graph) return hipErrorInvalidValue;
  HIP_TRY(hip_stream_of(handle, &stream));
  pthread_mutex_lock(&lock);
  hipError_t error = end(stream, graph);
  pthread_mutex_unlock(&lock);
  return error;
}

static hipStreamCaptureStatus status_of(const struct hip_graph_capture *capture) {
  return !capture ? hipStreamCaptureStatusNone : capture->session->is_invalid ? hipStreamCaptureStatusInvalidated : hipStreamCaptureStatusActive;
}

struct capture_info { hipStreamCaptureStatus *status; unsigned long long *id; hipGraph_t *graph; const hipGraphNode_t **from; size_t *count; };

static hipError_t info(hipStream_t handle, struct capture_info wanted) {
  struct ihipStream_t *stream;
  if (!wanted.status) return hipErrorInvalidValue;
  HIP_TRY(hip_stream_of(handle, &stream));
  pthread_mutex_lock(&lock);
  const struct hip_graph_capture *capture = stream->capture;
  *wanted.status = status_of(capture);
  if (*wanted.status == hipStreamCaptureStatusActive) {
    if (wanted.id) *wanted.id = capture->session_id;
    if (wanted.graph) *wanted.graph = capture->session->graph;
    if (wanted.from) *wanted.from = capture->leaves;
    if (wanted.count) *wanted.count = capture->count;
  }
  pthread_mutex_unlock(&lock);
  return hipSuccess;
}

static hipError_t update(hipStream_t handle, hipGraphNode_t *nodes, size_t count, unsigned flags) {
  struct ihipStream_t *stream;
  HIP_TRY(hip_stream_of(handle, &stream));
  if (flags > hipStreamSetCaptureDependencies || (count && !nodes)) return hipErrorInvalidValue;
  pthread_mutex_lock(&lock);
  struct hip_graph_capture *capture = stream->capture;
  hipError_t error = hipErrorIllegalState;
  if (capture && !capture->session->is_invalid) {
    int done = flags == hipStreamSetCaptureDependencies ? set_leaves(capture, nodes, (uint32_t)count) : add_leaves(capture, nodes, (uint32_t)count);
    error = done ? hipSuccess : hipErrorOutOfMemory;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

// ---- exported ----
#define PER_THREAD(stream) ((stream) ? (stream) : hipStreamPerThread)

HIP_API hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  HIP_ENTER();
  HIP_RETURN(begin(stream, mode, NULL, NULL, 0));
}

HIP_API hipError_t hipStreamBeginCapture_spt(hipStream_t stream, hipStreamCaptureMode mode) {
  HIP_ENTER();
  HIP_RETURN(begin(PER_THREAD(stream), mode, NULL, NULL, 0));
}

HIP_API hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t *from, const hipGraphEdgeData *data,
                                                size_t count, hipStreamCaptureMode mode) {
  HIP_ENTER();
  if (!hip_is_graph(graph) || (count && !from) || data) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(begin(stream, mode, graph, from, count));
}

HIP_API hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph) {
  HIP_ENTER();
  HIP_RETURN(end_handle(stream, graph));
}

HIP_API hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t *graph) {
  HIP_ENTER();
  HIP_RETURN(end_handle(PER_THREAD(stream), graph));
}

HIP_API hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status) {
  HIP_ENTER();
  HIP_RETURN(info(stream, (struct capture_info){.status = status}));
}

HIP_API hipError_t hipStreamIsCapturing_spt(hipStream_t stream, hipStreamCaptureStatus *status) {
  HIP_ENTER();
  HIP_RETURN(info(PER_THREAD(stream), (struct capture_info){.status = status}));
}

HIP_API hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id) {
  HIP_ENTER();
  HIP_RETURN(info(stream, (struct capture_info){.status = status, .id = id}));
}

HIP_API hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus *status, unsigned long long *id, hipGraph_t *graph,
                                              const hipGraphNode_t **from, size_t *count) {
  HIP_ENTER();
  HIP_RETURN(info(stream, (struct capture_info){status, id, graph, from, count}));
}

HIP_API hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t *nodes, size_t count, unsigned int flags) {
  HIP_ENTER();
  HIP_RETURN(update(stream, nodes, count, flags));
}

HIP_API hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
  if (!mode || *mode > hipStreamCaptureModeRelaxed) HIP_RETURN(hipErrorInvalidValue);
  hipStreamCaptureMode before = thread_mode;
  thread_mode = *mode;
  *mode = before;
  return hipSuccess;
}
