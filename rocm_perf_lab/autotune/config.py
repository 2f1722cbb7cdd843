"""Model of the config group `autotune`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from rocm_perf_lab.autotune.space import Value
from rocm_perf_lab.core.components import Component
from rocm_perf_lab.core.models import StrictModel


class StopWhen(StrictModel):
    """Condition that ends a search early: something better is improbable."""

    better_than: float = Field(0.02, gt=0, lt=1)
    """Margin, as a share of the best time."""
    probability: float = Field(0.1, gt=0, lt=1)
    """The search ends if a configuration faster by the margin is left with at most this probability."""


class ObjectiveConfig(StrictModel):
    """Objective of a search."""

    metric: str
    """Expression of the time, metrics and parameters."""
    direction: Literal["minimise", "maximise"] = "minimise"


class EmulatedRuns(StrictModel):
    """Emulated runs of `prior: emulated`, before the first measurement."""

    params: dict[str, Value] | None = None
    """Kernel parameters for a smaller problem, which the emulator executes in less time."""
    budget: PositiveInt = 40
    """Number of configurations to emulate."""


class AutotuneConfig(StrictModel):
    """Settings of a search."""

    space: Path | None = None
    """YAML or JSON file; overrides the group `space`."""
    shapes: tuple[dict[str, Value], ...] | Path | None = None
    """Shapes of a workload to tune for together: a list, a file of shapes, or a recording."""
    configurations: PositiveInt | None = None
    """Largest number of configurations for all shapes; None: one per shape."""
    from_launch: dict[str, str] | None = None
    """Parameter of a shape -> expression of the launches in a recording."""
    objectives: tuple[str | ObjectiveConfig, ...] = ()
    """Expressions to minimise or maximise in place of the time."""
    limits: tuple[str, ...] = ()
    """Expressions that hold for valid configurations, for example `vgpr <= 128`."""
    printed: dict[str, str] | None = None
    """Metric -> regular expression with one group, in the output of a command."""
    budget: PositiveInt | None = None
    """Number of configurations to evaluate; None: all that are worth measuring."""
    stop_when: StopWhen | None = None
    """Condition that ends the search before the budget is used up."""
    seed: NonNegativeInt = 0
    model: Literal["gaussian_process", "classic"] = "gaussian_process"
    sampler: Component | None = None
    """Optuna sampler or search strategy in place of the default sampler."""
    prior: str | None = None
    """Earlier results of this space: a landscape file, the directory of a run, `study:NAME@URL` or `mlflow:RUN_ID`;
    or `emulated`: runs on the emulator."""
    emulated: EmulatedRuns = EmulatedRuns()
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
    max_races: NonNegativeInt = 20
    """Largest number of further rounds for configurations with nearly equal times; 0 decides by the trials alone."""
    cutoff: float | None = Field(10.0, ge=1)
    """Multiple of the best configuration's wall-clock time after which a run is ended, after ten seconds at the earliest; None
    does not end it."""
    first_cutoff_s: float = Field(600.0, gt=0)
    """Seconds after which a run is ended before any configuration has run; without effect if `cutoff` is None."""
    cache: bool = True
    """Reuse results of earlier runs with the same code, inputs, device and versions."""
    workers: PositiveInt | None = None
    """Number of compiler processes; None: one per core."""
    storage: str | None = None
    """Optuna storage URL of the study; None: study.db in the directory of the run."""
    study: str | None = None
    """Name of the study; sweeps with equal name and storage share their trials."""
