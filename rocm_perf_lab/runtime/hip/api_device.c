// Exported functions of devices, contexts, limits and peers.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { DRIVER_VERSION = HIP_VERSION, STACK_DEFAULT = 1024, HEAP_DEFAULT = 8 << 20, STACK_MOST = 131056, LIMITS = 6, PCI_ID_BYTES = 13 };

// ---- which device ----

HIP_API hipError_t hipInit(unsigned flags) {
  if (flags) HIP_RETURN(hipErrorInvalidValue);
  HIP_RETURN(hip_initialize());
}

HIP_API hipError_t hipGetDeviceCount(int *count) {
  if (!count) HIP_RETURN(hipErrorInvalidValue);
  *count = 0;
  HIP_ENTER();
  *count = hip_device_count();
  return hipSuccess;
}

HIP_API hipError_t hipSetDevice(int index) {
  HIP_ENTER();
  HIP_RETURN(hip_set_current_device(index));
}

HIP_API hipError_t hipGetDevice(int *index) {
  HIP_ENTER();
  if (!index) HIP_RETURN(hipErrorInvalidValue);
  *index = hip_current_device()->index;
  return hipSuccess;
}

HIP_API hipError_t hipSetValidDevices(int *list, int count) {
  HIP_ENTER();
  if (count < 0 || count > hip_device_count() || (count && !list)) HIP_RETURN(hipErrorInvalidValue);
  for (int i = 0; i < count; i++)
    if (!hip_device_at(list[i])) HIP_RETURN(hipErrorInvalidDevice);
  HIP_RETURN(count ? hip_set_current_device(list[0]) : hipSuccess);
}

