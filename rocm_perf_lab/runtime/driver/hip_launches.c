// Interposed HIP functions that launch kernels and graphs: geometry, call sites, order.
#include "allocations.h"
#include "hip_calls.h"
#include "order.h"

enum { MOST_WORK_ITEMS = 1024, AXES = 3 };
#define PER_THREAD ((hip_stream)2)

static __thread uint64_t pushed_site;      // of <<<...>>>, whose launch comes from a function that the compiler made

struct launch {
  uint64_t site;
  struct hip_dim3 grid, block;
  hip_stream stream;
  int has_geometry, returns_error /* to the application, not to a function that the compiler made */;
  struct drv_op *op, *before;
};

static void check_geometry(const struct launch *l) {
  uint64_t items = (uint64_t)l->block.x * l->block.y * l->block.z;
  if (!l->has_geometry) return;
  if (!l->grid.x || !l->grid.y || !l->grid.z)
    drv_hip_report(RPL_ON_HOST, "bad_geometry", (uint64_t[3]){l->site}, "the launch at {0} has an empty grid: %u x %u x %u", l->grid.x,
                   l->grid.y, l->grid.z);
  if (!items || items > MOST_WORK_ITEMS)
    drv_hip_report(RPL_ON_HOST, "bad_geometry", (uint64_t[3]){l->site},
                   "the launch at {0} has workgroups of %u x %u x %u work-items; 1 to %d are possible", l->block.x, l->block.y, l->block.z,
                   MOST_WORK_ITEMS);
}

static void begin(struct launch *l, const char *what) {
  check_geometry(l);
  drv_hip_stream_is_gone(l->stream, l->site);
  l->op = drv_hip_is_capturing(l->stream) ? NULL : drv_order_add(l->stream, drv_hip_device(), l->site, what);
  l->before = drv_order_set_current(l->op, l->site);
}

static hip_error done(struct launch *l, hip_error error) {
  drv_order_set_current(l->before, 0);
  if (l->op && error == HIP_SUCCESS) drv_hip_settle(l->stream);
  drv_order_put(l->op);
  if (error != HIP_SUCCESS) drv_hip_failed(l->returns_error ? "the launch" : NULL, l->site, error);
  drv_hip_leave();
  return error;
}

#define LAUNCH(call, ...)                                      \
  struct launch launch = {__VA_ARGS__};                        \
  begin(&launch, "the launch");                                \
  return done(&launch, call)

// NOLINTNEXTLINE(bugprone-reserved-identifier): the name of the runtime
HIP(__hipPushCallConfiguration, (struct hip_dim3 grid, struct hip_dim3 block, size_t shared, hip_stream stream)) {
  if (!REAL(__hipPushCallConfiguration)) return HIP_NOT_INITIALIZED;
  pushed_site = SITE;
  return REAL(__hipPushCallConfiguration)(grid, block, shared, stream);
}

// The site of <<<...>>> if there is one for this launch.
static uint64_t site_of_launch(uint64_t site) {
  uint64_t pushed = pushed_site;
  pushed_site = 0;
  return pushed ? pushed : site;
}

#define DEFINE_LAUNCH(name, default_stream)                                                                                    \
  HIP(name, (const void *function, struct hip_dim3 grid, struct hip_dim3 block, void **arguments, size_t shared,               \
             hip_stream stream)) {                                                                                             \
    FORWARD_UNLESS_CHECKED(name, function, grid, block, arguments, shared, stream);                                            \
    int is_pushed = pushed_site != 0;                                                                                          \
    LAUNCH(REAL(name)(function, grid, block, arguments, shared, stream), .site = site_of_launch(SITE), .grid = grid,           \
           .block = block, .stream = stream ? stream : (default_stream), .has_geometry = 1, .returns_error = !is_pushed);      \
  }
DEFINE_LAUNCH(hipLaunchKernel, NULL)
DEFINE_LAUNCH(hipLaunchKernel_spt, PER_THREAD)

