// Memory that the application has mapped for its GPUs.
//
// `gate` keeps the memory unchanged during a snapshot: calls that free or copy memory hold it shared, a snapshot holds it
// exclusively. The thread of the snapshot bypasses it, because the packet handler of another tool, which may free or copy memory,
// runs on that thread when the dispatch is submitted.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

namespace capture {

constexpr uint64_t kPage = 4096;

enum class Kind { pool, region, vmem, ipc, locked, interop, svm };
const char* name_of(Kind kind);

struct Mapping {
  uint64_t base = 0, size = 0;
  uint64_t host = 0;  // CPU address of the same bytes, if it is not `base`
  Kind kind = Kind::pool;
  bool on_gpu = true;
  int agent = 0;  // index of the owner
  uint32_t flags = 0;
  std::set<int> access;  // indices of agents
};

// Range of whole pages; mappings that share pages are in one range.
struct Range {
  uint64_t base = 0, size = 0;
  Mapping first;
  std::vector<std::pair<uint64_t, uint64_t>> requested;  // base, size
  uint64_t end() const { return base + size; }
};

class MemoryMap {
 public:
  void add(const Mapping& mapping);
  // If other mappings cover the whole range, they are kept and its agents are added to them.
  void add_unless_known(const Mapping& mapping);
  void remove(uint64_t base);
  // Removes every mapping that begins in [base, base + size).
  void remove_all(uint64_t base, uint64_t size);
  void grant(uint64_t base, uint64_t size, const std::set<int>& agents, bool replace);
  void revoke(uint64_t base, uint64_t size, const std::set<int>& agents);
  std::vector<Range> ranges();

  std::shared_timed_mutex gate;
  static inline thread_local bool passes_gate = false;

 private:
  using Mappings = std::map<uint64_t, Mapping>;
  // Returns the first mapping that ends after `base`. The caller holds the lock.
  Mappings::iterator first_behind(uint64_t base);

  std::mutex lock_;
  Mappings mappings_;  // by base
};

}  // namespace capture
