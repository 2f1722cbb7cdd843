// Settings from environment variables; see FORMAT.md.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

// Dispatch to capture: by its index among the dispatches of a kernel, of one shape if that is given.
struct Wanted {
  std::string kernel;
  uint64_t index = 0;
  std::string shape;  // "<grid>/<workgroup>" in work-items, "4096x1x1/256x1x1"; empty for any
};

struct Settings {
  std::string directory;
  std::vector<Wanted> wanted;
  bool lists = false;  // times every dispatch and captures none
  uint64_t limit = 0;
  Mode mode = Mode::reachable;
  std::chrono::milliseconds timeout{60000};
  bool with_command = false;

  // Returns no value if the tool is inactive.
  static std::optional<Settings> from_environment();
};

}  // namespace capture
