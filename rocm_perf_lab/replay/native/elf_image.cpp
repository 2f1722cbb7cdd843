// Layouts: System V gABI, ELF-64; LLVM "User Guide for AMDGPU Backend", Kernel Descriptor and Code Object Metadata.
#include "elf_image.h"

#include <algorithm>
#include <cstring>

#include "message_pack.h"

namespace capture {
namespace {

constexpr uint32_t kLoad = 1, kNote = 4, kSymbolTable = 2, kDynamicSymbols = 11, kMetadataNote = 32;
constexpr uint8_t kObject = 1;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

template <class T> bool ElfImage::read(uint64_t offset, T& value) const {
  if (offset > bytes_.size() || bytes_.size() - offset < sizeof value) return false;
  std::memcpy(&value, bytes_.data() + offset, sizeof value);
  return true;
}

ElfImage::ElfImage(const std::string& bytes) : bytes_(bytes) {
  if (bytes_.compare(0, 4, "\177ELF") != 0) return;
  read_segments();
  read_symbols();
}

void ElfImage::read_segments() {
  uint64_t table = 0;
  uint16_t count = 0;
  if (!read(32, table) || !read(56, count)) return;
  lowest_ = UINT64_MAX;
  for (uint16_t i = 0; i < count; ++i, table += 56) {
    uint32_t type = 0;
    uint64_t offset = 0, address = 0, in_file = 0, in_memory = 0;
    if (!read(table, type) || !read(table + 8, offset) || !read(table + 16, address) || !read(table + 32, in_file)) return;
    if (!read(table + 40, in_memory)) return;
    if (type == kNote) notes_.push_back({offset, address, in_file});
    if (type != kLoad) continue;
    segments_.push_back({offset, address, in_file});
    lowest_ = std::min(lowest_, address);
    highest_ = std::max(highest_, address + in_memory);
  }
  if (segments_.empty()) lowest_ = 0;
}

void ElfImage::read_symbols() {
  uint64_t table = 0;
  uint16_t count = 0;
  if (!read(40, table) || !read(60, count)) return;
  for (uint16_t i = 0; i < count; ++i) {
    const uint64_t section = table + 64ull * i;
    uint32_t type = 0, link = 0;
    uint64_t offset = 0, size = 0, names = 0;
    if (!read(section + 4, type) || !read(section + 24, offset) || !read(section + 32, size) || !read(section + 40, link)) return;
    if ((type != kSymbolTable && type != kDynamicSymbols) || link >= count) continue;
    if (!read(table + 64ull * link + 24, names)) return;
    for (uint64_t at = offset; at + 24 <= offset + size; at += 24) {
      uint32_t name = 0;
      uint8_t info = 0;
      uint16_t home = 0;
      Symbol symbol{};
      if (!read(at, name) || !read(at + 4, info) || !read(at + 6, home) || !read(at + 8, symbol.address) || !read(at + 16, symbol.size))
        return;
      if (home == 0 || names + name >= bytes_.size()) continue;
      symbol.name = std::string(bytes_.data() + names + name, strnlen(bytes_.data() + names + name, bytes_.size() - names - name));
      symbol.type = info & 15;
      symbols_.push_back(symbol);
    }
  }
}

std::optional<uint64_t> ElfImage::symbol(const std::string& name) const {
  for (const Symbol& symbol : symbols_)
    if (symbol.name == name) return symbol.address;
  return std::nullopt;
}

std::vector<Variable> ElfImage::variables() const {
  std::vector<Variable> found;
  for (const Symbol& symbol : symbols_) {
    if (symbol.type != kObject || symbol.size == 0 || ends_with(symbol.name, ".kd")) continue;
    if (symbol.address < lowest_ || symbol.address + symbol.size > highest_) continue;
    bool known = false;  // both symbol tables may list it
    for (const Variable& other : found) known |= other.name == symbol.name;
    if (!known) found.push_back({symbol.name, symbol.address, symbol.size});
  }
  return found;
}

std::optional<ElfImage::Sizes> ElfImage::descriptor(uint64_t address) const {
  for (const Segment& segment : segments_) {
    if (address < segment.address || address + 64 > segment.address + segment.size) continue;
    const uint64_t at = segment.offset + (address - segment.address);
    Sizes sizes;
    if (read(at, sizes.group) && read(at + 4, sizes.scratch) && read(at + 8, sizes.kernarg)) return sizes;
  }
  return std::nullopt;
}

std::optional<uint64_t> ElfImage::noted_kernarg_size(const std::string& symbol) const {
  for (const Segment& note : notes_) {
    for (uint64_t at = note.offset; at + 12 <= note.offset + note.size;) {
      uint32_t name_size = 0, size = 0, type = 0;
      if (!read(at, name_size) || !read(at + 4, size) || !read(at + 8, type)) break;
      const uint64_t content = at + 12 + (name_size + 3ull) / 4 * 4;
      at = content + (size + 3ull) / 4 * 4;
      if (type != kMetadataNote || content > bytes_.size() || bytes_.size() - content < size) continue;
      if (auto found = kernarg_size_in(bytes_.data() + content, size, symbol)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace capture
