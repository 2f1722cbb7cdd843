#include "api.h"

namespace capture {
namespace {

// Major version 1 of the AMD table lacks entries 16 and 17, and all entries from 55 on.
constexpr int kFirstMissing = 16, kMissing = 2, kFirstVirtualMemory = 55;
constexpr uint32_t kFirstStepWithQueueCreate = 0x10;

}  // namespace

void** slot_of(const FunctionTable& table, bool is_amd, int slot) {
  if (is_amd && table.version.major == 1) {
    if (slot >= kFirstVirtualMemory) return nullptr;
    if (slot >= kFirstMissing && (slot -= kMissing) < kFirstMissing) return nullptr;
  }
  const uint32_t end = uint32_t(sizeof(TableVersion) + sizeof(void*) * (uint32_t(slot) + 1));
  return end <= table.version.minor ? const_cast<void**>(table.slots) + slot : nullptr;
}

bool Api::save(const ApiTable& tables) {
  if (tables.core == nullptr || tables.amd == nullptr) return false;
  if (tables.core->version.major < 1 || tables.core->version.major > 2) return false;
  if (tables.amd->version.major < 1 || tables.amd->version.major > 2) return false;
  constexpr bool core = false, amd = true;
#define CAPTURE_SAVE(table, slot, name) \
  if (void** place = slot_of(*tables.table, table, slot)) name = reinterpret_cast<decltype(name)>(*place);
  CAPTURE_API(CAPTURE_SAVE)
#undef CAPTURE_SAVE
  makes_queues_unseen = tables.amd->version.major == 2 && tables.amd->version.step >= kFirstStepWithQueueCreate;
  return hsa_queue_create != nullptr && hsa_amd_queue_intercept_create != nullptr && hsa_amd_queue_intercept_register != nullptr;
}

}  // namespace capture
