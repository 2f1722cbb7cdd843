// Test application: `application HSACO SCENARIO [N]`. Two threads with two queues, several kernels, checked results.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "program.h"

namespace {

constexpr int kCount = 4096;
constexpr uint32_t kItems = 256;

struct Node { Node* next; float value; int visits; };

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "application: wrong result: %s\n", what);
  std::_Exit(71);
}

std::vector<float> ramp(int count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[size_t(i)] = float(i % 97);
  return values;
}

// Nodes that alternate between two allocations; only the head is an argument.
Node* make_list(Gpu& gpu, int length) {
  Node* halves[2] = {gpu.device_memory<Node>(size_t(length)), gpu.mapped_memory<Node>(1 << 16)};
  std::vector<Node> contents[2];
  for (int i = 0; i < length; ++i) {
    Node* next = i + 1 < length ? halves[(i + 1) % 2] + (i + 1) / 2 : nullptr;
    contents[i % 2].push_back({next, float(i), 0});
  }
  for (int half = 0; half < 2; ++half) gpu.copy(halves[half], contents[half].data(), contents[half].size() * sizeof(Node));
  return halves[0];
}

// In-place scaling of one of two buffers in one allocation, and the list.
void first_thread(Gpu& gpu, Module& module, int rounds) {
  Queue queue(gpu);
  Kernel scale = module.kernel("scale"), walk = module.kernel("walk");
  float gain = 2.0f;
  gpu.copy(module.variable("gain"), &gain, sizeof gain);
  float* pool = gpu.device_memory<float>(2 * kCount);
  float *x = pool, *other = pool + kCount;
  auto initial = ramp(kCount);
  gpu.copy(x, initial.data(), kCount * sizeof(float));
  gpu.copy(other, initial.data(), kCount * sizeof(float));
  float* total = gpu.device_memory<float>(1);
  const int length = 10;
  Node* head = make_list(gpu, length);
  for (int round = 0; round < rounds; ++round) {
    queue.run(scale, {kCount / kItems, kItems}, x, 0.5f, kCount);
    queue.run(walk, {1, 1}, head, total);
  }
  std::vector<float> seen(kCount);
  gpu.copy(seen.data(), x, kCount * sizeof(float));
  for (int i = 0; i < kCount; ++i) expect(seen[size_t(i)] == float(i % 97) + float(rounds * (1 + (i & 3))), "scale");
  float sum = 0;
  Node first;
  gpu.copy(&sum, total, sizeof sum);
  gpu.copy(&first, head, sizeof first);
  expect(sum == length * (length - 1) / 2.0f && first.visits == rounds, "walk");
}

// Other kernels at the same time.
void second_thread(Gpu& gpu, Module& module, int rounds) {
  Queue queue(gpu);
  Kernel reverse = module.kernel("reverse_tile"), add = module.kernel("_Z6add_toIfEvPT_PKS0_i");
  float *in = gpu.device_memory<float>(kCount), *out = gpu.device_memory<float>(kCount);
  auto initial = ramp(kCount);
  gpu.copy(in, initial.data(), kCount * sizeof(float));
  for (int round = 0; round < rounds; ++round) {
    queue.run(reverse, {kCount / kItems, kItems, kItems * 4}, in, out);
    queue.run(add, {kCount / kItems, kItems}, in, out, kCount);
  }
  std::vector<float> expected = ramp(kCount), seen(kCount), turned(kCount);
  for (int round = 0; round < rounds; ++round) {
    for (uint32_t i = 0; i < kCount; ++i) turned[i] = expected[i / kItems * kItems + kItems - 1 - i % kItems];
    for (uint32_t i = 0; i < kCount; ++i) expected[i] += turned[i];
  }
  gpu.copy(seen.data(), in, kCount * sizeof(float));
  expect(seen == expected, "reverse_tile and add_to");
}

void work(Gpu& gpu, const std::string& path, int rounds) {
  Module module(gpu, path);
  std::thread other([&] { second_thread(gpu, module, rounds); });
  first_thread(gpu, module, rounds);
  other.join();
}

// Work that waits on one queue while another queue gets a dispatch: `walk` of an empty list.
struct Backlog {
  Gpu& gpu;
  Module module;
  Queue busy, other;
  int* cell;
  hsa_signal_t gate, last{};

