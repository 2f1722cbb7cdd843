// Memory before and after the dispatch: ranges, their bytes, and the changed pages.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "code_objects.h"
#include "directory.h"
#include "memory_map.h"
#include "transfer.h"

namespace capture {

enum class Mode { reachable, full, arguments };
const char* name_of(Mode mode);

class Snapshot {
 public:
  // The ring buffers of queues, `rings`, are not memory of the kernel.
  Snapshot(const Api& api, Agents& agents, Directory& directory, MemoryMap& memory, std::vector<LoadedRange> code,
           const std::set<uint64_t>& rings, hsa_agent_t gpu);

  // Reads bytes of tracked or other memory.
  std::string read(uint64_t address, uint64_t size);
  // Writes the ranges that are reachable from `roots` (name, bytes) to the directory. `limit` is in bytes, 0 for no limit.
  void before(Mode mode, const std::vector<std::pair<std::string, std::string>>& roots, uint64_t kernarg_address, uint64_t limit);
  void after();
  void write_regions(Json& json) const;
  void write_code_pointers(Json& json) const;
  // Writes the kind of memory at the address of the kernarg segment.
  void write_kernarg_place(Json& json, uint64_t address) const;

 private:
  struct Region {
    Range range;
    bool is_wanted = false, contains_kernarg = false, is_scanned = false;
    std::set<std::string> reached_from;
    std::unique_ptr<OutputFile> file;
    uint64_t zero_pages = 0, changed_pages = 0;
    std::vector<std::pair<uint64_t, uint64_t>> runs;  // first page, pages
    std::string error;
    std::string name() const;
  };
  struct CodePointer { uint64_t place, value; };

  void stream(const Range& range, const Transfer::Consumer& consume);
  void save(Region& region, bool scan_words);
  void compare(Region& region);
  bool scan(const uint8_t* bytes, size_t size, uint64_t address, const std::string& origin, bool follow);
  void found(uint64_t place, uint64_t value, const std::string& origin, bool follow);
  const Region* holding(uint64_t address) const;
  Region* holding(uint64_t address) { return const_cast<Region*>(std::as_const(*this).holding(address)); }
  void want(Region& region);
  // Wants all memory mapped into the reservation at the address: a kernel that knows one address of it can compute the others.
  void want_reservation(uint64_t address, const std::string& origin);
  // Whether the runtime no longer knows the memory, which was freed by a call that the tool does not see.
  bool is_freed(const Mapping& mapping) const;

  const Api& api_;
  Agents& agents_;
  Directory& directory_;
  hsa_agent_t gpu_;
  std::vector<Region> regions_;
  std::map<uint64_t, uint64_t> reservations_;  // size by base, of those that are not wanted yet
  std::vector<LoadedRange> code_;
  std::vector<Region*> queue_;
  std::unique_ptr<Transfer> transfer_;
  std::vector<CodePointer> code_pointers_;
  uint64_t code_pointer_count_ = 0, lowest_ = UINT64_MAX, highest_ = 0, wanted_bytes_ = 0, limit_ = 0;
  Mode mode_ = Mode::reachable;
};

}  // namespace capture
