"""Interleaved comparison of two code objects on one capture: `compare_code_objects(...) -> ReplayComparison`.

Each pair of measurements consists of consecutive batches of the two code objects in random order, so that clocks and temperature
affect both equally. A batch starts from restored memory, and its median is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.replay.messages import CacheState, CheckRequest, ReplayRequest, Verification
from rocm_perf_lab.replay.report import CapturedTime, captured_time
from rocm_perf_lab.statistics.bootstrap import median_interval
from rocm_perf_lab.statistics.interleaving import InterleavedPairs
from rocm_perf_lab.statistics.paired_test import compare_emulated, compare_pairs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.messages import ReplayOutcome
    from rocm_perf_lab.replay.session import ReplaySession
    from rocm_perf_lab.statistics.paired_test import PairedComparison
    from rocm_perf_lab.target.timing_errors import TimingErrors

CONFIDENCE = 0.95
_NS_PER_US = 1e3


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ComparedCode(_Part):
    """Times of one code object in microseconds: median of the batches with its 95 % interval (null for fewer than six)."""

    hsaco: str
    median_us: float
    interval_us: tuple[float, float] | None
    batches_us: tuple[float, ...]


class SpeedupSection(_Part):
    """Time of the baseline divided by that of the candidate, with bounds at 95 % confidence.

    For emulated times, the bounds are the error band of the timing model. `verdict`: faster or slower only if the bounds exclude
    1.
    """

    estimate: float
    low: float | None
    high: float | None
    method: str
    verdict: Literal["faster", "slower", "indistinguishable"]


class ClockSection(_Part):
    """Smallest and largest clock in MHz that the driver reported after a batch."""

    low: float
    high: float


class ReplayComparison(_Part):
    """Result of `rocm-perf replay compare`. `verification` is that of the candidate; null without a check."""

    schema_version: Literal["1.0"] = "1.0"
    capture: str
    kernel: str
    time_kind: Literal["emulated", "measured"]
    gpu_agent: str
    caches: CacheState
    pairs: int
    batch: int
    baseline: ComparedCode
    candidate: ComparedCode
    speedup: SpeedupSection
    captured: CapturedTime | None
    clocks_mhz: dict[str, ClockSection]
    verification: Verification | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class CodeComparisonRequest:
    """Code objects and measurements; `baseline` None is the captured code object, `check` None skips the memory comparison."""

    candidate: Path
    baseline: Path | None = None
    caches: CacheState = "warm"
    pairs: int = 32
    batch: int = 10
    force: bool = False
    check: CheckRequest | None = None


def compare_code_objects(
    capture: Capture,
    session: ReplaySession,
    request: CodeComparisonRequest,
    errors: TimingErrors,
    measured: Callable[[int, int], None] = lambda done, total: None,
) -> ReplayComparison:
    """Check the candidate, then time both code objects in interleaved batches.

    Args:
        capture: The capture.
        session: Session that replays the capture.
        request: Code objects, and numbers of pairs and dispatches.
        errors: Error bands of emulated times.
        measured: Called with the number of measured pairs and the total number of pairs.

    Raises:
        OverrideError: A code object violates a rule of :mod:`~rocm_perf_lab.replay.override`.
        DeviceFault: A kernel faulted or did not end in time.
        ReplayError: The capture cannot be replayed on this machine.
    """
    old, new = _Side(session, request, request.baseline), _Side(session, request, request.candidate)
    checked = session.run(new.request(1, check=request.check))
    if checked.emulated:  # Emulated times do not vary.
        old.batch = new.batch = 1
        comparison = compare_emulated(old.measure(), new.measure(), errors.decisive)
    else:
        measure = InterleavedPairs(old.measure, new.measure, name=f"{capture.code_object.sha256} {request.candidate}")
        pairs = []
        for number in range(request.pairs):
            pairs += measure(1)
            measured(number + 1, request.pairs)
        comparison = compare_pairs(pairs, (1 - CONFIDENCE) / 2, CONFIDENCE)
    captured = None
    if request.baseline is None:
        captured = captured_time(capture, median(old.batches_us), emulated=checked.emulated)
    warning = () if captured is None or captured.agrees else (captured.note(median(old.batches_us), emulated=checked.emulated),)
    return ReplayComparison(
        capture=str(capture.directory),
        kernel=checked.kernel,
        time_kind="emulated" if checked.emulated else "measured",
        gpu_agent=checked.gpu_agent,
        caches=request.caches,
        pairs=comparison.pairs,
        batch=old.batch,
        baseline=old.times(str(request.baseline or capture.directory / "kernel.hsaco")),
        candidate=new.times(str(request.candidate)),
        speedup=_speedup(comparison),
        captured=captured,
        clocks_mhz=_clocks([*old.outcomes, *new.outcomes]),
        verification=checked.verification,
        notes=tuple(dict.fromkeys([*checked.notes, *old.outcomes[0].notes, *warning])),
    )


class _Side:
    """One of the two code objects, and its batches."""

    def __init__(self, session: ReplaySession, request: CodeComparisonRequest, hsaco: Path | None) -> None:
        self._session, self._request, self._hsaco, self.batch = session, request, hsaco, request.batch
        self.outcomes: list[ReplayOutcome] = []

    def request(self, iterations: int, check: CheckRequest | None = None) -> ReplayRequest:
        return ReplayRequest(
            iterations=iterations,
            warmup=0,
            recopy=check is not None or self._request.caches != "warm",
            hsaco=str(self._hsaco.absolute()) if self._hsaco is not None else None,
            force=self._request.force,
            check=check,
            caches="restored" if check is not None else self._request.caches,
        )

    def measure(self) -> float:
        """Run one batch, and return its median in ns."""
        outcome = self._session.run(self.request(self.batch))
        self.outcomes.append(outcome)
        return median(outcome.samples_us) * _NS_PER_US

    @property
    def batches_us(self) -> list[float]:
        return [median(outcome.samples_us) for outcome in self.outcomes]

    def times(self, name: str) -> ComparedCode:
        batches = self.batches_us
        return ComparedCode(
            hsaco=name,
            median_us=median(batches),
            interval_us=median_interval(np.asarray(batches)),
            batches_us=tuple(batches),
        )


def _speedup(comparison: PairedComparison) -> SpeedupSection:
    low, high = (float(bound) if np.isfinite(bound) else None for bound in comparison.speedup_interval)
    verdict: Literal["faster", "slower", "indistinguishable"] = "indistinguishable"
    if comparison.least > 0:
        verdict = "faster"
    elif comparison.most < 0:
        verdict = "slower"
    return SpeedupSection(estimate=comparison.speedup, low=low, high=high, method=comparison.method, verdict=verdict)


def _clocks(outcomes: list[ReplayOutcome]) -> dict[str, ClockSection]:
    names = dict.fromkeys(name for outcome in outcomes for name in outcome.clocks)
    values = {name: [outcome.clocks[name] for outcome in outcomes if name in outcome.clocks] for name in names}
    return {name: ClockSection(low=min(found), high=max(found)) for name, found in values.items()}
