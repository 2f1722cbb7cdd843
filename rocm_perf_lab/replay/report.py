"""`replay.json`: the report that `rocm-perf replay full-vm --json` prints."""

from __future__ import annotations

from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.replay.messages import Verification
from rocm_perf_lab.target.timing_errors import UNVALIDATED

if TYPE_CHECKING:
    from rocm_perf_lab.replay.messages import ReplayOutcome, ReplayRequest
    from rocm_perf_lab.target.timing_errors import TimingErrors

SCHEMA_VERSION: Literal["1.0"] = "1.0"


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


class EnvironmentSection(_Part):
    """Device, ROCm version and process of the replay."""

    gpu_agent: str
    rocm_version: str
    pid: int


class ReplayDocument(_Part):
    """Report of one replay. `wall_time_ms` covers all iterations, including restoring memory between them."""

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    kernel: KernelSection
    execution: ExecutionSection
    timing: TimingSection
    environment: EnvironmentSection
    capture: str
    hsaco_path: str
    wall_time_ms: float
    restored_bytes: int
    verification: Verification | None
    notes: tuple[str, ...]


def replay_document(
    capture: str, job: ReplayRequest, outcome: ReplayOutcome, errors: TimingErrors = UNVALIDATED
) -> ReplayDocument:
    """Build the report of a replay.

    Args:
        capture: Directory of the capture.
        job: The request.
        outcome: Its outcome.
        errors: Error bands of the emulated GPU; not used for measured times.
    """
    samples = outcome.samples_us
    return ReplayDocument(
        kernel=KernelSection(name=outcome.kernel),
        execution=ExecutionSection(iterations=job.iterations, mode="stateless" if job.recopy else "stateful"),
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
        environment=EnvironmentSection(gpu_agent=outcome.gpu_agent, rocm_version=outcome.rocm_version, pid=outcome.pid),
        capture=capture,
        hsaco_path=job.hsaco or f"{capture}/kernel.hsaco",
        wall_time_ms=outcome.wall_ms,
        restored_bytes=outcome.restored_bytes,
        verification=outcome.verification,
        notes=outcome.notes,
    )