  // `closed`: the work waits until `gate` is opened.
  Backlog(Gpu& gpu_, const std::string& path, int launches, bool closed)
      : gpu(gpu_), module(gpu_, path), busy(gpu_), other(gpu_), cell(gpu_.device_memory<int>(1)) {
    HSA(hsa_signal_create(closed ? 1 : 0, 0, nullptr, &gate));
    busy.wait_for(gate);
    for (int i = 0; i < launches; ++i) last = busy.start(module.kernel("count_up"), {1, 1}, cell);
  }
  void walk() { other.run(module.kernel("walk"), {1, 1}, static_cast<Node*>(nullptr), gpu.device_memory<float>(1)); }
  void finish(int launches) {
    hsa_signal_wait_scacquire(last, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    int seen = 0;
    gpu.copy(&seen, cell, sizeof seen);
    expect(seen == 1000 * launches, "count_up");
  }
};

void backlog(Gpu& gpu, const std::string& path, int launches) {
  Backlog work(gpu, path, launches, false);
  work.walk();
  work.finish(launches);
}

// The waiting work can continue only after the dispatch.
void opened_afterwards(Gpu& gpu, const std::string& path) {
  Backlog work(gpu, path, 1, true);
  work.walk();
  hsa_signal_store_screlease(work.gate, 0);
  work.finish(1);
}

// The waiting work can continue after a dispatch that a third thread submits a little later.
void opened_by_third(Gpu& gpu, const std::string& path) {
  Backlog work(gpu, path, 1, true);
  Queue third(gpu);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    third.run(work.module.kernel("reverse_tile"), {1, 256, 1024}, gpu.device_memory<float>(256), gpu.device_memory<float>(256));
    hsa_signal_store_screlease(work.gate, 0);
  });
  work.walk();
  opener.join();
  work.finish(1);
}

// A list in pinned host memory, two nodes of which share a page with other data, and a word that looks like code.
void pinned(Gpu& gpu, const std::string& path) {
  Module module(gpu, path);
  Queue queue(gpu);
  auto* host = static_cast<uint8_t*>(std::aligned_alloc(4096, 8192));
  std::memset(host, 7, 8192);
  auto* nodes = reinterpret_cast<Node*>(host + 1024);
  nodes[0] = {nodes + 1, 1.0f, 0};
  nodes[1] = {nullptr, 2.0f, 0};
  const uint64_t code = module.kernel("walk").object;
  std::memcpy(host + 512, &code, sizeof code);
  void* seen = nullptr;
  HSA(hsa_amd_memory_lock(nodes, 2 * sizeof(Node), &gpu.gpu, 1, &seen));
  queue.run(module.kernel("walk"), {1, 1}, static_cast<Node*>(seen), gpu.device_memory<float>(1));
  HSA(hsa_amd_memory_unlock(nodes));
  expect(nodes[0].visits == 1 && nodes[1].visits == 1 && host[0] == 7, "walk in pinned memory");
}

// A list whose nodes are in shared memory; then the same list without them, after they are released.
void shared(Gpu& gpu, const std::string& path) {
  Module module(gpu, path);
  Queue queue(gpu);
  constexpr size_t kBytes = 8192;
  auto *own = gpu.device_memory<Node>(kBytes / sizeof(Node)), *theirs = gpu.device_memory<Node>(kBytes / sizeof(Node));
  auto pages = [] { return static_cast<Node*>(std::aligned_alloc(4096, kBytes)); };

  hsa_amd_ipc_memory_t handle;
  void *attached, *mapped, *locked;
  HSA(hsa_amd_ipc_memory_create(theirs, kBytes, &handle));
  HSA(hsa_amd_ipc_memory_attach(&handle, kBytes, 1, &gpu.gpu, &attached));
  size_t mapped_bytes = 0;
  const int file = memfd_create("another device", 0);
  HSA(ftruncate(file, kBytes) == 0 ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR);
  HSA(hsa_amd_interop_map_buffer(1, &gpu.gpu, file, 0, &mapped_bytes, &mapped, nullptr, nullptr));
  Node *migrating = pages(), *host = pages();
  *host = {nullptr, 8.0f, 0};
  HSA(hsa_amd_memory_lock_to_pool(host, kBytes, &gpu.gpu, 1, gpu.kernarg, 0, &locked));
  *migrating = {static_cast<Node*>(locked), 4.0f, 0};
  hsa_amd_svm_attribute_pair_t access{HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE, gpu.gpu.handle};
  HSA(hsa_amd_svm_attributes_set(migrating, kBytes, &access, 1));
  HSA(hsa_amd_svm_attributes_set(own, 4096, &access, 1));  // has no effect on memory of a pool
  Node in_file{migrating, 2.0f, 0}, in_attached{static_cast<Node*>(mapped), 1.0f, 0};
  gpu.copy(mapped, &in_file, sizeof in_file);
  gpu.copy(theirs + 1, &in_attached, sizeof in_attached);  // seen through `attached`
  Node first{static_cast<Node*>(attached) + 1, 16.0f, 0};
  gpu.copy(own, &first, sizeof first);

  float sum = 0, *total = gpu.device_memory<float>(1);
  queue.run(module.kernel("walk"), {1, 1}, own, total);
  gpu.copy(&sum, total, sizeof sum);
  expect(sum == 31.0f && migrating->visits == 1 && host->visits == 1, "walk through shared memory");
  HSA(hsa_amd_ipc_memory_detach(attached));
  HSA(hsa_amd_interop_unmap_buffer(mapped));
  HSA(hsa_amd_memory_unlock(host));
  queue.run(module.kernel("walk"), {1, 1}, static_cast<Node*>(nullptr), total);
}

