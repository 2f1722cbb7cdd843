// Interposed HIP functions that copy and fill memory: accesses past the end, freed memory, direction, and order between streams.
#include <string.h>

#include "allocations.h"
#include "areas.h"
#include "hip_calls.h"
#include "host_races.h"
#include "order.h"

enum copy_kind { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT_KIND, NO_KIND /* of peers, fills */ };

// Rows of `bytes` bytes; source 0: a fill. A cuboid has `slices` of such rows; 0: one.
struct copy {
  const char *name;
  uint64_t site, to, from, bytes, rows, to_pitch, from_pitch;
  int kind, is_async;
  hip_stream stream;
  uint64_t slices, to_slice, from_slice;
};
enum { MOST_EXTENTS = 128 };  // of a copy that is compared with others

// ---- mistakes ----

static uint64_t extent(uint64_t bytes, uint64_t rows, uint64_t pitch) { return !bytes || !rows ? 0 : (rows - 1) * pitch + bytes; }

static uint64_t slices_of(const struct copy *c) { return c->slices ? c->slices : 1; }

// Bytes from the first to the last one.
static uint64_t whole_extent(const struct copy *c, int writes) {
  uint64_t slice = extent(c->bytes, c->rows, writes ? c->to_pitch : c->from_pitch);
  return slice ? (slices_of(c) - 1) * (writes ? c->to_slice : c->from_slice) + slice : 0;
}

static void check_side(const struct copy *c, uint64_t address, uint64_t bytes, int writes) {
  struct drv_allocation a;
  if (!bytes || !address || !drv_allocation_at(address, &a)) return;
  const char *does = writes ? "writes" : "reads";
  if (a.is_freed && !drv_allocation_is_stale(&a)) return;
  if (a.is_freed) {
    drv_hip_report(RPL_ON_HOST, "use_after_free", (uint64_t[3]){c->site, a.freed_site, a.site},
                   "%s at {0} %s memory that was freed at {1} (%llu bytes allocated at {2})", c->name, does, (unsigned long long)a.bytes);
  } else if (address + bytes > a.address + a.bytes) {
    drv_hip_report(RPL_ON_HOST, "copy_past_end", (uint64_t[3]){c->site, a.site},
                   "%s at {0} %s %llu bytes from byte %llu on, %llu bytes past the end of %llu bytes allocated at {1}", c->name, does,
                   (unsigned long long)bytes, (unsigned long long)(address - a.address),
                   (unsigned long long)(address + bytes - a.address - a.bytes), (unsigned long long)a.bytes);
  }
}

enum where { PAGEABLE, PINNED, ON_DEVICE };
static enum where where_is(uint64_t address) {
  struct drv_allocation a;
  struct drv_block_place place;
  if (drv_allocation_at(address, &a)) return a.kind == RPL_DEVICE_MEMORY || a.kind == RPL_STREAM_MEMORY ? ON_DEVICE : PINNED;
  if (drv_memory_block(address, &place)) return place.is_vram ? ON_DEVICE : PINNED;
  return PAGEABLE;
}

static void check_direction(const struct copy *c) {
  static const char *const kinds[] = {"hipMemcpyHostToHost", "hipMemcpyHostToDevice", "hipMemcpyDeviceToHost", "hipMemcpyDeviceToDevice"};
  if (c->kind < HOST_TO_HOST || c->kind > DEVICE_TO_DEVICE || !c->bytes || !c->rows || !c->to || !c->from) return;
  int from_device = c->kind >= DEVICE_TO_HOST, to_device = c->kind == HOST_TO_DEVICE || c->kind == DEVICE_TO_DEVICE;
  for (int side = 0; side < 2; side++) {
    uint64_t address = side ? c->to : c->from;
    int is_device = side ? to_device : from_device;
    enum where where = where_is(address);
    if (where == PINNED || (where == ON_DEVICE) == is_device) continue;
    struct drv_allocation a = {0};
    int is_known = drv_allocation_at(address, &a);
    drv_hip_report(RPL_ON_HOST, "wrong_direction", (uint64_t[3]){c->site, a.site}, "%s at {0} with %s: its %s is memory of the %s%s", c->name,
                   kinds[c->kind], side ? "destination" : "source", where == ON_DEVICE ? "device" : "host", is_known ? " allocated at {1}" : "");
    return;
  }
}

