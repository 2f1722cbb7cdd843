// Shared memory: pinned host memory, memory of other processes and devices, SVM; and the other copy functions.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "implementation.h"

namespace stand_in {

hsa_status_t hsa_amd_memory_lock(void* host, size_t size, hsa_agent_t*, int, void** agent_ptr) {
  pin(host, size, Kind::locked);
  *agent_ptr = host;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_memory_lock_to_pool(void* host, size_t size, hsa_agent_t* agents, int count, hsa_amd_memory_pool_t, uint32_t,
                                         void** agent_ptr) {
  return stand_in::hsa_amd_memory_lock(host, size, agents, count, agent_ptr);
}

hsa_status_t hsa_amd_memory_unlock(void* host) {
  return unpin(host, Kind::locked) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

// A range that is already visible is not changed.
hsa_status_t hsa_amd_svm_attributes_set(void* ptr, size_t size, hsa_amd_svm_attribute_pair_t*, size_t) {
  if (reinterpret_cast<uint64_t>(ptr) % kPage || size % kPage) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  stand_in::hsa_amd_pointer_info(ptr, &info, nullptr, nullptr, nullptr);
  if (info.type == HSA_EXT_POINTER_TYPE_UNKNOWN) pin(ptr, size, Kind::svm);
  return HSA_STATUS_SUCCESS;
}

// Handles are addresses, because there is only one process.
hsa_status_t hsa_amd_ipc_memory_create(void* ptr, size_t size, hsa_amd_ipc_memory_t* handle) {
  const uint64_t words[2] = {reinterpret_cast<uint64_t>(ptr), size};
  std::memcpy(handle, words, sizeof words);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t* handle, size_t size, uint32_t, const hsa_agent_t*, void** ptr) {
  uint64_t words[2];
  std::memcpy(words, handle, sizeof words);
  if (size > words[1]) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *ptr = alias(reinterpret_cast<void*>(words[0]), size);
  return *ptr != nullptr ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_ipc_memory_detach(void* ptr) {
  return detach(ptr, Kind::ipc) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

// The other device is a file.
hsa_status_t hsa_amd_interop_map_buffer(uint32_t, hsa_agent_t*, int file, uint32_t, size_t* size, void** ptr, size_t*, const void**) {
  struct stat facts;
  if (fstat(file, &facts) != 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  *size = size_t(facts.st_size);
  *ptr = allocate_shared(*size, Kind::interop);
  return pread(file, *ptr, *size, 0) == ssize_t(*size) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR;
}

hsa_status_t hsa_amd_interop_unmap_buffer(void* ptr) {
  return detach(ptr, Kind::interop) ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_memory_fill(void* ptr, uint32_t value, size_t count) {
  const std::vector<uint32_t> words(count, value);
  hsa_signal_t done;
  stand_in::hsa_signal_create(1, 0, nullptr, &done);
  stand_in::hsa_amd_memory_async_copy(ptr, kFirstGpu, words.data(), kCpu, count * sizeof value, 0, nullptr, done);
  stand_in::hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
  return stand_in::hsa_signal_destroy(done);
}

hsa_status_t hsa_amd_memory_async_copy_on_engine(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent, size_t size,
                                                 uint32_t count, const hsa_signal_t* signals, hsa_signal_t done,
                                                 hsa_amd_sdma_engine_id_t, bool) {
  return stand_in::hsa_amd_memory_async_copy(to, to_agent, from, from_agent, size, count, signals, done);
}

// One layer: rows of `range->x` bytes.
hsa_status_t hsa_amd_memory_async_copy_rect(const hsa_pitched_ptr_t* to, const hsa_dim3_t* to_offset, const hsa_pitched_ptr_t* from,
                                            const hsa_dim3_t* from_offset, const hsa_dim3_t* range, hsa_agent_t agent,
                                            hsa_amd_copy_direction_t, uint32_t, const hsa_signal_t*, hsa_signal_t done) {
  if (range->z != 1) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  auto row = [](const hsa_pitched_ptr_t& side, const hsa_dim3_t& offset, uint32_t y) {
    return static_cast<uint8_t*>(side.base) + (offset.y + y) * side.pitch + offset.x;
  };
  hsa_signal_t rows;
  stand_in::hsa_signal_create(range->y, 0, nullptr, &rows);
  for (uint32_t y = 0; y < range->y; ++y)
    stand_in::hsa_amd_memory_async_copy(row(*to, *to_offset, y), agent, row(*from, *from_offset, y), agent, range->x, 0, nullptr, rows);
  return stand_in::hsa_amd_memory_async_copy(to->base, agent, to->base, agent, 0, 1, &rows, done);
}

}  // namespace stand_in
