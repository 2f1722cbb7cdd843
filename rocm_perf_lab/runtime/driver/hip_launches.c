// Interposed HIP functions that launch kernels and graphs: geometry, call sites, order.
#include <stdio.h>

#include "allocations.h"
#include "hip_calls.h"
#include "order.h"

enum { MOST_WORK_ITEMS = 1024, NAME_BYTES = 300 /* of the longest symbol that is shown whole */ };
#define PER_THREAD ((hip_stream)2)

static __thread uint64_t pushed_site;      // of <<<...>>>, whose launch comes from a function that the compiler made

struct launch {
  uint64_t site;
  struct hip_dim3 grid, block;
  hip_stream stream;
  int has_geometry, returns_error /* to the application, not to a function that the compiler made */;
  const void *kernel;              // a function of the host, or of a module
  int is_of_module;
  uint64_t dynamic_lds;
  struct drv_op *op, *before;
};

// ---- geometry ----

// struct hipFuncAttributes.
struct attributes {
  int binary_version, cache_mode;
  size_t constant_bytes, local_bytes;
  int most_dynamic_lds, most_work_items, registers, carveout, ptx_version;
  size_t static_lds_bytes;
};
enum { ATTRIBUTE_WORK_ITEMS = 0, ATTRIBUTE_STATIC_LDS = 1 };

// Limits of a kernel: work-items of a workgroup by its launch bounds, and its static LDS.
static int limits_of(const struct launch *l, uint64_t *work_items, uint64_t *static_lds) {
  static _Atomic(void *) kept_all, kept_one;
  hip_error (*all)(struct attributes *, const void *) = (hip_error(*)(struct attributes *, const void *))drv_hip_function(&kept_all, "hipFuncGetAttributes");
  hip_error (*one)(int *, int, const void *) = (hip_error(*)(int *, int, const void *))drv_hip_function(&kept_one, "hipFuncGetAttribute");
  struct attributes found = {0};
  int items = 0, lds = 0;
  if (!l->kernel) return 0;
  if (l->is_of_module) {
    if (!one || one(&items, ATTRIBUTE_WORK_ITEMS, l->kernel) != HIP_SUCCESS || one(&lds, ATTRIBUTE_STATIC_LDS, l->kernel) != HIP_SUCCESS) return 0;
  } else {
    if (!all || all(&found, l->kernel) != HIP_SUCCESS) return 0;
    items = found.most_work_items;
    lds = (int)found.static_lds_bytes;
  }
  *work_items = (uint64_t)items;
  *static_lds = (uint64_t)lds;
  return 1;
}

// "the launch of `kernel`", with the symbol of the kernel.
static void describe(const struct launch *l, char *text, size_t bytes) {
  static _Atomic(void *) kept_host, kept_module;
  const char *(*by_host)(const void *, hip_stream) = (const char *(*)(const void *, hip_stream))drv_hip_function(&kept_host, "hipKernelNameRefByPtr");
  const char *(*by_module)(const void *) = (const char *(*)(const void *))drv_hip_function(&kept_module, "hipKernelNameRef");
  const char *name = NULL;
  if (l->kernel && l->is_of_module && by_module) name = by_module(l->kernel);
  if (l->kernel && !l->is_of_module && by_host) name = by_host(l->kernel, NULL);
  if (name) snprintf(text, bytes, "the launch of `%s`", name);
  else snprintf(text, bytes, "the launch");
}

#define BAD_GEOMETRY(format, ...)                             \
  drv_hip_report(RPL_ON_HOST, "bad_geometry", (uint64_t[3]){l->site}, "%s at {0} " format, launch, __VA_ARGS__)

static uint64_t most_lds(void) {
  const struct drv_settings *settings = drv_settings();
  int device = drv_hip_device();
  return settings && device >= 0 && (uint32_t)device < settings->gpu_count ? settings->gpus[device].lds_bytes : UINT64_MAX;
}

