// The capture directory: files that are hashed as they are written, and the manifest that makes them a capture.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "sha256.h"

namespace capture {

// A file that does not exist yet. Throws Failure when the disk is full.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* bytes, size_t size, uint64_t offset);
  // What is not written reads as zeros.
  void set_size(uint64_t size);
  // Throws Failure unless all of it can be read.
  void read(void* bytes, size_t size, uint64_t offset) const;

 private:
  std::string path_;
  int file_ = -1;
};

class Directory {
 public:
  // Makes it, readable by the user alone.
  explicit Directory(const std::string& path);

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  void make_directory(const std::string& name);
  // A whole small file.
  void put(const std::string& name, const std::string& bytes);
  // A file that someone else wrote.
  void record(const std::string& name, uint64_t size, const std::string& sha256);
  uint64_t free_bytes() const;
  // The manifest: from here on it is a capture.
  void finish(bool is_emulated);

 private:
  struct Entry { uint64_t size; std::string sha256; };
  std::string path_;
  std::map<std::string, Entry> files_;
};

// Replaces a small file in one step; false when it cannot be written.
bool replace_file(const std::string& path, const std::string& text);

}  // namespace capture
