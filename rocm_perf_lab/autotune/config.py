"""Model of the config group `autotune`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from rocm_perf_lab.autotune.spaces.space import Value
from rocm_perf_lab.core.components import Component
from rocm_perf_lab.core.models import StrictModel


class StopWhen(StrictModel):
    """Condition that ends a search early: something better is improbable."""

    better_than: float = Field(default=0.02, gt=0, lt=1)
    """Margin, as a share of the best time."""
    probability: float = Field(default=0.1, gt=0, lt=1)
    """The search ends if a configuration faster by the margin is left with at most this probability."""


class ObjectiveConfig(StrictModel):
    """Objective of a search."""

    metric: str
    """Expression of the time, metrics and parameters."""
    direction: Literal["minimise", "maximise"] = "minimise"


class EmulatedRuns(StrictModel):
    """Emulated runs of `prior: emulated`, before the first measurement."""

    params: dict[str, Value] | None = Field(default=None, examples=["{m: 256, n: 256}"])
    """Kernel parameters for a smaller problem, which the emulator executes in less time."""
    budget: PositiveInt = Field(default=40, examples=[40])
    """Number of configurations to emulate."""


class AutotuneConfig(StrictModel):
    """Settings of a search."""

    space: Path | None = None
    """YAML or JSON file; overrides the group `space`."""
    shapes: tuple[dict[str, Value], ...] | Path | None = Field(default=None, examples=["[{m: 512, n: 64}, {m: 64, n: 64}]"])
    """Shapes of a workload to tune for together: a list, a file of shapes, or a recording."""
    configurations: PositiveInt | None = Field(default=None, examples=[2])
    """Largest number of configurations for all shapes; None: one per shape."""
    from_launch: dict[str, str] | None = Field(default=None, examples=["{n: grid_x * block_x}"])
    """Parameter of a shape -> expression of the launches in a recording."""
    objectives: tuple[str | ObjectiveConfig, ...] = Field(default=(), examples=["[runtime_ms, {metric: vgpr}]"])
    """Expressions to minimise or maximise in place of the time."""
    limits: tuple[str, ...] = Field(default=(), examples=["['vgpr <= 128']"])
    """Expressions that hold for valid configurations, for example `vgpr <= 128`."""
    printed: dict[str, str] | None = Field(default=None, examples=["{gflops: 'gflops: ([\\d.]+)'}"])
    """Metric -> regular expression with one group, in the output of a command."""
    budget: PositiveInt | None = Field(default=None, examples=[60])
    """Number of configurations to evaluate; None: all that are worth measuring."""
    stop_when: StopWhen | None = Field(default=None, examples=["{better_than: 0.02, probability: 0.1}"])
    """Condition that ends the search before the budget is used up."""
    seed: NonNegativeInt = 0
    model: Literal["gaussian_process", "classic"] = "gaussian_process"
    sampler: Component | None = Field(default=None, examples=["{_target_: optuna.samplers.TPESampler}"])
    """Optuna sampler or search strategy in place of the default sampler."""
    prior: str | None = Field(default=None, examples=["outputs/DATE/TIME-autotune-NAME"])
    """Earlier results of this space: a landscape file, the directory of a run, `study:NAME@URL` or `mlflow:RUN_ID`;
    or `emulated`: runs on the emulator."""
    emulated: EmulatedRuns = Field(default=EmulatedRuns(), examples=["{params: {m: 256}, budget: 40}"])
    """Settings of these runs, which have no effect for other priors."""
    features: tuple[Literal["parameters", "compiled"], ...] = Field(default=("parameters",), examples=["[parameters, compiled]"])
    """Inputs of the model; `compiled` compiles every configuration before the first measurement."""
    max_compiled: PositiveInt = 5000
    """Largest space for `compiled`."""
    max_spills: NonNegativeInt | None = None
    """Spilled VGPRs above which a configuration is discarded before it runs."""
    max_cv: float = Field(default=0.10, gt=0)
    """Coefficient of variation above which a trial is measured again."""
    max_rounds: PositiveInt = 3
    """Largest number of rounds of a trial, each of `passes.runs` measurements."""
    max_races: NonNegativeInt = 20
    """Largest number of further rounds for configurations with nearly equal times; 0 decides by the trials alone."""
    cutoff: float | None = Field(default=10.0, ge=1)
    """Multiple of the best configuration's wall-clock time after which a run is ended, after ten seconds at the earliest; None
    does not end it."""
    first_cutoff_s: float = Field(default=600.0, gt=0)
    """Seconds after which a run is ended before any configuration has run; without effect if `cutoff` is None."""
    cache: bool = True
    """Reuse results of earlier runs with the same code, inputs, device and versions."""
    workers: PositiveInt | None = None
    """Number of compiler processes; None: one per core."""
    storage: str | None = None
    """Optuna storage URL of the study; None: study.db in the directory of the run."""
    study: str | None = None
    """Name of the study; sweeps with equal name and storage share their trials."""
