// hipCUB against the C++ standard library: device-wide algorithms, and primitives of workgroups and wavefronts.
#include <hipcub/hipcub.hpp>
#include "algorithms.h"

static const size_t sizes[] = {1, 63, 1024, 20011};

template <class T>
void reductions() {
  for (size_t n : sizes) {
    Arrays a;
    auto values = random_values<T>(n, 100);
    T *in = a.in(values), *out = a.out<T>(1);
    run([&](void* t, size_t& s) { return hipcub::DeviceReduce::Sum(t, s, in, out, int(n)); });
    same(out, std::vector<T>{std::accumulate(values.begin(), values.end(), T(0))});
    run([&](void* t, size_t& s) { return hipcub::DeviceReduce::Min(t, s, in, out, int(n)); });
    same(out, std::vector<T>{*std::min_element(values.begin(), values.end())});
  }
}
void arg_max() {
  Arrays a;
  auto values = random_values<int>(20011);
  int* in = a.in(values);
  auto* out = a.out<hipcub::KeyValuePair<int, int>>(1);
  run([&](void* t, size_t& s) { return hipcub::DeviceReduce::ArgMax(t, s, in, out, int(values.size())); });
  auto found = to_host(out, 1)[0];
  auto best = std::max_element(values.begin(), values.end());
  EQUAL(found.key, best - values.begin());
  EQUAL(found.value, *best);
}
template <class T>
void scans() {
  for (size_t n : sizes) {
    Arrays a;
    auto values = random_values<T>(n, 100);
    std::vector<T> expected(n);
    T *in = a.in(values), *out = a.out<T>(n);
    run([&](void* t, size_t& s) { return hipcub::DeviceScan::InclusiveSum(t, s, in, out, int(n)); });
    std::partial_sum(values.begin(), values.end(), expected.begin());
    same(out, expected);
    run([&](void* t, size_t& s) { return hipcub::DeviceScan::ExclusiveSum(t, s, in, out, int(n)); });
    std::exclusive_scan(values.begin(), values.end(), expected.begin(), T(0));
    same(out, expected);
  }
}
template <class T>
void radix_sorts() {
  for (size_t n : sizes) {
    Arrays a;
    auto keys = random_values<T>(n);
    T *in = a.in(keys), *out = a.out<T>(n);
    run([&](void* t, size_t& s) { return hipcub::DeviceRadixSort::SortKeysDescending(t, s, in, out, int(n)); });
    std::sort(keys.begin(), keys.end(), std::greater<T>());
    same(out, keys);
  }
}
void radix_sort_pairs() {
  const size_t n = 20011;
  Arrays a;
  auto keys = random_values<unsigned>(n, 200);
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  unsigned *in = a.in(keys), *out = a.out<unsigned>(n);
  int *values = a.in(order), *sorted = a.out<int>(n);
  run([&](void* t, size_t& s) { return hipcub::DeviceRadixSort::SortPairs(t, s, in, out, values, sorted, int(n)); });
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return keys[x] < keys[y]; });
  same(sorted, order);
}
void merge_sort() {
  Arrays a;
  auto keys = random_values<int>(20011);
  int* in = a.in(keys);
  run([&](void* t, size_t& s) { return hipcub::DeviceMergeSort::SortKeys(t, s, in, int(keys.size()), [] __device__(int x, int y) { return x < y; }); });
  std::sort(keys.begin(), keys.end());
  same(in, keys);
}
void selection() {
  const size_t n = 20011;
  Arrays a;
  auto values = random_values<int>(n, 50);
  std::vector<int> even, unique;
  for (int x : values) {
    if (x % 2 == 0) even.push_back(x);
    if (unique.empty() || unique.back() != x) unique.push_back(x);
  }
  int *in = a.in(values), *out = a.out<int>(n), *count = a.out<int>(1);
  run([&](void* t, size_t& s) { return hipcub::DeviceSelect::If(t, s, in, out, count, int(n), [] __device__(int x) { return x % 2 == 0; }); });
  same(count, std::vector<int>{int(even.size())});
  same(out, even);
  run([&](void* t, size_t& s) { return hipcub::DeviceSelect::Unique(t, s, in, out, count, int(n)); });
  same(count, std::vector<int>{int(unique.size())});
  same(out, unique);
}
void partition() {
  const size_t n = 20011;
  Arrays a;
  auto values = random_values<int>(n, 1000);
  std::vector<int> first, second;
  for (int x : values) (x < 300 ? first : second).push_back(x);
  int *in = a.in(values), *out = a.out<int>(n), *count = a.out<int>(1);
  run([&](void* t, size_t& s) { return hipcub::DevicePartition::If(t, s, in, out, count, int(n), [] __device__(int x) { return x < 300; }); });
  same(count, std::vector<int>{int(first.size())});
  first.insert(first.end(), second.rbegin(), second.rend());  // the rest is in reverse order
  same(out, first);
}
void run_lengths() {
  const size_t n = 20011;
  Arrays a;
  std::vector<int> values(n), unique, lengths;
  for (size_t i = 0; i < n; i++) {
    values[i] = int(i * i / 50000);
    if (unique.empty() || unique.back() != values[i]) unique.push_back(values[i]), lengths.push_back(0);
    lengths.back()++;
  }
  int *in = a.in(values), *out = a.out<int>(n), *counts = a.out<int>(n), *runs = a.out<int>(1);
  run([&](void* t, size_t& s) { return hipcub::DeviceRunLengthEncode::Encode(t, s, in, out, counts, runs, int(n)); });
  same(runs, std::vector<int>{int(unique.size())});
  same(out, unique);
  same(counts, lengths);
}
void histogram() {
  const size_t n = 20011;
  Arrays a;
  auto values = random_values<int>(n, 1000);
  std::vector<int> bins(10);
  for (int x : values) bins[x / 100]++;
  int *in = a.in(values), *out = a.out<int>(10);
  run([&](void* t, size_t& s) { return hipcub::DeviceHistogram::HistogramEven(t, s, in, out, 11, 0, 1000, int(n)); });
  same(out, bins);
}
void segmented_reduction() {
  Arrays a;
  auto values = random_values<int>(10000, 100);
  std::vector<int> offsets = {0, 10, 10, 500, 10000}, expected;
  int *in = a.in(values), *at = a.in(offsets), *out = a.out<int>(4);
  run([&](void* t, size_t& s) { return hipcub::DeviceSegmentedReduce::Sum(t, s, in, out, 4, at, at + 1); });
  for (int i = 0; i < 4; i++) expected.push_back(std::accumulate(values.begin() + offsets[i], values.begin() + offsets[i + 1], 0));
  same(out, expected);
}
void differences() {
  Arrays a;
  auto values = random_values<int>(20011, 1000);
  std::vector<int> expected(values.size());
  std::adjacent_difference(values.begin(), values.end(), expected.begin());
  int *in = a.in(values), *out = a.out<int>(values.size());
  run([&](void* t, size_t& s) { return hipcub::DeviceAdjacentDifference::SubtractLeftCopy(t, s, in, out, int(values.size()), hipcub::Difference()); });
  same(out, expected);
}

