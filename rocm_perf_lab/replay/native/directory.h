// Capture directory: files with their SHA-256, and the manifest.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "sha256.h"

namespace capture {

// New file. Throws Failure if the disk is full.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* bytes, size_t size, uint64_t offset);
  // Bytes that are not written read as zeros.
  void set_size(uint64_t size);
  // Throws Failure unless all bytes can be read.
  void read(void* bytes, size_t size, uint64_t offset) const;

 private:
  std::string path_;
  int file_ = -1;
};

class Directory {
 public:
  // Creates the directory with mode 0700.
  explicit Directory(const std::string& path);

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  void make_directory(const std::string& name);
  // Writes a small file.
  void put(const std::string& name, const std::string& bytes);
  // Adds a file to the manifest.
  void record(const std::string& name, uint64_t size, const std::string& sha256);
  uint64_t free_bytes() const;
  // Writes the manifest, which completes the capture.
  void finish(bool is_emulated);

 private:
  struct Entry { uint64_t size; std::string sha256; };
  std::string path_;
  std::map<std::string, Entry> files_;
};

// Replaces a small file atomically; returns false if it cannot be written.
bool replace_file(const std::string& path, const std::string& text);

}  // namespace capture
