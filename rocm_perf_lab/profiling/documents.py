"""JSON documents of a profile: base classes of all documents, the model of `profile.json`, and how they are written.

Every document states its `schema_version`; within one major version fields are only added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.rocprof.counter_catalogue import Certificate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


CheckedResult = Literal["correct", "wrong", "not checked"]


class DocumentError(LabError):
    """A document cannot be written."""


class Part(BaseModel):
    """Part of a document."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Document(Part):
    """Whole document."""

    schema_version: Literal["1.0"] = "1.0"


class KernelPart(Part):
    """Kernel; `grid` counts workgroups, `block` work-items."""

    name: str
    mangled_name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


class GpuPart(Part):
    """GPU, as described by its target."""

    architecture: str
    name: str
    wave_size: int
    compute_units: int
    simds_per_cu: int
    xcds: int
    max_clock_mhz: int
    dram_gb_per_s: float | None


class DriftPart(Part):
    """Mann-Kendall trend of the times over the runs; `change` is relative, from the first run to the last."""

    tau: float
    p_value: float
    change: float
    is_drifting: bool


class TimeGroupPart(Part):
    """One of two groups of times; `share` of the runs."""

    median_ms: float
    share: float


class StabilityPart(Part):
    """Spread of the times; `cv` and `robust_cv` are null for a single run. Warm-up runs count in `runs` only.

    `classification` follows `robust_cv` (1.4826 x median absolute deviation / median) if at most a tenth of ten or more runs are
    outliers, otherwise `cv`.
    """

    runs: int
    mean_ms: float
    median_ms: float
    stddev_ms: float
    mad_ms: float
    cv: float | None
    classification: Literal["stable", "moderate", "unstable"]
    note: str | None
    median_interval_ms: tuple[float, float] | None = None
    """95 % bootstrap interval; null for fewer than six runs."""
    warm_up_runs: int = 0
    outliers: tuple[int, ...] = ()
    """Positions among all runs, from 0; at most 100 of `outlier_count`."""
    outlier_count: int = 0
    drift: DriftPart | None = None
    warnings: tuple[str, ...] = ()
    durations_ms: tuple[float, ...] = ()
    """In order, without warm-up; at most 1,000, evenly spaced."""
    robust_cv: float | None = None
    outlier_share: float = 0.0
    groups: tuple[TimeGroupPart, ...] = ()
    """Two groups if the times have two typical values, otherwise none."""
    waits_for_peers: bool = False
    """Whether the times include waiting for other processes: the kernel is a collective."""


class ResourcesPart(Part):
    """Resources of a dispatch; `source` states whether the compiler or the profiler counted the registers."""

    vgpr_per_thread: int
    agpr_per_thread: int
    sgpr_per_wave: int
    lds_bytes: int
    scratch_bytes: int
    vgpr_spills: int | None
    sgpr_spills: int | None
    source: Literal["code object", "profiler"]


class OccupancyPart(Part):
    """Theoretical occupancy of this launch: the share of a SIMD's wavefront slots that can be filled."""

    theoretical: float
    waves_per_simd: float
    max_waves_per_simd: int
    limiter: str
    threads_per_block: int
    wave_size: int
    workgroups_per_cu: int
    what_if: tuple[str, ...]


class InstructionCount(Part):
    """Wavefront instructions of one class."""

    total: float
    per_wave: float


class RooflineSummary(Part):
    """Position under the DRAM and arithmetic roofs; details are in roofline.json."""

    intensity: float | None
    gflop_per_s: float | None
    gb_per_s: float
    ridge: float
    position: Literal["memory_bound", "compute_bound"] | None
    implausible: tuple[str, ...] = ()
    """Rates above their roof; if there are any, the other rates are unreliable too."""


class KernelLaunchPart(Part):
    """Dispatches of one kernel with equal launch shape and code; `grid` counts workgroups, `block` work-items."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lds_bytes: int
    code_version: int
    """Number of the code among those of the kernel's name, by first use; 0 if there is one."""
    calls: int
    total_ms: float
    median_ms: float
    durations_ms: tuple[float, ...]
    """In order of start; at most 100, evenly spaced. Empty if the kernel has one launch: they are those of the kernel."""
    dram_bytes: float | None = None
    """DRAM traffic of a dispatch; null if its counters were not collected."""


