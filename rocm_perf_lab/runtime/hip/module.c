// Modules: the code object for a device out of an ELF file or an offload bundle, with its kernels.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../driver/service.h"
#include "modules.h"
#include "tools.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ihipModule_t *modules;

static int by_name(const void *left, const void *right) {
  return strcmp(((const struct ihipModuleSymbol_t *)left)->name, ((const struct ihipModuleSymbol_t *)right)->name);
}

// ---- the answer of the service ----
struct code {
  void *answer;
  const struct rpl_hip_code *head;
  const struct rpl_hip_kernel *kernels;
  const struct rpl_hip_argument *arguments;
  const char *names;
  const uint8_t *elf;
};

static void say_refusal(const char *text) {
  static const char prefix[] = "rocm-perf: error: ", other[] = "rocm-perf: ";
  if (strncmp(text, prefix, sizeof prefix - 1) == 0) text += sizeof prefix - 1;
  else if (strncmp(text, other, sizeof other - 1) == 0) text += sizeof other - 1;
  hip_say("%.*s", (int)strcspn(text, "\n"), text);
}

static hipError_t ask_for_code(const struct hip_device *device, const void *content, uint64_t bytes, struct code *code) {
  struct rpl_hip_code_query query = {{0}};
  snprintf(query.architecture, sizeof query.architecture, "%s", device->architecture);
  struct iovec parts[] = {{&query, sizeof query}, {(void *)content, bytes}};
  uint64_t answered = 0;
  *code = (struct code){0};
  uint32_t kind = hip_ask_service(RPL_HIP_CODE, parts, 2, &code->answer, &answered);
  if (kind != RPL_HIP_CODE_IS) {
    if (kind == RPL_REFUSED) say_refusal(code->answer);
    free(code->answer);
    return hipErrorNoBinaryForGpu;
  }
  const uint8_t *at = code->answer;
  code->head = (const struct rpl_hip_code *)at;
  code->kernels = (const struct rpl_hip_kernel *)(at + sizeof *code->head);
  code->arguments = (const struct rpl_hip_argument *)(code->kernels + code->head->kernel_count);
  uint64_t table = (code->head->argument_count * sizeof *code->arguments + 7) & ~(uint64_t)7;
  code->names = (const char *)code->arguments + table;
  code->elf = (const uint8_t *)code->names + code->head->text_bytes;
  return hipSuccess;
}

static void fill_function(struct ihipModuleSymbol_t *function, struct ihipModule_t *module, const struct rpl_hip_kernel *kernel) {
  *function = (struct ihipModuleSymbol_t){
      .module = module, .device = module->device, .name = module->names + kernel->name,
      .descriptor = kernel->descriptor + module->image.delta,
      .kernarg_bytes = kernel->kernarg_bytes, .kernarg_alignment = kernel->kernarg_alignment,
      .static_lds_bytes = kernel->lds_bytes, .private_bytes = kernel->private_bytes, .max_workgroup = kernel->max_workgroup,
      .required_workgroup = {kernel->required[0], kernel->required[1], kernel->required[2]},
      .vgprs = kernel->vgprs, .agprs = kernel->agprs, .sgprs = kernel->sgprs, .sgpr_spills = kernel->sgpr_spills,
      .vgpr_spills = kernel->vgpr_spills, .wave_size = kernel->wave_size,
      .explicit_count = kernel->explicit_count, .argument_count = kernel->argument_count,
      .arguments = module->arguments + kernel->first_argument,
      .max_dynamic_lds = 0, .uses_dynamic_stack = (int)kernel->uses_dynamic_stack, .is_cooperative_capable = 1, .is_uniform = (int)kernel->is_uniform};
}

static hipError_t fill_module(struct ihipModule_t *module, const struct code *code) {
  module->names = malloc(code->head->text_bytes + 1);
  module->arguments = calloc(code->head->argument_count + 1, sizeof *module->arguments);
  module->functions = calloc(code->head->kernel_count + 1, sizeof *module->functions);
  if (!module->names || !module->arguments || !module->functions) return hipErrorOutOfMemory;
  memcpy(module->names, code->names, code->head->text_bytes);
  for (uint32_t k = 0; k < code->head->argument_count; k++)
    module->arguments[k] =
        (struct hip_argument){code->arguments[k].offset, code->arguments[k].size, (enum hip_hidden)code->arguments[k].hidden};
  module->function_count = code->head->kernel_count;
  module->has_phased_calls = (int)code->head->has_phased_calls;
  for (uint32_t k = 0; k < module->function_count; k++) fill_function(&module->functions[k], module, &code->kernels[k]);
  qsort(module->functions, module->function_count, sizeof *module->functions, by_name);
  return hipSuccess;
}

static void free_module(struct ihipModule_t *module) {
  free(module->functions);
  free(module->arguments);
  free(module->names);
  free(module);
}

