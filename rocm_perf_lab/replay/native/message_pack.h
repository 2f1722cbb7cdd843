// Reads the size of the kernel arguments from the metadata note of a code object, which is in MessagePack format.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace capture {

// Returns `.kernarg_segment_size` of the entry of `amdhsa.kernels` whose `.symbol` is `symbol`.
std::optional<uint64_t> kernarg_size_in(const char* bytes, size_t size, const std::string& symbol);

}  // namespace capture
