"""Two runs, kernel by kernel: what changed, and whether the change is more than noise.

Takes the times of the kernels of both runs; gives one row per kernel with a verdict. A change is significant where the
bootstrap interval of the ratio of the medians leaves out 1; where a run kept no times but a summary of them, a normal
approximation stands in and says so; where it kept neither, the verdict is "unclear". Emulated times repeat exactly, so
every change of them is real. The interval knows the spread within the two runs, not what changed around them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.analysis.stability import CONFIDENCE, MIN_RUNS_FOR_INTERVAL, bootstrap_medians

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Verdict = Literal["faster", "slower", "same", "unclear", "new", "gone"]
Basis = Literal["bootstrap", "summary", "exact", "none"]

_NORMAL_QUANTILE = 1.959964
_MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of the median over that of the mean, of normal times."""


@dataclass(frozen=True)
class KernelTimes:
    """The dispatches of one kernel in one run; `stddev_ms` and `durations_ms` where the run kept them."""

    name: str
    mangled_name: str
    time_ms: float
    runs: int
    stddev_ms: float | None = None
    durations_ms: tuple[float, ...] = ()
    launch: str | None = None
    """Grid and block, where they are known."""


@dataclass(frozen=True)
class RunTimes:
    """One run. `traits` must be equal for times to be comparable: how they were taken, and on what."""

    emulated: bool
    traits: tuple[tuple[str, str], ...]
    kernels: tuple[KernelTimes, ...]


@dataclass(frozen=True)
class KernelComparison:
    """One kernel in both runs, or in one of them. `change` is relative: +0.1 is 10 % slower."""

    name: str
    mangled_name: str
    verdict: Verdict
    base_ms: float | None
    new_ms: float | None
    change: float | None
    interval: tuple[float, float] | None
    """95 % interval of `change`."""
    significant: bool | None
    basis: Basis
    note: str | None

    def is_regression(self, threshold: float) -> bool:
        """Significantly slower, by more than `threshold`."""
        return self.verdict == "slower" and self.change is not None and self.change > threshold


def differences(base: RunTimes, new: RunTimes) -> tuple[str, ...]:
    """What makes the times of two runs incomparable, in words."""
    other = dict(new.traits)
    return tuple(f"{name}: {value} and {other[name]}" for name, value in base.traits if other.get(name, value) != value)


def compare(base: RunTimes, new: RunTimes) -> tuple[KernelComparison, ...]:
    """Every kernel of either run: those of the new run in its order, then those that are gone."""
    exact = base.emulated and new.emulated
    rows = []
    for old, young in _pairs(base.kernels, new.kernels):
        if old is not None and young is not None:
            rows.append(_compare(old, young, exact=exact))
        elif young is not None:
            rows.append(_alone(young, "new"))
        elif old is not None:
            rows.append(_alone(old, "gone"))
    return tuple(rows)


def _pairs(base: Sequence[KernelTimes], new: Sequence[KernelTimes]) -> Iterator[tuple[KernelTimes | None, KernelTimes | None]]:
    """By mangled name, else by the name that people read, which several kernels may share."""
    by_mangled = {kernel.mangled_name: kernel for kernel in base}
    kept = {kernel.mangled_name for kernel in new}
    by_name = {kernel.name: kernel for kernel in reversed(base) if kernel.mangled_name not in kept}
    taken = set()
    for kernel in new:
        old = by_mangled.get(kernel.mangled_name) or by_name.pop(kernel.name, None)
        if old is not None:
            taken.add(old.mangled_name)
        yield old, kernel
    yield from ((kernel, None) for kernel in base if kernel.mangled_name not in taken)


def _compare(base: KernelTimes, new: KernelTimes, *, exact: bool) -> KernelComparison:
    change = new.time_ms / base.time_ms - 1 if base.time_ms > 0 else None
    interval, basis, note = _interval(base, new, exact=exact) if change is not None else (None, "none", "a time of 0")
    significant: bool | None = None
    if basis == "exact":
        significant = new.time_ms != base.time_ms
    elif interval is not None:
        significant = not interval[0] <= 0 <= interval[1]
    if base.launch and new.launch and base.launch != new.launch:
        note = "; ".join(filter(None, (note, f"launched as {base.launch}, now as {new.launch}")))
    return KernelComparison(
        name=new.name,
        mangled_name=new.mangled_name,
        verdict=_verdict(change, significant),
        base_ms=base.time_ms,
        new_ms=new.time_ms,
        change=change,
        interval=interval,
        significant=significant,
        basis=basis,
        note=note,
    )


def _verdict(change: float | None, significant: bool | None) -> Verdict:
    if change is None or significant is None:
        return "unclear"
    if not significant or change == 0:
        return "same"
    return "slower" if change > 0 else "faster"


def _interval(base: KernelTimes, new: KernelTimes, *, exact: bool) -> tuple[tuple[float, float] | None, Basis, str | None]:
    """Of the relative change, what it rests on, and what has to be said about that."""
    if min(len(base.durations_ms), len(new.durations_ms)) >= MIN_RUNS_FOR_INTERVAL:
        return _bootstrap(base.durations_ms, new.durations_ms)
    if exact:
        return None, "exact", None
    few = min(base.runs, new.runs)
    if few < MIN_RUNS_FOR_INTERVAL:
        return None, "none", f"{few} run{'' if few == 1 else 's'} cannot show a difference: take {MIN_RUNS_FOR_INTERVAL} or more"
    if base.stddev_ms is None or new.stddev_ms is None:
        return None, "none", "a run kept neither times nor their spread"
    errors = [_MEDIAN_ERROR * (one.stddev_ms or 0) / math.sqrt(one.runs) / one.time_ms for one in (base, new) if one.time_ms]
    ratio = new.time_ms / base.time_ms
    half = _NORMAL_QUANTILE * ratio * math.hypot(*errors)
    note = "a run kept no times: judged by mean spread alone, as if times were normally distributed"
    return (ratio - 1 - half, ratio - 1 + half), "summary", note


def _bootstrap(base_ms: Sequence[float], new_ms: Sequence[float]) -> tuple[tuple[float, float] | None, Basis, str | None]:
    medians = bootstrap_medians(np.asarray(base_ms)), bootstrap_medians(np.asarray(new_ms), stream=1)
    if not medians[0].all():
        return None, "none", "some of the times are 0"
    low, high = np.quantile(medians[1] / medians[0] - 1, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return (float(low), float(high)), "bootstrap", None


def _alone(kernel: KernelTimes, verdict: Literal["new", "gone"]) -> KernelComparison:
    return KernelComparison(
        name=kernel.name,
        mangled_name=kernel.mangled_name,
        verdict=verdict,
        base_ms=kernel.time_ms if verdict == "gone" else None,
        new_ms=kernel.time_ms if verdict == "new" else None,
        change=None,
        interval=None,
        significant=None,
        basis="none",
        note=None,
    )
