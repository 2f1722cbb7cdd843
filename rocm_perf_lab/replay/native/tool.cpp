// HSA tools library: OnLoad installs hooks in the runtime's API table. Each hook forwards the call and records its effect.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "capture.h"
#include "failure.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace capture {
namespace {

Api api;
Capture* tool;  // never deleted: threads of the runtime may use it until the process ends

// Whether `tool` belongs to the parent of a fork. The child cannot use the runtime of its parent, and locks may be held by threads
// that it does not have.
std::atomic<bool> is_child{false};

// Called for every packet: reads two variables.
bool is_watching() { return tool != nullptr && tool->is_armed() && !is_child.load(std::memory_order_relaxed); }

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
bool ok(hsa_status_t status) { return status == HSA_STATUS_SUCCESS; }

// Returns the indices of agents; those of all GPUs if the application passes none.
std::set<int> indices(uint32_t count, const hsa_agent_t* agents) {
  std::set<int> found;
  for (uint32_t i = 0; agents != nullptr && i < count; ++i) found.insert(tool->agents.index_of(agents[i]));
  const auto& all = tool->agents.all();
  for (size_t i = 0; found.empty() && agents == nullptr && i < all.size(); ++i)
    if (all[i].is_gpu) found.insert(int(i));
  return found;
}

int first_gpu() {
  const auto& all = tool->agents.all();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].is_gpu) return int(i);
  return 0;
}

// Keeps the memory unchanged during a snapshot; has no effect if the tool is not watching.
class Gate {
 public:
  Gate() {
    if (is_watching() && !MemoryMap::passes_gate) lock_ = std::shared_lock(tool->memory.gate);
  }

 private:
  std::shared_lock<std::shared_timed_mutex> lock_;
};

// ---- memory ----

void note(uint64_t base, uint64_t size, Kind kind, const Pool* pool, std::set<int> access = {}, uint64_t host = 0) {
  Mapping mapping{base, size, host, kind, true, 0, 0, std::move(access)};
  if (pool != nullptr) {
    mapping.agent = pool->agent;
    mapping.flags = pool->flags;
    mapping.on_gpu = tool->agents.all()[size_t(pool->agent)].is_gpu;
    if (kind == Kind::pool) mapping.access.insert(pool->agent);
  } else if (kind == Kind::locked || kind == Kind::svm) {
    mapping.on_gpu = false;
  }
  if (pool == nullptr && mapping.on_gpu) mapping.agent = mapping.access.empty() ? first_gpu() : *mapping.access.rbegin();
  if (kind == Kind::svm) tool->memory.add_unless_known(mapping);
  else tool->memory.add(mapping);
}

hsa_status_t on_pool_allocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags, void** ptr) {
  hsa_status_t status = api.hsa_amd_memory_pool_allocate(pool, size, flags, ptr);
  if (ok(status) && is_watching()) note(number(*ptr), size, Kind::pool, tool->agents.pool(pool));
  return status;
}

// The entry is removed before the memory, whose address another thread may get immediately.
hsa_status_t on_pool_free(void* ptr) {
  Gate gate;
  if (is_watching()) tool->memory.remove(number(ptr));
  return api.hsa_amd_memory_pool_free(ptr);
}

hsa_status_t on_memory_allocate(hsa_region_t region, size_t size, void** ptr) {
  hsa_status_t status = api.hsa_memory_allocate(region, size, ptr);
  if (ok(status) && is_watching()) {
    hsa_amd_memory_pool_t pool{region.handle};  // regions and pools have the same handles
    note(number(*ptr), size, Kind::region, tool->agents.pool(pool), {0});
  }
  return status;
}

hsa_status_t on_memory_free(void* ptr) {
  Gate gate;
  if (is_watching()) tool->memory.remove(number(ptr));
  return api.hsa_memory_free(ptr);
}

