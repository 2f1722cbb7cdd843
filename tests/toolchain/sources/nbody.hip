#include <hip/hip_runtime.h>
#include <GL/glew.h>
#include <GLFW/glfw3.h>
#include <glm/glm.hpp>
#include <iostream>
#include <memory>
#include <string_view>
#define BLOCK 256
#define SOFTENING 1e-9f
#define HD __host__ __device__ __forceinline__
struct Body { float4 pos; float4 vel; HD float speed() const { return sqrtf(vel.x * vel.x + vel.y * vel.y + vel.z * vel.z); } };
HD float3 interaction(float4 a, float4 b, float3 acc) {
  float3 r = make_float3(b.x - a.x, b.y - a.y, b.z - a.z);
  float d = r.x * r.x + r.y * r.y + r.z * r.z + SOFTENING, inv = rsqrtf(d), s = b.w * inv * inv * inv;
  acc.x += r.x * s; acc.y += r.y * s; acc.z += r.z * s; return acc;
}
template <int TILE, bool UNROLL = true> __global__ void forces(const Body* __restrict__ in, Body* out, float dt, int n) {
  __shared__ float4 tile[TILE];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float3 acc{0, 0, 0};
  for (int t = 0; t < n; t += TILE) { tile[threadIdx.x] = in[t + threadIdx.x].pos; __syncthreads();
#pragma unroll 8
    for (int j = 0; j < TILE; ++j) acc = interaction(in[i].pos, tile[j], acc);
    __syncthreads(); }
  out[i] = in[i]; out[i].vel.x += dt * acc.x; if (out[i].speed() > 1e8f) out[i].vel.w = 0;
}
class Window {
  GLFWwindow* handle_ = nullptr; GLuint vbo_ = 0; std::string_view title_;
 public:
  Window(int w, int h, std::string_view t) : title_(t) { glfwInit(); handle_ = glfwCreateWindow(w, h, t.data(), nullptr, nullptr); }
  ~Window() { glDeleteBuffers(1, &vbo_); glfwTerminate(); }
  bool open() const { return !glfwWindowShouldClose(handle_); }
  template <int T> void draw(Body* a, Body* b, int n) { forces<T><<<n / T, T>>>(a, b, 0.01f, n); glfwSwapBuffers(handle_); }
};
static void key_callback(GLFWwindow* w, int key, int, int action, int) { if (key == GLFW_KEY_ESCAPE && action == GLFW_PRESS) glfwSetWindowShouldClose(w, GLFW_TRUE); }
int main(int argc, char** argv) try {
  const int n = argc > 1 ? std::stoi(argv[1]) : 4096;
  Body *a, *b; if (hipMalloc(&a, n * sizeof(Body)) != hipSuccess) throw std::runtime_error("oom");
  (void)hipMalloc(&b, n * sizeof(Body));
  auto win = std::make_unique<Window>(800, 600, "nbody");
  while (win->open()) { win->draw<BLOCK>(a, b, n); glfwPollEvents(); }
  glm::mat4 view(1.0f); view = glm::rotate(view, 0.1f, glm::vec3(0, 1, 0));
  forces<128, false><<<n / 128, 128>>>(a, b, 0.5f, n);
  return 0;
} catch (const std::exception& e) { std::cerr << e.what(); return 1; }
