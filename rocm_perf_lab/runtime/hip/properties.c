// Properties and attributes of devices: facts of the GPU from the topology, and what AMD's runtime reports for every GPU.
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>

#include "core.h"

enum {
  MAX_THREADS = 1024, MAX_GRID_YZ = 65536, ALIGNMENT = 256, KHZ = 1000, MOST_REGISTERS = 65536, ENGINES = 8, VERSION_MAJOR = 10000,
  VERSION_MINOR = 100, BUS_SHIFT = 8, SLOT_SHIFT = 3, SLOT_MASK = 31, CLOCK_INSTRUCTION_KHZ = 1000000, WALL_CLOCK_KHZ = 100000,
  GFX90A = 90010, GFX942 = 90402, VERSION_OF_RDNA = 100000, VECTOR_REGISTERS = 256, UNIFIED_REGISTERS = 512
};

static const char *name_of(const struct hip_device *device, char name[256]) {
  // The driver knows the name that the product is sold under.
  struct { uint32_t device_id; const char *name; } static const products[] = {
      {0x74a1, "AMD Instinct MI300X"}, {0x74a0, "AMD Instinct MI300A"}, {0x74a5, "AMD Instinct MI325X"}, {0x74a2, "AMD Instinct MI308X"},
      {0x75a0, "AMD Instinct MI350X"}, {0x75a3, "AMD Instinct MI355X"}, {0x740c, "AMD Instinct MI250X/MI250"}, {0x7408, "AMD Instinct MI250X"},
      {0x740f, "AMD Instinct MI210"}, {0x73bf, "AMD Radeon RX 6800 XT"}};
  snprintf(name, 256, "AMD GPU %s", device->architecture);
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    if (products[i].device_id == hip_topology_of(device)->device_id) snprintf(name, 256, "%s", products[i].name);
  return name;
}

static void set_limits(hipDeviceProp_tR0600 *p) {
  p->memPitch = INT_MAX;
  p->maxThreadsPerBlock = MAX_THREADS;
  for (int i = 0; i < 3; i++) p->maxThreadsDim[i] = MAX_THREADS;
  p->maxGridSize[0] = INT_MAX;
  p->maxGridSize[1] = p->maxGridSize[2] = MAX_GRID_YZ;
  p->totalConstMem = INT_MAX;
  p->regsPerBlock = p->regsPerMultiprocessor = MOST_REGISTERS;
  p->textureAlignment = p->texturePitchAlignment = p->surfaceAlignment = ALIGNMENT;
}

static void set_abilities(hipDeviceProp_tR0600 *p, int has_barrier_of_grids) {
  p->deviceOverlap = p->canMapHostMemory = p->concurrentKernels = p->streamPrioritiesSupported = 1;
  p->globalL1CacheSupported = p->localL1CacheSupported = p->managedMemory = p->hostNativeAtomicSupported = p->concurrentManagedAccess = 1;
  p->hostRegisterSupported = p->memoryPoolsSupported = p->isLargeBar = p->ipcEventSupported = 1;
  p->cooperativeLaunch = p->cooperativeMultiDeviceLaunch = has_barrier_of_grids;
  p->cooperativeMultiDeviceUnmatchedFunc = p->cooperativeMultiDeviceUnmatchedGridDim = has_barrier_of_grids;
  p->cooperativeMultiDeviceUnmatchedBlockDim = p->cooperativeMultiDeviceUnmatchedSharedMem = has_barrier_of_grids;
  p->asyncEngineCount = ENGINES;
  p->memoryPoolSupportedHandleTypes = hipMemHandleTypePosixFileDescriptor;
  p->arch = (hipDeviceArch_t){.hasGlobalInt32Atomics = 1, .hasGlobalFloatAtomicExch = 1, .hasSharedInt32Atomics = 1,
                              .hasSharedFloatAtomicExch = 1, .hasFloatAtomicAdd = 1, .hasGlobalInt64Atomics = 1, .hasSharedInt64Atomics = 1,
                              .hasDoubles = 1, .hasWarpVote = 1, .hasWarpBallot = 1, .hasWarpShuffle = 1, .has3dGrid = 1,
                              .hasThreadFenceSystem = 1};
}

