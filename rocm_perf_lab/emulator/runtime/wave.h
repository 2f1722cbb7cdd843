// Interface between translated kernels (JIT), the memory runtime and the timing engine.
// emulator/structures.py mirrors these offsets for the translator; a test compares the two.
#ifndef RPL_WAVE_H
#define RPL_WAVE_H
#include <stdint.h>

enum { RPL_LANES = 64, RPL_VGPR_ROWS = 512, RPL_TEMP_ROWS = 16, RPL_SGPRS = 128, RPL_RECENT_PLACES = 4 };

// Reason for which a translated kernel returned.
enum rpl_status { RPL_ENDED = 0, RPL_BARRIER = 1, RPL_SLICE_OVER = 2, RPL_FAULT = 3, RPL_GRID_BARRIER = 4 };

struct rpl_machine;
struct rpl_trace;
struct rpl_group;

// One wavefront. Rows 0..255 are architectural VGPRs, 256..511 accumulation VGPRs, 512.. temporaries that hold
// operands prepared by DPP, SDWA or lane permutations. SGPRs are indexed by their operand number: 102/103 FLAT_SCRATCH,
// 104/105 XNACK_MASK, 106/107 VCC, 124 M0, 126/127 EXEC.
struct rpl_wave {
  uint32_t vgpr[RPL_VGPR_ROWS + RPL_TEMP_ROWS][RPL_LANES];
  uint32_t sgpr[RPL_SGPRS];
  uint32_t scc;
  uint32_t mode;                 // MODE register: round 0..3, denorm 4..7, dx10_clamp 8, ieee 9
  uint32_t status;               // enum rpl_status, set by the translated kernel or by a helper
  uint32_t resume;               // resume point to pass back in
  int64_t slice;                 // instructions left in this time slice; each basic block subtracts its length
  uint64_t *block_executions;    // [block]: executions of each basic block (summed over the waves of a thread)
  uint64_t *block_active_lanes;  // [block]: sum over its VALU instructions of popcount(EXEC)
  uint8_t *lds;
  uint8_t *scratch;              // scratch of this wave; lane l owns [l * scratch_bytes, (l + 1) * scratch_bytes)
  struct rpl_machine *machine;
  struct rpl_trace *trace;       // NULL unless this wavefront is sampled for timing
  uint32_t lds_bytes;
  uint32_t scratch_bytes;        // per work-item
  uint32_t workgroup[3];
  uint32_t wave_in_workgroup;
  int64_t slice_end;             // instructions executed by the workgroup at the end of this slice
  struct rpl_group *group;       // shadow of the workgroup for the checks of checks.h; NULL if disabled
  uint32_t workgroup_number;     // in linear order; determines the compute unit
  uint32_t waves_in_workgroup;
  uint32_t vgpr_rows, agpr_rows; // allocated registers
  uint32_t lane_count;           // of the wavefront: 32 or 64; rows have 64 lanes in both cases, and EXEC has 64 bits
  uint32_t grid_barrier;         // resource and generation that this wavefront waits for, see global_wave_sync.c
  uint64_t recent_places[RPL_RECENT_PLACES];  // of recent loads of sampled lines, see footprint.c
  uint32_t recent_times[RPL_RECENT_PLACES];
  uint32_t oldest_place, memory_instructions;
  uint64_t load_address;         // of the code object: device address of its address 0
};

// ---- helpers called by translated code --------------------------------------------------------------------------
// All return 0, or 1 after recording a fault in wave->machine (the kernel then returns with RPL_FAULT).
// `inst` is the index of the instruction in program order (Program.instructions[inst] knows its address and source line).
// `dst`, `data`, `addr` are VGPR rows. `exec` is read from wave->sgpr[126..127], which translated code has written back.

// Access kinds of loads and stores.
enum rpl_kind { RPL_U8 = 0, RPL_I8 = 1, RPL_U16 = 2, RPL_I16 = 3, RPL_B32 = 4 /* x dwords */,
                RPL_D16_LO = 8 /* merge into the low half */, RPL_D16_HI = 16 /* into, or out of, the high half */,
                RPL_D16_CLEARS = 32 /* the other half becomes zero */ };
