// Which code objects were loaded and which kernels are in them: readers, executables, symbols, followed from call to call.
//
// The bytes go to an unlinked file: libraries load hundreds of megabytes of code objects. Equal ones are stored once.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api.h"
#include "elf_image.h"

namespace capture {

struct Kernel {
  uint64_t object = 0;
  hsa_executable_symbol_t handle{};
  std::string symbol;  // as the loader has it, with ".kd"
};

struct KernelCode {
  std::string bytes, sha256;
  uint64_t load_base = 0, load_size = 0, load_delta = 0;
  uint32_t kernarg_size = 0, group_size = 0, scratch_size = 0;
  std::vector<Variable> variables;  // where they are in memory
};

struct LoadedRange { uint64_t begin, end; };

class CodeObjects {
 public:
  CodeObjects(const Api& api, const std::string& directory);

  void reader_created(hsa_code_object_reader_t reader, const void* bytes, size_t size);
  void reader_created(hsa_code_object_reader_t reader, int file, size_t offset, size_t size);  // size 0: to the end
  void reader_destroyed(hsa_code_object_reader_t reader);
  void loaded(hsa_executable_t executable, hsa_code_object_reader_t reader);
  void symbol_seen(hsa_executable_t executable, hsa_executable_symbol_t symbol);
  // True where another kernel was at that address before.
  bool kernel_seen(uint64_t object, hsa_executable_symbol_t symbol);
  // Kernel objects that are gone.
  std::vector<uint64_t> executable_destroyed(hsa_executable_t executable);

  std::string name_of(uint64_t kernel_object);
  // Throws Failure where the code object or the size of the arguments is not known.
  KernelCode code_of(uint64_t kernel_object);
  // Where code lies, as far as kernels were asked for.
  std::vector<LoadedRange> loaded_ranges();

 private:
  struct Blob { uint64_t offset = 0, size = 0; };
  std::string read(const Blob& blob) const;
  std::string symbol_name(hsa_executable_symbol_t symbol) const;
  uint32_t ask(hsa_executable_symbol_t symbol, int attribute) const;
  std::vector<std::string> candidates(uint64_t executable);

  const Api& api_;
  std::mutex lock_;
  int file_ = -1;
  uint64_t end_ = 0;
  std::map<std::string, Blob> blobs_;                           // by SHA-256
  std::map<uint64_t, std::string> readers_;                     // reader -> SHA-256
  std::map<uint64_t, std::vector<std::string>> executables_;    // executable -> SHA-256 of what was loaded
  std::map<uint64_t, uint64_t> owners_;                         // symbol -> executable
  std::map<uint64_t, Kernel> kernels_;                          // by kernel object
};

}  // namespace capture
