"""`replay.json`: the report that `rocm-perf replay full-vm --json` prints."""

from __future__ import annotations

from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.replay.messages import Verification
from rocm_perf_lab.target.timing_errors import UNVALIDATED

if TYPE_CHECKING:
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.messages import ReplayOutcome, ReplayRequest
    from rocm_perf_lab.target.timing_errors import TimingErrors

SCHEMA_VERSION: Literal["1.0"] = "1.0"

_AGREEMENT = 0.1
"""Largest relative difference of replayed and captured time without a warning."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KernelSection(_Part):
    """Replayed kernel."""

    name: str


class ExecutionSection(_Part):
    """Iterations. `stateless`: memory was restored before every iteration; `stateful`: before the first only."""

    iterations: int
    mode: Literal["stateless", "stateful"]


class ExpectedTime(_Part):
    """Range of the median of emulated durations on hardware, with probability `coverage`.

    `ratio_factor`: two code objects are indistinguishable if their times differ by less. `provisional` bands are assumed.
    """

    coverage: float
    low: float
    high: float
    ratio_factor: float
    status: Literal["provisional", "estimated"]

    @classmethod
    def of(cls, median_us: float, errors: TimingErrors) -> Self:
        """Return the range of an emulated median."""
        low, high = errors.around(median_us)
        coverage = errors.expected.coverage
        return cls(coverage=coverage, low=low, high=high, ratio_factor=errors.decisive.factor, status=errors.status)


class TimingSection(_Part):
    """Durations of the kernel; `kind`: measured on a device, or estimated by the emulator's timing model."""

    unit: Literal["microseconds"] = "microseconds"
    kind: Literal["emulated", "measured"]
    average: float
    median: float
    min: float
    max: float
    stddev: float
    samples: tuple[float, ...]
    warmup: tuple[float, ...] = ()
    expected: ExpectedTime | None = None
    """Error band of emulated durations; null for measured ones."""


class CapturedTime(_Part):
    """Duration of the captured dispatch in microseconds, and `ratio`, the median of the replays over it.

    `agrees`: they differ by at most 10 %. A captured dispatch ran once, with the state of caches and clocks at that point of the
    application.
    """

    microseconds: float
    ratio: float
    agrees: bool

    def note(self, median_us: float, *, emulated: bool) -> str:
        """Return the warning about a time difference."""
        cause = "outside of a profile, the clock of the emulated GPU is a rougher estimate than the timing model"
        if not emulated:
            cause = "caches, clocks or other work on the GPU differed"
        return (
            f"the captured code object takes {median_us:.4g} us in replays, {self.ratio:.2f} times the "
            f"{self.microseconds:.4g} us of the captured dispatch: {cause}"
        )


def captured_time(capture: Capture, median_us: float, *, emulated: bool) -> CapturedTime | None:
    """Compare replays of the captured code object with the captured dispatch; None if only one of the times is emulated."""
    timing = capture.dispatch.timing
    if timing is None or timing.duration_us <= 0 or capture.emulated != emulated:
        return None
    ratio = median_us / timing.duration_us
    return CapturedTime(microseconds=timing.duration_us, ratio=ratio, agrees=abs(ratio - 1) <= _AGREEMENT)


class EnvironmentSection(_Part):
    """Device, ROCm version and process of the replay."""

    gpu_agent: str
    rocm_version: str
    pid: int
    clocks_mhz: dict[str, float] = {}
    """Clocks in MHz after the last dispatch, if the driver reports them."""


class ReplayDocument(_Part):
    """Report of one replay. `wall_time_ms` covers all iterations, including restoring memory between them."""

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    kernel: KernelSection
    execution: ExecutionSection
    timing: TimingSection
    environment: EnvironmentSection
    capture: str
    hsaco_path: str
    captured: CapturedTime | None = None
    """Time of the captured dispatch; null with a replacement, or if only one of the times is emulated."""
    wall_time_ms: float
    restored_bytes: int
    verification: Verification | None
    notes: tuple[str, ...]


class ReplayedPair(_Part):
    """`replay.json` of `job=replay`: replays of the captured code object and of an override; `speedup` is their ratio."""

    captured: ReplayDocument
    override: ReplayDocument
    speedup: float
    time_kind: Literal["emulated", "measured"]
    indistinguishable: bool
    """Whether two emulated times differ by less than the error band of their ratio."""


def replay_document(
    capture: Capture, job: ReplayRequest, outcome: ReplayOutcome, errors: TimingErrors = UNVALIDATED, *, name: str | None = None
) -> ReplayDocument:
    """Build the report of a replay.

    Args:
        capture: The capture.
        job: Request.
        outcome: Outcome of the request.
        errors: Error bands of the emulated GPU; not used for measured times.
        name: Directory of the capture in the user's notation.
    """
    samples = outcome.samples_us
    directory = name or str(capture.directory)
    captured = captured_time(capture, median(samples), emulated=outcome.emulated) if job.hsaco is None else None
    warning = () if captured is None or captured.agrees else (captured.note(median(samples), emulated=outcome.emulated),)
    return ReplayDocument(
        kernel=KernelSection(name=outcome.kernel),
        execution=ExecutionSection(iterations=len(samples), mode="stateless" if job.recopy else "stateful"),
        timing=TimingSection(
            kind="emulated" if outcome.emulated else "measured",
            average=mean(samples),
            median=median(samples),
            min=min(samples),
            max=max(samples),
            stddev=stdev(samples) if len(samples) > 1 else 0.0,
            samples=samples,
            warmup=outcome.warmup_us,
            expected=ExpectedTime.of(median(samples), errors) if outcome.emulated else None,
        ),
        environment=EnvironmentSection(
            gpu_agent=outcome.gpu_agent,
            rocm_version=outcome.rocm_version,
            pid=outcome.pid,
            clocks_mhz=outcome.clocks,
        ),
        capture=directory,
        hsaco_path=job.hsaco or f"{directory}/kernel.hsaco",
        captured=captured,
        wall_time_ms=outcome.wall_ms,
        restored_bytes=outcome.restored_bytes,
        verification=outcome.verification,
        notes=(*outcome.notes, *warning),
    )
