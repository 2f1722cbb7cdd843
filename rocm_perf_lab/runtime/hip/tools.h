// HSA tools libraries (HSA_TOOLS_LIB): they get a table of HSA functions, replace some of them and so see memory, code and packets.
// This runtime is not based on HSA: it calls the functions of the table only to tell tools what it does itself.
#ifndef HIP_TOOLS_H
#define HIP_TOOLS_H
#include "core.h"
#include "modules.h"

// ---- tools.c ----
void hip_tools_load(void);                                 // the libraries that HSA_TOOLS_LIB names; after the devices are known
int hip_tools_are_loaded(void);
void hip_tools_forget(void);                               // after fork()
void hip_tools_allocated(const struct hip_memory *block);
void hip_tools_freeing(const struct hip_memory *block);    // before the memory is freed
void hip_tools_is_code(uint64_t address);                  // the block has code: it is no memory of the application
void hip_tools_loaded(struct ihipModule_t *module, const void *elf, uint64_t bytes);
void hip_tools_unloading(struct ihipModule_t *module);
void hip_tools_queue(struct hip_queue *queue);             // it was created
// Gives the packet in `slot` to the tool that watches the queue, which submits it and perhaps others; 0 if there is none.
int hip_tools_packet(struct hip_queue *queue, const void *slot, uint32_t first_word);

// ---- tools_hsa.c: the functions of the table ----
enum { HIP_TOOLS_CORE_SLOTS = 128, HIP_TOOLS_AMD_SLOTS = 96 };
enum hip_tools_core {             // slots
  HIP_TOOLS_QUEUE_CREATE = 7, HIP_TOOLS_EXECUTABLE_DESTROY = 84, HIP_TOOLS_SYMBOL_INFO = 93, HIP_TOOLS_READER_FROM_MEMORY = 116,
  HIP_TOOLS_READER_DESTROY = 117, HIP_TOOLS_LOAD_AGENT = 120, HIP_TOOLS_SYMBOL_BY_NAME = 122
};
enum hip_tools_amd { HIP_TOOLS_POOL_ALLOCATE = 13, HIP_TOOLS_POOL_FREE = 14, HIP_TOOLS_LOCK = 22, HIP_TOOLS_UNLOCK = 23 };
void hip_tools_functions(void **core, void **amd);
// What this thread tells tools at this moment: the functions of the table return it and have no effect.
struct hip_tools_told {
  uint64_t address;               // memory that is allocated or freed
  struct hip_queue *queue;        // that is created
  struct ihipModuleSymbol_t *symbol;
};
extern _Thread_local struct hip_tools_told hip_tools_told;
// Handles of agents and pools.
uint64_t hip_tools_agent(const struct hip_device *device);
uint64_t hip_tools_pool(const struct hip_memory *block);
// Of a queue that a tool watches.
typedef void (*hip_tools_writer)(const void *packets, uint64_t count);
typedef void (*hip_tools_handler)(const void *packets, uint64_t count, uint64_t index, void *data, hip_tools_writer writer);

#endif