hsa_status_t on_allow_access(uint32_t count, const hsa_agent_t* agents, const uint32_t* flags, const void* ptr) {
  hsa_status_t status = api.hsa_amd_agents_allow_access(count, agents, flags, ptr);
  if (ok(status) && is_watching()) tool->memory.grant(number(ptr), 1, indices(count, agents), true);
  return status;
}

hsa_status_t on_lock(void* host, size_t size, hsa_agent_t* agents, int count, void** agent_ptr) {
  hsa_status_t status = api.hsa_amd_memory_lock(host, size, agents, count, agent_ptr);
  if (ok(status) && is_watching()) note(number(*agent_ptr), size, Kind::locked, nullptr, indices(uint32_t(count), agents), number(host));
  return status;
}

hsa_status_t on_lock_to_pool(void* host, size_t size, hsa_agent_t* agents, int count, hsa_amd_memory_pool_t pool, uint32_t flags,
                             void** agent_ptr) {
  hsa_status_t status = api.hsa_amd_memory_lock_to_pool(host, size, agents, count, pool, flags, agent_ptr);
  if (ok(status) && is_watching()) note(number(*agent_ptr), size, Kind::locked, nullptr, indices(uint32_t(count), agents), number(host));
  return status;
}

hsa_status_t on_unlock(void* host) {
  Gate gate;
  if (is_watching())
    for (const Range& range : tool->memory.ranges())
      if (range.first.kind == Kind::locked && range.first.host <= number(host) && number(host) < range.first.host + range.size)
        tool->memory.remove(range.first.base);
  return api.hsa_amd_memory_unlock(host);
}

hsa_status_t on_interop_map(uint32_t count, hsa_agent_t* agents, int handle, uint32_t flags, size_t* size, void** ptr,
                            size_t* metadata_size, const void** metadata) {
  hsa_status_t status = api.hsa_amd_interop_map_buffer(count, agents, handle, flags, size, ptr, metadata_size, metadata);
  if (ok(status) && is_watching()) note(number(*ptr), *size, Kind::interop, nullptr, indices(count, agents));
  return status;
}

hsa_status_t on_interop_unmap(void* ptr) {
  Gate gate;
  if (is_watching()) tool->memory.remove(number(ptr));
  return api.hsa_amd_interop_unmap_buffer(ptr);
}

hsa_status_t on_ipc_attach(const hsa_amd_ipc_memory_t* handle, size_t size, uint32_t count, const hsa_agent_t* agents, void** ptr) {
  hsa_status_t status = api.hsa_amd_ipc_memory_attach(handle, size, count, agents, ptr);
  if (ok(status) && is_watching()) note(number(*ptr), size, Kind::ipc, nullptr, indices(count, agents));
  return status;
}

hsa_status_t on_ipc_detach(void* ptr) {
  Gate gate;
  if (is_watching()) tool->memory.remove(number(ptr));
  return api.hsa_amd_ipc_memory_detach(ptr);
}

hsa_status_t on_svm_attributes(void* ptr, size_t size, hsa_amd_svm_attribute_pair_t* list, size_t count) {
  hsa_status_t status = api.hsa_amd_svm_attributes_set(ptr, size, list, count);
  if (ok(status) && is_watching()) {
    std::set<int> access;
    for (size_t i = 0; i < count; ++i)
      if (list[i].attribute == HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE || list[i].attribute == HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE_IN_PLACE)
        access.insert(tool->agents.index_of({list[i].value}));
    note(number(ptr), size, Kind::svm, nullptr, access);
  }
  return status;
}

// Pools of the physical memory handles of the virtual memory interface.
std::mutex handles_lock;
auto& handles = *new std::map<uint64_t, hsa_amd_memory_pool_t>;  // never deleted: threads may use it while the process ends

hsa_status_t on_handle_create(hsa_amd_memory_pool_t pool, size_t size, hsa_amd_memory_type_t type, uint64_t flags,
                              hsa_amd_vmem_alloc_handle_t* handle) {
  hsa_status_t status = api.hsa_amd_vmem_handle_create(pool, size, type, flags, handle);
  if (ok(status) && is_watching()) {
    std::lock_guard guard(handles_lock);
    handles[handle->handle] = pool;
  }
  return status;
}

