// Hardware registers of S_GETREG_B32, except MODE. They are equal in every run: workgroups are distributed over the eight XCDs
// of an MI300X, then over shader engines and compute units; wavefronts over the SIMDs.
#include "machine.h"

// Order of HARDWARE_REGISTERS in translate/scalar.py, which knows their numbers in each architecture.
enum rpl_register { ZERO, STATUS, HW_ID, GPR_ALLOC, LDS_ALLOC, SH_MEM_BASES, XCC_ID, HW_ID1, SHADER_CYCLES };
enum { XCCS = 8, SHADER_ENGINES = 4, COMPUTE_UNITS = 10, SIMDS = 4, WAVES_OF_A_SIMD = 8 };
enum { VGPR_GRANULE = 8, SGPRS_ALLOCATED = 112, SGPR_GRANULE = 16, LDS_GRANULE = 512 };
enum { STATUS_EXECZ = 9, STATUS_VCCZ = 10, STATUS_IN_GROUP = 11, STATUS_VALID = 16 };

static uint32_t status_of(const struct rpl_wave *w) {
  uint32_t no_lanes = !(w->sgpr[126] | w->sgpr[127]), no_vcc = !(w->sgpr[106] | w->sgpr[107]);
  return w->scc | no_lanes << STATUS_EXECZ | no_vcc << STATUS_VCCZ | (uint32_t)(w->waves_in_workgroup > 1) << STATUS_IN_GROUP |
         1u << STATUS_VALID;
}

static uint32_t hardware_id(const struct rpl_wave *w) {
  uint32_t in_xcc = w->workgroup_number / XCCS, engine = in_xcc % SHADER_ENGINES, unit = in_xcc / SHADER_ENGINES % COMPUTE_UNITS;
  uint32_t simd = w->wave_in_workgroup % SIMDS, slot = w->wave_in_workgroup / SIMDS % WAVES_OF_A_SIMD;
  return slot | simd << 4 | unit << 8 | engine << 13;
}

// RDNA2: wave slot 0..4, SIMD 8..9, WGP 10..13, shader array 16, shader engine 18..19.
static uint32_t hardware_id1(const struct rpl_wave *w) {
  enum { WGPS = 10, ARRAYS = 2, SLOTS_OF_A_SIMD = 16, ENGINES = 4 };
  uint32_t number = w->workgroup_number, engine = number % ENGINES, array = number / ENGINES % ARRAYS;
  uint32_t wgp = number / (ENGINES * ARRAYS) % WGPS;
  uint32_t simd = w->wave_in_workgroup % SIMDS, slot = w->wave_in_workgroup / SIMDS % SLOTS_OF_A_SIMD;
  return slot | simd << 8 | wgp << 10 | array << 16 | engine << 18;
}

static uint32_t gpr_allocation(const struct rpl_wave *w) {
  uint32_t rows = w->vgpr_rows + w->agpr_rows, granules = (rows + VGPR_GRANULE - 1) / VGPR_GRANULE;
  return (granules ? granules - 1 : 0) << 8 | (SGPRS_ALLOCATED / SGPR_GRANULE - 1) << 24;
}

static uint32_t register_of(const struct rpl_wave *w, int id) {
  switch (id) {
    case STATUS: return status_of(w);
    case HW_ID: return hardware_id(w);
    case GPR_ALLOC: return gpr_allocation(w);
    case LDS_ALLOC: return (w->lds_bytes + LDS_GRANULE - 1) / LDS_GRANULE << 12;
    case SH_MEM_BASES: return (uint32_t)RPL_LDS_APERTURE | (uint32_t)RPL_SCRATCH_APERTURE >> 16;
    case XCC_ID: return w->workgroup_number % XCCS;
    case HW_ID1: return hardware_id1(w);
    case SHADER_CYCLES: return (uint32_t)(w->slice_end - w->slice) & 0xfffff;
    default: return 0;  // no trap, exception or outstanding access
  }
}

int rpl_read_register(struct rpl_wave *w, int inst, int sdst, int id, int first, int size) {
  (void)inst;
  w->sgpr[sdst] = (uint32_t)((uint64_t)register_of(w, id) >> first & ((1ull << size) - 1));
  return 0;
}
