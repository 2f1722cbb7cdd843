#include "capture.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "failure.h"

namespace capture {
namespace {

constexpr std::chrono::hours kNoLimit{24 * 365};

const std::string kRedacted = "[redacted]";
// Settings of the runtimes that change how a kernel is placed or run. Others, whatever their prefix, may hold secrets.
constexpr const char* kRecordedVariables[] = {
    "AMD_DIRECT_DISPATCH", "AMD_LOG_LEVEL", "AMD_OPT_FLUSH", "AMD_SERIALIZE_COPY", "AMD_SERIALIZE_KERNEL", "DEBUG_CLR_DIRECT_DOORBELL",
    "GPU_MAX_HEAP_SIZE", "GPU_MAX_HW_QUEUES", "GPU_DEVICE_ORDINAL", "HIP_FORCE_DEV_KERNARG", "HIP_HOST_COHERENT", "HIP_LAUNCH_BLOCKING",
    "HIP_MEM_POOL_SUPPORT", "HIP_VISIBLE_DEVICES", "HSA_CU_MASK", "HSA_DISABLE_FRAGMENT_ALLOCATOR", "HSA_ENABLE_DEBUG",
    "HSA_ENABLE_INTERRUPT", "HSA_ENABLE_SDMA", "HSA_FORCE_FINE_GRAIN_PCIE", "HSA_MAX_VA_ALIGN", "HSA_NO_SCRATCH_RECLAIM",
    "HSA_OVERRIDE_GFX_VERSION", "HSA_RESERVE_SVM", "HSA_SCRATCH_SINGLE_LIMIT", "HSA_SVM_GUARD_PAGES", "HSA_XNACK",
    "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK", "SLURM_PROCID",  // name a capture of several processes
    "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "ROC_AQL_QUEUE_SIZE", "ROC_USE_FGS_KERNARG", "ROCR_VISIBLE_DEVICES"};

// "<grid>/<workgroup>", in work-items
std::string shape_of(const hsa_kernel_dispatch_packet_t& packet) {
  auto by = [](uint32_t x, uint32_t y, uint32_t z) { return std::to_string(x) + "x" + std::to_string(y) + "x" + std::to_string(z); };
  return by(packet.grid_size_x, packet.grid_size_y, packet.grid_size_z) + "/" +
         by(packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z);
}

std::string process_directory(const Settings& settings, const char* what) {
  return settings.directory + "/" + what + std::to_string(getpid());
}

void write_environment(Json& json, const Settings& settings, const Api& api) {
  json.key("environment").open('{').key("variables").open('{');
  for (const char* name : kRecordedVariables)
    if (const char* value = std::getenv(name)) json.member(name, std::string(value));
  json.close('}');
  uint16_t major = 0, minor = 0;
  api.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major);
  api.hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor);
  Dl_info library{};
  dladdr(reinterpret_cast<void*>(api.hsa_iterate_agents), &library);
  json.key("runtime").open('{').member("version", std::to_string(major) + "." + std::to_string(minor));
  json.member("path", library.dli_fname != nullptr ? library.dli_fname : "").member("build_id", "").close('}');
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  json.member("pid", int(getpid())).key("command").open('[');
  for (size_t begin = 0; begin < all.size(); begin = all.find('\0', begin) + 1) {
    const std::string argument(all.c_str() + begin);
    if (settings.with_command) json.value(argument);
    else json.value(begin == 0 ? argument.substr(argument.rfind('/') + 1) : kRedacted);
  }
  json.close(']').member("command_redacted", !settings.with_command);
  json.close('}');
}

// Kernels that no request wants, of one thread; each has one possible place. Kernels are forgotten in a new generation.
struct Unwanted {
  uint64_t generation = 0, kernel_object = 0;
  std::atomic<uint64_t>* count = nullptr;
};
constexpr size_t kUnwanted = 256;
std::atomic<uint64_t> generation{1};
thread_local Unwanted unwanted[kUnwanted];

// Kernel objects are aligned to 64 bytes, and those of one code object are often adjacent.
Unwanted& unwanted_at(uint64_t kernel_object) { return unwanted[(kernel_object >> 6 ^ kernel_object >> 14) % kUnwanted]; }

// Module variables before or after the dispatch, one after another.
std::string read_variables(Snapshot& snapshot, const KernelCode& code) {
  std::string bytes;
  for (const Variable& variable : code.variables) bytes += snapshot.read(variable.address, variable.size);
  return bytes;
}

}  // namespace