HIP_API hipError_t hipDeviceGet(hipDevice_t *device, int index) {
  HIP_ENTER();
  if (!device) HIP_RETURN(hipErrorInvalidValue);
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  *device = index;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetName(char *name, int length, hipDevice_t index) {
  HIP_ENTER();
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  if (!name || length <= 0) HIP_RETURN(hipErrorInvalidValue);
  snprintf(name, (size_t)length, "%s", hip_device_at(index)->properties.name);
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t index) {
  HIP_ENTER();
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  if (!uuid) HIP_RETURN(hipErrorInvalidValue);
  *uuid = hip_device_at(index)->properties.uuid;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t index) {
  HIP_ENTER();
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  if (!major || !minor) HIP_RETURN(hipErrorInvalidValue);
  *major = hip_device_at(index)->properties.major;
  *minor = hip_device_at(index)->properties.minor;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t index) {
  HIP_ENTER();
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  if (!bytes) HIP_RETURN(hipErrorInvalidValue);
  *bytes = hip_device_at(index)->memory_bytes;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetPCIBusId(char *text, int length, int index) {
  HIP_ENTER();
  const struct hip_device *device = hip_device_at(index);
  if (!device) HIP_RETURN(hipErrorInvalidDevice);
  if (!text || length < PCI_ID_BYTES) HIP_RETURN(hipErrorInvalidValue);
  const hipDeviceProp_tR0600 *p = &device->properties;
  snprintf(text, (size_t)length, "%04x:%02x:%02x.0", (unsigned)p->pciDomainID, (unsigned)p->pciBusID, (unsigned)p->pciDeviceID);
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetByPCIBusId(int *index, const char *text) {
  HIP_ENTER();
  if (!index || !text) HIP_RETURN(hipErrorInvalidValue);
  for (int i = 0; i < hip_device_count(); i++) {
    const hipDeviceProp_tR0600 *p = &hip_device_at(i)->properties;
    char own[2 * PCI_ID_BYTES];
    snprintf(own, sizeof own, "%04x:%02x:%02x", (unsigned)p->pciDomainID, (unsigned)p->pciBusID, (unsigned)p->pciDeviceID);
    if (strncasecmp(own, text, strlen(own)) != 0) continue;
    *index = i;
    return hipSuccess;
  }
  HIP_RETURN(hipErrorInvalidValue);
}

HIP_API hipError_t hipDriverGetVersion(int *version) {
  if (!version) HIP_RETURN(hipErrorInvalidValue);
  *version = DRIVER_VERSION;
  return hipSuccess;
}

HIP_API hipError_t hipRuntimeGetVersion(int *version) {
  if (!version) HIP_RETURN(hipErrorInvalidValue);
  *version = HIP_VERSION;
  return hipSuccess;
}

// ---- waiting, reset ----

HIP_API hipError_t hipDeviceSynchronize(void) {
  HIP_ENTER();
  HIP_RETURN(hip_device_synchronize(hip_current_device()));
}

HIP_API hipError_t hipDeviceReset(void) {
  HIP_ENTER();
  struct hip_device *device = hip_current_device();
  hipError_t error = hip_device_synchronize(device);
  hip_memory_free_of(device);
  device->peers = 0;
  HIP_RETURN(error);
}

// ---- flags, limits, caches ----

static size_t limits[HIP_MAX_DEVICES][LIMITS];

HIP_API hipError_t hipDeviceGetLimit(size_t *value, enum hipLimit_t limit) {
  HIP_ENTER();
  if (!value) HIP_RETURN(hipErrorInvalidValue);
  size_t set = (unsigned)limit < LIMITS ? limits[hip_current_device()->index][limit] : 0;
  switch (limit) {
    case hipLimitStackSize: *value = set ? set : STACK_DEFAULT; return hipSuccess;
    case hipLimitMallocHeapSize: *value = set ? set : HEAP_DEFAULT; return hipSuccess;
    case hipLimitPrintfFifoSize: HIP_RETURN(hipErrorUnsupportedLimit);
    default: HIP_RETURN(hipErrorInvalidValue);
  }
}

HIP_API hipError_t hipDeviceSetLimit(enum hipLimit_t limit, size_t value) {
  HIP_ENTER();
  if (limit == hipLimitPrintfFifoSize) HIP_RETURN(hipErrorUnsupportedLimit);
  if (limit != hipLimitStackSize && limit != hipLimitMallocHeapSize) HIP_RETURN(hipErrorInvalidValue);
  if (limit == hipLimitStackSize && value > STACK_MOST) HIP_RETURN(hipErrorInvalidValue);
  limits[hip_current_device()->index][limit] = value;
  return hipSuccess;
}

HIP_API hipError_t hipSetDeviceFlags(unsigned flags) {
  HIP_ENTER();
  enum { KNOWN = hipDeviceScheduleMask | hipDeviceMapHost | hipDeviceLmemResizeToMax };
  unsigned schedule = flags & hipDeviceScheduleMask;
  if (flags & ~(unsigned)KNOWN || (schedule & (schedule - 1))) HIP_RETURN(hipErrorInvalidValue);
  hip_current_device()->flags = flags;
  return hipSuccess;
}

HIP_API hipError_t hipGetDeviceFlags(unsigned *flags) {
  HIP_ENTER();
  if (!flags) HIP_RETURN(hipErrorInvalidValue);
  unsigned set = hip_current_device()->flags;
  *flags = set ? set : hipDeviceScheduleSpin;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config) {
  HIP_ENTER();
  (void)config;                   // GPUs of AMD have no choice
  HIP_RETURN(hipErrorNotSupported);
}

HIP_API hipError_t hipDeviceGetCacheConfig(hipFuncCache_t *config) {
  HIP_ENTER();
  if (!config) HIP_RETURN(hipErrorInvalidValue);
  *config = hipFuncCachePreferNone;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig *config) {
  HIP_ENTER();
  if (!config) HIP_RETURN(hipErrorInvalidValue);
  *config = hipSharedMemBankSizeFourByte;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config) {
  HIP_ENTER();
  (void)config;
  HIP_RETURN(hipErrorNotSupported);
}

HIP_API hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest) {
  HIP_ENTER();
  if (least) *least = 1;
  if (greatest) *greatest = -1;
  return hipSuccess;
}

// ---- peers ----

static hipError_t check_peer(int peer) {
  return hip_device_at(peer) && peer != hip_current_device()->index ? hipSuccess : hipErrorInvalidDevice;
}

HIP_API hipError_t hipDeviceCanAccessPeer(int *answer, int index, int peer) {
  HIP_ENTER();
  if (!answer) HIP_RETURN(hipErrorInvalidValue);
  if (!hip_device_at(index) || !hip_device_at(peer)) HIP_RETURN(hipErrorInvalidDevice);
  *answer = index != peer;
  return hipSuccess;
}

HIP_API hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  HIP_ENTER();
  if (flags) HIP_RETURN(hipErrorInvalidValue);
  hipError_t error = check_peer(peer);
  if (error != hipSuccess) HIP_RETURN(error);
  struct hip_device *device = hip_current_device();
  if (device->peers >> peer & 1) HIP_RETURN(hipErrorPeerAccessAlreadyEnabled);
  device->peers |= 1u << peer;
  hip_memory_share_with(hip_device_at(peer), NULL, device, 1);
  return hipSuccess;
}

HIP_API hipError_t hipDeviceDisablePeerAccess(int peer) {
  HIP_ENTER();
  hipError_t error = check_peer(peer);
  if (error != hipSuccess) HIP_RETURN(error);
  struct hip_device *device = hip_current_device();
  if (!(device->peers >> peer & 1)) HIP_RETURN(hipErrorPeerAccessNotEnabled);
  hip_device_synchronize(device);
  device->peers &= ~(1u << peer);
  hip_memory_share_with(hip_device_at(peer), NULL, device, 0);
  return hipSuccess;
}

HIP_API hipError_t hipDeviceGetP2PAttribute(int *value, hipDeviceP2PAttr attribute, int from, int to) {
  HIP_ENTER();
  if (!value) HIP_RETURN(hipErrorInvalidValue);
  if (!hip_device_at(from) || !hip_device_at(to) || from == to) HIP_RETURN(hipErrorInvalidDevice);
  *value = attribute != hipDevP2PAttrPerformanceRank && attribute != hipDevP2PAttrHipArrayAccessSupported;
  return hipSuccess;
}

HIP_API hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t *type, uint32_t *hops) {
  enum { XGMI = 4 };
  HIP_ENTER();
  if (!type || !hops || from == to) HIP_RETURN(hipErrorInvalidValue);
  if (!hip_device_at(from) || !hip_device_at(to)) HIP_RETURN(hipErrorInvalidDevice);
  *type = XGMI;
  *hops = 1;
  return hipSuccess;
}

