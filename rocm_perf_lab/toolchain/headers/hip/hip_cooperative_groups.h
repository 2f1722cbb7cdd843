// Cooperative groups for machines without ROCm: the workgroup, tiles of a wavefront, the lanes that are active, and the
// grid, with the members that kernels commonly use, behind HIP's names.
#pragma once

#include <hip/hip_runtime.h>

extern "C" __attribute__((device)) void __ockl_grid_sync(void);

namespace cooperative_groups {

#define ROCM_PERF_LAB_D inline __attribute__((device, always_inline))

/// All work-items of a workgroup.
class thread_block {
 public:
  static ROCM_PERF_LAB_D void sync() { __syncthreads(); }
  static ROCM_PERF_LAB_D dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static ROCM_PERF_LAB_D dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static ROCM_PERF_LAB_D dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  static ROCM_PERF_LAB_D dim3 dim_threads() { return group_dim(); }
  static ROCM_PERF_LAB_D unsigned thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  static ROCM_PERF_LAB_D unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  static ROCM_PERF_LAB_D unsigned size() { return num_threads(); }
};

/// All work-items of a cooperative launch.
class grid_group {
 public:
  ROCM_PERF_LAB_D void sync() const { __ockl_grid_sync(); }
  ROCM_PERF_LAB_D unsigned long long num_threads() const { return num_blocks() * thread_block::num_threads(); }
  ROCM_PERF_LAB_D unsigned long long size() const { return num_threads(); }
  ROCM_PERF_LAB_D unsigned long long num_blocks() const { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  ROCM_PERF_LAB_D unsigned long long block_rank() const {
    return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  ROCM_PERF_LAB_D unsigned long long thread_rank() const {
    return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
  }
};

/// `Size` neighbouring lanes of a wavefront.
template <unsigned Size, class Parent = thread_block>
class thread_block_tile {
  static_assert((Size & (Size - 1)) == 0 && Size >= 1 && Size <= 64, "a tile has 1, 2, 4, ... 64 lanes");

  static ROCM_PERF_LAB_D unsigned first_lane() { return __lane_id() & ~(Size - 1); }
  static ROCM_PERF_LAB_D unsigned long long lanes() {
    return (Size == 64 ? ~0ull : (1ull << (Size & 63)) - 1) << first_lane();
  }

 public:
  // Lanes of a wavefront run together: only the memory order has to be kept.
  static ROCM_PERF_LAB_D void sync() {
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
  }
  static ROCM_PERF_LAB_D unsigned thread_rank() { return thread_block::thread_rank() & (Size - 1); }
  static constexpr ROCM_PERF_LAB_D unsigned num_threads() { return Size; }
  static constexpr ROCM_PERF_LAB_D unsigned size() { return Size; }
  static ROCM_PERF_LAB_D unsigned meta_group_rank() { return thread_block::thread_rank() / Size; }
  static ROCM_PERF_LAB_D unsigned meta_group_size() { return (thread_block::num_threads() + Size - 1) / Size; }
  template <class T> static ROCM_PERF_LAB_D T shfl(T value, int lane) { return __shfl(value, lane, Size); }
  template <class T> static ROCM_PERF_LAB_D T shfl_down(T value, unsigned by) { return __shfl_down(value, by, Size); }
  template <class T> static ROCM_PERF_LAB_D T shfl_up(T value, unsigned by) { return __shfl_up(value, by, Size); }
  template <class T> static ROCM_PERF_LAB_D T shfl_xor(T value, int mask) { return __shfl_xor(value, mask, Size); }
  static ROCM_PERF_LAB_D unsigned long long ballot(int predicate) {
    return (__ballot(predicate) & lanes()) >> first_lane();
  }
  static ROCM_PERF_LAB_D int any(int predicate) { return ballot(predicate) != 0; }
  static ROCM_PERF_LAB_D int all(int predicate) { return ballot(!predicate) == 0; }
};

/// The lanes of a wavefront that are active where the group is made.
class coalesced_group {
  unsigned long long lanes_;

 public:
  explicit ROCM_PERF_LAB_D coalesced_group(unsigned long long lanes) : lanes_(lanes) {}
  ROCM_PERF_LAB_D void sync() const { thread_block_tile<64>::sync(); }
  ROCM_PERF_LAB_D unsigned num_threads() const { return __popcll(lanes_); }
  ROCM_PERF_LAB_D unsigned size() const { return num_threads(); }
  ROCM_PERF_LAB_D unsigned thread_rank() const {
    return __builtin_amdgcn_mbcnt_hi(lanes_ >> 32, __builtin_amdgcn_mbcnt_lo((unsigned)lanes_, 0));
  }
  /// The value of the lane that has this rank in the group.
  template <class T> ROCM_PERF_LAB_D T shfl(T value, unsigned rank) const {
    unsigned long long rest = lanes_;
    for (unsigned i = 0; i < rank; ++i) rest &= rest - 1;
    return __shfl(value, __ffsll(rest) - 1);
  }
  ROCM_PERF_LAB_D unsigned long long ballot(int predicate) const { return __ballot(predicate) & lanes_; }
  ROCM_PERF_LAB_D int any(int predicate) const { return ballot(predicate) != 0; }
  ROCM_PERF_LAB_D int all(int predicate) const { return ballot(!predicate) == 0; }
};

ROCM_PERF_LAB_D thread_block this_thread_block() { return {}; }
ROCM_PERF_LAB_D grid_group this_grid() { return {}; }
ROCM_PERF_LAB_D coalesced_group coalesced_threads() { return coalesced_group(__ballot(1)); }
template <unsigned Size, class Parent>
ROCM_PERF_LAB_D thread_block_tile<Size, Parent> tiled_partition(const Parent&) { return {}; }
template <class Group> ROCM_PERF_LAB_D void sync(const Group& group) { group.sync(); }

template <class T = void> struct plus;
template <class T = void> struct less;
template <class T = void> struct greater;
template <> struct plus<void> { template <class T> ROCM_PERF_LAB_D T operator()(T a, T b) const { return a + b; } };
template <> struct less<void> { template <class T> ROCM_PERF_LAB_D T operator()(T a, T b) const { return b < a ? b : a; } };
template <> struct greater<void> { template <class T> ROCM_PERF_LAB_D T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct plus : plus<void> {};
template <class T> struct less : less<void> {};
template <class T> struct greater : greater<void> {};

/// Combines the values of all lanes of a tile; every lane gets the result. `less` and `greater` give the extremum.
template <unsigned Size, class Parent, class T, class Operation>
ROCM_PERF_LAB_D T reduce(const thread_block_tile<Size, Parent>& tile, T value, Operation operation) {
  for (unsigned mask = Size / 2; mask > 0; mask /= 2) value = operation(value, tile.shfl_xor(value, mask));
  return value;
}

#undef ROCM_PERF_LAB_D

}  // namespace cooperative_groups
