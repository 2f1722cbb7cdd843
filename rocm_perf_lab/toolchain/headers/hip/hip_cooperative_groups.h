// Cooperative groups for machines without ROCm, with the names of HIP: any group, the workgroup, tiles of a wavefront, the lanes
// that are active, the grid, and grids of several devices.
#pragma once

#include <hip/hip_runtime.h>

extern "C" {
__attribute__((device)) int __ockl_grid_is_valid(void);
__attribute__((device)) void __ockl_grid_sync(void);
__attribute__((device)) unsigned int __ockl_multi_grid_num_grids(void);
__attribute__((device)) unsigned int __ockl_multi_grid_grid_rank(void);
__attribute__((device)) unsigned int __ockl_multi_grid_size(void);
__attribute__((device)) unsigned int __ockl_multi_grid_thread_rank(void);
__attribute__((device)) int __ockl_multi_grid_is_valid(void);
__attribute__((device)) void __ockl_multi_grid_sync(void);
}

namespace cooperative_groups {

#define ROCM_PERF_LAB_D inline __attribute__((device, always_inline))

namespace rocm_perf_lab {

enum group_kind { multi_grid_kind, grid_kind, block_kind, tile_kind, coalesced_kind };

ROCM_PERF_LAB_D unsigned block_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
ROCM_PERF_LAB_D unsigned block_size() { return blockDim.x * blockDim.y * blockDim.z; }
ROCM_PERF_LAB_D unsigned grid_block_rank() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
ROCM_PERF_LAB_D unsigned grid_blocks() { return gridDim.x * gridDim.y * gridDim.z; }

// Lanes of a wavefront run together: only the memory order has to be kept.
ROCM_PERF_LAB_D void wavefront_sync() {
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
}
ROCM_PERF_LAB_D unsigned rank_in(unsigned long long lanes) {
  return __builtin_amdgcn_mbcnt_hi((unsigned)(lanes >> 32), __builtin_amdgcn_mbcnt_lo((unsigned)lanes, 0));
}
/// The lane that has this rank in a group, -1 if the group has fewer lanes.
ROCM_PERF_LAB_D int lane_of_rank(unsigned long long lanes, unsigned rank) {
  for (unsigned i = 0; i < rank; ++i) lanes &= lanes - 1;
  return __ffsll(lanes) - 1;
}
/// Bits of lanes as bits of ranks.
ROCM_PERF_LAB_D unsigned long long bits_of_ranks(unsigned long long lanes, unsigned long long bits) {
  unsigned long long ranks = 0;
  for (unsigned rank = 0; lanes; lanes &= lanes - 1, ++rank)
    if (bits & lanes & -lanes) ranks |= 1ull << rank;
  return ranks;
}
/// The lanes of a group whose value equals the one of this lane.
template <class Value> ROCM_PERF_LAB_D unsigned long long equal_lanes(unsigned long long lanes, Value value) {
  unsigned long long equal = 0;
  for (unsigned long long rest = lanes; rest; rest &= rest - 1)
    if (__shfl(value, __ffsll(rest) - 1) == value) equal |= rest & -rest;
  return equal;
}

}  // namespace rocm_perf_lab

/// A group of any kind; each other group converts to it.
class thread_group {
 protected:
  rocm_perf_lab::group_kind kind_;
  unsigned size_, tile_ = 0, meta_rank_ = 0, meta_size_ = 1;
  unsigned long long lanes_ = 0;

  ROCM_PERF_LAB_D thread_group(rocm_perf_lab::group_kind kind, unsigned size) : kind_(kind), size_(size) {}

  friend ROCM_PERF_LAB_D thread_group this_thread();
  friend ROCM_PERF_LAB_D thread_group tiled_partition(const thread_group& parent, unsigned tile_size);

