// Scan with look-back whose state and value share one 64-bit word, so no fence is needed.
#include "../../program.h"
using Word = unsigned long long;
__global__ void scan(const unsigned *in, unsigned *out, Word *states, unsigned *ticket) {
  __shared__ unsigned wave_sums[4], group, before;
  int t = threadIdx.x, lane = t % 64, wave = t / 64;
  if (t == 0) group = atomicAdd(ticket, 1u);
  __syncthreads();
  unsigned i = group * 256 + t, value = in[i], sum = value;
  for (int d = 1; d < 64; d *= 2) {
    unsigned other = __shfl_up(sum, d);
    if (lane >= d) sum += other;
  }
  if (lane == 63) wave_sums[wave] = sum;
  __syncthreads();
  for (int w = 0; w < wave; w++) sum += wave_sums[w];
  if (t == 255) {
    atomicExch(&states[group], (Word(1) << 32) | sum);
    unsigned prefix = 0;
    for (int k = int(group) - 1; k >= 0;) {
      Word state = __hip_atomic_load(&states[k], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
      if (state == 0) continue;
      prefix += unsigned(state);
      if (state >> 32 == 2) break;
      k--;
    }
    atomicExch(&states[group], (Word(2) << 32) | (prefix + sum));
    before = prefix;
  }
  __syncthreads();
  out[i] = before + sum;
}
int main() {
  const int groups = 12, n = groups * 256;
  unsigned *in = device(std::vector<unsigned>(n, 2)), *out, *ticket = device(std::vector<unsigned>(1));
  Word *states = device(std::vector<Word>(groups));
  HIP(hipMalloc(&out, n * sizeof(unsigned)));
  scan<<<groups, 256>>>(in, out, states, ticket);
  bool right = true;
  auto result = host(out, n);
  for (int i = 0; i < n; i++) right = right && result[i] == unsigned(2 * (i + 1));
  for (unsigned *memory : {in, out, ticket}) HIP(hipFree(memory));
  HIP(hipFree(states));
  return ended(right);
}
