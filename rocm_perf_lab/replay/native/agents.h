// Agents and memory pools of the system, queried once.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "api.h"
#include "json.h"

namespace capture {

struct Agent {
  hsa_agent_t handle{};
  bool is_gpu = false;
  std::string name, product, isa, uuid;
  uint32_t node = 0, bdf = 0, chip = 0, compute_units = 0, wavefront = 0;
};

struct Pool {
  hsa_amd_memory_pool_t handle{};
  int agent = 0;
  bool is_global = false;
  uint32_t flags = 0;
};

class Agents {
 public:
  explicit Agents(const Api& api) : api_(api) {}

  const std::vector<Agent>& all();
  // Returns the index of an agent; 0 for an unknown one.
  int index_of(hsa_agent_t handle);
  // Returns null for an unknown pool.
  const Pool* pool(hsa_amd_memory_pool_t handle);
  // Returns a pool of the first CPU, for buffers that GPUs copy to.
  const Pool* host_pool();
  void write(Json& json);

 private:
  void discover();
  static hsa_status_t take_agent(hsa_agent_t handle, void* data);
  static hsa_status_t take_pool(hsa_amd_memory_pool_t handle, void* data);

  const Api& api_;
  std::once_flag once_;
  std::vector<Agent> agents_;
  std::vector<Pool> pools_;
};

}  // namespace capture
