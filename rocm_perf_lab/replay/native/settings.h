// Settings from environment variables; see FORMAT.md.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "snapshot.h"

namespace capture {

// "softmax_kernel.kd" -> "softmax_kernel"
std::string mangled_name(const std::string& symbol);
std::string demangled_name(const std::string& symbol);

// Selects kernels by an exact name in one of its forms, or by a POSIX extended /regular expression/.
class KernelFilter {
 public:
  // Throws Failure for an invalid regular expression.
  explicit KernelFilter(const std::string& text);
  ~KernelFilter();
  bool matches(const std::string& symbol) const;

 private:
  struct Pattern;
  std::string exact_;
  std::unique_ptr<Pattern> pattern_;
};

struct Settings {
  std::string directory;
  std::string kernel;
  uint64_t index = 0, limit = 0;
  Mode mode = Mode::reachable;
  std::chrono::milliseconds timeout{60000};
  bool with_command = true;

  // Returns no value if the tool is inactive.
  static std::optional<Settings> from_environment();
};

}  // namespace capture
