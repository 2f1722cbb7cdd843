// Memory: one memfd, mapped at the address of each allocation; the runtime accesses the bytes through a second mapping of the whole file.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "implementation.h"

namespace stand_in {
namespace {

constexpr uint64_t kFileBytes = 1ull << 38;
[[maybe_unused]] constexpr uint64_t kOwnView = 0x3000'0000'0000;
constexpr uint64_t kArena = 0x0080'0000'0000;  // address range of allocations with HSA_RESERVE_SVM=1
constexpr uint64_t kArenaBytes = 0x0080'0000'0000;
[[maybe_unused]] constexpr uint64_t kElsewhere = 0x6000'0000'0000;
constexpr hsa_amd_memory_pool_t kHostFine{11}, kHostCoarse{12};  // a GPU has 20 + 10 * number: coarse, then fine

struct Handle { uint64_t offset, size; hsa_amd_memory_pool_t pool; };

auto& lock = *new std::recursive_mutex;
auto& allocations = *new std::map<uint64_t, Allocation>;  // by address
auto& reservations = *new std::map<uint64_t, uint64_t>;   // address -> size
auto& handles = *new std::map<uint64_t, Handle>;
uint64_t next_offset, next_handle = 1, next_in_arena = kArena;
int file = -1;
uint8_t* own_view;

uint64_t round_up(uint64_t size, uint64_t unit = kPage) { return (size + unit - 1) / unit * unit; }
bool is_host(hsa_amd_memory_pool_t pool) { return pool.handle < 20; }
hsa_agent_t owner(hsa_amd_memory_pool_t pool) { return is_host(pool) ? kCpu : hsa_agent_t{pool.handle / 10}; }
uint64_t bit(hsa_agent_t agent) { return 1ull << agent.handle; }
uint64_t granule() { return fault_number("granule", kPage); }
bool in_arena() { const char* text = std::getenv("HSA_RESERVE_SVM"); return text != nullptr && std::strtol(text, nullptr, 10) == 1; }

uint64_t take_offset(uint64_t size) {
  uint64_t offset = next_offset;
  next_offset += round_up(size);
  if (next_offset > kFileBytes) std::abort();
  return offset;
}

void give_back(uint64_t offset, uint64_t size) {
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(offset), off_t(size));
}

void* map(uint64_t address, uint64_t size, int protection, int flags, int descriptor, uint64_t offset) {
  return mmap(reinterpret_cast<void*>(address), size, protection, flags, descriptor, off_t(offset));
}

// Reserves a free address range: like the driver anywhere in the process, or in one low arena.
uint64_t reserve_anywhere(uint64_t size, uint64_t alignment) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  while (in_arena() && next_in_arena + size <= kArena + kArenaBytes) {
    uint64_t address = round_up(next_in_arena, alignment);
    next_in_arena = address + size + kPage;
    void* got = map(address, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == reinterpret_cast<void*>(address)) return address;
    if (got != MAP_FAILED) munmap(got, size);
  }
  // A different address in every process, outside the libraries of the emulator process, which maps the same bytes there.
#ifdef STAND_IN_SANITIZED
  const uint64_t wish = 0;
#else
  static uint64_t wish = kElsewhere + (uint64_t(getpid()) * 2654435761 % 4096 << 30);
#endif
  void* got = map(wish, size + alignment, PROT_NONE, flags, -1, 0);
  if (got == MAP_FAILED) return 0;
#ifndef STAND_IN_SANITIZED
  wish += round_up(size + alignment) + kPage;
#endif
  uint64_t base = reinterpret_cast<uint64_t>(got), address = round_up(base, alignment);
  if (address > base) munmap(got, address - base);
  if (base + alignment > address) munmap(reinterpret_cast<void*>(address + size), base + alignment - address);
  return address;
}

void show(const Allocation& allocation) {
  bool visible = allocation.agents & bit(kCpu);
  map(allocation.address, allocation.size, visible ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED | MAP_FIXED, file,
      allocation.offset);
}

Allocation* holding(uint64_t address) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return nullptr;
  Allocation& found = std::prev(next)->second;
  return address < found.address + found.size ? &found : nullptr;
}

void* place(uint64_t requested, Kind kind, hsa_amd_memory_pool_t pool, uint64_t agents) {
  std::lock_guard guard(lock);
  uint64_t size = round_up(std::max<uint64_t>(requested, 1));
  uint64_t address = reserve_anywhere(size, size >= (2u << 20) ? 2u << 20 : kPage);
  if (address == 0) return nullptr;
  Allocation allocation{address, size, take_offset(size), kind, pool, agents, requested};
  allocations[address] = allocation;
  show(allocation);
  return reinterpret_cast<void*>(address);
}

