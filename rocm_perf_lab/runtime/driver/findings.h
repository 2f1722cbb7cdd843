// How any part of the driver reports a finding of `rocm-perf run --check`: a record in a file of the session directory, which
// runtime/findings.py reads when the application has ended.
//
// The file `findings.PID.NUMBER` of a process: struct rpl_findings_header, then entries. An entry is written once; its number is the index
// of the count in the header, which grows with every repetition. It survives if the process is killed.
#ifndef RPL_FINDINGS_H
#define RPL_FINDINGS_H
#include <stdint.h>

struct drv_kernel;

// Checks that the user chose (`--check`): bits of drv_settings()->checks.
enum drv_check {
  RPL_ON_RACES = 1,           // on the device, between dispatches, and between dispatches and copies
  RPL_ON_BOUNDS = 2,          // by kernels, also of freed memory
  RPL_ON_UNINITIALISED = 4,
  RPL_ON_BARRIERS = 8,
  RPL_ON_MISALIGNED = 16,
  RPL_ON_LEAKS = 32,
  RPL_ON_HOST = 64            // mistakes of the host: use after hipFree, copies past the end, bad geometry
};
enum { RPL_ON_DEVICE = RPL_ON_RACES | RPL_ON_BOUNDS | RPL_ON_UNINITIALISED | RPL_ON_BARRIERS | RPL_ON_MISALIGNED };

enum { RPL_MOST_SITES = 4, RPL_MOST_FINDINGS = 4000, RPL_FINDINGS_PROTOCOL = 1 };

struct drv_finding {
  enum drv_check check;
  const char *kind;           // stable name for programs: "double_free", "out_of_bounds"
  // A sentence without full stop for the user. "{0}" to "{3}" stand for the sites ("main.hip:31"), for example
  // "store of 4 bytes 12 bytes past the end of 4096 bytes allocated at {1}".
  const char *message;
  // Return addresses in the application: sites[0] is the call that is at fault (of a kernel: its launch). 0: unknown.
  uint64_t sites[RPL_MOST_SITES];
  const struct drv_kernel *kernel;  // NULL: no kernel takes part
  // Findings of equal check, kind, kernel, key and sites[0] are one with a count. Usually 0; else what tells two apart, such as an instruction.
  uint64_t key;
  const void *detail;         // for runtime/findings.py, of kinds that it completes; `detail_bytes` may be 0
  uint32_t detail_bytes;
};
// Whether the user chose one of these checks. Cheap; 0 without a session.
int drv_check_is_on(uint32_t checks);
// Thread-safe; must not be called with drv_memory_lock held.
void drv_find(const struct drv_finding *finding);
void drv_findings_forget(void);   // in the child after fork(): a file of its own, and an empty memory

// ---- layout of the file; runtime/findings.py mirrors it ----
struct rpl_findings_header {
  uint32_t protocol, pid;
  uint64_t dropped;           // distinct findings beyond RPL_MOST_FINDINGS
  uint64_t counts[RPL_MOST_FINDINGS];
};
// Then: detail, padded to 8 bytes; kind (NUL), message (NUL), of each site the path of its executable or library (NUL).
struct rpl_finding_entry {
  uint32_t bytes, number;     // bytes: with this structure and what follows, a multiple of 8
  uint32_t check, kernel;     // kernel: id of the service + 1, or 0
  uint32_t detail_bytes, reserved;
  uint64_t offsets[RPL_MOST_SITES];  // of a site in its library (link-time address); 0: unknown
};
#endif