Capture::Capture(const Settings& settings, const Api& api, Capture* earlier)
    : agents(api), code(api, settings.directory), queues(api), settings_(settings), api_(api), timing_(api, [this] { write_times(); }) {
  for (const Wanted& wanted : settings.wanted) {
    auto request = std::make_shared<Request>();
    request->wanted = wanted;
    request->filter = std::make_unique<KernelFilter>(wanted.kernel);
    requests_.push_back(request);
  }
  ++generation;
  if (earlier == nullptr) return;
  std::lock_guard guard(earlier->counts_lock_);
  armed_ = earlier->is_armed();
  for (const auto& [name, count] : earlier->counts_) counts_[name] = count.load();
  requests_ = earlier->requests_;
  warnings_ = earlier->warnings_;
}

void Capture::warn(const std::string& text) {
  std::lock_guard guard(counts_lock_);
  warnings_.push_back(text);
}

void Capture::forget_kernels(const std::vector<uint64_t>& objects) {
  std::lock_guard guard(counts_lock_);
  for (uint64_t object : objects) known_.erase(object);
  ++generation;
}

Capture::Known& Capture::known(uint64_t kernel_object, std::unique_lock<std::mutex>& lock) {
  if (auto found = known_.find(kernel_object); found != known_.end()) return found->second;
  lock.unlock();
  const std::string symbol = code.name_of(kernel_object);
  Known kernel{{}, symbol.empty() ? "unknown kernel" : demangled_name(symbol)};
  for (size_t i = 0; i < requests_.size() && !symbol.empty(); ++i)
    if (requests_[i]->filter->matches(symbol)) kernel.requests.push_back(i);
  lock.lock();
  kernel.count = &counts_[kernel.name];
  return known_.emplace(kernel_object, std::move(kernel)).first->second;
}

bool Capture::counts_unwanted(uint64_t kernel_object) {
  const Unwanted& found = unwanted_at(kernel_object);
  if (found.kernel_object != kernel_object || found.generation != generation.load(std::memory_order_acquire)) return false;
  found.count->fetch_add(1, std::memory_order_relaxed);
  return true;
}

Capture::Taken Capture::counts(const Packet& packet) {
  Taken taken;
  bool is_first;
  {
    std::unique_lock guard(counts_lock_);
    const Known& kernel = known(packet.kernel_object, guard);
    taken.kernel_index = (*kernel.count)++;
    is_first = taken.kernel_index == 0;
    for (size_t i : kernel.requests) {
      Request& request = *requests_[i];
      if (!request.wanted.shape.empty() && request.wanted.shape != shape_of(packet)) continue;
      if (request.matches++ != request.wanted.index || request.is_taken) continue;
      request.is_taken = true;
      taken.requests.push_back(i);
    }
    if (!taken.requests.empty()) {
      for (const auto& [name, count] : counts_) taken.process_index += count;
      --taken.process_index;  // this dispatch is counted
    }
    if (settings_.lists) taken.name = kernel.name;
    else if (kernel.requests.empty()) unwanted_at(packet.kernel_object) = {generation, packet.kernel_object, kernel.count};
  }
  if (is_first) report();
  return taken;
}

void Capture::report() {
  Json json;
  {
    std::lock_guard guard(counts_lock_);
    json.open('{').key("kernels").open('{');
    uint64_t dispatches = 0;
    for (const auto& [name, count] : counts_) {
      json.member(name.c_str(), count.load());
      dispatches += count;
    }
    json.close('}').key("requests").open('[');
    for (const auto& request : requests_) {
      json.open('{').member("kernel", request->wanted.kernel).member("matches", request->matches);
      json.member("captured", request->is_captured).key("error");
      if (request->error.empty()) json.null();
      else json.value(request->error);
      json.close('}');
    }
    json.close(']');
    json.key("warnings").open('[');
    for (const std::string& warning : warnings_) json.value(warning);
    if (dispatches == 0 && api_.makes_queues_unseen)
      json.value("this runtime has hsa_amd_queue_create: dispatches on queues that it creates are not seen");
    json.close(']').close('}');
  }
  replace_file(process_directory(settings_, "kernels-") + ".json", json.text() + "\n");
}

void Capture::report_times(std::chrono::milliseconds time) {
  if (!settings_.lists) return;
  timing_.settle(time);
  write_times();
}

void Capture::write_times() {
  if (!settings_.lists) return;
  std::lock_guard guard(times_lock_);
  Json json;
  timing_.write(json);
  replace_file(process_directory(settings_, "times-") + ".json", json.text() + "\n");
}