// Address modes of vector memory.
enum rpl_address { RPL_ADDR_VGPR64 = 0, RPL_ADDR_SGPR_PLUS_VGPR32 = 1, RPL_ADDR_FLAT = 2 };
enum rpl_atomic { RPL_SWAP, RPL_CMPSWAP, RPL_ADD, RPL_SUB, RPL_SMIN, RPL_UMIN, RPL_SMAX, RPL_UMAX, RPL_AND, RPL_OR,
                  RPL_XOR, RPL_INC, RPL_DEC, RPL_FADD, RPL_FMIN, RPL_FMAX, RPL_RSUB, RPL_PK_ADD_F16, RPL_PK_ADD_BF16,
                  RPL_MSKOR, RPL_WRAP, RPL_FCMPSWAP, RPL_CSUB };

// address = base + offset (+ VGPR), as `mode` says.
int rpl_global_load(struct rpl_wave *w, int inst, int dst, int addr, uint64_t base, int64_t offset, int mode, int kind, int dwords);
int rpl_global_store(struct rpl_wave *w, int inst, int data, int addr, uint64_t base, int64_t offset, int mode, int kind, int dwords);
int rpl_global_atomic(struct rpl_wave *w, int inst, int dst, int data, int addr, uint64_t base, int64_t offset, int mode, int op, int is64, int returns);
// scratch address of a lane = (addr < 0 ? 0 : vgpr[addr]) + saddr + offset, within its own scratch.
int rpl_scratch_load(struct rpl_wave *w, int inst, int dst, int addr, uint32_t saddr, int32_t offset, int kind, int dwords);
int rpl_scratch_store(struct rpl_wave *w, int inst, int data, int addr, uint32_t saddr, int32_t offset, int kind, int dwords);
// MUBUF; RPL_PRIVATE_RESOURCE is the upper half of the base address of the resource of scratch. srsrc = first SGPR of the
// resource, with RPL_RANGE_SELECT if it selects how it checks ranges; vindex or voffset < 0: not used.
int rpl_buffer_load(struct rpl_wave *w, int inst, int dst, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int kind, int dwords);
int rpl_buffer_store(struct rpl_wave *w, int inst, int data, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int kind, int dwords);
int rpl_buffer_atomic(struct rpl_wave *w, int inst, int data, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int op, int is64, int returns);
// Typed: `components` values in whole registers, in pairs of halves, or in an upper half; `format` is data | number << 4 of
// the instruction, or -1 for the resource's.
enum { RPL_PRIVATE_RESOURCE = 0xfffe, RPL_RANGE_SELECT = 1 << 8 };
enum rpl_packing { RPL_FORMAT_32, RPL_FORMAT_D16, RPL_FORMAT_D16_HI, RPL_FORMAT_CLEARS = 4 /* halves that are not loaded */ };
int rpl_format_load(struct rpl_wave *w, int inst, int dst, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int components, int packing, int format);
int rpl_format_store(struct rpl_wave *w, int inst, int data, int srsrc, int vindex, int voffset, uint32_t soffset, int32_t offset, int components, int packing, int format);
// SMEM: into sgpr[sdst..].
int rpl_scalar_load(struct rpl_wave *w, int inst, int sdst, uint64_t address, int dwords);
int rpl_scalar_buffer_load(struct rpl_wave *w, int inst, int sdst, int srsrc, uint32_t offset, int dwords);
// SMEM: from sgpr[sdata..], which receives the old value of an atomic with return.
int rpl_scalar_store(struct rpl_wave *w, int inst, int sdata, uint64_t address, int dwords);
int rpl_scalar_buffer_store(struct rpl_wave *w, int inst, int sdata, int srsrc, uint32_t offset, int dwords);
int rpl_scalar_atomic(struct rpl_wave *w, int inst, int sdata, uint64_t address, int op, int is64, int returns);
int rpl_scalar_buffer_atomic(struct rpl_wave *w, int inst, int sdata, int srsrc, uint32_t offset, int op, int is64, int returns);
// LDS. Offsets of two-address forms are in bytes.
int rpl_lds_load(struct rpl_wave *w, int inst, int dst, int addr, uint32_t offset, int kind, int dwords);
int rpl_lds_store(struct rpl_wave *w, int inst, int data, int addr, uint32_t offset, int kind, int dwords);
// Stores the dwords of each lane from rows to LDS, 4 or (three or four dwords) 16 bytes per lane; the second half of loads into LDS.
int rpl_lds_fill(struct rpl_wave *w, int inst, int row, uint32_t base, int dwords);
// Reads 64 bits per lane (96 for elements of 6 bits) and transposes elements of `bits` among each 16 lanes; EXEC has to be all ones.
int rpl_lds_load_transposed(struct rpl_wave *w, int inst, int dst, int addr, uint32_t offset, int bits);
int rpl_lds_load2(struct rpl_wave *w, int inst, int dst, int addr, uint32_t offset0, uint32_t offset1, int dwords);
int rpl_lds_store2(struct rpl_wave *w, int inst, int data0, int data1, int addr, uint32_t offset0, uint32_t offset1, int dwords);
// data1 is the second operand of compare-and-swap, MSKOR and WRAP.
int rpl_lds_atomic(struct rpl_wave *w, int inst, int dst, int data, int data1, int addr, uint32_t offset, int op, int is64, int returns);
// Two exchanges per lane, one after the other; the old values go to adjacent registers.
int rpl_lds_exchange2(struct rpl_wave *w, int inst, int dst, int data0, int data1, int addr, uint32_t offset0, uint32_t offset1, int dwords);
// Adds or subtracts the number of active lanes at the LDS address in M0; all of them receive the old value.
int rpl_lds_append(struct rpl_wave *w, int inst, int dst, uint32_t offset, int subtracts);
// Global wave sync: initialises a resource, or arrives at its barrier; the count of wavefronts is in a row.
int rpl_gws_init(struct rpl_wave *w, int inst, int row, uint32_t offset);
int rpl_gws_barrier(struct rpl_wave *w, int inst, int row, uint32_t offset);
// Whether a wavefront that arrived may continue.
int rpl_gws_released(const struct rpl_wave *w);
// Lane permutations of the LDS unit: no memory, no LDS bounds.
// `group`: lanes among which data moves.
int rpl_bpermute(struct rpl_wave *w, int inst, int dst, int addr, int data, uint32_t offset, uint32_t group);
int rpl_permute(struct rpl_wave *w, int inst, int dst, int addr, int data, uint32_t offset, uint32_t group);
int rpl_swizzle(struct rpl_wave *w, int inst, int dst, int data, uint32_t offset);
// A fence between workgroups: BUFFER_WBL2 releases, BUFFER_INV acquires. Only the checks use it.
int rpl_fence(struct rpl_wave *w, int inst, int release);
// Matrix core. src_c < 0: every element is the 32-bit (64-bit for F64) constant c_bits. Element types as in enum rpl_element.
// FP8 and BF8 are the variants without infinities and -0, the OCP ones those of the Open Compute Project. The FLUSHED halves are
// zero if denormal, and so are the float32 operands and results of their products. Sums: see mfma_sums.h.
enum rpl_element { RPL_F16, RPL_BF16, RPL_F32, RPL_F64, RPL_I8E, RPL_XF32, RPL_FP8, RPL_BF8, RPL_OCP_FP8, RPL_OCP_BF8,
                   RPL_FLUSHED_F16, RPL_FLUSHED_BF16 };
