"""`job=optimize`: the closed loop on one described kernel. The user's source file is never modified."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich.markup import escape

from rocm_perf_lab.jobs.optimize.bench import KernelBench, evaluation_of, read_source, share_of
from rocm_perf_lab.jobs.optimize.models import failure_of, open_proposer
from rocm_perf_lab.jobs.optimize.reporter import LoopReporter, show_progress
from rocm_perf_lab.jobs.optimize.results import write_results
from rocm_perf_lab.jobs.optimize.seeds import seeds_of, with_run_seeds
from rocm_perf_lab.jobs.optimize.setup import (
    LoopComponents,
    clear_directory,
    confirm,
    limits_of,
    ordered_transforms,
    policy_of,
    trial_runners,
    with_evidence,
)
from rocm_perf_lab.jobs.profile.job import log_profile, require_clean, require_correct
from rocm_perf_lab.jobs.profile.workbench import CompiledKernel, ProfiledKernel, Workbench
from rocm_perf_lab.jobs.records import RebuildCheck, optimizer_params
from rocm_perf_lab.jobs.show import runtime_text, show_locations, show_profile, show_rank
from rocm_perf_lab.optimize.candidate import correctness_checker
from rocm_perf_lab.optimize.loop import ClosedLoop
from rocm_perf_lab.optimize.loop_result import LoopResult
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.ranking import reason_to_stop
from rocm_perf_lab.optimize.resume import JOURNAL, Journal, JournalHeader
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.verify.trials import reseeded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.proposers.spending import Spending
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.sandbox import Sandbox
    from rocm_perf_lab.tracking.run import RunTracker
    from rocm_perf_lab.verify.checker import CorrectnessChecker


class OptimizeJob:
    """Profiles the baseline, then evaluates proposals and keeps those that are correct and faster.

    In the directory of an interrupted run, the job resumes it.
    """

    def run(self, lab: Lab) -> None:
        """Run the optimization.

        Raises:
            LabError: The baseline cannot be compiled, run or verified, or the model returned no proposal.
        """
        parts = LoopComponents.of(lab)
        if not lab.resumed:
            clear_directory(lab.output_dir)
        confirm(lab, parts.model)
        lab = with_run_seeds(lab)
        lab.announce_device()
        lab.console.print(f"[bold]sandbox[/] {parts.sandbox.protection()}", soft_wrap=True)
        with lab.tracker as tracker:
            evident = with_evidence(_with_unseen_inputs(lab.config), lab.measuring_device)
            bench = Workbench(evident, lab.measuring_device)
            with lab.console.status("profiling the baseline"):
                compiled = bench.compile(lab.config.kernel.source_path)
                profiled = bench.run(compiled, lab.output_dir / "baseline")
            log_profile(tracker, lab, profiled)
            tracker.log_params(optimizer_params(lab.config))
            show_profile(lab.console, profiled, lab.device.identity.time_word, "baseline")
            require_correct(profiled, lab)
            require_clean(profiled.findings, lab.config.kernel.name)
            result, spending = self._search(lab, parts, bench, tracker, compiled, profiled)
            write_results(
                lab,
                tracker,
                result,
                rebuild=lambda best: _rebuild(bench, best, parts.sandbox if result.best.parent_id else None),
                isolation=str(parts.sandbox.protection()),
                word=lab.device.identity.time_word,
                errors=profiled.profile.timing_errors,
                seeds=seeds_of(lab),
                spending=spending,
            )
        show_locations(lab, lab.tracker)
        lab.answer(
            lab.output_dir / "optimize.json",
            runtime_text(result.best_runtime_ns, lab.device.identity.time_word),
        )

    def _search(
        self,
        lab: Lab,
        parts: LoopComponents,
        bench: Workbench,
        tracker: RunTracker,
        compiled: CompiledKernel,
        profiled: ProfiledKernel,
    ) -> tuple[LoopResult, Spending | None]:
        settings = lab.config.optimizer
        text = read_source(lab.config.kernel.source_path)
        baseline = Proposal.of(text, transform="none", description="the unmodified source", parent=None)
        kernel = share_of(profiled)
        stop = reason_to_stop(kernel, settings.min_improvement)
        if stop is not None:
            lab.console.print(f"[yellow]no potential gain[/]: {stop}")
            return LoopResult(baseline, profiled.runtime_ns, baseline, profiled.runtime_ns, (), stop), None
        show_rank(lab.console, kernel.name, kernel.possible_gain, profiled.runtime_ns)
        journal = Journal(lab.output_dir / JOURNAL)
        seeds = seeds_of(lab)
        header = journal.begin(
            JournalHeader(
                baseline=baseline.id,
                runtime_ns=profiled.runtime_ns,
                tracking_run=tracker.run_id,
                trial_seed=seeds.trials,
                sample_seed=seeds.samples,
            )
        )
        kernel_bench = _make_bench(lab, bench, parts.sandbox)

        def directory_of(proposal: Proposal) -> Path:
            return lab.output_dir / "baseline" if proposal.id == baseline.id else kernel_bench.directory(proposal)

        transforms = ordered_transforms(lab, parts.transforms, profiled.diagnosis)
        with (
            show_progress(lab.console) as progress,
            open_proposer(lab, parts.model, transforms, parts.guards, tracker, directory_of, progress.spent) as proposer,
        ):
            loop = ClosedLoop(
                bench=kernel_bench,
                entry=lab.config.kernel.entry,
                proposer=proposer,
                guards=parts.guards,
                policy=policy_of(settings),
                observer=LoopReporter(lab, tracker, kernel_bench.profiled, baseline, progress, journal),
                search=parts.search,
                store=journal,
            )
            built = kernel_bench.built(baseline, compiled, lab.config.kernel.source_path, trusted=True)
            evaluation = evaluation_of(profiled, runtime_ns=header.runtime_ns)
            result = loop.run(baseline, built, evaluation)
            failure = failure_of(proposer)
            if failure is not None and not result.verdicts:
                raise failure
        if settings.proposer == "transforms" and not result.verdicts:
            _print_rejections(lab, transforms, text)
        return result, progress.spending


def _with_unseen_inputs(config: LabConfig) -> LabConfig:
    """Draw new random inputs for measurements, so that a proposal with hard-coded results gains no advantage."""
    seed = config.optimizer.verification.seed
    assert seed is not None, "seeds are drawn before inputs"
    return config.model_copy(update={"kernel": reseeded(config.kernel, seed)})


def _print_rejections(lab: Lab, transforms: Sequence[Transform], text: str) -> None:
    """Print the reason for each transform that proposed no rewrite."""
    unit = parse_source(text.encode(), lab.config.kernel.entry)
    for transform in transforms:
        reasons = [f"line {rejection.line}: {rejection.reason}" for rejection in transform.rejections(unit)]
        why = "; ".join(reasons) or "not applicable to this kernel"
        lab.console.print(f"[yellow]no proposal[/] by {transform.name}: {escape(why)}", soft_wrap=True)
    if len(transforms) == 1:
        lab.console.print("[dim]more kinds of rewrites: optimizer=transforms[/]", soft_wrap=True)


def _make_bench(lab: Lab, bench: Workbench, sandbox: Sandbox) -> KernelBench:
    """Create the bench that builds, checks and measures proposals."""
    settings = lab.config.optimizer
    return KernelBench(
        bench,
        lab.output_dir / "proposals",
        lab.config.kernel.source.name,
        band=lab.timing_errors.decisive if lab.timing_errors is not None else None,
        dispatches=lab.config.passes.runs,
        sandbox=sandbox,
        checker=_checker(lab, bench, sandbox),
        run_limits=limits_of(settings, settings.isolation.run_timeout_s) if lab.device.identity.emulated else None,
    )


def _checker(lab: Lab, bench: Workbench, sandbox: Sandbox) -> CorrectnessChecker:
    """Create the checker and record the unmodified kernel: on the emulator, and also on the device if it is a GPU."""
    settings, baseline = lab.config.optimizer, lab.config.kernel.source_path

    def compiled(description: KernelDescription, source: Path, *, promise_checks: bool = False) -> BuildResult:
        limited = None if source == baseline else sandbox
        return bench.build(description, source, sandbox=limited, promise_checks=promise_checks)

    runners = trial_runners(lab.config, lab.device)
    checker = correctness_checker(lab.config.kernel, lab.config.target, compiled, runners, settings.verification)
    with lab.console.status("running the baseline with other inputs and shapes"):
        checker.record_baseline(baseline)
    lab.console.print(f"[bold]trials[/]  {checker.summary}", soft_wrap=True)
    for note in checker.notes:
        lab.console.print(f"[dim]{note}[/]", soft_wrap=True)
    return checker


def _rebuild(bench: Workbench, best: Path, sandbox: Sandbox | None) -> RebuildCheck:
    """Compile the stored source again, in another directory and without the cache, and compare the code objects."""
    first = bench.compile(best, sandbox=sandbox)
    again = bench.compile(best, sandbox=sandbox, fresh=True)
    command = tuple(argument.replace(f"{best.parent}{os.sep}", "") for argument in again.build.command)
    return RebuildCheck(first.build.code_object.sha256, again.build.code_object.sha256, command)
