// Game of Life on a torus, 64 cells per word, with two boards; a glider returns after one period.
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using Board = std::vector<uint64_t>;

static void ok(hipError_t e) {
  if (e != hipSuccess) {
    fprintf(stderr, "HIP: %s\n", hipGetErrorString(e));
    exit(EXIT_FAILURE);
  }
}

// Sums of three bits per column as (low, high); rows of a word with its neighbours' edge bits.
__device__ void add_row(uint64_t left, uint64_t middle, uint64_t right, bool centre, uint64_t& low, uint64_t& high) {
  const uint64_t a = middle << 1 | left >> 63, b = middle >> 1 | right << 63, c = centre ? 0 : middle;
  low = a ^ b ^ c;
  high = (a & b) | (a & c) | (b & c);
}

__global__ void generation(const uint64_t* board, uint64_t* next, int words, int rows) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= words * rows) return;
  const int y = i / words, x = i % words;
  uint64_t low[3], high[3];
  for (int d = 0; d < 3; d++) {
    const uint64_t* row = board + (y + d - 1 + rows) % rows * words;
    add_row(row[(x + words - 1) % words], row[x], row[(x + 1) % words], d == 1, low[d], high[d]);
  }
  const uint64_t ones = low[0] ^ low[1] ^ low[2], carry = (low[0] & low[1]) | (low[0] & low[2]) | (low[1] & low[2]);
  // The number of twos is high[0] + high[1] + high[2] + carry; alive needs exactly one of them.
  const uint64_t h01 = high[0] ^ high[1], h2c = high[2] ^ carry;
  const uint64_t one_two = (h01 ^ h2c) & ~((high[0] & high[1]) | (high[2] & carry));
  next[i] = one_two & (ones | board[i]);
}

static Board host_generation(const Board& board, int words, int rows) {
  auto alive = [&](int x, int y) {
    x = (x + 64 * words) % (64 * words);
    y = (y + rows) % rows;
    return int(board[y * words + x / 64] >> x % 64 & 1);
  };
  Board next(board.size());
  for (int y = 0; y < rows; y++)
    for (int x = 0; x < 64 * words; x++) {
      int n = 0;
      for (int d = 0; d < 9; d++) n += d == 4 ? 0 : alive(x + d % 3 - 1, y + d / 3 - 1);
      if (n == 3 || (n == 2 && alive(x, y))) next[y * words + x / 64] |= uint64_t(1) << x % 64;
    }
  return next;
}

static Board play(Board board, int words, int rows, int generations) {
  const size_t bytes = board.size() * sizeof(uint64_t);
  uint64_t* boards[2];
  for (auto& b : boards) ok(hipMalloc(&b, bytes));
  ok(hipMemcpy(boards[0], board.data(), bytes, hipMemcpyHostToDevice));
  for (int g = 0; g < generations; g++) generation<<<(words * rows + 63) / 64, 64>>>(boards[g % 2], boards[(g + 1) % 2], words, rows);
  ok(hipGetLastError());
  ok(hipMemcpy(board.data(), boards[generations % 2], bytes, hipMemcpyDeviceToHost));
  for (auto& b : boards) ok(hipFree(b));
  return board;
}

int main() {
  Board glider(2 * 128);
  glider[0] = 2, glider[2] = 4, glider[4] = 7;
  const bool returned = play(glider, 2, 128, 4 * 128) == glider;  // 128 steps of one cell in both directions
  Board soup(3 * 60), expected;
  std::mt19937_64 random(1);
  for (auto& word : soup) word = random();
  expected = soup;
  for (int g = 0; g < 25; g++) expected = host_generation(expected, 3, 60);
  const Board result = play(soup, 3, 60, 25);
  int population = 0;
  for (uint64_t word : result) population += __builtin_popcountll(word);
  printf("glider %s, soup of %d cells %s\n", returned ? "returned" : "LOST", population, result == expected ? "agrees" : "DIFFERS");
  return returned && result == expected ? 0 : 1;
}
