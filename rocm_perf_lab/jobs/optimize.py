"""`job=optimize`: the closed loop on one kernel. The user's source file is read, never written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.roofline import Roofline
from rocm_perf_lab.components import build
from rocm_perf_lab.errors import LabError
from rocm_perf_lab.files import write_text
from rocm_perf_lab.jobs.profile import log_turn, require_clean, require_correct, show_where
from rocm_perf_lab.jobs.progress import JudgingProgress, judging
from rocm_perf_lab.jobs.records import (
    optimize_document,
    optimizer_params,
    profile_metrics,
    profile_params,
    provenance_tags,
    verdict_tags,
)
from rocm_perf_lab.jobs.show import runtime_text, show_profile, show_verdict, time_text, verdict_table
from rocm_perf_lab.jobs.workbench import CompiledKernel, Turn, Workbench
from rocm_perf_lab.optimize.loop import Built, ClosedLoop, Evaluation, LoopResult, Policy
from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.ranking import KernelShare, rank, reason_to_stop
from rocm_perf_lab.optimize.verification import VerificationResult
from rocm_perf_lab.report.page import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.tracking.store import RunTracker


class OptimizeJob:
    """Profiles the baseline, then proposes, guards, checks, measures, and keeps or rolls back."""

    def run(self, lab: Lab) -> None:
        """Raises LabError where the baseline itself cannot be compiled, run or verified."""
        parts = _Parts.of(lab)
        lab.announce_device()
        with lab.tracker as tracker:
            bench = Workbench(lab.config, lab.device)
            with lab.console.status("profiling the baseline"):
                compiled = bench.compile(lab.config.kernel.source_path)
                turn = bench.run(compiled, lab.output_dir / "baseline")
            log_turn(tracker, lab, turn)
            tracker.log_params(optimizer_params(lab.config))
            show_profile(lab.console, turn, lab.device.identity.time_word, "baseline")
            require_correct(turn, lab)
            require_clean(turn.findings, lab.config.kernel.name)
            result = self._search(lab, parts, bench, tracker, compiled, turn)
            _finish(lab, tracker, result)
        show_where(lab)
        lab.answer(lab.output_dir / "optimize.json", runtime_text(result.best_runtime_ns, lab.device.identity.time_word))

    def _search(
        self, lab: Lab, parts: _Parts, bench: Workbench, tracker: RunTracker, compiled: CompiledKernel, turn: Turn
    ) -> LoopResult:
        settings = lab.config.optimizer
        text = read_source(lab.config.kernel.source_path)
        baseline = Proposal.of(text, transform="none", description="the source as it is", parent=None)
        kernel = rank([_share(turn)])[0]
        stop = reason_to_stop(kernel, settings.min_improvement)
        if stop is not None:
            lab.console.print(f"[yellow]nothing to gain[/]: {stop}")
            return LoopResult(baseline, turn.runtime_ns, baseline, turn.runtime_ns, (), stop)
        lab.console.print(f"[bold]rank[/]    {kernel.name}: {kernel.possible_gain:.0%} of the whole time could be saved")
        loop_bench = LoopBench(bench, lab.output_dir / "proposals", lab.config.kernel.source.name)
        with judging(lab.console) as progress:
            loop = ClosedLoop(
                bench=loop_bench,
                entry=lab.config.kernel.entry,
                transforms=parts.transforms,
                guards=parts.guards,
                policy=Policy(settings.min_improvement, settings.max_iterations, settings.max_proposals),
                observer=ConsoleAndTracker(lab, tracker, loop_bench, baseline, progress),
            )
            built = loop_bench.built(baseline, compiled)
            return loop.run(baseline, built, Evaluation(_verified(turn), turn.runtime_ns))


@dataclass(frozen=True)
class _Parts:
    """Transforms and guards, built before anything runs: a wrong argument costs nobody a baseline."""

    transforms: list[Transform]
    guards: list[Guard]

    @classmethod
    def of(cls, lab: Lab) -> _Parts:
        settings, target = lab.config.optimizer, lab.config.target
        return cls(
            [build(t, where=f"optimizer.transforms[{i}]", target=target) for i, t in enumerate(settings.transforms)],
            [build(g, where=f"optimizer.guards[{i}]", target=target) for i, g in enumerate(settings.guards)],
        )


class LoopBench:
    """The workbench in the words of the loop; every proposal gets a folder."""

    def __init__(self, bench: Workbench, folder: Path, file_name: str) -> None:
        self._bench = bench
        self._folder = folder
        self._file_name = file_name
        self._compiled: dict[str, CompiledKernel] = {}
        self.turns: dict[str, Turn] = {}

    def folder(self, proposal: Proposal) -> Path:
        """Where a proposal's files are."""
        return self._folder / proposal.id

    def build(self, proposal: Proposal) -> Built:
        """Write the source into its folder and compile it there."""
        path = self.folder(proposal) / self._file_name
        write_text(path, proposal.text)
        return self.built(proposal, self._bench.compile(path))

    def built(self, proposal: Proposal, compiled: CompiledKernel) -> Built:
        """Remember a compiled proposal."""
        self._compiled[proposal.id] = compiled
        return Built(
            kernel=compiled.kernel,
            code_sha256=compiled.machine_code_sha256,
            occupancy_waves=compiled.occupancy.waves_per_simd,
            cached=compiled.build.cached,
        )

    def evaluate(self, proposal: Proposal, built: Built) -> Evaluation:
        """Run and check on the device."""
        turn = self._bench.run(self._compiled[proposal.id], self.folder(proposal))
        require_clean(turn.findings, "of the proposal")
        self.turns[proposal.id] = turn
        return Evaluation(_verified(turn), turn.runtime_ns)


