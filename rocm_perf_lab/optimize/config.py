"""Model of the config group `optimizer`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from rocm_perf_lab.core.components import Component
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.verify.policy import TrialPolicy


class ModelConfig(StrictModel):
    """One of several models; omitted fields have the values of `llm`."""

    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | None = Field(default=None, ge=0)
    price_per_million_read: float | None = Field(default=None, ge=0)
    price_per_million_written: float | None = Field(default=None, ge=0)


class LlmConfig(StrictModel):
    """OpenAI-compatible endpoints, cost limits, and transcript of recorded answers."""

    base_url: str = "https://api.openai.com/v1"
    model: str | None = None
    """Name of the model; `auto` asks a server that has only one."""
    models: tuple[ModelConfig, ...] = ()
    """Several models instead of one; those that succeed are asked more often."""
    temperatures: tuple[Annotated[float, Field(ge=0)], ...] = ()
    """Several temperatures for each model without its own; those that succeed are used more often."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the API key; not needed for an endpoint on this machine."""
    temperature: float | None = Field(default=None, ge=0)
    seed: int | None = None
    stream: bool = True
    timeout_s: float = Field(default=300, gt=0)
    """Time limit of one call in seconds, including the whole answer."""
    max_retries: NonNegativeInt = 4
    """Maximum number of retries after a temporary error: 429, 5xx, a broken connection, a time-out."""
    first_wait_s: float = Field(default=1, ge=0)
    """Wait in seconds before the first retry; later waits double, unless the endpoint sends `Retry-After`."""
    candidates: PositiveInt = 1
    """Number of answers per parent and round; each prompt contains the verdicts on earlier answers."""
    parallel: PositiveInt = 1
    """Number of concurrent requests; their prompts do not contain each other's verdicts."""
    repairs: NonNegativeInt = 2
    """Maximum number of follow-up questions after an answer that is not accepted, with compiler output, finding, failing input or
    profile."""
    max_calls: PositiveInt = 20
    max_tokens: PositiveInt = 400_000
    """Limit of prompt and completion tokens of all calls together."""
    max_cost: float | None = Field(default=None, gt=0)
    """Limit of the cost of all calls, in the currency of the prices."""
    price_per_million_read: float = Field(default=0, ge=0)
    price_per_million_written: float = Field(default=0, ge=0)
    max_answer_tokens: PositiveInt | None = None
    max_answer_bytes: PositiveInt = 256 * 1024
    prompts: Path | None = None
    """Directory with prompt templates that replace those of the same name."""
    transcript: Path | None = None
    """transcript.jsonl of an earlier run, for proposer=recorded; relative to the kernel's directory."""


class IsolationConfig(StrictModel):
    """Limits of the processes that compile and run proposals."""

    required: bool = True
    """Stop if this machine cannot isolate them from network, other files and other processes."""
    compile_timeout_s: float = Field(default=60, gt=0)
    run_timeout_s: float = Field(default=600, gt=0)
    memory_mb: PositiveInt = 8192
    file_mb: PositiveInt = 256
    processes: PositiveInt = 256


class EvolutionConfig(StrictModel):
    """Parameters of `search=evolution`."""

    islands: PositiveInt = 2
    samples: PositiveInt = 4
    """Number of parents per round, over all islands."""
    capacity: PositiveInt = 16
    """Niches per island: classes of bottleneck, occupancy, LDS and structure, of which the fastest source is kept."""
    migration_interval: PositiveInt = 3
    """Rounds between migrations of the best source of each island to the next one."""
    crossover: float = Field(default=0.25, ge=0, le=1)
    """Probability that a model is shown a second source to combine."""
    pressure: float = Field(default=2.0, ge=0)
    """Exponent of the speed of a source in its weight as a parent."""
    novelty: float = Field(default=0.5, ge=0)
    """Weight of the distance of a source to others, compared with its speed."""
    transform_share: float = Field(default=0.3, gt=0, lt=1)
    """Initial share of parents that transforms rewrite, with both transforms and models; it adapts to their success."""
    transforms_per_parent: PositiveInt = 3
    """Maximum number of transforms' rewrites per parent and round."""
    seed: int = 0


class OptimizerConfig(StrictModel):
    """Proposer, search, guards and acceptance rule of an optimization."""

    proposer: Literal["transforms", "llm", "recorded"] = "transforms"
    confirm: bool = False
    """Ask for confirmation before a model is called."""
    search: Literal["greedy", "beam", "evolution"] = "greedy"
    evolution: EvolutionConfig = EvolutionConfig()
    beam_width: PositiveInt = 3
    measure: Literal["run", "replay"] = "run"
    """`replay` captures the dispatch once and measures every candidate on the captured memory."""
    beam_slack: float = Field(0.05, ge=0)
    """Fraction by which a parent may be slower than the best source."""
    min_improvement: float = Field(0.02, ge=0, lt=1)
    """Minimum estimated gain of an accepted rewrite, which must also be significantly faster."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Probability, over all comparisons of a run, that every accepted rewrite is faster."""
    first_pairs: PositiveInt = 16
    most_pairs: PositiveInt = 256
    """Maximum number of pairs of a comparison; fewer are planned if the noise permits."""
    decide_by_counters: bool = False
    """Exact counters decide between indistinguishable emulated times."""
    max_iterations: PositiveInt = 10
    max_proposals: PositiveInt = 40
    max_seconds: float | None = Field(None, gt=0)
    """Limit of wall-clock time in seconds; a started evaluation is completed."""
    transforms: tuple[Component, ...] = ()
    guards: tuple[Component, ...] = ()
    inline_assembly: Literal["refused", "allowed"] = "refused"
    """`allowed` lets a rewrite add inline assembly whose outputs and clobbers name everything that it writes."""
    gate: Literal["emulator", "none"] = "emulator"
    """Device that runs every rewrite first with all checks, whatever the measuring device is."""
    verification: TrialPolicy = TrialPolicy()
    llm: LlmConfig = LlmConfig()
    isolation: IsolationConfig = IsolationConfig()
