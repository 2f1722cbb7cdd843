#include "memory_map.h"

#include <algorithm>

namespace capture {
namespace {

bool is_host_memory(Kind kind) { return kind == Kind::locked || kind == Kind::svm; }

// Whether a kernel cannot distinguish the two from one mapping.
bool are_alike(const Mapping& a, const Mapping& b) {
  return a.kind == b.kind && a.on_gpu == b.on_gpu && a.agent == b.agent && a.flags == b.flags && a.access == b.access;
}

}  // namespace

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
  auto same = mappings_.find(mapping.base);
  const bool is_again = same != mappings_.end() && same->second.kind == mapping.kind && same->second.size == mapping.size &&
                        (mapping.kind == Kind::locked || mapping.kind == Kind::ipc);
  if (is_again) {
    ++same->second.times;
    same->second.access.insert(mapping.access.begin(), mapping.access.end());
    return;
  }
  if (!is_host_memory(mapping.kind)) remove_stale(mapping);
  mappings_[mapping.base] = mapping;
}

void MemoryMap::remove_stale(const Mapping& newer) {
  const uint64_t end = newer.base + newer.size;
  for (auto old = first_behind(newer.base); old != mappings_.end() && old->first < end;) old = mappings_.erase(old);
}

void MemoryMap::reserve(uint64_t base, uint64_t size) {
  std::lock_guard guard(lock_);
  remove_stale({base, size});
  reservations_[base] = size;
}

void MemoryMap::unreserve(uint64_t base) {
  std::lock_guard guard(lock_);
  auto found = reservations_.find(base);
  if (found == reservations_.end()) return;
  mappings_.erase(mappings_.lower_bound(base), mappings_.lower_bound(base + found->second));
  reservations_.erase(found);
}

std::map<uint64_t, uint64_t> MemoryMap::reservations() {
  std::lock_guard guard(lock_);
  return reservations_;
}

uint64_t MemoryMap::reserved_at(uint64_t address) const {
  auto next = reservations_.upper_bound(address);
  if (next == reservations_.begin()) return 0;
  const auto& [base, size] = *std::prev(next);
  return address < base + size ? base : 0;
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
  auto found = mappings_.find(base);
  if (found != mappings_.end() && --found->second.times == 0) mappings_.erase(found);
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
    const uint64_t reservation = mapping.kind == Kind::vmem ? reserved_at(base) : 0;
    if (reservation != 0 && !ranges.empty() && ranges.back().end() == begin && ranges.back().reservation == reservation &&
        are_alike(ranges.back().first, mapping)) {
      ranges.back().size += end - begin;
      ranges.back().requested.back().second += mapping.size;
      continue;
    }
    if (ranges.empty() || begin >= ranges.back().end()) {
      ranges.push_back({begin, end - begin, mapping, reservation, {{base, mapping.size}}});
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
