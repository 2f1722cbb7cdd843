// Clocks of streams and events. Operations are ordered when they are submitted; races are looked for when it is known what an operation
// accessed, with all earlier ones that are kept.
#include "order.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "host_races.h"
#include "hip_calls.h"
#include "races.h"

enum { MOST_EVENTS = 4096, PACKET_PLACES = 1 << 16, MOST_DEVICES = 16 };

struct stream { hip_stream handle; uint64_t thread; int device, is_blocking, is_used; uint32_t count; struct drv_clock clock; };
struct event { hip_event handle; struct drv_clock clock; };
struct packet { uint64_t queue, number, site; struct drv_op *op; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream streams[RPL_CLOCK_STREAMS];
static struct event events[MOST_EVENTS];     // open addressing
static struct drv_clock host;
static struct packet *packets;
static __thread struct drv_op *current_op, *current_graph;
static __thread uint64_t current_site;
static __thread char thread_mark;

static int is_on(void) { return drv_check_is_on(RPL_ON_RACES); }

static void join(struct drv_clock *into, const struct drv_clock *from) {
  for (int k = 0; k < RPL_CLOCK_STREAMS; k++)
    if (from->at[k] > into->at[k]) into->at[k] = from->at[k];
}

// ---- streams ----

#define PER_THREAD ((hip_stream)2)          // hipStreamPerThread
#define LEGACY ((hip_stream)1)

static struct stream *add_stream(hip_stream handle, int device, int is_blocking, uint64_t thread) {
  int free_place = RPL_CLOCK_STREAMS - 1;
  for (int k = RPL_CLOCK_STREAMS - 2; k >= 0; k--)
    if (!streams[k].is_used) free_place = k;
  struct stream *s = &streams[free_place];
  if (s->is_used) return s;
  uint32_t count = s->count;                // operations of an earlier stream in this place are still known
  *s = (struct stream){.handle = handle, .thread = thread, .device = device, .is_blocking = is_blocking, .is_used = 1, .count = count};
  s->clock.at[free_place] = count;
  join(&s->clock, &host);
  return s;
}

static struct stream *stream_of(hip_stream handle, int device) {
  if (handle == LEGACY) handle = NULL;
  uint64_t thread = handle == PER_THREAD ? (uint64_t)&thread_mark : 0;
  for (int k = 0; k < RPL_CLOCK_STREAMS; k++) {
    struct stream *s = &streams[k];
    if (s->is_used && s->handle == handle && s->thread == thread && (s->device == device || (handle && handle != PER_THREAD))) return s;
  }
  return add_stream(handle, device, 1, thread);
}

void drv_order_stream_created(hip_stream handle, int device, int is_blocking) {
  if (!is_on()) return;
  pthread_mutex_lock(&lock);
  add_stream(handle, device, is_blocking, 0);
  pthread_mutex_unlock(&lock);
}

void drv_order_stream_destroyed(hip_stream handle) {
  if (!is_on()) return;
  pthread_mutex_lock(&lock);
  for (int k = 0; k < RPL_CLOCK_STREAMS; k++)
    if (streams[k].is_used && streams[k].handle == handle && handle) streams[k].is_used = 0;
  pthread_mutex_unlock(&lock);
}

// What an operation at the end of the stream is ordered behind. The null stream and blocking streams wait for each other.
static void arrive(struct stream *s) {
  join(&s->clock, &host);
  for (int k = 0; k < RPL_CLOCK_STREAMS; k++) {
    const struct stream *other = &streams[k];
    if (!other->is_used || other == s || other->device != s->device || !other->is_blocking || !s->is_blocking) continue;
    if (!s->handle || !other->handle) join(&s->clock, &other->clock);
  }
}

struct drv_op *drv_order_add(hip_stream handle, int device, uint64_t site, const char *what) {
  static uint64_t calls;
  struct drv_op *op = is_on() ? calloc(1, sizeof *op) : NULL;
  if (!op) return NULL;
  pthread_mutex_lock(&lock);
  op->call = ++calls;
  struct stream *s = stream_of(handle, device);
  arrive(s);
  op->stream = (uint32_t)(s - streams);
  op->number = s->clock.at[op->stream] = ++s->count;
  op->clock = s->clock;
  pthread_mutex_unlock(&lock);
  op->site = site;
  op->what = what;
  atomic_store(&op->users, 1);
  return op;
}

void drv_order_put(struct drv_op *op) {
  if (op && atomic_fetch_sub(&op->users, 1) == 1) free(op);
}

// ---- the host ----

static void host_joins(const struct drv_clock *clock) {
  join(&host, clock);
  drv_host_races_waited(&host);
}

int drv_order_host_races(uint64_t address, int writes, struct drv_finding *finding, char *text, uint64_t bytes) {
  pthread_mutex_lock(&lock);
  int races = drv_races_of_host(&host, address, writes, finding, text, bytes);
  pthread_mutex_unlock(&lock);
  return races;
}

void drv_order_host_waits(hip_stream handle, int device) {
  if (!is_on()) return;
  pthread_mutex_lock(&lock);
  struct stream *s = stream_of(handle, device);
  if (!s->handle) arrive(s);
  host_joins(&s->clock);
  pthread_mutex_unlock(&lock);
}

void drv_order_host_waits_for_device(int device) {
  if (!is_on()) return;
  pthread_mutex_lock(&lock);
  for (int k = 0; k < RPL_CLOCK_STREAMS; k++)
    if (device < 0 || streams[k].device == device || k == RPL_CLOCK_STREAMS - 1) join(&host, &streams[k].clock);
  drv_host_races_waited(&host);
  int knows_all = 1;
  for (int k = 0; k < RPL_CLOCK_STREAMS; k++) knows_all &= host.at[k] == streams[k].count;
  if (knows_all) drv_races_all_ended();
  pthread_mutex_unlock(&lock);
}

void drv_order_clock_of(hip_stream handle, int device, struct drv_clock *clock) {
  pthread_mutex_lock(&lock);
  struct stream *s = stream_of(handle, device);
  arrive(s);
  *clock = s->clock;
  pthread_mutex_unlock(&lock);
}

void drv_order_host_learns(const struct drv_clock *clock) {
  pthread_mutex_lock(&lock);
  host_joins(clock);
  pthread_mutex_unlock(&lock);
}

// ---- events ----

static struct event *event_of(hip_event handle, int add) {
  uint64_t k = (uint64_t)handle * 0x9e3779b97f4a7c15u >> 40;
  for (int tries = 0; tries < MOST_EVENTS; tries++) {
    struct event *e = &events[(k + (uint64_t)tries) % MOST_EVENTS];
    if (e->handle == handle) return e;
    if (e->handle) continue;
    if (!add) return NULL;
    e->handle = handle;
    return e;
  }
  return NULL;
}

void drv_order_event_recorded(hip_event handle, hip_stream stream, int device) {
  if (!is_on()) return;
  pthread_mutex_lock(&lock);
  struct event *e = event_of(handle, 1);
  struct stream *s = stream_of(stream, device);
  arrive(s);
  if (e) e->clock = s->clock;
  pthread_mutex_unlock(&lock);
}

// The place stays, since others were found behind it; its handle may be used again.
void drv_order_event_destroyed(hip_event handle) {
  if (!is_on()) return;
  pthread_mutex_lock(&lock);
  struct event *e = event_of(handle, 0);
  if (e) memset(&e->clock, 0, sizeof e->clock);
  pthread_mutex_unlock(&lock);
}

void drv_order_stream_waits(hip_stream stream, int device, hip_event handle) {
  if (!is_on()) return;
  pthread_mutex_lock(&lock);
  struct event *e = event_of(handle, 0);
  struct stream *s = stream_of(stream, device);
  if (e) join(&s->clock, &e->clock);
  pthread_mutex_unlock(&lock);
  if (!e) drv_order_stream_waits_for_all(stream, device);  // of another process, or one too many
}

void drv_order_stream_waits_for_all(hip_stream stream, int device) {
  if (!is_on()) return;
  pthread_mutex_lock(&lock);
  struct stream *s = stream_of(stream, device);
  for (int k = 0; k < RPL_CLOCK_STREAMS; k++) join(&s->clock, &streams[k].clock);
  pthread_mutex_unlock(&lock);
}

void drv_order_host_waits_for_event(hip_event handle) {
  if (!is_on()) return;
  pthread_mutex_lock(&lock);
  struct event *e = event_of(handle, 0);
  if (e) host_joins(&e->clock);
  pthread_mutex_unlock(&lock);
}

// ---- packets ----

struct drv_op *drv_order_set_current(struct drv_op *op, uint64_t site) {
  struct drv_op *before = current_op;
  current_op = op;
  current_site = site;
  return before;
}

int drv_order_has_current(void) { return current_op != NULL; }

uint64_t drv_order_current_site(void) { return current_site; }

void drv_order_begin_node(uint32_t node, const uint64_t ancestors[RPL_NODE_WORDS]) {
  static _Atomic uint64_t launches;
  struct drv_op *op = calloc(1, sizeof *op);
  current_graph = current_op;
  if (!op || !current_graph) {
    free(op);
    return;
  }
  if (!current_graph->graph_launch) current_graph->graph_launch = atomic_fetch_add(&launches, 1) + 1;
  *op = *current_graph;
  atomic_store(&op->users, 1);
  op->node = node;
  memcpy(op->ancestors, ancestors, sizeof op->ancestors);
  current_op = op;
}

void drv_order_node_accesses(const struct drv_extent *extent) {
  if (!current_op) return;
  const char *what = current_op->what;
  current_op->what = "the copy";
  drv_races_of_copy(current_op, extent, 1);
  current_op->what = what;
}

void drv_order_end_node(void) {
  if (current_op != current_graph) drv_order_put(current_op);
  current_op = current_graph;
}

static struct packet *packet_place(uint64_t queue, uint64_t number) {
  return &packets[((queue >> 6) * 0x9e3779b97f4a7c15u + number) % PACKET_PLACES];
}

void drv_order_packets(uint64_t queue, uint64_t first, uint64_t count) {
  if (!current_site) return;
  pthread_mutex_lock(&lock);
  if (!packets) packets = calloc(PACKET_PLACES, sizeof *packets);
  for (uint64_t number = first; packets && number < first + count; number++) {
    struct packet *place = packet_place(queue, number);
    drv_order_put(place->op);
    if (current_op) atomic_fetch_add(&current_op->users, 1);
    *place = (struct packet){queue, number, current_site, current_op};
  }
  pthread_mutex_unlock(&lock);
}

struct drv_op *drv_order_of_packet(uint64_t queue, uint64_t number, uint64_t *site) {
  struct drv_op *op = NULL;
  *site = 0;
  pthread_mutex_lock(&lock);
  struct packet *place = packets ? packet_place(queue, number) : NULL;
  if (place && place->queue == queue && place->number == number) {
    op = place->op;                         // with its reference
    *site = place->site;
    *place = (struct packet){0};
  }
  pthread_mutex_unlock(&lock);
  return op;
}

// ---- accesses ----

void drv_order_accesses(struct drv_op *op, const struct drv_extent *extents, int count) {
  if (op) drv_races_of_copy(op, extents, count);
}

void drv_order_dispatched(const struct drv_op *op, const struct drv_kernel *kernel, struct drv_touched *touched) {
  drv_races_of_dispatch(op, kernel, touched);
}

void drv_order_forget(void) {
  pthread_mutex_init(&lock, NULL);
  memset(streams, 0, sizeof streams);
  memset(events, 0, sizeof events);
  memset(&host, 0, sizeof host);
  packets = NULL;
  current_op = NULL;
  current_site = 0;
  drv_races_forget();
  drv_host_races_forget();
}
