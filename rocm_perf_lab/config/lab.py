"""The models of every config group. Hydra and OmegaConf types stop here: the lab sees :class:`LabConfig`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from rocm_perf_lab.autotune.space_description import SpaceDescription
from rocm_perf_lab.config.run import RunConfig, StrictModel, check_component, validated
from rocm_perf_lab.core.components import Component
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.verify.trial_policy import TrialPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.config.errors import Origins


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
    """Earlier results of this space: a landscape file, a run's folder, `study:NAME@URL` or `mlflow:RUN_ID`."""
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
    """Where the study is kept (an Optuna URL); None: study.db in the run's folder."""
    study: str | None = None
    """Its name; sweeps with equal name and storage share their trials."""


class LlmConfig(StrictModel):
    """A model behind an OpenAI-compatible endpoint, what it may cost, and where its earlier answers are."""

    base_url: str = "https://api.openai.com/v1"
    model: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable with the key; an endpoint on this machine needs none."""
    temperature: float | None = Field(default=None, ge=0)
    seed: int | None = None
    stream: bool = True
    timeout_s: float = Field(default=300, gt=0)
    """Of one call, until its last word."""
    max_retries: NonNegativeInt = 4
    """After an error that may pass: 429, 5xx, a broken connection, a time-out."""
    first_wait_s: float = Field(default=1, ge=0)
    """Before the first retry; each further pause is twice as long, or as long as the endpoint asks for."""
    candidates: PositiveInt = 1
    """Answers that are asked for in each round, each told what became of those before it."""
    repairs: NonNegativeInt = 2
    """How often an answer that does not compile goes back to the model with what the compiler said."""
    max_calls: PositiveInt = 20
    max_tokens: PositiveInt = 400_000
    """Of all calls together, read and written."""
    max_cost: float | None = Field(default=None, gt=0)
    """Of all calls together, in the currency of the prices."""
    price_per_million_read: float = Field(default=0, ge=0)
    price_per_million_written: float = Field(default=0, ge=0)
    max_answer_tokens: PositiveInt | None = None
    max_answer_bytes: PositiveInt = 256 * 1024
    transcript: Path | None = None
    """Answers for proposer=recorded: a transcript.jsonl of an earlier run; relative paths from the kernel's folder."""


class IsolationConfig(StrictModel):
    """Limits of the processes that compile and run what a proposer wrote."""

    compile_timeout_s: float = Field(default=60, gt=0)
    run_timeout_s: float = Field(default=600, gt=0)
    memory_mb: PositiveInt = 8192
    file_mb: PositiveInt = 256
    processes: PositiveInt = 256


class OptimizerConfig(StrictModel):
    """Where rewrites come from, how they are searched, guarded, and when one is accepted."""

    proposer: Literal["transforms", "llm", "recorded"] = "transforms"
    confirm: bool = False
    """Ask at the terminal before a model is called."""
    search: Literal["greedy", "beam"] = "greedy"
    beam_width: PositiveInt = 3
    measure: Literal["run", "replay"] = "run"
    """`replay`: capture the dispatch once and measure every candidate on the captured memory."""
    beam_slack: float = Field(0.05, ge=0)
    """How much slower than the best a source may be and still be rewritten further."""
    min_improvement: float = Field(0.02, ge=0, lt=1)
    confidence: float = Field(0.95, gt=0.5, lt=1)
    first_pairs: PositiveInt = 8
    most_pairs: PositiveInt = 32
    max_iterations: PositiveInt = 10
    max_proposals: PositiveInt = 40
    transforms: tuple[Component, ...] = ()
    guards: tuple[Component, ...] = ()
    gate: Literal["emulator", "none"] = "emulator"
    """Where every rewrite runs first, with all checks on, whatever the measuring device is."""
    verification: TrialPolicy = TrialPolicy()
    llm: LlmConfig = LlmConfig()
    isolation: IsolationConfig = IsolationConfig()


class ToolchainConfig(StrictModel):
    """Compilers in order of preference, and what every compilation gets."""

    compilers: tuple[str, ...] = ("hipcc", "clang", "pip")
    optimisation: str = "-O3"


class LabConfig(RunConfig):
    """One composed configuration: everything that a job needs to know."""

    device: Component
    kernel: KernelDescription
    autotune: AutotuneConfig
    space: SpaceDescription
    optimizer: OptimizerConfig
    toolchain: ToolchainConfig = ToolchainConfig()
    measure: Literal["run", "replay"] = "run"
    """Written as `device.measure`: how candidates are measured by autotune and optimize."""

    @model_validator(mode="before")
    @classmethod
    def _take_measure(cls, composed: Any) -> Any:
        """`device.measure` says how a device is used; devices themselves do not know it."""
        device = composed.get("device") if isinstance(composed, dict) else None
        if not isinstance(device, dict):
            return composed
        rows = {name: _without_measure(value) for name, value in _without_measure(device).items()}
        measure = {"measure": device["measure"]} if "measure" in device else {}
        return {**composed, "device": rows, **measure}


def _without_measure(row: Any) -> Any:
    return {name: value for name, value in row.items() if name != "measure"} if isinstance(row, dict) else row


def parse_config(composed: Mapping[str, Any], origins: Origins) -> LabConfig:
    """Validate a composed configuration (plain data).

    Raises:
        ConfigError: The first wrong key or value, with its path, the nearest valid key and where it was written.
    """
    config = validated(LabConfig, composed, origins)
    _check_components(config, origins)
    return config


def _check_components(config: LabConfig, origins: Origins) -> None:
    rows = [("device", config.device), ("tracking", config.tracking), ("job", config.job)]
    rows += [("autotune.sampler", config.autotune.sampler)] if config.autotune.sampler else []
    rows += [(f"optimizer.transforms[{i}]", row) for i, row in enumerate(config.optimizer.transforms)]
    rows += [(f"optimizer.guards[{i}]", row) for i, row in enumerate(config.optimizer.guards)]
    for where, row in rows:
        check_component(row, where, origins)
