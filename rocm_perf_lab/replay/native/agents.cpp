#include "agents.h"

namespace capture {
namespace {

template <class T> T ask(const Api& api, hsa_agent_t agent, int attribute) {
  T value{};
  if (api.hsa_agent_get_info(agent, hsa_agent_info_t(attribute), &value) != HSA_STATUS_SUCCESS) return T{};
  return value;
}

std::string ask_text(const Api& api, hsa_agent_t agent, int attribute) {
  char text[128] = {};
  return api.hsa_agent_get_info(agent, hsa_agent_info_t(attribute), text) == HSA_STATUS_SUCCESS ? text : "";
}

struct IsaQuery { const Api* api; std::string name; };

hsa_status_t take_isa(hsa_isa_t isa, void* data) {
  auto& query = *static_cast<IsaQuery*>(data);
  uint32_t length = 0;
  query.api->hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME_LENGTH, &length);
  std::string name(length + 1, '\0');
  query.api->hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME, name.data());
  if (query.name.empty()) query.name.assign(name, 0, name.find('\0'));
  return HSA_STATUS_SUCCESS;
}

}  // namespace

hsa_status_t Agents::take_agent(hsa_agent_t handle, void* data) {
  auto& self = *static_cast<Agents*>(data);
  const Api& api = self.api_;
  Agent agent;
  agent.handle = handle;
  agent.is_gpu = ask<hsa_device_type_t>(api, handle, HSA_AGENT_INFO_DEVICE) == HSA_DEVICE_TYPE_GPU;
  agent.name = ask_text(api, handle, HSA_AGENT_INFO_NAME);
  agent.product = ask_text(api, handle, HSA_AMD_AGENT_INFO_PRODUCT_NAME);
  agent.uuid = ask_text(api, handle, HSA_AMD_AGENT_INFO_UUID);
  agent.node = ask<uint32_t>(api, handle, HSA_AMD_AGENT_INFO_DRIVER_NODE_ID);
  agent.bdf = ask<uint32_t>(api, handle, HSA_AMD_AGENT_INFO_BDFID);
  agent.chip = ask<uint32_t>(api, handle, HSA_AMD_AGENT_INFO_CHIP_ID);
  agent.compute_units = ask<uint32_t>(api, handle, HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT);
  if (agent.is_gpu) {
    agent.wavefront = ask<uint32_t>(api, handle, HSA_AGENT_INFO_WAVEFRONT_SIZE);
    IsaQuery query{&api, ""};
    if (api.hsa_agent_iterate_isas && api.hsa_isa_get_info_alt) api.hsa_agent_iterate_isas(handle, take_isa, &query);
    agent.isa = query.name;
  }
  self.agents_.push_back(agent);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t Agents::take_pool(hsa_amd_memory_pool_t handle, void* data) {
  auto& self = *static_cast<Agents*>(data);
  Pool pool;
  pool.handle = handle;
  pool.agent = int(self.agents_.size()) - 1;
  uint32_t segment = HSA_AMD_SEGMENT_GROUP;
  self.api_.hsa_amd_memory_pool_get_info(handle, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
  pool.is_global = segment == HSA_AMD_SEGMENT_GLOBAL;
  if (pool.is_global) self.api_.hsa_amd_memory_pool_get_info(handle, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &pool.flags);
  self.pools_.push_back(pool);
  return HSA_STATUS_SUCCESS;
}

void Agents::discover() {
  std::vector<Agent> found;
  api_.hsa_iterate_agents(take_agent, this);
  agents_.swap(found);
  for (const Agent& agent : found) {
    agents_.push_back(agent);
    api_.hsa_amd_agent_iterate_memory_pools(agent.handle, take_pool, this);
  }
}

const std::vector<Agent>& Agents::all() {
  std::call_once(once_, [this] { discover(); });
  return agents_;
}

int Agents::index_of(hsa_agent_t handle) {
  const auto& agents = all();
  for (size_t i = 0; i < agents.size(); ++i)
    if (agents[i].handle.handle == handle.handle) return int(i);
  return 0;
}

const Pool* Agents::pool(hsa_amd_memory_pool_t handle) {
  all();
  for (const Pool& pool : pools_)
    if (pool.handle.handle == handle.handle) return &pool;
  return nullptr;
}

const Pool* Agents::host_pool() {
  const auto& agents = all();
  const Pool* found = nullptr;
  for (const Pool& pool : pools_) {
    if (!pool.is_global || agents[size_t(pool.agent)].is_gpu) continue;
    bool is_coarse = pool.flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
    if (found == nullptr || is_coarse) found = &pool;  // coarse-grained: no kernarg pool, not shared with peers
  }
  return found;
}

void Agents::write(Json& json) {
  json.key("agents").open('[');
  for (const Agent& agent : all()) {
    json.open('{').member("type", agent.is_gpu ? "gpu" : "cpu").member("name", agent.name).member("product", agent.product);
    json.member("isa", agent.isa).member("node", agent.node).member("uuid", agent.uuid).member("bdf", agent.bdf);
    json.member("chip_id", agent.chip).member("compute_units", agent.compute_units).member("wavefront_size", agent.wavefront);
    json.close('}');
  }
  json.close(']');
}

}  // namespace capture
