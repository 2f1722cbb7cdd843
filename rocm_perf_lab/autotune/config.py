"""Model of the config group `autotune`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from rocm_perf_lab.core.components import Component
from rocm_perf_lab.core.models import StrictModel


class AutotuneConfig(StrictModel):
    """How a space is searched."""

    space: Path | None = None
    """YAML or JSON; wins over the group `space`."""
    budget: PositiveInt | None = None
    """Configurations to evaluate; None: all that are worth it."""
    seed: NonNegativeInt = 0
    model: Literal["gaussian_process", "classic"] = "gaussian_process"
    sampler: Component | None = None
    """Any Optuna sampler in place of the lab's own."""
    prior: str | None = None
    """Earlier results of this space: a landscape file, a run's directory, `study:NAME@URL` or `mlflow:RUN_ID`."""
    features: tuple[Literal["parameters", "compiled"], ...] = ("parameters",)
    """What a prediction may use: `compiled` compiles every configuration before anything runs."""
    max_compiled: PositiveInt = 5000
    """The largest space that is compiled as a whole."""
    max_spills: NonNegativeInt | None = None
    """VGPRs that a configuration may spill; more, and it is discarded before it runs."""
    max_cv: float = Field(0.10, gt=0)
    """Coefficient of variation above which a trial is measured again."""
    max_rounds: PositiveInt = 3
    """Rounds of `passes.runs` times that a trial may take."""
    max_races: NonNegativeInt = 4
    """Further rounds for configurations too close to call; 0 decides by the trials alone."""
    cache: bool = True
    """Take results of earlier runs with the same code, inputs, device and versions."""
    workers: PositiveInt | None = None
    """Processes that compile; None: one per core."""
    storage: str | None = None
    """Where the study is kept (an Optuna URL); None: study.db in the run's directory."""
    study: str | None = None
    """Its name; sweeps with equal name and storage share their trials."""
