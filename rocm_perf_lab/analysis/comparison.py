"""Comparison of two runs, kernel by kernel: the change, and whether it exceeds the noise.

Returns one row per kernel with a verdict and its reason. Times are compared by a rank test at 5 % for all kernels together. If
a run contains no times but a summary of them, a normal approximation is used and reported; with neither, the verdict is
"unclear". The test knows the spread within the two runs, not what changed around them.

Emulated times repeat exactly, but the timing model errs: a difference inside its error band is "indistinguishable". Between an
emulated and a measured time, only the error band of a single time is known: such a pair is always "unclear".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.analysis.kernel_pairs import KernelNames, pair_kernels
from rocm_perf_lab.statistics.bootstrap import CONFIDENCE, MIN_RUNS_FOR_INTERVAL
from rocm_perf_lab.statistics.drift import drift
from rocm_perf_lab.statistics.error_control import adjusted_p_values
from rocm_perf_lab.statistics.stability import warm_up_runs
from rocm_perf_lab.statistics.two_sample_tests import TimeSummary, least_p_value, rank_test, summary_test

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.analysis.kernel_pairs import Match
    from rocm_perf_lab.statistics.error_bands import RatioBand, TimeBand

    Floats = NDArray[np.float64]

Verdict = Literal["faster", "slower", "same", "indistinguishable", "unclear", "new", "gone"]
Basis = Literal["ranks", "summary", "band", "none"]

_ALPHA = 1 - CONFIDENCE
_LONG_AUTOCORRELATION = 2.0


@dataclass(frozen=True)
class KernelTimes:
    """Dispatches of one kernel in one run; `stddev_ms` and `durations_ms` if the run contains them."""

    name: str
    mangled_name: str
    time_ms: float
    runs: int
    stddev_ms: float | None = None
    durations_ms: tuple[float, ...] = ()
    """In order of start."""
    launch: str | None = None
    """Grid and block, if known."""
    code_sha256: str | None = None
    """Identity of the code object, if known."""


@dataclass(frozen=True)
class EmulatedBands:
    """Error bands of the emulated times of a run: of a single time, and of the ratio of two variants."""

    time: TimeBand
    ratio: RatioBand


@dataclass(frozen=True)
class RunTimes:
    """One run. `traits` describe the device and the method; they must be equal for times to be comparable."""

    emulated: bool
    traits: tuple[tuple[str, str], ...]
    kernels: tuple[KernelTimes, ...]
    versions: tuple[tuple[str, str], ...] = ()
    """Versions of the tools that took the times."""
    source: str | None = None
    """Identity of the run: equal if both sides are the same run."""
    bands: EmulatedBands | None = None
    """None for measured times, and for emulated ones of versions before 1.2 of the document."""


@dataclass(frozen=True)
class KernelComparison:
    """One kernel in both runs, or in one of them. `change` is relative: +0.1 is 10 % slower."""

    name: str
    mangled_name: str
    verdict: Verdict
    reason: str
    """Reason of the verdict, one sentence."""
    base_ms: float | None
    new_ms: float | None
    """Median."""
    base_runs: int | None
    new_runs: int | None
    """Number of compared times, without warm-up."""
    change: float | None
    """Median of the ratios of all pairs of times, minus 1; without times the ratio of the medians."""
    interval: tuple[float, float] | None
    """95 % interval of `change`, of this kernel alone."""
    p_value: float | None
    """Probability under no change, corrected for the number of tested kernels."""
    significant: bool | None
    basis: Basis
    match: Match | None
    base_name: str | None
    """Name in the base run."""
    note: str | None
    """Further information about the comparison."""

    def is_regression(self, threshold: float) -> bool:
        """Return True if the kernel is significantly slower by more than `threshold`."""
        return self.verdict == "slower" and self.change is not None and self.change > threshold


@dataclass(frozen=True)
class _Measured:
    """Test result of one pair of kernels, before correction for the other kernels."""

    change: float | None
    basis: Basis
    runs: tuple[int, int]
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    why_not: str | None = None
    """Reason if no test was possible."""
    note: str | None = None
    drift: float = 0.0
    """The larger relative drift within a run; 0 if neither is significant."""
    band: RatioBand | None = None
    """Error band of two emulated times."""
    is_tie: bool = False
    """Whether both emulated times are of the same code, by different versions of the timing model."""


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


def compare(base: RunTimes, new: RunTimes) -> tuple[KernelComparison, ...]:
    """Compare every kernel of either run: first those of the new run in its order, then those missing in it."""
    pairs = pair_kernels(_names(base), _names(new))
    both = [
        (base.kernels[pair.base], new.kernels[pair.new], pair.match)
        for pair in pairs
        if pair.base is not None and pair.new is not None
    ]
    emulated = base.emulated or new.emulated
    measured = [_emulated(old, young, base, new) if emulated else _measure(old, young) for old, young, _ in both]
    tested = [row.p_value for row in measured if row.p_value is not None]
    corrected = iter(adjusted_p_values(tested))
    judged = iter(
        [
            _judge(old, young, match, row, None if row.p_value is None else next(corrected), len(tested))
            for (old, young, match), row in zip(both, measured, strict=True)
        ]
    )
    rows = []
    for pair in pairs:
        if pair.new is None and pair.base is not None:
            rows.append(_alone(base.kernels[pair.base], "gone"))
        elif pair.base is None and pair.new is not None:
            rows.append(_alone(new.kernels[pair.new], "new"))
        else:
            rows.append(next(judged))
    return tuple(rows)


def _names(run: RunTimes) -> list[KernelNames]:
    return [KernelNames(kernel.mangled_name, kernel.name) for kernel in run.kernels]


def _emulated(base: KernelTimes, new: KernelTimes, base_run: RunTimes, new_run: RunTimes) -> _Measured:
    """Compare two times of which at least one is emulated; the interval is that of the error band."""
    runs = (base.runs, new.runs)
    if not base.time_ms > 0 or not new.time_ms > 0:
        return _Measured(None, "none", runs, why_not="a time of 0 has no ratio")
    ratio = new.time_ms / base.time_ms
    if base_run.emulated != new_run.emulated:
        return _Measured(ratio - 1, "none", runs, why_not=_contradiction(base, new, base_run, new_run))
    if differences(base_run, new_run):
        return _Measured(ratio - 1, "none", runs, why_not="no error band is known for emulated times of different devices")
    if base_run.bands is None or new_run.bands is None:
        if ratio == 1:
            return _Measured(0.0, "band", runs)
        return _Measured(ratio - 1, "none", runs, why_not="a profile does not contain its error band: profile again")
    band = max(base_run.bands.ratio, new_run.bands.ratio, key=lambda known: known.factor)
    low, high = band.around(ratio)
    same_code = base.code_sha256 is not None and (base.code_sha256, base.launch) == (new.code_sha256, new.launch)
    return _Measured(
        ratio - 1,
        "band",
        runs,
        interval=(low - 1, high - 1),
        note=_same_code_note(base_run, new_run, ratio) if same_code else None,
        band=band,
        is_tie=same_code and base_run.versions != new_run.versions,
    )


def _same_code_note(base: RunTimes, new: RunTimes, ratio: float) -> str | None:
    """Return why equal code has two emulated times; None if it has one."""
    if ratio == 1:
        return None
    cause = "the versions differ" if base.versions != new.versions else "the inputs or settings differ"
    return f"both runs have the same code object and launch: {cause}"


def _contradiction(base: KernelTimes, new: KernelTimes, base_run: RunTimes, new_run: RunTimes) -> str:
    """Return whether a measured time is in the error band of an emulated one."""
    emulated, measured = (base, new) if base_run.emulated else (new, base)
    bands = base_run.bands if base_run.emulated else new_run.bands
    if bands is None:
        return "an emulated time without error band cannot be compared with a measured one"
    low, high = bands.time.around(emulated.time_ms * 1e3)
    band = f"the error band of the emulated one, {low:.3g} to {high:.3g} us ({bands.time.coverage:.0%})"
    if bands.time.contains(emulated.time_ms, measured.time_ms):
        return f"the measured time is inside {band}: no difference is shown"
    return f"the measured time is outside {band}: the kernels differ, or the timing model errs"


def _measure(base: KernelTimes, new: KernelTimes) -> _Measured:
    old, young = _settled(base.durations_ms), _settled(new.durations_ms)
    kept = min(len(old), len(young)) >= MIN_RUNS_FOR_INTERVAL
    runs = (len(old), len(young)) if kept else (base.runs, new.runs)
    if not base.time_ms > 0:
        return _Measured(None, "none", runs, why_not="a time of 0 has no ratio")
    change = new.time_ms / base.time_ms - 1
    if kept and min(old.min(), young.min()) <= 0:
        return _Measured(change, "none", runs, why_not="some of the times are 0")
    if kept:
        return _by_ranks(old, young)
    few = min(base.runs, new.runs)
    if few < MIN_RUNS_FOR_INTERVAL:
        counted = f"{few} run{'' if few == 1 else 's'}"
        why = f"{counted} cannot show a difference: use {MIN_RUNS_FOR_INTERVAL} or more, for example --runs 10"
        return _Measured(change, "none", runs, why_not=why)
    if base.stddev_ms is None or new.stddev_ms is None:
        return _Measured(change, "none", runs, why_not="a run contains neither times nor their spread")
    return _by_summary(base, new)


def _by_ranks(base_ms: Floats, new_ms: Floats) -> _Measured:
    found = rank_test(base_ms, new_ms, CONFIDENCE)
    trends = [trend.change for trend in (drift(base_ms), drift(new_ms)) if trend is not None and trend.is_drifting]
    note = None
    if found.autocorrelation_time >= _LONG_AUTOCORRELATION:
        note = f"consecutive runs are correlated (clocks?): {found.autocorrelation_time:.1f} of them carry the information of one"
    return _Measured(
        change=found.ratio - 1,
        basis="ranks",
        runs=(len(base_ms), len(new_ms)),
        interval=(found.interval[0] - 1, found.interval[1] - 1),
        p_value=found.p_value,
        note=note,
        drift=max(trends, key=abs, default=0.0),
    )


def _by_summary(base: KernelTimes, new: KernelTimes) -> _Measured:
    old, young = (TimeSummary(one.time_ms, one.stddev_ms or 0.0, one.runs) for one in (base, new))
    found = summary_test(old, young, CONFIDENCE)
    return _Measured(
        change=found.ratio - 1,
        basis="summary",
        runs=(base.runs, new.runs),
        interval=(found.interval[0] - 1, found.interval[1] - 1),
        p_value=found.p_value,
        note="a run contains no times: compared by mean and spread, assuming normally distributed times",
    )


def _judge(
    base: KernelTimes, new: KernelTimes, match: Match | None, found: _Measured, p_value: float | None, tested: int
) -> KernelComparison:
    if found.basis == "band":
        verdict, significant, reason = _verdict_of_emulated(found, base, new)
    else:
        verdict, significant, reason = _verdict(found, p_value, tested)
    notes = [
        found.note,
        f"was {base.name}" if match == "template" else None,
        f"launched as {base.launch}, now as {new.launch}" if base.launch and new.launch and base.launch != new.launch else None,
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
    )


def _verdict_of_emulated(found: _Measured, base: KernelTimes, new: KernelTimes) -> tuple[Verdict, bool | None, str]:
    """Return the verdict on two emulated times, whether they differ by more than the error band, and the reason."""
    if base.time_ms == new.time_ms:
        return "same", False, "the emulated times are equal"
    if found.is_tie:
        return "indistinguishable", False, "the same code object and launch"
    band = found.band
    assert band is not None and found.interval is not None
    between = f"{found.interval[0]:+.1%} to {found.interval[1]:+.1%} expected on hardware ({band.coverage:.0%})"
    if band.distinguishes(base.time_ms, new.time_ms):
        return ("slower" if new.time_ms > base.time_ms else "faster"), True, f"beyond the error band: {between}"
    return "indistinguishable", False, f"inside the error band of the emulator, a factor of {band.factor:.2f}: {between}"


def _verdict(found: _Measured, p_value: float | None, tested: int) -> tuple[Verdict, bool | None, str]:
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


def _chance(found: _Measured, tested: int) -> str:
    said = f"chance alone causes such a difference in one of {tested} kernels"
    if tested * least_p_value(*found.runs) > _ALPHA:
        more = next(runs for runs in range(min(found.runs), 100) if tested * least_p_value(runs, runs) <= _ALPHA)
        return f"{said}, and so few runs cannot show more: use {more} or more"
    return f"{said}: use more runs"


def _settled(durations_ms: Sequence[float]) -> Floats:
    times = np.asarray(durations_ms, dtype=np.float64)
    return times[warm_up_runs(times) :]


def _alone(kernel: KernelTimes, verdict: Literal["new", "gone"]) -> KernelComparison:
    is_new = verdict == "new"
    return KernelComparison(
        name=kernel.name,
        mangled_name=kernel.mangled_name,
        verdict=verdict,
        reason="the base run does not contain this kernel" if is_new else "the new run does not contain this kernel",
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
    )
