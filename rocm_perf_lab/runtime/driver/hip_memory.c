// Interposed HIP functions that allocate and free memory. Freed memory is given back late, so that stale accesses are seen.
#include <string.h>

#include "allocations.h"
#include "areas.h"
#include "hip_calls.h"
#include "order.h"

enum { RED_ZONE_ALIGNMENT = 256, SMALLEST_RED_ZONE = 256, LARGEST_RED_ZONE = 1 << 16, RED_ZONE_PART = 16, MOST_RED_ROWS = 64, SIGNAL_MEMORY = 2 };

typedef hip_error (*free_function)(void *pointer);

static free_function runtime_free(enum drv_allocation_kind kind) {
  static _Atomic(void *) kept_device, kept_host;
  return kind == RPL_HOST_MEMORY ? (free_function)drv_hip_function(&kept_host, "hipHostFree")
                                 : (free_function)drv_hip_function(&kept_device, "hipFree");
}

static void release_quarantine(int all) {
  struct drv_allocation old;
  while (drv_quarantine_next(all, &old)) runtime_free(old.kind)((void *)old.address);
}

void drv_hip_wait_for_device(void) {
  static _Atomic(void *) kept;
  hip_error (*wait)(void) = (hip_error(*)(void))drv_hip_function(&kept, "hipDeviceSynchronize");
  if (wait) wait();
  drv_order_host_waits_for_device(drv_hip_device());
}

// Size with a red zone, which belongs to no other allocation.
static uint64_t with_red_zone(uint64_t bytes) {
  if (!drv_check_is_on(RPL_ON_BOUNDS | RPL_ON_HOST) || bytes > UINT64_MAX / 2) return bytes;
  uint64_t zone = bytes / RED_ZONE_PART;
  zone = zone < SMALLEST_RED_ZONE ? SMALLEST_RED_ZONE : zone > LARGEST_RED_ZONE ? LARGEST_RED_ZONE : zone;
  return (bytes + zone + RED_ZONE_ALIGNMENT - 1) / RED_ZONE_ALIGNMENT * RED_ZONE_ALIGNMENT;
}

// Ends a call that allocated; returns its result.
static hip_error allocated(hip_error error, void *const *pointer, uint64_t bytes, uint64_t reserved, enum drv_allocation_kind kind,
                           uint64_t site) {
  if (error == HIP_SUCCESS && pointer && *pointer) {
    drv_allocation_add(&(struct drv_allocation){.address = (uint64_t)*pointer, .bytes = bytes, .reserved = reserved, .site = site, .kind = kind});
    release_quarantine(0);
  }
  if (error != HIP_SUCCESS) drv_hip_failed("the allocation", site, error);
  drv_hip_leave();
  return error;
}

// Calls an allocating function, once more without the quarantine if memory is short.
#define ALLOCATE(call)                                         \
  ({                                                           \
    hip_error error_ = (call);                                 \
    if (error_ == HIP_OUT_OF_MEMORY && drv_quarantine_bytes()) { \
      drv_hip_wait_for_device();                               \
      release_quarantine(1);                                   \
      error_ = (call);                                         \
    }                                                          \
    error_;                                                    \
  })

HIP(hipMalloc, (void **pointer, size_t bytes)) {
  FORWARD_UNLESS_CHECKED(hipMalloc, pointer, bytes);
  uint64_t reserved = bytes && pointer ? with_red_zone(bytes) : bytes;
  return allocated(ALLOCATE(REAL(hipMalloc)(pointer, reserved)), pointer, bytes, reserved, RPL_DEVICE_MEMORY, SITE);
}

HIP(hipExtMallocWithFlags, (void **pointer, size_t bytes, unsigned flags)) {
  FORWARD_UNLESS_CHECKED(hipExtMallocWithFlags, pointer, bytes, flags);
  uint64_t reserved = bytes && pointer && flags != SIGNAL_MEMORY /* has one size */ ? with_red_zone(bytes) : bytes;
  return allocated(ALLOCATE(REAL(hipExtMallocWithFlags)(pointer, reserved, flags)), pointer, bytes, reserved, RPL_DEVICE_MEMORY, SITE);
}

HIP(hipMallocManaged, (void **pointer, size_t bytes, unsigned flags)) {
  FORWARD_UNLESS_CHECKED(hipMallocManaged, pointer, bytes, flags);
  uint64_t reserved = bytes && pointer ? with_red_zone(bytes) : bytes;
  return allocated(ALLOCATE(REAL(hipMallocManaged)(pointer, reserved, flags)), pointer, bytes, reserved, RPL_MANAGED_MEMORY, SITE);
}

