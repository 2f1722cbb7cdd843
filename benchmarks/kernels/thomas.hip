#include <hip/hip_runtime.h>

// Tridiagonal systems by Thomas' algorithm, one per work-item: a recurrence of float64 divisions and FMA.
extern "C" __global__ void thomas(const double* a, const double* b, const double* c, double* d, double* w, int n, int systems) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= systems) return;
  double upper = c[i] / b[i], right = d[i] / b[i];
  w[i] = upper;
  d[i] = right;
  for (int k = 1; k < n; k++) {
    int at = k * systems + i;
    double m = 1.0 / (b[at] - a[at] * upper);
    upper = c[at] * m;
    right = (d[at] - a[at] * right) * m;
    w[at] = upper;
    d[at] = right;
  }
  for (int k = n - 2; k >= 0; k--) {
    int at = k * systems + i;
    right = d[at] - w[at] * right;
    d[at] = right;
  }
}
