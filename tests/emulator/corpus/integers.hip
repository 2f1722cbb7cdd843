#include <hip/hip_runtime.h>
typedef long long i64;
typedef unsigned long long u64;

extern "C" __global__ void divide32(const int* a, const int* b, int* out, unsigned* uout) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = a[i] / b[i];
  out[i + n] = a[i] % b[i];
  uout[i] = (unsigned)a[i] / (unsigned)b[i];
  uout[i + n] = (unsigned)a[i] % (unsigned)b[i];
  out[i + 2 * n] = a[i] / 7 + a[i] % 1000;
  uout[i + 2 * n] = (unsigned)a[i] / 10 + (unsigned)a[i] % 641;
}

extern "C" __global__ void divide64(const i64* a, const i64* b, i64* out, u64* uout) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = a[i] / b[i];
  out[i + n] = a[i] % b[i];
  uout[i] = (u64)a[i] / (u64)b[i];
  uout[i + n] = (u64)a[i] % (u64)b[i];
  out[i + 2 * n] = a[i] / 1000000007;
  uout[i + 2 * n] = (u64)a[i] % 97;
}

extern "C" __global__ void uniform_divide(u64* out, i64 a, i64 b, int c, int d) {  // scalar unit
  if (threadIdx.x == 0) {
    out[0] = a / b;
    out[1] = a % b;
    out[2] = (u64)a / (u64)b;
    out[3] = c / d;
    out[4] = c % d;
    out[5] = a * b;
    out[6] = (u64)(((__int128)a * b) >> 64);
    out[7] = (i64)((u64)a << (d & 63)) + (a >> (d & 63)) + (i64)((u64)a >> (d & 63));
    out[8] = __popcll(a) + __clzll(b) * 100 + __ffsll(a) * 10000;
    out[9] = __brevll(a);
    out[10] = (u64)abs(c) + (u64)min(c, d) + (u64)max(a, b);
    out[11] = (c > d) + 2 * (a < b) + 4 * ((unsigned)c < (unsigned)d) + 8 * ((u64)a < (u64)b);
  }
}

extern "C" __global__ void multiply(const i64* a, const i64* b, i64* out, int* out2) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = a[i] * b[i];
  out[i + n] = (i64)(((__int128)a[i] * b[i]) >> 64);
  out[i + 2 * n] = (i64)__umul64hi((u64)a[i], (u64)b[i]);
  int x = (int)a[i], y = (int)b[i];
  out2[i] = __mulhi(x, y);
  out2[i + n] = (int)__umulhi((unsigned)x, (unsigned)y);
  out2[i + 2 * n] = __mul24(x, y);
  out2[i + 3 * n] = x * y + 12345;
  out2[i + 4 * n] = (int)__umul24((unsigned)x, (unsigned)y);
}

extern "C" __global__ void bits(const u64* a, int* out, u64* out2) {
  int i = threadIdx.x, n = blockDim.x;
  unsigned x = (unsigned)a[i];
  out[i] = __popc(x) + __popcll(a[i]) * 100;
  out[i + n] = __clz(x) + __clzll(a[i]) * 100;
  out[i + 2 * n] = __ffs(x) + __ffsll(a[i]) * 100;
  out[i + 3 * n] = (int)__brev(x);
  out[i + 4 * n] = (int)__byte_perm(x, (unsigned)(a[i] >> 32), 0x5140);
  out[i + 5 * n] = (int)(x << (i & 31)) ^ ((int)x >> (i & 31));
  out[i + 6 * n] = (int)__bitextract_u32(x, i & 15, 9);
  out[i + 7 * n] = (int)__builtin_rotateleft32(x, i & 31);
  out[i + 8 * n] = __sad((int)x, (int)(a[i] >> 32), 5u);
  out2[i] = __brevll(a[i]);
  out2[i + n] = (a[i] << (i & 63)) ^ (a[i] >> (i & 63)) ^ (u64)((i64)a[i] >> (i & 63));
  out2[i + 2 * n] = __builtin_rotateleft64(a[i], i & 63);
  out2[i + 3 * n] = __builtin_bswap64(a[i]) + __builtin_bswap32(x);
}

