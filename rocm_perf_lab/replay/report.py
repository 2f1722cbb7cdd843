"""`replay.json`: the report that `rocm-perf replay full-vm --json` prints."""

from __future__ import annotations

from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.replay.messages import Verification

if TYPE_CHECKING:
    from rocm_perf_lab.replay.messages import ReplayOutcome, ReplayRequest

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


def replay_document(capture: str, job: ReplayRequest, outcome: ReplayOutcome) -> ReplayDocument:
    """Build the report of a replay.

    Args:
        capture: Directory of the capture.
        job: The request.
        outcome: Its outcome.
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
        ),
        environment=EnvironmentSection(gpu_agent=outcome.gpu_agent, rocm_version=outcome.rocm_version, pid=outcome.pid),
        capture=capture,
        hsaco_path=job.hsaco or f"{capture}/kernel.hsaco",
        wall_time_ms=outcome.wall_ms,
        restored_bytes=outcome.restored_bytes,
        verification=outcome.verification,
        notes=outcome.notes,
    )
