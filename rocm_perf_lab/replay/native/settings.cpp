#include "settings.h"

#include <cxxabi.h>
#include <regex.h>

#include <cstdlib>

#include "failure.h"

namespace capture {
namespace {

std::string variable(const char* name) {
  const char* text = std::getenv((std::string("ROCM_PERF_LAB_CAPTURE_") + name).c_str());
  return text != nullptr ? text : "";
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1) parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

// Returns the position of the bracket that matches the one before `end`.
size_t opening(const std::string& text, size_t end, char open, char close) {
  int depth = 0;
  for (size_t at = end; at-- > 0;) {
    if (text[at] == close) ++depth;
    if (text[at] == open && --depth == 0) return at;
  }
  return std::string::npos;
}

// "void ns::add<float>(float*, int)" -> "ns::add<float>"
std::string without_signature(const std::string& name) {
  if (name.empty() || name.back() != ')') return name;
  const size_t parameters = opening(name, name.size(), '(', ')');
  if (parameters == std::string::npos) return name;
  int depth = 0;  // the result type ends at the last space outside brackets
  for (size_t at = parameters; at-- > 0;) {
    if (name[at] == '>' || name[at] == ')') ++depth;
    if (name[at] == '<' || name[at] == '(') --depth;
    if (name[at] == ' ' && depth == 0) return name.substr(at + 1, parameters - at - 1);
  }
  return name.substr(0, parameters);
}

std::string without_template_arguments(const std::string& name) {
  if (name.empty() || name.back() != '>') return name;
  const size_t begin = opening(name, name.size(), '<', '>');
  return begin == std::string::npos ? name : name.substr(0, begin);
}

}  // namespace

std::string mangled_name(const std::string& symbol) {
  const size_t size = symbol.size();
  return size > 3 && symbol.compare(size - 3, 3, ".kd") == 0 ? symbol.substr(0, size - 3) : symbol;
}

std::string demangled_name(const std::string& symbol) {
  const std::string mangled = mangled_name(symbol);
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? text : mangled;
  std::free(text);
  return name;
}

struct KernelFilter::Pattern {
  explicit Pattern(const std::string& text) {
    const int status = regcomp(&compiled, text.c_str(), REG_EXTENDED | REG_NOSUB);
    if (status == 0) return;
    char why[128];
    regerror(status, &compiled, why, sizeof why);
    throw Failure("/" + text + "/ is not a valid regular expression: " + why);
  }
  ~Pattern() { regfree(&compiled); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  bool found_in(const std::string& text) const { return regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0; }

  regex_t compiled;
};

KernelFilter::KernelFilter(const std::string& text) : exact_(text) {
  if (text.size() > 2 && text.front() == '/' && text.back() == '/')
    pattern_ = std::make_unique<Pattern>(text.substr(1, text.size() - 2));
}

KernelFilter::~KernelFilter() = default;

bool KernelFilter::matches(const std::string& symbol) const {
  const std::string mangled = mangled_name(symbol), demangled = demangled_name(symbol);
  if (pattern_) return pattern_->found_in(mangled) || pattern_->found_in(demangled);
  const std::string bare = without_signature(demangled);
  return exact_ == mangled || exact_ == demangled || exact_ == bare || exact_ == without_template_arguments(bare);
}

std::optional<Settings> Settings::from_environment() {
  Settings settings;
  settings.directory = variable("DIR");
  settings.lists = variable("LIST") == "1";
  if (settings.directory.empty() || (variable("KERNEL").empty() && !settings.lists)) return std::nullopt;
  const auto kernels = split(variable("KERNEL"), '\n'), indices = split(variable("INDEX"), '\n'), shapes = split(variable("SHAPE"), '\n');
  for (size_t i = 0; i < kernels.size() && !settings.lists; ++i) {
    auto of = [i](const std::vector<std::string>& texts) { return i < texts.size() ? texts[i] : std::string(); };
    settings.wanted.push_back({kernels[i], std::strtoull(of(indices).c_str(), nullptr, 10), of(shapes)});
  }
  settings.limit = std::strtoull(variable("LIMIT").c_str(), nullptr, 10);
  const std::string mode = variable("MODE");
  settings.mode = mode == "full" ? Mode::full : mode == "arguments" ? Mode::arguments : Mode::reachable;
  if (const double seconds = std::strtod(variable("TIMEOUT").c_str(), nullptr); seconds > 0)
    settings.timeout = std::chrono::milliseconds(int64_t(seconds * 1000));
  settings.with_command = variable("COMMAND") == "1";
  return settings;
}

}  // namespace capture
