// Messages between the driver in an application and the service that translates its kernels; runtime/messages.py mirrors them.
//
// A stream socket (`service.sock` in the session directory), little-endian, one request and one answer at a time on a connection.
// Every message is a header, followed by `bytes` bytes: a structure, then the variable parts in the order that its comment names.
#ifndef RPL_SERVICE_H
#define RPL_SERVICE_H
#include <stdint.h>

enum { RPL_PROTOCOL = 1 };
#define RPL_GLOBAL_WAVE_SYNC 0xffffffffu
struct rpl_message { uint32_t kind, reserved; uint64_t bytes; };

// HELLO carries the descriptor of the memory file (SCM_RIGHTS); the answer is OK. Then: path of the executable.
enum rpl_message_kind {
  RPL_HELLO = 1, RPL_KERNEL, RPL_HOT, RPL_FAULT_TEXT, RPL_RECORD,
  RPL_HIP_CODE = 20, RPL_HIP_COMPILE,
  RPL_CHECK_FACTS = 30,
  RPL_OK = 100, RPL_REFUSED /* then: text for the user */, RPL_KERNEL_IS, RPL_CODE_IS, RPL_DURATION_IS, RPL_TEXT_IS,
  RPL_HIP_CODE_IS = 120, RPL_HIP_COMPILED,
  RPL_CHECK_FACTS_ARE = 130
};
struct rpl_hello { uint32_t protocol, pid; };

// A kernel that was launched: the device memory around its descriptor, and the ELF file if the driver saw it being loaded.
// Then: the ELF file.
struct rpl_kernel_query {
  uint64_t object;                 // address of the descriptor
  uint64_t image, image_bytes;     // address and size of the block of device memory that contains it
  uint64_t image_offset;           // of the block in the memory file; UINT64_MAX: it is in the memory of the process only
  uint64_t elf_bytes;
  uint32_t gpu, reserved;          // index
};
// Then: path of a shared library with the function `kernel` (NUL), name of the kernel (NUL).
struct rpl_kernel_answer {
  uint64_t load_address;           // added to addresses of the code object
  uint32_t id, block_count, probe_count, vgpr_rows, agpr_rows, depends_on_order;
  uint32_t wave_size, mode, system_sgprs, work_item_id_dims, work_item_id_rows;
  uint32_t static_scratch_bytes, static_lds_bytes, kernarg_bytes;
  uint32_t properties, user_sgprs, preload_offset, preload_dwords;
  uint32_t cooperative;            // 0, or 1 + offset of the address of the grid's barrier in the arguments, zero in other launches
                                   // RPL_GLOBAL_WAVE_SYNC: workgroups meet without a barrier in memory
  uint32_t is_final;               // optimised already
};

// Executions of blocks so far; the answer is CODE_IS with a path (NUL) to better code, an empty path if there is none.
// Then: uint64_t[block_count].
struct rpl_hot_blocks { uint32_t id, block_count; };

// A fault, to be explained. Then: struct rpl_fault, uint64_t[][2] with begin and end of the memory next to the first address. The answer
// is TEXT_IS: lines for stderr.
struct rpl_fault_report {
  uint32_t id, queue;
  uint64_t dispatch;
  uint32_t grid[3], block[3];
  uint64_t max_instructions, is_in_host_memory;
};