// ---- contexts: one per device, which exists always; a thread's stack of them ----

enum { MOST_CONTEXTS = 64 };
static _Thread_local struct { int depth; struct hip_device *stack[MOST_CONTEXTS]; } contexts;

static struct hip_device *device_of(hipCtx_t context) {
  for (int i = 0; i < hip_device_count(); i++)
    if ((void *)context == (void *)hip_device_at(i)) return hip_device_at(i);
  return NULL;
}

static hipCtx_t context_of(struct hip_device *device) { return (hipCtx_t)(void *)device; }

static hipError_t push(struct hip_device *device) {
  if (!device) return hipErrorInvalidContext;
  if (contexts.depth == MOST_CONTEXTS) return hipErrorOutOfMemory;
  contexts.stack[contexts.depth++] = hip_current_device();
  return hip_set_current_device(device->index);
}

HIP_API hipError_t hipCtxCreate(hipCtx_t *context, unsigned flags, hipDevice_t index) {
  HIP_ENTER();
  (void)flags;
  if (!context) HIP_RETURN(hipErrorInvalidValue);
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  *context = context_of(hip_device_at(index));
  HIP_RETURN(push(hip_device_at(index)));
}

HIP_API hipError_t hipCtxDestroy(hipCtx_t context) {
  HIP_ENTER();
  struct hip_device *device = device_of(context);
  if (!device) HIP_RETURN(hipErrorInvalidValue);
  if (device == hip_current_device() && contexts.depth) hip_set_current_device(contexts.stack[--contexts.depth]->index);
  return hipSuccess;
}

HIP_API hipError_t hipCtxPushCurrent(hipCtx_t context) {
  HIP_ENTER();
  HIP_RETURN(push(device_of(context)));
}

HIP_API hipError_t hipCtxPopCurrent(hipCtx_t *context) {
  HIP_ENTER();
  if (!contexts.depth) HIP_RETURN(hipErrorInvalidContext);
  if (context) *context = context_of(hip_current_device());
  HIP_RETURN(hip_set_current_device(contexts.stack[--contexts.depth]->index));
}

HIP_API hipError_t hipCtxSetCurrent(hipCtx_t context) {
  HIP_ENTER();
  if (!context) {
    if (contexts.depth) contexts.depth--;
    return hipSuccess;
  }
  struct hip_device *device = device_of(context);
  HIP_RETURN(device ? hip_set_current_device(device->index) : hipErrorInvalidContext);
}

HIP_API hipError_t hipCtxGetCurrent(hipCtx_t *context) {
  HIP_ENTER();
  if (!context) HIP_RETURN(hipErrorInvalidValue);
  *context = context_of(hip_current_device());
  return hipSuccess;
}

HIP_API hipError_t hipCtxGetDevice(hipDevice_t *device) {
  HIP_ENTER();
  if (!device) HIP_RETURN(hipErrorInvalidValue);
  *device = hip_current_device()->index;
  return hipSuccess;
}

HIP_API hipError_t hipCtxSynchronize(void) {
  HIP_ENTER();
  HIP_RETURN(hip_device_synchronize(hip_current_device()));
}

HIP_API hipError_t hipDevicePrimaryCtxRetain(hipCtx_t *context, hipDevice_t index) {
  HIP_ENTER();
  if (!context) HIP_RETURN(hipErrorInvalidValue);
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  atomic_fetch_add(&hip_device_at(index)->is_primary_retained, 1);
  *context = context_of(hip_device_at(index));
  return hipSuccess;
}

HIP_API hipError_t hipDevicePrimaryCtxRelease(hipDevice_t index) {
  HIP_ENTER();
  HIP_RETURN(hip_device_at(index) ? hipSuccess : hipErrorInvalidDevice);
}

HIP_API hipError_t hipDevicePrimaryCtxReset(hipDevice_t index) {
  HIP_ENTER();
  HIP_RETURN(hip_device_at(index) ? hipSuccess : hipErrorInvalidDevice);
}

HIP_API hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t index, unsigned flags) {
  HIP_ENTER();
  (void)flags;
  HIP_RETURN(hip_device_at(index) ? hipErrorContextAlreadyInUse : hipErrorInvalidDevice);
}

HIP_API hipError_t hipDevicePrimaryCtxGetState(hipDevice_t index, unsigned *flags, int *active) {
  HIP_ENTER();
  if (!hip_device_at(index)) HIP_RETURN(hipErrorInvalidDevice);
  if (flags) *flags = 0;
  if (active) *active = hip_device_at(index) == hip_current_device() || atomic_load(&hip_device_at(index)->is_primary_retained);
  return hipSuccess;
}
