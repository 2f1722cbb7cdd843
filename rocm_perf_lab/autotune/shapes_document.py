"""Model of `shapes.json`, the result of a search for several shapes, and its JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.autotune import document as autotune  # noqa: TC001  # fields of models
from rocm_perf_lab.core.models import write_schema
from rocm_perf_lab.profiling.documents import Document, Part

if TYPE_CHECKING:
    from pathlib import Path

NAME = "shapes.json"


class ShapeResult(Part):
    """Shape and its selected configuration.

    `regret` is the measured slowdown against the fastest configuration of this shape that was measured, 0.02 for 2 %; for another
    objective, the share of the best value that is lost. It and `configuration`, the position in `configurations`, are null if no
    selected configuration was measured. `value` and `best_value` are of the objective if that is not the time. `first_ms` is the
    time of the first configuration, usually the default. After a race, times are those of the race. With several objectives,
    the first one selects, and `front` has the configurations that no other beats in all.
    """

    shape: autotune.Parameters
    weight: float
    evaluated: int
    configuration: int | None
    runtime_ms: float | None
    regret: float | None
    best_ms: float | None
    best_parameters: autotune.Parameters | None
    first_ms: float | None
    value: float | None = None
    best_value: float | None = None
    race: autotune.RacePart | None = None
    front: tuple[autotune.FrontPart, ...] = ()


class ShapesDocument(Document):
    """Result of a search for several shapes. `weighted_regret` is the mean over the shapes with a configuration.

    `objective` is null for the time, the first of several, and `configurations` are the selected ones.
    """

    kernel: autotune.KernelName
    gpu: autotune.GpuName
    time_kind: Literal["emulated", "measured"]
    timing: str
    objective: str | None = None
    configurations: tuple[autotune.Parameters, ...]
    shapes: tuple[ShapeResult, ...]
    weighted_regret: float | None
    search_space_size: int
    evaluated_configs: int
    infeasible_configs: int
    stop_reason: str
    model: autotune.ModelPart | None
    phases: dict[str, int]
    error_bands: autotune.AutotuneErrorBands | None = None
    failures: tuple[autotune.FailurePart, ...]
    trials: tuple[autotune.TrialPart, ...]
    provenance: autotune.OriginPart

    @property
    def covered(self) -> tuple[tuple[ShapeResult, int], ...]:
        """Shapes that have a configuration, with its position."""
        return tuple((shape, shape.configuration) for shape in self.shapes if shape.configuration is not None)


def export_schema(directory: Path) -> Path:
    """Write the JSON Schema of `shapes.json` to a directory, and return its path."""
    return write_schema(directory / "shapes.schema.json", ShapesDocument, "validation")