// A dispatch whose duration is wanted; the answer is DURATION_IS. Then, all of it little-endian and without padding:
// uint64_t executions[block_count], uint64_t active_lanes[block_count], struct rpl_counters, struct rpl_workgroup_counts[workgroups],
// uint64_t ranges[range_count][2] (begin and end of the memory that the GPU can access), uint64_t sampled[traced_workgroups] (linear
// ids), for each of those and each of its `waves_per_workgroup` wavefronts uint64_t words and uint64_t[words], then the footprint:
// struct rpl_line_access[line_accesses], uint32_t windows[xcds][RPL_WINDOWS][1 << channel_bits],
// uint32_t memory_instructions[workgroups].
struct rpl_dispatch_record {
  uint32_t id, queue, gpu /* index */, block_count;
  uint64_t dispatch, workgroups, instructions;
  uint32_t grid[3], block[3], remainder[3], lds_bytes, scratch_bytes;
  uint32_t waves_per_workgroup, traced_workgroups, range_count;
  uint32_t xcds, channel_bits, sampling_shift, footprint_is_truncated, trace_is_truncated, reserved;
  uint64_t line_accesses;
};
// `fixed_ns` does not depend on the work of the dispatch. 0 and 0: the target has no timing model.
struct rpl_duration { uint64_t nanoseconds, fixed_ns; uint32_t record /* number of the estimate, for the records */, reserved; };

// What the checks need to know about a kernel; the question is its id (uint32_t). Then: uint8_t traits[instructions] (checks.h).
struct rpl_check_facts { uint32_t instructions, unseen_releases; };

// ---- for the HIP runtime (runtime/hip) ----

// Which code object of a fat binary fits. Then: the ELF file or offload bundle. The answer is RPL_HIP_CODE_IS.
struct rpl_hip_code_query { char architecture[32]; };
// Then: struct rpl_hip_kernel[kernel_count], struct rpl_hip_argument[argument_count] (padded to 8 bytes), names (NUL, `text_bytes` bytes),
// the ELF file.
struct rpl_hip_code { uint64_t elf_bytes; uint32_t kernel_count, argument_count, text_bytes, has_phased_calls; };
struct rpl_hip_kernel {
  uint64_t descriptor;             // address in the code object
  uint32_t name /* offset in the names */, kernarg_bytes, kernarg_alignment, lds_bytes, private_bytes, max_workgroup, required[3];
  uint32_t vgprs, agprs, sgprs, sgpr_spills, vgpr_spills, wave_size, uses_dynamic_stack;
  uint32_t first_argument, argument_count, explicit_count, is_uniform;
};
struct rpl_hip_argument { uint32_t offset, size, hidden /* enum hip_hidden */; };

// A compilation of hiprtc. Then, NUL-terminated: source, name of the source, options, for each header its name and its content, name
// expressions. The answer is RPL_HIP_COMPILED.
struct rpl_hip_compile { char architecture[32]; uint32_t option_count, header_count, expression_count, reserved; };
// Then: log (NUL), lowered names (NUL each), the code object (`code_bytes` bytes).
struct rpl_hip_compiled { uint64_t code_bytes; uint32_t succeeded, name_count; };

// The file `records.PID.NUMBER` of a process in the session directory: entries, each a header and `bytes` bytes. Its last entry may be
// incomplete if the process was killed.
enum rpl_entry_kind {
  RPL_ENTRY_PROCESS = 1,  // struct rpl_process_entry, then the executable (NUL)
  RPL_ENTRY_COUNTS,       // struct rpl_counts_entry, uint64_t executions[block_count], active_lanes[block_count], struct rpl_counters
  RPL_ENTRY_DISPATCH,     // struct rpl_dispatch_entry
  RPL_ENTRY_COPY          // struct rpl_copy_entry
};
struct rpl_entry { uint32_t kind, bytes; };
struct rpl_process_entry { uint32_t protocol, pid, parent, reserved; uint64_t start_ns; };
// Equal counts of a kernel are written once.
struct rpl_counts_entry { uint32_t number, id, block_count, reserved; };
// Times are nanoseconds of the emulated GPU; `counts` is the number of the entry with the counters of the dispatch.
struct rpl_dispatch_entry {
  uint32_t id, gpu, queue, counts;
  uint64_t dispatch, submitted_ns, start_ns, end_ns;
  uint32_t grid[3], block[3], remainder[3], lds_bytes, scratch_bytes, record /* of rpl_duration */;
};
struct rpl_copy_entry { uint32_t gpu, queue, from_gpu, to_gpu /* 1 or 0: device memory */; uint64_t bytes, start_ns, end_ns; };
#endif
