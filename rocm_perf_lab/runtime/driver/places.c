// Where device memory is mapped: sorted by address, so that the block that contains an address is found at once.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "system.h"

enum { FIRST_CAPACITY = 256, OVERLAPS = 64 /* registrations of the host's memory may overlap; how many of them are looked at */ };
static struct drv_place *places;
static uint64_t place_count, capacity;

// Index of the first place behind `address`.
static uint64_t behind(uint64_t address) {
  uint64_t low = 0, high = place_count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (places[middle].address > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

int drv_places_add(struct drv_place place) {
  if (place_count == capacity) {
    uint64_t larger = capacity ? 2 * capacity : FIRST_CAPACITY;
    struct drv_place *moved = realloc(places, larger * sizeof *places);
    if (!moved)
      return ENOMEM;
    places = moved;
    capacity = larger;
  }
  if (drv_ranges_add_locked(place.gpus, RPL_RANGE_COUNTED, place.address, place.address + place.size) != 0)
    return ENOMEM;
  uint64_t index = behind(place.address);
  memmove(places + index + 1, places + index, (place_count - index) * sizeof *places);
  places[index] = place;
  place_count++;
  return 0;
}

static void remove_at(uint64_t index) {
  drv_ranges_remove_locked(places[index].gpus, RPL_RANGE_COUNTED, places[index].address, places[index].address + places[index].size);
  place_count--;
  memmove(places + index, places + index + 1, (place_count - index) * sizeof *places);
}

// Index of the place with this address, size and storage; UINT64_MAX: there is none.
static uint64_t same(const struct drv_place *place) {
  for (uint64_t next = behind(place->address); next > 0 && places[next - 1].address == place->address; next--) {
    const struct drv_place *other = &places[next - 1];
    if (other->size == place->size && other->storage == place->storage && other->of_drm == place->of_drm &&
        (!place->of_drm || other->gpu == place->gpu))
      return next - 1;
  }
  return UINT64_MAX;
}

int drv_places_allow(const struct drv_place *place, uint32_t gpus) {
  uint64_t index = same(place);
  if (index == UINT64_MAX)
    return ENOENT;
  gpus &= ~places[index].gpus;
  if (drv_ranges_add_locked(gpus, RPL_RANGE_COUNTED, place->address, place->address + place->size) != 0)
    return ENOMEM;
  places[index].gpus |= gpus;
  return 0;
}

int drv_places_deny(const struct drv_place *place, uint32_t gpus) {
  uint64_t index = same(place);
  if (index == UINT64_MAX)
    return ENOENT;
  gpus &= places[index].gpus;
  drv_ranges_remove_locked(gpus, RPL_RANGE_COUNTED, place->address, place->address + place->size);
  places[index].gpus &= ~gpus;
  return 0;
}

int drv_places_remove(const struct drv_place *place) {
  uint64_t index = same(place);
  if (index == UINT64_MAX)
    return ENOENT;
  remove_at(index);
  return 0;
}

static const struct drv_place *containing(uint64_t address) {
  uint64_t index = behind(address), lowest = index > OVERLAPS ? index - OVERLAPS : 0;
  while (index-- > lowest)
    if (address - places[index].address < places[index].size)
      return &places[index];
  return NULL;
}

int drv_memory_block(uint64_t address, struct drv_block_place *place) {
  pthread_mutex_lock(&drv_memory_lock);
  const struct drv_place *found = containing(address);
  if (found) {
    int in_file = found->storage && found->storage->file < 0;
    *place = (struct drv_block_place){found->address, found->size, in_file ? found->storage->offset + found->offset : UINT64_MAX,
                                      drv_settings()->gpus[found->gpu].gpu_id,
                                      found->storage && found->storage->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM};
  }
  pthread_mutex_unlock(&drv_memory_lock);
  return found != NULL;
}

int drv_memory_place(struct drv_storage *storage, uint64_t offset, uint64_t size, uint64_t address, uint32_t gpu) {
  if (!size || (offset | size | address) % RPL_PAGE_BYTES || offset > storage->size || size > storage->size - offset)
    return EINVAL;
  pthread_mutex_lock(&drv_memory_lock);
  int error = ENOMEM;
  if (drv_storage_map(storage, offset, size, address))
    error = drv_places_add((struct drv_place){address, size, storage, offset, gpu, 1u << gpu, 1});
  pthread_mutex_unlock(&drv_memory_lock);
  if (!error)
    drv_storage_hold(storage);
  return error;
}

// Takes [begin, end) out of a place that overlaps it; the parts outside stay.
static int cut(uint64_t index, uint64_t begin, uint64_t end) {
  struct drv_place old = places[index];
  uint64_t old_end = old.address + old.size;
  remove_at(index);
  int error = 0, parts = 0;
  if (old.address < begin) {
    struct drv_place left = old;
    left.size = begin - old.address;
    error |= drv_places_add(left);
    parts++;
  }
  if (old_end > end) {
    struct drv_place right = old;
    right.address = end;
    right.size = old_end - end;
    right.offset += end - old.address;
    error |= drv_places_add(right);
    parts++;
  }
  for (int i = 1; i < parts; i++)
    drv_storage_hold(old.storage);
  if (!parts)
    drv_storage_put(old.storage);
  return error;
}

int drv_memory_displace(uint64_t address, uint64_t size, uint32_t gpu) {
  pthread_mutex_lock(&drv_memory_lock);
  int error = ENOENT;
  // The host's mapping stays: it may be the application's own, and the pages are given back with their storage.
  for (uint64_t i = behind(address + size - 1); i-- > 0;) {
    struct drv_place *place = &places[i];
    if (!place->of_drm || place->gpu != gpu || place->address + place->size <= address || place->address >= address + size)
      continue;
    error = cut(i, address, address + size);
    i = behind(address + size - 1);
  }
  pthread_mutex_unlock(&drv_memory_lock);
  return error;
}

void drv_places_forget(void) {
  place_count = capacity = 0;
  places = NULL;       // not freed: another thread may have been moving it
}