// Other copy functions, on three counted queues, two of which the runtime would merge.
void counted(Gpu& gpu, const std::string& path) {
  Module module(gpu, path);
  Queue one(gpu, HSA_AMD_QUEUE_PRIORITY_NORMAL), same(gpu, HSA_AMD_QUEUE_PRIORITY_NORMAL), urgent(gpu, HSA_AMD_QUEUE_PRIORITY_HIGH);
  auto *x = gpu.device_memory<float>(kCount), *y = gpu.device_memory<float>(kCount);
  HSA(hsa_amd_memory_fill(x, 0x3f800000, kCount));  // 1.0
  hsa_signal_t done;
  HSA(hsa_signal_create(2, 0, nullptr, &done));
  HSA(hsa_amd_memory_async_copy_on_engine(y, gpu.gpu, x, gpu.gpu, kCount * 2, 0, nullptr, done, HSA_AMD_SDMA_ENGINE_0, false));
  hsa_pitched_ptr_t to{y, 64, 0}, from{x, 64, 0};
  hsa_dim3_t offset{0, kCount * 2 / 64, 0}, range{64, kCount * 2 / 64, 1};
  HSA(hsa_amd_memory_async_copy_rect(&to, &offset, &from, &offset, &range, gpu.gpu, hsaDeviceToDevice, 0, nullptr, done));
  hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
  const Kernel add = module.kernel("_Z6add_toIfEvPT_PKS0_i");
  for (Queue* queue : {&one, &same, &urgent}) queue->run(add, {kCount / kItems, kItems}, x, y, kCount);
  std::vector<float> seen(kCount);
  gpu.copy(seen.data(), x, kCount * sizeof(float));
  expect(seen == std::vector<float>(kCount, 4.0f), "add_to on counted queues");
}

// A grid that is not a multiple of its workgroup, for two kernels; one uses barriers and LDS.
void partial(Gpu& gpu, const std::string& path) {
  constexpr uint32_t kGrid = 1000;
  Module module(gpu, path);
  Queue queue(gpu);
  auto *x = gpu.device_memory<float>(kCount), *y = gpu.device_memory<float>(kCount);
  auto initial = ramp(kCount);
  gpu.copy(x, initial.data(), kCount * sizeof(float));
  queue.run(module.kernel("scale"), {4, kItems, 0, kGrid}, x, 2.0f, kCount);
  queue.run(module.kernel("reverse_tile"), {4, kItems, kItems * 4, kGrid}, x, y);
  std::vector<float> scaled(kCount), turned(kCount);
  gpu.copy(scaled.data(), x, kCount * sizeof(float));
  gpu.copy(turned.data(), y, kCount * sizeof(float));
  for (uint32_t i = 0; i < kCount; ++i) {
    expect(scaled[i] == (i < kGrid ? initial[i] * 2 + float(1 + (i & 3)) : initial[i]), "scale of a partial grid");
    const uint32_t begin = i / kItems * kItems, end = std::min(begin + kItems, kGrid);
    if (i < kGrid) expect(turned[i] == scaled[begin + (end - 1 - i)], "reverse_tile of a partial grid");
  }
}

void burst(Gpu& gpu, const std::string& path, int launches) {
  Module module(gpu, path);
  Queue queue(gpu);
  int* cell = gpu.device_memory<int>(1);
  queue.burst(module.kernel("count_up"), {1, 1}, launches, cell);
  int seen = 0;
  gpu.copy(&seen, cell, sizeof seen);
  expect(seen == 1000 * launches, "count_up in a burst");
}

