// rocThrust against the C++ standard library, on device vectors.
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/gather.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/merge.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>
#include "algorithms.h"

static const size_t sizes[] = {1, 100, 20011};
template <class T>
using Device = thrust::device_vector<T>;

template <class T>
static void equal(const Device<T>& device, const std::vector<T>& expected) {
  EQUAL(device.size(), expected.size());
  same(thrust::raw_pointer_cast(device.data()), expected);
}

template <class T>
void sorts() {
  for (size_t n : sizes) {
    auto values = random_values<T>(n);
    Device<T> on_device(values);
    thrust::sort(on_device.begin(), on_device.end());
    std::sort(values.begin(), values.end());
    equal(on_device, values);
    thrust::stable_sort(on_device.begin(), on_device.end(), [] __host__ __device__(T x, T y) { return x > y; });
    std::reverse(values.begin(), values.end());
    equal(on_device, values);
  }
}
void sort_by_key() {
  auto keys = random_values<int>(20011, 100);
  std::vector<int> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  Device<int> k(keys), v(order);
  thrust::stable_sort_by_key(k.begin(), k.end(), v.begin());
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return keys[x] < keys[y]; });
  equal(v, order);
}
template <class T>
void reductions() {
  for (size_t n : sizes) {
    auto values = random_values<T>(n, 100);
    Device<T> d(values);
    EQUAL(thrust::reduce(d.begin(), d.end()), std::accumulate(values.begin(), values.end(), T(0)));
    EQUAL(thrust::max_element(d.begin(), d.end()) - d.begin(), std::max_element(values.begin(), values.end()) - values.begin());
    EQUAL(thrust::count_if(d.begin(), d.end(), [] __host__ __device__(T x) { return x < T(30); }), std::count_if(values.begin(), values.end(), [](T x) { return x < T(30); }));
    T squares = thrust::transform_reduce(d.begin(), d.end(), [] __host__ __device__(T x) { return x * x; }, T(0), thrust::plus<T>());
    EQUAL(squares, std::inner_product(values.begin(), values.end(), values.begin(), T(0)));
  }
}
template <class T>
void scans() {
  for (size_t n : sizes) {
    auto values = random_values<T>(n, 100);
    std::vector<T> expected(n);
    Device<T> d(values), out(n);
    thrust::inclusive_scan(d.begin(), d.end(), out.begin());
    std::partial_sum(values.begin(), values.end(), expected.begin());
    equal(out, expected);
    thrust::exclusive_scan(d.begin(), d.end(), out.begin(), T(3));
    std::exclusive_scan(values.begin(), values.end(), expected.begin(), T(3));
    equal(out, expected);
  }
}
void by_key() {
  const size_t n = 20011;
  auto values = random_values<int>(n, 100);
  std::vector<int> keys(n), unique, sums, scanned(n);
  for (size_t i = 0; i < n; i++) {
    keys[i] = int(i / 37);
    if (unique.empty() || unique.back() != keys[i]) unique.push_back(keys[i]), sums.push_back(0);
    sums.back() += values[i];
    scanned[i] = sums.back();
  }
  Device<int> k(keys), v(values), unique_out(n), sums_out(n), scan_out(n);
  auto ends = thrust::reduce_by_key(k.begin(), k.end(), v.begin(), unique_out.begin(), sums_out.begin());
  unique_out.resize(ends.first - unique_out.begin());
  sums_out.resize(ends.second - sums_out.begin());
  equal(unique_out, unique);
  equal(sums_out, sums);
  thrust::inclusive_scan_by_key(k.begin(), k.end(), v.begin(), scan_out.begin());
  equal(scan_out, scanned);
}
void removals() {
  auto values = random_values<int>(20011, 20);
  auto odd = [] __host__ __device__(int x) { return x % 2 == 1; };
  Device<int> d(values), copied(values.size());
  copied.resize(thrust::copy_if(d.begin(), d.end(), copied.begin(), odd) - copied.begin());
  std::vector<int> expected;
  std::copy_if(values.begin(), values.end(), std::back_inserter(expected), odd);
  equal(copied, expected);
  d.resize(thrust::unique(d.begin(), d.end()) - d.begin());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  equal(d, values);
  d.resize(thrust::remove_if(d.begin(), d.end(), odd) - d.begin());
  values.erase(std::remove_if(values.begin(), values.end(), odd), values.end());
  equal(d, values);
}
void partitions() {
  auto values = random_values<int>(20011);
  auto positive = [] __host__ __device__(int x) { return x > 0; };
  Device<int> d(values);
  auto middle = thrust::stable_partition(d.begin(), d.end(), positive);
  auto expected = std::stable_partition(values.begin(), values.end(), positive);
  EQUAL(middle - d.begin(), expected - values.begin());
  equal(d, values);
}
void merges_and_sets() {
  auto first = random_values<int>(7001, 5000), second = random_values<int>(3000, 5000);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  Device<int> a(first), b(second), out(10001);
  std::vector<int> merged, common, all, rest;
  thrust::merge(a.begin(), a.end(), b.begin(), b.end(), out.begin());
  std::merge(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(merged));
  equal(out, merged);
  out.resize(thrust::set_intersection(a.begin(), a.end(), b.begin(), b.end(), out.begin()) - out.begin());
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(common));
  equal(out, common);
  out.resize(10001);
  out.resize(thrust::set_union(a.begin(), a.end(), b.begin(), b.end(), out.begin()) - out.begin());
  std::set_union(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(all));
  equal(out, all);
  out.resize(10001);
  out.resize(thrust::set_difference(a.begin(), a.end(), b.begin(), b.end(), out.begin()) - out.begin());
  std::set_difference(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(rest));
  equal(out, rest);
}
void searches() {
  auto haystack = random_values<int>(5000, 3000), needles = random_values<int>(2000, 3000);
  std::sort(haystack.begin(), haystack.end());
  Device<int> h(haystack), n(needles), out(needles.size());
  std::vector<int> expected;
  for (int x : needles) expected.push_back(int(std::lower_bound(haystack.begin(), haystack.end(), x) - haystack.begin()));
  thrust::lower_bound(h.begin(), h.end(), n.begin(), n.end(), out.begin());
  equal(out, expected);
}
template <class T>
void transforms() {
  for (size_t n : sizes) {
    auto x = random_values<T>(n, 1000), y = random_values<T>(n, 77);
    std::vector<T> expected(n), differences(n);
    Device<T> dx(x), dy(y), out(n);
    thrust::transform(dx.begin(), dx.end(), dy.begin(), out.begin(), [] __host__ __device__(T a, T b) { return T(3) * a + b; });
    for (size_t i = 0; i < n; i++) expected[i] = T(3) * x[i] + y[i];
    equal(out, expected);
    thrust::adjacent_difference(dx.begin(), dx.end(), out.begin());
    std::adjacent_difference(x.begin(), x.end(), differences.begin());
    equal(out, differences);
  }
}
void gathers() {
  const int n = 20011;
  auto values = random_values<int>(n);
  std::vector<int> map(n), expected(n);
  for (int i = 0; i < n; i++) map[i] = int(i * 7919ll % n), expected[i] = values[map[i]];
  Device<int> d(values), m(map), out(n), sequence(n);
  thrust::gather(m.begin(), m.end(), d.begin(), out.begin());
  equal(out, expected);
  thrust::copy(thrust::counting_iterator<int>(5), thrust::counting_iterator<int>(5 + n), sequence.begin());
  std::iota(expected.begin(), expected.end(), 5);
  equal(sequence, expected);
}

int main(int argc, char** argv) {
  return run_checks(argc, argv,
                    {{"sorts_int", sorts<int>}, {"sorts_double", sorts<double>}, {"sorts_int64", sorts<long long>},
                     {"sort_by_key", sort_by_key}, {"reductions_int", reductions<int>}, {"reductions_double", reductions<double>},
                     {"scans_int", scans<int>}, {"scans_int64", scans<long long>}, {"by_key", by_key}, {"removals", removals},
                     {"partitions", partitions}, {"merges_and_sets", merges_and_sets}, {"searches", searches},
                     {"transforms_int", transforms<int>}, {"transforms_float", transforms<float>}, {"gathers", gathers}});
}