hsa_status_t on_reserve(void** va, size_t size, uint64_t address, uint64_t flags) {
  hsa_status_t status = api.hsa_amd_vmem_address_reserve(va, size, address, flags);
  if (ok(status) && is_watching()) tool->memory.reserve(number(*va), size);
  return status;
}

hsa_status_t on_reserve_align(void** va, size_t size, uint64_t address, uint64_t alignment, uint64_t flags) {
  hsa_status_t status = api.amd_vmem_address_reserve_align(va, size, address, alignment, flags);
  if (ok(status) && is_watching()) tool->memory.reserve(number(*va), size);
  return status;
}

hsa_status_t on_address_free(void* va, size_t size) {
  Gate gate;
  if (is_watching()) tool->memory.unreserve(number(va));
  return api.hsa_amd_vmem_address_free(va, size);
}

hsa_status_t on_vmem_map(void* va, size_t size, size_t offset, hsa_amd_vmem_alloc_handle_t handle, uint64_t flags) {
  hsa_status_t status = api.hsa_amd_vmem_map(va, size, offset, handle, flags);
  if (ok(status) && is_watching()) {
    std::lock_guard guard(handles_lock);
    auto found = handles.find(handle.handle);  // an imported handle has no pool
    note(number(va), size, Kind::vmem, found == handles.end() ? nullptr : tool->agents.pool(found->second));
  }
  return status;
}

hsa_status_t on_vmem_unmap(void* va, size_t size) {
  Gate gate;
  if (is_watching()) tool->memory.remove_all(number(va), size);
  return api.hsa_amd_vmem_unmap(va, size);
}

hsa_status_t on_set_access(void* va, size_t size, const hsa_amd_memory_access_desc_t* given, size_t count) {
  Gate gate;
  hsa_status_t status = api.hsa_amd_vmem_set_access(va, size, given, count);
  if (ok(status) && is_watching()) {
    std::set<int> granted, revoked;
    for (size_t i = 0; i < count; ++i)
      (given[i].permissions != HSA_ACCESS_PERMISSION_NONE ? granted : revoked).insert(tool->agents.index_of(given[i].agent_handle));
    tool->memory.revoke(number(va), size, revoked);
    tool->memory.grant(number(va), size, granted, false);
  }
  return status;
}

// Copies change memory, too; none begins between the two snapshots.
hsa_status_t on_memory_copy(void* to, const void* from, size_t size) {
  Gate gate;
  return api.hsa_memory_copy(to, from, size);
}

hsa_status_t on_async_copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent, size_t size, uint32_t count,
                           const hsa_signal_t* signals, hsa_signal_t done) {
  Gate gate;
  return api.hsa_amd_memory_async_copy(to, to_agent, from, from_agent, size, count, signals, done);
}

hsa_status_t on_copy_on_engine(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent, size_t size, uint32_t count,
                               const hsa_signal_t* signals, hsa_signal_t done, hsa_amd_sdma_engine_id_t engine, bool force) {
  Gate gate;
  return api.hsa_amd_memory_async_copy_on_engine(to, to_agent, from, from_agent, size, count, signals, done, engine, force);
}

hsa_status_t on_copy_rect(const hsa_pitched_ptr_t* to, const hsa_dim3_t* to_offset, const hsa_pitched_ptr_t* from,
                          const hsa_dim3_t* from_offset, const hsa_dim3_t* range, hsa_agent_t agent, hsa_amd_copy_direction_t direction,
                          uint32_t count, const hsa_signal_t* signals, hsa_signal_t done) {
  Gate gate;
  return api.hsa_amd_memory_async_copy_rect(to, to_offset, from, from_offset, range, agent, direction, count, signals, done);
}

