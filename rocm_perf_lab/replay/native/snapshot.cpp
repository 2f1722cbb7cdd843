#include "snapshot.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <future>
#include <sstream>

#include "failure.h"

namespace capture {
namespace {

constexpr size_t kMostOrigins = 16, kMostCodePointers = 1000;
constexpr uint64_t kHashApart = 1 << 20, kComparedAtOnce = 1 << 20;
constexpr uint64_t kSpareBytes = 16 << 20;  // disk space for the other files

bool is_zero(const uint8_t* bytes, size_t size) { return bytes[0] == 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0; }

// Returns begin and end of the process's memory that it can read, and which a GPU can therefore read through page faults.
std::vector<std::pair<uint64_t, uint64_t>> readable_memory() {
  std::vector<std::pair<uint64_t, uint64_t>> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    uint64_t begin = 0, end = 0;
    char dash = 0, access = 0;
    if (!(fields >> std::hex >> begin >> dash >> end >> access) || access != 'r') continue;
    if (!is_readable(begin)) continue;  // for example, a file that is shorter than its mapping
    if (!found.empty() && found.back().second == begin) found.back().second = end;
    else found.emplace_back(begin, end);
  }
  return found;
}

// Returns the end of the runtime's allocation at the address, 0 if there is none.
uint64_t end_of_allocation(const Api& api, uint64_t address) {
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  if (api.hsa_amd_pointer_info == nullptr) return 0;
  if (api.hsa_amd_pointer_info(reinterpret_cast<void*>(address), &info, nullptr, nullptr, nullptr) != HSA_STATUS_SUCCESS) return 0;
  if (info.type != HSA_EXT_POINTER_TYPE_HSA) return 0;
  const uint64_t end = (reinterpret_cast<uint64_t>(info.agentBaseAddress) + info.sizeInBytes + kPage - 1) / kPage * kPage;
  return std::max(end, address + kPage);
}

// Returns the parts of a range of managed host memory that still exist: the application frees it without a call to the runtime, which
// may use the addresses for memory of its own, such as the rings of queues.
std::vector<Range> existing_parts(const Api& api, const Range& range) {
  std::vector<Range> parts;
  auto add = [&](uint64_t begin, uint64_t end) {
    if (begin < end) parts.push_back({begin, end - begin, range.first, range.reservation, {{begin, end - begin}}});
  };
  for (const auto& [from, to] : readable_memory()) {
    uint64_t begin = std::max(range.base, from), at = begin;
    const uint64_t end = std::min(range.end(), to);
    while (at < end) {
      const uint64_t taken = end_of_allocation(api, at);
      if (taken == 0) {
        at += kPage;
        continue;
      }
      add(begin, at);
      begin = at = std::min(taken, end);
    }
    add(begin, end);
  }
  return parts;
}

}  // namespace

const char* name_of(Mode mode) { return mode == Mode::full ? "full" : mode == Mode::arguments ? "arguments" : "reachable"; }

std::string Snapshot::Region::name() const { return "region_" + hex(range.base) + ".bin"; }

Snapshot::Snapshot(const Api& api, Agents& agents, Directory& directory, MemoryMap& memory, std::vector<LoadedRange> code,
                   const std::set<uint64_t>& rings, hsa_agent_t gpu)
    : api_(api), agents_(agents), directory_(directory), gpu_(gpu), reservations_(memory.reservations()), code_(std::move(code)) {
  uint64_t largest = 0;
  std::vector<Range> ranges;
  for (const Range& range : memory.ranges()) {
    if (range.requested.size() == 1 && rings.count(range.requested.front().first) != 0) continue;
    if (range.first.kind != Kind::svm) ranges.push_back(range);
    else for (const Range& part : existing_parts(api, range)) ranges.push_back(part);
  }
  for (Range& range : ranges) {
    largest = std::max(largest, range.size);
    lowest_ = std::min(lowest_, range.base);
    highest_ = std::max(highest_, range.end());
    regions_.emplace_back();
    regions_.back().range = std::move(range);
  }
  for (const auto& [base, size] : reservations_) {
    lowest_ = std::min(lowest_, base);
    highest_ = std::max(highest_, base + size);
  }
  for (const LoadedRange& range : code_) {
    lowest_ = std::min(lowest_, range.begin);
    highest_ = std::max(highest_, range.end);
  }
  transfer_ = std::make_unique<Transfer>(api_, agents_, largest);
}

const Snapshot::Region* Snapshot::holding(uint64_t address) const {
  auto next = std::upper_bound(regions_.begin(), regions_.end(), address,
                               [](uint64_t value, const Region& region) { return value < region.range.base; });
  if (next == regions_.begin()) return nullptr;
  const Region& region = *std::prev(next);
  return address < region.range.end() ? &region : nullptr;
}