// ---- primitives ----

enum { BLOCK = 256, ITEMS = 4, TILE = BLOCK * ITEMS };
template <class T>
__global__ void block_kernel(const T* in, T* sums, T* scanned, T* sorted) {
  using Reduce = hipcub::BlockReduce<T, BLOCK>;
  using Scan = hipcub::BlockScan<T, BLOCK>;
  using Sort = hipcub::BlockRadixSort<T, BLOCK, ITEMS>;
  __shared__ union {
    typename Reduce::TempStorage reduce;
    typename Scan::TempStorage scan;
    typename Sort::TempStorage sort;
  } storage;
  T items[ITEMS], prefix[ITEMS];
  for (int i = 0; i < ITEMS; i++) items[i] = in[blockIdx.x * TILE + threadIdx.x * ITEMS + i];
  T sum = Reduce(storage.reduce).Sum(items);
  if (!threadIdx.x) sums[blockIdx.x] = sum;
  __syncthreads();
  Scan(storage.scan).InclusiveSum(items, prefix);
  __syncthreads();
  Sort(storage.sort).Sort(items);
  for (int i = 0; i < ITEMS; i++) {
    scanned[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = prefix[i];
    sorted[blockIdx.x * TILE + threadIdx.x * ITEMS + i] = items[i];
  }
}
template <class T>
void block_primitives() {
  const int blocks = 3;
  Arrays a;
  auto values = random_values<T>(blocks * TILE, 1000);
  T *in = a.in(values), *sums = a.out<T>(blocks), *scanned = a.out<T>(values.size()), *sorted = a.out<T>(values.size());
  block_kernel<T><<<blocks, BLOCK>>>(in, sums, scanned, sorted);
  HIP(hipDeviceSynchronize());
  std::vector<T> totals, prefix(values.size()), order = values;
  for (int b = 0; b < blocks; b++) {
    auto first = values.begin() + b * TILE, last = first + TILE;
    totals.push_back(std::accumulate(first, last, T(0)));
    std::partial_sum(first, last, prefix.begin() + b * TILE);
    std::sort(order.begin() + b * TILE, order.begin() + (b + 1) * TILE);
  }
  same(sums, totals);
  same(scanned, prefix);
  same(sorted, order);
}
template <int WIDTH>
__global__ void warp_kernel(const int* in, int* sums, int* scanned) {
  using Reduce = hipcub::WarpReduce<int, WIDTH>;
  using Scan = hipcub::WarpScan<int, WIDTH>;
  __shared__ typename Reduce::TempStorage reduce[BLOCK / WIDTH];
  __shared__ typename Scan::TempStorage scan[BLOCK / WIDTH];
  int group = threadIdx.x / WIDTH, value = in[threadIdx.x], prefix;
  int sum = Reduce(reduce[group]).Sum(value);
  Scan(scan[group]).ExclusiveSum(value, prefix);
  if (threadIdx.x % WIDTH == 0) sums[group] = sum;
  scanned[threadIdx.x] = prefix;
}
template <int WIDTH>
void warp_primitives() {
  Arrays a;
  auto values = random_values<int>(BLOCK, 1000);
  int *in = a.in(values), *sums = a.out<int>(BLOCK / WIDTH), *scanned = a.out<int>(BLOCK);
  warp_kernel<WIDTH><<<1, BLOCK>>>(in, sums, scanned);
  HIP(hipDeviceSynchronize());
  std::vector<int> totals, prefix(BLOCK);
  for (int at = 0; at < BLOCK; at += WIDTH) {
    totals.push_back(std::accumulate(values.begin() + at, values.begin() + at + WIDTH, 0));
    std::exclusive_scan(values.begin() + at, values.begin() + at + WIDTH, prefix.begin() + at, 0);
  }
  same(sums, totals);
  same(scanned, prefix);
}

int main(int argc, char** argv) {
  return run_checks(argc, argv,
                    {{"reductions_int", reductions<int>}, {"reductions_double", reductions<double>}, {"arg_max", arg_max},
                     {"scans_int", scans<int>}, {"scans_int64", scans<long long>}, {"radix_sorts_int", radix_sorts<int>},
                     {"radix_sorts_double", radix_sorts<double>}, {"radix_sorts_byte", radix_sorts<unsigned char>},
                     {"radix_sort_pairs", radix_sort_pairs}, {"merge_sort", merge_sort}, {"selection", selection},
                     {"partition", partition}, {"run_lengths", run_lengths}, {"histogram", histogram},
                     {"segmented_reduction", segmented_reduction}, {"differences", differences},
                     {"block_int", block_primitives<int>}, {"block_int64", block_primitives<long long>},
                     {"warp_8", warp_primitives<8>}, {"warp_32", warp_primitives<32>}, {"warp_64", warp_primitives<64>}});
}
