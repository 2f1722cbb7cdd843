"""Model of `autotune.json`, the result of a search, and its JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from rocm_perf_lab.autotune.spaces.space import Value
from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.profiling.documents import Document, Part
from rocm_perf_lab.statistics.error_bands import RatioBand, TimeBand  # noqa: TC001  # fields of models

if TYPE_CHECKING:
    from pathlib import Path

NAME = "autotune.json"
Parameters = dict[str, Value]
Stage = Literal["compile", "resources", "run", "verification"]


class KernelName(Part):
    """Kernel, or program of a command."""

    name: str


class GpuName(Part):
    """GPU that the search is for."""

    name: str
    architecture: str


class BestConfig(Part):
    """Fastest configuration. After a race, the time is the median over all rounds.

    `expected_ms` is the range of an emulated time on hardware; null for measured times.
    """

    parameters: Parameters
    runtime_ms: float
    expected_ms: tuple[float, float] | None = None


class TiedConfig(Part):
    """Configuration whose emulated time is inside the error band around the best one."""

    trial: int
    parameters: Parameters
    runtime_ms: float


class AutotuneErrorBands(Part):
    """Error bands of emulated times, by increasing coverage: factors of a time, and of the ratio of two configurations."""

    status: Literal["provisional", "estimated"]
    source: str
    time: tuple[TimeBand, ...]
    ratio: tuple[RatioBand, ...]


class ModelPart(Part):
    """Surrogate model; `r2` is cross-validated, and null for too few trials."""

    name: str
    r2: float | None
    residual_std: float | None


class StandingPart(Part):
    """Contender of a race."""

    trial: int
    outcome: Literal["winner", "slower", "equal", "failed", "undecided"]
    median_ms: float
    runs: int
    rounds: int


class RacePart(Part):
    """Race between configurations with nearly equal times, the winner first."""

    decided: bool
    standings: tuple[StandingPart, ...]


class FailurePart(Part):
    """Configuration that failed, or returned wrong results."""

    trial: int
    parameters: Parameters
    stage: Stage
    reason: str


class DiscardedPart(Part):
    """Configurations discarded before the first measurement, by kind of reason."""

    configurations: int
    stage: Stage
    reason: str
    example: Parameters


class RegionPart(Part):
    """Value of a parameter, and the number of configurations with it that exist, were evaluated and were pruned."""

    parameter: str
    value: Value
    configurations: int
    evaluated: int
    pruned: int
    best_ms: float | None


class RemainingPart(Part):
    """Calibrated probability that a configuration faster than the best by the share `better_than` of its time is left."""

    better_than: float
    probability: float


class FrontPart(Part):
    """Configuration that no other beats in all objectives; `values` has the value of each objective."""

    trial: int
    parameters: Parameters
    values: dict[str, float]


class TrialPart(Part):
    """Evaluated configuration; `runtime_ms` is null if it failed.

    `decision` is the sampler's reason, `details` describes the measurement and the resources of the code object.
    """

    trial: int
    phase: str
    parameters: Parameters
    runtime_ms: float | None
    predicted_ms: float | None
    decision: dict[str, Any]
    details: dict[str, Any]


class OriginPart(Part):
    """Provenance of the times. `command` is the template of a command (null for a kernel), `target` is null for a command."""

    device: str
    note: str
    emulated: bool
    versions: dict[str, str]
    target: str | None = None
    command: str | None = None


class AutotuneDocument(Document):
    """Result of a search. `timing` describes the times, and `time_kind` tells measured from emulated ones.

    On the emulator, `indistinguishable` lists the configurations that are inside the error band around the best one, and `choice`
    is the criterion that selected the best among them. With `objectives`, `front` begins with the best configuration.
    """

    kernel: KernelName
    gpu: GpuName
    time_kind: Literal["emulated", "measured"]
    timing: str
    search_space_size: int
    evaluated_configs: int
    infeasible_configs: int
    discarded_configs: int
    pruned_configs: int
    best_config: BestConfig | None
    indistinguishable: tuple[TiedConfig, ...] = ()
    choice: str | None = None
    error_bands: AutotuneErrorBands | None = None
    remaining: tuple[RemainingPart, ...] = ()
    objectives: tuple[str, ...] = ()
    front: tuple[FrontPart, ...] = ()
    model: ModelPart | None
    phases: dict[str, int]
    warning: Literal["low_model_confidence"] | None
    stop_reason: str
    race: RacePart | None
    parameter_importances: dict[str, float]
    failures: tuple[FailurePart, ...]
    discarded: tuple[DiscardedPart, ...]
    pruned_region: tuple[RegionPart, ...]
    trials: tuple[TrialPart, ...]
    provenance: OriginPart


def export_schema(directory: Path) -> Path:
    """Write the JSON Schema as `autotune.schema.json`, and return its path.

    Fields that are added later have defaults, so that earlier documents stay valid.
    """
    return write_schema(directory / NAME.replace(".json", ".schema.json"), AutotuneDocument, "validation")