static void check(const struct copy *c) {
  check_side(c, c->to, whole_extent(c, 1), 1);
  if (c->from) check_side(c, c->from, whole_extent(c, 0), 0);
  check_direction(c);
  drv_hip_stream_is_gone(c->stream, c->site);
}

// ---- order ----

static int is_shared(uint64_t address) { return where_is(address) != PAGEABLE; }

static void mark_written(const struct copy *c) {
  for (uint64_t slice = 0; slice < slices_of(c); slice++)
    for (uint64_t row = 0; row < c->rows; row++) drv_area_written(c->to + slice * c->to_slice + row * c->to_pitch, c->bytes);
}

// Adds what a copy accesses on one side; slices without a gap are one extent.
static int add_extents(const struct copy *c, int writes, struct drv_extent *extents, int count) {
  uint64_t address = writes ? c->to : c->from, pitch = writes ? c->to_pitch : c->from_pitch, gap = writes ? c->to_slice : c->from_slice;
  uint64_t slices = slices_of(c), rows = c->rows;
  if (!address || !is_shared(address)) return count;
  if (slices > 1 && gap == rows * pitch) {
    rows *= slices;
    slices = 1;
  }
  for (uint64_t slice = 0; slice < slices && count < MOST_EXTENTS; slice++)
    extents[count++] = (struct drv_extent){address + slice * gap, c->bytes, rows, pitch, writes};
  return count;
}

static void add_to_order(const struct copy *c) {
  struct drv_extent extents[MOST_EXTENTS];
  int device = drv_hip_device(), count = add_extents(c, 0, extents, add_extents(c, 1, extents, 0));
  struct drv_op *op = drv_order_add(c->stream, device, c->site, c->name);
  drv_order_accesses(op, extents, count);
  if (c->is_async) drv_hip_settle(c->stream);
  for (int k = 0; c->is_async && k < count; k++)
    drv_host_races_guard_range(op, extents[k].address, extent(extents[k].bytes, extents[k].rows, extents[k].pitch), extents[k].writes);
  drv_order_put(op);
  if (!c->is_async) drv_order_host_waits(c->stream, device);
}

static hip_error done(const struct copy *c, hip_error error) {
  drv_order_set_current(NULL, 0);
  if (error != HIP_SUCCESS) drv_hip_failed(c->name, c->site, error);
  if (error == HIP_SUCCESS && !drv_hip_is_capturing(c->stream)) {
    mark_written(c);
    add_to_order(c);
  }
  drv_hip_leave();
  return error;
}

static void begin(const struct copy *c) {
  check(c);
  drv_order_set_current(NULL, c->site);
}