// Runs before the launch: calls of the runtime after a failure would replace the error that the application looks at.
static void check_geometry(const struct launch *l) {
  uint64_t items = (uint64_t)l->block.x * l->block.y * l->block.z, lds_bytes = most_lds(), most_items = 0, static_lds = 0;
  if (!l->has_geometry) return;
  int is_known = limits_of(l, &most_items, &static_lds), is_empty = !l->grid.x || !l->grid.y || !l->grid.z;
  int is_too_large = !items || items > MOST_WORK_ITEMS, is_beyond_bounds = is_known && most_items && items > most_items;
  int needs_too_much = is_known && static_lds + l->dynamic_lds > lds_bytes;
  int has_too_many = (uint64_t)l->grid.x * l->block.x > UINT32_MAX || (uint64_t)l->grid.y * l->block.y > UINT32_MAX ||
                     (uint64_t)l->grid.z * l->block.z > UINT32_MAX;
  if (!is_empty && !is_too_large && !is_beyond_bounds && !needs_too_much && !has_too_many) return;
  char launch[NAME_BYTES];
  describe(l, launch, sizeof launch);
  if (is_empty) BAD_GEOMETRY("has an empty grid: %u x %u x %u", l->grid.x, l->grid.y, l->grid.z);
  if (is_too_large)
    BAD_GEOMETRY("has workgroups of %u x %u x %u work-items; 1 to %d are possible", l->block.x, l->block.y, l->block.z, MOST_WORK_ITEMS);
  else if (is_beyond_bounds)
    BAD_GEOMETRY("has workgroups of %llu work-items; the kernel's launch bounds allow %llu", (unsigned long long)items, (unsigned long long)most_items);
  if (has_too_many)
    BAD_GEOMETRY("has 2^32 work-items or more along an axis: %u x %u x %u workgroups", l->grid.x, l->grid.y, l->grid.z);
  if (needs_too_much)
    BAD_GEOMETRY("needs %llu bytes of LDS, %llu of them dynamic; a workgroup has %llu", (unsigned long long)(static_lds + l->dynamic_lds),
                 (unsigned long long)l->dynamic_lds, (unsigned long long)lds_bytes);
}

static void report_cooperative_too_large(const struct launch *l) {
  drv_hip_report(RPL_ON_HOST, "bad_geometry", (uint64_t[3]){l->site}, "the cooperative launch at {0} has %llu workgroups, more than the GPU runs at the same time",
                 (unsigned long long)l->grid.x * l->grid.y * l->grid.z);
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
  if (error == HIP_COOPERATIVE_TOO_LARGE) report_cooperative_too_large(l);
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
           .block = block, .stream = stream ? stream : (default_stream), .has_geometry = 1, .returns_error = !is_pushed,     \
           .kernel = function, .dynamic_lds = shared);      \
  }
DEFINE_LAUNCH(hipLaunchKernel, NULL)
DEFINE_LAUNCH(hipLaunchKernel_spt, PER_THREAD)

HIP(hipExtLaunchKernel, (const void *function, struct hip_dim3 grid, struct hip_dim3 block, void **arguments, size_t shared,
                         hip_stream stream, hip_event start, hip_event stop, int flags)) {
  FORWARD_UNLESS_CHECKED(hipExtLaunchKernel, function, grid, block, arguments, shared, stream, start, stop, flags);
  struct launch launch = {.site = SITE, .grid = grid, .block = block, .stream = stream, .has_geometry = 1, .returns_error = 1,
                          .kernel = function, .dynamic_lds = shared};
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
           .stream = stream ? stream : (default_stream), .has_geometry = 1, .returns_error = 1, .kernel = function,            \
           .dynamic_lds = shared);                                                                                             \
  }
DEFINE_COOPERATIVE(hipLaunchCooperativeKernel, NULL)
DEFINE_COOPERATIVE(hipLaunchCooperativeKernel_spt, PER_THREAD)

HIP(hipModuleLaunchKernel, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                            hip_stream stream, void **parameters, void **extra)) {
  FORWARD_UNLESS_CHECKED(hipModuleLaunchKernel, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
  LAUNCH(REAL(hipModuleLaunchKernel)(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra), .site = SITE,
         .grid = {gx, gy, gz}, .block = {bx, by, bz}, .stream = stream, .has_geometry = 1, .returns_error = 1,
         .kernel = function, .is_of_module = 1, .dynamic_lds = shared);
}

HIP(hipModuleLaunchCooperativeKernel, (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                       unsigned shared, hip_stream stream, void **parameters)) {
  FORWARD_UNLESS_CHECKED(hipModuleLaunchCooperativeKernel, function, gx, gy, gz, bx, by, bz, shared, stream, parameters);
  LAUNCH(REAL(hipModuleLaunchCooperativeKernel)(function, gx, gy, gz, bx, by, bz, shared, stream, parameters), .site = SITE,
         .grid = {gx, gy, gz}, .block = {bx, by, bz}, .stream = stream, .has_geometry = 1, .returns_error = 1,
         .kernel = function, .is_of_module = 1, .dynamic_lds = shared);
}

#define DEFINE_EXTENDED(name)                                                                                                  \
  HIP(name, (void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, size_t shared,      \
             hip_stream stream, void **parameters, void **extra, hip_event start, hip_event stop, uint32_t flags)) {           \
    FORWARD_UNLESS_CHECKED(name, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra, start, stop, flags);     \
    struct launch launch = {.site = SITE, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .stream = stream, .has_geometry = 1,    \
                            .returns_error = 1, .kernel = function, .is_of_module = 1, .dynamic_lds = shared};                 \
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
