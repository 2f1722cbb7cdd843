// Format: the MessagePack specification (github.com/msgpack/msgpack/blob/master/spec.md).
#include "message_pack.h"

#include "failure.h"

namespace capture {
namespace {

constexpr int kDeepest = 32;

class Cursor {
 public:
  Cursor(const char* bytes, size_t size) : at_(reinterpret_cast<const uint8_t*>(bytes)), end_(at_ + size) {}

  // Return the number of entries of the map, or of elements of the array, at the cursor. Throw Failure for anything else.
  uint64_t map() { return container(0x80, 0xde); }
  uint64_t array() { return container(0x90, 0xdc); }

  // Returns the text at the cursor; skips anything else and returns an empty text.
  std::string text() {
    const uint8_t tag = peek();
    uint64_t size;
    if ((tag & 0xe0) == 0xa0) size = tag & 31, ++at_;
    else if (tag >= 0xd9 && tag <= 0xdb) ++at_, size = number(1u << (tag - 0xd9));
    else return skip(0), "";
    const uint8_t* begin = take(size);
    return std::string(reinterpret_cast<const char*>(begin), size);
  }

  uint64_t integer() {
    const uint8_t tag = peek();
    if (tag < 0x80) return ++at_, tag;
    if (tag >= 0xcc && tag <= 0xcf) return ++at_, number(1u << (tag - 0xcc));
    return skip(0), 0;
  }

  void skip(int depth) {
    if (depth > kDeepest) throw Failure("metadata is nested too deeply");
    const uint8_t tag = peek();
    if ((tag & 0xf0) == 0x80 || tag == 0xde || tag == 0xdf) return skip_items(2 * map(), depth);
    if ((tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd) return skip_items(array(), depth);
    ++at_;
    if (tag < 0x80 || tag >= 0xe0 || (tag >= 0xc0 && tag <= 0xc3)) return;
    if ((tag & 0xe0) == 0xa0) take(tag & 31);
    else if (tag >= 0xc4 && tag <= 0xc6) take(number(1u << (tag - 0xc4)));
    else if (tag >= 0xc7 && tag <= 0xc9) take(number(1u << (tag - 0xc7)) + 1);
    else if (tag == 0xca || tag == 0xcb) take(tag == 0xca ? 4 : 8);
    else if (tag >= 0xcc && tag <= 0xd3) take(1u << ((tag - 0xcc) & 3));
    else if (tag >= 0xd4 && tag <= 0xd8) take((1u << (tag - 0xd4)) + 1);
    else take(number(1u << ((tag - 0xd9) & 3)));
  }

 private:
  uint64_t container(uint8_t fixed, uint8_t sized) {
    const uint8_t tag = peek();
    ++at_;
    if ((tag & 0xf0) == fixed) return tag & 15;
    if (tag == sized || tag == sized + 1) return number(tag == sized ? 2 : 4);
    throw Failure("metadata has an unexpected type");
  }
  void skip_items(uint64_t count, int depth) {
    while (count-- > 0) skip(depth + 1);
  }
  uint64_t number(unsigned bytes) {
    uint64_t value = 0;
    for (const uint8_t* at = take(bytes); bytes > 0; --bytes) value = value << 8 | *at++;
    return value;
  }
  uint8_t peek() const {
    if (at_ == end_) throw Failure("metadata ends early");
    return *at_;
  }
  const uint8_t* take(uint64_t size) {
    if (size > uint64_t(end_ - at_)) throw Failure("metadata ends early");
    at_ += size;
    return at_ - size;
  }

  const uint8_t *at_, *end_;
};

std::optional<uint64_t> in_kernels(Cursor& cursor, const std::string& symbol) {
  for (uint64_t kernels = cursor.array(); kernels > 0; --kernels) {
    std::string name;
    std::optional<uint64_t> size;
    for (uint64_t entries = cursor.map(); entries > 0; --entries) {
      const std::string key = cursor.text();
      if (key == ".symbol") name = cursor.text();
      else if (key == ".kernarg_segment_size") size = cursor.integer();
      else cursor.skip(0);
    }
    if (name == symbol) return size;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> kernarg_size_in(const char* bytes, size_t size, const std::string& symbol) try {
  Cursor cursor(bytes, size);
  for (uint64_t entries = cursor.map(); entries > 0; --entries) {
    if (cursor.text() == "amdhsa.kernels") return in_kernels(cursor, symbol);
    cursor.skip(0);
  }
  return std::nullopt;
} catch (const Failure&) {
  return std::nullopt;
}

}  // namespace capture
