// Wrapper of HSA for test programs: agents, pools, code objects, queues. Every error ends the program with exit code 70.
#pragma once
#include <hsa.h>
#include <hsa_ext_amd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// Newer than the headers.
extern "C" hsa_status_t hsa_amd_counted_queue_acquire(hsa_agent_t, hsa_queue_type_t, hsa_amd_queue_priority_t,
                                                      void (*)(hsa_status_t, hsa_queue_t*, void*), void*, uint64_t, hsa_queue_t**);
extern "C" hsa_status_t hsa_amd_counted_queue_release(hsa_queue_t*);

inline void check(hsa_status_t status, const char* what) {
  if (status == HSA_STATUS_SUCCESS) return;
  std::fprintf(stderr, "application: %s: 0x%x\n", what, unsigned(status));
  std::_Exit(70);
}
#define HSA(call) check(call, #call)

struct Gpu {
  hsa_agent_t cpu{}, gpu{};
  hsa_amd_memory_pool_t device{}, kernarg{};

  Gpu() {
    HSA(hsa_init());
    HSA(hsa_iterate_agents(&Gpu::take_agent, this));
    HSA(hsa_amd_agent_iterate_memory_pools(gpu, &Gpu::take_device, this));
    HSA(hsa_amd_agent_iterate_memory_pools(cpu, &Gpu::take_kernarg, this));
  }

  template <class T> T* device_memory(size_t count) {
    void* memory = nullptr;
    HSA(hsa_amd_memory_pool_allocate(device, count * sizeof(T), 0, &memory));
    return static_cast<T*>(memory);
  }

  template <class T> T* host_memory(size_t count) {
    void* memory = nullptr;
    HSA(hsa_amd_memory_pool_allocate(kernarg, count * sizeof(T), 0, &memory));
    HSA(hsa_amd_agents_allow_access(1, &gpu, nullptr, memory));
    return static_cast<T*>(memory);
  }

  // Device memory through the virtual memory API: the reservation is twice as large as the mapping in it.
  template <class T> T* mapped_memory(size_t bytes) {
    void* address = nullptr;
    hsa_amd_vmem_alloc_handle_t handle;
    HSA(hsa_amd_vmem_address_reserve(&address, 2 * bytes, 0, 0));
    HSA(hsa_amd_vmem_handle_create(device, bytes, MEMORY_TYPE_NONE, 0, &handle));
    HSA(hsa_amd_vmem_map(address, bytes, 0, handle, 0));
    hsa_amd_memory_access_desc_t access{HSA_ACCESS_PERMISSION_RW, gpu};
    HSA(hsa_amd_vmem_set_access(address, bytes, &access, 1));
    return static_cast<T*>(address);
  }

  void copy(void* to, const void* from, size_t size) {
    hsa_signal_t done;
    HSA(hsa_signal_create(1, 0, nullptr, &done));
    HSA(hsa_amd_memory_async_copy(to, gpu, from, gpu, size, 0, nullptr, done));
    hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    HSA(hsa_signal_destroy(done));
  }

 private:
  static hsa_status_t take_agent(hsa_agent_t agent, void* data) {
    hsa_device_type_t type;
    HSA(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    auto& place = type == HSA_DEVICE_TYPE_GPU ? static_cast<Gpu*>(data)->gpu : static_cast<Gpu*>(data)->cpu;
    if (place.handle == 0) place = agent;
    return HSA_STATUS_SUCCESS;
  }
  static hsa_status_t take_device(hsa_amd_memory_pool_t pool, void* data) {
    if (static_cast<Gpu*>(data)->device.handle == 0) static_cast<Gpu*>(data)->device = pool;
    return HSA_STATUS_SUCCESS;
  }
  static hsa_status_t take_kernarg(hsa_amd_memory_pool_t pool, void* data) {
    uint32_t flags = 0;
    HSA(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
    if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT) static_cast<Gpu*>(data)->kernarg = pool;
    return HSA_STATUS_SUCCESS;
  }
};

struct Kernel { uint64_t object = 0; uint32_t kernarg = 0, group = 0, scratch = 0; };

struct Module {
  hsa_executable_t executable{};
  hsa_agent_t agent{};

  Module(Gpu& gpu, const std::string& path) : agent(gpu.gpu) {
    std::ifstream source(path, std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(source), std::istreambuf_iterator<char>()};
    hsa_code_object_reader_t reader;
    HSA(hsa_code_object_reader_create_from_memory(bytes.data(), bytes.size(), &reader));
    HSA(hsa_executable_create_alt(HSA_PROFILE_BASE, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, nullptr, &executable));
    HSA(hsa_executable_load_agent_code_object(executable, agent, reader, nullptr, nullptr));
    HSA(hsa_executable_freeze(executable, nullptr));
    HSA(hsa_code_object_reader_destroy(reader));
  }

  hsa_executable_symbol_t symbol(const std::string& name) {
    hsa_executable_symbol_t found;
    HSA(hsa_executable_get_symbol_by_name(executable, name.c_str(), &agent, &found));
    return found;
  }

  Kernel kernel(const std::string& name) {
    Kernel kernel;
    hsa_executable_symbol_t found = symbol(name + ".kd");
    HSA(hsa_executable_symbol_get_info(found, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &kernel.object));
    HSA(hsa_executable_symbol_get_info(found, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE, &kernel.kernarg));
    HSA(hsa_executable_symbol_get_info(found, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE, &kernel.group));
    HSA(hsa_executable_symbol_get_info(found, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE, &kernel.scratch));
    return kernel;
  }