HIP(hipExtLaunchKernel, (const void *function, struct hip_dim3 grid, struct hip_dim3 block, void **arguments, size_t shared,
                         hip_stream stream, hip_event start, hip_event stop, int flags)) {
  FORWARD_UNLESS_CHECKED(hipExtLaunchKernel, function, grid, block, arguments, shared, stream, start, stop, flags);
  struct launch launch = {.site = SITE, .grid = grid, .block = block, .stream = stream, .has_geometry = 1, .returns_error = 1};
  begin(&launch, "the launch");
  hip_error error = REAL(hipExtLaunchKernel)(function, grid, block, arguments, shared, stream, start, stop, flags);
  int device = drv_hip_device();
  if (start) drv_order_event_recorded(start, stream, device);
  if (stop) drv_order_event_recorded(stop, stream, device);
  return done(&launch, error);
}

#define DEFINE_COOPERATIVE(name, default_stream)                                                                               \
  HIP(name, (const void *function, struct hip_dim3 grid, struct hip_dim3 block, void **arguments, unsigned shared,             \
             hip_stream stream)) {                                                                                             \
    FORWARD_UNLESS_CHECKED(name, function, grid, block, arguments, shared, stream);                                            \
    LAUNCH(REAL(name)(function, grid, block, arguments, shared, stream), .site = SITE, .grid = grid, .block = block,           \
           .stream = stream ? stream : (default_stream), .has_geometry = 1, .returns_error = 1);                               \
  }
DEFINE_COOPERATIVE(hipLaunchCooperativeKernel, NULL)
DEFINE_COOPERATIVE(hipLaunchCooperativeKernel_spt, PER_THREAD)

HIP(hipModuleLaunchKernel, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                            hip_stream stream, void **parameters, void **extra)) {
  FORWARD_UNLESS_CHECKED(hipModuleLaunchKernel, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
  LAUNCH(REAL(hipModuleLaunchKernel)(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra), .site = SITE,
         .grid = {gx, gy, gz}, .block = {bx, by, bz}, .stream = stream, .has_geometry = 1, .returns_error = 1);
}

HIP(hipModuleLaunchCooperativeKernel, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                       unsigned shared, hip_stream stream, void **parameters)) {
  FORWARD_UNLESS_CHECKED(hipModuleLaunchCooperativeKernel, function, gx, gy, gz, bx, by, bz, shared, stream, parameters);
  LAUNCH(REAL(hipModuleLaunchCooperativeKernel)(function, gx, gy, gz, bx, by, bz, shared, stream, parameters), .site = SITE,
         .grid = {gx, gy, gz}, .block = {bx, by, bz}, .stream = stream, .has_geometry = 1, .returns_error = 1);
}

#define DEFINE_EXTENDED(name)                                                                                                  \
  HIP(name, (void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, size_t shared,      \
             hip_stream stream, void **parameters, void **extra, hip_event start, hip_event stop, uint32_t flags)) {           \
    FORWARD_UNLESS_CHECKED(name, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra, start, stop, flags);     \
    struct launch launch = {.site = SITE, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .stream = stream, .has_geometry = 1,    \
                            .returns_error = 1};                                                                               \
    begin(&launch, "the launch");                                                                                              \
    hip_error error = REAL(name)(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra, start, stop, flags);     \
    int device = drv_hip_device();                                                                                             \
    if (start) drv_order_event_recorded(start, stream, device);                                                                \
    if (stop) drv_order_event_recorded(stop, stream, device);                                                                  \
    return done(&launch, error);                                                                                               \
  }
DEFINE_EXTENDED(hipExtModuleLaunchKernel)

// Under AMD's runtime the nodes of a graph count as one operation: those that may run at the same time are not compared with each other.
#define DEFINE_GRAPH_LAUNCH(name, default_stream)                                                                              \
  HIP(name, (void *graph, hip_stream stream)) {                                                                                \
    FORWARD_UNLESS_CHECKED(name, graph, stream);                                                                               \
    struct launch launch = {.site = SITE, .stream = stream ? stream : (default_stream), .returns_error = 1};                   \
    begin(&launch, "the graph");                                                                                               \
    return done(&launch, REAL(name)(graph, stream));                                                                           \
  }
DEFINE_GRAPH_LAUNCH(hipGraphLaunch, NULL)
DEFINE_GRAPH_LAUNCH(hipGraphLaunch_spt, PER_THREAD)
