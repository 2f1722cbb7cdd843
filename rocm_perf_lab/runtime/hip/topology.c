// GPUs of the machine, from the topology files of the kernel driver.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core.h"

#define NODES "/sys/devices/virtual/kfd/kfd/topology/nodes"
enum { PATH_BYTES = 256, FILE_BYTES = 16384, NODES_MOST = 64, CACHES_MOST = 16, SRAM_ECC = 1 << 26, KIB = 1024 };
static struct hip_topology topologies[HIP_MAX_DEVICES];

const struct hip_topology *hip_topology_of(const struct hip_device *device) { return &topologies[device->index]; }

static int read_file(const char *path, char text[FILE_BYTES]) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t length = read(file, text, FILE_BYTES - 1);
  close(file);
  text[length > 0 ? length : 0] = 0;
  return length > 0;
}

// The value of a line "name value"; 0 if there is none.
static uint64_t value_of(const char *text, const char *name) {
  size_t length = strlen(name);
  for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
    if (strncmp(line, name, length) == 0 && line[length] == ' ') return strtoull(line + length, NULL, 10);
  return 0;
}

static void read_properties(const char *text, struct hip_topology *topology) {
#define READ(field, name) topology->field = (__typeof__(topology->field))value_of(text, name)
  READ(simd_count, "simd_count");
  READ(simd_per_cu, "simd_per_cu");
  READ(wave_front_size, "wave_front_size");
  READ(max_waves_per_simd, "max_waves_per_simd");
  READ(lds_kib, "lds_size_in_kb");
  READ(array_count, "array_count");
  READ(cu_per_array, "cu_per_simd_array");
  READ(version, "gfx_target_version");
  READ(device_id, "device_id");
  READ(location_id, "location_id");
  READ(domain, "domain");
  READ(render_minor, "drm_render_minor");
  READ(clock_mhz, "max_engine_clk_fcompute");
  READ(num_xcc, "num_xcc");
  READ(gws, "num_gws");
  READ(capability, "capability");
  READ(unique_id, "unique_id");
#undef READ
}

static void read_memory(int node, char text[FILE_BYTES], struct hip_topology *topology) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, NODES "/%d/mem_banks/0/properties", node);
  if (read_file(path, text)) {
    topology->memory_bytes = value_of(text, "size_in_bytes");
    topology->memory_bus_bits = (uint32_t)value_of(text, "width");
    topology->memory_clock_mhz = (uint32_t)value_of(text, "mem_clk_max");
  }
  for (int i = 0; i < CACHES_MOST; i++) {
    snprintf(path, sizeof path, NODES "/%d/caches/%d/properties", node, i);
    if (read_file(path, text) && value_of(text, "level") == 2) topology->l2_bytes = (uint32_t)value_of(text, "size") * KIB;
  }
}

static void describe(struct hip_device *device, const struct hip_topology *topology, int xnack) {
  enum { MAJOR = 10000, MINOR = 100 };
  uint32_t version = topology->version;
  snprintf(device->architecture, sizeof device->architecture, "gfx%u%u%x", version / MAJOR, version / MINOR % MINOR, version % MINOR);
  int has_xnack = version / MAJOR == 9 && (topology->capability & SRAM_ECC);
  snprintf(device->isa, sizeof device->isa, "%s%s%s", device->architecture, topology->capability & SRAM_ECC ? ":sramecc+" : "",
           has_xnack ? xnack ? ":xnack+" : ":xnack-" : "");
  device->simds_per_cu = topology->simd_per_cu;
  device->compute_units = topology->simd_per_cu ? topology->simd_count / topology->simd_per_cu : 0;
  device->wave_size = topology->wave_front_size;
  device->lds_bytes = topology->lds_kib * KIB;
  device->max_waves_per_simd = topology->max_waves_per_simd;
  device->xccs = topology->num_xcc;
  device->memory_bytes = topology->memory_bytes;
  device->render_minor = topology->render_minor;
}

// The mode follows HSA_XNACK, if the GPUs support it, and has to be set before the first queue.
static int set_xnack(void) {
  const char *wanted = getenv("HSA_XNACK");
  struct kfd_ioctl_set_xnack_mode_args args = {.xnack_enabled = wanted && *wanted ? strtol(wanted, NULL, 10) != 0 : -1};
  if (hip_kfd(AMDKFD_IOC_SET_XNACK_MODE, &args)) return 0;
  return args.xnack_enabled > 0;
}

static int open_node(struct hip_device *device) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "/dev/dri/renderD%u", device->render_minor);
  device->render_fd = open(path, O_RDWR | O_CLOEXEC);
  struct kfd_ioctl_acquire_vm_args args = {.drm_fd = (uint32_t)device->render_fd, .gpu_id = device->gpu_id};
  return device->render_fd >= 0 && hip_kfd(AMDKFD_IOC_ACQUIRE_VM, &args) == 0;
}

// Devices that HIP_VISIBLE_DEVICES (or one of its other names) lists, in its order; all without it.
static int is_listed(int found, int *position) {
  static const char *const names[] = {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"};
  *position = found;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *list = getenv(names[i]);
    if (!list) continue;
    int at = 0;
    for (char *end; *list; list = *end == ',' ? end + 1 : end, at++) {
      long index = strtol(list, &end, 10);
      if (end == list || index < 0) break;
      if (index == found) {
        *position = at;
        return 1;
      }
      if (*end != ',') break;
    }
    return 0;
  }
  return 1;
}

hipError_t hip_topology_read(struct hip_device *devices, int most, int *count) {
  char path[PATH_BYTES], text[FILE_BYTES];
  struct hip_topology found[HIP_MAX_DEVICES] = {{0}};
  int used[HIP_MAX_DEVICES] = {0}, gpus = 0, xnack = set_xnack();
  for (int node = 0; node < NODES_MOST; node++) {
    snprintf(path, sizeof path, NODES "/%d/gpu_id", node);
    if (!read_file(path, text)) break;
    uint32_t gpu_id = (uint32_t)strtoul(text, NULL, 10);
    int position;
    if (!gpu_id || !is_listed(gpus++, &position) || position >= most) continue;
    snprintf(path, sizeof path, NODES "/%d/properties", node);
    if (!read_file(path, text)) continue;
    read_properties(text, &found[position]);
    read_memory(node, text, &found[position]);
    devices[position] = (struct hip_device){.gpu_id = gpu_id, .node = (uint32_t)node};
    used[position] = 1;
  }
  *count = 0;
  for (int i = 0; i < most; i++) {
    if (!used[i]) continue;
    struct hip_device *device = &devices[*count];
    if (i != *count) *device = devices[i];
    device->index = *count;
    topologies[*count] = found[i];
    describe(device, &found[i], xnack);
    if (!open_node(device)) return hipErrorNoDevice;
    hip_properties_fill(device);
    (*count)++;
  }
  return *count ? hipSuccess : hipErrorNoDevice;
}
