"""History of the kernels of an application over many runs: changes of their times, and recorded differences that explain them.

Each run is one point per kernel and launch shape: the median of its dispatches. `statistics.change_points` finds the runs at
which the level of a history changes. A change is explained by facts that differ between the runs before and after it: GPU,
command, registers, LDS, scratch, code object, and counters of work (instructions, traffic, conflicts). Counters of cycles and
waiting depend on the time and are not causes, but cycles distinguish a change of the clock from a change of the work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.analysis.change_reasons import RunFacts, explain
from rocm_perf_lab.profiling.populations import populations
from rocm_perf_lab.profiling.selection import rank_kernels
from rocm_perf_lab.statistics.change_points import History, find_changes
from rocm_perf_lab.statistics.stability import warm_up_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.profiling.populations import Population
    from rocm_perf_lab.rocprof.trace import Trace

Order = Literal["time", "name"]
_MEDIAN_ERROR = 1.2533
"""Standard error of the median over that of the mean, for normal times."""
_NORMAL_MAD = 0.6745
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class KernelPoint:
    """One kernel with one launch shape in one run."""

    name: str
    mangled_name: str
    launch: str
    calls: int
    total_ns: int
    median_ns: float
    error: float
    """Relative standard error of the median within the run; 0 if unknown."""
    facts: RunFacts


@dataclass(frozen=True)
class RunPoint:
    """One run of the application: all processes of one launch."""

    label: str
    begin_ns: int
    """Recorded start; 0 if unknown. Comparable on one machine."""
    machines: frozenset[str]
    processes: int
    kernels: tuple[KernelPoint, ...]
    emulated: bool = False


@dataclass(frozen=True)
class SeriesChange:
    """Change of the time from run `run` on. `change` is relative: +0.1 is 10 % slower than before."""

    run: int
    change: float
    p_value: float
    before_ns: float
    after_ns: float
    """Geometric means of the medians of the runs before and after."""
    runs_before: int
    runs_after: int
    explained: bool
    reasons: tuple[str, ...]
    """Recorded differences that explain it, or a statement that none was found."""


@dataclass(frozen=True)
class KernelHistory:
    """One kernel with one launch shape over the runs. `runs` are the positions of the runs that contain it."""

    name: str
    mangled_name: str
    launch: str
    runs: tuple[int, ...]
    median_ns: tuple[float, ...]
    calls: tuple[int, ...]
    share: float
    """Share of the total time of all kernels in the last run that contains it."""
    noise: float
    """Standard deviation from run to run, relative."""
    changes: tuple[SeriesChange, ...]
    odd_runs: tuple[int, ...]
    """Single runs that differ from both of their neighbours."""


@dataclass(frozen=True)
class Series:
    """Histories of all kernels by descending share; `order` states how the runs were ordered."""

    runs: tuple[RunPoint, ...]
    order: Order
    kernels: tuple[KernelHistory, ...]


def run_point(label: str, trace: Trace, counter_passes: Sequence[Trace] = ()) -> RunPoint:
    """Return one run of a series.

    Args:
        label: Name of the run.
        trace: The timed run, all processes of it.
        counter_passes: Repetitions of it that collected counters.
    """
    points: dict[tuple[str, str], KernelPoint] = {}
    counters = [_counters_by_launch(one) for one in (trace, *counter_passes) if one.counters or one.replays]
    for kernel in rank_kernels(trace):
        for population in populations(trace, kernel.dispatches):
            key = (kernel.mangled_name, population.launch)
            # Of several code versions with one launch shape, the first has the largest total time.
            if key not in points:
                merged = {name: value for one in counters for name, value in one.get(key, {}).items()}
                points[key] = _kernel_point(trace, kernel.name, kernel.mangled_name, population, merged)
    begins = [process.begin_ns for process in trace.processes if process.begin_ns > 0]
    if not begins and len(trace.dispatches):
        begins = [int(trace.dispatches.start_ns.min())]
    return RunPoint(
        label=label,
        begin_ns=max(min(begins, default=0), 0),
        machines=frozenset(process.machine for process in trace.processes) - {""},
        processes=len(trace.processes),
        kernels=tuple(points.values()),
        emulated=trace.provenance.emulated,
    )


def series_of(runs: Sequence[RunPoint]) -> Series:
    """Return the histories of the kernels over the runs, with their changes. Runs are ordered by recorded start or by name."""
    ordered, order = _ordered(runs)
    places: dict[tuple[str, str], list[tuple[int, KernelPoint]]] = {}
    for number, run in enumerate(ordered):
        for point in run.kernels:
            if point.median_ns > 0:
                places.setdefault((point.mangled_name, point.launch), []).append((number, point))
    totals = [sum(point.total_ns for point in run.kernels) or 1 for run in ordered]
    found = find_changes(
        [
            History(np.array([point.median_ns for _, point in points]), np.array([point.error for _, point in points]))
            for points in places.values()
        ]
    )
    histories = []
    for points, changes in zip(places.values(), found, strict=True):
        last, latest = points[-1]
        kept = [place for place in range(len(points)) if place not in changes.odd_runs]
        histories.append(
            KernelHistory(
                name=latest.name,
                mangled_name=latest.mangled_name,
                launch=latest.launch,
                runs=tuple(number for number, _ in points),
                median_ns=tuple(point.median_ns for _, point in points),
                calls=tuple(point.calls for _, point in points),
                share=latest.total_ns / totals[last],
                noise=changes.noise,
                changes=tuple(
                    _change(points, kept, change.position, change.change, change.p_value, (change.before, change.after))
                    for change in changes.points
                ),
                odd_runs=tuple(points[place][0] for place in changes.odd_runs),
            )
        )
    kernels = sorted(histories, key=lambda one: (-one.share, one.mangled_name, one.launch))
    return Series(tuple(ordered), order, _with_common_changes(kernels))


def _change(
    points: Sequence[tuple[int, KernelPoint]],
    kept: Sequence[int],
    position: int,
    change: float,
    p_value: float,
    lengths: tuple[int, int],
) -> SeriesChange:
    place = kept.index(position)
    before = [points[one][1] for one in kept[place - lengths[0] : place]]
    after = [points[one][1] for one in kept[place : place + lengths[1]]]
    reasons = explain([point.facts for point in before], [point.facts for point in after], 1 + change)
    return SeriesChange(
        run=points[position][0],
        change=change,
        p_value=p_value,
        before_ns=_geometric_mean([point.median_ns for point in before]),
        after_ns=_geometric_mean([point.median_ns for point in after]),
        runs_before=len(before),
        runs_after=len(after),
        explained=reasons.explained,
        reasons=reasons.texts,
    )


def _with_common_changes(kernels: Sequence[KernelHistory]) -> tuple[KernelHistory, ...]:
    """Add to unexplained changes that most kernels changed at the same run in the same direction."""
    tested = sum(len(kernel.runs) > 1 for kernel in kernels)
    counted: dict[tuple[int, bool], int] = {}
    for kernel in kernels:
        for key in {(change.run, change.change > 0) for change in kernel.changes}:
            counted[key] = counted.get(key, 0) + 1

    def completed(change: SeriesChange) -> SeriesChange:
        count = counted[change.run, change.change > 0]
        if change.explained or count < 3 or 2 * count < tested:
            return change
        text = f"{count} of {tested} kernels changed at this run in this direction: clocks, driver, or other users of the GPU"
        return replace(change, reasons=(*change.reasons, text))

    return tuple(replace(kernel, changes=tuple(map(completed, kernel.changes))) for kernel in kernels)


def _ordered(runs: Sequence[RunPoint]) -> tuple[list[RunPoint], Order]:
    machines = frozenset(machine for run in runs for machine in run.machines)
    begins = [run.begin_ns for run in runs]
    # Clocks of different machines are unrelated. Tables do not identify the machine, but different GPUs imply several.
    gpus = {kernel.facts.gpu for run in runs for kernel in run.kernels}
    has_one_clock = len(machines) == 1 or (not machines and len(gpus) <= 1)
    if has_one_clock and all(begins) and len(set(begins)) == len(begins):
        return sorted(runs, key=lambda run: run.begin_ns), "time"
    return sorted(runs, key=lambda run: [int(part) if part.isdigit() else part for part in _DIGITS.split(run.label)]), "name"


def _kernel_point(
    trace: Trace, name: str, mangled_name: str, population: Population, counters: Mapping[str, float]
) -> KernelPoint:
    times = trace.dispatches.duration_ns[population.dispatches].astype(np.float64)
    times = times[warm_up_runs(times) :]
    median = float(np.median(times))
    deviation = float(np.median(np.abs(times - median))) / _NORMAL_MAD
    kernel = trace.kernels[population.kernel]
    dispatch = int(population.dispatches[0])
    agent = trace.agents[int(trace.dispatches.agent[dispatch])]
    facts = RunFacts(
        gpu=agent.product_name or agent.name,
        command=", ".join(sorted({process.command for process in trace.processes})),
        sizes={
            "VGPRs": kernel.arch_vgpr_count,
            "AGPRs": kernel.accum_vgpr_count,
            "SGPRs": kernel.sgpr_count,
            "LDS bytes": population.lds_bytes,
            "scratch bytes per work-item": int(trace.dispatches.scratch_bytes[dispatch]),
        },
        code_object=kernel.code_object,
        counters=counters,
        counted=bool(trace.counters),
    )
    error = _MEDIAN_ERROR * deviation / median / len(times) ** 0.5 if median and len(times) > 1 else 0.0
    return KernelPoint(
        name, mangled_name, population.launch, len(population.dispatches), population.total_ns, median, error, facts
    )


def _counters_by_launch(trace: Trace) -> dict[tuple[str, str], dict[str, float]]:
    """Return the mean counters of a dispatch by mangled name and launch shape."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    label = np.full(len(trace.dispatches), -1)
    keys: list[tuple[str, str]] = []
    for kernel in rank_kernels(trace):
        for population in populations(trace, kernel.dispatches):
            label[population.dispatches] = len(keys)
            keys.append((kernel.mangled_name, population.launch))
    for of_pass in trace.passes:
        for name, column in of_pass.items():
            labels = label[column.dispatch]
            known = labels >= 0
            count = np.bincount(labels[known], minlength=len(keys))
            total = np.bincount(labels[known], weights=column.value[known], minlength=len(keys))
            for place in np.flatnonzero(count).tolist():
                found.setdefault(keys[place], {}).setdefault(name, float(total[place] / count[place]))
    return found


def _geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.log(values).mean()))
