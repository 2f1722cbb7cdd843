// Source for hiprtc: no includes, the declarations of HIP are built in.
extern "C" __global__ void saxpy(const float* x, float* y, float a, uint32_t n) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaf(a, x[i], y[i]);
}
