"""Exact counters of one launch, under the names that rocprofv3 uses.

Instruction counters are what each basic block contains times how often it ran; the rest was counted by the runtime.
The rules are those that make a vector copy count exactly as on a real MI300X (see `tests/emulator/test_counters.py`).
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
"""Hardware counter -> the runtime's counters that it sums."""


def exact_counters() -> tuple[str, ...]:
    """Counters that every launch has, zero where nothing was counted."""
    return (*sorted(counter_names()), *_RUNTIME_COUNTERS, "SQ_THREAD_CYCLES_VALU")


def launch_counters(
    block_counters: Sequence[Mapping[str, int]],
    block_executions: NDArray[np.uint64],
    block_active_lanes: NDArray[np.uint64],
    block_quads: Sequence[float],
    runtime: Mapping[str, int],
) -> dict[str, int]:
    """Counter name -> value.

    Args:
        block_counters: What one execution of each basic block adds, (n_blocks).
        block_executions: How often each ran, (n_blocks).
        block_active_lanes: Sum over its vector ALU instructions of the active lanes, (n_blocks).
        block_quads: Mean quad-cycles of a vector ALU instruction of each block, (n_blocks): the lanes of a block are weighted
            with it, which is exact where EXEC does not change between instructions of different length.
        runtime: What the runtime counted, by field of `struct rpl_counters`, with full_waves and partial_waves.
    """
    totals = dict.fromkeys(exact_counters(), 0)
    totals |= {name: sum(runtime[field] for field in fields) for name, fields in _RUNTIME_COUNTERS.items()}
    for per_execution, executions in zip(block_counters, block_executions.tolist(), strict=True):
        for name, increment in per_execution.items():
            totals[name] = totals.get(name, 0) + increment * executions
    lanes = zip(block_active_lanes.tolist(), block_quads, strict=True)
    totals["SQ_THREAD_CYCLES_VALU"] = sum(round(count * quads) for count, quads in lanes)
    return dict(sorted(totals.items()))