hsa_status_t on_batch_copy(const void* operations, uint32_t count, uint32_t dependencies, const hsa_signal_t* signals) {
  Gate gate;
  return api.amd_async_batch_copy(operations, count, dependencies, signals);
}

hsa_status_t on_fill(void* ptr, uint32_t value, size_t count) {
  Gate gate;
  return api.hsa_amd_memory_fill(ptr, value, count);
}

// ---- code objects ----

hsa_status_t on_reader_from_memory(const void* bytes, size_t size, hsa_code_object_reader_t* reader) {
  hsa_status_t status = api.hsa_code_object_reader_create_from_memory(bytes, size, reader);
  if (ok(status) && is_watching()) tool->code.reader_created(*reader, bytes, size);
  return status;
}

hsa_status_t on_reader_from_file(hsa_file_t file, hsa_code_object_reader_t* reader) {
  hsa_status_t status = api.hsa_code_object_reader_create_from_file(file, reader);
  if (ok(status) && is_watching()) tool->code.reader_created(*reader, file, 0, 0);
  return status;
}

decltype(hsa_ven_amd_loader_1_02_pfn_t::hsa_ven_amd_loader_code_object_reader_create_from_file_with_offset_size) reader_from_part;

hsa_status_t on_reader_from_part(hsa_file_t file, size_t offset, size_t size, hsa_code_object_reader_t* reader) {
  hsa_status_t status = reader_from_part(file, offset, size, reader);
  if (ok(status) && is_watching()) tool->code.reader_created(*reader, file, offset, size);
  return status;
}

// The loader extension has another function that creates readers; its table is passed by value.
void patch_loader(uint16_t extension, size_t size, void* table) {
  using Loader = hsa_ven_amd_loader_1_02_pfn_t;
  if (extension != HSA_EXTENSION_AMD_LOADER || size < sizeof(Loader)) return;
  auto& place = static_cast<Loader*>(table)->hsa_ven_amd_loader_code_object_reader_create_from_file_with_offset_size;
  if (place == nullptr || place == on_reader_from_part) return;
  reader_from_part = place;
  place = on_reader_from_part;
}

hsa_status_t on_major_extension_table(uint16_t extension, uint16_t major, size_t size, void* table) {
  hsa_status_t status = api.hsa_system_get_major_extension_table(extension, major, size, table);
  if (ok(status) && is_watching()) patch_loader(extension, size, table);
  return status;
}

hsa_status_t on_extension_table(uint16_t extension, uint16_t major, uint16_t minor, void* table) {
  hsa_status_t status = api.hsa_system_get_extension_table(extension, major, minor, table);
  if (ok(status) && is_watching() && minor >= 2) patch_loader(extension, sizeof(hsa_ven_amd_loader_1_02_pfn_t), table);
  return status;
}

hsa_status_t on_reader_destroy(hsa_code_object_reader_t reader) {
  if (is_watching()) tool->code.reader_destroyed(reader);
  return api.hsa_code_object_reader_destroy(reader);
}

hsa_status_t on_load_agent(hsa_executable_t executable, hsa_agent_t agent, hsa_code_object_reader_t reader, const char* options,
                           hsa_loaded_code_object_t* loaded) {
  hsa_status_t status = api.hsa_executable_load_agent_code_object(executable, agent, reader, options, loaded);
  if (ok(status) && is_watching()) tool->code.loaded(executable, reader);
  return status;
}

hsa_status_t on_load_program(hsa_executable_t executable, hsa_code_object_reader_t reader, const char* options,
                             hsa_loaded_code_object_t* loaded) {
  hsa_status_t status = api.hsa_executable_load_program_code_object(executable, reader, options, loaded);
  if (ok(status) && is_watching()) tool->code.loaded(executable, reader);
  return status;
}

hsa_status_t on_executable_destroy(hsa_executable_t executable) {
  if (is_watching()) tool->forget_kernels(tool->code.executable_destroyed(executable));
  return api.hsa_executable_destroy(executable);
}