int rpl_mfma(struct rpl_wave *w, int inst, int dst, int src_a, int src_b, int src_c, uint64_t c_bits, int m, int n, int k, int blocks,
             int element_a, int element_b, int element_out, int cbsz, int abid, int blgp);
// Structured sparsity: D += A x B with half of A's columns in src_a, selected by the row `indices`. `clamps`: FP16_OVFL limits D.
int rpl_smfmac(struct rpl_wave *w, int inst, int dst, int src_a, int src_b, int indices, int m, int k, int element_a, int element_b,
               int cbsz, int abid, int clamps);
// Products of 4 to 8-bit floats; the formats are those of CBSZ and BLGP (enum rpl_narrow). scale_a, scale_b: rows of exponents (E8M0),
// of which `byte_a` and `byte_b` select a byte, or -1 for `scale_bits_*`.
enum rpl_narrow { RPL_E4M3, RPL_E5M2, RPL_E2M3, RPL_E3M2, RPL_E2M1, RPL_NARROW_FORMATS };
int rpl_mfma_narrow(struct rpl_wave *w, int inst, int dst, int src_a, int src_b, int src_c, uint32_t c_bits, int m, int k, int format_a,
                    int format_b, int scale_a, uint32_t scale_bits_a, int byte_a, int scale_b, uint32_t scale_bits_b, int byte_b);

