"""The proposer that the configuration names, ready to be asked; what it cost is logged when the loop ends."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.optimize.llm_prompt import facts_of, rules_of
from rocm_perf_lab.optimize.proposers.endpoint import Endpoint, EndpointModel
from rocm_perf_lab.optimize.proposers.llm import LlmProposer
from rocm_perf_lab.optimize.proposers.prompt import PromptWriter
from rocm_perf_lab.optimize.proposers.transcript import TRANSCRIPT, Budget, RecordedModel, TranscribedModel
from rocm_perf_lab.optimize.proposers.transforms import TransformProposer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.optimize.proposers.base import Proposer
    from rocm_perf_lab.optimize.proposers.model import ChatModel
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.tracking.run import RunTracker


def open_model(config: LabConfig) -> ChatModel | None:
    """The model of the configuration; None where transforms propose. Nothing is sent anywhere.

    Raises:
        LabError: No model, address, key or transcript.
    """
    settings, llm = config.optimizer, config.optimizer.llm
    if settings.proposer == "transforms":
        return None
    if settings.proposer == "recorded":
        if llm.transcript is None:
            raise LabError(
                "there is no transcript to replay",
                where="optimizer.llm.transcript",
                hint="name a transcript.jsonl of an earlier run, or choose optimizer.proposer=llm",
            )
        return RecordedModel(llm.transcript if llm.transcript.is_absolute() else config.kernel.directory / llm.transcript)
    if llm.model is None:
        raise LabError(
            "which model is to be asked?",
            where="optimizer.llm.model",
            hint="optimizer.llm.model=NAME, or replay earlier answers with optimizer.proposer=recorded",
        )
    return EndpointModel(
        Endpoint(
            base_url=llm.base_url,
            model=llm.model,
            api_key_env=llm.api_key_env,
            temperature=llm.temperature,
            seed=llm.seed,
            stream=llm.stream,
            timeout_s=llm.timeout_s,
            max_retries=llm.max_retries,
            first_wait_s=llm.first_wait_s,
            max_answer_tokens=llm.max_answer_tokens,
            max_answer_bytes=llm.max_answer_bytes,
        )
    )


@contextmanager
def open_proposer(
    lab: Lab,
    model: ChatModel | None,
    transforms: Sequence[Transform],
    guards: Sequence[Guard],
    tracker: RunTracker,
    directory_of: Callable[[Proposal], Path],
) -> Iterator[Proposer]:
    """Where rewrites come from. A transcript is logged however the loop ends.

    Args:
        lab: The run.
        model: Of :func:`open_model`.
        transforms: For where there is none.
        guards: Their rules are told to the model.
        tracker: Gets the transcript and what it cost.
        directory_of: Where the documents of a source that was run are.
    """
    settings = lab.config.optimizer
    if model is None:
        yield TransformProposer(transforms)
        return
    llm = settings.llm
    budget = Budget(llm.max_calls, llm.max_tokens, llm.max_cost, llm.price_per_million_read, llm.price_per_million_written)
    transcript = lab.output_dir / TRANSCRIPT
    transcribed = TranscribedModel(model, transcript, budget)
    writer = PromptWriter(rules_of(lab, guards), lambda proposal: facts_of(directory_of(proposal), lab.config.kernel))
    proposer = LlmProposer(
        name=settings.proposer,
        model=transcribed,
        prompt=writer,
        entry=lab.config.kernel.entry,
        candidates=llm.candidates,
        repairs=llm.repairs,
        max_answer_bytes=llm.max_answer_bytes,
    )
    try:
        yield proposer
    finally:
        if transcribed.calls:
            tracker.log_artifact(transcript)
            tracker.log_metrics(
                {
                    "llm_calls": float(transcribed.calls),
                    "llm_tokens_read": float(transcribed.read),
                    "llm_tokens_written": float(transcribed.written),
                    "llm_cost": transcribed.cost,
                }
            )