hsa_status_t on_symbol_by_name(hsa_executable_t executable, const char* name, const hsa_agent_t* agent,
                               hsa_executable_symbol_t* symbol) {
  hsa_status_t status = api.hsa_executable_get_symbol_by_name(executable, name, agent, symbol);
  if (ok(status) && is_watching()) tool->code.symbol_seen(executable, *symbol);
  return status;
}

hsa_status_t on_get_symbol(hsa_executable_t executable, const char* module, const char* name, hsa_agent_t agent, int32_t convention,
                           hsa_executable_symbol_t* symbol) {
  hsa_status_t status = api.hsa_executable_get_symbol(executable, module, name, agent, convention, symbol);
  if (ok(status) && is_watching()) tool->code.symbol_seen(executable, *symbol);
  return status;
}

using SymbolCallback = hsa_status_t (*)(hsa_executable_t, hsa_executable_symbol_t, void*);
using AgentSymbolCallback = hsa_status_t (*)(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t, void*);
template <class Callback> struct Wrapped { Callback callback; void* data; };

hsa_status_t on_iterate_symbols(hsa_executable_t executable, SymbolCallback callback, void* data) {
  if (!is_watching()) return api.hsa_executable_iterate_symbols(executable, callback, data);
  Wrapped<SymbolCallback> wrapped{callback, data};
  auto seen = [](hsa_executable_t owner_, hsa_executable_symbol_t symbol, void* state) {
    tool->code.symbol_seen(owner_, symbol);
    auto& inner = *static_cast<Wrapped<SymbolCallback>*>(state);
    return inner.callback(owner_, symbol, inner.data);
  };
  return api.hsa_executable_iterate_symbols(executable, seen, &wrapped);
}

hsa_status_t on_iterate_agent_symbols(hsa_executable_t executable, hsa_agent_t agent, AgentSymbolCallback callback, void* data) {
  if (!is_watching()) return api.hsa_executable_iterate_agent_symbols(executable, agent, callback, data);
  Wrapped<AgentSymbolCallback> wrapped{callback, data};
  auto seen = [](hsa_executable_t owner_, hsa_agent_t agent_, hsa_executable_symbol_t symbol, void* state) {
    tool->code.symbol_seen(owner_, symbol);
    auto& inner = *static_cast<Wrapped<AgentSymbolCallback>*>(state);
    return inner.callback(owner_, agent_, symbol, inner.data);
  };
  return api.hsa_executable_iterate_agent_symbols(executable, agent, seen, &wrapped);
}

hsa_status_t on_symbol_info(hsa_executable_symbol_t symbol, hsa_executable_symbol_info_t attribute, void* value) {
  hsa_status_t status = api.hsa_executable_symbol_get_info(symbol, attribute, value);
  if (ok(status) && attribute == HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT && is_watching()) {
    const uint64_t object = *static_cast<uint64_t*>(value);
    if (tool->code.kernel_seen(object, symbol)) tool->forget_kernels({object});
  }
  return status;
}

// ---- queues ----

void on_packets(const void* packets, uint64_t count, uint64_t, void* data, PacketWriter writer) {
  if (is_watching()) tool->handle(packets, count, *static_cast<Queue*>(data), writer);
  else writer(packets, count);
}

// Returns false for a queue that cannot be intercepted.
bool watch(hsa_queue_t* queue, hsa_agent_t agent, hsa_queue_type32_t type) {
  if (tool->queues.find(queue) != nullptr) return true;
  Queue* known = tool->queues.add(queue, agent, type);
  if (ok(api.hsa_amd_queue_intercept_register(queue, on_packets, known))) return true;
  tool->queues.remove(queue);
  return false;
}

// Returns whether another tool has hooked the creation of queues. Its queues are intercept queues, and it must see their packets.
bool is_hooked_by_another() {
  Dl_info place{};
  return dladdr(reinterpret_cast<void*>(api.hsa_queue_create), &place) == 0 || place.dli_fname == nullptr ||
         std::strstr(place.dli_fname, "libhsa-runtime64") == nullptr;
}

