// Writer of JSON text.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace capture {

inline std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(value));
  return text;
}

class Json {
 public:
  Json& open(char bracket) {
    separate();
    text_ += bracket;
    first_.push_back(true);
    return *this;
  }
  Json& close(char bracket) {
    first_.pop_back();
    text_ += bracket;
    return *this;
  }
  Json& key(const char* name) {
    separate();
    quote(name);
    text_ += ": ";
    after_key_ = true;
    return *this;
  }
  Json& key(const std::string& name) { return key(name.c_str()); }
  Json& value(const std::string& content) { separate(); quote(content); return *this; }
  Json& value(const char* content) { return value(std::string(content)); }
  Json& value(bool content) { return raw(content ? "true" : "false"); }
  Json& value(uint64_t content) { return raw(std::to_string(content)); }
  Json& value(uint32_t content) { return raw(std::to_string(content)); }
  Json& value(int content) { return raw(std::to_string(content)); }
  Json& null() { return raw("null"); }
  // Appends JSON text.
  Json& text_of(const std::string& content) { return raw(content); }
  Json& address(uint64_t content) { return value("0x" + hex(content)); }
  template <class T> Json& member(const char* name, const T& content) { return key(name).value(content); }
  const std::string& text() const { return text_; }

 private:
  Json& raw(const std::string& content) { separate(); text_ += content; return *this; }
  void separate() {
    if (after_key_) after_key_ = false;
    else if (!first_.empty() && !first_.back()) text_ += ", ";
    else if (!first_.empty()) first_.back() = false;
  }
  void quote(const std::string& content) {
    text_ += '"';
    for (unsigned char letter : content) {
      if (letter == '"' || letter == '\\') (text_ += '\\') += char(letter);
      else if (letter < 0x20 || letter == 0x7f) append_escape(letter);
      else text_ += char(letter);
    }
    text_ += '"';
  }
  void append_escape(unsigned char letter) {
    char text[8];
    std::snprintf(text, sizeof text, "\\u%04x", letter);
    text_ += text;
  }

  std::string text_;
  std::vector<bool> first_;
  bool after_key_ = false;
};

}  // namespace capture
