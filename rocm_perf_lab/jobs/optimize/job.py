"""`job=optimize`: the closed loop on one kernel. The user's source file is read, never written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich.markup import escape

from rocm_perf_lab.jobs.optimize.bench import LoopBench, evaluation_of, read_source, share_of
from rocm_perf_lab.jobs.optimize.finish import finish
from rocm_perf_lab.jobs.optimize.observer import ConsoleAndTracker
from rocm_perf_lab.jobs.optimize.progress import judging
from rocm_perf_lab.jobs.optimize.proposers import open_proposer
from rocm_perf_lab.jobs.optimize.setup import Parts, confirm, limits_of, policy_of, selected, start_anew
from rocm_perf_lab.jobs.profile.job import log_turn, require_clean, require_correct
from rocm_perf_lab.jobs.profile.workbench import CompiledKernel, Turn, Workbench
from rocm_perf_lab.jobs.records import RebuildCheck, optimizer_params
from rocm_perf_lab.jobs.show import runtime_text, show_profile, show_where
from rocm_perf_lab.optimize.loop import ClosedLoop, LoopResult
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.proposers.llm import LlmProposer
from rocm_perf_lab.optimize.ranking import reason_to_stop
from rocm_perf_lab.optimize.resume import JOURNAL, Beginning, Journal
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.verify.examiner import Examiner
from rocm_perf_lab.verify.trial_runs import DeviceRunner, EmulatorRunner
from rocm_perf_lab.verify.trials import reseeded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.toolchain.sandbox import Sandbox
    from rocm_perf_lab.tracking.run import RunTracker
    from rocm_perf_lab.verify.trial_runs import TrialRunner

_MIB = 1 << 20


class OptimizeJob:
    """Profiles the baseline, then proposes, guards, checks, measures, and keeps or rolls back.

    Resumed in the directory of an interrupted run, it goes on where that run ended.
    """

    def run(self, lab: Lab) -> None:
        """Raises LabError where the baseline itself cannot be compiled, run or verified, or no proposal can be had."""
        parts = Parts.of(lab)
        if not lab.resumed:
            start_anew(lab.output_dir)
        confirm(lab, parts.model)
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
            finish(
                lab,
                tracker,
                result,
                rebuild=lambda best: _rebuild(bench, best, parts.sandbox),
                isolation=str(parts.sandbox.abilities()),
                word=lab.device.identity.time_word,
            )
        show_where(lab, lab.tracker)
        lab.answer(lab.output_dir / "optimize.json", runtime_text(result.best_runtime_ns, lab.device.identity.time_word))

    def _search(
        self, lab: Lab, parts: Parts, bench: Workbench, tracker: RunTracker, compiled: CompiledKernel, turn: Turn
    ) -> LoopResult:
        settings = lab.config.optimizer
        text = read_source(lab.config.kernel.source_path)
        baseline = Proposal.of(text, transform="none", description="the source as it is", parent=None)
        kernel = share_of(turn)
        stop = reason_to_stop(kernel, settings.min_improvement)
        if stop is not None:
            lab.console.print(f"[yellow]nothing to gain[/]: {stop}")
            return LoopResult(baseline, turn.runtime_ns, baseline, turn.runtime_ns, (), stop)
        lab.console.print(f"[bold]rank[/]    {kernel.name}: {kernel.possible_gain:.0%} of the whole time could be saved")
        journal = Journal(lab.output_dir / JOURNAL)
        beginning = journal.begin(Beginning(baseline=baseline.id, runtime_ns=turn.runtime_ns, tracking_run=tracker.run_id))
        loop_bench = _loop_bench(lab, bench, parts.sandbox)

        def directory_of(proposal: Proposal) -> Path:
            return lab.output_dir / "baseline" if proposal.id == baseline.id else loop_bench.directory(proposal)

        transforms = selected(lab, parts.transforms, turn.diagnosis)
        with (
            judging(lab.console) as progress,
            open_proposer(lab, parts.model, transforms, parts.guards, tracker, directory_of) as proposer,
        ):
            loop = ClosedLoop(
                bench=loop_bench,
                entry=lab.config.kernel.entry,
                proposer=proposer,
                guards=parts.guards,
                policy=policy_of(settings),
                observer=ConsoleAndTracker(lab, tracker, loop_bench.turns, baseline, progress, journal),
                search=parts.search,
                memory=journal,
            )
            built = loop_bench.built(baseline, compiled, lab.config.kernel.source_path)
            evaluation = evaluation_of(turn, runtime_ns=beginning.runtime_ns)
            result = loop.run(baseline, built, evaluation)
            if isinstance(proposer, LlmProposer) and proposer.failure is not None and not result.verdicts:
                raise proposer.failure
        if settings.proposer == "transforms" and not result.verdicts:
            _tell_why_nothing_was_proposed(lab, transforms, text)
        return result


def _with_unseen_inputs(config: LabConfig) -> LabConfig:
    """Times are taken on inputs that no proposal can know: a source that returns known results gains nothing."""
    return config.model_copy(update={"kernel": reseeded(config.kernel, config.optimizer.verification.seed)})


def _tell_why_nothing_was_proposed(lab: Lab, transforms: Sequence[Transform], text: str) -> None:
    """What each transform looked for and left alone."""
    unit = parse_source(text.encode(), lab.config.kernel.entry)
    for transform in transforms:
        left = [f"line {rejection.line}: {rejection.reason}" for rejection in transform.rejections(unit)]
        why = "; ".join(left) or "the kernel has no place for it"
        lab.console.print(f"[yellow]no proposal[/] by {transform.name}: {escape(why)}", soft_wrap=True)
    if len(transforms) == 1:
        lab.console.print("[dim]further kinds of rewrites: optimizer=transforms[/]", soft_wrap=True)


def _loop_bench(lab: Lab, bench: Workbench, sandbox: Sandbox) -> LoopBench:
    """Where proposals are built, tried and measured."""
    settings = lab.config.optimizer
    return LoopBench(
        bench,
        lab.output_dir / "proposals",
        lab.config.kernel.source.name,
        deterministic=lab.device.deterministic,
        dispatches=lab.config.passes.runs,
        sandbox=sandbox,
        examiner=_examiner(lab, bench, sandbox),
        run_limits=limits_of(settings, settings.isolation.run_timeout_s) if lab.device.identity.emulated else None,
    )


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


def _rebuild(bench: Workbench, best: Path, sandbox: Sandbox) -> RebuildCheck:
    """Compile the stored source once more, in another directory and past the cache: the code object has to be the same."""
    first = bench.compile(best, sandbox=sandbox)
    again = bench.compile(best, sandbox=sandbox, fresh=True)
    command = tuple(word.replace(f"{best.parent}{os.sep}", "") for word in again.build.command)
    return RebuildCheck(first.build.code_object.sha256, again.build.code_object.sha256, command)