hipError_t hip_module_load(struct hip_device *device, const void *content, uint64_t bytes, struct ihipModule_t **result) {
  if (!bytes) bytes = hip_code_bytes(content);
  if (!bytes) return hipErrorInvalidImage;
  struct code code;
  HIP_TRY(ask_for_code(device, content, bytes, &code));
  struct ihipModule_t *module = calloc(1, sizeof *module);
  hipError_t error = module ? hip_image_load(device, code.elf, code.head->elf_bytes, &module->image) : hipErrorOutOfMemory;
  if (error == hipSuccess) {
    module->device = device;
    module->generation = hip_generation;
    error = fill_module(module, &code);
    if (error != hipSuccess) hip_image_unload(&module->image);
    else hip_tools_loaded(module, code.elf, code.head->elf_bytes);
  }
  free(code.answer);
  if (error != hipSuccess) {
    if (module) free_module(module);
    return error;
  }
  pthread_mutex_lock(&lock);
  module->next = modules;
  modules = module;
  pthread_mutex_unlock(&lock);
  *result = module;
  return hipSuccess;
}

int hip_is_module(const struct ihipModule_t *module) {
  pthread_mutex_lock(&lock);
  const struct ihipModule_t *at = modules;
  while (at && at != module) at = at->next;
  pthread_mutex_unlock(&lock);
  return at != NULL;
}

int hip_function_exists(const struct ihipModuleSymbol_t *function) {
  pthread_mutex_lock(&lock);
  const struct ihipModule_t *at = modules;
  while (at && !(function >= at->functions && function < at->functions + at->function_count)) at = at->next;
  pthread_mutex_unlock(&lock);
  return at != NULL;
}

static int unlink_module(struct ihipModule_t *module) {
  pthread_mutex_lock(&lock);
  struct ihipModule_t **at = &modules;
  while (*at && *at != module) at = &(*at)->next;
  int found = *at != NULL;
  if (found) *at = module->next;
  pthread_mutex_unlock(&lock);
  return found;
}

void hip_module_unload(struct ihipModule_t *module) {
  if (!unlink_module(module)) return;
  hip_tools_unloading(module);
  hip_image_unload(&module->image);
  free_module(module);
}

struct ihipModuleSymbol_t *hip_module_function(const struct ihipModule_t *module, const char *name) {
  struct ihipModuleSymbol_t wanted = {.name = name};
  return bsearch(&wanted, module->functions, module->function_count, sizeof wanted, by_name);
}

// Memory of the device belongs to the parent.
void hip_modules_forget_loaded(void) {
  pthread_mutex_init(&lock, NULL);
  modules = NULL;
}

// ---- exported ----

static hipError_t load(hipModule_t *module, const void *image, uint64_t bytes) {
  if (!module || !image) return hipErrorInvalidValue;
  return hip_module_load(hip_current_device(), image, bytes, module);
}

HIP_API hipError_t hipModuleLoadData(hipModule_t *module, const void *image) {
  HIP_ENTER();
  HIP_RETURN(load(module, image, 0));
}

HIP_API hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned int count, hipJitOption *options, void **values) {
  (void)count, (void)options, (void)values;
  HIP_ENTER();
  HIP_RETURN(load(module, image, 0));
}

HIP_API hipError_t hipModuleLoadFatBinary(hipModule_t *module, const void *image) {
  HIP_ENTER();
  HIP_RETURN(load(module, image, 0));
}

static hipError_t load_file(hipModule_t *module, const char *path) {
  if (!module || !path) return hipErrorInvalidValue;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return hipErrorFileNotFound;
  struct stat about;
  void *content = fstat(file, &about) == 0 && about.st_size > 0 ? mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  close(file);
  if (content == MAP_FAILED) return hipErrorInvalidImage;
  hipError_t error = load(module, content, (uint64_t)about.st_size);
  munmap(content, (size_t)about.st_size);
  return error;
}

HIP_API hipError_t hipModuleLoad(hipModule_t *module, const char *path) {
  HIP_ENTER();
  HIP_RETURN(load_file(module, path));
}

HIP_API hipError_t hipModuleUnload(hipModule_t module) {
  HIP_ENTER();
  if (!module) HIP_RETURN(hipErrorInvalidResourceHandle);
  if (!hip_is_module(module)) HIP_RETURN(hipErrorNotFound);
  hip_device_synchronize(module->device);
  hip_module_unload(module);
  return hipSuccess;
}

HIP_API hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name) {
  HIP_ENTER();
  if (!function || !name || !*name) HIP_RETURN(hipErrorInvalidValue);
  if (!module || !hip_is_module(module)) HIP_RETURN(hipErrorInvalidResourceHandle);
  *function = hip_module_function(module, name);
  HIP_RETURN(*function ? hipSuccess : hipErrorNotFound);
}

HIP_API hipError_t hipModuleGetFunctionCount(unsigned int *count, hipModule_t module) {
  HIP_ENTER();
  if (!count) HIP_RETURN(hipErrorInvalidValue);
  if (!module || !hip_is_module(module)) HIP_RETURN(hipErrorInvalidResourceHandle);
  *count = module->function_count;
  return hipSuccess;
}

HIP_API hipError_t hipModuleGetGlobal(hipDeviceptr_t *address, size_t *bytes, hipModule_t module, const char *name) {
  HIP_ENTER();
  if (!name || (!address && !bytes)) HIP_RETURN(hipErrorInvalidValue);
  if (!module || !hip_is_module(module)) HIP_RETURN(hipErrorInvalidResourceHandle);
  const struct hip_variable *variable = hip_image_variable(&module->image, name);
  if (!variable) HIP_RETURN(hipErrorNotFound);
  if (address) *address = (hipDeviceptr_t)variable->address;
  if (bytes) *bytes = variable->size;
  return hipSuccess;
}