#define COPY(name, call, ...)                                  \
  struct copy copy = {#name, SITE, __VA_ARGS__};               \
  begin(&copy);                                                \
  return done(&copy, call)
#define ADDRESS(pointer) ((uint64_t)(pointer))
#define PER_THREAD ((hip_stream)2)

#define DEFINE_COPY(name, default_stream)                                                                                      \
  HIP(name, (void *to, const void *from, size_t bytes, int kind)) {                                                            \
    FORWARD_UNLESS_CHECKED(name, to, from, bytes, kind);                                                                       \
    COPY(name, REAL(name)(to, from, bytes, kind), ADDRESS(to), ADDRESS(from), bytes, 1, 0, 0, kind, 0, default_stream);        \
  }
DEFINE_COPY(hipMemcpy, NULL)
DEFINE_COPY(hipMemcpy_spt, PER_THREAD)

#define DEFINE_ASYNC_COPY(name, waits, default_stream)                                                                         \
  HIP(name, (void *to, const void *from, size_t bytes, int kind, hip_stream stream)) {                                         \
    FORWARD_UNLESS_CHECKED(name, to, from, bytes, kind, stream);                                                               \
    COPY(name, REAL(name)(to, from, bytes, kind, stream), ADDRESS(to), ADDRESS(from), bytes, 1, 0, 0, kind, !(waits),          \
         stream ? stream : (default_stream));                                                                                  \
  }
DEFINE_ASYNC_COPY(hipMemcpyAsync, 0, NULL)
DEFINE_ASYNC_COPY(hipMemcpyAsync_spt, 0, PER_THREAD)
DEFINE_ASYNC_COPY(hipMemcpyWithStream, 1, NULL)

#define DEFINE_DIRECTED_COPY(name, kind)                                                                                       \
  HIP(name, (void *to, void *from, size_t bytes)) {                                                                            \
    FORWARD_UNLESS_CHECKED(name, to, from, bytes);                                                                             \
    COPY(name, REAL(name)(to, from, bytes), ADDRESS(to), ADDRESS(from), bytes, 1, 0, 0, kind, 0, NULL);                        \
  }                                                                                                                            \
  HIP(name##Async, (void *to, void *from, size_t bytes, hip_stream stream)) {                                                  \
    FORWARD_UNLESS_CHECKED(name##Async, to, from, bytes, stream);                                                              \
    COPY(name##Async, REAL(name##Async)(to, from, bytes, stream), ADDRESS(to), ADDRESS(from), bytes, 1, 0, 0, kind, 1, stream); \
  }
DEFINE_DIRECTED_COPY(hipMemcpyHtoD, HOST_TO_DEVICE)
DEFINE_DIRECTED_COPY(hipMemcpyDtoH, DEVICE_TO_HOST)
DEFINE_DIRECTED_COPY(hipMemcpyDtoD, DEVICE_TO_DEVICE)

HIP(hipMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t bytes)) {
  FORWARD_UNLESS_CHECKED(hipMemcpyPeer, to, to_device, from, from_device, bytes);
  COPY(hipMemcpyPeer, REAL(hipMemcpyPeer)(to, to_device, from, from_device, bytes), ADDRESS(to), ADDRESS(from), bytes, 1, 0, 0, NO_KIND, 0,
       NULL);
}

HIP(hipMemcpyPeerAsync, (void *to, int to_device, const void *from, int from_device, size_t bytes, hip_stream stream)) {
  FORWARD_UNLESS_CHECKED(hipMemcpyPeerAsync, to, to_device, from, from_device, bytes, stream);
  COPY(hipMemcpyPeerAsync, REAL(hipMemcpyPeerAsync)(to, to_device, from, from_device, bytes, stream), ADDRESS(to), ADDRESS(from), bytes, 1, 0,
       0, NO_KIND, 1, stream);
}

#define DEFINE_COPY_2D(name, default_stream)                                                                                   \
  HIP(name, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind)) {         \
    FORWARD_UNLESS_CHECKED(name, to, to_pitch, from, from_pitch, width, height, kind);                                         \
    COPY(name, REAL(name)(to, to_pitch, from, from_pitch, width, height, kind), ADDRESS(to), ADDRESS(from), width, height,     \
         to_pitch, from_pitch, kind, 0, default_stream);                                                                       \
  }
DEFINE_COPY_2D(hipMemcpy2D, NULL)
DEFINE_COPY_2D(hipMemcpy2D_spt, PER_THREAD)

#define DEFINE_ASYNC_COPY_2D(name, default_stream)                                                                             \
  HIP(name, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind,            \
             hip_stream stream)) {                                                                                             \
    FORWARD_UNLESS_CHECKED(name, to, to_pitch, from, from_pitch, width, height, kind, stream);                                 \
    COPY(name, REAL(name)(to, to_pitch, from, from_pitch, width, height, kind, stream), ADDRESS(to), ADDRESS(from), width,     \
         height, to_pitch, from_pitch, kind, 1, stream ? stream : (default_stream));                                           \
  }
