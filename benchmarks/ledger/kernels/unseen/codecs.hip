/* Codecs, ciphers and image code, plain C style. */
#include <hip/hip_runtime.h>
#include <stdint.h>

#define ROTL(x, n) ((x) << (n) | (x) >> (32 - (n)))
#define QR(a, b, c, d) do { a += b; d ^= a; d = ROTL(d, 16); c += d; b ^= c; b = ROTL(b, 12); \
                            a += b; d ^= a; d = ROTL(d, 8); c += d; b ^= c; b = ROTL(b, 7); } while (0)

/* key stretching with the ChaCha permutation */
extern "C" __global__ void stretch_key(uint32_t *out, uint4 key, int rounds)
{
    uint32_t id = blockIdx.x * blockDim.x + threadIdx.x, x[16], i;
    for (i = 0; i < 16; i++) x[i] = key.x * (i + 1) ^ key.y ^ ROTL(key.z, 9) ^ (key.w + id);
    for (int r = 0; r < rounds; r++) {
        QR(x[0], x[4], x[8], x[12]);  QR(x[1], x[5], x[9], x[13]);
        QR(x[2], x[6], x[10], x[14]); QR(x[3], x[7], x[11], x[15]);
        QR(x[0], x[5], x[10], x[15]); QR(x[1], x[6], x[11], x[12]);
        QR(x[2], x[7], x[8], x[13]);  QR(x[3], x[4], x[9], x[14]);
    }
    out[id] = x[0] ^ x[5] ^ x[10] ^ x[15];
}

/* local binary pattern on a circle of radius 3; a thread walks down a column */
extern "C" __global__ void binary_pattern(const uint8_t *img, uint8_t *lbp, int pitch, int rows)
{
    const int dx[12] = {3, 3, 1, 0, -2, -3, -3, -3, -1, 0, 2, 3}, dy[12] = {0, 1, 3, 3, 2, 1, 0, -2, -3, -3, -2, -1};
    int x = blockIdx.x * blockDim.x + threadIdx.x + 4;
    for (int r = 0; r < rows; r++) {
        int y = blockIdx.y * rows + r + 4, c = img[y * pitch + x], code = 0;
        #pragma unroll
        for (int k = 0; k < 12; k++) code += img[(y + dy[k]) * pitch + x + dx[k]] > c;
        lbp[y * pitch + x] = (uint8_t)code;
    }
}

/* gamma of 8-bit pixels, exactly as in the reference */
extern "C" __global__ void apply_gamma(const uint32_t *in, uint32_t *out, double gamma)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t p = in[i], r = 0;
    for (int c = 0; c < 4; c++) {
        double v = (p >> (8 * c) & 255) / 255.0;
        r |= (uint32_t)(pow(v, gamma) * 255.0 + 0.5) << (8 * c);
    }
    out[i] = r;
}

/* membership bitmap of 60 KiB per block */
#define WORDS 15360
extern "C" __global__ void __launch_bounds__(64) build_bitmap(const uint32_t *keys, uint32_t *bitmaps, int per_block)
{
    __shared__ uint32_t map[WORDS];
    const uint32_t *k = keys + (size_t)blockIdx.x * per_block;
    for (int i = threadIdx.x; i < WORDS; i += 64) map[i] = 0;
    __syncthreads();
    #pragma unroll 1
    for (int i = threadIdx.x; i < per_block; i += 64) {
        uint32_t h = k[i] * 0x9e3779b1u;
        atomicOr(&map[(h >> 16) % WORDS], 1u << (h & 31));
    }
    __syncthreads();
    for (int i = threadIdx.x; i < WORDS; i += 64) bitmaps[(size_t)blockIdx.x * WORDS + i] = map[i];
}

