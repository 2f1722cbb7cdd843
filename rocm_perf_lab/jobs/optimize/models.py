"""Models and proposers of an optimization, built from the configuration."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.optimize.prompt_facts import facts_of, rules_of
from rocm_perf_lab.optimize.proposers.endpoint import Endpoint, EndpointModel
from rocm_perf_lab.optimize.proposers.llm import AnswerRules, LlmProposer
from rocm_perf_lab.optimize.proposers.mixed import MixedProposer
from rocm_perf_lab.optimize.proposers.prompt import PromptTemplates, PromptWriter
from rocm_perf_lab.optimize.proposers.spending import Budget, Spending, TokenPrices
from rocm_perf_lab.optimize.proposers.transcribed import PricedModel, TranscribedModel
from rocm_perf_lab.optimize.proposers.transcript import TRANSCRIPT, RecordedModel
from rocm_perf_lab.optimize.proposers.transforms import TransformProposer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.config import LlmConfig, ModelConfig
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.optimize.proposers.base import Proposer
    from rocm_perf_lab.optimize.proposers.model import ModelError
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.tracking.run import RunTracker

RECORDED = "recorded"
Models = dict[str, PricedModel]


def open_models(config: LabConfig) -> Models:
    """Return the configured models by name; empty if the proposer uses transforms only. No request is sent.

    Raises:
        LabError: The model, its URL, its key, the transcript or a prompt template is missing or invalid.
    """
    settings, llm = config.optimizer, config.optimizer.llm
    if settings.proposer == "transforms":
        return {}
    PromptTemplates(llm.prompts)
    if settings.proposer == "recorded":
        if llm.transcript is None:
            raise LabError(
                "optimizer.proposer=recorded needs a transcript",
                where="optimizer.llm.transcript",
                hint="set it to the transcript.jsonl of an earlier run, or choose optimizer.proposer=llm",
            )
        path = llm.transcript if llm.transcript.is_absolute() else config.kernel.directory / llm.transcript
        return {RECORDED: PricedModel(RecordedModel(path), _prices(llm, None))}
    if llm.model is None and not llm.models:
        raise LabError(
            "no model is configured",
            where="optimizer.llm.model",
            hint="set optimizer.llm.model=NAME, or replay recorded answers with optimizer.proposer=recorded",
        )
    models: Models = {}
    for row in llm.models or (None,):
        own = row.temperature if row is not None else None
        for temperature in (own,) if own is not None else llm.temperatures or (llm.temperature,):
            endpoint = _endpoint(llm, row, temperature)
            name = endpoint.model + (f" at temperature {temperature:g}" if temperature is not None else "")
            name = name if name not in models else f"{name} at {endpoint.base_url}"
            if name in models:
                raise LabError(f"{name} is listed twice", where="optimizer.llm.models")
            models[name] = PricedModel(EndpointModel(endpoint), _prices(llm, row))
    return models


@contextmanager
def open_proposer(
    lab: Lab,
    models: Models,
    transforms: Sequence[Transform],
    guards: Sequence[Guard],
    tracker: RunTracker,
    directory_of: Callable[[Proposal], Path],
    report: Callable[[Spending], None] = lambda _: None,
) -> Iterator[Proposer]:
    """Create the configured proposer; on exit, log the transcript and its cost.

    Args:
        lab: Context of the run.
        models: Result of :func:`open_models`.
        transforms: Transforms; with a model, evolutionary search uses both.
        guards: Guards, whose rules are part of the prompt.
        tracker: Logs the transcript and its cost.
        directory_of: Returns the directory with the profile of a proposal.
        report: Called with the total spending after each batch of calls.
    """
    settings, entry = lab.config.optimizer, lab.config.kernel.entry
    if not models:
        yield TransformProposer(transforms, entry)
        return
    llm, evolution = settings.llm, settings.evolution
    transcript = lab.output_dir / TRANSCRIPT
    budget = Budget(llm.max_calls, llm.max_tokens, llm.max_cost)
    transcribed = TranscribedModel(models, transcript, budget, report)

    def facts(proposal: Proposal) -> Mapping[str, object]:
        return facts_of(directory_of(proposal), lab.config.kernel, proposal.text)

    proposer = LlmProposer(
        name=settings.proposer,
        model=transcribed,
        prompt=PromptWriter(rules_of(lab, guards), facts, PromptTemplates(llm.prompts)),
        entry=entry,
        rules=AnswerRules(llm.candidates, llm.parallel, llm.repairs, llm.max_answer_bytes, settings.max_proposals),
        seed=evolution.seed,
    )
    mixed = settings.search == "evolution" and len(transforms) > 0
    try:
        yield (
            proposer
            if not mixed
            else MixedProposer(
                TransformProposer(transforms, entry),
                proposer,
                share=evolution.transform_share,
                per_parent=evolution.transforms_per_parent,
                seed=evolution.seed,
            )
        )
    finally:
        if transcribed.spending.calls:
            tracker.log_artifact(transcript)
            tracker.log_metrics(spending_metrics(transcribed.spending))
            tracker.set_tags({f"llm_weight.{name}": f"{weight:.3f}" for name, weight in proposer.weights.items()})


def failure_of(proposer: Proposer) -> ModelError | None:
    """Return the error that ended the conversations with models, or None."""
    models = proposer.models if isinstance(proposer, MixedProposer) else proposer
    return models.failure if isinstance(models, LlmProposer) else None


def spending_metrics(spending: Spending) -> dict[str, float]:
    """Return calls, tokens and cost as tracking metrics."""
    return {
        "llm_calls": float(spending.calls),
        "llm_tokens_read": float(spending.read),
        "llm_tokens_written": float(spending.written),
        "llm_cost": spending.cost,
    }


def _endpoint(llm: LlmConfig, row: ModelConfig | None, temperature: float | None) -> Endpoint:
    return Endpoint(
        base_url=row.base_url if row is not None and row.base_url is not None else llm.base_url,
        model=row.model if row is not None else llm.model or "",
        api_key_env=row.api_key_env if row is not None and row.api_key_env is not None else llm.api_key_env,
        temperature=temperature,
        seed=llm.seed,
        stream=llm.stream,
        timeout_s=llm.timeout_s,
        max_retries=llm.max_retries,
        first_wait_s=llm.first_wait_s,
        max_answer_tokens=llm.max_answer_tokens,
        max_answer_bytes=llm.max_answer_bytes,
    )


def _prices(llm: LlmConfig, row: ModelConfig | None) -> TokenPrices:
    read = row.price_per_million_read if row is not None else None
    written = row.price_per_million_written if row is not None else None
    return TokenPrices(
        llm.price_per_million_read if read is None else read,
        llm.price_per_million_written if written is None else written,
    )
