// Attention for one new token with a paged cache of keys and values: split over the context, then merged.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK_HIP(call)                                                           \
  do {                                                                            \
    hipError_t const result = (call);                                             \
    if (result != hipSuccess) {                                                   \
      std::fprintf(stderr, "HIP failure '%s' at %s:%d\n", hipGetErrorString(result), __FILE__, __LINE__); \
      std::exit(EXIT_FAILURE);                                                    \
    }                                                                             \
  } while (false)

constexpr int HEAD = 64, PAGE = 16, SPLIT = 64;

// One wavefront per (head, split): lane d owns dimension d of the output.
__global__ void __launch_bounds__(HEAD) partial_attention(const __half* query, const __half* keys, const __half* values, const int* pages,
                                                          int context, int heads, float* partial, float2* state) {
  __shared__ float q[HEAD], weight[SPLIT];
  const int head = blockIdx.x, split = blockIdx.y, lane = threadIdx.x, first = split * SPLIT;
  q[lane] = __half2float(query[head * HEAD + lane]) * 0.125f;
  __syncthreads();
  const int position = first + lane;
  float score = -INFINITY;
  if (position < context) {
    const __half2* key = reinterpret_cast<const __half2*>(keys + ((pages[position / PAGE] * PAGE + position % PAGE) * heads + head) * HEAD);
    score = 0;
    for (int d = 0; d < HEAD / 2; d++) {
      const float2 k = __half22float2(key[d]);
      score += q[2 * d] * k.x + q[2 * d + 1] * k.y;
    }
  }
  float largest = score;
  for (int offset = 32; offset; offset >>= 1) largest = fmaxf(largest, __shfl_xor(largest, offset));
  const float w = position < context ? expf(score - largest) : 0;
  float sum = w;
  for (int offset = 32; offset; offset >>= 1) sum += __shfl_xor(sum, offset);
  weight[lane] = w;
  __syncthreads();
  float out = 0;
  for (int j = 0; j < SPLIT && first + j < context; j++) {
    const int p = first + j;
    out += weight[j] * __half2float(values[((pages[p / PAGE] * PAGE + p % PAGE) * heads + head) * HEAD + lane]);
  }
  const int at = head * gridDim.y + split;
  partial[at * HEAD + lane] = out;
  if (lane == 0) state[at] = make_float2(largest, sum);
}

__global__ void merge(const float* partial, const float2* state, int splits, float* out) {
  const int head = blockIdx.x, lane = threadIdx.x;
  float largest = -INFINITY, sum = 0, total = 0;
  for (int s = 0; s < splits; s++) largest = fmaxf(largest, state[head * splits + s].x);
  for (int s = 0; s < splits; s++) {
    const float2 part = state[head * splits + s];
    const float factor = expf(part.x - largest);
    sum += factor * part.y;
    total += factor * partial[(head * splits + s) * HEAD + lane];
  }
  out[head * HEAD + lane] = total / sum;
}

int main() {
  const int heads = 6, context = 210, blocks = (context + PAGE - 1) / PAGE, splits = (context + SPLIT - 1) / SPLIT;
  const size_t cached = size_t(blocks) * PAGE * heads * HEAD;
  std::vector<__half> query(heads * HEAD), keys(cached), values(cached);
  std::vector<int> pages(blocks);
  for (int i = 0; i < blocks; i++) pages[i] = (i * 5 + 3) % blocks;  // a permutation: 14 pages
  for (size_t i = 0; i < query.size(); i++) query[i] = __float2half(std::sin(0.7f * i));
  for (size_t i = 0; i < cached; i++) keys[i] = __float2half(std::cos(0.013f * i)), values[i] = __float2half(float(i % 91) / 45 - 1);
  __half *d_query, *d_keys, *d_values;
  int* d_pages;
  float *d_partial, *d_out;
  float2* d_state;
  CHECK_HIP(hipMalloc(&d_query, query.size() * sizeof(__half)));
  CHECK_HIP(hipMalloc(&d_keys, cached * sizeof(__half)));
  CHECK_HIP(hipMalloc(&d_values, cached * sizeof(__half)));
  CHECK_HIP(hipMalloc(&d_pages, blocks * sizeof(int)));
  CHECK_HIP(hipMalloc(&d_partial, heads * splits * HEAD * sizeof(float)));
  CHECK_HIP(hipMalloc(&d_state, heads * splits * sizeof(float2)));
  CHECK_HIP(hipMalloc(&d_out, heads * HEAD * sizeof(float)));
  CHECK_HIP(hipMemcpy(d_query, query.data(), query.size() * sizeof(__half), hipMemcpyHostToDevice));
  CHECK_HIP(hipMemcpy(d_keys, keys.data(), cached * sizeof(__half), hipMemcpyHostToDevice));
  CHECK_HIP(hipMemcpy(d_values, values.data(), cached * sizeof(__half), hipMemcpyHostToDevice));
  CHECK_HIP(hipMemcpy(d_pages, pages.data(), blocks * sizeof(int), hipMemcpyHostToDevice));
  partial_attention<<<dim3(heads, splits), HEAD>>>(d_query, d_keys, d_values, d_pages, context, heads, d_partial, d_state);
  merge<<<heads, HEAD>>>(d_partial, d_state, splits, d_out);
  CHECK_HIP(hipGetLastError());
  std::vector<float> out(heads * HEAD);
  CHECK_HIP(hipMemcpy(out.data(), d_out, out.size() * sizeof(float), hipMemcpyDeviceToHost));
  double largest = 0;
  for (int h = 0; h < heads; h++) {
    std::vector<double> weight(context), expected(HEAD);
    double sum = 0;
    auto row = [&](int p) { return ((size_t(pages[p / PAGE]) * PAGE + p % PAGE) * heads + h) * HEAD; };
    for (int p = 0; p < context; p++) {
      double score = 0;
      for (int d = 0; d < HEAD; d++) score += double(__half2float(query[h * HEAD + d])) * __half2float(keys[row(p) + d]) / 8;
      sum += weight[p] = std::exp(score);
    }
    for (int p = 0; p < context; p++)
      for (int d = 0; d < HEAD; d++) expected[d] += weight[p] / sum * __half2float(values[row(p) + d]);
    for (int d = 0; d < HEAD; d++) largest = std::fmax(largest, std::fabs(expected[d] - out[h * HEAD + d]));
  }
  const bool right = largest < 1e-5;  // averages of values in [-1, 1], 64 terms at a time
  std::printf("attention: %d heads, context of %d in %d pages, %s\n", heads, context, blocks, right ? "correct" : "wrong");
  for (void* p : {(void*)d_query, (void*)d_keys, (void*)d_values, (void*)d_pages, (void*)d_partial, (void*)d_state, (void*)d_out}) CHECK_HIP(hipFree(p));
  return right ? 0 : 1;
}
