// The part of rocprofiler-register and rocprofiler-sdk that passes the API table of the HSA runtime to a tool.
#include <dlfcn.h>

#include "implementation.h"

namespace stand_in {
namespace {

constexpr int kHsaTable = 1;

struct ClientId {
  size_t size;
  const char* name;
  const uint32_t handle;
};
using Configure = void* (*)(uint32_t version, const char* runtime_version, uint32_t priority, ClientId* client);
using TableCallback = void (*)(int type, uint64_t version, uint64_t instance, void** tables, uint64_t count, void* data);

TableCallback wanted;
void* wanted_data;

}  // namespace

bool give_to_rocprofiler(void* tables) {
  auto configure = reinterpret_cast<Configure>(dlsym(RTLD_DEFAULT, "rocprofiler_configure"));
  if (configure == nullptr) return false;
  ClientId client{sizeof client, nullptr, 1};
  configure(10000, "1.0.0", 0, &client);
  if (wanted != nullptr) wanted(kHsaTable, 11400, 0, &tables, 1, wanted_data);
  return true;
}

}  // namespace stand_in

extern "C" int rocprofiler_at_intercept_table_registration(stand_in::TableCallback callback, int libraries, void* data) {
  if (libraries != stand_in::kHsaTable) return 1;
  stand_in::wanted = callback;
  stand_in::wanted_data = data;
  return 0;
}
