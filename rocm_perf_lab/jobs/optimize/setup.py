"""Components of an optimization (transforms, guards, search, sandbox, proposer), built from the configuration."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from rocm_perf_lab.core.components import build
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.optimize.llm_prompt import facts_of, rules_of
from rocm_perf_lab.languages.registry import find_language
from rocm_perf_lab.optimize.loop import LoopPolicy
from rocm_perf_lab.optimize.proposers.endpoint import Endpoint, EndpointModel
from rocm_perf_lab.optimize.proposers.llm import LlmProposer
from rocm_perf_lab.optimize.proposers.prompt import PromptWriter
from rocm_perf_lab.optimize.proposers.transcript import TRANSCRIPT, Budget, RecordedModel, TranscribedModel
from rocm_perf_lab.optimize.proposers.transforms import TransformProposer
from rocm_perf_lab.optimize.resume import JOURNAL
from rocm_perf_lab.optimize.search import BeamSearch, GreedySearch
from rocm_perf_lab.optimize.transforms.base import addresses_any, order_transforms
from rocm_perf_lab.toolchain.sandbox import Sandbox, SandboxLimits
from rocm_perf_lab.verify.trial_runs import DeviceRunner, EmulatorRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rocm_perf_lab.analysis.diagnosis import Diagnosis
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.device.protocol import Device
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.config import OptimizerConfig
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.optimize.proposers.base import Proposer
    from rocm_perf_lab.optimize.proposers.model import ChatModel
    from rocm_perf_lab.optimize.search import Search
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.tracking.run import RunTracker
    from rocm_perf_lab.verify.trial_runs import TrialRunner

_MIB = 1 << 20


def ordered_transforms(lab: Lab, transforms: Sequence[Transform], diagnosis: Diagnosis) -> Sequence[Transform]:
    """Return all transforms, those that address a loss in the ledger first, and print the order."""
    bottleneck = diagnosis.bottleneck
    classes = (bottleneck.name, *bottleneck.others)
    first = [transform.name for transform in transforms if addresses_any(transform, classes)]
    if len(first) < len(transforms):
        names = ", ".join(dict.fromkeys(str(loss.cause) for loss in diagnosis.ledger.losses)) or diagnosis.ledger.verdict
        lab.console.print(f"[dim]tried first, because they address {names}: {', '.join(first) or 'none'}[/]", soft_wrap=True)
    return order_transforms(transforms, classes)


@dataclass(frozen=True)
class LoopComponents:
    """Transforms, guards, search, sandbox and model; building them validates their arguments before the baseline is measured."""

    transforms: list[Transform]
    guards: list[Guard]
    search: Search
    sandbox: Sandbox
    model: ChatModel | None

    @classmethod
    def of(cls, lab: Lab) -> LoopComponents:
        """Build the components.

        Raises:
            LabError: An argument is invalid, or the kernel is not written in HIP.
        """
        settings, target = lab.config.optimizer, lab.config.target
        if not find_language(lab.config.kernel.language).rewritable:
            raise LabError(
                f"kernel {lab.config.kernel.name} is written in {lab.config.kernel.language}: only HIP sources can be rewritten",
                where="kernel.language",
                hint="choose a kernel with a HIP source, for example kernel=softmax",
            )
        return cls(
            [
                build(t, where=f"optimizer.transforms[{i}]", target=target, kernel=lab.config.kernel)
                for i, t in enumerate(settings.transforms)
            ],
            build_guards(lab.config),
            BeamSearch(settings.beam_width, settings.beam_slack) if settings.search == "beam" else GreedySearch(),
            sandbox_of(settings),
            open_model(lab.config),
        )


def clear_directory(directory: Path) -> None:
    """Delete the files of a finished run.

    Raises:
        LabError: The directory holds an interrupted run.
    """
    summary, journal = directory / "optimize.json", directory / JOURNAL
    if journal.exists() and not summary.exists():
        raise LabError(
            "there is an interrupted run in this directory",
            where=str(directory),
            hint=f"continue it with rocm-perf optimize --resume {directory}, or choose another directory",
        )
    for path in (summary, journal, directory / TRANSCRIPT):
        path.unlink(missing_ok=True)
    shutil.rmtree(directory / "proposals", ignore_errors=True)


def confirm(lab: Lab, model: ChatModel | None) -> None:
    """Ask for confirmation before the source is sent to a model.

    Raises:
        LabError: The user declined, or standard input is not a terminal.
    """
    settings, llm = lab.config.optimizer, lab.config.optimizer.llm
    if not settings.confirm or not isinstance(model, EndpointModel):
        return
    cost = f", cost {llm.max_cost:g}" if llm.max_cost is not None else ""
    question = (
        f"Send the source of {lab.config.kernel.name} to {llm.model} at {llm.base_url}, and compile and run its answers "
        f"(at most {llm.max_calls} calls, {llm.max_tokens:,} tokens{cost})?"
    )
    if not sys.stdin.isatty():
        raise LabError("a model needs confirmation, but standard input is not a terminal", where=question, hint="add --yes")
    from rich.prompt import Confirm

    if not Confirm.ask(question, console=Console(stderr=True)):
        raise LabError("not confirmed: the source was not sent")


def build_guards(config: LabConfig) -> list[Guard]:
    """Return the configured guards.

    Raises:
        ComponentError: An argument is invalid.
    """
    settings = config.optimizer
    context = {"target": config.target, "inline_assembly": settings.inline_assembly}
    return [build(row, where=f"optimizer.guards[{i}]", **context) for i, row in enumerate(settings.guards)]


def sandbox_of(settings: OptimizerConfig) -> Sandbox:
    """Return the sandbox for compilers of candidates.

    Raises:
        SandboxUnavailable: Its protection is incomplete here, and `optimizer.isolation.required` is set.
    """
    sandbox = Sandbox(limits_of(settings, settings.isolation.compile_timeout_s))
    if settings.isolation.required:
        sandbox.require()
    return sandbox


def limits_of(settings: OptimizerConfig, seconds: float) -> SandboxLimits:
    """Return the limits of a process that may run for `seconds`."""
    row = settings.isolation
    return SandboxLimits(seconds, row.memory_mb * _MIB, row.file_mb * _MIB, row.processes)


def trial_runners(config: LabConfig, device: Device) -> list[TrialRunner]:
    """Return the runners of trials: the emulator with all checks, and the device if it is a GPU or the only runner."""
    on_device = config.optimizer.gate == "none" or not device.identity.emulated
    runners: list[TrialRunner] = [EmulatorRunner(config.target)] if config.optimizer.gate == "emulator" else []
    return [*runners, *([DeviceRunner(device)] if on_device else [])]


def policy_of(settings: OptimizerConfig) -> LoopPolicy:
    """Return the acceptance and stopping rules of the closed loop."""
    return LoopPolicy(
        min_improvement=settings.min_improvement,
        max_iterations=settings.max_iterations,
        max_proposals=settings.max_proposals,
        confidence=settings.confidence,
        first_pairs=settings.first_pairs,
        most_pairs=settings.most_pairs,
        use_counters=settings.decide_by_counters,
    )


def open_model(config: LabConfig) -> ChatModel | None:
    """Return the configured model, or None if transforms propose. No request is sent.

    Raises:
        LabError: The model, its URL, its key or the transcript is missing.
    """
    settings, llm = config.optimizer, config.optimizer.llm
    if settings.proposer == "transforms":
        return None
    if settings.proposer == "recorded":
        if llm.transcript is None:
            raise LabError(
                "optimizer.proposer=recorded needs a transcript",
                where="optimizer.llm.transcript",
                hint="set it to the transcript.jsonl of an earlier run, or choose optimizer.proposer=llm",
            )
        return RecordedModel(llm.transcript if llm.transcript.is_absolute() else config.kernel.directory / llm.transcript)
    if llm.model is None:
        raise LabError(
            "no model is configured",
            where="optimizer.llm.model",
            hint="set optimizer.llm.model=NAME, or replay recorded answers with optimizer.proposer=recorded",
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
    """Create the configured proposer; on exit, log the transcript and its cost.

    Args:
        lab: Run.
        model: Result of :func:`open_model`.
        transforms: Transforms, used without a model.
        guards: Guards, whose rules are part of the prompt.
        tracker: Receives the transcript and its cost.
        directory_of: Returns the directory with the profile of a proposal.
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
