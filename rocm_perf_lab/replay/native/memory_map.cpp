#include "memory_map.h"

#include <algorithm>

namespace capture {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::pool: return "pool";
    case Kind::region: return "region";
    case Kind::vmem: return "vmem";
    case Kind::ipc: return "ipc";
    case Kind::locked: return "locked";
    case Kind::interop: return "interop";
    default: return "svm";
  }
}

void MemoryMap::add(const Mapping& mapping) {
  std::lock_guard guard(lock_);
  mappings_[mapping.base] = mapping;
}

void MemoryMap::add_unless_known(const Mapping& mapping) {
  std::lock_guard guard(lock_);
  const uint64_t end = mapping.base + mapping.size;
  uint64_t known = mapping.base;
  for (auto other = first_behind(known); other != mappings_.end() && other->first <= known && known < end; ++other) {
    other->second.access.insert(mapping.access.begin(), mapping.access.end());
    known = std::max(known, other->first + other->second.size);
  }
  if (known < end) mappings_[mapping.base] = mapping;
}

MemoryMap::Mappings::iterator MemoryMap::first_behind(uint64_t base) {
  auto mapping = mappings_.upper_bound(base);
  if (mapping != mappings_.begin() && base < std::prev(mapping)->second.base + std::prev(mapping)->second.size) --mapping;
  return mapping;
}

void MemoryMap::remove(uint64_t base) {
  std::lock_guard guard(lock_);
  mappings_.erase(base);
}

void MemoryMap::remove_all(uint64_t base, uint64_t size) {
  std::lock_guard guard(lock_);
  mappings_.erase(mappings_.lower_bound(base), mappings_.lower_bound(base + size));
}

void MemoryMap::grant(uint64_t base, uint64_t size, const std::set<int>& agents, bool replace) {
  std::lock_guard guard(lock_);
  for (auto mapping = first_behind(base); mapping != mappings_.end() && mapping->first < base + size; ++mapping) {
    auto& access = mapping->second.access;
    if (replace) access = {mapping->second.agent};
    access.insert(agents.begin(), agents.end());
  }
}

void MemoryMap::revoke(uint64_t base, uint64_t size, const std::set<int>& agents) {
  std::lock_guard guard(lock_);
  for (auto mapping = first_behind(base); mapping != mappings_.end() && mapping->first < base + size; ++mapping)
    for (int agent : agents) mapping->second.access.erase(agent);
}

std::vector<Range> MemoryMap::ranges() {
  std::lock_guard guard(lock_);
  std::vector<Range> ranges;
  for (const auto& [base, mapping] : mappings_) {
    if (mapping.size == 0) continue;
    const uint64_t begin = base / kPage * kPage, end = (base + mapping.size + kPage - 1) / kPage * kPage;
    if (ranges.empty() || begin >= ranges.back().end()) {
      ranges.push_back({begin, end - begin, mapping, {{base, mapping.size}}});
      if (mapping.host != 0) ranges.back().first.host = mapping.host - (base - begin);
      continue;
    }
    Range& shared = ranges.back();
    shared.size = std::max(shared.end(), end) - shared.base;
    shared.requested.emplace_back(base, mapping.size);
    shared.first.access.insert(mapping.access.begin(), mapping.access.end());
  }
  return ranges;
}

}  // namespace capture