extern "C" __global__ void wide_sums(const u64* a, const u64* b, u64* out) {
  int i = threadIdx.x, n = blockDim.x;
  unsigned __int128 x = ((unsigned __int128)a[i] << 64) | b[i], y = ((unsigned __int128)b[i] << 64) | a[i];
  unsigned __int128 s = x + y, d = x - y;
  out[i] = (u64)s;
  out[i + n] = (u64)(s >> 64);
  out[i + 2 * n] = (u64)d;
  out[i + 3 * n] = (u64)(d >> 64);
  out[i + 4 * n] = (x < y) + 2 * (a[i] == b[i]) + 4 * ((i64)a[i] < (i64)b[i]) + 8 * (a[i] <= b[i]);
}

extern "C" __global__ void narrow(const short* a, const unsigned short* b, const signed char* c, int* out) {
  int i = threadIdx.x, n = blockDim.x;
  out[i] = (short)(a[i] + b[i]);
  out[i + n] = (short)(a[i] * b[i]);
  out[i + 2 * n] = (unsigned short)(b[i] >> (i & 15)) + (short)(a[i] >> (i & 15)) + (unsigned short)(a[i] << (i & 7));
  out[i + 3 * n] = max(a[i], (short)c[i]) - min(b[i], (unsigned short)(c[i] & 127));
  out[i + 4 * n] = (signed char)(c[i] * 3) + (unsigned char)(c[i] + 200);
  out[i + 5 * n] = a[i] / (c[i] | 1) + b[i] % (unsigned short)(a[i] | 1);
}

extern "C" __global__ void xorshift(const unsigned* seeds, u64* hits, int rounds) {  // counts points in a quarter circle
  unsigned s = seeds[blockIdx.x * blockDim.x + threadIdx.x];
  u64 inside = 0;
  for (int k = 0; k < rounds; k++) {
    s ^= s << 13; s ^= s >> 17; s ^= s << 5;
    unsigned x = s >> 16;
    s ^= s << 13; s ^= s >> 17; s ^= s << 5;
    unsigned y = s >> 16;
    inside += (u64)x * x + (u64)y * y < (1ull << 32);
  }
  atomicAdd(hits, inside);
}

extern "C" __global__ void philox(unsigned* out, u64 seed, unsigned offset) {  // Philox4x32-10
  unsigned c[4] = {blockIdx.x * blockDim.x + threadIdx.x, offset, 0, 0}, k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
  for (int r = 0; r < 10; r++) {
    u64 p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    unsigned n0 = (unsigned)(p1 >> 32) ^ c[1] ^ k0, n2 = (unsigned)(p0 >> 32) ^ c[3] ^ k1;
    c[1] = (unsigned)p1;
    c[3] = (unsigned)p0;
    c[0] = n0;
    c[2] = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int j = 0; j < 4; j++) out[4 * (blockIdx.x * blockDim.x + threadIdx.x) + j] = c[j];
}

extern "C" __global__ void sha_rounds(const unsigned* message, unsigned* out) {  // SHA-256 rounds without the constants
  unsigned s[8], w[16];
  for (int j = 0; j < 16; j++) w[j] = message[threadIdx.x * 16 + j];
  for (int j = 0; j < 8; j++) s[j] = 0x6a09e667u * (j + 1);
#define ROR(x, n) (((x) >> (n)) | ((x) << (32 - (n))))
  for (int j = 0; j < 64; j++) {
    if (j >= 16) {
      unsigned a = w[(j + 1) & 15], b = w[(j + 14) & 15];
      w[j & 15] += (ROR(a, 7) ^ ROR(a, 18) ^ (a >> 3)) + w[(j + 9) & 15] + (ROR(b, 17) ^ ROR(b, 19) ^ (b >> 10));
    }
    unsigned t1 = s[7] + (ROR(s[4], 6) ^ ROR(s[4], 11) ^ ROR(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + w[j & 15];
    unsigned t2 = (ROR(s[0], 2) ^ ROR(s[0], 13) ^ ROR(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    for (int k = 7; k > 0; k--) s[k] = s[k - 1];
    s[4] += t1;
    s[0] = t1 + t2;
  }
  for (int j = 0; j < 8; j++) out[threadIdx.x * 8 + j] = s[j];
}
