// Another tool: counts dispatches through its intercept queues and prints the number when the runtime ends. With
// OTHER_TOOL_IS_BUSY its handler allocates, copies and frees memory through the exported functions.
#include <dlfcn.h>
#include <hsa.h>
#include <hsa_ext_amd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "stand_in.h"

namespace {

struct Table { uint32_t version[4]; void* slots[125]; };
struct Tables { uint32_t version[4]; Table *core, *amd; };
using Create = hsa_status_t (*)(hsa_agent_t, uint32_t, hsa_queue_type32_t, hsa_queue_error_callback, void*, uint32_t, uint32_t,
                                hsa_queue_t**);
using Register = hsa_status_t (*)(hsa_queue_t*, hsa_amd_queue_intercept_handler, void*);

Create intercept_create;
Register intercept_register;
std::atomic<int> dispatches{0};

template <class Function> Function* exported(const char* name) { return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name)); }

void be_busy() {
  static const bool is_wanted = std::getenv("OTHER_TOOL_IS_BUSY") != nullptr;
  if (!is_wanted) return;
  void* memory = nullptr;
  const int content = 42;
  int seen = 0;
  exported<decltype(hsa_amd_memory_pool_allocate)>("hsa_amd_memory_pool_allocate")({12}, 4096, 0, &memory);  // of the host, coarse
  exported<decltype(hsa_memory_copy)>("hsa_memory_copy")(memory, &content, sizeof content);
  exported<decltype(hsa_memory_copy)>("hsa_memory_copy")(&seen, memory, sizeof seen);
  exported<decltype(hsa_amd_memory_pool_free)>("hsa_amd_memory_pool_free")(memory);
  if (seen != content) std::abort();
}

void count(const void* packets, uint64_t number, uint64_t, void*, hsa_amd_queue_intercept_packet_writer writer) {
  for (uint64_t i = 0; i < number; ++i)
    if (static_cast<const uint8_t*>(packets)[64 * i] == HSA_PACKET_TYPE_KERNEL_DISPATCH) ++dispatches, be_busy();
  writer(packets, number);
}

hsa_status_t create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, hsa_queue_error_callback callback, void* data,
                    uint32_t private_size, uint32_t group_size, hsa_queue_t** queue) {
  hsa_status_t status = intercept_create(agent, size, type, callback, data, private_size, group_size, queue);
  return status == HSA_STATUS_SUCCESS ? intercept_register(*queue, count, nullptr) : status;
}

}  // namespace

extern "C" bool OnLoad(Tables* tables, uint64_t, uint64_t, const char* const*) {
  intercept_create = reinterpret_cast<Create>(tables->amd->slots[37]);
  intercept_register = reinterpret_cast<Register>(tables->amd->slots[38]);
  tables->core->slots[7] = reinterpret_cast<void*>(&create);
  return true;
}

extern "C" void OnUnload() { std::printf("the other tool saw %d dispatches\n", dispatches.load()); }
