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
  uint64_t times = 1;    // locked and attached so many times
};

// Range of whole pages; mappings that share pages are in one range, and so are adjacent mappings of one reservation that differ in
// nothing else: a kernel uses them as one buffer.
struct Range {
  uint64_t base = 0, size = 0;
  Mapping first;
  uint64_t reservation = 0;  // base of the reserved addresses, 0 for none
  std::vector<std::pair<uint64_t, uint64_t>> requested;  // base, size
  uint64_t end() const { return base + size; }
};

class MemoryMap {
 public:
  // Earlier mappings at its addresses were freed unseen and are removed, except host memory, which may be mapped several times.
  void add(const Mapping& mapping);
  void reserve(uint64_t base, uint64_t size);
  // Removes the reservation and its mappings.
  void unreserve(uint64_t base);
  std::map<uint64_t, uint64_t> reservations();  // size by base
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
  // The caller of these functions holds the lock.
  Mappings::iterator first_behind(uint64_t base);  // the first mapping that ends after `base`
  void remove_stale(const Mapping& newer);
  uint64_t reserved_at(uint64_t address) const;

  std::mutex lock_;
  Mappings mappings_;                         // by base
  std::map<uint64_t, uint64_t> reservations_;  // size by base
};

}  // namespace capture