// An agent has one cooperative queue, which the runtime deletes at shutdown. An intercept queue would delete it, too: it is kept after
// `hsa_queue_destroy`, and used again.
std::mutex cooperative_lock;
auto& cooperative = *new std::map<uint64_t, hsa_queue_t*>;

bool is_cooperative(const hsa_queue_t* queue) {
  std::lock_guard guard(cooperative_lock);
  return std::any_of(cooperative.begin(), cooperative.end(), [=](const auto& entry) { return entry.second == queue; });
}

hsa_status_t intercepted_queue(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, QueueErrorCallback callback, void* data,
                               uint32_t private_size, uint32_t group_size, hsa_queue_t** queue) {
  auto create = [&] {
    return api.hsa_amd_queue_intercept_create(agent, size, type, callback, data, private_size, group_size, queue);
  };
  if (type != HSA_QUEUE_TYPE_COOPERATIVE) return create();
  std::lock_guard guard(cooperative_lock);
  if (auto found = cooperative.find(agent.handle); found != cooperative.end()) {
    *queue = found->second;
    return HSA_STATUS_SUCCESS;
  }
  hsa_status_t status = create();
  if (ok(status)) cooperative[agent.handle] = *queue;
  return status;
}

hsa_status_t on_queue_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, QueueErrorCallback callback, void* data,
                             uint32_t private_size, uint32_t group_size, hsa_queue_t** queue) {
  auto plain = [&] { return api.hsa_queue_create(agent, size, type, callback, data, private_size, group_size, queue); };
  if (!is_watching() || !tool->agents.all()[size_t(tool->agents.index_of(agent))].is_gpu) return plain();
  if (is_hooked_by_another()) {
    hsa_status_t status = plain();
    if (!ok(status) || watch(*queue, agent, type)) return status;
    api.hsa_queue_destroy(*queue);
  }
  hsa_status_t status = intercepted_queue(agent, size, type, callback, data, private_size, group_size, queue);
  if (ok(status) && watch(*queue, agent, type)) return status;
  if (ok(status) && type != HSA_QUEUE_TYPE_COOPERATIVE) api.hsa_queue_destroy(*queue);
  tool->warn("a queue could not be intercepted: dispatches on it are not seen");
  return plain();
}

// Called by tools that were loaded later, for their queues.
hsa_status_t on_intercept_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, QueueErrorCallback callback, void* data,
                                 uint32_t private_size, uint32_t group_size, hsa_queue_t** queue) {
  hsa_status_t status = api.hsa_amd_queue_intercept_create(agent, size, type, callback, data, private_size, group_size, queue);
  if (ok(status) && is_watching() && !watch(*queue, agent, type)) tool->warn("a queue of another tool could not be intercepted");
  return status;
}

hsa_status_t on_queue_destroy(hsa_queue_t* queue) {
  if (is_cooperative(queue)) return HSA_STATUS_SUCCESS;
  if (tool != nullptr && !is_child) tool->queues.remove(queue);
  return api.hsa_queue_destroy(queue);
}

// Counted queues belong to the runtime, are shared and have an unknown size: the application gets a separate intercept queue instead.
constexpr uint32_t kCountedQueueSize = 16384;  // size of HIP's queues
std::mutex counted_lock;
auto& counted = *new std::set<hsa_queue_t*>;

hsa_status_t on_counted_acquire(hsa_agent_t agent, hsa_queue_type_t type, hsa_amd_queue_priority_t priority, QueueErrorCallback callback,
                                void* data, uint64_t flags, hsa_queue_t** queue) {
  if (is_watching() && queue != nullptr && tool->agents.all()[size_t(tool->agents.index_of(agent))].is_gpu) {
    const hsa_status_t status = on_queue_create(agent, kCountedQueueSize, type, callback, data, UINT32_MAX, UINT32_MAX, queue);
    if (ok(status)) {
      if (priority != HSA_AMD_QUEUE_PRIORITY_NORMAL && api.hsa_amd_queue_set_priority) api.hsa_amd_queue_set_priority(*queue, priority);
      std::lock_guard guard(counted_lock);
      counted.insert(*queue);
      return status;
    }
    tool->warn("a counted queue could not be intercepted: dispatches on it are not seen");
  }
  return api.amd_counted_queue_acquire(agent, type, priority, callback, data, flags, queue);
}

