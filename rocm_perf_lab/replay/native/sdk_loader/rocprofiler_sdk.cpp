// Loads the capture tool through rocprofiler-sdk, for runtimes that ignore HSA_TOOLS_LIB and HSA_AMD_TOOL_PRIORITY.
//
// rocprofiler-sdk calls `rocprofiler_configure` of every preloaded library that exports it, and passes the API table of the HSA
// runtime. This is a separate library, because its presence activates rocprofiler-sdk. ROCM_PERF_LAB_CAPTURE_TOOL is the path of
// the tool, which installs its hooks once, even if it is loaded in several ways. Types are those of
// rocprofiler-sdk/registration.h and intercept_table.h.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kHsaTable = 1;  // ROCPROFILER_HSA_TABLE

struct ClientId {
  size_t size;
  const char* name;
  const uint32_t handle;
};
struct ToolConfiguration {
  size_t size;
  int (*initialize)(void (*)(ClientId), void*);
  void (*finalize)(void*);
  void* data;
};
using TableCallback = void (*)(int type, uint64_t version, uint64_t instance, void** tables, uint64_t count, void* data);
using AtTableRegistration = int (*)(TableCallback callback, int libraries, void* data);
using OnLoad = bool (*)(void* tables, uint64_t version, uint64_t failed_count, const char* const* failed_names);

void table_registered(int type, uint64_t version, uint64_t, void** tables, uint64_t count, void*) {
  if (type != kHsaTable || tables == nullptr || count == 0 || tables[0] == nullptr) return;
  const char* path = std::getenv("ROCM_PERF_LAB_CAPTURE_TOOL");
  // The user of the application sets the path, as with LD_PRELOAD.
  void* tool = path != nullptr ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;  // NOLINT(clang-analyzer-optin.taint.GenericTaint)
  auto on_load = tool != nullptr ? reinterpret_cast<OnLoad>(dlsym(tool, "OnLoad")) : nullptr;
  if (on_load != nullptr) on_load(tables[0], version, 0, nullptr);
  else std::fprintf(stderr, "rocm-perf-lab: the capture tool cannot be loaded: %s\n", path != nullptr ? dlerror() : "ROCM_PERF_LAB_CAPTURE_TOOL is not set");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ToolConfiguration* rocprofiler_configure(uint32_t, const char*, uint32_t, ClientId* client) {
  client->name = "rocm-perf-lab capture";
  auto at_registration = reinterpret_cast<AtTableRegistration>(dlsym(RTLD_DEFAULT, "rocprofiler_at_intercept_table_registration"));
  if (at_registration == nullptr || at_registration(table_registered, kHsaTable, nullptr) != 0) {
    std::fprintf(stderr, "rocm-perf-lab: this rocprofiler-sdk does not pass API tables\n");
    return nullptr;
  }
  static ToolConfiguration configuration{sizeof(ToolConfiguration), nullptr, nullptr, nullptr};
  return &configuration;
}
