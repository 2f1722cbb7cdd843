"""Runs a launch and traces a sample of its workgroups: `run_sampled(...) -> SampledRun`.

The first run counts. Strata are formed from the counts of all workgroups, and the chosen workgroups run again, alone, with
tracing, on memory as it was before. If their counts differ then, because they depend on other workgroups, the whole launch runs
again. Launches whose workgroups are likely to depend on each other are traced during the first run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.structures import RunNumber
from rocm_perf_lab.emulator.timing.strata import WORKGROUP_COUNTS, assign, choose_workgroups, is_represented, strata_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.execution import Dispatch, Execution
    from rocm_perf_lab.emulator.memory_rewind import MemoryRewind
    from rocm_perf_lab.emulator.timing.strata import WorkgroupSample

    Trace = list[NDArray[np.uint64]]

_TRACED_INSTRUCTIONS = 1_000_000
_TRACED_PART = 0.05
"""Traced wavefront instructions, which are several times slower than others: at most the larger of this number and this part of
the launch, except for one workgroup of every stratum."""
_LEAST_BUDGET = 100_000
_BUDGET_FACTOR = 2
"""Limit of instructions of workgroups that run alone, relative to those of the first run: they may wait for others forever."""


@dataclass(frozen=True)
class Sampling:
    """Parameters of a sample.

    Args:
        workgroups: Maximum number of traced workgroups; None traces all.
        seed: Seed of the choice.
        xcds: XCDs of the GPU.
        dependent: Workgroups probably exchange data, so that they are traced in the first run.
    """

    workgroups: int | None
    seed: int
    xcds: int
    dependent: bool = False


@dataclass(frozen=True)
class SampledRun:
    """Result of a run; `traces[k]` are the wavefronts of workgroup `sample.chosen[k]`. `sample` is None after a fault."""

    execution: Execution
    traces: list[Trace]
    sample: WorkgroupSample | None


def run_sampled(
    execute: Callable[[Dispatch], Execution],
    dispatch: Dispatch,
    sampling: Sampling,
    rewinding: Callable[[], AbstractContextManager[MemoryRewind]] | None,
) -> SampledRun:
    """Run a launch and trace a sample of its workgroups.

    Args:
        execute: Runs a dispatch.
        dispatch: The launch.
        sampling: Size and seed of the sample.
        rewinding: Returns the copies of device memory for a second run; None if the launch must run only once.
    """
    random = np.random.default_rng(sampling.seed)
    total = dispatch.workgroups
    wanted = total if sampling.workgroups is None else min(sampling.workgroups, total)
    if sampling.workgroups is None or rewinding is None:
        chosen = _unseen(total, wanted, sampling, random)
        execution = execute(replace(dispatch, traced_workgroups=chosen, records_lines=True))
        if execution.fault is not None:
            return SampledRun(execution, [], None)
        strata = strata_of(execution.workgroup_counts, wanted)
        return _assigned(execution, dict(zip(chosen, execution.traces, strict=True)), strata, sampling, random)
    first_choice = _unseen(total, wanted, sampling, random) if sampling.dependent or dispatch.cooperative else ()
    with rewinding() as memory:
        execution = execute(replace(dispatch, traced_workgroups=first_choice, run=RunNumber.FIRST, records_lines=True))
        if execution.fault is not None:
            return SampledRun(execution, [], None)
        traces = dict(zip(first_choice, execution.traces, strict=True))
        counts = execution.workgroup_counts
        strata = strata_of(counts, wanted)
        if not is_represented(counts, strata, first_choice):
            limit = max(_TRACED_INSTRUCTIONS, _TRACED_PART * float(counts["instructions"].sum()))
            chosen = choose_workgroups(counts, strata, wanted, xcds=sampling.xcds, random=random, instructions=limit)
            again = _trace(execute, replace(dispatch, run=RunNumber.SECOND), chosen, counts, memory)
            if again.fault is not None:
                return SampledRun(again, [], None)
            traces = dict(zip(chosen, again.traces, strict=True))
    return _assigned(execution, traces, strata, sampling, random)


def _unseen(total: int, wanted: int, sampling: Sampling, random: np.random.Generator) -> tuple[int, ...]:
    """Choose workgroups before their counts are known."""
    counts = np.zeros(total, WORKGROUP_COUNTS)
    counts["waves"] = 1
    return choose_workgroups(counts, np.zeros(total, np.int64), wanted, xcds=sampling.xcds, random=random)


def _assigned(
    execution: Execution, traces: dict[int, Trace], strata: NDArray[np.int64], sampling: Sampling, random: np.random.Generator
) -> SampledRun:
    sample = assign(execution.workgroup_counts, strata, sorted(traces), xcds=sampling.xcds, random=random)
    return SampledRun(execution, [traces[workgroup] for workgroup in sample.chosen], sample)


def _trace(
    execute: Callable[[Dispatch], Execution],
    dispatch: Dispatch,
    chosen: tuple[int, ...],
    counts: NDArray[np.void],
    memory: MemoryRewind,
) -> Execution:
    """Run the chosen workgroups with tracing, together with all others if they depend on them."""
    ids = np.asarray(chosen, np.int64)
    dispatch = replace(dispatch, traced_workgroups=chosen, checks=None, records_lines=False)
    if not dispatch.cooperative:
        budget = max(_LEAST_BUDGET, _BUDGET_FACTOR * int(counts["instructions"][ids].sum()))
        alone = execute(replace(dispatch, chosen_workgroups=chosen, max_instructions=min(budget, dispatch.max_instructions)))
        if alone.fault is None and np.array_equal(alone.workgroup_counts[ids], counts[ids]):
            return alone
        memory.again()
    return execute(dispatch)