hsa_status_t on_counted_release(hsa_queue_t* queue) {
  bool is_intercepted;
  {
    std::lock_guard guard(counted_lock);
    is_intercepted = counted.erase(queue) != 0;
  }
  return is_intercepted ? on_queue_destroy(queue) : api.amd_counted_queue_release(queue);
}

hsa_status_t on_set_mask(const hsa_queue_t* queue, uint32_t bits, const uint32_t* mask) {
  hsa_status_t status = api.hsa_amd_queue_cu_set_mask(queue, bits, mask);
  if ((ok(status) || status == hsa_status_t(HSA_STATUS_CU_MASK_REDUCED)) && is_watching())
    if (Queue* known = tool->queues.find(queue)) known->cu_mask.assign(mask, mask == nullptr ? mask : mask + bits / 32);
  return status;
}

hsa_status_t on_set_profiler(hsa_queue_t* queue, int enable) {
  hsa_status_t status = api.hsa_amd_profiling_set_profiler_enabled(queue, enable);
  if (ok(status) && is_watching())
    if (Queue* known = tool->queues.find(queue)) known->profiled = enable != 0;
  return status;
}

#define CAPTURE_HOOKS(X)                                              \
  X(core, 4, hsa_system_get_extension_table, on_extension_table)      \
  X(core, 7, hsa_queue_create, on_queue_create)                       \
  X(core, 9, hsa_queue_destroy, on_queue_destroy)                     \
  X(core, 33, hsa_memory_allocate, on_memory_allocate)                \
  X(core, 34, hsa_memory_free, on_memory_free)                        \
  X(core, 35, hsa_memory_copy, on_memory_copy)                        \
  X(core, 84, hsa_executable_destroy, on_executable_destroy)          \
  X(core, 92, hsa_executable_get_symbol, on_get_symbol)               \
  X(core, 93, hsa_executable_symbol_get_info, on_symbol_info)         \
  X(core, 94, hsa_executable_iterate_symbols, on_iterate_symbols)     \
  X(core, 98, hsa_system_get_major_extension_table, on_major_extension_table)        \
  X(core, 115, hsa_code_object_reader_create_from_file, on_reader_from_file)         \
  X(core, 116, hsa_code_object_reader_create_from_memory, on_reader_from_memory)     \
  X(core, 117, hsa_code_object_reader_destroy, on_reader_destroy)     \
  X(core, 119, hsa_executable_load_program_code_object, on_load_program)             \
  X(core, 120, hsa_executable_load_agent_code_object, on_load_agent)  \
  X(core, 122, hsa_executable_get_symbol_by_name, on_symbol_by_name)  \
  X(core, 123, hsa_executable_iterate_agent_symbols, on_iterate_agent_symbols)       \
  X(amd, 2, hsa_amd_profiling_set_profiler_enabled, on_set_profiler)  \
  X(amd, 10, hsa_amd_queue_cu_set_mask, on_set_mask)                  \
  X(amd, 13, hsa_amd_memory_pool_allocate, on_pool_allocate)          \
  X(amd, 14, hsa_amd_memory_pool_free, on_pool_free)                  \
  X(amd, 15, hsa_amd_memory_async_copy, on_async_copy)                \
  X(amd, 16, hsa_amd_memory_async_copy_on_engine, on_copy_on_engine)  \
  X(amd, 19, hsa_amd_agents_allow_access, on_allow_access)            \
  X(amd, 22, hsa_amd_memory_lock, on_lock)                            \
  X(amd, 23, hsa_amd_memory_unlock, on_unlock)                        \
  X(amd, 24, hsa_amd_memory_fill, on_fill)                            \
  X(amd, 25, hsa_amd_interop_map_buffer, on_interop_map)              \
  X(amd, 26, hsa_amd_interop_unmap_buffer, on_interop_unmap)          \
  X(amd, 31, hsa_amd_ipc_memory_attach, on_ipc_attach)                \
  X(amd, 32, hsa_amd_ipc_memory_detach, on_ipc_detach)                \
  X(amd, 37, hsa_amd_queue_intercept_create, on_intercept_create)     \
  X(amd, 40, hsa_amd_memory_async_copy_rect, on_copy_rect)            \
  X(amd, 42, hsa_amd_memory_lock_to_pool, on_lock_to_pool)            \
  X(amd, 46, hsa_amd_svm_attributes_set, on_svm_attributes)           \
  X(amd, 55, hsa_amd_vmem_address_reserve, on_reserve)                \
  X(amd, 56, hsa_amd_vmem_address_free, on_address_free)              \
  X(amd, 57, hsa_amd_vmem_handle_create, on_handle_create)            \
  X(amd, 59, hsa_amd_vmem_map, on_vmem_map)                           \
  X(amd, 60, hsa_amd_vmem_unmap, on_vmem_unmap)                       \
  X(amd, 61, hsa_amd_vmem_set_access, on_set_access)                  \
  X(amd, 69, amd_vmem_address_reserve_align, on_reserve_align)        \
  X(amd, 76, amd_counted_queue_acquire, on_counted_acquire)           \
  X(amd, 77, amd_counted_queue_release, on_counted_release)           \
  X(amd, 78, amd_async_batch_copy, on_batch_copy)

