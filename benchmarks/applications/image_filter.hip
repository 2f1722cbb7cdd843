// Image filters without textures: luminance, median of nine, Sobel edges and a bilinear enlargement.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define HIP_CHECK_ERROR(call)                                                        \
  do {                                                                               \
    const hipError_t hip_error = (call);                                             \
    if (hip_error != hipSuccess) {                                                   \
      std::fprintf(stderr, "Fatal HIP error %s (line %d)\n", hipGetErrorString(hip_error), __LINE__); \
      std::exit(1);                                                                  \
    }                                                                                \
  } while (0)

template <typename Pixel>
struct Image {
  Pixel* data;
  int width, height;
  __host__ __device__ Pixel& operator()(int x, int y) const { return data[y * width + x]; }
  __host__ __device__ Pixel clamped(int x, int y) const {
    x = x < 0 ? 0 : x >= width ? width - 1 : x;
    y = y < 0 ? 0 : y >= height ? height - 1 : y;
    return data[y * width + x];
  }
};

__host__ __device__ inline uint8_t luminance(uchar4 p) { return uint8_t((77 * p.x + 150 * p.y + 29 * p.z) >> 8); }

__host__ __device__ inline uint8_t median(const Image<uint8_t>& in, int x, int y) {
  uint8_t v[9];
  for (int k = 0; k < 9; k++) v[k] = in.clamped(x + k % 3 - 1, y + k / 3 - 1);
  for (int i = 0; i < 5; i++)  // selection up to the middle
    for (int j = i + 1; j < 9; j++)
      if (v[j] < v[i]) {
        const uint8_t t = v[i];
        v[i] = v[j];
        v[j] = t;
      }
  return v[4];
}

__host__ __device__ inline uint8_t sobel(const Image<uint8_t>& in, int x, int y) {
  const int dx = in.clamped(x + 1, y - 1) + 2 * in.clamped(x + 1, y) + in.clamped(x + 1, y + 1) - in.clamped(x - 1, y - 1) -
                 2 * in.clamped(x - 1, y) - in.clamped(x - 1, y + 1);
  const int dy = in.clamped(x - 1, y + 1) + 2 * in.clamped(x, y + 1) + in.clamped(x + 1, y + 1) - in.clamped(x - 1, y - 1) -
                 2 * in.clamped(x, y - 1) - in.clamped(x + 1, y - 1);
  const int sum = abs(dx) + abs(dy);
  return uint8_t(sum < 255 ? sum : 255);
}

__host__ __device__ inline uint8_t bilinear(const Image<uint8_t>& in, int x, int y) {  // factor 3/2, 8 fractional bits
  const int u = x * 512 / 3, v = y * 512 / 3, fu = u & 255, fv = v & 255;
  const int top = in.clamped(u >> 8, v >> 8) * (256 - fu) + in.clamped((u >> 8) + 1, v >> 8) * fu;
  const int bottom = in.clamped(u >> 8, (v >> 8) + 1) * (256 - fu) + in.clamped((u >> 8) + 1, (v >> 8) + 1) * fu;
  return uint8_t((top * (256 - fv) + bottom * fv) >> 16);
}

__global__ void to_grey(Image<uchar4> in, Image<uint8_t> out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < out.width && y < out.height) out(x, y) = luminance(in(x, y));
}

template <uint8_t (*Filter)(const Image<uint8_t>&, int, int)>
__global__ void apply(Image<uint8_t> in, Image<uint8_t> out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < out.width && y < out.height) out(x, y) = Filter(in, x, y);
}

template <typename Pixel>
static Image<Pixel> device_image(int width, int height) {
  Image<Pixel> image = {nullptr, width, height};
  HIP_CHECK_ERROR(hipMalloc(&image.data, width * height * sizeof(Pixel)));
  return image;
}

static unsigned checksum(const std::vector<uint8_t>& bytes) {  // FNV-1a
  unsigned h = 2166136261u;
  for (uint8_t b : bytes) h = (h ^ b) * 16777619u;
  return h;
}

int main() {
  const int w = 121, h = 67, w2 = w * 3 / 2, h2 = h * 3 / 2;
  std::vector<uchar4> colours(w * h);
  for (int i = 0; i < w * h; i++) {
    const unsigned noise = unsigned(i) * 2654435761u >> 28;
    colours[i] = make_uchar4((unsigned char)(i % w * 2), (unsigned char)(i / w * 3), (unsigned char)(noise * 16), 255);
  }
  auto in = device_image<uchar4>(w, h);
  auto grey = device_image<uint8_t>(w, h), smooth = device_image<uint8_t>(w, h), edges = device_image<uint8_t>(w, h);
  auto large = device_image<uint8_t>(w2, h2);
  HIP_CHECK_ERROR(hipMemcpy(in.data, colours.data(), colours.size() * sizeof(uchar4), hipMemcpyHostToDevice));
  auto blocks = [](int width, int height) { return dim3((width + 31) / 32, (height + 7) / 8); };
  const dim3 block(32, 8);
  to_grey<<<blocks(w, h), block>>>(in, grey);
  apply<median><<<blocks(w, h), block>>>(grey, smooth);
  apply<sobel><<<blocks(w, h), block>>>(smooth, edges);
  apply<bilinear><<<blocks(w2, h2), block>>>(edges, large);
  HIP_CHECK_ERROR(hipGetLastError());
  std::vector<uint8_t> result(w2 * h2), a(w * h), b(w * h), c(w * h), expected(w2 * h2);
  HIP_CHECK_ERROR(hipMemcpy(result.data(), large.data, result.size(), hipMemcpyDeviceToHost));
  for (int i = 0; i < w * h; i++) a[i] = luminance(colours[i]);
  for (int i = 0; i < w * h; i++) b[i] = median({a.data(), w, h}, i % w, i / w);
  for (int i = 0; i < w * h; i++) c[i] = sobel({b.data(), w, h}, i % w, i / w);
  for (int i = 0; i < w2 * h2; i++) expected[i] = bilinear({c.data(), w, h}, i % w2, i / w2);
  std::printf("image filters: %dx%d, checksum %08x, %s\n", w2, h2, checksum(result), result == expected ? "equal" : "DIFFERENT");
  HIP_CHECK_ERROR(hipFree(in.data));
  for (auto& image : {grey, smooth, edges, large}) HIP_CHECK_ERROR(hipFree(image.data));
  return result == expected ? 0 : 1;
}