void Snapshot::stream(const Range& range, const Transfer::Consumer& consume) {
  const Mapping& mapping = range.first;
  if (!mapping.on_gpu) return transfer_->from_host(mapping.host != 0 ? mapping.host : range.base, range.size, consume);
  if (mapping.access.empty()) throw CopyFailure("no agent has access");
  const auto& agents = agents_.all();
  int reader = agents_.index_of(gpu_);
  if (mapping.access.count(reader) == 0) reader = *mapping.access.rbegin();
  transfer_->from_gpu(range.base, range.size, agents[size_t(reader)].handle, consume);
}

std::string Snapshot::read(uint64_t address, uint64_t size) {
  std::string bytes;
  auto append = [&](const uint8_t* piece, size_t length, uint64_t) { bytes.append(reinterpret_cast<const char*>(piece), length); };
  const Region* region = holding(address);
  const bool on_host = region != nullptr && !region->range.first.on_gpu;
  try {
    if (on_host) transfer_->from_host(address, size, append);
    else transfer_->from_gpu(address, size, gpu_, append);
  } catch (const CopyFailure& failure) {
    throw Failure("memory at 0x" + hex(address) + " cannot be read: " + failure.what());
  }
  return bytes;
}

void Snapshot::before(Mode mode, const std::vector<std::pair<std::string, std::string>>& roots, uint64_t kernarg_address,
                      uint64_t limit) {
  mode_ = mode;
  limit_ = limit;
  directory_.make_directory("memory");
  if (Region* region = holding(kernarg_address)) region->contains_kernarg = true;
  for (const auto& [name, bytes] : roots)
    scan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), name == "kernarg" ? kernarg_address : 0, name, true);
  if (mode == Mode::full)
    for (Region& region : regions_) want(region);
  for (size_t next = 0; next < queue_.size(); ++next) save(*queue_[next], mode != Mode::arguments);
}

bool Snapshot::is_freed(const Mapping& mapping) const {
  if (api_.hsa_amd_pointer_info == nullptr || (mapping.kind != Kind::pool && mapping.kind != Kind::region)) return false;
  hsa_amd_pointer_info_t info{};
  info.size = sizeof info;
  const auto status = api_.hsa_amd_pointer_info(reinterpret_cast<const void*>(mapping.base), &info, nullptr, nullptr, nullptr);
  return status == HSA_STATUS_SUCCESS && info.type == HSA_EXT_POINTER_TYPE_UNKNOWN;
}

void Snapshot::want(Region& region) {
  if (region.is_wanted || is_freed(region.range.first)) return;
  region.is_wanted = true;
  wanted_bytes_ += region.range.size;
  if (limit_ != 0 && wanted_bytes_ > limit_)
    throw Failure("the capture needs at least " + std::to_string(wanted_bytes_) + " bytes, more than the limit of " + std::to_string(limit_));
  queue_.push_back(&region);
}

void Snapshot::want_reservation(uint64_t address, const std::string& origin) {
  auto next = reservations_.upper_bound(address);
  if (next == reservations_.begin()) return;
  const auto reserved = std::prev(next);
  const auto [base, size] = *reserved;
  if (address >= base + size) return;
  reservations_.erase(reserved);
  const int reader = agents_.index_of(gpu_);
  for (Region& region : regions_) {
    if (region.range.reservation != base || region.range.first.access.count(reader) == 0) continue;
    region.reached_from.insert(origin);
    want(region);
  }
}

void Snapshot::found(uint64_t place, uint64_t value, const std::string& origin, bool follow) {
  for (const LoadedRange& range : code_) {
    if (value < range.begin || value >= range.end) continue;
    if (++code_pointer_count_ <= kMostCodePointers) code_pointers_.push_back({place, value});
    return;
  }
  if (follow) want_reservation(value, origin);
  Region* region = holding(value);
  if (region == nullptr) return;
  if (region->reached_from.size() < kMostOrigins) region->reached_from.insert(origin);
  if (follow) want(*region);
}

// Returns whether any byte is not zero.
bool Snapshot::scan(const uint8_t* bytes, size_t size, uint64_t address, const std::string& origin, bool follow) {
  uint64_t any = 0;
  for (size_t at = 0; at + 8 <= size; at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + at, sizeof word);
    any |= word;
    if (word >= lowest_ && word < highest_) found(address + at, word, origin, follow);
  }
  return any != 0;
}

void Snapshot::save(Region& region, bool scan_words) {
  const Range& range = region.range;
  if (directory_.free_bytes() < range.size + kSpareBytes)
    throw Failure("not enough disk space for the " + std::to_string(range.size) + " bytes at 0x" + hex(range.base));
  const std::string name = "memory/" + region.name(), origin = "0x" + hex(range.base);
  region.file = std::make_unique<OutputFile>(directory_.path(name));
  region.file->set_size(range.size);
  Sha256 hash;
  auto consume = [&](const uint8_t* bytes, size_t size, uint64_t offset) {
    auto hashed = std::async(size >= kHashApart ? std::launch::async : std::launch::deferred, [&] { hash.update(bytes, size); });
    uint64_t begin = 0;  // start of the non-zero pages that are not written yet
    for (uint64_t at = 0; at < size; at += kPage) {
      const bool has_content = scan_words ? scan(bytes + at, kPage, range.base + offset + at, origin, true) : !is_zero(bytes + at, kPage);
      if (has_content) continue;
      ++region.zero_pages;
      if (at > begin) region.file->write(bytes + begin, at - begin, offset + begin);
      begin = at + kPage;
    }
    if (size > begin) region.file->write(bytes + begin, size - begin, offset + begin);
    hashed.get();
  };
  try {
    stream(range, consume);
    directory_.record(name, range.size, hash.finish());
  } catch (const CopyFailure& failure) {
    region.error = failure.what();
    region.file.reset();
    std::remove(directory_.path(name).c_str());
  }
}

