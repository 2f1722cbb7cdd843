"""Components of an optimization (transforms, guards, search, sandbox, proposer), built from the configuration."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from rocm_perf_lab.core.components import build
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.optimize.models import Models, open_models
from rocm_perf_lab.languages.registry import find_language
from rocm_perf_lab.optimize.evolution import EvolutionarySearch, EvolutionRules
from rocm_perf_lab.optimize.policy import LoopPolicy
from rocm_perf_lab.optimize.proposers.endpoint import EndpointModel
from rocm_perf_lab.optimize.proposers.transcript import TRANSCRIPT
from rocm_perf_lab.optimize.resume import JOURNAL
from rocm_perf_lab.optimize.search import BeamSearch, GreedySearch
from rocm_perf_lab.optimize.transforms.base import addresses_any, order_transforms
from rocm_perf_lab.toolchain.sandbox import Sandbox, SandboxLimits
from rocm_perf_lab.verify.trial_runs import DeviceRunner, EmulatorRunner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.analysis.diagnosis import Diagnosis
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.device.protocol import Device
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.config import OptimizerConfig
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.search import Search
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.verify.trial_runs import TrialRunner

_MIB = 1 << 20


def ordered_transforms(lab: Lab, transforms: Sequence[Transform], diagnosis: Diagnosis) -> Sequence[Transform]:
    """Return all transforms, first those that address a loss in the ledger, and print the order."""
    bottleneck = diagnosis.bottleneck
    classes = (bottleneck.name, *bottleneck.others)
    first = [transform.name for transform in transforms if addresses_any(transform, classes)]
    if len(first) < len(transforms):
        names = ", ".join(dict.fromkeys(str(loss.cause) for loss in diagnosis.ledger.losses)) or diagnosis.ledger.verdict
        lab.console.print(f"[dim]tried first, because they address {names}: {', '.join(first) or 'none'}[/]", soft_wrap=True)
    return order_transforms(transforms, classes)


@dataclass(frozen=True)
class LoopComponents:
    """Transforms, guards, search, sandbox and models; they are built, and so validated, before the baseline is measured."""

    transforms: list[Transform]
    guards: list[Guard]
    search: Search
    sandbox: Sandbox
    model: Models
    """Models by name; empty if the proposer uses transforms only."""

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
            search_of(settings),
            sandbox_of(settings),
            open_models(lab.config),
        )


def clear_directory(directory: Path) -> None:
    """Delete the files of a finished run.

    Raises:
        LabError: The directory contains an interrupted run.
    """
    summary, journal = directory / "optimize.json", directory / JOURNAL
    if journal.exists() and not summary.exists():
        raise LabError(
            "this directory contains an interrupted run",
            where=str(directory),
            hint=f"resume it with rocm-perf optimize --resume {directory}, or choose another directory",
        )
    for path in (summary, journal, directory / TRANSCRIPT):
        path.unlink(missing_ok=True)
    shutil.rmtree(directory / "proposals", ignore_errors=True)


def confirm(lab: Lab, models: Models) -> None:
    """Ask for confirmation before the source is sent to models.

    Raises:
        LabError: The user declined, or standard input is not a terminal.
    """
    settings, llm = lab.config.optimizer, lab.config.optimizer.llm
    live = {name: priced.model.endpoint for name, priced in models.items() if isinstance(priced.model, EndpointModel)}
    if not settings.confirm or not live:
        return
    cost = f", cost {llm.max_cost:g}" if llm.max_cost is not None else ""
    receivers = ", ".join(f"{name} at {endpoint.base_url}" for name, endpoint in live.items())
    question = (
        f"Send the source of {lab.config.kernel.name} to {receivers}, and compile and run the answers "
        f"(at most {llm.max_calls} calls, {llm.max_tokens:,} tokens{cost})?"
    )
    if not sys.stdin.isatty():
        raise LabError("a model needs confirmation, but standard input is not a terminal", where=question, hint="add --yes")
    from rich.prompt import Confirm

    if not Confirm.ask(question, console=Console(stderr=True)):
        raise LabError("not confirmed: the source was not sent")


def search_of(settings: OptimizerConfig) -> Search:
    """Return the configured search strategy."""
    if settings.search == "evolution":
        own = settings.evolution.model_dump(exclude={"transform_share", "transforms_per_parent"})
        return EvolutionarySearch(EvolutionRules(**own))
    return BeamSearch(settings.beam_width, settings.beam_slack) if settings.search == "beam" else GreedySearch()


def with_evidence(config: LabConfig, device: Device) -> LabConfig:
    """Return a configuration that records a thread trace, for the cycles of instructions in prompts.

    Applies only to an emulator with a timing model; on a GPU, select passes=deep.
    """
    if config.optimizer.proposer == "transforms" or not device.identity.emulated or config.target.timing is None:
        return config
    return config.model_copy(update={"passes": config.passes.model_copy(update={"thread_trace": True})})


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
        SandboxUnavailable: Protection is incomplete on this machine, and `optimizer.isolation.required` is set.
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
    """Return the runners of trials: the emulator with all checks, and the device if it is a GPU or no emulator is available."""
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
        max_seconds=settings.max_seconds,
        use_counters=settings.decide_by_counters,
    )
