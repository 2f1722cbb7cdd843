"""Messages between a replay session and its worker process: setup, requests, outcomes and errors, sent as JSON lines."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

CacheState = Literal["restored", "warm", "cold"]
"""Contents of the caches at the start of a dispatch: restored memory, lines of the previous dispatch, or unrelated lines."""
DEFAULT_ITERATIONS, DEFAULT_WARMUP = 100, 10
"""Default number of replays on a GPU."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReplaySetup(_Message):
    """Setup of a worker. `ranges` are the (address, bytes) that it reserves at start.

    `traced_workgroups` and `sample_seed` are those of :class:`~rocm_perf_lab.emulator.sampling.SamplePolicy`.
    """

    capture: str
    device: Literal["emulator", "rocm"]
    ranges: tuple[tuple[int, int], ...]
    target: dict[str, Any] | None = None
    max_instructions: PositiveInt = 20_000_000_000
    threads: PositiveInt = 1
    traced_workgroups: PositiveInt | None = 16
    sample_seed: NonNegativeInt | None = None
    timeout_s: float = 60.0
    agent: NonNegativeInt | None = None
    library: str | None = None
    reserve_only: bool = False


class CheckRequest(_Message):
    """Comparison of the memory after each stateless replay; see :class:`~rocm_perf_lab.replay.check.Tolerances`."""

    rtol: float = 0.0
    atol: float = 0.0
    nan: Literal["equal", "exact", "forbid"] = "exact"
    types: dict[str, str] = {}


class GeometryRequest(_Message):
    """Geometry that replaces the captured one; the grid counts work-items. `scalars` are hexadecimal bytes by offset."""

    grid: tuple[PositiveInt, PositiveInt, PositiveInt]
    workgroup: tuple[PositiveInt, PositiveInt, PositiveInt]
    dynamic_lds_bytes: NonNegativeInt
    scalars: dict[int, str] = {}


class ReplayRequest(_Message):
    """Series of replays. `hsaco` replaces the captured code object; `read` lists memory to return, as (address, bytes).

    The default of `iterations` and `warmup` is that of :meth:`repetitions`. Warm caches need `recopy` to be False: memory is
    restored before the first dispatch only.
    """

    iterations: PositiveInt | None = 1
    warmup: NonNegativeInt | None = 0
    recopy: bool = True
    hsaco: str | None = None
    force: bool = False
    check: CheckRequest | None = None
    geometry: GeometryRequest | None = None
    caches: CacheState = "restored"
    read: tuple[tuple[int, int], ...] = ()

    def repetitions(self, *, emulated: bool) -> tuple[int, int]:
        """Return iterations and warm-up replays. One emulated replay is sufficient, because emulated times do not vary."""
        iterations, warmup = (1, 0) if emulated else (DEFAULT_ITERATIONS, DEFAULT_WARMUP)
        return (
            iterations if self.iterations is None else self.iterations,
            warmup if self.warmup is None else self.warmup,
        )


class Verification(_Message):
    """Result of the comparison. `passed` is False if the memory after a replay differs from the expected memory."""

    passed: bool
    compared_with: Literal["captured result", "first baseline replay"]
    exact: bool
    indeterminate_bytes: NonNegativeInt
    baseline_reproduces: bool
    checked_replays: NonNegativeInt
    mismatches: tuple[str, ...] = ()


class ReplayOutcome(_Message):
    """Result of a replay request. `emulated`: durations are estimates from a sample of workgroups drawn with the seed."""

    samples_us: tuple[float, ...]
    warmup_us: tuple[float, ...] = ()
    wall_ms: float
    dispatch_ms: float
    restored_bytes: NonNegativeInt
    gpu_agent: str
    rocm_version: str
    emulated: bool
    sample_seed: NonNegativeInt | None = None
    pid: int
    kernel: str
    notes: tuple[str, ...] = ()
    verification: Verification | None = None
    clocks: dict[str, float] = {}
    """Clocks in MHz after the last dispatch, if the driver reports them."""
    counters: dict[str, float] = {}
    read: tuple[str, ...] = ()
    """The requested memory, in base 64."""


class WorkerError(_Message):
    """Error that the worker reports to the session."""

    kind: str
    what: str
    where: str | None = None
    hint: str | None = None
    fatal: bool = False
    """The worker ends after this message."""
