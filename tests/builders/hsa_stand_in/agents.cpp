// Agents, their instruction sets, and system attributes.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "implementation.h"

namespace stand_in {
namespace {

constexpr const char* kIsa = "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-";

void text(void* value, const char* content, size_t size = 64) {
  std::memset(value, 0, size);
  std::memcpy(value, content, std::min(std::strlen(content), size - 1));
}

}  // namespace

uint32_t gpu_count() { return fault("two_agents") ? 2 : 1; }

hsa_status_t hsa_system_get_info(hsa_system_info_t attribute, void* value) {
  switch (int(attribute)) {
    case HSA_SYSTEM_INFO_VERSION_MAJOR: *static_cast<uint16_t*>(value) = 1; break;
    case HSA_SYSTEM_INFO_VERSION_MINOR: *static_cast<uint16_t*>(value) = 14; break;
    case HSA_SYSTEM_INFO_TIMESTAMP: *static_cast<uint64_t*>(value) = now_ticks(); break;
    case HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY: *static_cast<uint64_t*>(value) = kFrequency; break;
    case HSA_SYSTEM_INFO_SIGNAL_MAX_WAIT: *static_cast<uint64_t*>(value) = UINT64_MAX; break;
    case HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED: *static_cast<bool*>(value) = !fault("no_vmem"); break;
    case HSA_AMD_SYSTEM_INFO_XNACK_ENABLED: *static_cast<bool*>(value) = false; break;
    default: return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t, void*), void* data) {
  for (uint64_t agent = kCpu.handle; agent < kFirstGpu.handle + gpu_count(); ++agent)
    if (hsa_status_t status = callback({agent}, data); status != HSA_STATUS_SUCCESS) return status;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void* value) {
  bool gpu = is_gpu(agent);
  char uuid[32];
  std::snprintf(uuid, sizeof uuid, gpu ? "GPU-%016llx" : "CPU-XX", static_cast<unsigned long long>(agent.handle));
  switch (int(attribute)) {
    case HSA_AGENT_INFO_NAME: text(value, gpu ? "gfx942" : "stand-in CPU"); break;
    case HSA_AGENT_INFO_VENDOR_NAME: text(value, gpu ? "AMD" : "CPU"); break;
    case HSA_AGENT_INFO_FEATURE: *static_cast<uint32_t*>(value) = gpu ? HSA_AGENT_FEATURE_KERNEL_DISPATCH : 0; break;
    case HSA_AGENT_INFO_PROFILE: *static_cast<uint32_t*>(value) = HSA_PROFILE_BASE; break;
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
    case HSA_AGENT_INFO_QUEUE_MIN_SIZE: *static_cast<uint32_t*>(value) = 64; break;
    case HSA_AGENT_INFO_QUEUE_MAX_SIZE: *static_cast<uint32_t*>(value) = 131072; break;
    case HSA_AGENT_INFO_NODE:
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID: *static_cast<uint32_t*>(value) = uint32_t(agent.handle - 1); break;
    case HSA_AGENT_INFO_DEVICE: *static_cast<hsa_device_type_t*>(value) = gpu ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU; break;
    case HSA_AGENT_INFO_ISA: static_cast<hsa_isa_t*>(value)->handle = 1; break;
    case HSA_AMD_AGENT_INFO_CHIP_ID: *static_cast<uint32_t*>(value) = gpu ? 0x74a1 : 0; break;
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT: *static_cast<uint32_t*>(value) = gpu ? 304 : 1; break;
    case HSA_AMD_AGENT_INFO_BDFID: *static_cast<uint32_t*>(value) = gpu ? uint32_t(agent.handle) << 8 : 0; break;
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME: text(value, gpu ? "stand-in (emulated MI300X)" : "stand-in CPU"); break;
    case HSA_AMD_AGENT_INFO_UUID: text(value, uuid, 21); break;
    default: return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_agent_iterate_isas(hsa_agent_t agent, hsa_status_t (*callback)(hsa_isa_t, void*), void* data) {
  return is_gpu(agent) ? callback({1}, data) : HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_isa_get_info_alt(hsa_isa_t, hsa_isa_info_t attribute, void* value) {
  if (attribute == HSA_ISA_INFO_NAME_LENGTH) *static_cast<uint32_t*>(value) = uint32_t(std::strlen(kIsa) + 1);
  else if (attribute == HSA_ISA_INFO_NAME) std::memcpy(value, kIsa, std::strlen(kIsa) + 1);
  else return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return HSA_STATUS_SUCCESS;
}

}  // namespace stand_in
