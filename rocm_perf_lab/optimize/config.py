"""Model of the config group `optimizer`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from rocm_perf_lab.core.components import Component
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.verify.policy import TrialPolicy


class LlmConfig(StrictModel):
    """OpenAI-compatible endpoint, cost limits, and transcript of recorded answers."""

    base_url: str = "https://api.openai.com/v1"
    model: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the API key; not needed for an endpoint on this machine."""
    temperature: float | None = Field(default=None, ge=0)
    seed: int | None = None
    stream: bool = True
    timeout_s: float = Field(default=300, gt=0)
    """Limit of one call, including the whole answer."""
    max_retries: NonNegativeInt = 4
    """Retries after a temporary error: 429, 5xx, a broken connection, a time-out."""
    first_wait_s: float = Field(default=1, ge=0)
    """Wait before the first retry; later waits double, unless the endpoint sends `Retry-After`."""
    candidates: PositiveInt = 1
    """Answers per round; each prompt contains the verdicts on earlier answers."""
    repairs: NonNegativeInt = 2
    """Maximum number of times that compiler output is sent back for an answer that does not compile."""
    max_calls: PositiveInt = 20
    max_tokens: PositiveInt = 400_000
    """Limit of all calls, prompt and completion tokens together."""
    max_cost: float | None = Field(default=None, gt=0)
    """Limit of all calls, in the currency of the prices."""
    price_per_million_read: float = Field(default=0, ge=0)
    price_per_million_written: float = Field(default=0, ge=0)
    max_answer_tokens: PositiveInt | None = None
    max_answer_bytes: PositiveInt = 256 * 1024
    transcript: Path | None = None
    """transcript.jsonl of an earlier run, for proposer=recorded; relative to the kernel's directory."""


class IsolationConfig(StrictModel):
    """Limits of the processes that compile and run proposals."""

    required: bool = True
    """Stop if this machine cannot keep them from network, other files and other processes."""
    compile_timeout_s: float = Field(default=60, gt=0)
    run_timeout_s: float = Field(default=600, gt=0)
    memory_mb: PositiveInt = 8192
    file_mb: PositiveInt = 256
    processes: PositiveInt = 256


class OptimizerConfig(StrictModel):
    """Proposer, search, guards and acceptance rule of an optimization."""

    proposer: Literal["transforms", "llm", "recorded"] = "transforms"
    confirm: bool = False
    """Ask for confirmation before a model is called."""
    search: Literal["greedy", "beam"] = "greedy"
    beam_width: PositiveInt = 3
    measure: Literal["run", "replay"] = "run"
    """`replay` captures the dispatch once and measures every candidate on the captured memory."""
    beam_slack: float = Field(0.05, ge=0)
    """Fraction by which a parent may be slower than the best source."""
    min_improvement: float = Field(0.02, ge=0, lt=1)
    """Least estimate of the gain of an accepted rewrite, which must be significantly faster too."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Probability that a run accepts no rewrite that is not faster, over all comparisons."""
    first_pairs: PositiveInt = 16
    most_pairs: PositiveInt = 256
    """Maximum number of pairs of a comparison; fewer are planned if the noise permits."""
    decide_by_counters: bool = False
    """Exact counters decide between indistinguishable emulated times."""
    max_iterations: PositiveInt = 10
    max_proposals: PositiveInt = 40
    transforms: tuple[Component, ...] = ()
    guards: tuple[Component, ...] = ()
    inline_assembly: Literal["refused", "allowed"] = "refused"
    """`allowed` lets a rewrite add inline assembly whose outputs and clobbers name everything that it writes."""
    gate: Literal["emulator", "none"] = "emulator"
    """Device that runs every rewrite first with all checks, whatever the measuring device is."""
    verification: TrialPolicy = TrialPolicy()
    llm: LlmConfig = LlmConfig()
    isolation: IsolationConfig = IsolationConfig()