void hip_properties_fill(struct hip_device *device) {
  const struct hip_topology *topology = hip_topology_of(device);
  hipDeviceProp_tR0600 *p = &device->properties;
  memset(p, 0, sizeof *p);
  name_of(device, p->name);
  char uuid[sizeof p->uuid.bytes + 1];
  snprintf(uuid, sizeof uuid, "%016llx", (unsigned long long)topology->unique_id);
  memcpy(p->uuid.bytes, uuid, sizeof p->uuid.bytes);
  set_limits(p);
  set_abilities(p, topology->gws != 0);
  p->totalGlobalMem = topology->memory_bytes;
  p->sharedMemPerBlock = p->sharedMemPerBlockOptin = p->maxSharedMemoryPerMultiProcessor = device->lds_bytes;
  p->sharedMemPerMultiprocessor = (size_t)device->lds_bytes * device->compute_units;
  p->warpSize = (int)device->wave_size;
  p->clockRate = (int)(topology->clock_mhz * KHZ);
  p->memoryClockRate = (int)(topology->memory_clock_mhz * KHZ);
  p->memoryBusWidth = (int)topology->memory_bus_bits;
  p->major = (int)(topology->version / VERSION_MAJOR);
  p->minor = (int)(topology->version / VERSION_MINOR % VERSION_MINOR);
  p->multiProcessorCount = (int)device->compute_units;
  p->l2CacheSize = p->persistingL2CacheMaxSize = (int)topology->l2_bytes;
  p->maxThreadsPerMultiProcessor = (int)(device->simds_per_cu * device->max_waves_per_simd * device->wave_size);
  p->maxBlocksPerMultiProcessor = p->maxThreadsPerMultiProcessor / MAX_THREADS;
  p->pciBusID = (int)(topology->location_id >> BUS_SHIFT & 0xff);
  p->pciDeviceID = (int)(topology->location_id >> SLOT_SHIFT & SLOT_MASK);
  p->pciDomainID = (int)topology->domain;
  p->clockInstructionRate = CLOCK_INSTRUCTION_KHZ;
  snprintf(p->gcnArchName, sizeof p->gcnArchName, "%s", device->isa);
  const char *xnack = strstr(device->isa, ":xnack+");
  p->pageableMemoryAccess = xnack != NULL;
}

// ---- attributes ----

