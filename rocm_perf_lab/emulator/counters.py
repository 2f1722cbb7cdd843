"""Exact counters of one launch, under the names that rocprofv3 uses.

Instruction counters are the counts of each basic block times its executions; the runtime counts the others.
With these rules a vector copy has exactly the counters of a real MI300X (see `tests/emulator/test_counters.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.counter_classes import counter_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

_RUNTIME_COUNTERS: Mapping[str, tuple[str, ...]] = {
    "SQ_WAVES": ("waves",),
    "SQ_WAVES_EQ_64": ("full_waves",),
    "SQ_WAVES_LT_64": ("partial_waves",),
    "SQ_ITEMS": ("work_items",),
    "SPI_CSN_NUM_THREADGROUPS": ("workgroups",),
    "SQ_LDS_BANK_CONFLICT": ("lds_conflict_cycles",),
    "SQ_LDS_IDX_ACTIVE": ("lds_active_cycles",),
    "TA_FLAT_READ_WAVEFRONTS_sum": ("flat_read_waves",),
    "TA_FLAT_WRITE_WAVEFRONTS_sum": ("flat_write_waves",),
    "TA_FLAT_ATOMIC_WAVEFRONTS_sum": ("flat_atomic_waves",),
    "TA_FLAT_WAVEFRONTS_sum": ("flat_read_waves", "flat_write_waves", "flat_atomic_waves"),
    "TA_BUFFER_READ_WAVEFRONTS_sum": ("buffer_read_waves",),
    "TA_BUFFER_WRITE_WAVEFRONTS_sum": ("buffer_write_waves",),
    "TA_BUFFER_ATOMIC_WAVEFRONTS_sum": ("buffer_atomic_waves",),
    "TA_BUFFER_WAVEFRONTS_sum": ("buffer_read_waves", "buffer_write_waves", "buffer_atomic_waves"),
    "TA_TOTAL_WAVEFRONTS_sum": (
        "flat_read_waves", "flat_write_waves", "flat_atomic_waves",
        "buffer_read_waves", "buffer_write_waves", "buffer_atomic_waves",
    ),
}  # fmt: skip
"""Counters of the runtime that each hardware counter sums."""


def exact_counters() -> tuple[str, ...]:
    """Return the counters of every launch, including those that are zero."""
    return (*sorted(counter_names()), *_RUNTIME_COUNTERS, "SQ_THREAD_CYCLES_VALU")


def launch_counters(
    block_counters: Sequence[Mapping[str, int]],
    block_executions: NDArray[np.uint64],
    block_active_lanes: NDArray[np.uint64],
    block_quads: Sequence[float],
    runtime: Mapping[str, int],
) -> dict[str, int]:
    """Return the counters by name.

    Args:
        block_counters: Increments of one execution of each basic block, (n_blocks).
        block_executions: Executions of each block, (n_blocks).
        block_active_lanes: Active lanes summed over the vector ALU instructions of each block, (n_blocks).
        block_quads: Mean quad-cycles of a vector ALU instruction of each block, (n_blocks), the weight of its lanes. This is
            exact if EXEC does not change between instructions of different length.
        runtime: Counters of the runtime, by field of `struct rpl_counters`, with full_waves and partial_waves.
    """
    totals = dict.fromkeys(exact_counters(), 0)
    totals |= {name: sum(runtime[field] for field in fields) for name, fields in _RUNTIME_COUNTERS.items()}
    for per_execution, executions in zip(block_counters, block_executions.tolist(), strict=True):
        for name, increment in per_execution.items():
            totals[name] = totals.get(name, 0) + increment * executions
    lanes = zip(block_active_lanes.tolist(), block_quads, strict=True)
    totals["SQ_THREAD_CYCLES_VALU"] = sum(round(count * quads) for count, quads in lanes)
    return dict(sorted(totals.items()))