// A module is unloaded and another one loaded, whose kernels may get the same addresses.
void reload(Gpu& gpu, const std::string& path) {
  Queue queue(gpu);
  auto *x = gpu.device_memory<float>(kCount), *y = gpu.device_memory<float>(kCount);
  for (int i = 0; i < 3; ++i) {
    Module module(gpu, path);
    queue.run(module.kernel("scale"), {kCount / kItems, kItems}, x, 1.0f, kCount);
    HSA(hsa_executable_destroy(module.executable));
  }
  Module module(gpu, path), same(gpu, path);
  queue.run(same.kernel("_Z6add_toIfEvPT_PKS0_i"), {kCount / kItems, kItems}, x, y, kCount);
}

// Many small dispatches, one after another: the overhead of the tool without a capture.
void many(Gpu& gpu, const std::string& path, int launches) {
  Module module(gpu, path);
  Queue queue(gpu);
  Kernel walk = module.kernel("walk");
  float* total = gpu.device_memory<float>(1);
  queue.run(walk, {1, 1}, static_cast<Node*>(nullptr), total);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) queue.run(walk, {1, 1}, static_cast<Node*>(nullptr), total);
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  std::printf("%.2f us\n", spent.count() / launches);
}

// One in-place dispatch on a buffer of `mebibytes`; every 4 KiB page has content.
void large(Gpu& gpu, const std::string& path, uint64_t mebibytes) {
  Module module(gpu, path);
  Queue queue(gpu);
  const uint64_t bytes = mebibytes << 20, step = 64 << 20;
  auto* x = gpu.device_memory<uint8_t>(bytes);
  std::vector<uint64_t> piece(step / 8);
  uint64_t state = 88172645463325252;
  for (uint64_t done = 0; done < bytes; done += step) {
    for (uint64_t& word : piece) word = (state ^= state << 13, state ^= state >> 7, state ^= state << 17) & 0x00ffffffffffffff;
    gpu.copy(x + done, piece.data(), std::min(step, bytes - done));
  }
  std::puts("ready");
  std::fflush(stdout);
  queue.run(module.kernel("scale"), {kCount / kItems, kItems}, reinterpret_cast<float*>(x), 1.0f, kCount);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 64;
  const std::string path = arguments[1], scenario = arguments[2];
  const int number = count > 3 ? int(std::strtol(arguments[3], nullptr, 10)) : 3;
  if (scenario == "fork") {  // the parent has used the GPU; the child does not
    Gpu gpu;
    work(gpu, path, number);
    pid_t child = fork();
    if (child == 0) _exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    work(gpu, path, number);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 72;
  }
  if (scenario == "fork-first") {  // only the child uses the GPU
    pid_t child = fork();
    int status = 0;
    if (child != 0) {
      waitpid(child, &status, 0);
      return WIFEXITED(status) ? WEXITSTATUS(status) : 72;
    }
  }
  if (scenario == "restart") {  // the runtime ends and starts again
    Gpu gpu;
    work(gpu, path, number);
    HSA(hsa_shut_down());
  }
  Gpu gpu;
  if (scenario == "crash") {
    work(gpu, path, 1);
    std::abort();
  }
  if (scenario == "exit-inside") {  // another thread ends the process after N seconds, while `spin` runs
    Module module(gpu, path);
    Queue queue(gpu);
    auto* stop = gpu.device_memory<int>(1);
    std::thread([=] { std::this_thread::sleep_for(std::chrono::seconds(number)); std::_Exit(5); }).detach();
    queue.run(module.kernel("spin"), {1, 1}, stop);
  } else if (scenario == "large") {
    large(gpu, path, uint64_t(number));
  } else if (scenario == "pinned") {
    pinned(gpu, path);
  } else if (scenario == "shared") {
    shared(gpu, path);
  } else if (scenario == "burst") {
    burst(gpu, path, number);
  } else if (scenario == "reload") {
    reload(gpu, path);
  } else if (scenario == "partial") {
    partial(gpu, path);
  } else if (scenario == "counted") {
    counted(gpu, path);
  } else if (scenario == "many") {
    many(gpu, path, number);
  } else if (scenario == "backlog") {
    backlog(gpu, path, number);
  } else if (scenario == "opened-afterwards") {
    opened_afterwards(gpu, path);
  } else if (scenario == "opened-by-third") {
    opened_by_third(gpu, path);
  } else if (scenario == "out-of-bounds") {
    Module module(gpu, path);
    Queue queue(gpu);
    queue.run(module.kernel("touch"), {1, 1}, reinterpret_cast<float*>(0x1234567000));
  } else {
    work(gpu, path, number);
  }
  std::puts("done");
  HSA(hsa_shut_down());
  return 0;
}
