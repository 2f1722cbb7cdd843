// Interfaces between the parts that load code and launch it: images, modules, registration, launches, host calls, occupancy.
#ifndef HIP_MODULES_H
#define HIP_MODULES_H
#include "internal.h"

// ---- image.c: an ELF file in the memory of a device ----
struct hip_variable { const char *name; uint64_t address, size; };
struct hip_image {
  uint64_t base, delta, bytes;    // delta: added to addresses of the code object
  struct hip_variable *variables; // sorted by name
  uint32_t variable_count;
  char *names;
};
// Copies the segments and relocates them. hipErrorInvalidImage; hipErrorSharedObjectSymbolNotFound.
hipError_t hip_image_load(struct hip_device *device, const uint8_t *elf, uint64_t bytes, struct hip_image *image);
void hip_image_unload(struct hip_image *image);
const struct hip_variable *hip_image_variable(const struct hip_image *image, const char *name);

// ---- module.c: an image with its kernels ----
struct ihipModule_t {             // *hipModule_t
  struct hip_device *device;
  struct hip_image image;
  struct ihipModuleSymbol_t *functions;  // sorted by name
  uint32_t function_count;
  struct hip_argument *arguments;
  char *names;
  int has_phased_calls;           // layout of host calls
  unsigned generation;            // of the runtime, when it was loaded
  struct ihipModule_t *next;
};
// Loads the code object for `device` from an ELF file or offload bundle of `bytes` bytes; `bytes` 0: as its headers say.
hipError_t hip_module_load(struct hip_device *device, const void *content, uint64_t bytes, struct ihipModule_t **result);
void hip_module_unload(struct ihipModule_t *module);
struct ihipModuleSymbol_t *hip_module_function(const struct ihipModule_t *module, const char *name);
int hip_function_exists(const struct ihipModuleSymbol_t *function);  // in a loaded module
int hip_is_module(const struct ihipModule_t *module);      // loaded with hip_module_load, and by this process

void hip_modules_forget_loaded(void);                      // after fork()

// ---- code_size.c: extent of code in memory ----
uint64_t hip_code_bytes(const void *code);                 // of an ELF file or bundle; 0: it is neither

// ---- registration.c: code and variables in the application's files ----
// The kernel of a host function (kernel stub) on a device: hipErrorInvalidDeviceFunction, hipErrorNoBinaryForGpu.
hipError_t hip_registered_function(const void *host_function, struct hip_device *device, struct ihipModuleSymbol_t **function);
// The variable that belongs to a host variable: hipErrorInvalidSymbol.
hipError_t hip_registered_variable(const void *host_variable, struct hip_device *device, uint64_t *address, uint64_t *bytes);
// symbols.c: the address of a part of the variable; hipErrorInvalidValue: the part is not inside.
hipError_t hip_variable_part(const void *symbol, struct hip_device *device, size_t bytes, size_t offset, uint64_t *address);
const char *hip_registered_name(const void *host_function);
// The host's function of a registered kernel; the function itself if it is one of a module.
const void *hip_host_function_of(const struct ihipModuleSymbol_t *function);

// ---- launches.c ----
enum { HIP_BARRIER_BYTES = 64 };  // behind the arguments of cooperative launches: barrier of the grid
struct hip_geometry {
  uint32_t grid[3], block[3], items[3];  // as in struct hip_kernel_launch
  uint64_t dynamic_lds;
  int is_cooperative;
};
// Checks the geometry as HIP does.
hipError_t hip_geometry_check(const struct ihipModuleSymbol_t *function, const struct hip_geometry *geometry);
// Fills a launch; its kernarg is malloc'ed. `parameters` or `extra` have the explicit arguments.
hipError_t hip_launch_prepare(struct ihipModuleSymbol_t *function, const struct hip_geometry *geometry, void **parameters, void **extra,
                              struct hip_kernel_launch *launch);
// Replaces the arguments; the launch keeps its kernarg.
hipError_t hip_launch_arguments(struct hip_kernel_launch *launch, void **parameters, void **extra);
struct hip_geometry hip_geometry_of(dim3 grid, dim3 block, uint64_t dynamic_lds);
// Launches a kernel on a stream; `start` and `stop` may be NULL.
hipError_t hip_launch(struct ihipStream_t *stream, struct ihipModuleSymbol_t *function, const struct hip_geometry *geometry, void **parameters,
                      void **extra, hipEvent_t start, hipEvent_t stop);

// ---- hostcall.c, heap.c: what kernels ask of the host ----
// Creates the buffers that a kernel needs on its device; called before a launch is submitted.
hipError_t hip_services_prepare(const struct ihipModuleSymbol_t *function);
uint64_t hip_services_calls(const struct ihipModuleSymbol_t *function);  // address of the packets
uint64_t hip_services_heap(const struct hip_device *device);
void hip_services_forget(void);
// device_heap.c: memory for kernels
uint64_t hip_heap_allocate(struct hip_device *device, uint64_t bytes);
void hip_heap_free(uint64_t address);
// device_printf.c: prints a message of a kernel; returns the number of bytes.
int hip_print_message(const uint64_t *words, uint32_t count);

// ---- occupancy.c ----
// Workgroups per compute unit.
hipError_t hip_occupancy_blocks(const struct ihipModuleSymbol_t *function, uint32_t block, uint64_t dynamic_lds, int *blocks);

#endif
