// Device-wide algorithms of rocPRIM against the C++ standard library, for several types and sizes.
#include <rocprim/rocprim.hpp>
#include "algorithms.h"

static const size_t sizes[] = {1, 64, 1000, 20011};

template <class T>
void radix_sort_keys() {
  for (size_t n : sizes) {
    Arrays a;
    auto keys = random_values<T>(n);
    T *in = a.in(keys), *out = a.out<T>(n);
    run([&](void* t, size_t& s) { return rocprim::radix_sort_keys(t, s, in, out, n); });
    std::sort(keys.begin(), keys.end());
    same(out, keys);
    run([&](void* t, size_t& s) { return rocprim::radix_sort_keys_desc(t, s, in, out, n); });
    std::reverse(keys.begin(), keys.end());
    same(out, keys);
  }
}
void radix_sort_pairs() {
  for (size_t n : sizes) {
    Arrays a;
    auto keys = random_values<unsigned>(n, 1000);
    std::vector<unsigned> order(n), sorted(n);
    std::iota(order.begin(), order.end(), 0u);
    unsigned *in = a.in(keys), *out = a.out<unsigned>(n), *values = a.in(order), *moved = a.out<unsigned>(n);
    run([&](void* t, size_t& s) { return rocprim::radix_sort_pairs(t, s, in, out, values, moved, n); });
    std::stable_sort(order.begin(), order.end(), [&](unsigned x, unsigned y) { return keys[x] < keys[y]; });
    same(moved, order);
    for (size_t i = 0; i < n; i++) sorted[i] = keys[order[i]];
    same(out, sorted);
  }
}
void segmented_radix_sort() {
  const size_t n = 10000;
  Arrays a;
  auto keys = random_values<unsigned>(n);
  std::vector<unsigned> offsets = {0, 1, 1, 40, 400, 5000, 10000};
  unsigned *in = a.in(keys), *out = a.out<unsigned>(n), *at = a.in(offsets);
  run([&](void* t, size_t& s) { return rocprim::segmented_radix_sort_keys(t, s, in, out, unsigned(n), unsigned(offsets.size() - 1), at, at + 1); });
  for (size_t i = 0; i + 1 < offsets.size(); i++) std::sort(keys.begin() + offsets[i], keys.begin() + offsets[i + 1]);
  same(out, keys);
}
template <class T>
void merge_sort() {
  for (size_t n : sizes) {
    Arrays a;
    auto keys = random_values<T>(n);
    T *in = a.in(keys), *out = a.out<T>(n);
    run([&](void* t, size_t& s) { return rocprim::merge_sort(t, s, in, out, n, rocprim::greater<T>()); });
    std::sort(keys.begin(), keys.end(), std::greater<T>());
    same(out, keys);
  }
}
template <class T>
void scans() {
  for (size_t n : sizes) {
    Arrays a;
    auto values = random_values<T>(n, 100);
    std::vector<T> expected(n);
    T *in = a.in(values), *out = a.out<T>(n);
    run([&](void* t, size_t& s) { return rocprim::inclusive_scan(t, s, in, out, n, rocprim::plus<T>()); });
    std::partial_sum(values.begin(), values.end(), expected.begin());
    same(out, expected);
    run([&](void* t, size_t& s) { return rocprim::exclusive_scan(t, s, in, out, T(5), n, rocprim::plus<T>()); });
    T sum = 5;
    for (size_t i = 0; i < n; i++) {
      expected[i] = sum;
      sum += values[i];
    }
    same(out, expected);
  }
}
void scan_by_key() {
  const size_t n = 20000;
  Arrays a;
  auto values = random_values<int>(n, 100);
  std::vector<int> keys(n), expected(n);
  for (size_t i = 0; i < n; i++) keys[i] = int(i / 37);
  for (size_t i = 0; i < n; i++) expected[i] = values[i] + (i && keys[i] == keys[i - 1] ? expected[i - 1] : 0);
  int *k = a.in(keys), *in = a.in(values), *out = a.out<int>(n);
  run([&](void* t, size_t& s) { return rocprim::inclusive_scan_by_key(t, s, k, in, out, n, rocprim::plus<int>()); });
  same(out, expected);
}
template <class T>
void reductions() {
  for (size_t n : sizes) {
    Arrays a;
    auto values = random_values<T>(n, 100);
    T *in = a.in(values), *out = a.out<T>(1);
    run([&](void* t, size_t& s) { return rocprim::reduce(t, s, in, out, n, rocprim::plus<T>()); });
    same(out, std::vector<T>{std::accumulate(values.begin(), values.end(), T(0))});
    run([&](void* t, size_t& s) { return rocprim::reduce(t, s, in, out, T(0), n, rocprim::maximum<T>()); });
    same(out, std::vector<T>{*std::max_element(values.begin(), values.end())});
  }
}
void segmented_reduction() {
  Arrays a;
  auto values = random_values<int>(10000, 100);
  std::vector<int> offsets = {0, 10, 10, 500, 10000}, expected;
  int *in = a.in(values), *at = a.in(offsets), *out = a.out<int>(4);
  run([&](void* t, size_t& s) { return rocprim::segmented_reduce(t, s, in, out, 4, at, at + 1, rocprim::plus<int>(), 0); });
  for (int i = 0; i < 4; i++) expected.push_back(std::accumulate(values.begin() + offsets[i], values.begin() + offsets[i + 1], 0));
  same(out, expected);
}
void reduction_by_key() {
  const size_t n = 20000;
  Arrays a;
  auto values = random_values<int>(n, 100);
  std::vector<int> keys(n), unique, sums;
  for (size_t i = 0; i < n; i++) {
    keys[i] = int(i * i / 100000);
    if (unique.empty() || unique.back() != keys[i]) unique.push_back(keys[i]), sums.push_back(0);
    sums.back() += values[i];
  }
  int *k = a.in(keys), *in = a.in(values), *unique_out = a.out<int>(n), *sums_out = a.out<int>(n);
  size_t* count = a.out<size_t>(1);
  run([&](void* t, size_t& s) { return rocprim::reduce_by_key(t, s, k, in, n, unique_out, sums_out, count); });
  same(count, std::vector<size_t>{unique.size()});
  same(unique_out, unique);
  same(sums_out, sums);
}
void selection() {
  for (size_t n : sizes) {
    Arrays a;
    auto values = random_values<unsigned>(n, 50);
    std::vector<unsigned char> flags(n);
    std::vector<unsigned> by_flag, by_predicate, unique;
    for (size_t i = 0; i < n; i++) {
      flags[i] = i % 3 == 1;
      if (flags[i]) by_flag.push_back(values[i]);
      if (values[i] % 4 == 0) by_predicate.push_back(values[i]);
      if (unique.empty() || unique.back() != values[i]) unique.push_back(values[i]);
    }
    unsigned *in = a.in(values), *out = a.out<unsigned>(n);
    auto* device_flags = a.in(flags);
    size_t* count = a.out<size_t>(1);
    run([&](void* t, size_t& s) { return rocprim::select(t, s, in, device_flags, out, count, n); });
    same(count, std::vector<size_t>{by_flag.size()});
    same(out, by_flag);
    run([&](void* t, size_t& s) { return rocprim::select(t, s, in, out, count, n, [] __device__(unsigned x) { return x % 4 == 0; }); });
    same(count, std::vector<size_t>{by_predicate.size()});
    same(out, by_predicate);
    run([&](void* t, size_t& s) { return rocprim::unique(t, s, in, out, count, n); });
    same(count, std::vector<size_t>{unique.size()});
    same(out, unique);
  }
}
void partition() {
  for (size_t n : sizes) {
    Arrays a;
    auto values = random_values<unsigned>(n, 1000);
    std::vector<unsigned> first, second;
    for (unsigned x : values) (x < 300 ? first : second).push_back(x);
    unsigned *in = a.in(values), *out = a.out<unsigned>(n), *count = a.out<unsigned>(1);
    run([&](void* t, size_t& s) { return rocprim::partition(t, s, in, out, count, n, [] __device__(unsigned x) { return x < 300; }); });
    same(count, std::vector<unsigned>{unsigned(first.size())});
    // The rest is at the end, in reverse order.
    first.insert(first.end(), second.rbegin(), second.rend());
    same(out, first);
  }
}
void run_length_encode() {
  const size_t n = 20000;
  Arrays a;
  std::vector<int> values(n), unique;
  std::vector<unsigned> lengths;
  for (size_t i = 0; i < n; i++) {
    values[i] = int(i / (1 + i % 7 / 6 * 20));
    if (unique.empty() || unique.back() != values[i]) unique.push_back(values[i]), lengths.push_back(0);
    lengths.back()++;
  }
  int *in = a.in(values), *out = a.out<int>(n);
  unsigned *counts = a.out<unsigned>(n), *runs = a.out<unsigned>(1);
  run([&](void* t, size_t& s) { return rocprim::run_length_encode(t, s, in, unsigned(n), out, counts, runs); });
  same(runs, std::vector<unsigned>{unsigned(unique.size())});
  same(out, unique);
  same(counts, lengths);
}
void histograms() {
  const size_t n = 20000;
  Arrays a;
  auto values = random_values<int>(n, 1000);
  std::vector<int> even(10), ranges(3);
  std::vector<int> borders = {0, 100, 101, 900};
  for (int x : values) {
    even[x / 100]++;
    for (int i = 0; i < 3; i++) ranges[i] += x >= borders[i] && x < borders[i + 1];
  }
  int *in = a.in(values), *out = a.out<int>(10), *levels = a.in(borders);
  run([&](void* t, size_t& s) { return rocprim::histogram_even(t, s, in, unsigned(n), out, 11, 0, 1000); });
  same(out, even);
  run([&](void* t, size_t& s) { return rocprim::histogram_range(t, s, in, unsigned(n), out, 4, levels); });
  same(out, ranges);
}
void searches() {
  Arrays a;
  auto haystack = random_values<int>(5000, 3000), needles = random_values<int>(2000, 3000);
  std::sort(haystack.begin(), haystack.end());
  std::vector<size_t> lower, upper;
  std::vector<unsigned char> found;
  for (int x : needles) {
    lower.push_back(std::lower_bound(haystack.begin(), haystack.end(), x) - haystack.begin());
    upper.push_back(std::upper_bound(haystack.begin(), haystack.end(), x) - haystack.begin());
    found.push_back(lower.back() != upper.back());
  }
  int *h = a.in(haystack), *n = a.in(needles);
  size_t* out = a.out<size_t>(2000);
  auto* is_in = a.out<unsigned char>(2000);
  run([&](void* t, size_t& s) { return rocprim::lower_bound(t, s, h, n, out, 5000, 2000); });
  same(out, lower);
  run([&](void* t, size_t& s) { return rocprim::upper_bound(t, s, h, n, out, 5000, 2000); });
  same(out, upper);
  run([&](void* t, size_t& s) { return rocprim::binary_search(t, s, h, n, is_in, 5000, 2000); });
  same(is_in, found);
}
void merge() {
  Arrays a;
  auto first = random_values<int>(7001), second = random_values<int>(3000);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  std::vector<int> merged(10001);
  std::merge(first.begin(), first.end(), second.begin(), second.end(), merged.begin());
  int *x = a.in(first), *y = a.in(second), *out = a.out<int>(10001);
  run([&](void* t, size_t& s) { return rocprim::merge(t, s, x, y, out, 7001, 3000); });
  same(out, merged);
}
void differences() {
  Arrays a;
  auto values = random_values<int>(20011);
  std::vector<int> expected(values.size());
  std::adjacent_difference(values.begin(), values.end(), expected.begin());
  int *in = a.in(values), *out = a.out<int>(values.size());
  run([&](void* t, size_t& s) { return rocprim::adjacent_difference(t, s, in, out, values.size()); });
  same(out, expected);
}
void nth() {
  Arrays a;
  auto values = random_values<int>(20011);
  int *in = a.in(values), *out = a.out<int>(values.size());
  run([&](void* t, size_t& s) { return rocprim::nth_element(t, s, in, out, 777, values.size()); });
  std::sort(values.begin(), values.end());
  same(out + 777, std::vector<int>{values[777]});
}
void partial_sort() {
  Arrays a;
  auto values = random_values<int>(10000);
  int *in = a.in(values), *out = a.out<int>(values.size());
  run([&](void* t, size_t& s) { return rocprim::partial_sort_copy(t, s, in, out, 500, values.size()); });
  std::sort(values.begin(), values.end());
  values.resize(500);
  same(out, values);
}

int main(int argc, char** argv) {
  return run_checks(argc, argv,
                    {{"radix_sort_int", radix_sort_keys<int>}, {"radix_sort_float", radix_sort_keys<float>},
                     {"radix_sort_int64", radix_sort_keys<long long>}, {"radix_sort_byte", radix_sort_keys<unsigned char>},
                     {"radix_sort_pairs", radix_sort_pairs}, {"segmented_radix_sort", segmented_radix_sort},
                     {"merge_sort_int", merge_sort<int>}, {"merge_sort_double", merge_sort<double>}, {"scans_int", scans<int>},
                     {"scans_int64", scans<long long>}, {"scan_by_key", scan_by_key}, {"reductions_int", reductions<int>},
                     {"reductions_double", reductions<double>}, {"segmented_reduction", segmented_reduction},
                     {"reduction_by_key", reduction_by_key}, {"selection", selection}, {"partition", partition},
                     {"run_length_encode", run_length_encode}, {"histograms", histograms}, {"searches", searches}, {"merge", merge},
                     {"differences", differences}, {"nth", nth}, {"partial_sort", partial_sort}});
}
