"""Model of the config group `optimizer`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from rocm_perf_lab.core.components import Component
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.verify.policy import TrialPolicy


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
    """Answers for proposer=recorded: a transcript.jsonl of an earlier run; relative paths from the kernel's directory."""


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
