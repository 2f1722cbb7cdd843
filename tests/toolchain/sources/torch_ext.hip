#include <torch/extension.h>
#include <ATen/hip/HIPContext.h>
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <vector>
template <typename scalar_t> __global__ void silu_kernel(const scalar_t* __restrict__ in, scalar_t* __restrict__ out, const int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) { float v = static_cast<float>(in[i]); out[i] = static_cast<scalar_t>(v / (1.f + expf(-v))); }
}
torch::Tensor silu(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be on the GPU");
  auto out = torch::empty_like(x);
  const int64_t n = x.numel(); const int threads = 256; const int blocks = (n + threads - 1) / threads;
  const auto stream = at::hip::getCurrentHIPStream();
  if (x.scalar_type() == at::ScalarType::Half)
    silu_kernel<__half><<<blocks, threads, 0, stream>>>(reinterpret_cast<const __half*>(x.data_ptr<at::Half>()), reinterpret_cast<__half*>(out.data_ptr<at::Half>()), n);
  else
    silu_kernel<float><<<blocks, threads, 0, stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu", [&] { silu_kernel<scalar_t><<<blocks, threads, 0, stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), n); });
  return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("silu", &silu, "SiLU (HIP)"); }
