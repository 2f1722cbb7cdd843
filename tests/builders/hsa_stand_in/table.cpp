// API tables, exported functions that jump through them, start and end of the runtime, loading of tools.
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <type_traits>

#include "implementation.h"

namespace stand_in {

struct Version { uint32_t major, minor, step, reserved; };
template <int slots> struct Table { Version version; void* slot[slots]; };
struct ApiTable { Version version; void* tables[6]; };

constexpr int kCoreSlots = 125, kAmdSlots = 79;

}  // namespace stand_in

extern "C" {
__attribute__((visibility("hidden"))) stand_in::Table<stand_in::kCoreSlots> stand_in_core;
__attribute__((visibility("hidden"))) stand_in::Table<stand_in::kAmdSlots> stand_in_amd;
}

#define EXPORT(table, slot, name) \
  asm(".text\n.globl " #name "\n.type " #name ",@function\n" #name ":\n  jmp *stand_in_" #table "+16+8*" #slot "(%rip)\n");
STAND_IN_ENTRY_POINTS(EXPORT)
STAND_IN_NEWER(EXPORT)

namespace stand_in {
namespace {

ApiTable api{{3, sizeof(ApiTable), 1, 0}, {&stand_in_core, &stand_in_amd}};
std::mutex open_lock;
int opened;
std::vector<void*> tools;

hsa_status_t unimplemented() {
  std::fprintf(stderr, "stand-in: this HSA function is not implemented\n");
  return HSA_STATUS_ERROR;
}

void fill_tables() {
  stand_in_core.version = {2, sizeof(stand_in_core), 0, 0};
  stand_in_amd.version = {uint32_t(fault_number("amd_table", 2)), sizeof(stand_in_amd), 7, 0};
  for (void*& slot : stand_in_core.slot) slot = reinterpret_cast<void*>(&unimplemented);
  for (void*& slot : stand_in_amd.slot) slot = reinterpret_cast<void*>(&unimplemented);
#define FILL(table, number, name)                                        \
  static_assert(std::is_same_v<decltype(&::name), decltype(&stand_in::name)>); \
  stand_in_##table.slot[number] = reinterpret_cast<void*>(&stand_in::name);
  STAND_IN_ENTRY_POINTS(FILL)
#define FILL_ONLY(table, number, name) stand_in_##table.slot[number] = reinterpret_cast<void*>(&stand_in::name);
  STAND_IN_NEWER(FILL_ONLY)
  STAND_IN_TABLE_ONLY(FILL_ONLY)
}

void start_tool(void* library) {
  using OnLoad = bool (*)(void*, uint64_t, uint64_t, const char* const*);
  auto on_load = reinterpret_cast<OnLoad>(dlsym(library, "OnLoad"));
  if (on_load == nullptr || !on_load(&api, 1, 0, nullptr)) return;
  tools.push_back(library);
}

// Like the real runtime unless rocprofiler-sdk is active: loads the libraries of HSA_TOOLS_LIB, then those that export a priority.
void load_tools() {
  const char* names = std::getenv("HSA_TOOLS_LIB");
  std::istringstream words(names ? names : "");
  std::vector<void*> known;
  for (std::string word; words >> word;) {
    void* library = dlopen(word.c_str(), RTLD_NOW);
    if (library != nullptr) {
      known.push_back(library);
      start_tool(library);
    } else if (std::getenv("HSA_TOOLS_REPORT_LOAD_FAILURE")) {
      std::fprintf(stderr, "Tool lib \"%s\" failed to load: %s\n", word.c_str(), dlerror());
    }
  }
  const char* preloaded = std::getenv("LD_PRELOAD");
  std::string list(preloaded ? preloaded : "");
  for (char& letter : list) letter = letter == ':' ? ' ' : letter;
  std::istringstream others(list);
  for (std::string word; others >> word;) {
    void* library = dlopen(word.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr || dlsym(library, "HSA_AMD_TOOL_PRIORITY") == nullptr) continue;
    bool is_known = false;
    for (void* other : known) is_known |= other == library;
    if (!is_known) start_tool(library);
  }
}

__attribute__((constructor)) void fill_before_anything() { fill_tables(); }

}  // namespace

std::optional<std::string> fault(const std::string& name) {
  const char* text = std::getenv("STAND_IN_HSA_FAULT");
  std::istringstream items(text ? text : "");
  for (std::string item; std::getline(items, item, ',');) {
    if (item == name) return "1";
    if (item.rfind(name + "=", 0) == 0) return item.substr(name.size() + 1);
  }
  return std::nullopt;
}

uint64_t fault_number(const std::string& name, uint64_t otherwise) {
  auto text = fault(name);
  return text ? std::strtoull(text->c_str(), nullptr, 0) : otherwise;
}

uint64_t now_ticks() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec)) / (1'000'000'000 / kFrequency);
}

bool is_open() { return opened > 0; }

hsa_status_t hsa_init() {
  std::lock_guard lock(open_lock);
  if (opened++ > 0) return HSA_STATUS_SUCCESS;
  if (fault("no_gpu")) {
    opened = 0;
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  memory_file();
  const char* older = std::getenv("HSA_TOOLS_ROCPROFILER_V1_TOOLS");
  const bool is_taken = give_to_rocprofiler(&api);
  if (!is_taken || (older != nullptr && std::strtol(older, nullptr, 10) != 0)) load_tools();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_shut_down() {
  std::lock_guard lock(open_lock);
  if (opened == 0) return HSA_STATUS_ERROR_NOT_INITIALIZED;
  if (--opened > 0) return HSA_STATUS_SUCCESS;
  for (void* tool : tools)
    if (auto on_unload = reinterpret_cast<void (*)()>(dlsym(tool, "OnUnload"))) on_unload();
  tools.clear();
  fill_tables();
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char** text) {
  *text = status == HSA_STATUS_SUCCESS ? "HSA_STATUS_SUCCESS" : "HSA_STATUS_ERROR: error of the stand-in";
  return HSA_STATUS_SUCCESS;
}

}  // namespace stand_in