/* columns of a 64 x 64 block: in-place Haar transform, one lane per column pair of rows */
extern "C" __global__ void __launch_bounds__(64) haar_rows(float *blocks, int levels)
{
    __shared__ float t[64][64];
    float *b = blocks + (size_t)blockIdx.x * 4096;
    for (int i = 0; i < 64; i++) t[i][threadIdx.x] = b[i * 64 + threadIdx.x];
    __syncthreads();
    float *row = t[threadIdx.x];
    for (int l = 0, n = 64; l < levels; l++, n >>= 1) {
        for (int k = 0; k < n / 2; k++) {
            float p = row[k << (l + 1)], q = row[(k << (l + 1)) + (1 << l)];
            row[k << (l + 1)] = (p + q) * 0.5f;
            row[(k << (l + 1)) + (1 << l)] = p - q;
        }
    }
    __syncthreads();
    for (int i = 0; i < 64; i++) b[i * 64 + threadIdx.x] = t[i][threadIdx.x];
}

/* summed rows of 32 x 32 tiles: a lane walks along its row */
extern "C" __global__ void __launch_bounds__(256) integral_rows(const float *in, float *out, int repeat)
{
    __shared__ float t[8][32][32];
    int lane = threadIdx.x & 31, which = threadIdx.x >> 5;
    const float *src = in + ((size_t)blockIdx.x * 8 + which) * 1024;
    float *dst = out + ((size_t)blockIdx.x * 8 + which) * 1024;
    for (int r = 0; r < 32; r++) t[which][r][lane] = src[r * 32 + lane];
    __syncthreads();
    for (int k = 0; k < repeat; k++) {
        float s = 0.0f;
        for (int c = 0; c < 32; c++) { s += t[which][lane][c]; t[which][lane][c] = s * 0.5f; }
    }
    __syncthreads();
    for (int r = 0; r < 32; r++) dst[r * 32 + lane] = t[which][r][lane];
}

/* dictionary decoder: follow the chain of prefixes of every code, one stream per wavefront */
extern "C" __global__ void __launch_bounds__(256) follow_prefixes(const uint32_t *dictionary, const uint32_t *codes, uint32_t *out, int count)
{
    __shared__ uint32_t d[7680];
    for (int i = threadIdx.x; i < 7680; i += 256) d[i] = dictionary[i];
    __syncthreads();
    uint32_t sum = 0, stream = (blockIdx.x * 256 + threadIdx.x) / 64;
    for (int c = 0; c < count; c++) {
        uint32_t at = codes[(stream * 7 + c) % 4096] % 7680;
        while (at >= 256) { uint32_t e = d[at]; sum += e >> 24; at = e & 0xffff; }
        sum += at;
    }
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

/* bit-sliced substitution network, generated; every step has its own constant */
template <int I, int N> static __device__ __forceinline__ void network(uint32_t (&s)[40])
{
    if constexpr (N == 1) {
        constexpr uint32_t k = (uint32_t)(I + 1) * 2654435761u;
        s[I * 7 % 40] = (s[(I * 13 + 5) % 40] ^ k) + s[I * 7 % 40];
    } else {
        network<I, N / 2>(s);
        network<I + N / 2, N - N / 2>(s);
    }
}
extern "C" __global__ void __launch_bounds__(256) sbox_network(uint32_t *state)
{
    size_t i = (size_t)blockIdx.x * 256 + threadIdx.x, n = (size_t)gridDim.x * 256;
    uint32_t s[40];
    #pragma unroll
    for (int k = 0; k < 40; k++) s[k] = state[k * n + i];
    network<0, 5200>(s);
    #pragma unroll
    for (int k = 0; k < 40; k++) state[k * n + i] = s[k];
}

/* a program per block: the next instruction depends on the loaded one */
extern "C" __global__ void __launch_bounds__(64) run_program(const uint4 *__restrict__ program, const float *__restrict__ x, float *__restrict__ y, int steps, unsigned mask)
{
    float a = x[threadIdx.x], b = 1.0f;
    unsigned pc = blockIdx.x * 97u & mask;
    for (int s = 0; s < steps; s++) {
        uint4 op = program[pc];
        b = a;
        a = fmaf(a, __uint_as_float(op.y), __uint_as_float(op.z));
        a = op.w & 1 ? a : b * 0.5f;
        pc = op.x & mask;
    }
    y[blockIdx.x * 64 + threadIdx.x] = a + b;
}
