"""What optimizations stand on: transforms, guards, search, sandbox and model, made before anything runs."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from rocm_perf_lab.core.components import build
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.optimize.proposers import open_model
from rocm_perf_lab.optimize.loop import Policy
from rocm_perf_lab.optimize.proposers.endpoint import EndpointModel
from rocm_perf_lab.optimize.proposers.transcript import TRANSCRIPT
from rocm_perf_lab.optimize.resume import JOURNAL
from rocm_perf_lab.optimize.search import Beam, Greedy
from rocm_perf_lab.optimize.transforms.selection import select_transforms
from rocm_perf_lab.toolchain.sandbox import Limits, Sandbox

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.analysis.diagnosis import Diagnosis
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.config import OptimizerConfig
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.proposers.model import ChatModel
    from rocm_perf_lab.optimize.search import Search
    from rocm_perf_lab.optimize.transforms.base import Transform

_MIB = 1 << 20


def selected(lab: Lab, transforms: Sequence[Transform], diagnosis: Diagnosis) -> Sequence[Transform]:
    """What the evidence calls for; what it does not is told."""
    bottleneck = diagnosis.bottleneck
    chosen = select_transforms(transforms, (bottleneck.name, *bottleneck.others))
    passed_over = [t.name for t in transforms if t not in chosen]
    if passed_over:
        names = ", ".join((bottleneck.name, *bottleneck.others))
        lab.console.print(f"[dim]not tried, since they address none of {names}: {', '.join(passed_over)}[/]", soft_wrap=True)
    return chosen


@dataclass(frozen=True)
class Parts:
    """Transforms, guards, search and sandbox, made before anything runs: a wrong argument costs nobody a baseline."""

    transforms: list[Transform]
    guards: list[Guard]
    search: Search
    sandbox: Sandbox
    model: ChatModel | None

    @classmethod
    def of(cls, lab: Lab) -> Parts:
        """Raises LabError where one of them refuses its arguments, or the kernel is not of HIP."""
        settings, target = lab.config.optimizer, lab.config.target
        if lab.config.kernel.language != "hip":
            raise LabError(
                f"kernel {lab.config.kernel.name} is written in {lab.config.kernel.language}: only HIP sources are rewritten",
                where="kernel.language",
                hint="choose a kernel with a HIP source, for example kernel=softmax",
            )
        return cls(
            [
                build(t, where=f"optimizer.transforms[{i}]", target=target, kernel=lab.config.kernel)
                for i, t in enumerate(settings.transforms)
            ],
            [build(g, where=f"optimizer.guards[{i}]", target=target) for i, g in enumerate(settings.guards)],
            Beam(settings.beam_width, settings.beam_slack) if settings.search == "beam" else Greedy(),
            Sandbox(limits_of(settings, settings.isolation.compile_timeout_s)),
            open_model(lab.config),
        )


def start_anew(directory: Path) -> None:
    """Leave nothing of a run that ended in this directory.

    Raises:
        LabError: One was interrupted there.
    """
    summary, journal = directory / "optimize.json", directory / JOURNAL
    if journal.exists() and not summary.exists():
        raise LabError(
            "there is an interrupted run in this directory",
            where=str(directory),
            hint=f"go on with it: rocm-perf optimize --resume {directory}; or choose another directory",
        )
    for path in (summary, journal, directory / TRANSCRIPT):
        path.unlink(missing_ok=True)
    shutil.rmtree(directory / "proposals", ignore_errors=True)


def confirm(lab: Lab, model: ChatModel | None) -> None:
    """Ask before the source leaves this machine and a model's code is run; replies are read from a terminal only."""
    settings, llm = lab.config.optimizer, lab.config.optimizer.llm
    if not settings.confirm or not isinstance(model, EndpointModel):
        return
    cost = f", {llm.max_cost:g} in money" if llm.max_cost is not None else ""
    question = (
        f"Send the source of {lab.config.kernel.name} to {llm.model} at {llm.base_url}, and compile and run what comes back "
        f"(at most {llm.max_calls} calls, {llm.max_tokens:,} tokens{cost})?"
    )
    if not sys.stdin.isatty():
        raise LabError("a model is to be called, and there is no terminal to ask at", where=question, hint="add --yes")
    from rich.prompt import Confirm

    if not Confirm.ask(question, console=Console(stderr=True)):
        raise LabError("not confirmed: nothing was sent")


def limits_of(settings: OptimizerConfig, seconds: float) -> Limits:
    """Of a process that may take so long."""
    row = settings.isolation
    return Limits(seconds, row.memory_mb * _MIB, row.file_mb * _MIB, row.processes)


def policy_of(settings: OptimizerConfig) -> Policy:
    """When a rewrite is accepted, and when the loop stops."""
    return Policy(
        min_improvement=settings.min_improvement,
        max_iterations=settings.max_iterations,
        max_proposals=settings.max_proposals,
        confidence=settings.confidence,
        first_pairs=settings.first_pairs,
        most_pairs=settings.most_pairs,
    )