void Snapshot::after() {
  directory_.make_directory("after");
  for (Region* region : queue_)
    if (region->error.empty()) compare(*region);
}

void Snapshot::compare(Region& region) {
  std::unique_ptr<OutputFile> changes;
  Sha256 hash;
  std::string earlier(kComparedAtOnce, '\0');
  const std::string name = "after/" + region.name();
  auto keep = [&](const uint8_t* bytes, uint64_t first_page, uint64_t pages) {
    if (changes == nullptr) changes = std::make_unique<OutputFile>(directory_.path(name));
    changes->write(bytes, pages * kPage, region.changed_pages * kPage);
    hash.update(bytes, pages * kPage);
    region.changed_pages += pages;
    if (!region.runs.empty() && region.runs.back().first + region.runs.back().second == first_page) region.runs.back().second += pages;
    else region.runs.emplace_back(first_page, pages);
  };
  auto consume = [&](const uint8_t* bytes, size_t size, uint64_t offset) {
    for (uint64_t begin = 0; begin < size; begin += kComparedAtOnce) {
      const uint64_t length = std::min<uint64_t>(kComparedAtOnce, size - begin);
      region.file->read(earlier.data(), length, offset + begin);
      if (std::memcmp(bytes + begin, earlier.data(), length) == 0) continue;
      auto differs = [&](uint64_t at) { return at < length && std::memcmp(bytes + begin + at, earlier.data() + at, kPage) != 0; };
      for (uint64_t at = 0; at < length; at += kPage) {
        uint64_t end = at;
        while (differs(end)) end += kPage;
        if (end > at) keep(bytes + begin + at, (offset + begin + at) / kPage, (end - at) / kPage);
        at = end;
      }
    }
  };
  try {
    stream(region.range, consume);
  } catch (const CopyFailure& failure) {
    throw Failure("memory at 0x" + hex(region.range.base) + " after the dispatch cannot be read: " + failure.what());
  }
  if (changes != nullptr) directory_.record(name, region.changed_pages * kPage, hash.finish());
}

void Snapshot::write_regions(Json& json) const {
  json.open('{').member("format_version", 1).member("page_size", kPage).member("mode", name_of(mode_));
  json.key("regions").open('[');
  for (const Region& region : regions_) {
    if (!region.is_wanted) continue;
    const Mapping& mapping = region.range.first;
    json.open('{').key("base").address(region.range.base).member("size", region.range.size);
    json.key("requested").open('[');
    for (const auto& [base, size] : region.range.requested) json.open('{').key("base").address(base).member("size", size).close('}');
    json.close(']').member("kind", name_of(mapping.kind)).member("location", mapping.on_gpu ? "gpu" : "cpu");
    json.member("agent", mapping.agent).member("pool_flags", mapping.flags);
    json.key("access_agents").open('[');
    for (int agent : mapping.access) json.value(agent);
    json.close(']').key("reached_from").open('[');
    for (const std::string& origin : region.reached_from) json.value(origin);
    json.close(']').member("contains_kernarg", region.contains_kernarg).key("file");
    if (region.error.empty()) json.value("memory/" + region.name());
    else json.null();
    json.member("zero_pages", region.zero_pages).key("after");
    if (region.runs.empty()) json.null();
    else {
      json.open('{').member("file", "after/" + region.name()).key("runs").open('[');
      for (const auto& [first, pages] : region.runs) json.open('[').value(first).value(pages).close(']');
      json.close(']').close('}');
    }
    json.key("error");
    if (region.error.empty()) json.null();
    else json.value(region.error);
    json.close('}');
  }
  json.close(']').close('}');
}

void Snapshot::write_kernarg_place(Json& json, uint64_t address) const {
  json.key("kernarg");
  const Region* region = holding(address);
  if (region == nullptr) {
    json.null();
    return;
  }
  const Mapping& mapping = region->range.first;
  json.open('{').member("location", mapping.on_gpu ? "gpu" : "cpu").member("pool_flags", mapping.flags).close('}');
}

void Snapshot::write_code_pointers(Json& json) const {
  json.key("code_pointers").open('{').member("count", code_pointer_count_).key("places").open('[');
  for (const CodePointer& pointer : code_pointers_) json.open('{').key("address").address(pointer.place).key("value").address(pointer.value).close('}');
  json.close(']').close('}');
}

}  // namespace capture
