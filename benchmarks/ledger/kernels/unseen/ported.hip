// Kernels in the style of CUDA sample suites, as hipify leaves them.
#include "hip/hip_runtime.h"

#define BLOCK_SIZE 256
#define THREADS_PER_ROW 16

/* feature matrix: one row per point -> one row per feature */
extern "C" __global__ void invert_mapping(float *input, float *output, int npoints, int nfeatures)
{
    int point_id = threadIdx.x + blockDim.x * blockIdx.x;
    if (point_id < npoints) {
        for (int i = 0; i < nfeatures; i++)
            output[point_id + npoints * i] = input[point_id * nfeatures + i];
    }
}

/* bounding box of a mesh; vertices as they come from the file */
typedef struct {
    float px, py, pz;
    float nx, ny, nz;
    float tx, ty, tz, tw;
    float u0, v0, u1, v1;
    float weights[4];
    int   bones[4];
    float color[4], spare[6];
} vertex_t;

extern "C" __global__ void mesh_height(const vertex_t *v, float *block_max, int n)
{
    __shared__ float s[BLOCK_SIZE];
    int tid = threadIdx.x;
    float m = -1e30f;
    for (int i = blockIdx.x * BLOCK_SIZE + tid; i < n; i += gridDim.x * BLOCK_SIZE)
        m = fmaxf(m, v[i].py);
    s[tid] = m;
    __syncthreads();
    for (int k = BLOCK_SIZE / 2; k > 0; k >>= 1) {
        if (tid < k) s[tid] = fmaxf(s[tid], s[tid + k]);
        __syncthreads();
    }
    if (tid == 0) block_max[blockIdx.x] = s[0];
}

/* second pass of batch normalisation: 64 channels, a few partial sums each */
extern "C" __global__ void bn_finalize(const float *psum, const float *psq, float *mean, float *var, int parts, float inv_n)
{
    int c = threadIdx.x;
    float a = 0.0f, b = 0.0f;
    for (int i = 0; i < parts; i++) {
        a += psum[i * blockDim.x + c];
        b += psq[i * blockDim.x + c];
    }
    mean[c] = a * inv_n;
    var[c] = b * inv_n - mean[c] * mean[c];
}

extern "C" __global__ void clear_counters(unsigned int *counters, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) counters[i] = 0;
}

/* degree of every vertex from an edge list */
extern "C" __global__ void in_degree(const int *dst, int *degree, int nedges)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e < nedges) atomicAdd(&degree[dst[e]], 1);
}

/* stream compaction; every hit takes the next place */
extern "C" __global__ void collect_hits(const float *score, int *hits, int *nhits, float threshold, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && score[i] > threshold) {
        int slot = atomicAdd(nhits, 1);
        hits[slot] = i;
    }
}

/* smallest factor of odd numbers by trial division */
extern "C" __global__ void smallest_factor(const unsigned int *numbers, unsigned int *factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int n = numbers[i], d = 3;
    while (d * d <= n) {
        if (n % d == 0) break;
        d += 2;
    }
    factor[i] = d * d <= n ? d : n;
}

/* interactions with all points of a lower level; block b owns points [256 b, 256 b + 256), levels have 64 points per 4 blocks */
extern "C" __global__ void pair_distances(const float4 *p, float *sum)
{
    __shared__ float4 tile[64];
    float4 me = p[blockIdx.x * BLOCK_SIZE + threadIdx.x];
    float acc = 0.0f;
    for (unsigned int b = 0; b <= blockIdx.x / 4; b++) {
        if (threadIdx.x < 64) tile[threadIdx.x] = p[b * 64 + threadIdx.x];
        __syncthreads();
        #pragma unroll 16
        for (int k = 0; k < 64; k++) {
            float dx = me.x - tile[k].x, dy = me.y - tile[k].y, dz = me.z - tile[k].z;
            acc += sqrtf(dx * dx + dy * dy + dz * dz) * me.w * tile[k].w;
        }
        __syncthreads();
    }
    sum[blockIdx.x * BLOCK_SIZE + threadIdx.x] = acc;
}

/* top score of every beam: one block scans the vocabulary */
extern "C" __global__ void beam_argmax(const float *logits, int *best, int vocabulary)
{
    __shared__ float sv[BLOCK_SIZE];
    __shared__ int   si[BLOCK_SIZE];
    const float *row = logits + (size_t)blockIdx.x * vocabulary;
    float v = -1e30f; int at = 0;
    for (int i = threadIdx.x; i < vocabulary; i += BLOCK_SIZE)
        if (row[i] > v) { v = row[i]; at = i; }
    sv[threadIdx.x] = v; si[threadIdx.x] = at;
    __syncthreads();
    for (int k = BLOCK_SIZE / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k && sv[threadIdx.x + k] > sv[threadIdx.x]) { sv[threadIdx.x] = sv[threadIdx.x + k]; si[threadIdx.x] = si[threadIdx.x + k]; }
        __syncthreads();
    }
    if (threadIdx.x == 0) best[blockIdx.x] = si[0];
}

/* partial sums of tiles: load, barrier, add neighbours from shared memory, barrier */
extern "C" __global__ void moving_energy(const float *in, float *out, int tiles)
{
    __shared__ float s[256 + 8];
    float acc = 0.0f;
    if (threadIdx.x < 8) s[threadIdx.x] = 0.0f;
    for (int t = 0; t < tiles; t++) {
        s[threadIdx.x + 8] = in[((size_t)t * gridDim.x + blockIdx.x) * 256 + threadIdx.x];
        __syncthreads();
        float a = s[threadIdx.x], b = s[threadIdx.x + 4], c = s[threadIdx.x + 8];
        acc += a * a + b * b + c * c;
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = acc;
}