void install(ApiTable& tables) {
#define CAPTURE_INSTALL(table, slot, name, hook)                                         \
  static_assert(std::is_same_v<decltype(&::name), decltype(&hook)>);                     \
  if (void** place = slot_of(*tables.table, slot); place && *place) *place = reinterpret_cast<void*>(&hook);
  CAPTURE_HOOKS(CAPTURE_INSTALL)
#undef CAPTURE_INSTALL
}

bool is_installed(const ApiTable& tables) {
  void** place = slot_of(*tables.core, 7);
  return place != nullptr && *place == reinterpret_cast<void*>(&on_queue_create);
}

bool start(ApiTable& tables) {
  if (tables.core == nullptr || tables.amd == nullptr) return false;
  if (is_installed(tables)) return true;  // loaded in two ways
  const auto settings = Settings::from_environment();
  if (!settings) return false;
  const std::string marker = settings->directory + "/loaded-" + std::to_string(getpid());
  try {
    api.save(tables);
    static const int registered = pthread_atfork(nullptr, nullptr, [] { is_child = true; });
    if (registered != 0) throw Failure("a fork of the application cannot be noticed");
    tool = new Capture(*settings, api, is_child ? nullptr : tool);
    is_child = false;
    install(tables);
    replace_file(marker, "ok\n");
    return true;
  } catch (const std::exception& failure) {
    replace_file(marker, std::string(failure.what()) + "\n");
    return false;
  }
}

__attribute__((destructor)) void report_at_exit() {
  if (!is_watching()) return;
  tool->report();
  tool->report_times(std::chrono::seconds(2));
}

}  // namespace
}  // namespace capture

// ROCm also loads preloaded libraries that export this symbol.
EXPORTED const uint32_t HSA_AMD_TOOL_PRIORITY = 900;

EXPORTED bool OnLoad(void* tables, uint64_t, uint64_t, const char* const*) {
  return capture::start(*static_cast<capture::ApiTable*>(tables));
}

EXPORTED void OnUnload() {
  capture::cooperative.clear();
  if (!capture::is_watching()) return;
  capture::tool->report();
  capture::tool->report_times(std::chrono::seconds(10));
}