// Returns the bytes at `address` in the mapping of the runtime, and how many follow. `as_cpu`: vmem only through the mapping of the CPU.
uint8_t* reach(uint64_t address, uint64_t wanted, uint64_t& reachable, bool as_cpu) {
  std::lock_guard guard(lock);
  Allocation* found = holding(address);
  if (found == nullptr) {  // memory of the application
    auto next = allocations.upper_bound(address);
    reachable = next == allocations.end() ? wanted : std::min(wanted, next->first - address);
    return reinterpret_cast<uint8_t*>(address);
  }
  reachable = std::min(wanted, found->address + found->size - address);
  if (as_cpu && found->kind == Kind::vmem) return reinterpret_cast<uint8_t*>(address);
  return own_view + found->offset + (address - found->address);
}

void copy(void* to, const void* from, uint64_t size, bool as_cpu) {
  auto target = reinterpret_cast<uint64_t>(to), source = reinterpret_cast<uint64_t>(from);
  while (size > 0) {
    uint64_t at_source, at_target;
    const uint8_t* bytes = reach(source, size, at_source, as_cpu);
    uint8_t* place = reach(target, at_source, at_target, as_cpu);
    std::memmove(place, bytes, at_target);
    target += at_target, source += at_target, size -= at_target;
  }
}

