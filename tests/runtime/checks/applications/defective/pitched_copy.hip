// hipMemcpy2D of a pitched image back to the host: one row too many.
#include "../../program.h"
int main() {
  const size_t width = 100, height = 20;
  size_t pitch;
  char *image;
  HIP(hipMallocPitch(reinterpret_cast<void **>(&image), &pitch, width, height));
  HIP(hipMemset2D(image, pitch, 7, width, height));
  std::vector<char> result(width * (height + 1));
  (void)hipMemcpy2D(result.data(), width, image, pitch, width, height + 1, hipMemcpyDeviceToHost);  // DEFECT copy_past_end
  (void)hipFree(image);
  return 0;
}
