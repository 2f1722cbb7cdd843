#include "settings.h"

#include <cxxabi.h>
#include <regex.h>

#include <cctype>
#include <cstdlib>
#include <optional>

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

// "ns::add<ns::half>" -> "add<ns::half>"
std::string without_namespaces(const std::string& name) {
  int depth = 0;
  for (size_t at = name.size(); at-- > 1;) {
    if (name[at] == '>' || name[at] == ')') ++depth;
    if (name[at] == '<' || name[at] == '(') --depth;
    if (depth == 0 && name[at] == ':' && name[at - 1] == ':') return name.substr(at + 1);
  }
  return name;
}

std::optional<std::string> demangled(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::optional<std::string> name;
  if (status == 0 && text != nullptr) name = text;
  std::free(text);
  return name;
}

bool in_word(char character) { return std::isalnum(static_cast<unsigned char>(character)) || character == '_'; }

void replace_all(std::string& text, const std::string& from, const std::string& to, bool whole_words = false) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    const size_t end = at + from.size();
    if (whole_words && ((at > 0 && in_word(text[at - 1])) || (end < text.size() && in_word(text[end])))) {
      at = end;
      continue;
    }
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

}  // namespace

std::string mangled_name(const std::string& symbol) {
  const size_t size = symbol.size();
  return size > 3 && symbol.compare(size - 3, 3, ".kd") == 0 ? symbol.substr(0, size - 3) : symbol;
}

std::string demangled_name(const std::string& symbol) {
  std::string mangled = mangled_name(symbol);
  if (auto name = demangled(mangled)) return *name;
  // Libraries before GCC 13 do not know _Float16 and __bf16: other builtin types take their places, which keeps substitutions.
  std::string known = mangled;
  replace_all(known, "DF16_", "Dh");
  replace_all(known, "DF16b", "Df");
  auto name = known == mangled ? std::nullopt : demangled(known);
  if (!name) return mangled;
  replace_all(*name, "half", "_Float16", true);
  replace_all(*name, "decimal32", "__bf16", true);
  return *name;
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
  for (const std::string& name : {bare, without_namespaces(bare)})
    if (exact_ == name || exact_ == without_template_arguments(name)) return true;
  return exact_ == mangled || exact_ == demangled;
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