DEFINE_ASYNC_COPY_2D(hipMemcpy2DAsync, NULL)
DEFINE_ASYNC_COPY_2D(hipMemcpy2DAsync_spt, PER_THREAD)

// ---- cuboids ----

struct hip_position { size_t x, y, z; };
// struct hipMemcpy3DParms.
struct copy_3d {
  void *from_array;
  struct hip_position from_at;
  struct hip_pitched from;
  void *to_array;
  struct hip_position to_at;
  struct hip_pitched to;
  struct hip_extent extent;
  int kind;
};

// struct hip_Memcpy2D and struct HIP_MEMCPY3D, whose sides have three more members.
struct driver_side {
  size_t x, y;
  int type;
  const void *host, *device, *array;
  size_t pitch;
};
struct driver_copy_2d {
  struct driver_side from, to;
  size_t width, height;
};
struct driver_side_3d {
  size_t x, y, z, detail_level;
  int type;
  const void *host, *device, *array;
  size_t pitch, height;
};
struct driver_copy_3d {
  struct driver_side_3d from, to;
  size_t width, height, depth;
};
enum { TYPE_HOST = 1 };

// What all of them describe; the address is that of the first byte, 0 for arrays, which are the runtime's affair.
struct cuboid_side { uint64_t address, pitch, height; };
struct cuboid {
  struct cuboid_side from, to;
  struct hip_extent extent;
  int kind;
};

static struct cuboid_side side_of(const void *pointer, const void *array, struct hip_position at, size_t pitch, size_t height) {
  uint64_t address = pointer && !array ? ADDRESS(pointer) + (at.z * height + at.y) * pitch + at.x : 0;
  return (struct cuboid_side){address, pitch, height};
}

// The numbers of types differ between versions: unused pointers are null.
static struct cuboid_side driver_side_of(const struct driver_side_3d *s) {
  const void *pointer = s->device && !(s->type == TYPE_HOST && s->host) ? s->device : s->host;
  return side_of(pointer, s->array, (struct hip_position){s->x, s->y, s->z}, s->pitch, s->height);
}

static struct driver_side_3d as_3d(const struct driver_side *s) {
  return (struct driver_side_3d){s->x, s->y, 0, 0, s->type, s->host, s->device, s->array, s->pitch, 0};
}

static struct cuboid cuboid_of_3d(const struct copy_3d *p) {
  return (struct cuboid){side_of(p->from.pointer, p->from_array, p->from_at, p->from.pitch, p->from.height),
                         side_of(p->to.pointer, p->to_array, p->to_at, p->to.pitch, p->to.height), p->extent, p->kind};
}

static struct cuboid cuboid_of_driver_3d(const struct driver_copy_3d *p) {
  return (struct cuboid){driver_side_of(&p->from), driver_side_of(&p->to), {p->width, p->height, p->depth}, NO_KIND};
}

static struct cuboid cuboid_of_driver_2d(const struct driver_copy_2d *p) {
  return cuboid_of_driver_3d(&(struct driver_copy_3d){as_3d(&p->from), as_3d(&p->to), p->width, p->height, 1});
}

static struct copy copy_of_cuboid(const struct cuboid *c, const char *name, uint64_t site, int is_async, hip_stream stream) {
  struct copy copy = {.name = name, .site = site, .kind = NO_KIND, .is_async = is_async, .stream = stream};
  if (!c->from.address || !c->to.address || !c->extent.depth) return copy;
  copy.to = c->to.address;
  copy.from = c->from.address;
  copy.bytes = c->extent.width;
  copy.rows = c->extent.height;
  copy.slices = c->extent.depth;
  copy.to_pitch = c->to.pitch;
  copy.from_pitch = c->from.pitch;
  copy.to_slice = c->to.pitch * c->to.height;
  copy.from_slice = c->from.pitch * c->from.height;
  copy.kind = c->kind;
  return copy;
}