#define DEFINE_HOST_ALLOCATION(name)                                                                                           \
  HIP(name, (void **pointer, size_t bytes, unsigned flags)) {                                                                  \
    FORWARD_UNLESS_CHECKED(name, pointer, bytes, flags);                                                                       \
    uint64_t reserved = bytes && pointer ? with_red_zone(bytes) : bytes;                                                       \
    return allocated(ALLOCATE(REAL(name)(pointer, reserved, flags)), pointer, bytes, reserved, RPL_HOST_MEMORY, SITE);         \
  }
DEFINE_HOST_ALLOCATION(hipHostMalloc)
DEFINE_HOST_ALLOCATION(hipHostAlloc)

#define DEFINE_OLD_HOST_ALLOCATION(name)                                                                                       \
  HIP(name, (void **pointer, size_t bytes)) {                                                                                  \
    FORWARD_UNLESS_CHECKED(name, pointer, bytes);                                                                              \
    uint64_t reserved = bytes && pointer ? with_red_zone(bytes) : bytes;                                                       \
    return allocated(ALLOCATE(REAL(name)(pointer, reserved)), pointer, bytes, reserved, RPL_HOST_MEMORY, SITE);                \
  }
DEFINE_OLD_HOST_ALLOCATION(hipMallocHost)
DEFINE_OLD_HOST_ALLOCATION(hipMemAllocHost)

// Rows with the red zone.
static uint64_t with_red_rows(uint64_t rows) {
  if (!drv_check_is_on(RPL_ON_BOUNDS | RPL_ON_HOST) || !rows || rows > UINT32_MAX) return rows;
  uint64_t zone = rows / RED_ZONE_PART;
  return rows + (zone < 1 ? 1 : zone > MOST_RED_ROWS ? MOST_RED_ROWS : zone);
}

static hip_error allocated_rows(hip_error error, void *const *pointer, uint64_t pitch, uint64_t rows, uint64_t reserved, uint64_t site) {
  return allocated(error, pointer, error == HIP_SUCCESS ? pitch * rows : 0, pitch * reserved, RPL_DEVICE_MEMORY, site);
}

HIP(hipMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height)) {
  FORWARD_UNLESS_CHECKED(hipMallocPitch, pointer, pitch, width, height);
  uint64_t rows = with_red_rows(height);
  hip_error error = ALLOCATE(REAL(hipMallocPitch)(pointer, pitch, width, rows));
  return allocated_rows(error, pointer, error == HIP_SUCCESS ? *pitch : 0, height, rows, SITE);
}

HIP(hipMemAllocPitch, (void **pointer, size_t *pitch, size_t width, size_t height, unsigned element)) {
  FORWARD_UNLESS_CHECKED(hipMemAllocPitch, pointer, pitch, width, height, element);
  uint64_t rows = with_red_rows(height);
  hip_error error = ALLOCATE(REAL(hipMemAllocPitch)(pointer, pitch, width, rows, element));
  return allocated_rows(error, pointer, error == HIP_SUCCESS ? *pitch : 0, height, rows, SITE);
}

HIP(hipMalloc3D, (struct hip_pitched *result, struct hip_extent extent)) {
  FORWARD_UNLESS_CHECKED(hipMalloc3D, result, extent);
  uint64_t rows = extent.height * extent.depth, reserved = with_red_rows(rows);
  struct hip_extent all = reserved > rows ? (struct hip_extent){extent.width, reserved, 1} : extent;
  hip_error error = ALLOCATE(REAL(hipMalloc3D)(result, all));
  if (error == HIP_SUCCESS) result->height = extent.height;
  return allocated_rows(error, result ? &result->pointer : NULL, error == HIP_SUCCESS ? result->pitch : 0, rows, reserved, SITE);
}

// ---- stream-ordered ----

// In a capture, memory belongs to the graph. Statistics of a pool include the red zones.
static hip_error allocated_in(hip_error error, void *const *pointer, uint64_t bytes, uint64_t reserved, hip_stream stream, uint64_t site) {
  if (drv_hip_is_capturing(stream)) {
    drv_hip_leave();
    return error;
  }
  drv_order_stream_waits_for_all(stream, drv_hip_device());  // memory that the pool has used before
  if (error == HIP_SUCCESS && pointer && *pointer) {         // the memory begins to exist in the order of the stream
    struct drv_op *op = drv_order_add(stream, drv_hip_device(), site, "hipMallocAsync");
    drv_order_accesses(op, &(struct drv_extent){(uint64_t)*pointer, bytes, 1, 0, 1}, 1);
    drv_order_put(op);
  }
  return allocated(error, pointer, bytes, reserved, RPL_STREAM_MEMORY, site);
}

