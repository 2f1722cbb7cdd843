// Symbols, extent and metadata of a code object.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace capture {

struct Variable {
  std::string name;
  uint64_t address = 0, size = 0;  // address in the file
};

// 64-bit little-endian ELF file. Every offset is checked; a damaged file has no symbols.
class ElfImage {
 public:
  explicit ElfImage(const std::string& bytes);

  std::optional<uint64_t> symbol(const std::string& name) const;
  // Returns __device__ and __constant__ variables: objects other than kernel descriptors.
  std::vector<Variable> variables() const;
  uint64_t lowest() const { return lowest_; }
  uint64_t highest() const { return highest_; }
  // Segment sizes in the 64-byte kernel descriptor at an address.
  struct Sizes { uint32_t kernarg = 0, group = 0, scratch = 0; };
  std::optional<Sizes> descriptor(uint64_t address) const;
  // Returns `.kernarg_segment_size` of a kernel in the AMDGPU metadata note.
  std::optional<uint64_t> noted_kernarg_size(const std::string& symbol) const;

 private:
  template <class T> bool read(uint64_t offset, T& value) const;
  void read_segments();
  void read_symbols();

  struct Symbol { std::string name; uint8_t type; uint64_t address, size; };
  struct Segment { uint64_t offset, address, size; };
  const std::string& bytes_;
  std::vector<Symbol> symbols_;
  std::vector<Segment> segments_, notes_;
  uint64_t lowest_ = 0, highest_ = 0;
};

}  // namespace capture