void remove(uint64_t address, bool keep_reserved) {
  Allocation gone = allocations.at(address);
  allocations.erase(address);
  if (keep_reserved)
    map(address, gone.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  else
    munmap(reinterpret_cast<void*>(address), gone.size);
}

hsa_status_t reserve(void** va, size_t size, uint64_t address, uint64_t alignment) {
  if (fault("no_vmem") || fault("reserve_fails")) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  if (size == 0 || size % kPage || address % kPage) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::lock_guard guard(lock);
  uint64_t got = 0;
  if (address != 0 && !fault("relocates")) {
    void* mapped = map(address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapped == reinterpret_cast<void*>(address)) got = address;
    else if (mapped != MAP_FAILED) munmap(mapped, size);
  }
  if (got == 0) got = reserve_anywhere(size, std::max(alignment, kPage));  // silently another address, like the real runtime
  if (got == 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  reservations[got] = size;
  *va = reinterpret_cast<void*>(got);
  return HSA_STATUS_SUCCESS;
}

}  // namespace

int memory_file() {
  std::lock_guard guard(lock);
  if (file >= 0) return file;
  file = memfd_create("device memory", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, off_t(kFileBytes)) != 0) std::abort();
#ifdef STAND_IN_SANITIZED
  void* view = map(0, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);  // shadow memory has fixed addresses
#else
  void* view = map(kOwnView, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
#endif
  if (view == MAP_FAILED) std::abort();
  own_view = static_cast<uint8_t*>(view);
  return file;
}

void* allocate_shared(uint64_t size, Kind kind) { return place(size, kind, kHostFine, ~0ull); }

void release(void* address) {
  std::lock_guard guard(lock);
  auto found = allocations.find(reinterpret_cast<uint64_t>(address));
  if (found == allocations.end()) return;
  if (found->second.kind != Kind::ipc) give_back(found->second.offset, found->second.size);
  remove(found->first, false);
}

void* alias(void* address, uint64_t size) {
  std::lock_guard guard(lock);
  Allocation* original = holding(reinterpret_cast<uint64_t>(address));
  if (original == nullptr || original->size < round_up(size)) return nullptr;
  const uint64_t place = reserve_anywhere(round_up(size), kPage);
  allocations[place] = {place, round_up(size), original->offset, Kind::ipc, original->pool, original->agents, size};
  show(allocations[place]);
  return reinterpret_cast<void*>(place);
}

bool detach(void* address, Kind kind) {
  std::lock_guard guard(lock);
  auto found = allocations.find(reinterpret_cast<uint64_t>(address));
  if (found == allocations.end() || found->second.kind != kind) return false;
  release(address);
  return true;
}

void pin(void* host, uint64_t size, Kind kind) {
  std::lock_guard guard(lock);
  uint64_t begin = reinterpret_cast<uint64_t>(host) / kPage * kPage;
  uint64_t end = round_up(reinterpret_cast<uint64_t>(host) + size);
  Allocation allocation{begin, end - begin, take_offset(end - begin), kind, kHostFine, ~0ull, size};
  std::memcpy(own_view + allocation.offset, reinterpret_cast<void*>(begin), end - begin);
  allocations[begin] = allocation;
  show(allocation);
}

bool unpin(void* host, Kind kind) {
  std::lock_guard guard(lock);
  Allocation* found = holding(reinterpret_cast<uint64_t>(host));
  if (found == nullptr || found->kind != kind) return false;
  Allocation gone = *found;
  allocations.erase(gone.address);
  map(gone.address, gone.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  std::memcpy(reinterpret_cast<void*>(gone.address), own_view + gone.offset, gone.size);
  give_back(gone.offset, gone.size);
  return true;
}

std::vector<Allocation> visible_to(hsa_agent_t agent) {
  std::lock_guard guard(lock);
  std::vector<Allocation> visible;
  for (const auto& [address, allocation] : allocations)
    if (allocation.agents & bit(agent)) visible.push_back(allocation);
  return visible;
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool, hsa_amd_memory_pool_info_t attribute, void* value) {
  switch (attribute) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT: *static_cast<uint32_t*>(value) = HSA_AMD_SEGMENT_GLOBAL; break;
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
      *static_cast<uint32_t*>(value) = pool.handle == kHostFine.handle ? 3 : pool.handle % 10 == 1 ? 2 : 4;
      break;
    case HSA_AMD_MEMORY_POOL_INFO_SIZE: *static_cast<size_t*>(value) = 16ull << 30; break;
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED: *static_cast<bool*>(value) = true; break;
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT: *static_cast<size_t*>(value) = is_host(pool) ? kPage : granule(); break;
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE: *static_cast<size_t*>(value) = is_host(pool) ? kPage : 2u << 20; break;
    case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL: *static_cast<bool*>(value) = false; break;
    case HSA_AMD_MEMORY_POOL_INFO_LOCATION:
      *static_cast<uint32_t*>(value) = is_host(pool) ? HSA_AMD_MEMORY_POOL_LOCATION_CPU : HSA_AMD_MEMORY_POOL_LOCATION_GPU;
      break;
    default: return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent, hsa_status_t (*callback)(hsa_amd_memory_pool_t, void*),
                                                void* data) {
  uint64_t first = is_gpu(agent) ? 10 * agent.handle : kHostFine.handle;
  for (uint64_t pool : {first, first + 1})
    if (hsa_status_t status = callback({pool}, data); status != HSA_STATUS_SUCCESS) return status;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t, void** ptr) {
  if (!is_open()) return HSA_STATUS_ERROR_NOT_INITIALIZED;
  if (size == 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *ptr = place(size, Kind::pool, pool, bit(owner(pool)));
  return *ptr ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_OUT_OF_RESOURCES;
}

hsa_status_t hsa_amd_memory_pool_free(void* ptr) {
  std::lock_guard guard(lock);
  auto found = allocations.find(reinterpret_cast<uint64_t>(ptr));
  if (found == allocations.end() || found->second.kind != Kind::pool) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  release(ptr);
  return HSA_STATUS_SUCCESS;
}

// The new agents replace the previous ones; the owner keeps its access.
hsa_status_t hsa_amd_agents_allow_access(uint32_t count, const hsa_agent_t* agents, const uint32_t*, const void* ptr) {
  std::lock_guard guard(lock);
  Allocation* found = holding(reinterpret_cast<uint64_t>(ptr));
  if (found == nullptr || found->kind == Kind::vmem) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  found->agents = bit(owner(found->pool));
  for (uint32_t i = 0; i < count; ++i) found->agents |= bit(agents[i]);
  mprotect(reinterpret_cast<void*>(found->address), found->size, found->agents & bit(kCpu) ? PROT_READ | PROT_WRITE : PROT_NONE);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_memory_copy(void* to, const void* from, size_t size) {
  copy(to, from, size, true);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_async_copy(void* to, hsa_agent_t, const void* from, hsa_agent_t, size_t size, uint32_t dependencies,
                                       const hsa_signal_t* signals, hsa_signal_t done) {
  std::vector<hsa_signal_t> before(signals, signals + dependencies);
  std::thread([=] {
    static const std::atomic<bool> never{false};
    for (hsa_signal_t signal : before) wait_until_zero(signal, never);
    copy(to, from, size, false);
    stand_in::hsa_signal_subtract_screlease(done, 1);
  }).detach();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_pointer_info(const void* ptr, hsa_amd_pointer_info_t* info, void* (*)(size_t), uint32_t* count, hsa_agent_t**) {
  std::lock_guard guard(lock);
  uint64_t address = reinterpret_cast<uint64_t>(ptr);
  uint32_t size = info->size;
  std::memset(info, 0, size);
  info->size = size;
  if (count != nullptr) *count = 0;
  for (const auto& [base, bytes] : reservations)
    if (base <= address && address < base + bytes) {
      info->type = hsa_amd_pointer_type_t(5);
      info->agentBaseAddress = reinterpret_cast<void*>(base);
      info->sizeInBytes = bytes;
      return HSA_STATUS_SUCCESS;
    }
  if (Allocation* found = holding(address); found != nullptr && found->kind != Kind::svm) {
    info->type = found->kind == Kind::locked ? HSA_EXT_POINTER_TYPE_LOCKED : HSA_EXT_POINTER_TYPE_HSA;
    info->agentBaseAddress = info->hostBaseAddress = reinterpret_cast<void*>(found->address);
    info->sizeInBytes = found->requested;
    info->agentOwner = owner(found->pool);
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_address_reserve(void** va, size_t size, uint64_t address, uint64_t) { return reserve(va, size, address, kPage); }

hsa_status_t hsa_amd_vmem_address_reserve_align(void** va, size_t size, uint64_t address, uint64_t alignment, uint64_t) {
  return reserve(va, size, address, alignment);
}

hsa_status_t hsa_amd_vmem_address_free(void* va, size_t size) {
  std::lock_guard guard(lock);
  auto found = reservations.find(reinterpret_cast<uint64_t>(va));
  if (found == reservations.end() || found->second != size) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  auto inside = allocations.lower_bound(found->first);
  if (inside != allocations.end() && inside->first < found->first + size) return HSA_STATUS_ERROR_RESOURCE_FREE;
  munmap(va, size);
  reservations.erase(found);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool, size_t size, hsa_amd_memory_type_t, uint64_t,
                                        hsa_amd_vmem_alloc_handle_t* handle) {
  if (fault("no_vmem")) return HSA_STATUS_ERROR;
  if (is_host(pool) || size == 0 || size % granule()) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::lock_guard guard(lock);
  handle->handle = next_handle++;
  handles[handle->handle] = {take_offset(size), size, pool};
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_handle_release(hsa_amd_vmem_alloc_handle_t handle) {
  std::lock_guard guard(lock);
  return handles.erase(handle.handle) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_vmem_map(void* va, size_t size, size_t offset, hsa_amd_vmem_alloc_handle_t handle, uint64_t) {
  if (fault("no_vmem")) return HSA_STATUS_ERROR;
  std::lock_guard guard(lock);
  uint64_t address = reinterpret_cast<uint64_t>(va);
  auto range = reservations.upper_bound(address);
  auto memory = handles.find(handle.handle);
  if (range == reservations.begin() || memory == handles.end() || offset + size > memory->second.size)
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  range = std::prev(range);
  auto next = allocations.lower_bound(address);
  bool overlaps = holding(address) != nullptr || (next != allocations.end() && next->first < address + size);
  if (address + size > range->first + range->second || overlaps) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  allocations[address] = {address, size, memory->second.offset + offset, Kind::vmem, memory->second.pool, 0, size};
  show(allocations[address]);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_vmem_unmap(void* va, size_t size) {
  std::lock_guard guard(lock);
  auto found = allocations.find(reinterpret_cast<uint64_t>(va));
  if (found == allocations.end() || found->second.size != size) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  remove(found->first, true);
  return HSA_STATUS_SUCCESS;
}

// The range must cover whole mappings.
hsa_status_t hsa_amd_vmem_set_access(void* va, size_t size, const hsa_amd_memory_access_desc_t* given, size_t count) {
  std::lock_guard guard(lock);
  uint64_t begin = reinterpret_cast<uint64_t>(va), covered = 0;
  for (auto mapping = allocations.lower_bound(begin); mapping != allocations.end() && mapping->first < begin + size; ++mapping) {
    for (size_t i = 0; i < count; ++i) {
      if (given[i].permissions == HSA_ACCESS_PERMISSION_NONE) mapping->second.agents &= ~bit(given[i].agent_handle);
      else mapping->second.agents |= bit(given[i].agent_handle);
    }
    covered += mapping->second.size;
    show(mapping->second);
  }
  return covered == size ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

}  // namespace stand_in