  void* variable(const std::string& name) {
    uint64_t address = 0;
    HSA(hsa_executable_symbol_get_info(symbol(name), HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS, &address));
    return reinterpret_cast<void*>(address);
  }
};

// `work_items`: size of the grid if its last workgroup is partial.
struct Shape {
  uint32_t groups, items, dynamic_lds = 0, work_items = 0;
  uint32_t grid() const { return work_items != 0 ? work_items : groups * items; }
};

struct Queue {
  Gpu& gpu;
  hsa_queue_t* queue = nullptr;

  bool is_counted = false, rings = true;

  explicit Queue(Gpu& gpu_) : gpu(gpu_) {
    HSA(hsa_queue_create(gpu.gpu, 64, HSA_QUEUE_TYPE_MULTI, nullptr, nullptr, UINT32_MAX, UINT32_MAX, &queue));
  }
  Queue(Gpu& gpu_, hsa_amd_queue_priority_t priority) : gpu(gpu_), is_counted(true) {
    HSA(hsa_amd_counted_queue_acquire(gpu.gpu, HSA_QUEUE_TYPE_MULTI, priority, nullptr, nullptr, 0, &queue));
  }
  ~Queue() { is_counted ? hsa_amd_counted_queue_release(queue) : hsa_queue_destroy(queue); }

  // Launches `count` times with one doorbell per full ring, and waits.
  template <class... Arguments> void burst(const Kernel& kernel, Shape shape, int count, Arguments... arguments) {
    for (int begun = 0; begun < count;) {
      const int some = std::min(count - begun, int(queue->size) - 1);
      rings = false;
      hsa_signal_t last{};
      for (int i = 0; i < some; ++i) rings = i + 1 == some, last = start(kernel, shape, arguments...);
      hsa_signal_wait_scacquire(last, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
      begun += some;
    }
  }

  // Launches and waits. The implicit arguments of code object version 5 follow the explicit ones.
  template <class... Arguments> void run(const Kernel& kernel, Shape shape, Arguments... arguments) {
    auto* kernarg = gpu.host_memory<uint8_t>(kernel.kernarg + 64);
    hsa_signal_t done = start_with(kernarg, kernel, shape, arguments...);
    hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    HSA(hsa_signal_destroy(done));
    HSA(hsa_amd_memory_pool_free(kernarg));
  }

  // Packets submitted later wait until the signal is 0.
  void wait_for(hsa_signal_t signal) {
    hsa_barrier_and_packet_t made{};
    made.dep_signal[0] = signal;
    submit(made, HSA_PACKET_TYPE_BARRIER_AND | 1u << 8);
  }

  // The arguments are never freed: these programs are short.
  template <class... Arguments> hsa_signal_t start(const Kernel& kernel, Shape shape, Arguments... arguments) {
    return start_with(gpu.host_memory<uint8_t>(kernel.kernarg + 64), kernel, shape, arguments...);
  }

 private:
  template <class... Arguments>
  hsa_signal_t start_with(uint8_t* kernarg, const Kernel& kernel, Shape shape, Arguments... arguments) {
    size_t offset = 0;
    (place(kernarg, offset, arguments), ...);
    fill_implicit(kernarg + (offset + 7) / 8 * 8, kernarg + kernel.kernarg, shape);
    hsa_signal_t done;
    HSA(hsa_signal_create(1, 0, nullptr, &done));
    hsa_kernel_dispatch_packet_t made{};
    made.setup = 1;
    made.workgroup_size_x = uint16_t(shape.items), made.workgroup_size_y = made.workgroup_size_z = 1;
    made.grid_size_x = shape.grid(), made.grid_size_y = made.grid_size_z = 1;
    made.private_segment_size = kernel.scratch;
    made.group_segment_size = kernel.group + shape.dynamic_lds;
    made.kernel_object = kernel.object;
    made.kernarg_address = kernarg;
    made.completion_signal = done;
    submit(made, HSA_PACKET_TYPE_KERNEL_DISPATCH | 2u << 9 | 2u << 11 | 1u << 8 | uint32_t(made.setup) << 16);
    return done;
  }

  // Writes the packet, its first four bytes last and atomically.
  template <class Packet> void submit(const Packet& made, uint32_t first) {
    uint64_t index = hsa_queue_add_write_index_screlease(queue, 1);
    while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size) {}
    auto* slot = static_cast<uint8_t*>(queue->base_address) + index % queue->size * sizeof made;
    std::memcpy(slot + 4, reinterpret_cast<const uint8_t*>(&made) + 4, sizeof made - 4);
    reinterpret_cast<std::atomic<uint32_t>*>(slot)->store(first, std::memory_order_release);
    if (rings) hsa_signal_store_screlease(queue->doorbell_signal, int64_t(index));
  }

  template <class T> static void place(uint8_t* kernarg, size_t& offset, T value) {
    offset = (offset + alignof(T) - 1) / alignof(T) * alignof(T);
    std::memcpy(kernarg + offset, &value, sizeof value);
    offset += sizeof value;
  }
  static void fill_implicit(uint8_t* implicit, const uint8_t* end, Shape shape) {
    auto put = [&](size_t offset, auto value) {
      if (implicit + offset + sizeof value <= end) std::memcpy(implicit + offset, &value, sizeof value);
    };
    put(0, shape.grid() / shape.items), put(4, 1u), put(8, 1u);  // full workgroups
    put(12, uint16_t(shape.items)), put(14, uint16_t(1)), put(16, uint16_t(1));
    put(18, uint16_t(shape.grid() % shape.items)), put(20, uint16_t(0)), put(22, uint16_t(0));
    put(64, uint16_t(1));
    put(120, shape.dynamic_lds);
  }
};
