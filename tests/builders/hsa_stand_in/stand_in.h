// A stand-in for libhsa-runtime64.so.1 for tests: device memory is a memfd, dispatches run on the emulator.
//
// The functions in namespace stand_in have the names and types of the HSA functions that they implement; `entry_points.h`
// lists them with their slots in the API tables. STAND_IN_HSA_EMULATOR is the socket of the emulator (see server.py),
// STAND_IN_HSA_FAULT the list of injected faults: "reserve_fails,granule=2097152,...", see `fault`.
#pragma once
#include <hsa.h>
#include <hsa_ext_amd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

using hsa_amd_queue_intercept_packet_writer = void (*)(const void* packets, uint64_t count);
using hsa_amd_queue_intercept_handler = void (*)(const void* packets, uint64_t count, uint64_t user_index, void* data,
                                                 hsa_amd_queue_intercept_packet_writer writer);
using hsa_queue_error_callback = void (*)(hsa_status_t status, hsa_queue_t* source, void* data);

namespace stand_in {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kFrequency = 100'000'000;  // ticks per second; deliberately not nanoseconds
constexpr hsa_agent_t kCpu{1};
constexpr hsa_agent_t kFirstGpu{2};

// Returns the value of an injected fault, "1" if it has no value.
std::optional<std::string> fault(const std::string& name);
uint64_t fault_number(const std::string& name, uint64_t otherwise);
uint64_t now_ticks();
bool is_open();
uint32_t gpu_count();
inline bool is_gpu(hsa_agent_t agent) { return agent.handle >= kFirstGpu.handle && agent.handle < kFirstGpu.handle + gpu_count(); }

// ---- memory ----
enum class Kind { pool, vmem, locked, code, ring, ipc, interop, svm };

struct Allocation {
  uint64_t address, size, offset;  // offset: in the memfd
  Kind kind;
  hsa_amd_memory_pool_t pool;
  uint64_t agents;  // bit per agent handle: may access it
  uint64_t requested;
};

int memory_file();
// Allocates memory for the runtime, visible to CPU and GPUs.
void* allocate_shared(uint64_t size, Kind kind);
void release(void* address);
// Maps the same bytes at a second address; returns null if there is no allocation.
void* alias(void* address, uint64_t size);
// Replaces host pages by pages of the memfd with the same content, which makes them visible to the emulator.
void pin(void* host, uint64_t size, Kind kind);
bool unpin(void* host, Kind kind);
// Like `release`, for memory of `alias` and `allocate_shared`; returns false if there is no allocation of that kind.
bool detach(void* address, Kind kind);
// Returns every allocation that `agent` may access.
std::vector<Allocation> visible_to(hsa_agent_t agent);

// ---- signals ----
// The first 64 bytes have the layout of amd_signal_t.
struct alignas(64) Signal {
  int64_t kind = 1;
  volatile int64_t value = 0;
  uint64_t mailbox = 0;
  uint32_t event = 0, reserved = 0;
  uint64_t start = 0, end = 0;
  struct Queue* queue = nullptr;  // of a doorbell
  uint64_t padding = 0;
};
inline Signal* signal_of(hsa_signal_t handle) { return reinterpret_cast<Signal*>(handle.handle); }
inline hsa_signal_t handle_of(Signal* signal) { return {reinterpret_cast<uint64_t>(signal)}; }
void signal_changed();
// Returns false if `stop` became true first.
bool wait_until_zero(hsa_signal_t handle, const std::atomic<bool>& stop);

// ---- queues ----
void ring(Queue* queue, uint64_t index);
void report_memory_fault(hsa_agent_t agent, uint64_t address);

// ---- code ----
struct LoadedKernel {
  uint64_t code_object;  // number in the emulator
  std::string symbol;
};
std::optional<LoadedKernel> kernel_at(uint64_t kernel_object);

// ---- tools ----
// Like rocprofiler-register: passes the table to a tool for rocprofiler-sdk; returns whether there is one.
bool give_to_rocprofiler(void* tables);

// ---- the emulator ----
// Sends one request with the table of allocations and returns the answer, both one line. Throws std::runtime_error.
std::string ask_emulator(const std::string& request, const std::vector<Allocation>& memory);

hsa_status_t hsa_amd_queue_intercept_create(hsa_agent_t, uint32_t, hsa_queue_type32_t, hsa_queue_error_callback, void*, uint32_t,
                                            uint32_t, hsa_queue_t**);
hsa_status_t hsa_amd_queue_intercept_register(hsa_queue_t*, hsa_amd_queue_intercept_handler, void*);
hsa_status_t hsa_amd_counted_queue_acquire(hsa_agent_t, hsa_queue_type_t, hsa_amd_queue_priority_t, hsa_queue_error_callback, void*,
                                           uint64_t, hsa_queue_t**);
hsa_status_t hsa_amd_counted_queue_release(hsa_queue_t*);

}  // namespace stand_in
