// The emulated kernel driver as the runtime uses it: /dev/kfd, and functions that the preloaded library exports.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core.h"

// Of the preloaded driver; null without it.
extern uint32_t rpl_driver_ask(uint32_t kind, const struct iovec *parts, int count, void **answer, uint64_t *bytes)
    __attribute__((weak, visibility("default")));
extern void rpl_driver_loaded_code(const void *elf, uint64_t bytes) __attribute__((weak, visibility("default")));
extern void rpl_driver_ring(void) __attribute__((weak, visibility("default")));
extern int rpl_driver_watches_graph(void) __attribute__((weak, visibility("default")));
extern void rpl_driver_begin_node(uint32_t node, const uint64_t *ancestors) __attribute__((weak, visibility("default")));
extern void rpl_driver_node_accesses(uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch, int writes)
    __attribute__((weak, visibility("default")));
extern void rpl_driver_end_node(void) __attribute__((weak, visibility("default")));
extern void rpl_driver_short_arguments(uint64_t bytes, uint64_t wanted) __attribute__((weak, visibility("default")));

static int kfd = -1;

hipError_t hip_driver_open(void) {
  if (!rpl_driver_ring) {
    hip_say("this program runs without the emulated driver; start it with: rocm-perf run -- PROGRAM");
    return hipErrorNoDevice;
  }
  kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
  return kfd < 0 ? hipErrorNoDevice : hipSuccess;
}

int hip_kfd(unsigned long request, void *arguments) {
  int result;
  do result = ioctl(kfd, request, arguments);
  while (result < 0 && errno == EINTR);
  return result < 0 ? errno : 0;
}

uint32_t hip_ask_service(uint32_t kind, const struct iovec *parts, int count, void **answer, uint64_t *bytes) {
  return rpl_driver_ask ? rpl_driver_ask(kind, parts, count, answer, bytes) : 0;
}

void hip_announce_code(const void *elf, uint64_t bytes) {
  if (rpl_driver_loaded_code) rpl_driver_loaded_code(elf, bytes);
}

void hip_ring_driver(void) {
  if (rpl_driver_ring) rpl_driver_ring();
}

int hip_driver_watches_graph(void) { return rpl_driver_watches_graph && rpl_driver_watches_graph(); }

void hip_driver_begin_node(uint32_t node, const uint64_t ancestors[HIP_NODE_WORDS]) { rpl_driver_begin_node(node, ancestors); }

void hip_driver_node_accesses(uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch, int writes) {
  rpl_driver_node_accesses(address, bytes, rows, pitch, writes);
}

void hip_driver_end_node(void) { rpl_driver_end_node(); }

void hip_driver_short_arguments(uint64_t bytes, uint64_t wanted) {
  if (rpl_driver_short_arguments) rpl_driver_short_arguments(bytes, wanted);
}

void hip_driver_forget(void) {
  if (kfd >= 0) close(kfd);
  kfd = -1;
}
