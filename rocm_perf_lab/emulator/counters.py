"""Exact counters of one launch, under the names that rocprofv3 uses.

Instruction counters are the counts of each basic block times its executions; the runtime counts the others. What follows from
both is in `counter_rules.yaml`. With these rules a vector copy has exactly the counters of a real MI300X (see
`tests/emulator/test_recorded_counters.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.counter_rules import counters_of, execution_counters, is_counter
from rocm_perf_lab.emulator.isa.counter_classes import counter_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet

_SMALL_WAVE = 32


def exact_counters(isa: InstructionSet) -> tuple[str, ...]:
    """Return the counters that are counted in the functional run of every launch, including those that are zero."""
    classes = {name for name in counter_names(isa.counter_set) if is_counter(name)}
    return tuple(sorted(filter(isa.counts, classes | set(counters_of("execution", isa.counter_set)))))


def launch_counters(
    block_counters: Sequence[Mapping[str, int]],
    block_executions: NDArray[np.uint64],
    block_active_lanes: NDArray[np.uint64],
    runtime: Mapping[str, int],
    isa: InstructionSet,
) -> dict[str, int]:
    """Return the counters by name.

    Args:
        block_counters: Increments of one execution of each basic block, (n_blocks).
        block_executions: Executions of each block, (n_blocks).
        block_active_lanes: Active lanes summed over the vector ALU instructions of each block, (n_blocks).
        runtime: Counters of the runtime, by field of `struct rpl_counters`, with full_waves.
        isa: Instruction set of the launch.
    """
    further = {"vector_lanes": int(block_active_lanes.sum()), "is_wave32": int(isa.wave_size == _SMALL_WAVE)}
    events = {**block_totals(block_counters, block_executions, isa.counter_set), **runtime, **further}
    counters = execution_counters(events, isa.counter_set)
    return {name: value for name, value in sorted(counters.items()) if isa.counts(name)}


def block_totals(
    block_counters: Sequence[Mapping[str, int]], block_executions: NDArray[np.uint64], counter_set: str
) -> dict[str, int]:
    """Return the counters and events of instruction classes, including those that are zero.

    Args:
        block_counters: Increments of one execution of each basic block, (n_blocks).
        block_executions: Executions of each block, (n_blocks).
        counter_set: Counters of the architecture.
    """
    totals = dict.fromkeys(counter_names(counter_set), 0)
    for per_execution, executions in zip(block_counters, block_executions.tolist(), strict=True):
        for name, increment in per_execution.items():
            totals[name] = totals.get(name, 0) + increment * executions
    return totals
