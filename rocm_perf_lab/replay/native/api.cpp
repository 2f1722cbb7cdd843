#include "api.h"

#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <string>

#include "failure.h"

namespace capture {
namespace {

// ROCm 6.0 raised the major versions of the core and AMD tables to 2. Before, the packet writer of a queue may be called only once per
// packet (ROCr 5.2.3 crashes), and there is no virtual memory interface.
constexpr uint32_t kMajor = 2;
constexpr uint32_t kFirstStepWithQueueCreate = 0x10;

// Returns the file of the runtime, whose name ends with its version: libhsa-runtime64.so.1.5.50203 in ROCm 5.2.3.
std::string runtime_file(const FunctionTable& table) {
  Dl_info library{};
  if (dladdr(table.slots[0], &library) == 0 || library.dli_fname == nullptr) return "of an unknown file";
  char path[PATH_MAX];
  return realpath(library.dli_fname, path) != nullptr ? path : library.dli_fname;
}

}  // namespace

void** slot_of(const FunctionTable& table, int slot) {
  const uint32_t end = uint32_t(sizeof(TableVersion) + sizeof(void*) * (uint32_t(slot) + 1));
  return end <= table.version.minor ? const_cast<void**>(table.slots) + slot : nullptr;
}

void Api::save(const ApiTable& tables) {
  if (tables.core == nullptr || tables.amd == nullptr) throw Failure("the HSA runtime has no API tables");
  const uint32_t core_major = tables.core->version.major, amd_major = tables.amd->version.major;
  if (core_major != kMajor || amd_major != kMajor) {
    const bool is_older = core_major < kMajor || amd_major < kMajor;
    throw Failure("the HSA runtime " + runtime_file(*tables.core) +
                  (is_older ? " is older than ROCm 6.0, the oldest supported version" : " is newer than the supported versions") +
                  ": its API tables have versions " + std::to_string(core_major) + " and " + std::to_string(amd_major) + ", not " +
                  std::to_string(kMajor));
  }
#define CAPTURE_SAVE(table, slot, name) \
  if (void** place = slot_of(*tables.table, slot)) name = reinterpret_cast<decltype(name)>(*place);
  CAPTURE_API(CAPTURE_SAVE)
#undef CAPTURE_SAVE
  makes_queues_unseen = tables.amd->version.step >= kFirstStepWithQueueCreate;
  if (hsa_queue_create == nullptr || hsa_amd_queue_intercept_create == nullptr || hsa_amd_queue_intercept_register == nullptr)
    throw Failure("the HSA runtime has no intercept queues");
}

}  // namespace capture
