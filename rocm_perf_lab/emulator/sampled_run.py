"""Runs a launch and traces a sample of its workgroups: `run_sampled(...) -> SampledRun`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.timing.strata import WORKGROUP_COUNTS, assign, choose_workgroups, stratify

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.execution import Dispatch, Execution
    from rocm_perf_lab.emulator.timing.strata import WorkgroupSample


@dataclass(frozen=True)
class Sampling:
    """Parameters of a sample: maximum number of traced workgroups, None for all, seed, and XCDs of the GPU."""

    workgroups: int | None
    seed: int
    xcds: int


@dataclass(frozen=True)
class SampledRun:
    """Result of a run; `traces[k]` are the wavefronts of workgroup `sample.chosen[k]`. `sample` is None after a fault."""

    execution: Execution
    traces: list[list[NDArray[np.uint64]]]
    sample: WorkgroupSample | None


def run_sampled(execute: Callable[[Dispatch], Execution], dispatch: Dispatch, sampling: Sampling) -> SampledRun:
    """Run a launch and trace a sample of its workgroups."""
    random = np.random.default_rng(sampling.seed)
    wanted = dispatch.workgroups if sampling.workgroups is None else min(sampling.workgroups, dispatch.workgroups)
    unknown = np.zeros(dispatch.workgroups, WORKGROUP_COUNTS)
    unknown["waves"] = 1
    chosen = choose_workgroups(unknown, np.zeros(len(unknown), np.int64), wanted, xcds=sampling.xcds, random=random)
    execution = execute(replace(dispatch, traced_workgroups=chosen, records_lines=True))
    if execution.fault is not None:
        return SampledRun(execution, execution.traces, None)
    counts = execution.workgroup_counts
    strata = stratify(counts, max(1, wanted // 2))
    return SampledRun(execution, execution.traces, assign(counts, strata, chosen, xcds=sampling.xcds, random=random))
