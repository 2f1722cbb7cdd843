// Code objects: the emulator loads and relocates them into memory that is allocated here, and returns their symbols.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "implementation.h"

namespace stand_in {
namespace {

struct Reader { std::string bytes; };

struct Symbol {
  std::string name;
  hsa_symbol_kind_t kind;
  uint64_t address;  // kernel object, or the variable
  uint32_t kernarg, group, scratch, size;
};

struct Executable {
  hsa_agent_t agent{};
  std::vector<std::unique_ptr<Symbol>> symbols;
  std::vector<void*> memory;
  bool frozen = false;
};

auto& lock = *new std::mutex;
auto& kernels = *new std::map<uint64_t, LoadedKernel>;  // by kernel object

Reader* reader_of(hsa_code_object_reader_t handle) { return reinterpret_cast<Reader*>(handle.handle); }
Executable* executable_of(hsa_executable_t handle) { return reinterpret_cast<Executable*>(handle.handle); }
Symbol* symbol_of(hsa_executable_symbol_t handle) { return reinterpret_cast<Symbol*>(handle.handle); }

uint64_t image_bytes(const std::string& elf) {
  uint64_t table, end = 0;
  uint16_t count;
  if (elf.size() < 64 || elf.compare(0, 4, "\177ELF") != 0) return 0;
  std::memcpy(&table, elf.data() + 32, 8);
  std::memcpy(&count, elf.data() + 56, 2);
  for (uint16_t i = 0; i < count && table + 56 <= elf.size(); ++i, table += 56) {
    uint32_t type;
    uint64_t address, size;
    std::memcpy(&type, elf.data() + table, 4);
    std::memcpy(&address, elf.data() + table + 16, 8);
    std::memcpy(&size, elf.data() + table + 40, 8);
    if (type == 1) end = std::max(end, address + size);
  }
  return end;
}

// "NUMBER;kernel NAME OFFSET KERNARG GROUP SCRATCH;variable NAME OFFSET SIZE;..."
void take_symbols(Executable& executable, const std::string& answer, uint64_t base) {
  std::istringstream items(answer);
  std::string item;
  std::getline(items, item, ';');
  uint64_t number = std::stoull(item);
  while (std::getline(items, item, ';')) {
    std::istringstream words(item);
    std::string kind;
    auto symbol = std::make_unique<Symbol>();
    uint64_t offset;
    words >> kind >> symbol->name >> offset;
    symbol->address = base + offset;
    if (kind == "kernel") {
      symbol->kind = HSA_SYMBOL_KIND_KERNEL;
      words >> symbol->kernarg >> symbol->group >> symbol->scratch;
      kernels[symbol->address] = {number, symbol->name};
    } else {
      symbol->kind = HSA_SYMBOL_KIND_VARIABLE;
      words >> symbol->size;
    }
    executable.symbols.push_back(std::move(symbol));
  }
}

}  // namespace

std::optional<LoadedKernel> kernel_at(uint64_t kernel_object) {
  std::lock_guard guard(lock);
  auto found = kernels.find(kernel_object);
  return found == kernels.end() ? std::nullopt : std::optional(found->second);
}

hsa_status_t hsa_code_object_reader_create_from_memory(const void* bytes, size_t size, hsa_code_object_reader_t* reader) {
  reader->handle = reinterpret_cast<uint64_t>(new Reader{std::string(static_cast<const char*>(bytes), size)});
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_code_object_reader_create_from_file(hsa_file_t file, hsa_code_object_reader_t* reader) {
  struct stat facts;
  if (fstat(file, &facts) != 0) return HSA_STATUS_ERROR_INVALID_FILE;
  std::string bytes(size_t(facts.st_size), '\0');
  if (pread(file, bytes.data(), bytes.size(), 0) != ssize_t(bytes.size())) return HSA_STATUS_ERROR_INVALID_FILE;
  reader->handle = reinterpret_cast<uint64_t>(new Reader{std::move(bytes)});
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_code_object_reader_destroy(hsa_code_object_reader_t reader) {
  delete reader_of(reader);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_create_alt(hsa_profile_t, hsa_default_float_rounding_mode_t, const char*, hsa_executable_t* executable) {
  executable->handle = reinterpret_cast<uint64_t>(new Executable);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_load_agent_code_object(hsa_executable_t handle, hsa_agent_t agent, hsa_code_object_reader_t reader,
                                                   const char*, hsa_loaded_code_object_t* loaded) {
  Executable& executable = *executable_of(handle);
  const std::string& bytes = reader_of(reader)->bytes;
  uint64_t size = image_bytes(bytes);
  if (size == 0) return HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
  if (executable.frozen) return HSA_STATUS_ERROR_FROZEN_EXECUTABLE;
  void* file = allocate_shared(bytes.size(), Kind::code);
  void* image = allocate_shared(size, Kind::code);
  std::memcpy(file, bytes.data(), bytes.size());
  std::ostringstream request;
  request << "load " << reinterpret_cast<uint64_t>(file) << ' ' << bytes.size() << ' ' << reinterpret_cast<uint64_t>(image);
  std::string answer;
  try {
    answer = ask_emulator(request.str(), visible_to(agent));
  } catch (const std::runtime_error& error) {
    answer = error.what();
  }
  release(file);
  if (answer.empty() || answer[0] < '0' || answer[0] > '9') {
    std::fprintf(stderr, "stand-in: %s\n", answer.c_str());
    release(image);
    return answer.find("gfx942") != std::string::npos ? HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS : HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
  }
  std::lock_guard guard(lock);
  executable.agent = agent;
  executable.memory.push_back(image);
  take_symbols(executable, answer, reinterpret_cast<uint64_t>(image));
  if (loaded != nullptr) loaded->handle = reinterpret_cast<uint64_t>(image);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_freeze(hsa_executable_t executable, const char*) {
  executable_of(executable)->frozen = true;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_destroy(hsa_executable_t handle) {
  std::lock_guard guard(lock);
  for (const auto& symbol : executable_of(handle)->symbols) kernels.erase(symbol->address);
  for (void* memory : executable_of(handle)->memory) release(memory);
  delete executable_of(handle);
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_get_symbol_by_name(hsa_executable_t executable, const char* name, const hsa_agent_t*,
                                               hsa_executable_symbol_t* symbol) {
  for (const auto& known : executable_of(executable)->symbols)
    if (known->name == name) {
      symbol->handle = reinterpret_cast<uint64_t>(known.get());
      return HSA_STATUS_SUCCESS;
    }
  return HSA_STATUS_ERROR_INVALID_SYMBOL_NAME;
}

hsa_status_t hsa_executable_iterate_agent_symbols(hsa_executable_t executable, hsa_agent_t agent,
                                                  hsa_status_t (*callback)(hsa_executable_t, hsa_agent_t, hsa_executable_symbol_t, void*),
                                                  void* data) {
  for (const auto& known : executable_of(executable)->symbols)
    if (hsa_status_t status = callback(executable, agent, {reinterpret_cast<uint64_t>(known.get())}, data); status != HSA_STATUS_SUCCESS)
      return status;
  return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_executable_symbol_get_info(hsa_executable_symbol_t handle, hsa_executable_symbol_info_t attribute, void* value) {
  const Symbol& symbol = *symbol_of(handle);
  switch (attribute) {
    case HSA_EXECUTABLE_SYMBOL_INFO_TYPE: *static_cast<hsa_symbol_kind_t*>(value) = symbol.kind; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH: *static_cast<uint32_t*>(value) = uint32_t(symbol.name.size()); break;
    case HSA_EXECUTABLE_SYMBOL_INFO_NAME: std::memcpy(value, symbol.name.data(), symbol.name.size()); break;
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS:
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT: *static_cast<uint64_t*>(value) = symbol.address; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE: *static_cast<uint32_t*>(value) = symbol.size; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE: *static_cast<uint32_t*>(value) = symbol.kernarg; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT: *static_cast<uint32_t*>(value) = 16; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE: *static_cast<uint32_t*>(value) = symbol.group; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE: *static_cast<uint32_t*>(value) = symbol.scratch; break;
    case HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_DYNAMIC_CALLSTACK: *static_cast<bool*>(value) = false; break;
    default: return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  return HSA_STATUS_SUCCESS;
}

}  // namespace stand_in