// Control: a trap or an invalid jump (id -1), a clock that is equal in every run, the moved source row of DPP.
int rpl_trap(struct rpl_wave *w, int inst, int id);
// `left`: later instructions of the basic block, which the slice has counted already.
int rpl_clock(struct rpl_wave *w, int inst, int sdst, int left);
// Bits [first, first + size) of a hardware register other than MODE, into sgpr[sdst].
int rpl_read_register(struct rpl_wave *w, int inst, int sdst, int id, int first, int size);
void rpl_set_rounding(struct rpl_wave *w, int first_bit);
// Copies a row (or `value` if from < 0) to a row; adds M0[7:0] to the one whose bit of M0[15:12] is passed (else -1) and set.
int rpl_indexed_move(struct rpl_wave *w, int inst, int to, int from, uint32_t value, int to_bit, int from_bit, int all_lanes);
// V_PERMLANE16_SWAP and 32: exchanges the first `rows` lanes of each 2 * `rows` of one row with the others of another row.
int rpl_swap_lanes(struct rpl_wave *w, int inst, int first, int second, int rows);
// `inactive`: lanes outside of EXEC are sources too.
uint64_t rpl_dpp(struct rpl_wave *w, int dst, int src, int control, int row_mask, int bank_mask, int bound_ctrl, int inactive);
// DPP within groups of eight lanes: three bits of `selectors` for each.
uint64_t rpl_dpp8(struct rpl_wave *w, int dst, int src, int selectors, int inactive);
// V_PERMLANE16: four bits of `selectors` for each of 16 lanes; `crosses`: from the other row of the pair.
int rpl_permute_rows(struct rpl_wave *w, int inst, int dst, int src, uint32_t low, uint32_t high, int crosses, int inactive, int bound_ctrl);
// V_MOVREL: a move (or `swaps`) between rows to which a part of M0 is added, as enum rpl_relative says; `value` if from < 0.
enum rpl_relative { RPL_ABSOLUTE, RPL_BY_M0, RPL_BY_M0_LOW, RPL_BY_M0_HIGH };
int rpl_relative_move(struct rpl_wave *w, int inst, int to, int from, uint32_t value, int to_by, int from_by, int swaps);

// ---- trace for the timing engine ----------------------------------------------------------------------------------
// A sampled wavefront appends 64-bit words: tag << 56 | payload.
enum rpl_trace_tag {
  RPL_T_BLOCK = 1,   // payload: block id; written by translated code through rpl_trace_block at block entry
  RPL_T_VMEM = 2,    // payload: n_words << 32 | inst; then a word RPL_T_DETAIL and the distinct lines of 128 bytes in lane order
  RPL_T_LDS = 3,     // payload: busy cycles << 32 | inst (1 pass = no conflict)
  RPL_T_SMEM = 4,    // payload: n_lines << 32 | inst; then the accessed lines of 64 bytes
  RPL_T_DETAIL = 5,  // payload: tag lookups << 32 | serial cycles of an atomic << 16 | cycles of the address pipe
};
// Low bits of the line of a vector access: bit 0 is reserved for shared lines, bits 1 to 4 are the accessed sectors of 32 bytes,
// bit 5 is set if one of these is accessed in part.
enum { RPL_LINE_SHIFT = 7, RPL_LINE_SHARED = 1, RPL_LINE_SECTOR_SHIFT = 1, RPL_LINE_PARTIAL = 1 << 5 };
void rpl_trace_block(struct rpl_wave *w, int block);
void rpl_trace_append(struct rpl_trace *t, const uint64_t *words, uint64_t count);
// `limit`: words to which it is truncated, or 0; a truncated trace has as many.
struct rpl_trace { uint64_t *words; uint64_t count, capacity, limit; };

#endif