class ConsoleAndTracker:
    """Prints what the loop does, and keeps it: one child run per proposal."""

    def __init__(self, lab: Lab, tracker: RunTracker, bench: LoopBench, baseline: Proposal, progress: JudgingProgress) -> None:
        self._progress = progress
        self._lab = lab
        self._tracker = tracker
        self._bench = bench
        self._baseline = baseline
        self._parents = {baseline.id: baseline}
        self._numbers: dict[str, int] = {}

    def proposed(self, proposal: Proposal, number: int) -> None:
        """Number it."""
        self._numbers[proposal.id] = number
        self._parents[proposal.id] = proposal
        self._progress.started(number, proposal.description)

    def judged(self, verdict: Verdict) -> None:
        """Print it, and log it where its verdict is final already."""
        self._progress.judged()
        show_verdict(self._lab.console, self._numbers[verdict.proposal.id], verdict, self._lab.device.identity.time_word)
        if verdict.stage not in ("verification", "measurement"):
            self._log(verdict)

    def accepted(self, verdict: Verdict) -> None:
        """The new best."""
        number = self._numbers[verdict.proposal.id]
        self._lab.console.print(f"[green]accepted[/] {number}: {verdict.proposal.description} ({verdict.reason})")
        self._log(verdict)

    def rolled_back(self, verdict: Verdict) -> None:
        """Back to the best so far."""
        number = self._numbers[verdict.proposal.id]
        self._lab.console.print(f"[dim]rolled back {number}: {verdict.proposal.description} ({verdict.reason})[/]")
        self._log(verdict)

    def _log(self, verdict: Verdict) -> None:
        proposal, identity = verdict.proposal, self._lab.device.identity
        number = self._numbers[proposal.id]
        with self._tracker.child(f"{number:02d} {proposal.description}", tags=verdict_tags(verdict)) as child:
            child.log_params({"transform": proposal.transform, "description": proposal.description})
            if verdict.improvement is not None:
                child.log_metrics({f"{identity.time_word}_improvement": verdict.improvement})
            turn = self._bench.turns.get(proposal.id)
            if turn is not None:
                child.set_tags(provenance_tags(identity, turn))
                child.log_params(profile_params(self._lab.config, turn))
                child.log_metrics(profile_metrics(turn, identity.time_word))
                for path in turn.artifacts:
                    child.log_artifact(path)
            name = self._lab.config.kernel.source.name
            child.log_text(proposal.text, name)
            child.log_text(self._parents[proposal.parent_id or self._baseline.id].diff(proposal, name), "proposal.diff")


def read_source(path: Path) -> str:
    """The source with its newlines as they are.

    Raises:
        LabError: It is missing or not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise LabError("the source file cannot be read", where=str(path), remedy="check kernel.source") from error
    except UnicodeDecodeError as error:
        raise LabError("the source file is not UTF-8", where=str(path), remedy="convert it to UTF-8") from error


def _share(turn: Turn) -> KernelShare:
    roof = turn.diagnosis.roofline
    headroom = turn.runtime_ns / roof.bound_ns if isinstance(roof, Roofline) and roof.bound_ns > 0 else None
    share = turn.diagnosis.critical_shares.get(turn.profile.kernel.mangled_name, 1.0)
    return KernelShare(turn.profile.kernel.name, share, headroom)


def _verified(turn: Turn) -> VerificationResult:
    return turn.verification if turn.verification is not None else VerificationResult(())


def _finish(lab: Lab, tracker: RunTracker, result: LoopResult) -> None:
    word = lab.device.identity.time_word
    name = lab.config.kernel.source.name
    best = lab.output_dir / "best" / name
    write_text(best, result.best.text)
    diff = result.baseline.diff(result.best, name)
    write_text(lab.output_dir / "best" / f"{name}.diff", diff)
    document = optimize_document(result, word, str(best.relative_to(lab.output_dir)))
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
    tracker.set_tags({"stop_reason": result.stop_reason, "best_proposal": result.best.id})
    console = lab.console
    console.print(verdict_table(result.verdicts, word))
    console.print(
        f"[bold]speed-up[/] {result.speedup:.2f}x ({word}): {time_text(result.baseline_runtime_ns, word)} to "
        f"{time_text(result.best_runtime_ns, word)}; stopped: {result.stop_reason}"
    )
    console.print(f"[bold]best[/]    {best}", soft_wrap=True)
