// Calls the functions of libdrm and libdrm_amdgpu themselves, found in the libraries: newer runtimes do so, and management tools.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct version { int major, minor, patch, name_length; char *name; };
struct allocation { uint64_t size, alignment; uint32_t heap; uint64_t flags; };
struct imported { void *object; uint64_t size; };
struct heap { uint64_t size, usage, largest; };
enum { MINOR = 128, VRAM = 4, CPU_ACCESS = 1, DMABUF = 2, MAP = 1, UNMAP = 2, BYTES = 1 << 20, INFO_WORDS = 512 };

static void *function(const char *library, const char *name) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  void *found = handle ? dlsym(handle, name) : NULL;
  if (!found) {
    printf("no %s in %s\n", name, library);
    exit(1);
  }
  return found;
}
#define DRM(result, name, ...) ((result(*)(__VA_ARGS__))function("libdrm.so.2", name))
#define AMDGPU(name, ...) ((int (*)(__VA_ARGS__))function("libdrm_amdgpu.so.1", name))
struct metadata { uint64_t flags, tiling_info; uint32_t size_metadata, umd_metadata[64]; };
struct description { uint64_t size, alignment; uint32_t heap; uint64_t flags; struct metadata metadata; };

int main(void) {
  int node = DRM(int, "drmOpenRender", int)(MINOR);
  struct version *version = DRM(struct version *, "drmGetVersion", int)(node);
  void *devices[64];
  printf("%s %d\n", version->name, DRM(int, "drmGetDevices2", uint32_t, void **, int)(0, devices, 64));
  uint32_t major, minor, info[INFO_WORDS];
  void *device, *object;
  printf("initialize %d\n", AMDGPU("amdgpu_device_initialize", int, uint32_t *, uint32_t *, void **)(node, &major, &minor, &device));
  printf("info %d %#x\n", AMDGPU("amdgpu_query_gpu_info", void *, uint32_t *)(device, info), info[0]);
  struct heap heap;
  printf("heap %d", AMDGPU("amdgpu_query_heap_info", void *, uint32_t, uint32_t, struct heap *)(device, VRAM, 0, &heap));
  printf(" %d GiB\n", (int)(heap.size >> 30));

  struct allocation request = {BYTES, 4096, VRAM, CPU_ACCESS};
  char *mapped;
  printf("allocate %d\n", AMDGPU("amdgpu_bo_alloc", void *, struct allocation *, void **)(device, &request, &object));
  printf("map %d\n", AMDGPU("amdgpu_bo_cpu_map", void *, char **)(object, &mapped));
  mapped[5] = 7;
  char *place = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  int (*change)(void *, uint64_t, uint64_t, uint64_t, uint64_t, uint32_t) =
      AMDGPU("amdgpu_bo_va_op", void *, uint64_t, uint64_t, uint64_t, uint64_t, uint32_t);
  printf("address %d %d\n", change(object, 0, BYTES, (uint64_t)place, 0, MAP), place[5]);
  struct metadata metadata = {.size_metadata = 8, .umd_metadata = {31, 41}};
  printf("describe %d\n", AMDGPU("amdgpu_bo_set_metadata", void *, struct metadata *)(object, &metadata));
  uint32_t dmabuf;
  struct imported imported;
  printf("export %d\n", AMDGPU("amdgpu_bo_export", void *, uint32_t, uint32_t *)(object, DMABUF, &dmabuf));
  printf("import %d", AMDGPU("amdgpu_bo_import", void *, uint32_t, uint32_t, struct imported *)(device, DMABUF, dmabuf, &imported));
  printf(" %d\n", (int)imported.size);
  struct description description;
  printf("query %d", AMDGPU("amdgpu_bo_query_info", void *, struct description *)(imported.object, &description));
  printf(" %d %d %d\n", (int)description.size, description.heap, (int)description.metadata.umd_metadata[1]);
  printf("unmap %d\n", change(object, 0, BYTES, (uint64_t)place, 0, UNMAP));
  printf("free %d\n", AMDGPU("amdgpu_bo_free", void *)(imported.object));
  return 0;
}
