"""Model of the config group `autotune`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from rocm_perf_lab.core.components import Component
from rocm_perf_lab.core.models import StrictModel


class AutotuneConfig(StrictModel):
    """Settings of a search."""

    space: Path | None = None
    """YAML or JSON file; overrides the group `space`."""
    budget: PositiveInt | None = None
    """Number of configurations to evaluate; None: all that are worth measuring."""
    seed: NonNegativeInt = 0
    model: Literal["gaussian_process", "classic"] = "gaussian_process"
    sampler: Component | None = None
    """Optuna sampler or search strategy in place of the default sampler."""
    prior: str | None = None
    """Earlier results of this space: a landscape file, the directory of a run, `study:NAME@URL` or `mlflow:RUN_ID`."""
    features: tuple[Literal["parameters", "compiled"], ...] = ("parameters",)
    """Inputs of the model; `compiled` compiles every configuration before the first measurement."""
    max_compiled: PositiveInt = 5000
    """Largest space for `compiled`."""
    max_spills: NonNegativeInt | None = None
    """Spilled VGPRs above which a configuration is discarded before it runs."""
    max_cv: float = Field(0.10, gt=0)
    """Coefficient of variation above which a trial is measured again."""
    max_rounds: PositiveInt = 3
    """Largest number of rounds of a trial, each of `passes.runs` measurements."""
    max_races: NonNegativeInt = 4
    """Further rounds for configurations with nearly equal times; 0 decides by the trials alone."""
    cache: bool = True
    """Reuse results of earlier runs with the same code, inputs, device and versions."""
    workers: PositiveInt | None = None
    """Number of compiler processes; None: one per core."""
    storage: str | None = None
    """Optuna storage URL of the study; None: study.db in the directory of the run."""
    study: str | None = None
    """Name of the study; sweeps with equal name and storage share their trials."""
