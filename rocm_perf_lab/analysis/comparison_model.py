"""Times of two runs, and the result of their comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.kernel_pairs import Match
    from rocm_perf_lab.statistics.error_bands import RatioBand, TimeBand

Verdict = Literal["faster", "slower", "same", "indistinguishable", "unclear", "not comparable", "new", "gone"]
Basis = Literal["ranks", "summary", "band", "none"]

Normalisation = Literal["workgroup", "byte"]


@dataclass(frozen=True)
class KernelTimes:
    """Dispatches of one kernel in one run; `stddev_ms` and `durations_ms` if the run contains them."""

    name: str
    mangled_name: str
    time_ms: float
    runs: int
    stddev_ms: float | None = None
    durations_ms: tuple[float, ...] = ()
    """Durations in order of start."""
    launch: str | None = None
    """Grid and block, if known."""
    workgroups: int | None = None
    """Workgroups of a dispatch, if known."""
    dram_bytes: float | None = None
    """DRAM traffic of a dispatch, if its counters were collected."""
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
    base_launch: str | None = None
    launch: str | None = None
    """Launch shape in the base and in the new run, if known."""
    normalised: Normalisation | None = None
    """Divisor of the times, because the launch shapes differ."""

    def is_regression(self, threshold: float) -> bool:
        """Return True if the kernel is significantly slower by more than `threshold` at an equal launch shape."""
        return self.normalised is None and self.verdict == "slower" and self.change is not None and self.change > threshold


@dataclass(frozen=True)
class Measured:
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
    normalised: Normalisation | None = None
    is_comparable: bool = True
    """Whether the kernels do the same work, or their times were normalised."""
