// Shared virtual memory: the host's memory that GPUs access at its own address, its attributes, and XNACK.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "maps.h"

enum { FIRST_CAPACITY = 64, DEFAULT_GRANULARITY = 9, MAX_GRANULARITY = 63 };
struct attributes {
  uint32_t preferred, prefetch, flags, granularity;
  uint32_t access, in_place;      // one bit per GPU
};
struct svm_range { uint64_t begin, end; struct attributes attributes; };
static struct svm_range *ranges;  // disjoint, sorted
static uint64_t range_count, capacity;
static int xnack;

static uint32_t all_gpus(void) { return (uint32_t)((UINT64_C(1) << drv_settings()->gpu_count) - 1); }

static struct attributes defaults(void) {
  return (struct attributes){.preferred = KFD_IOCTL_SVM_LOCATION_UNDEFINED,
                             .prefetch = KFD_IOCTL_SVM_LOCATION_UNDEFINED,
                             .flags = KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT,
                             .granularity = DEFAULT_GRANULARITY,
                             .access = xnack ? all_gpus() : 0};
}

static uint64_t find(uint64_t address) {
  uint64_t low = 0, high = range_count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (ranges[middle].end > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static void insert(uint64_t index, struct svm_range range) {
  memmove(ranges + index + 1, ranges + index, (range_count - index) * sizeof *ranges);
  ranges[index] = range;
  range_count++;
}

static void split(uint64_t address) {
  uint64_t i = find(address);
  if (i == range_count || ranges[i].begin >= address)
    return;
  struct svm_range right = ranges[i];
  right.begin = address;
  ranges[i].end = address;
  insert(i + 1, right);
}

static int reserve(uint64_t begin, uint64_t end) {
  uint64_t needed = range_count + (find(end) - find(begin)) + 4, larger = capacity ? capacity : FIRST_CAPACITY;
  while (larger < needed)
    larger *= 2;
  if (larger == capacity)
    return 1;
  struct svm_range *moved = realloc(ranges, larger * sizeof *ranges);
  if (!moved)
    return 0;
  ranges = moved;
  capacity = larger;
  return 1;
}

static void fill_gaps(uint64_t begin, uint64_t end) {
  uint64_t at = begin;
  for (uint64_t i = find(begin); at < end; i++) {
    uint64_t next = i < range_count && ranges[i].begin < end ? ranges[i].begin : end;
    if (at < next) {
      insert(i, (struct svm_range){at, next, defaults()});
      at = next;
    } else {
      at = ranges[i].end;
    }
  }
}

static int same(const struct attributes *a, const struct attributes *b) { return memcmp(a, b, sizeof *a) == 0; }

static void join(void) {
  uint64_t to = 0;
  for (uint64_t i = 0; i < range_count; i++)
    if (to && ranges[to - 1].end == ranges[i].begin && same(&ranges[to - 1].attributes, &ranges[i].attributes))
      ranges[to - 1].end = ranges[i].end;
    else
      ranges[to++] = ranges[i];
  range_count = to;
}

static int is_access(uint32_t type) {
  return type == KFD_IOCTL_SVM_ATTR_ACCESS || type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE || type == KFD_IOCTL_SVM_ATTR_NO_ACCESS;
}

static int is_location(uint32_t value) {
  return value == KFD_IOCTL_SVM_LOCATION_SYSMEM || value == KFD_IOCTL_SVM_LOCATION_UNDEFINED || drv_gpu_index(value) >= 0;
}

static int check(const struct kfd_ioctl_svm_attribute *attribute, uint32_t op) {
  if (attribute->type > KFD_IOCTL_SVM_ATTR_GRANULARITY)
    return EINVAL;
  if (is_access(attribute->type))
    return drv_gpu_index(attribute->value) < 0 ? EINVAL : 0;
  if (op == KFD_IOCTL_SVM_OP_GET_ATTR)
    return 0;
  if (attribute->type == KFD_IOCTL_SVM_ATTR_PREFERRED_LOC)
    return is_location(attribute->value) ? 0 : EINVAL;
  if (attribute->type == KFD_IOCTL_SVM_ATTR_PREFETCH_LOC)
    return is_location(attribute->value) && attribute->value != KFD_IOCTL_SVM_LOCATION_UNDEFINED ? 0 : EINVAL;
  return 0;
}

static void set(struct attributes *to, const struct kfd_ioctl_svm_attribute *attribute) {
  uint32_t value = attribute->value, bit = is_access(attribute->type) ? 1u << drv_gpu_index(value) : 0;
  switch (attribute->type) {
    case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC: to->preferred = value; break;
    case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC: to->prefetch = value; break;
    case KFD_IOCTL_SVM_ATTR_ACCESS: to->access |= bit, to->in_place &= ~bit; break;
    case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE: to->access &= ~bit, to->in_place |= bit; break;
    case KFD_IOCTL_SVM_ATTR_NO_ACCESS: to->access &= ~bit, to->in_place &= ~bit; break;
    case KFD_IOCTL_SVM_ATTR_SET_FLAGS: to->flags |= value; break;
    case KFD_IOCTL_SVM_ATTR_CLR_FLAGS: to->flags &= ~value; break;
    default: to->granularity = value < MAX_GRANULARITY ? value : MAX_GRANULARITY;
  }
}

// GPUs that can access a range: one bit each.
static uint32_t visible_to(const struct attributes *attributes) {
  if (attributes->flags & KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED)
    return all_gpus();
  return attributes->access | attributes->in_place;
}

static int set_attributes(uint64_t begin, uint64_t end, const struct kfd_ioctl_svm_args *args) {
  if (!drv_is_mapped(begin, end))
    return EFAULT;
  if (!reserve(begin, end))
    return ENOMEM;
  split(begin);
  split(end);
  fill_gaps(begin, end);
  int error = 0;
  for (uint64_t i = find(begin); i < range_count && ranges[i].begin < end; i++) {
    for (uint32_t k = 0; k < args->nattr; k++)
      set(&ranges[i].attributes, &args->attrs[k]);
    uint32_t gpus = visible_to(&ranges[i].attributes);
    error |= drv_ranges_add_locked(gpus, RPL_RANGE_SVM, ranges[i].begin, ranges[i].end);
    drv_ranges_remove_locked(all_gpus() & ~gpus, RPL_RANGE_SVM, ranges[i].begin, ranges[i].end);
  }
  join();
  return error;
}

struct summary { struct attributes common; uint32_t set_flags, clear_flags; int is_first; };

static void add_to_summary(struct summary *summary, const struct attributes *attributes) {
  struct attributes *common = &summary->common;
  if (summary->is_first) {
    *common = *attributes;
    summary->set_flags = attributes->flags;
    summary->clear_flags = ~attributes->flags;
    summary->is_first = 0;
    return;
  }
  if (common->preferred != attributes->preferred)
    common->preferred = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
  if (common->prefetch != attributes->prefetch)
    common->prefetch = KFD_IOCTL_SVM_LOCATION_UNDEFINED;
  if (attributes->granularity < common->granularity)
    common->granularity = attributes->granularity;
  common->access &= attributes->access | attributes->in_place;
  common->in_place &= attributes->in_place;
  summary->set_flags &= attributes->flags;
  summary->clear_flags &= ~attributes->flags;
}

static void get(const struct summary *summary, struct kfd_ioctl_svm_attribute *attribute) {
  const struct attributes *common = &summary->common;
  switch (attribute->type) {
    case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC: attribute->value = common->preferred; break;
    case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC: attribute->value = common->prefetch; break;
    case KFD_IOCTL_SVM_ATTR_SET_FLAGS: attribute->value = summary->set_flags; break;
    case KFD_IOCTL_SVM_ATTR_CLR_FLAGS: attribute->value = summary->clear_flags; break;
    case KFD_IOCTL_SVM_ATTR_GRANULARITY: attribute->value = common->granularity; break;
    default: {
      uint32_t bit = 1u << drv_gpu_index(attribute->value);
      attribute->type = common->in_place & bit ? KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE
                        : common->access & bit ? KFD_IOCTL_SVM_ATTR_ACCESS
                                               : KFD_IOCTL_SVM_ATTR_NO_ACCESS;
    }
  }
}

static int get_attributes(uint64_t begin, uint64_t end, struct kfd_ioctl_svm_args *args) {
  struct summary summary = {.is_first = 1};
  uint64_t at = begin;
  struct attributes unregistered = defaults();
  for (uint64_t i = find(begin); i < range_count && ranges[i].begin < end; i++) {
    if (ranges[i].begin > at)
      add_to_summary(&summary, &unregistered);
    add_to_summary(&summary, &ranges[i].attributes);
    at = ranges[i].end;
  }
  if (at < end)
    add_to_summary(&summary, &unregistered);
  for (uint32_t k = 0; k < args->nattr; k++)
    get(&summary, &args->attrs[k]);
  return 0;
}

int drv_svm(struct kfd_ioctl_svm_args *args) {
  uint64_t end = args->start_addr + args->size;
  if (!args->start_addr || !args->size || (args->start_addr | args->size) % RPL_PAGE_BYTES || end < args->start_addr)
    return EINVAL;
  if (args->op != KFD_IOCTL_SVM_OP_SET_ATTR && args->op != KFD_IOCTL_SVM_OP_GET_ATTR)
    return EINVAL;
  for (uint32_t k = 0; k < args->nattr; k++) {
    int error = check(&args->attrs[k], args->op);
    if (error)
      return error;
  }
  pthread_mutex_lock(&drv_memory_lock);
  int is_set = args->op == KFD_IOCTL_SVM_OP_SET_ATTR;
  int error = is_set ? set_attributes(args->start_addr, end, args) : get_attributes(args->start_addr, end, args);
  pthread_mutex_unlock(&drv_memory_lock);
  return error;
}

int drv_xnack(void) { return xnack; }

int drv_set_xnack(struct kfd_ioctl_set_xnack_mode_args *args, int has_queues) {
  const struct drv_settings *session = drv_settings();
  if (args->xnack_enabled >= 0) {
    if (has_queues)
      return EBUSY;
    for (uint32_t i = 0; args->xnack_enabled && i < session->gpu_count; i++)
      if (!session->gpus[i].xnack)
        return EPERM;
    xnack = args->xnack_enabled > 0;
  }
  args->xnack_enabled = xnack;
  return 0;
}

static int add_faulted(const struct drv_mapping *mapping, void *unused) {
  (void)unused;
  if (!mapping->readable)
    return 0;
  return drv_ranges_add_locked(all_gpus(), RPL_RANGE_FAULTED, mapping->begin, mapping->end) == 0;
}

int drv_memory_fault_in(uint64_t address) {
  if (!xnack)
    return 0;
  pthread_mutex_lock(&drv_memory_lock);
  int added = drv_for_each_mapping(address, address + 1, add_faulted, NULL) > 0;
  pthread_mutex_unlock(&drv_memory_lock);
  return added;
}

void drv_svm_forget(void) {
  range_count = capacity = 0;
  ranges = NULL;
  xnack = 0;
}
