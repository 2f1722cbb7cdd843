// Loaded code objects and their kernels; tracks readers, executables and symbols.
//
// The bytes are stored in an unlinked file, because libraries load hundreds of megabytes of code objects. Equal code objects are
// stored once.
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
  std::string symbol;  // with ".kd"
};

struct KernelCode {
  std::string bytes, sha256;
  uint64_t load_base = 0, load_size = 0, load_delta = 0;
  uint32_t kernarg_size = 0, group_size = 0, scratch_size = 0;
  std::vector<Variable> variables;  // with addresses in memory
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
  // Returns whether another kernel had this address before.
  bool kernel_seen(uint64_t object, hsa_executable_symbol_t symbol);
  // Returns the kernel objects of the executable.
  std::vector<uint64_t> executable_destroyed(hsa_executable_t executable);

  std::string name_of(uint64_t kernel_object);
  // Throws Failure if the code object is unknown.
  KernelCode code_of(uint64_t kernel_object);
  // Returns the address ranges of code objects whose kernels were queried.
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
  std::map<uint64_t, std::vector<std::string>> executables_;    // executable -> SHA-256 of its code objects
  std::map<uint64_t, uint64_t> owners_;                         // symbol -> executable
  std::map<uint64_t, Kernel> kernels_;                          // by kernel object
};

}  // namespace capture
