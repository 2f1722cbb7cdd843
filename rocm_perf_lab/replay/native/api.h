// HSA functions that the tool calls or replaces, as slots of the runtime's API tables.
//
// The layout is that of hsa_api_trace.h, which some ROCm installations do not include: a table is a version (16 bytes: major,
// minor = size of the table in bytes, step, reserved) followed by function pointers. The tool calls saved pointers only, because
// the exported functions enter its hooks again.
#pragma once
#include <hsa.h>
#include <hsa_ext_amd.h>
#include <hsa_ven_amd_loader.h>

#include <cstdint>

using PacketWriter = void (*)(const void* packets, uint64_t count);
using PacketHandler = void (*)(const void* packets, uint64_t count, uint64_t user_index, void* data, PacketWriter writer);
using QueueErrorCallback = void (*)(hsa_status_t status, hsa_queue_t* source, void* data);

// In the API table only, not exported; declared for their types.
hsa_status_t hsa_amd_queue_intercept_create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, QueueErrorCallback callback,
                                            void* data, uint32_t private_segment_size, uint32_t group_segment_size,
                                            hsa_queue_t** queue);
hsa_status_t hsa_amd_queue_intercept_register(hsa_queue_t* queue, PacketHandler handler, void* data);

// Newer than some headers: hsa_amd_vmem_address_reserve_align, hsa_amd_memory_async_batch_copy, hsa_amd_counted_queue_acquire, hsa_amd_counted_queue_release.
hsa_status_t amd_async_batch_copy(const void* operations, uint32_t count, uint32_t dependencies, const hsa_signal_t* signals);
hsa_status_t amd_counted_queue_acquire(hsa_agent_t agent, hsa_queue_type_t type, hsa_amd_queue_priority_t priority,
                                       QueueErrorCallback callback, void* data, uint64_t flags, hsa_queue_t** queue);
hsa_status_t amd_counted_queue_release(hsa_queue_t* queue);
hsa_status_t amd_vmem_address_reserve_align(void** va, size_t size, uint64_t address, uint64_t alignment, uint64_t flags);

// X(table, slot, function); of major version 2.
#define CAPTURE_API(X)                                 \
  X(core, 2, hsa_system_get_info)                      \
  X(core, 4, hsa_system_get_extension_table)           \
  X(core, 5, hsa_iterate_agents)                       \
  X(core, 6, hsa_agent_get_info)                       \
  X(core, 7, hsa_queue_create)                         \
  X(core, 9, hsa_queue_destroy)                        \
  X(core, 11, hsa_queue_load_read_index_scacquire)     \
  X(core, 14, hsa_queue_load_write_index_relaxed)      \
  X(core, 20, hsa_queue_cas_write_index_screlease)     \
  X(core, 28, hsa_region_get_info)                     \
  X(core, 33, hsa_memory_allocate)                     \
  X(core, 34, hsa_memory_free)                         \
  X(core, 35, hsa_memory_copy)                         \
  X(core, 37, hsa_signal_create)                       \
  X(core, 38, hsa_signal_destroy)                      \
  X(core, 42, hsa_signal_store_screlease)              \
  X(core, 44, hsa_signal_wait_scacquire)               \
  X(core, 67, hsa_signal_subtract_screlease)           \
  X(core, 84, hsa_executable_destroy)                  \
  X(core, 92, hsa_executable_get_symbol)               \
  X(core, 93, hsa_executable_symbol_get_info)          \
  X(core, 94, hsa_executable_iterate_symbols)          \
  X(core, 98, hsa_system_get_major_extension_table)    \
  X(core, 108, hsa_agent_iterate_isas)                 \
  X(core, 109, hsa_isa_get_info_alt)                   \
  X(core, 115, hsa_code_object_reader_create_from_file)   \
  X(core, 116, hsa_code_object_reader_create_from_memory) \
  X(core, 117, hsa_code_object_reader_destroy)         \
  X(core, 119, hsa_executable_load_program_code_object)   \
  X(core, 120, hsa_executable_load_agent_code_object)  \
  X(core, 122, hsa_executable_get_symbol_by_name)      \
  X(core, 123, hsa_executable_iterate_agent_symbols)   \
  X(amd, 2, hsa_amd_profiling_set_profiler_enabled)    \
  X(amd, 4, hsa_amd_profiling_get_dispatch_time)       \
  X(amd, 10, hsa_amd_queue_cu_set_mask)                \
  X(amd, 11, hsa_amd_memory_pool_get_info)             \
  X(amd, 12, hsa_amd_agent_iterate_memory_pools)       \
  X(amd, 13, hsa_amd_memory_pool_allocate)             \
  X(amd, 14, hsa_amd_memory_pool_free)                 \
  X(amd, 15, hsa_amd_memory_async_copy)                \
  X(amd, 16, hsa_amd_memory_async_copy_on_engine)      \
  X(amd, 19, hsa_amd_agents_allow_access)              \
  X(amd, 22, hsa_amd_memory_lock)                      \
  X(amd, 23, hsa_amd_memory_unlock)                    \
  X(amd, 24, hsa_amd_memory_fill)                      \
  X(amd, 25, hsa_amd_interop_map_buffer)               \
  X(amd, 26, hsa_amd_interop_unmap_buffer)             \
  X(amd, 28, hsa_amd_pointer_info)                     \
  X(amd, 31, hsa_amd_ipc_memory_attach)                \
  X(amd, 32, hsa_amd_ipc_memory_detach)                \
  X(amd, 37, hsa_amd_queue_intercept_create)           \
  X(amd, 38, hsa_amd_queue_intercept_register)         \
  X(amd, 39, hsa_amd_queue_set_priority)               \
  X(amd, 40, hsa_amd_memory_async_copy_rect)           \
  X(amd, 42, hsa_amd_memory_lock_to_pool)              \
  X(amd, 46, hsa_amd_svm_attributes_set)               \
  X(amd, 55, hsa_amd_vmem_address_reserve)             \
  X(amd, 56, hsa_amd_vmem_address_free)                \
  X(amd, 57, hsa_amd_vmem_handle_create)               \
  X(amd, 58, hsa_amd_vmem_handle_release)              \
  X(amd, 59, hsa_amd_vmem_map)                         \
  X(amd, 60, hsa_amd_vmem_unmap)                       \
  X(amd, 61, hsa_amd_vmem_set_access)                  \
  X(amd, 69, amd_vmem_address_reserve_align)           \
  X(amd, 76, amd_counted_queue_acquire)                \
  X(amd, 77, amd_counted_queue_release)                \
  X(amd, 78, amd_async_batch_copy)

namespace capture {

struct TableVersion { uint32_t major, minor, step, reserved; };
struct FunctionTable { TableVersion version; void* slots[1]; };
struct ApiTable { TableVersion version; FunctionTable *core, *amd; };

// Functions of the runtime; null if this runtime does not have them.
struct Api {
#define CAPTURE_MEMBER(table, slot, name) decltype(&::name) name = nullptr;
  CAPTURE_API(CAPTURE_MEMBER)
#undef CAPTURE_MEMBER

  // Whether the runtime has hsa_amd_queue_create, which the tool does not intercept.
  bool makes_queues_unseen = false;

  // Throws Failure for an unsupported version of the runtime.
  void save(const ApiTable& tables);
};

// Returns the slot of a function in the runtime's table, or null if the table is too short.
void** slot_of(const FunctionTable& table, int slot);

}  // namespace capture