class KernelSummary(Part):
    """One kernel of the run. `launches` are its launch shapes and code versions with the largest total times, at most 20."""

    name: str
    mangled_name: str
    calls: int
    total_ms: float
    share: float
    critical_path_share: float
    helper: bool
    median_ms: float | None = None
    durations_ms: tuple[float, ...] = ()
    """In order of start; at most 100, evenly spaced."""
    launches: tuple[KernelLaunchPart, ...] = ()
    launch_count: int | None = None
    """Number of launch shapes and code versions."""


class TimeBandPart(Part):
    """Range of the time on hardware with probability `coverage`."""

    coverage: float
    low_ms: float
    high_ms: float


class RatioBandPart(Part):
    """Factor within which two variants of a kernel are indistinguishable with probability `coverage`."""

    coverage: float
    factor: float


class ErrorBandsPart(Part):
    """Error bands of an emulated time, by increasing coverage. `provisional` bands are assumed, not estimated from cases."""

    status: Literal["provisional", "estimated"]
    source: str
    time: tuple[TimeBandPart, ...]
    ratio: tuple[RatioBandPart, ...]


class ProvenancePart(Part):
    """Origin of the numbers. Times of an emulator are never measured times."""

    device: str
    emulated: bool
    time_kind: Literal["emulated", "measured"]
    note: str
    versions: dict[str, str]
    hashes: dict[str, str]
    database: str
    rocpd_schema_version: str
    sample_seed: int | None = None
    """Seed that chose the workgroups from which an emulated time was estimated; device.sample_seed repeats the choice."""


class CounterCertificatePart(Part):
    """Certificate of an emulated counter; see :mod:`rocm_perf_lab.rocprof.counter_catalogue`."""

    certificate: Certificate
    bound: float | None = None
    """Largest relative deviation from recordings of GPUs, for bounded counters."""
    scope: str = ""
    """What these recordings cover."""


class ProfileDocument(Document):
    """`profile.json`. `runtime_ms` is the median time of one dispatch of `kernel`, null if the emulator has none for the GPU."""

    # 1.1 `result`, 1.2 `error_bands`, 1.3 `launches`, 1.4 `result_evidence`
    schema_version: Literal["1.4"] = "1.4"  # type: ignore[assignment]
    kernel: KernelPart
    gpu: GpuPart
    runtime_ms: float | None
    stability: StabilityPart
    resources: ResourcesPart
    occupancy: OccupancyPart
    waves: float | None
    instruction_mix: dict[str, InstructionCount] | None
    instruction_mix_reason: str | None
    roofline: RooflineSummary | None
    roofline_reason: str | None
    counters: tuple[dict[str, float], ...]
    counter_certificates: dict[str, CounterCertificatePart] | None = None
    """Certificates of emulated counters; null for measured ones."""
    result: CheckedResult = "not checked"
    """Comparison of the outputs with the reference; `not checked` without a reference."""
    result_evidence: str | None = None
    """Compared elements and the largest error, or the worst wrong element; null if the result was not checked."""
    error_bands: ErrorBandsPart | None = None
    """Error bands of an emulated `runtime_ms`; null for measured times."""
    kernels: tuple[KernelSummary, ...]
    provenance: ProvenancePart
    notes: tuple[str, ...]


def write_documents(directory: Path, documents: Mapping[str, Document]) -> tuple[Path, ...]:
    """Write each document under its file name in `directory`, atomically.

    Raises:
        DocumentError: The directory cannot be written.
    """
    paths = []
    for name, document in documents.items():
        path = directory / name
        try:
            write_text(path, document.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise DocumentError(
                f"cannot write {name}: {error.strerror or error}",
                where=str(directory),
                hint="free some space, or choose an output directory that can be written",
            ) from error
        paths.append(path)
    return tuple(paths)