void Capture::handle(const void* packets, uint64_t count, Queue& queue, PacketWriter writer) {
  const auto* packet = static_cast<const Packet*>(packets);
  const auto* const end = packet + count;
  const auto* unwritten = packet;  // packets that pass unchanged are written together
  auto write = [&](const Packet* until) {
    if (unwritten != until) writer(unwritten, uint64_t(until - unwritten));
    unwritten = until;
  };
  for (; packet != end; ++packet) {
    if (queues.is_stopped() && !queues.is_own(queue, packet)) {
      write(packet);
      queues.wait_turn(queue, writer);
    }
    if (!is_armed()) break;
    const bool is_dispatch = (packet->header & 0xff) == HSA_PACKET_TYPE_KERNEL_DISPATCH;
    if (!is_dispatch || counts_unwanted(packet->kernel_object)) continue;
    const Taken taken = counts(*packet);
    if (!settings_.lists && taken.requests.empty()) continue;
    write(packet);
    unwritten = packet + 1;
    if (settings_.lists) timing_.submit(*packet, queue, writer, taken.name, shape_of(*packet), taken.kernel_index);
    else take(*packet, queue, writer, taken);
  }
  write(end);
}

void Capture::take(const Packet& packet, Queue& queue, PacketWriter writer, const Taken& taken) {
  bool is_submitted = false;
  std::string error;
  MemoryMap::passes_gate = true;
  try {
    save(packet, queue, writer, taken, is_submitted);
  } catch (const std::exception& failure) {  // after any failure the application continues
    error = failure.what();
  }
  MemoryMap::passes_gate = false;
  bool is_last;
  {
    std::lock_guard guard(counts_lock_);
    for (size_t i : taken.requests) {
      requests_[i]->error = error;
      requests_[i]->is_captured = error.empty();
    }
    is_last = std::all_of(requests_.begin(), requests_.end(), [](const auto& request) { return request->is_taken; });
  }
  report();
  if (is_last) disarm();
  if (!is_submitted) writer(&packet, 1);
  queues.resume();
}

void Capture::save(const Packet& packet, Queue& queue, PacketWriter writer, const Taken& taken, bool& is_submitted) {
  std::vector<std::string> warnings;
  queues.stop_all(queue, writer, settings_.timeout, warnings);
  for (const std::string& warning : warnings) warn(warning);
  std::unique_lock gate(memory.gate, std::defer_lock);
  if (!gate.try_lock_for(settings_.timeout)) throw Failure("calls that copy or free memory did not return in time");
  const KernelCode kernel = code.code_of(packet.kernel_object);
  Directory directory(process_directory(settings_, "capture-") + "-" + std::to_string(taken.requests.front()));
  Snapshot snapshot(api_, agents, directory, memory, code.loaded_ranges(), queues.rings(), queue.agent);
  const auto kernarg_address = reinterpret_cast<uint64_t>(packet.kernarg_address);
  const std::string kernarg = snapshot.read(kernarg_address, kernel.kernarg_size);
  const std::string variables = read_variables(snapshot, kernel);
  snapshot.before(settings_.mode, {{"kernarg", kernarg}, {"variables", variables}}, kernarg_address, settings_.limit);
  directory.put("kernarg.bin", kernarg);
  directory.put("kernel.hsaco", kernel.bytes);
  if (!variables.empty()) directory.put("variables.bin", variables);
  std::string timing;
  is_submitted = true;
  const auto original = packet.completion_signal;
  if (!run(packet, queue, writer, timing))
    throw Failure("the dispatch did not finish within " + seconds(settings_.timeout));
  try {
    snapshot.after();
    const std::string variables_after = read_variables(snapshot, kernel);
    if (variables_after != variables) directory.put("after/variables.bin", variables_after);
    Json regions;
    snapshot.write_regions(regions);
    directory.put("memory_regions.json", regions.text() + "\n");
    directory.put("dispatch.json", describe(packet, queue, kernel, taken, timing, snapshot) + "\n");
    directory.finish(is_emulated(queue));
  } catch (...) {
    if (original.handle != 0) api_.hsa_signal_subtract_screlease(original, 1);
    throw;
  }
  if (original.handle != 0) api_.hsa_signal_subtract_screlease(original, 1);
}

