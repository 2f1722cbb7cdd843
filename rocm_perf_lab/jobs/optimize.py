"""`job=optimize`: the closed loop on one kernel. The user's source file is read, never written."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from rocm_perf_lab.components import build
from rocm_perf_lab.errors import LabError
from rocm_perf_lab.files import write_text
from rocm_perf_lab.jobs.optimize_bench import LoopBench, evaluation_of, read_source, share_of
from rocm_perf_lab.jobs.optimize_observer import ConsoleAndTracker
from rocm_perf_lab.jobs.optimize_proposers import open_model, open_proposer
from rocm_perf_lab.jobs.profile import log_turn, require_clean, require_correct
from rocm_perf_lab.jobs.progress import judging
from rocm_perf_lab.jobs.records import RebuildCheck, optimize_document, optimizer_params
from rocm_perf_lab.jobs.show import runtime_text, show_profile, show_where, time_text, verdict_table
from rocm_perf_lab.jobs.workbench import CompiledKernel, Turn, Workbench
from rocm_perf_lab.optimize.examiner import Examiner
from rocm_perf_lab.optimize.loop import ClosedLoop, LoopResult, Policy
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.proposers.endpoint import EndpointModel
from rocm_perf_lab.optimize.proposers.llm import LlmProposer
from rocm_perf_lab.optimize.proposers.transcript import TRANSCRIPT
from rocm_perf_lab.optimize.ranking import rank, reason_to_stop
from rocm_perf_lab.optimize.resume import JOURNAL, Beginning, Journal
from rocm_perf_lab.optimize.search import Beam, Greedy
from rocm_perf_lab.optimize.transforms.selection import select_transforms
from rocm_perf_lab.optimize.trial_runs import DeviceRunner, EmulatorRunner
from rocm_perf_lab.optimize.trials import reseeded
from rocm_perf_lab.report.page import write_report
from rocm_perf_lab.toolchain.sandbox import Limits, Sandbox

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.config import LabConfig, OptimizerConfig
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.proposers.model import ChatModel
    from rocm_perf_lab.optimize.search import Search
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.optimize.trial_runs import TrialRunner
    from rocm_perf_lab.tracking.store import RunTracker

_MIB = 1 << 20


class OptimizeJob:
    """Profiles the baseline, then proposes, guards, checks, measures, and keeps or rolls back.

    Resumed in the folder of an interrupted run, it goes on where that run ended.
    """

    def run(self, lab: Lab) -> None:
        """Raises LabError where the baseline itself cannot be compiled, run or verified, or no proposal can be had."""
        parts = _Parts.of(lab)
        if not lab.resumed:
            _start_anew(lab.output_dir)
        _confirm(lab, parts.model)
        lab.announce_device()
        lab.console.print(f"[bold]sandbox[/] {parts.sandbox.abilities()}", soft_wrap=True)
        with lab.tracker as tracker:
            bench = Workbench(_with_unseen_inputs(lab.config), lab.measuring_device)
            with lab.console.status("profiling the baseline"):
                compiled = bench.compile(lab.config.kernel.source_path)
                turn = bench.run(compiled, lab.output_dir / "baseline")
            log_turn(tracker, lab, turn)
            tracker.log_params(optimizer_params(lab.config))
            show_profile(lab.console, turn, lab.device.identity.time_word, "baseline")
            require_correct(turn, lab)
            require_clean(turn.findings, lab.config.kernel.name)
            result = self._search(lab, parts, bench, tracker, compiled, turn)
            _finish(lab, tracker, result, parts, bench)
        show_where(lab, lab.tracker)
        lab.answer(lab.output_dir / "optimize.json", runtime_text(result.best_runtime_ns, lab.device.identity.time_word))

    def _search(
        self, lab: Lab, parts: _Parts, bench: Workbench, tracker: RunTracker, compiled: CompiledKernel, turn: Turn
    ) -> LoopResult:
        settings = lab.config.optimizer
        text = read_source(lab.config.kernel.source_path)
        baseline = Proposal.of(text, transform="none", description="the source as it is", parent=None)
        kernel = rank([share_of(turn)])[0]
        stop = reason_to_stop(kernel, settings.min_improvement)
        if stop is not None:
            lab.console.print(f"[yellow]nothing to gain[/]: {stop}")
            return LoopResult(baseline, turn.runtime_ns, baseline, turn.runtime_ns, (), stop)
        lab.console.print(f"[bold]rank[/]    {kernel.name}: {kernel.possible_gain:.0%} of the whole time could be saved")
        journal = Journal(lab.output_dir / JOURNAL)
        beginning = journal.begin(Beginning(baseline=baseline.id, runtime_ns=turn.runtime_ns, tracking_run=tracker.run_id))
        loop_bench = LoopBench(
            bench,
            lab.output_dir / "proposals",
            lab.config.kernel.source.name,
            deterministic=lab.device.deterministic,
            dispatches=lab.config.passes.runs,
            sandbox=parts.sandbox,
            examiner=_examiner(lab, bench, parts.sandbox),
            run_limits=_limits(settings, settings.isolation.run_timeout_s) if lab.device.identity.emulated else None,
        )

        def folder_of(proposal: Proposal) -> Path:
            return lab.output_dir / "baseline" if proposal.id == baseline.id else loop_bench.folder(proposal)

        transforms = _selected(lab, parts.transforms, turn)
        with (
            judging(lab.console) as progress,
            open_proposer(lab, parts.model, transforms, parts.guards, tracker, folder_of) as proposer,
        ):
            loop = ClosedLoop(
                bench=loop_bench,
                entry=lab.config.kernel.entry,
                proposer=proposer,
                guards=parts.guards,
                policy=_policy(settings),
                observer=ConsoleAndTracker(lab, tracker, loop_bench, baseline, progress, journal),
                search=parts.search,
                memory=journal,
            )
            built = loop_bench.built(baseline, compiled, lab.config.kernel.source_path)
            evaluation = evaluation_of(turn, runtime_ns=beginning.runtime_ns)
            result = loop.run(baseline, built, evaluation)
            if isinstance(proposer, LlmProposer) and proposer.failure is not None and not result.verdicts:
                raise proposer.failure
            return result


@dataclass(frozen=True)
class _Parts:
    """Transforms, guards, search and sandbox, made before anything runs: a wrong argument costs nobody a baseline."""

    transforms: list[Transform]
    guards: list[Guard]
    search: Search
    sandbox: Sandbox
    model: ChatModel | None

    @classmethod
    def of(cls, lab: Lab) -> _Parts:
        settings, target = lab.config.optimizer, lab.config.target
        if lab.config.kernel.language != "hip":
            raise LabError(
                f"kernel {lab.config.kernel.name} is written in {lab.config.kernel.language}: only HIP sources are rewritten",
                where="kernel.language",
                remedy="choose a kernel with a HIP source, for example kernel=softmax",
            )
        return cls(
            [
                build(t, where=f"optimizer.transforms[{i}]", target=target, kernel=lab.config.kernel)
                for i, t in enumerate(settings.transforms)
            ],
            [build(g, where=f"optimizer.guards[{i}]", target=target) for i, g in enumerate(settings.guards)],
            Beam(settings.beam_width, settings.beam_slack) if settings.search == "beam" else Greedy(),
            Sandbox(_limits(settings, settings.isolation.compile_timeout_s)),
            open_model(lab.config),
        )


def _with_unseen_inputs(config: LabConfig) -> LabConfig:
    """Times are taken on inputs that no proposal can know: a source that returns known results gains nothing."""
    return config.model_copy(update={"kernel": reseeded(config.kernel, config.optimizer.verification.seed)})


def _selected(lab: Lab, transforms: Sequence[Transform], turn: Turn) -> Sequence[Transform]:
    """What the evidence calls for."""
    bottleneck = turn.diagnosis.bottleneck
    chosen = select_transforms(transforms, (bottleneck.name, *bottleneck.others))
    passed_over = [t.name for t in transforms if t not in chosen]
    if passed_over:
        names = ", ".join((bottleneck.name, *bottleneck.others))
        lab.console.print(f"[dim]not tried, since they address none of {names}: {', '.join(passed_over)}[/]", soft_wrap=True)
    return chosen


def _examiner(lab: Lab, bench: Workbench, sandbox: Sandbox) -> Examiner:
    """Has the unmodified kernel run every trial; on the emulator first, and on a device that is none as well."""
    settings = lab.config.optimizer
    on_device = settings.gate == "none" or not lab.device.identity.emulated
    runners: list[TrialRunner] = [EmulatorRunner(lab.config.target)] if settings.gate == "emulator" else []
    examiner = Examiner(
        lab.config.kernel,
        lambda description, source: bench.build(description, source, sandbox=sandbox),
        [*runners, *([DeviceRunner(lab.device)] if on_device else [])],
        settings.verification,
    )
    with lab.console.status("trying the baseline on other inputs and shapes"):
        examiner.learn(lab.config.kernel.source_path)
    lab.console.print(f"[bold]trials[/]  {len(examiner.trials)}: {'; '.join(examiner.trials)}", soft_wrap=True)
    for note in examiner.notes:
        lab.console.print(f"[dim]{note}[/]", soft_wrap=True)
    return examiner


def _start_anew(folder: Path) -> None:
    """Leave nothing of a run that ended in this folder.

    Raises:
        LabError: One was interrupted there.
    """
    summary, journal = folder / "optimize.json", folder / JOURNAL
    if journal.exists() and not summary.exists():
        raise LabError(
            "there is an interrupted run in this folder",
            where=str(folder),
            remedy=f"go on with it: rocm-perf optimize --resume {folder}; or choose another folder",
        )
    for path in (summary, journal, folder / TRANSCRIPT):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / "proposals", ignore_errors=True)


def _confirm(lab: Lab, model: ChatModel | None) -> None:
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
        raise LabError("a model is to be called, and there is no terminal to ask at", where=question, remedy="add --yes")
    from rich.prompt import Confirm

    if not Confirm.ask(question, console=Console(stderr=True)):
        raise LabError("not confirmed: nothing was sent")


def _limits(settings: OptimizerConfig, seconds: float) -> Limits:
    row = settings.isolation
    return Limits(seconds, row.memory_mb * _MIB, row.file_mb * _MIB, row.processes)


def _policy(settings: OptimizerConfig) -> Policy:
    return Policy(
        min_improvement=settings.min_improvement,
        max_iterations=settings.max_iterations,
        max_proposals=settings.max_proposals,
        confidence=settings.confidence,
        first_pairs=settings.first_pairs,
        most_pairs=settings.most_pairs,
    )


def _rebuild(result: LoopResult, bench: Workbench, best: Path, sandbox: Sandbox) -> RebuildCheck:
    """Compile the stored source once more, in another folder and past the cache: the code object has to be the same."""
    first = bench.compile(best, sandbox=sandbox)
    again = bench.compile(best, sandbox=sandbox, fresh=True)
    command = tuple(word.replace(f"{best.parent}{os.sep}", "") for word in again.build.command)
    return RebuildCheck(first.build.code_object.sha256, again.build.code_object.sha256, command)


def _finish(lab: Lab, tracker: RunTracker, result: LoopResult, parts: _Parts, bench: Workbench) -> None:
    word = lab.device.identity.time_word
    name = lab.config.kernel.source.name
    best = lab.output_dir / "best" / name
    write_text(best, result.best.text)
    diff = result.baseline.diff(result.best, name)
    write_text(lab.output_dir / "best" / f"{name}.diff", diff)
    rebuild = _rebuild(result, bench, best, parts.sandbox)
    document = optimize_document(
        result, word, str(best.relative_to(lab.output_dir)), rebuild=rebuild, isolation=str(parts.sandbox.abilities())
    )
    summary = lab.output_dir / "optimize.json"
    write_text(summary, json.dumps(document, indent=2) + "\n")
    page = write_report(lab.output_dir, documents=lab.output_dir / "baseline", title=f"Optimization of {lab.config.kernel.name}")
    for path in (summary, page, best, best.with_name(f"{name}.diff")):
        tracker.log_artifact(path, "best" if path.parent.name == "best" else None)
    tracker.log_metrics(
        {
            f"{word}_speedup": result.speedup,
            f"{word}_best_runtime_us": result.best_runtime_ns / 1e3,
            "proposals": float(len(result.verdicts)),
            "accepted": float(sum(v.accepted for v in result.verdicts)),
        }
    )
    tracker.set_tags(
        {
            "stop_reason": result.stop_reason,
            "best_proposal": result.best.id,
            "rebuild_identical": str(rebuild.is_identical).lower(),
        }
    )
    console = lab.console
    console.print(verdict_table(result.verdicts, word))
    how = f"; {result.comparison.method}" if result.comparison is not None else ""
    console.print(
        f"[bold]speed-up[/] {result.speedup:.2f}x ({word}): {time_text(result.baseline_runtime_ns, word)} to "
        f"{time_text(result.best_runtime_ns, word)}{how}; stopped: {result.stop_reason}"
    )
    console.print(f"[bold]rebuild[/] {rebuild}")
    console.print(f"[bold]best[/]    {best}", soft_wrap=True)
    if not rebuild.is_identical:
        raise LabError(
            "the best source does not compile to the code object that was measured: its numbers cannot be trusted",
            where=str(best),
            remedy="look for __TIME__, __DATE__ or a compiler that is not deterministic",
        )