 public:
  ROCM_PERF_LAB_D unsigned size() const { return size_; }
  ROCM_PERF_LAB_D unsigned num_threads() const { return size_; }
  ROCM_PERF_LAB_D unsigned cg_type() const { return kind_; }
  ROCM_PERF_LAB_D unsigned thread_rank() const {
    switch (kind_) {
      case rocm_perf_lab::multi_grid_kind: return __ockl_multi_grid_thread_rank();
      case rocm_perf_lab::grid_kind: return rocm_perf_lab::grid_block_rank() * rocm_perf_lab::block_size() + rocm_perf_lab::block_rank();
      case rocm_perf_lab::block_kind: return rocm_perf_lab::block_rank();
      case rocm_perf_lab::tile_kind: return rocm_perf_lab::block_rank() & (tile_ - 1);
      default: return rocm_perf_lab::rank_in(lanes_);
    }
  }
  ROCM_PERF_LAB_D bool is_valid() const {
    if (kind_ == rocm_perf_lab::multi_grid_kind) return __ockl_multi_grid_is_valid() != 0;
    return kind_ != rocm_perf_lab::grid_kind || __ockl_grid_is_valid() != 0;
  }
  ROCM_PERF_LAB_D void sync() const {
    switch (kind_) {
      case rocm_perf_lab::multi_grid_kind: __ockl_multi_grid_sync(); break;
      case rocm_perf_lab::grid_kind: __ockl_grid_sync(); break;
      case rocm_perf_lab::block_kind: __syncthreads(); break;
      default: rocm_perf_lab::wavefront_sync();
    }
  }
};

/// All work-items of a launch on several devices.
class multi_grid_group : public thread_group {
 public:
  ROCM_PERF_LAB_D multi_grid_group() : thread_group(rocm_perf_lab::multi_grid_kind, __ockl_multi_grid_size()) {}
  ROCM_PERF_LAB_D unsigned num_grids() const { return __ockl_multi_grid_num_grids(); }
  ROCM_PERF_LAB_D unsigned grid_rank() const { return __ockl_multi_grid_grid_rank(); }
};

/// All work-items of a cooperative launch.
class grid_group : public thread_group {
 public:
  ROCM_PERF_LAB_D grid_group() : thread_group(rocm_perf_lab::grid_kind, rocm_perf_lab::grid_blocks() * rocm_perf_lab::block_size()) {}
  ROCM_PERF_LAB_D unsigned thread_rank() const {
    return rocm_perf_lab::grid_block_rank() * rocm_perf_lab::block_size() + rocm_perf_lab::block_rank();
  }
  ROCM_PERF_LAB_D bool is_valid() const { return __ockl_grid_is_valid() != 0; }
  ROCM_PERF_LAB_D void sync() const { __ockl_grid_sync(); }
  ROCM_PERF_LAB_D dim3 group_dim() const { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  ROCM_PERF_LAB_D dim3 dim_blocks() const { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  ROCM_PERF_LAB_D dim3 grid_dim() const { return dim_blocks(); }
  ROCM_PERF_LAB_D dim3 block_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  ROCM_PERF_LAB_D unsigned num_blocks() const { return rocm_perf_lab::grid_blocks(); }
  ROCM_PERF_LAB_D unsigned block_rank() const { return rocm_perf_lab::grid_block_rank(); }
};

/// All work-items of a workgroup.
class thread_block : public thread_group {
 public:
  ROCM_PERF_LAB_D thread_block() : thread_group(rocm_perf_lab::block_kind, rocm_perf_lab::block_size()) {}
  static ROCM_PERF_LAB_D void sync() { __syncthreads(); }
  static ROCM_PERF_LAB_D bool is_valid() { return true; }
  static ROCM_PERF_LAB_D dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static ROCM_PERF_LAB_D dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static ROCM_PERF_LAB_D dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  static ROCM_PERF_LAB_D dim3 dim_threads() { return group_dim(); }
  static ROCM_PERF_LAB_D unsigned thread_rank() { return rocm_perf_lab::block_rank(); }
  static ROCM_PERF_LAB_D unsigned num_threads() { return rocm_perf_lab::block_size(); }
  static ROCM_PERF_LAB_D unsigned size() { return num_threads(); }
};

/// Neighbouring lanes of a wavefront, in a number that is known at run time.
class tiled_group : public thread_group {
 public:
  ROCM_PERF_LAB_D tiled_group(unsigned tile, unsigned size, unsigned meta_rank, unsigned meta_size)
      : thread_group(rocm_perf_lab::tile_kind, size) {
    tile_ = tile, meta_rank_ = meta_rank, meta_size_ = meta_size;
  }
  ROCM_PERF_LAB_D unsigned meta_group_rank() const { return meta_rank_; }
  ROCM_PERF_LAB_D unsigned meta_group_size() const { return meta_size_; }
  ROCM_PERF_LAB_D unsigned thread_rank() const { return rocm_perf_lab::block_rank() & (tile_ - 1); }
  ROCM_PERF_LAB_D void sync() const { rocm_perf_lab::wavefront_sync(); }
};

/// `Size` neighbouring lanes of a wavefront.
template <unsigned Size, class Parent = void>
class thread_block_tile : public tiled_group {
  static_assert((Size & (Size - 1)) == 0 && Size >= 1 && Size <= 64, "a tile has 1, 2, 4, ... 64 lanes");

  static ROCM_PERF_LAB_D unsigned first_lane() { return __lane_id() & ~(Size - 1); }
  static ROCM_PERF_LAB_D unsigned long long lanes() {
    return (Size == 64 ? ~0ull : (1ull << (Size & 63)) - 1) << first_lane();
  }

 public:
  ROCM_PERF_LAB_D thread_block_tile(unsigned meta_rank, unsigned meta_size) : tiled_group(Size, Size, meta_rank, meta_size) {}
  template <class Other>
  ROCM_PERF_LAB_D thread_block_tile(const thread_block_tile<Size, Other>& other)
      : thread_block_tile(other.meta_group_rank(), other.meta_group_size()) {}

  static ROCM_PERF_LAB_D void sync() { rocm_perf_lab::wavefront_sync(); }
  static ROCM_PERF_LAB_D bool is_valid() { return true; }
  static ROCM_PERF_LAB_D unsigned thread_rank() { return rocm_perf_lab::block_rank() & (Size - 1); }
  static constexpr ROCM_PERF_LAB_D unsigned num_threads() { return Size; }
  static constexpr ROCM_PERF_LAB_D unsigned size() { return Size; }
  template <class Value> static ROCM_PERF_LAB_D Value shfl(Value value, int lane) { return __shfl(value, lane, Size); }
  template <class Value> static ROCM_PERF_LAB_D Value shfl_down(Value value, unsigned by) { return __shfl_down(value, by, Size); }
  template <class Value> static ROCM_PERF_LAB_D Value shfl_up(Value value, unsigned by) { return __shfl_up(value, by, Size); }
  template <class Value> static ROCM_PERF_LAB_D Value shfl_xor(Value value, int mask) { return __shfl_xor(value, mask, Size); }
  static ROCM_PERF_LAB_D unsigned long long ballot(int predicate) {
    return (__ballot(predicate) & lanes()) >> first_lane();
  }
  static ROCM_PERF_LAB_D int any(int predicate) { return ballot(predicate) != 0; }
  static ROCM_PERF_LAB_D int all(int predicate) { return ballot(!predicate) == 0; }
  template <class Value> static ROCM_PERF_LAB_D unsigned long long match_any(Value value) {
    return rocm_perf_lab::equal_lanes(lanes() & __ballot(1), value) >> first_lane();
  }
  template <class Value> static ROCM_PERF_LAB_D unsigned long long match_all(Value value, int& is_equal) {
    const unsigned long long active = lanes() & __ballot(1);
    is_equal = rocm_perf_lab::equal_lanes(active, value) == active;
    return is_equal ? active >> first_lane() : 0;
  }
};

/// The lanes of a wavefront that are active where the group is made, or a part of them.
class coalesced_group : public thread_group {
 public:
  explicit ROCM_PERF_LAB_D coalesced_group(unsigned long long lanes, unsigned meta_rank = 0, unsigned meta_size = 1)
      : thread_group(rocm_perf_lab::coalesced_kind, __popcll(lanes)) {
    lanes_ = lanes, meta_rank_ = meta_rank, meta_size_ = meta_size;
  }
  ROCM_PERF_LAB_D void sync() const { rocm_perf_lab::wavefront_sync(); }
  ROCM_PERF_LAB_D bool is_valid() const { return true; }
  ROCM_PERF_LAB_D unsigned thread_rank() const { return rocm_perf_lab::rank_in(lanes_); }
  ROCM_PERF_LAB_D unsigned meta_group_rank() const { return meta_rank_; }
  ROCM_PERF_LAB_D unsigned meta_group_size() const { return meta_size_; }
  /// The value of the lane that has this rank in the group.
  template <class Value> ROCM_PERF_LAB_D Value shfl(Value value, int rank) const {
    return __shfl(value, rocm_perf_lab::lane_of_rank(lanes_, (unsigned)rank % size_));
  }
  template <class Value> ROCM_PERF_LAB_D Value shfl_down(Value value, unsigned by) const {
    const unsigned rank = thread_rank();
    return __shfl(value, rocm_perf_lab::lane_of_rank(lanes_, rank + by < size_ ? rank + by : rank));
  }
  template <class Value> ROCM_PERF_LAB_D Value shfl_up(Value value, unsigned by) const {
    const unsigned rank = thread_rank();
    return __shfl(value, rocm_perf_lab::lane_of_rank(lanes_, rank < by ? rank : rank - by));
  }
  ROCM_PERF_LAB_D unsigned long long ballot(int predicate) const {
    return rocm_perf_lab::bits_of_ranks(lanes_, __ballot(predicate));
  }
  ROCM_PERF_LAB_D int any(int predicate) const { return (__ballot(predicate) & lanes_) != 0; }
  ROCM_PERF_LAB_D int all(int predicate) const { return (__ballot(!predicate) & lanes_) == 0; }
  template <class Value> ROCM_PERF_LAB_D unsigned long long match_any(Value value) const {
    return rocm_perf_lab::bits_of_ranks(lanes_, rocm_perf_lab::equal_lanes(lanes_, value));
  }
  template <class Value> ROCM_PERF_LAB_D unsigned long long match_all(Value value, int& is_equal) const {
    is_equal = rocm_perf_lab::equal_lanes(lanes_, value) == lanes_;
    return is_equal ? rocm_perf_lab::bits_of_ranks(lanes_, lanes_) : 0;
  }

  friend ROCM_PERF_LAB_D coalesced_group tiled_partition(const coalesced_group& parent, unsigned tile_size);
  friend ROCM_PERF_LAB_D coalesced_group binary_partition(const coalesced_group& group, bool predicate);
};

ROCM_PERF_LAB_D thread_block this_thread_block() { return {}; }
ROCM_PERF_LAB_D grid_group this_grid() { return {}; }
ROCM_PERF_LAB_D multi_grid_group this_multi_grid() { return {}; }
ROCM_PERF_LAB_D coalesced_group coalesced_threads() { return coalesced_group(__ballot(1)); }
ROCM_PERF_LAB_D thread_group this_thread() {
  thread_group one(rocm_perf_lab::coalesced_kind, 1);
  one.lanes_ = 1ull << __lane_id();
  return one;
}

/// Tiles of a size that is known when the kernel is compiled.
template <unsigned Size, class Parent>
ROCM_PERF_LAB_D thread_block_tile<Size, Parent> tiled_partition(const Parent& parent) {
  return {parent.thread_rank() / Size, (parent.size() + Size - 1) / Size};
}

/// Tiles of a size that is known at run time; the last tile of a workgroup may be smaller.
ROCM_PERF_LAB_D coalesced_group tiled_partition(const coalesced_group& parent, unsigned tile_size) {
  const unsigned tile = parent.thread_rank() / tile_size;
  unsigned long long rest = parent.lanes_, lanes = 0;
  for (unsigned rank = 0; rest; rest &= rest - 1, ++rank)
    if (rank / tile_size == tile) lanes |= rest & -rest;
  return coalesced_group(lanes, tile, (parent.size() + tile_size - 1) / tile_size);
}
ROCM_PERF_LAB_D thread_group tiled_partition(const thread_group& parent, unsigned tile_size) {
  if (parent.kind_ == rocm_perf_lab::coalesced_kind) return tiled_partition(coalesced_group(parent.lanes_), tile_size);
  if (parent.kind_ == rocm_perf_lab::tile_kind && parent.tile_ <= tile_size) return parent;
  const unsigned size = parent.size_, tile = parent.thread_rank() / tile_size, left = size - tile * tile_size;
  return tiled_group(tile_size, left < tile_size ? left : tile_size, tile, (size + tile_size - 1) / tile_size);
}

/// The lanes with a true and those with a false predicate.
ROCM_PERF_LAB_D coalesced_group binary_partition(const coalesced_group& group, bool predicate) {
  const unsigned long long holds = __ballot(predicate);
  return coalesced_group(group.lanes_ & (predicate ? holds : ~holds), predicate ? 0 : 1, 2);
}
template <unsigned Size, class Parent>
ROCM_PERF_LAB_D coalesced_group binary_partition(const thread_block_tile<Size, Parent>&, bool predicate) {
  const unsigned first = __lane_id() & ~(Size - 1);
  const unsigned long long tile = (Size == 64 ? ~0ull : (1ull << (Size & 63)) - 1) << first;
  return binary_partition(coalesced_group(tile & __ballot(1)), predicate);
}

template <class Group> ROCM_PERF_LAB_D unsigned group_size(const Group& group) { return group.size(); }
template <class Group> ROCM_PERF_LAB_D unsigned thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group> ROCM_PERF_LAB_D bool is_valid(const Group& group) { return group.is_valid(); }
template <class Group> ROCM_PERF_LAB_D void sync(const Group& group) { group.sync(); }

template <class Value = void> struct plus;
template <class Value = void> struct less;
template <class Value = void> struct greater;
template <> struct plus<void> { template <class Value> ROCM_PERF_LAB_D Value operator()(Value a, Value b) const { return a + b; } };
template <> struct less<void> { template <class Value> ROCM_PERF_LAB_D Value operator()(Value a, Value b) const { return b < a ? b : a; } };
template <> struct greater<void> { template <class Value> ROCM_PERF_LAB_D Value operator()(Value a, Value b) const { return a < b ? b : a; } };
template <class Value> struct plus : plus<void> {};
template <class Value> struct less : less<void> {};
template <class Value> struct greater : greater<void> {};

/// Combines the values of all lanes of a tile; every lane gets the result. `less` and `greater` give the extremum.
template <unsigned Size, class Parent, class Value, class Operation>
ROCM_PERF_LAB_D Value reduce(const thread_block_tile<Size, Parent>& tile, Value value, Operation operation) {
  for (unsigned mask = Size / 2; mask > 0; mask /= 2) value = operation(value, tile.shfl_xor(value, mask));
  return value;
}

#undef ROCM_PERF_LAB_D

}  // namespace cooperative_groups