HIP(hipMallocAsync, (void **pointer, size_t bytes, hip_stream stream)) {
  FORWARD_UNLESS_CHECKED(hipMallocAsync, pointer, bytes, stream);
  uint64_t reserved = bytes && pointer ? with_red_zone(bytes) : bytes;
  return allocated_in(REAL(hipMallocAsync)(pointer, reserved, stream), pointer, bytes, reserved, stream, SITE);
}

HIP(hipMallocFromPoolAsync, (void **pointer, size_t bytes, void *pool, hip_stream stream)) {
  FORWARD_UNLESS_CHECKED(hipMallocFromPoolAsync, pointer, bytes, pool, stream);
  uint64_t reserved = bytes && pointer ? with_red_zone(bytes) : bytes;
  return allocated_in(REAL(hipMallocFromPoolAsync)(pointer, reserved, pool, stream), pointer, bytes, reserved, stream, SITE);
}

// ---- free ----

// Ends a free of memory that no watched call allocated: a graph's for example. The runtime knows better.
static void freed_unknown(hip_error error, uint64_t address, const char *call, uint64_t site) {
  if (error != HIP_SUCCESS)
    drv_hip_report(RPL_ON_HOST, "invalid_free", (uint64_t[3]){site}, "%s at {0} of %#llx, which is no allocation of HIP", call,
                   (unsigned long long)address);
}

// Reports a pointer that cannot be freed. Returns whether it was freed before.
static int report_bad_free(const struct drv_allocation *a, uint64_t address, const char *call, uint64_t site) {
  if (a->is_freed) {
    drv_hip_report(RPL_ON_HOST, "double_free", (uint64_t[3]){site, a->freed_site, a->site},
                   "%s at {0} of memory that was freed at {1} already (%llu bytes allocated at {2})", call, (unsigned long long)a->bytes);
    return 1;
  }
  drv_hip_report(RPL_ON_HOST, "invalid_free", (uint64_t[3]){site, a->site},
                 "%s at {0} of an address %llu bytes behind the begin of %llu bytes allocated at {1}", call,
                 (unsigned long long)(address - a->address), (unsigned long long)a->bytes);
  return 0;
}

// A checked call that frees a known allocation. Sets *ends if the runtime's function is not to be called.
static hip_error check_free(struct drv_allocation a, uint64_t address, const char *call, int is_host, uint64_t site, int *ends) {
  *ends = 0;
  if (a.is_freed || a.address != address || a.kind == RPL_REGISTERED_MEMORY) {
    *ends = report_bad_free(&a, address, call, site);
    return HIP_INVALID_VALUE;
  }
  if (is_host != (a.kind == RPL_HOST_MEMORY))
    drv_hip_report(RPL_ON_HOST, "wrong_free", (uint64_t[3]){site, a.site}, "%s at {0} of %s memory allocated at {1}", call,
                   is_host ? "device" : "pinned host");
  if (is_host != (a.kind == RPL_HOST_MEMORY)) return HIP_SUCCESS;
  drv_hip_wait_for_device();
  drv_allocation_free(address, site);
  *ends = a.kind != RPL_STREAM_MEMORY;     // in quarantine
  return HIP_SUCCESS;
}