static int clamped(size_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

// From gfx90a on a thread of CDNA uses the accumulation registers as vector registers, too.
static int registers_per_thread(const struct hip_device *device) {
  const uint32_t version = hip_topology_of(device)->version;
  return version >= GFX90A && version < VERSION_OF_RDNA ? UNIFIED_REGISTERS : VECTOR_REGISTERS;
}

static int amd_attribute(int *value, hipDeviceAttribute_t attribute, const struct hip_device *device) {
  const hipDeviceProp_tR0600 *p = &device->properties;
  switch ((int)attribute) {
    case hipDeviceAttributeClockInstructionRate: *value = p->clockInstructionRate; return 1;
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: *value = clamped(p->maxSharedMemoryPerMultiProcessor); return 1;
    case hipDeviceAttributeHdpMemFlushCntl: case hipDeviceAttributeHdpRegFlushCntl: *value = 0; return 1;
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc: *value = p->cooperativeMultiDeviceUnmatchedFunc; return 1;
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim: *value = p->cooperativeMultiDeviceUnmatchedGridDim; return 1;
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim: *value = p->cooperativeMultiDeviceUnmatchedBlockDim; return 1;
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem: *value = p->cooperativeMultiDeviceUnmatchedSharedMem; return 1;
    case hipDeviceAttributeIsLargeBar: *value = p->isLargeBar; return 1;
    case hipDeviceAttributeAsicRevision: *value = p->asicRevision; return 1;
    case hipDeviceAttributeCanUseStreamWaitValue: *value = 1; return 1;
    case hipDeviceAttributeImageSupport: *value = 0; return 1;
    case hipDeviceAttributePhysicalMultiProcessorCount: *value = p->multiProcessorCount; return 1;
    case hipDeviceAttributeFineGrainSupport: *value = 0; return 1;
    case hipDeviceAttributeWallClockRate: *value = WALL_CLOCK_KHZ; return 1;
    case hipDeviceAttributeNumberOfXccs: *value = (int)device->xccs; return 1;
    case hipDeviceAttributeMaxAvailableVgprsPerThread: *value = registers_per_thread(device); return 1;
    case hipDeviceAttributePciChipId: *value = (int)hip_topology_of(device)->device_id; return 1;
    default: return 0;
  }
}

static int zero_attribute(hipDeviceAttribute_t attribute) {
  switch ((int)attribute) {
    case hipDeviceAttributeAccessPolicyMaxWindowSize: case hipDeviceAttributeMaxSurface1D: case hipDeviceAttributeMaxTexture1DWidth:
    case hipDeviceAttributeMaxTexture1DLinear: case hipDeviceAttributeMaxTexture1DMipmap: case hipDeviceAttributeMaxTexture2DWidth:
    case hipDeviceAttributeMaxTexture2DHeight: case hipDeviceAttributeMaxTexture3DWidth: case hipDeviceAttributeMaxTexture3DHeight:
    case hipDeviceAttributeMaxTexture3DDepth: case hipDeviceAttributeMaxTextureCubemap: case hipDeviceAttributeMultiGpuBoardGroupID:
    case hipDeviceAttributeReservedSharedMemPerBlock: case hipDeviceAttributeComputePreemptionSupported:
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem: case hipDeviceAttributeDirectManagedMemAccessFromHost:
    case hipDeviceAttributePageableMemoryAccessUsesHostPageTables: case hipDeviceAttributeKernelExecTimeout:
    case hipDeviceAttributeIsMultiGpuBoard: case hipDeviceAttributeIntegrated: case hipDeviceAttributeLuidDeviceNodeMask:
      return 1;
    default: return 0;
  }
}

static int common_attribute(int *value, hipDeviceAttribute_t attribute, const hipDeviceProp_tR0600 *p) {
#define VALUE(name, field) case hipDeviceAttribute##name: *value = clamped((size_t)p->field); return 1
  switch ((int)attribute) {
    VALUE(EccEnabled, ECCEnabled);
    VALUE(AsyncEngineCount, asyncEngineCount);
    VALUE(CanMapHostMemory, canMapHostMemory);
    VALUE(ClockRate, clockRate);
    VALUE(ComputeMode, computeMode);
    VALUE(ConcurrentKernels, concurrentKernels);
    VALUE(ConcurrentManagedAccess, concurrentManagedAccess);
    VALUE(CooperativeLaunch, cooperativeLaunch);
    VALUE(CooperativeMultiDeviceLaunch, cooperativeMultiDeviceLaunch);
    VALUE(DeviceOverlap, deviceOverlap);
    VALUE(GlobalL1CacheSupported, globalL1CacheSupported);
    VALUE(HostNativeAtomicSupported, hostNativeAtomicSupported);
    VALUE(L2CacheSize, l2CacheSize);
    VALUE(LocalL1CacheSupported, localL1CacheSupported);
    VALUE(ComputeCapabilityMajor, major);
    VALUE(ManagedMemory, managedMemory);
    VALUE(MaxBlocksPerMultiProcessor, maxBlocksPerMultiProcessor);
    VALUE(MaxBlockDimX, maxThreadsDim[0]);
    VALUE(MaxBlockDimY, maxThreadsDim[1]);
    VALUE(MaxBlockDimZ, maxThreadsDim[2]);
    VALUE(MaxGridDimX, maxGridSize[0]);
    VALUE(MaxGridDimY, maxGridSize[1]);
    VALUE(MaxGridDimZ, maxGridSize[2]);
    VALUE(MaxThreadsPerBlock, maxThreadsPerBlock);
    VALUE(MaxThreadsPerMultiProcessor, maxThreadsPerMultiProcessor);
    VALUE(MaxPitch, memPitch);
    VALUE(MemoryBusWidth, memoryBusWidth);
    VALUE(MemoryClockRate, memoryClockRate);
    VALUE(ComputeCapabilityMinor, minor);
    VALUE(MultiprocessorCount, multiProcessorCount);
    VALUE(PageableMemoryAccess, pageableMemoryAccess);
    VALUE(PciBusId, pciBusID);
    VALUE(PciDeviceId, pciDeviceID);
    VALUE(PciDomainId, pciDomainID);
    VALUE(PersistingL2CacheMaxSize, persistingL2CacheMaxSize);
    VALUE(MaxRegistersPerBlock, regsPerBlock);
    VALUE(MaxRegistersPerMultiprocessor, regsPerMultiprocessor);
    VALUE(MaxSharedMemoryPerBlock, sharedMemPerBlock);
    VALUE(SharedMemPerBlockOptin, sharedMemPerBlockOptin);
    VALUE(SharedMemPerMultiprocessor, sharedMemPerMultiprocessor);
    VALUE(StreamPrioritiesSupported, streamPrioritiesSupported);
    VALUE(SurfaceAlignment, surfaceAlignment);
    VALUE(TextureAlignment, textureAlignment);
    VALUE(TexturePitchAlignment, texturePitchAlignment);
    VALUE(TotalConstantMemory, totalConstMem);
    VALUE(TotalGlobalMem, totalGlobalMem);
    VALUE(WarpSize, warpSize);
    VALUE(MemoryPoolsSupported, memoryPoolsSupported);
    VALUE(HostRegisterSupported, hostRegisterSupported);
    VALUE(MemoryPoolSupportedHandleTypes, memoryPoolSupportedHandleTypes);
    case hipDeviceAttributeMaxThreadsDim: *value = p->maxThreadsDim[0]; return 1;
    case hipDeviceAttributeUnifiedAddressing: case hipDeviceAttributeVirtualMemoryManagementSupported: *value = 1; return 1;
    default: return 0;
  }
#undef VALUE
}

HIP_API hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int index) {
  HIP_ENTER();
  const struct hip_device *device = hip_device_at(index);
  if (!value) HIP_RETURN(hipErrorInvalidValue);
  if (!device) HIP_RETURN(hipErrorInvalidDevice);
  if (common_attribute(value, attribute, &device->properties) || amd_attribute(value, attribute, device)) return hipSuccess;
  if (!zero_attribute(attribute)) HIP_RETURN(hipErrorInvalidValue);
  *value = 0;
  return hipSuccess;
}

