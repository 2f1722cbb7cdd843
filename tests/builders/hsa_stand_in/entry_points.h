// X(table, slot, function): implemented functions with their slots in the API tables of ROCm 7.
#define STAND_IN_ENTRY_POINTS(X)                                  \
  X(core, 0, hsa_init)                                            \
  X(core, 1, hsa_shut_down)                                       \
  X(core, 2, hsa_system_get_info)                                 \
  X(core, 5, hsa_iterate_agents)                                  \
  X(core, 6, hsa_agent_get_info)                                  \
  X(core, 7, hsa_queue_create)                                    \
  X(core, 9, hsa_queue_destroy)                                   \
  X(core, 11, hsa_queue_load_read_index_scacquire)                \
  X(core, 12, hsa_queue_load_read_index_relaxed)                  \
  X(core, 13, hsa_queue_load_write_index_scacquire)               \
  X(core, 14, hsa_queue_load_write_index_relaxed)                 \
  X(core, 20, hsa_queue_cas_write_index_screlease)                \
  X(core, 21, hsa_queue_add_write_index_scacq_screl)              \
  X(core, 22, hsa_queue_add_write_index_scacquire)                \
  X(core, 23, hsa_queue_add_write_index_relaxed)                  \
  X(core, 24, hsa_queue_add_write_index_screlease)                \
  X(core, 35, hsa_memory_copy)                                    \
  X(core, 37, hsa_signal_create)                                  \
  X(core, 38, hsa_signal_destroy)                                 \
  X(core, 39, hsa_signal_load_relaxed)                            \
  X(core, 40, hsa_signal_load_scacquire)                          \
  X(core, 41, hsa_signal_store_relaxed)                           \
  X(core, 42, hsa_signal_store_screlease)                         \
  X(core, 43, hsa_signal_wait_relaxed)                            \
  X(core, 44, hsa_signal_wait_scacquire)                          \
  X(core, 65, hsa_signal_subtract_relaxed)                        \
  X(core, 67, hsa_signal_subtract_screlease)                      \
  X(core, 84, hsa_executable_destroy)                             \
  X(core, 86, hsa_executable_freeze)                              \
  X(core, 93, hsa_executable_symbol_get_info)                     \
  X(core, 95, hsa_status_string)                                  \
  X(core, 108, hsa_agent_iterate_isas)                            \
  X(core, 109, hsa_isa_get_info_alt)                              \
  X(core, 115, hsa_code_object_reader_create_from_file)           \
  X(core, 116, hsa_code_object_reader_create_from_memory)         \
  X(core, 117, hsa_code_object_reader_destroy)                    \
  X(core, 118, hsa_executable_create_alt)                         \
  X(core, 120, hsa_executable_load_agent_code_object)             \
  X(core, 122, hsa_executable_get_symbol_by_name)                 \
  X(core, 123, hsa_executable_iterate_agent_symbols)              \
  X(amd, 2, hsa_amd_profiling_set_profiler_enabled)               \
  X(amd, 4, hsa_amd_profiling_get_dispatch_time)                  \
  X(amd, 11, hsa_amd_memory_pool_get_info)                        \
  X(amd, 12, hsa_amd_agent_iterate_memory_pools)                  \
  X(amd, 13, hsa_amd_memory_pool_allocate)                        \
  X(amd, 14, hsa_amd_memory_pool_free)                            \
  X(amd, 15, hsa_amd_memory_async_copy)                           \
  X(amd, 16, hsa_amd_memory_async_copy_on_engine)                 \
  X(amd, 19, hsa_amd_agents_allow_access)                         \
  X(amd, 22, hsa_amd_memory_lock)                                 \
  X(amd, 23, hsa_amd_memory_unlock)                               \
  X(amd, 24, hsa_amd_memory_fill)                                 \
  X(amd, 25, hsa_amd_interop_map_buffer)                          \
  X(amd, 26, hsa_amd_interop_unmap_buffer)                        \
  X(amd, 28, hsa_amd_pointer_info)                                \
  X(amd, 30, hsa_amd_ipc_memory_create)                           \
  X(amd, 31, hsa_amd_ipc_memory_attach)                           \
  X(amd, 32, hsa_amd_ipc_memory_detach)                           \
  X(amd, 36, hsa_amd_register_system_event_handler)               \
  X(amd, 40, hsa_amd_memory_async_copy_rect)                      \
  X(amd, 42, hsa_amd_memory_lock_to_pool)                         \
  X(amd, 46, hsa_amd_svm_attributes_set)                          \
  X(amd, 55, hsa_amd_vmem_address_reserve)                        \
  X(amd, 56, hsa_amd_vmem_address_free)                           \
  X(amd, 57, hsa_amd_vmem_handle_create)                          \
  X(amd, 58, hsa_amd_vmem_handle_release)                         \
  X(amd, 59, hsa_amd_vmem_map)                                    \
  X(amd, 60, hsa_amd_vmem_unmap)                                  \
  X(amd, 61, hsa_amd_vmem_set_access)                             \
  X(amd, 69, hsa_amd_vmem_address_reserve_align)

// Newer than the headers.
#define STAND_IN_NEWER(X)                                         \
  X(amd, 76, hsa_amd_counted_queue_acquire)                       \
  X(amd, 77, hsa_amd_counted_queue_release)

// In the table only.
#define STAND_IN_TABLE_ONLY(X)            \
  X(amd, 37, hsa_amd_queue_intercept_create) \
  X(amd, 38, hsa_amd_queue_intercept_register)
