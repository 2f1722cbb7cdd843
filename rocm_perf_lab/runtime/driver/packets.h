// Packets, queue and signal as AMD's runtime and the packet processor lay them out (hsa.h, amd_hsa_queue.h, amd_hsa_signal.h).
#ifndef RPL_PACKETS_H
#define RPL_PACKETS_H
#include <stdint.h>

enum { RPL_PACKET_BYTES = 64 };
enum rpl_packet_type {
  RPL_PACKET_VENDOR = 0, RPL_PACKET_INVALID, RPL_PACKET_DISPATCH, RPL_PACKET_BARRIER_AND, RPL_PACKET_AGENT, RPL_PACKET_BARRIER_OR
};
enum rpl_vendor_format { RPL_VENDOR_PM4 = 1, RPL_VENDOR_BARRIER_VALUE = 2 };

struct rpl_signal {
  int64_t kind;
  int64_t value;
  uint64_t event_mailbox;         // 0: nobody waits by an event
  uint32_t event_id, reserved1;
  uint64_t start_ticks, end_ticks;
  uint64_t queue, reserved2;
};

// hsa_kernel_dispatch_packet_t
struct hsa_kernel_dispatch_packet_s {
  uint16_t header, setup;
  uint16_t workgroup[3], reserved0;
  uint32_t grid[3];               // work-items
  uint32_t private_bytes, group_bytes;
  uint64_t object, kernarg, reserved1;
  struct rpl_signal *completion;
};
struct rpl_barrier_packet {
  uint16_t header, reserved0;
  uint32_t reserved1;
  const struct rpl_signal *dependencies[5];
  uint64_t reserved2;
  struct rpl_signal *completion;
};
struct rpl_barrier_value_packet {
  uint16_t header;
  uint8_t format, reserved0;
  uint32_t reserved1;
  const struct rpl_signal *signal;
  int64_t value, mask;
  uint32_t condition, reserved2;  // hsa_signal_condition_t
  uint64_t reserved3[2];
  struct rpl_signal *completion;
};
union rpl_packet {
  uint16_t header;
  struct hsa_kernel_dispatch_packet_s dispatch;
  struct rpl_barrier_packet barrier;
  struct rpl_barrier_value_packet value;
};
_Static_assert(sizeof(union rpl_packet) == RPL_PACKET_BYTES, "an AQL packet has 64 bytes");

// Fields of amd_queue_t, by their offset from its beginning.
enum { RPL_QUEUE_READ_INDEX = 0x80, RPL_QUEUE_INACTIVE_SIGNAL = 0xc0 };
// Errors of a queue: the code that the packet processor stores in the queue's inactive signal, and the exception (enum
// kfd_dbg_trap_exception_code) that the kernel driver reports where the runtime has enabled exceptions.
struct rpl_queue_error { uint32_t code, exception; };
enum {
  RPL_EXCEPTION_TRAP = 2, RPL_EXCEPTION_ILLEGAL = 4, RPL_EXCEPTION_MEMORY = 5, RPL_EXCEPTION_APERTURE = 6, RPL_EXCEPTION_DIMENSIONS = 16,
  RPL_EXCEPTION_LDS = 17, RPL_EXCEPTION_PACKET = 20, RPL_EXCEPTION_WORKGROUP = 21
};
static const struct rpl_queue_error RPL_BAD_DIMENSIONS = {0x2, RPL_EXCEPTION_DIMENSIONS}, RPL_BAD_LDS = {0x4, RPL_EXCEPTION_LDS},
                                    RPL_BAD_PACKET = {0x20, RPL_EXCEPTION_PACKET},
                                    RPL_BAD_WORKGROUP = {0x40, RPL_EXCEPTION_WORKGROUP}, RPL_APERTURE = {0x20000000, RPL_EXCEPTION_APERTURE},
                                    RPL_ILLEGAL = {0x40000000, RPL_EXCEPTION_ILLEGAL}, RPL_TRAP = {0x80000000, RPL_EXCEPTION_TRAP};
#endif