// ---- structures ----

HIP_API hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *properties, int index) {
  HIP_ENTER();
  const struct hip_device *device = hip_device_at(index);
  if (!properties) HIP_RETURN(hipErrorInvalidValue);
  if (!device) HIP_RETURN(hipErrorInvalidDevice);
  *properties = device->properties;
  return hipSuccess;
}

static void convert(hipDeviceProp_tR0000 *old, const hipDeviceProp_tR0600 *p) {
  memset(old, 0, sizeof *old);
#define COPY(field) memcpy(&old->field, &p->field, sizeof old->field)
  COPY(name); COPY(totalGlobalMem); COPY(sharedMemPerBlock); COPY(regsPerBlock); COPY(warpSize); COPY(maxThreadsPerBlock);
  COPY(maxThreadsDim); COPY(maxGridSize); COPY(clockRate); COPY(memoryClockRate); COPY(memoryBusWidth); COPY(totalConstMem);
  COPY(major); COPY(minor); COPY(multiProcessorCount); COPY(l2CacheSize); COPY(maxThreadsPerMultiProcessor); COPY(computeMode);
  COPY(clockInstructionRate); COPY(arch); COPY(concurrentKernels); COPY(pciDomainID); COPY(pciBusID); COPY(pciDeviceID);
  COPY(maxSharedMemoryPerMultiProcessor); COPY(isMultiGpuBoard); COPY(canMapHostMemory); COPY(gcnArchName); COPY(integrated);
  COPY(cooperativeLaunch); COPY(cooperativeMultiDeviceLaunch); COPY(memPitch); COPY(textureAlignment); COPY(texturePitchAlignment);
  COPY(kernelExecTimeoutEnabled); COPY(ECCEnabled); COPY(tccDriver); COPY(cooperativeMultiDeviceUnmatchedFunc);
  COPY(cooperativeMultiDeviceUnmatchedGridDim); COPY(cooperativeMultiDeviceUnmatchedBlockDim);
  COPY(cooperativeMultiDeviceUnmatchedSharedMem); COPY(isLargeBar); COPY(asicRevision); COPY(managedMemory);
  COPY(directManagedMemAccessFromHost); COPY(concurrentManagedAccess); COPY(pageableMemoryAccess);
  COPY(pageableMemoryAccessUsesHostPageTables);
#undef COPY
  const int hundreds = 100, tens = 10;
  old->gcnArch = p->major * hundreds + p->minor * tens;
}

HIP_API hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_tR0000 *properties, int index) {
  HIP_ENTER();
  const struct hip_device *device = hip_device_at(index);
  if (!properties) HIP_RETURN(hipErrorInvalidValue);
  if (!device) HIP_RETURN(hipErrorInvalidDevice);
  convert(properties, &device->properties);
  return hipSuccess;
}

#undef hipGetDeviceProperties
// The name of programs that were built before the structure had versions.
HIP_API hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000 *properties, int index);
hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000 *properties, int index) {
  HIP_ENTER();
  const struct hip_device *device = hip_device_at(index);
  if (!properties) HIP_RETURN(hipErrorInvalidValue);
  if (!device) HIP_RETURN(hipErrorInvalidDevice);
  convert(properties, &device->properties);
  return hipSuccess;
}

HIP_API hipError_t hipChooseDeviceR0600(int *index, const hipDeviceProp_tR0600 *wanted) {
  HIP_ENTER();
  if (!index || !wanted) HIP_RETURN(hipErrorInvalidValue);
  *index = 0;
  int most = -1;
  for (int i = 0; i < hip_device_count(); i++) {
    const hipDeviceProp_tR0600 *p = &hip_device_at(i)->properties;
    int matches = (wanted->major && p->major >= wanted->major) + (wanted->totalGlobalMem && p->totalGlobalMem >= wanted->totalGlobalMem) +
                  (wanted->multiProcessorCount && p->multiProcessorCount >= wanted->multiProcessorCount);
    if (matches > most) {
      most = matches;
      *index = i;
    }
  }
  return hipSuccess;
}