#define DEFINE_CUBOID_COPY(name, parameters_type, cuboid_of, default_stream)                                                   \
  HIP(name, (const parameters_type *parameters)) {                                                                             \
    FORWARD_UNLESS_CHECKED(name, parameters);                                                                                  \
    struct cuboid cuboid = parameters ? cuboid_of(parameters) : (struct cuboid){0};                                            \
    struct copy copy = copy_of_cuboid(&cuboid, #name, SITE, 0, default_stream);                                                \
    begin(&copy);                                                                                                              \
    return done(&copy, REAL(name)(parameters));                                                                                \
  }
DEFINE_CUBOID_COPY(hipMemcpy3D, struct copy_3d, cuboid_of_3d, NULL)
DEFINE_CUBOID_COPY(hipMemcpy3D_spt, struct copy_3d, cuboid_of_3d, PER_THREAD)
DEFINE_CUBOID_COPY(hipMemcpyParam2D, struct driver_copy_2d, cuboid_of_driver_2d, NULL)
DEFINE_CUBOID_COPY(hipDrvMemcpy3D, struct driver_copy_3d, cuboid_of_driver_3d, NULL)

#define DEFINE_ASYNC_CUBOID_COPY(name, parameters_type, cuboid_of, default_stream)                                             \
  HIP(name, (const parameters_type *parameters, hip_stream stream)) {                                                          \
    FORWARD_UNLESS_CHECKED(name, parameters, stream);                                                                          \
    struct cuboid cuboid = parameters ? cuboid_of(parameters) : (struct cuboid){0};                                            \
    struct copy copy = copy_of_cuboid(&cuboid, #name, SITE, 1, stream ? stream : (default_stream));                            \
    begin(&copy);                                                                                                              \
    return done(&copy, REAL(name)(parameters, stream));                                                                        \
  }
DEFINE_ASYNC_CUBOID_COPY(hipMemcpy3DAsync, struct copy_3d, cuboid_of_3d, NULL)
DEFINE_ASYNC_CUBOID_COPY(hipMemcpy3DAsync_spt, struct copy_3d, cuboid_of_3d, PER_THREAD)
DEFINE_ASYNC_CUBOID_COPY(hipMemcpyParam2DAsync, struct driver_copy_2d, cuboid_of_driver_2d, NULL)
DEFINE_ASYNC_CUBOID_COPY(hipDrvMemcpy3DAsync, struct driver_copy_3d, cuboid_of_driver_3d, NULL)

// ---- symbols ----

// Address of `bytes` bytes of a symbol; reports accesses past its end. 0: unknown, or not to be checked further.
static uint64_t symbol_address(const char *name, const void *symbol, uint64_t offset, uint64_t bytes, uint64_t site) {
  static _Atomic(void *) kept_address, kept_size;
  hip_error (*address_of)(void **, const void *) = (hip_error(*)(void **, const void *))drv_hip_function(&kept_address, "hipGetSymbolAddress");
  hip_error (*size_of)(size_t *, const void *) = (hip_error(*)(size_t *, const void *))drv_hip_function(&kept_size, "hipGetSymbolSize");
  void *address = NULL;
  size_t size = 0;
  if (!address_of || !size_of || address_of(&address, symbol) != HIP_SUCCESS || size_of(&size, symbol) != HIP_SUCCESS) return 0;
  if (offset + bytes <= size) return (uint64_t)address + offset;
  drv_hip_report(RPL_ON_HOST, "copy_past_end", (uint64_t[3]){site},
                 "%s at {0} accesses %llu bytes from byte %llu on, %llu bytes past the end of a symbol of %llu bytes", name,
                 (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)(offset + bytes - size), (unsigned long long)size);
  return 0;
}

#define DEFINE_SYMBOL_COPIES(name, default_stream)                                                                             \
  HIP(hipMemcpyToSymbol##name, (const void *symbol, const void *from, size_t bytes, size_t offset, int kind)) {                \
    FORWARD_UNLESS_CHECKED(hipMemcpyToSymbol##name, symbol, from, bytes, offset, kind);                                        \
    uint64_t to = symbol_address("hipMemcpyToSymbol", symbol, offset, bytes, SITE);                                            \
    COPY(hipMemcpyToSymbol##name, REAL(hipMemcpyToSymbol##name)(symbol, from, bytes, offset, kind), to, ADDRESS(from),         \
         to ? bytes : 0, 1, 0, 0, NO_KIND, 0, default_stream);                                                                 \
  }                                                                                                                            \
  HIP(hipMemcpyFromSymbol##name, (void *to, const void *symbol, size_t bytes, size_t offset, int kind)) {                      \
    FORWARD_UNLESS_CHECKED(hipMemcpyFromSymbol##name, to, symbol, bytes, offset, kind);                                        \
    uint64_t from = symbol_address("hipMemcpyFromSymbol", symbol, offset, bytes, SITE);                                        \
    COPY(hipMemcpyFromSymbol##name, REAL(hipMemcpyFromSymbol##name)(to, symbol, bytes, offset, kind), ADDRESS(to), from,       \
         from ? bytes : 0, 1, 0, 0, NO_KIND, 0, default_stream);                                                               \
  }                                                                                                                            \
  HIP(hipMemcpyToSymbolAsync##name, (const void *symbol, const void *from, size_t bytes, size_t offset, int kind,              \
                                     hip_stream stream)) {                                                                     \
    FORWARD_UNLESS_CHECKED(hipMemcpyToSymbolAsync##name, symbol, from, bytes, offset, kind, stream);                           \
    uint64_t to = symbol_address("hipMemcpyToSymbolAsync", symbol, offset, bytes, SITE);                                       \
    COPY(hipMemcpyToSymbolAsync##name, REAL(hipMemcpyToSymbolAsync##name)(symbol, from, bytes, offset, kind, stream), to,      \
         ADDRESS(from), to ? bytes : 0, 1, 0, 0, NO_KIND, 1, stream ? stream : (default_stream));                              \
  }                                                                                                                            \
  HIP(hipMemcpyFromSymbolAsync##name, (void *to, const void *symbol, size_t bytes, size_t offset, int kind,                    \
                                       hip_stream stream)) {                                                                   \
    FORWARD_UNLESS_CHECKED(hipMemcpyFromSymbolAsync##name, to, symbol, bytes, offset, kind, stream);                           \
    uint64_t from = symbol_address("hipMemcpyFromSymbolAsync", symbol, offset, bytes, SITE);                                   \
    COPY(hipMemcpyFromSymbolAsync##name, REAL(hipMemcpyFromSymbolAsync##name)(to, symbol, bytes, offset, kind, stream),        \
         ADDRESS(to), from, from ? bytes : 0, 1, 0, 0, NO_KIND, 1, stream ? stream : (default_stream));                        \
  }
DEFINE_SYMBOL_COPIES(, NULL)
DEFINE_SYMBOL_COPIES(_spt, PER_THREAD)

// ---- fills ----

// The host does not wait for a fill of device memory.
static int returns_early(const void *to) { return where_is((uint64_t)to) == ON_DEVICE; }

#define DEFINE_FILL(name, value_type, unit, default_stream)                                                                    \
  HIP(name, (void *to, value_type value, size_t count)) {                                                                      \
    FORWARD_UNLESS_CHECKED(name, to, value, count);                                                                            \
    COPY(name, REAL(name)(to, value, count), ADDRESS(to), 0, count * (unit), 1, 0, 0, NO_KIND, returns_early(to), default_stream); \
  }
#define DEFINE_ASYNC_FILL(name, value_type, unit, default_stream)                                                              \
  HIP(name, (void *to, value_type value, size_t count, hip_stream stream)) {                                                   \
    FORWARD_UNLESS_CHECKED(name, to, value, count, stream);                                                                    \
    COPY(name, REAL(name)(to, value, count, stream), ADDRESS(to), 0, count * (unit), 1, 0, 0, NO_KIND, 1,                      \
         stream ? stream : (default_stream));                                                                                  \
  }
DEFINE_FILL(hipMemset, int, 1, NULL)
DEFINE_FILL(hipMemset_spt, int, 1, PER_THREAD)
DEFINE_FILL(hipMemsetD8, unsigned char, 1, NULL)
DEFINE_FILL(hipMemsetD16, unsigned short, 2, NULL)
DEFINE_FILL(hipMemsetD32, int, 4, NULL)
DEFINE_ASYNC_FILL(hipMemsetAsync, int, 1, NULL)
DEFINE_ASYNC_FILL(hipMemsetAsync_spt, int, 1, PER_THREAD)
DEFINE_ASYNC_FILL(hipMemsetD8Async, unsigned char, 1, NULL)
DEFINE_ASYNC_FILL(hipMemsetD16Async, unsigned short, 2, NULL)
DEFINE_ASYNC_FILL(hipMemsetD32Async, int, 4, NULL)

#define DEFINE_FILL_2D(name, default_stream)                                                                                   \
  HIP(name, (void *to, size_t pitch, int value, size_t width, size_t height)) {                                                \
    FORWARD_UNLESS_CHECKED(name, to, pitch, value, width, height);                                                             \
    COPY(name, REAL(name)(to, pitch, value, width, height), ADDRESS(to), 0, width, height, pitch, 0, NO_KIND,                  \
         returns_early(to), default_stream);                                                                                   \
  }
#define DEFINE_ASYNC_FILL_2D(name, default_stream)                                                                             \
  HIP(name, (void *to, size_t pitch, int value, size_t width, size_t height, hip_stream stream)) {                             \
    FORWARD_UNLESS_CHECKED(name, to, pitch, value, width, height, stream);                                                     \
    COPY(name, REAL(name)(to, pitch, value, width, height, stream), ADDRESS(to), 0, width, height, pitch, 0, NO_KIND, 1,       \
         stream ? stream : (default_stream));                                                                                  \
  }
DEFINE_FILL_2D(hipMemset2D, NULL)
DEFINE_FILL_2D(hipMemset2D_spt, PER_THREAD)
DEFINE_ASYNC_FILL_2D(hipMemset2DAsync, NULL)
DEFINE_ASYNC_FILL_2D(hipMemset2DAsync_spt, PER_THREAD)

static struct copy fill_of_3d(struct hip_pitched to, struct hip_extent extent, const char *name, uint64_t site, int is_async,
                              hip_stream stream) {
  int is_empty = !extent.depth || !to.pointer;
  return (struct copy){.name = name, .site = site, .to = ADDRESS(to.pointer), .bytes = is_empty ? 0 : extent.width,
                       .rows = is_empty ? 0 : extent.height, .to_pitch = to.pitch, .kind = NO_KIND, .is_async = is_async,
                       .stream = stream, .slices = extent.depth, .to_slice = to.pitch * to.height};
}

#define DEFINE_FILL_3D(name, default_stream)                                                                                   \
  HIP(name, (struct hip_pitched to, int value, struct hip_extent extent)) {                                                    \
    FORWARD_UNLESS_CHECKED(name, to, value, extent);                                                                           \
    struct copy fill = fill_of_3d(to, extent, #name, SITE, returns_early(to.pointer), default_stream);                         \
    begin(&fill);                                                                                                              \
    return done(&fill, REAL(name)(to, value, extent));                                                                         \
  }
#define DEFINE_ASYNC_FILL_3D(name, default_stream)                                                                             \
  HIP(name, (struct hip_pitched to, int value, struct hip_extent extent, hip_stream stream)) {                                 \
    FORWARD_UNLESS_CHECKED(name, to, value, extent, stream);                                                                   \
    struct copy fill = fill_of_3d(to, extent, #name, SITE, 1, stream ? stream : (default_stream));                             \
    begin(&fill);                                                                                                              \
    return done(&fill, REAL(name)(to, value, extent, stream));                                                                 \
  }
DEFINE_FILL_3D(hipMemset3D, NULL)
DEFINE_FILL_3D(hipMemset3D_spt, PER_THREAD)
DEFINE_ASYNC_FILL_3D(hipMemset3DAsync, NULL)
DEFINE_ASYNC_FILL_3D(hipMemset3DAsync_spt, PER_THREAD)
