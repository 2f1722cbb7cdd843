"""The model of `autotune.json`, the result of a search, and its JSON Schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from rocm_perf_lab.autotune.space import Value
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.profiling.documents import Document, Part

if TYPE_CHECKING:
    from pathlib import Path

NAME = "autotune.json"
Parameters = dict[str, Value]
Stage = Literal["compile", "resources", "run", "verification"]


class KernelName(Part):
    """The kernel, or the program of a command."""

    name: str


class GpuName(Part):
    """The GPU that is tuned for."""

    name: str
    architecture: str


class BestConfig(Part):
    """The fastest configuration; after a race the time is that of all its rounds."""

    parameters: Parameters
    runtime_ms: float


class ModelPart(Part):
    """What predicted; `r2` is cross-validated, null where there are too few trials."""

    name: str
    r2: float | None
    residual_std: float | None


class StandingPart(Part):
    """One contender of a race."""

    trial: int
    outcome: Literal["winner", "slower", "equal", "failed", "undecided"]
    median_ms: float
    runs: int
    rounds: int


class RacePart(Part):
    """How configurations that were too close to call were decided, the winner first."""

    decided: bool
    standings: tuple[StandingPart, ...]


class FailurePart(Part):
    """A configuration that could not run, or computed something wrong."""

    trial: int
    parameters: Parameters
    stage: Stage
    reason: str


class DiscardedPart(Part):
    """Configurations that were known to be impossible before anything ran, by kind of reason."""

    configurations: int
    stage: Stage
    reason: str
    example: Parameters


class RegionPart(Part):
    """One value of one parameter: how many configurations have it, and what became of them."""

    parameter: str
    value: Value
    configurations: int
    evaluated: int
    pruned: int
    best_ms: float | None


class TrialPart(Part):
    """One configuration that was evaluated; `runtime_ms` is null where it failed.

    `decision` says why the sampler took it, `details` how it was measured and what its code object needs.
    """

    trial: int
    phase: str
    parameters: Parameters
    runtime_ms: float | None
    predicted_ms: float | None
    decision: dict[str, Any]
    details: dict[str, Any]


class OriginPart(Part):
    """Where the times come from; `command` is the template of a command, null for a kernel, and `target` null for a command."""

    device: str
    note: str
    emulated: bool
    versions: dict[str, str]
    target: str | None = None
    command: str | None = None


class AutotuneDocument(Document):
    """`autotune.json`; times are of what `timing` says, and measured or emulated as `time_kind` says."""

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
    """Write the JSON Schema as `autotune.schema.json`; its path.

    Fields that come later have defaults, so that earlier documents stay valid.
    """
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **AutotuneDocument.model_json_schema(mode="validation"),
    }
    path = directory / NAME.replace(".json", ".schema.json")
    write_text(path, json.dumps(schema, indent=2, sort_keys=True) + "\n")
    return path
