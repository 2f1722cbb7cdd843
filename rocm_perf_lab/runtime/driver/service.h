// Messages between the driver in an application and the service that translates its kernels; runtime/messages.py mirrors them.
//
// A stream socket (`service.sock` in the session directory), little-endian, one request and one answer at a time on a connection.
// Every message is a header, followed by `bytes` bytes: a structure, then the variable parts in the order that its comment names.
#ifndef RPL_SERVICE_H
#define RPL_SERVICE_H
#include <stdint.h>

enum { RPL_PROTOCOL = 1 };
struct rpl_message { uint32_t kind, reserved; uint64_t bytes; };

// HELLO carries the descriptor of the memory file (SCM_RIGHTS); the answer is OK. Then: path of the executable.
enum rpl_message_kind {
  RPL_HELLO = 1, RPL_KERNEL, RPL_HOT, RPL_FAULT_TEXT, RPL_RECORD,
  RPL_OK = 100, RPL_REFUSED /* then: text for the user */, RPL_KERNEL_IS, RPL_CODE_IS, RPL_DURATION_IS, RPL_TEXT_IS
};
struct rpl_hello { uint32_t protocol, pid; };

// A kernel that was launched: the device memory around its descriptor, and the ELF file if the driver saw it being loaded.
// Then: the ELF file.
struct rpl_kernel_query {
  uint64_t object;                 // address of the descriptor
  uint64_t image, image_bytes;     // address and size of the block of device memory that contains it
  uint64_t image_offset;           // of the block in the memory file
  uint64_t elf_bytes;
  uint32_t gpu, reserved;          // index
};
// Then: path of a shared library with the function `kernel` (NUL), name of the kernel (NUL).
struct rpl_kernel_answer {
  uint64_t load_address;           // added to addresses of the code object
  uint32_t id, block_count, probe_count, vgpr_rows, agpr_rows, depends_on_order;
  uint32_t wave_size, mode, system_sgprs, work_item_id_dims, work_item_id_rows;
  uint32_t static_scratch_bytes, static_lds_bytes, kernarg_bytes;
  uint32_t properties, user_sgprs, preload_offset, preload_dwords, cooperative, is_final /* optimised already */;
};

// Executions of blocks so far; the answer is CODE_IS with a path (NUL) to better code, an empty path if there is none.
// Then: uint64_t[block_count].
struct rpl_hot_blocks { uint32_t id, block_count; };

// A fault, to be explained. Then: struct rpl_fault. The answer is TEXT_IS: lines for stderr.
struct rpl_fault_report { uint32_t id, queue; uint64_t dispatch; uint32_t grid[3], block[3]; uint64_t max_instructions; };

// A dispatch that ran; the answer is DURATION_IS. Then: uint64_t executions[block_count], uint64_t active_lanes[block_count],
// struct rpl_counters, struct rpl_workgroup_counts[count_entries], then for each traced workgroup (uint64_t linear id) and each of its
// `waves_per_workgroup` wavefronts: uint64_t words, uint64_t[words].
struct rpl_dispatch_record {
  uint32_t id, queue, gpu, block_count;
  uint64_t dispatch, submitted_ns, started_ns;      // in the time of the emulated GPU
  uint32_t grid[3], block[3], remainder[3], lds_bytes, scratch_bytes;
  uint32_t wants_duration;
  uint64_t count_entries, traced_workgroups, waves_per_workgroup;
};
struct rpl_duration { uint64_t nanoseconds; };
#endif
