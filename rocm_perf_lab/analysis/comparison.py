"""Comparison of two runs, kernel by kernel: the change, and whether it exceeds the noise.

Returns one row per kernel with a verdict and its reason. Times are compared by a rank test at 5 % for all kernels together. If
a run contains no times but a summary of them, a normal approximation is used and reported; with neither, the verdict is
"unclear". The test considers the spread within the two runs, not differences of their environment.

Emulated times repeat exactly, but the timing model errs: a difference inside its error band is "indistinguishable". Between an
emulated and a measured time, only the error band of a single time is known: such a pair is always "unclear".

Kernels with different grids or workgroup sizes do different work: they are "not comparable", or their times are compared per
workgroup or per byte of DRAM traffic, and never count as regressions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.analysis.comparison_emulated import compare_emulated, verdict_of_emulated
from rocm_perf_lab.analysis.comparison_model import KernelComparison, KernelTimes, Measured, RunTimes
from rocm_perf_lab.analysis.kernel_pairs import KernelNames, has_other_launch, pair_kernels
from rocm_perf_lab.statistics.bootstrap import CONFIDENCE, MIN_RUNS_FOR_INTERVAL
from rocm_perf_lab.statistics.drift import drift
from rocm_perf_lab.statistics.error_control import adjusted_p_values
from rocm_perf_lab.statistics.stability import warm_up_runs
from rocm_perf_lab.statistics.two_sample_tests import TimeSummary, least_p_value, rank_test, summary_test

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.comparison_model import Normalisation, Verdict
    from rocm_perf_lab.analysis.kernel_pairs import Match

    Floats = NDArray[np.float64]

_ALPHA = 1 - CONFIDENCE
_LONG_AUTOCORRELATION = 2.0
_NS_PER_MS = 1e6


def differences(base: RunTimes, new: RunTimes) -> tuple[str, ...]:
    """Return descriptions of the differences that make the times of two runs incomparable."""
    other = dict(new.traits)
    return tuple(f"{name}: {value} and {other[name]}" for name, value in base.traits if other.get(name, value) != value)


def remarks(base: RunTimes, new: RunTimes) -> tuple[str, ...]:
    """Return descriptions of differences that do not prevent the comparison."""
    other = dict(new.versions)
    changed = [f"{name} {value}, now {other[name]}" for name, value in base.versions if other.get(name, value) != value]
    same = base.source is not None and base.source == new.source
    return (
        *([f"versions differ: {'; '.join(changed)}"] if changed else []),
        *(["both profiles are of the same run"] if same else []),
    )


def compare(base: RunTimes, new: RunTimes, normalise: Normalisation | None = None) -> tuple[KernelComparison, ...]:
    """Compare every kernel of either run: first those of the new run in its order, then those missing in it.

    Args:
        base: The base run.
        new: The new run.
        normalise: Divides the times of kernels whose launch shapes differ. Without it such kernels are "not comparable".
    """
    pairs = pair_kernels(_names(base), _names(new))
    both = [
        (base.kernels[pair.base], new.kernels[pair.new], pair.match)
        for pair in pairs
        if pair.base is not None and pair.new is not None
    ]
    measured = [_tested(old, young, base, new, normalise) for old, young, _ in both]
    tested = [row.p_value for row in measured if row.p_value is not None]
    corrected = iter(adjusted_p_values(tested))
    judged = iter(
        [
            _judge(old, young, match, row, None if row.p_value is None else next(corrected), len(tested))
            for (old, young, match), row in zip(both, measured, strict=True)
        ]
    )
    names = {side: {kernel.mangled_name for kernel in run.kernels} for side, run in (("base", base), ("new", new))}
    rows = []
    for pair in pairs:
        if pair.new is None and pair.base is not None:
            rows.append(_alone(base.kernels[pair.base], "gone", known=names["new"]))
        elif pair.base is None and pair.new is not None:
            rows.append(_alone(new.kernels[pair.new], "new", known=names["base"]))
        else:
            rows.append(next(judged))
    return tuple(rows)


def _names(run: RunTimes) -> list[KernelNames]:
    return [KernelNames(kernel.mangled_name, kernel.name, kernel.launch) for kernel in run.kernels]


def _tested(
    base: KernelTimes, new: KernelTimes, base_run: RunTimes, new_run: RunTimes, normalise: Normalisation | None
) -> Measured:
    """Compare the times of two kernels; if their launch shapes differ, the normalised times."""
    if has_other_launch(base.launch, new.launch):
        units = {"workgroup": (base.workgroups, new.workgroups), "byte": (base.dram_bytes, new.dram_bytes)}
        before, after = units[normalise] if normalise else (None, None)
        if not before or not after:
            return _not_comparable(base, new, normalise)
        found = _tested(_per(base, before), replace(_per(new, after), launch=base.launch), base_run, new_run, None)
        amounts = f"{base.time_ms / before * _NS_PER_MS:.4g} and {new.time_ms / after * _NS_PER_MS:.4g} ns per {normalise}"
        return replace(found, normalised=normalise, note="; ".join(filter(None, (amounts, found.note))))
    if base_run.emulated or new_run.emulated:
        return compare_emulated(base, new, base_run, new_run, is_one_device=not differences(base_run, new_run))
    return _measure(base, new)


def _per(kernel: KernelTimes, units: float) -> KernelTimes:
    return replace(
        kernel,
        time_ms=kernel.time_ms / units,
        stddev_ms=None if kernel.stddev_ms is None else kernel.stddev_ms / units,
        durations_ms=tuple(time / units for time in kernel.durations_ms),
    )


def _not_comparable(base: KernelTimes, new: KernelTimes, normalise: Normalisation | None) -> Measured:
    why = f"launched as {base.launch}, now as {new.launch}: other work"
    hint = {
        None: ", use --normalise workgroup or byte",
        "workgroup": "; the number of workgroups is unknown",
        "byte": "; a profile has no DRAM traffic of this launch: collect its counters",
    }[normalise]
    return Measured(None, "none", (base.runs, new.runs), why_not=why + hint, is_comparable=False)


def _measure(base: KernelTimes, new: KernelTimes) -> Measured:
    old, young = _settled(base.durations_ms), _settled(new.durations_ms)
    kept = min(len(old), len(young)) >= MIN_RUNS_FOR_INTERVAL
    runs = (len(old), len(young)) if kept else (base.runs, new.runs)
    if not base.time_ms > 0:
        return Measured(None, "none", runs, why_not="a time of 0 has no ratio")
    change = new.time_ms / base.time_ms - 1
    if kept and min(old.min(), young.min()) <= 0:
        return Measured(change, "none", runs, why_not="some of the times are 0")
    if kept:
        return _by_ranks(old, young)
    few = min(base.runs, new.runs)
    if few < MIN_RUNS_FOR_INTERVAL:
        counted = f"{few} run{'' if few == 1 else 's'}"
        why = f"{counted} cannot show a difference: use {MIN_RUNS_FOR_INTERVAL} or more, for example --runs 10"
        return Measured(change, "none", runs, why_not=why)
    if base.stddev_ms is None or new.stddev_ms is None:
        return Measured(change, "none", runs, why_not="a run contains neither times nor their spread")
    return _by_summary(base, new)


def _by_ranks(base_ms: Floats, new_ms: Floats) -> Measured:
    found = rank_test(base_ms, new_ms, CONFIDENCE)
    trends = [trend.change for trend in (drift(base_ms), drift(new_ms)) if trend is not None and trend.is_drifting]
    note = None
    if found.autocorrelation_time >= _LONG_AUTOCORRELATION:
        note = f"consecutive runs are correlated (clocks?): {found.autocorrelation_time:.1f} of them carry the information of one"
    return Measured(
        change=found.ratio - 1,
        basis="ranks",
        runs=(len(base_ms), len(new_ms)),
        interval=(found.interval[0] - 1, found.interval[1] - 1),
        p_value=found.p_value,
        note=note,
        drift=max(trends, key=abs, default=0.0),
    )


def _by_summary(base: KernelTimes, new: KernelTimes) -> Measured:
    old, young = (TimeSummary(one.time_ms, one.stddev_ms or 0.0, one.runs) for one in (base, new))
    found = summary_test(old, young, CONFIDENCE)
    return Measured(
        change=found.ratio - 1,
        basis="summary",
        runs=(base.runs, new.runs),
        interval=(found.interval[0] - 1, found.interval[1] - 1),
        p_value=found.p_value,
        note="a run contains no times: compared by mean and spread, assuming normally distributed times",
    )


def _judge(
    base: KernelTimes, new: KernelTimes, match: Match | None, found: Measured, p_value: float | None, tested: int
) -> KernelComparison:
    verdict: Verdict
    significant: bool | None
    if not found.is_comparable:
        verdict, significant, reason = "not comparable", None, found.why_not or ""
    elif found.basis == "band":
        verdict, significant, reason = verdict_of_emulated(found, base, new)
    else:
        verdict, significant, reason = _verdict(found, p_value, tested)
    notes = [
        found.note,
        f"was {base.name}" if match == "template" else None,
        f"launched as {base.launch}, now as {new.launch}" if found.normalised else None,
    ]
    return KernelComparison(
        name=new.name,
        mangled_name=new.mangled_name,
        verdict=verdict,
        reason=reason,
        base_ms=base.time_ms,
        new_ms=new.time_ms,
        base_runs=found.runs[0],
        new_runs=found.runs[1],
        change=found.change,
        interval=found.interval,
        p_value=p_value,
        significant=significant,
        basis=found.basis,
        match=match,
        base_name=base.name,
        note="; ".join(filter(None, notes)) or None,
        base_launch=base.launch,
        launch=new.launch,
        normalised=found.normalised,
    )


def _verdict(found: Measured, p_value: float | None, tested: int) -> tuple[Verdict, bool | None, str]:
    """Return the verdict, whether the difference exceeds chance, and the reason."""
    change = found.change
    if change is None or found.why_not is not None:
        return "unclear", None, found.why_not or "a time of 0 has no ratio"
    direction: Verdict = "slower" if change > 0 else "faster"
    if p_value is None or found.p_value is None or found.interval is None:
        return "unclear", None, "no test was possible"
    between = f"between {found.interval[0]:+.1%} and {found.interval[1]:+.1%} (95 %)"
    if found.p_value > _ALPHA or change == 0:
        return "same", False, f"no difference beyond the noise: {between}"
    if p_value > _ALPHA:
        return "unclear", False, _chance(found, tested)
    if abs(change) <= abs(found.drift):
        return "unclear", True, f"the times drift by {found.drift:+.1%} within a run, more than the difference"
    return direction, True, f"{between}, {max(p_value, 1e-12):.1g} by chance{f' in {tested} kernels' if tested > 1 else ''}"


def _chance(found: Measured, tested: int) -> str:
    said = f"chance alone causes such a difference in one of {tested} kernels"
    if tested * least_p_value(*found.runs) > _ALPHA:
        more = next(runs for runs in range(min(found.runs), 100) if tested * least_p_value(runs, runs) <= _ALPHA)
        return f"{said}, and so few runs cannot show more: use {more} or more"
    return f"{said}: use more runs"


def _settled(durations_ms: Sequence[float]) -> Floats:
    times = np.asarray(durations_ms, dtype=np.float64)
    return times[warm_up_runs(times) :]


def _alone(kernel: KernelTimes, verdict: Literal["new", "gone"], *, known: Container[str]) -> KernelComparison:
    is_new = verdict == "new"
    other = "base" if is_new else "new"
    what = f"launch of the kernel, {kernel.launch}" if kernel.mangled_name in known else "kernel"
    return KernelComparison(
        name=kernel.name,
        mangled_name=kernel.mangled_name,
        verdict=verdict,
        reason=f"the {other} run does not contain this {what}",
        base_ms=None if is_new else kernel.time_ms,
        new_ms=kernel.time_ms if is_new else None,
        base_runs=None if is_new else kernel.runs,
        new_runs=kernel.runs if is_new else None,
        change=None,
        interval=None,
        p_value=None,
        significant=None,
        basis="none",
        match=None,
        base_name=None if is_new else kernel.name,
        note=None,
        base_launch=None if is_new else kernel.launch,
        launch=kernel.launch if is_new else None,
    )