bool Capture::run(const Packet& packet, Queue& queue, PacketWriter writer, std::string& timing) {
  const auto original = packet.completion_signal;
  Packet copy = packet;
  if (api_.hsa_signal_create(1, 0, nullptr, &copy.completion_signal) != HSA_STATUS_SUCCESS) throw Failure("creating a signal for the dispatch failed");
  const hsa_signal_t done = copy.completion_signal;
  if (!queue.profiled) api_.hsa_amd_profiling_set_profiler_enabled(queue.queue, 1);
  writer(&copy, 1);
  if (!wait(api_, done, settings_.timeout)) {
    const Api& api = api_;
    std::thread([&api, done, original] {  // the application is notified when the dispatch ends
      if (wait(api, done, kNoLimit) && original.handle != 0) api.hsa_signal_subtract_screlease(original, 1);
    }).detach();
    return false;
  }
  hsa_amd_profiling_dispatch_time_t time{};
  uint64_t frequency = 0;
  api_.hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency);
  if (dispatch_time(api_, queue.agent, done, time)) {
    Json json;
    json.open('{').member("start", time.start).member("end", time.end).member("frequency", frequency).close('}');
    timing = json.text();
  }
  if (!queue.profiled) api_.hsa_amd_profiling_set_profiler_enabled(queue.queue, 0);
  if (original.handle != 0) copy_times(done, original);  // the application may read them from its own signal
  api_.hsa_signal_destroy(done);
  return true;
}

// By the driver of `rocm-perf run`, which sets the variable, or by its product name.
bool Capture::is_emulated(const Queue& queue) {
  if (std::getenv("RPL_SESSION") != nullptr) return true;
  return agents.all()[size_t(agents.index_of(queue.agent))].product.find("emulated") != std::string::npos;
}

std::string Capture::describe(const Packet& packet, const Queue& queue, const KernelCode& kernel, const Taken& taken,
                              const std::string& timing, const Snapshot& snapshot) {
  const std::string symbol = code.name_of(packet.kernel_object);
  Json json;
  json.open('{').member("format_version", 1);
  json.key("kernel").open('{').member("symbol", symbol).member("mangled_name", mangled_name(symbol));
  json.member("name", demangled_name(symbol)).key("kernel_object").address(packet.kernel_object);
  json.member("kernarg_size", kernel.kernarg_size).member("group_segment_size", kernel.group_size);
  json.member("private_segment_size", kernel.scratch_size).close('}');
  json.key("packet").open('{').member("header", uint32_t(packet.header)).member("setup", uint32_t(packet.setup));
  json.key("workgroup_size").open('[').value(uint32_t(packet.workgroup_size_x)).value(uint32_t(packet.workgroup_size_y));
  json.value(uint32_t(packet.workgroup_size_z)).close(']');
  json.key("grid_size").open('[').value(packet.grid_size_x).value(packet.grid_size_y).value(packet.grid_size_z).close(']');
  json.member("private_segment_size", packet.private_segment_size).member("group_segment_size", packet.group_segment_size);
  json.key("kernarg_address").address(reinterpret_cast<uint64_t>(packet.kernarg_address));
  json.key("completion_signal").address(packet.completion_signal.handle).close('}');
  snapshot.write_kernarg_place(json, reinterpret_cast<uint64_t>(packet.kernarg_address));
  json.key("index").open('{').member("kernel", taken.kernel_index).member("process", taken.process_index).close('}');
  const int agent = agents.index_of(queue.agent);
  json.key("queue").open('{').member("id", queue.queue->id).member("type", uint32_t(queue.type));
  json.member("size", queue.queue->size).member("agent", agent).key("cu_mask").open('[');
  for (uint32_t word : queue.cu_mask) json.value(word);
  json.close(']').close('}');
  json.member("agent", agent);
  agents.write(json);
  json.key("code_object").open('{').member("sha256", kernel.sha256).key("load_base").address(kernel.load_base);
  json.member("load_size", kernel.load_size).key("load_delta").address(kernel.load_delta).close('}');
  uint64_t offset = 0;
  json.key("variables").open('[');
  for (const Variable& variable : kernel.variables) {
    json.open('{').member("name", variable.name).key("address").address(variable.address).member("size", variable.size);
    json.member("offset", offset).close('}');
    offset += variable.size;
  }
  json.close(']');
  snapshot.write_code_pointers(json);
  json.key("timing");
  if (timing.empty()) json.null();
  else json.text_of(timing);
  json.key("warnings").open('[');
  {
    std::lock_guard guard(counts_lock_);
    for (const std::string& warning : warnings_) json.value(warning);
  }
  json.close(']');
  write_environment(json, settings_, api_);
  json.close('}');
  return json.text();
}

}  // namespace capture
