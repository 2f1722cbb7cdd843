// SHA-256 (FIPS 180-4), with the SHA instructions of the CPU if available.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace capture {

class Sha256 {
 public:
  void update(const void* bytes, size_t size);
  // Ends the computation; returns 64 hexadecimal digits.
  std::string finish();

 private:
  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t pending_[64];
  uint64_t total_ = 0;
};

}  // namespace capture
