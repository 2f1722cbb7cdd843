"""Hardware counters estimated by the timing model: caches, memory, cycles; instruction counters are exact instead.

Units are those of the hardware: SQ wave counters in quad-cycles, SQ_CYCLES and SQ_BUSY_CYCLES summed over shader engines,
GRBM summed over XCCs, reads of 128 and writes of 64 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.timing.structures import CuCounters
    from rocm_perf_lab.target.model import Target

_QUAD = 4


def hardware_counters(unit: CuCounters, *, scale: float, cycles: float, active_units: int, target: Target) -> dict[str, float]:
    """Return the counters of the launch.

    Args:
        unit: Totals of the simulated compute unit.
        scale: Workgroups of the launch per simulated workgroup.
        cycles: Clocks of the whole launch.
        active_units: Compute units with work.
        target: Target GPU, for its XCCs and shader engines.
    """

    def scaled(value: float) -> float:
        return float(round(value * scale))

    reads, writes = scaled(unit.l2_reads), scaled(unit.l2_writes)
    hits, misses = scaled(unit.l2_hits), scaled(unit.l2_misses)
    return {
        "TCP_TOTAL_CACHE_ACCESSES_sum": scaled(unit.l1_lookups),
        "TCP_TCC_READ_REQ_sum": reads,
        "TCP_TCC_WRITE_REQ_sum": writes,
        "TCP_TCC_ATOMIC_WITH_RET_REQ_sum": 0.0,
        "TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum": 0.0,
        "TCC_REQ_sum": reads + writes,
        "TCC_READ_sum": reads,
        "TCC_WRITE_sum": writes,
        "TCC_HIT_sum": hits,
        "TCC_MISS_sum": misses,
        "TCC_EA0_RDREQ_sum": scaled(unit.dram_reads),
        "TCC_EA0_RDREQ_32B_sum": 0.0,
        "TCC_BUBBLE_sum": scaled(unit.dram_reads),
        "TCC_EA0_WRREQ_sum": scaled(unit.dram_writes),
        "TCC_EA0_WRREQ_64B_sum": scaled(unit.dram_writes),
        "SQ_WAVE_CYCLES": scaled(unit.wave_cycles / _QUAD),
        "SQ_WAIT_ANY": scaled(unit.wait_cycles / _QUAD),
        "SQ_ACTIVE_INST_VALU": scaled(unit.valu_busy_cycles / _QUAD),
        "SQ_BUSY_CU_CYCLES": float(round(cycles / _QUAD * active_units)),
        "SQ_BUSY_CYCLES": float(round(cycles * target.shader_engines)),
        "SQ_CYCLES": float(round(cycles * target.shader_engines)),
        "GRBM_GUI_ACTIVE": float(round(cycles * target.xcds)),
    }