#define DEFINE_FREE(name, is_host)                                                                                             \
  HIP(name, (void *pointer)) {                                                                                                 \
    FORWARD_UNLESS_CHECKED(name, pointer);                                                                                     \
    struct drv_allocation a;                                                                                                   \
    int ends = 0, is_known = pointer && drv_allocation_at((uint64_t)pointer, &a);                                              \
    hip_error error = is_known ? check_free(a, (uint64_t)pointer, #name, is_host, SITE, &ends) : HIP_SUCCESS;                  \
    if (!ends) error = REAL(name)(pointer);                                                                                    \
    if (pointer && !is_known) freed_unknown(error, (uint64_t)pointer, #name, SITE);                                            \
    release_quarantine(0);                                                                                                     \
    drv_hip_leave();                                                                                                           \
    return error;                                                                                                              \
  }
DEFINE_FREE(hipFree, 0)
DEFINE_FREE(hipHostFree, 1)
DEFINE_FREE(hipFreeHost, 1)

// Kernels of the stream may still use the memory: the free counts when they have ended.
HIP(hipFreeAsync, (void *pointer, hip_stream stream)) {
  FORWARD_UNLESS_CHECKED(hipFreeAsync, pointer, stream);
  static _Atomic(void *) kept;
  hip_error (*wait)(hip_stream) = (hip_error(*)(hip_stream))drv_hip_function(&kept, "hipStreamSynchronize");
  hip_error error = HIP_INVALID_VALUE;
  struct drv_allocation a;
  if (!pointer || drv_hip_is_capturing(stream)) {
    error = REAL(hipFreeAsync)(pointer, stream);
  } else if (!drv_allocation_at((uint64_t)pointer, &a)) {
    error = REAL(hipFreeAsync)(pointer, stream);
    freed_unknown(error, (uint64_t)pointer, "hipFreeAsync", SITE);
  } else if (a.is_freed || a.address != (uint64_t)pointer) {
    if (!report_bad_free(&a, (uint64_t)pointer, "hipFreeAsync", SITE)) error = REAL(hipFreeAsync)(pointer, stream);
  } else {
    struct drv_op *op = drv_order_add(stream, drv_hip_device(), SITE, "hipFreeAsync");
    drv_order_accesses(op, &(struct drv_extent){a.address, a.bytes, 1, 0, 1}, 1);
    drv_order_put(op);
    if (wait) wait(stream);
    drv_allocation_free(a.address, SITE);
    error = REAL(hipFreeAsync)(pointer, stream);
  }
  drv_hip_leave();
  return error;
}

// ---- registered memory ----

HIP(hipHostRegister, (void *pointer, size_t bytes, unsigned flags)) {
  FORWARD_UNLESS_CHECKED(hipHostRegister, pointer, bytes, flags);
  return allocated(REAL(hipHostRegister)(pointer, bytes, flags), &pointer, bytes, bytes, RPL_REGISTERED_MEMORY, SITE);
}

HIP(hipHostUnregister, (void *pointer)) {
  FORWARD_UNLESS_CHECKED(hipHostUnregister, pointer);
  hip_error error = REAL(hipHostUnregister)(pointer);
  if (error == HIP_SUCCESS) drv_allocation_free((uint64_t)pointer, SITE);
  drv_hip_leave();
  return error;
}

// ---- what the red zones and the quarantine change ----

HIP(hipMemGetInfo, (size_t *free_bytes, size_t *total)) {
  FORWARD_UNLESS_CHECKED(hipMemGetInfo, free_bytes, total);
  hip_error error = REAL(hipMemGetInfo)(free_bytes, total);
  if (error == HIP_SUCCESS && free_bytes && total) {
    *free_bytes += drv_quarantine_bytes();
    if (*free_bytes > *total) *free_bytes = *total;
  }
  drv_hip_leave();
  return error;
}

HIP(hipMemGetAddressRange, (void **base, size_t *bytes, void *pointer)) {
  FORWARD_UNLESS_CHECKED(hipMemGetAddressRange, base, bytes, pointer);
  struct drv_allocation a;
  hip_error error = REAL(hipMemGetAddressRange)(base, bytes, pointer);
  if (error == HIP_SUCCESS && bytes && drv_allocation_at((uint64_t)pointer, &a) && !a.is_freed) *bytes = a.bytes;
  drv_hip_leave();
  return error;
}

HIP(hipMemPtrGetInfo, (void *pointer, size_t *bytes)) {
  FORWARD_UNLESS_CHECKED(hipMemPtrGetInfo, pointer, bytes);
  struct drv_allocation a;
  hip_error error = REAL(hipMemPtrGetInfo)(pointer, bytes);
  if (error == HIP_SUCCESS && bytes && drv_allocation_at((uint64_t)pointer, &a) && !a.is_freed) *bytes = a.bytes;
  drv_hip_leave();
  return error;
}

HIP(hipDeviceReset, (void)) {
  FORWARD_UNLESS_CHECKED(hipDeviceReset);
  drv_hip_wait_for_device();
  release_quarantine(1);
  hip_error error = REAL(hipDeviceReset)();
  if (error == HIP_SUCCESS) {
    drv_allocations_clear();
    drv_hip_handles_forget();
  }
  drv_hip_leave();
  return error;
}
