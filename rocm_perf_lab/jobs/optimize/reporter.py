"""Console output and tracking of the closed loop: one run per proposal, nested in that of its parent, and curves."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from rocm_perf_lab.jobs.records import profile_metrics, profile_params, provenance_tags, verdict_metrics, verdict_tags
from rocm_perf_lab.jobs.show import show_verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console
    from rich.progress import TaskID

    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.jobs.profile.workbench import ProfiledKernel
    from rocm_perf_lab.optimize.proposal import Proposal, Verdict
    from rocm_perf_lab.optimize.proposers.spending import Spending
    from rocm_perf_lab.optimize.resume import Journal
    from rocm_perf_lab.tracking.run import RunTracker


class LoopReporter:
    """Prints and tracks verdicts. In a resumed run, verdicts that are already tracked are only printed."""

    def __init__(
        self,
        lab: Lab,
        tracker: RunTracker,
        profiled: Mapping[str, ProfiledKernel],
        baseline: Proposal,
        progress: ProposalProgress,
        journal: Journal,
    ) -> None:
        self._progress = progress
        self._lab = lab
        self._tracker = tracker
        self._profiled = profiled
        self._baseline = baseline
        self._journal = journal
        self._children: dict[str, RunTracker] = {}
        self._parents = {baseline.id: baseline}
        self._numbers: dict[str, int] = {}
        self._baseline_ns = self._best_ns = journal.header.runtime_ns if journal.header is not None else 0.0

    def proposed(self, proposal: Proposal, number: int) -> None:
        """Assign the number of a proposal, and show it in the progress line."""
        self._numbers[proposal.id] = number
        self._parents[proposal.id] = proposal
        self._progress.started(number, proposal.description)

    def evaluated(self, verdict: Verdict) -> None:
        """Print a verdict, and track it if no later stage can change it."""
        self._progress.evaluated()
        lab, number = self._lab, self._numbers[verdict.proposal.id]
        show_verdict(lab.console, number, verdict, lab.device.identity.time_word, lab.timing_errors)
        self._log_curves(verdict, number)
        if verdict.stage not in ("verification", "measurement"):
            self._log(verdict)

    def accepted(self, verdict: Verdict) -> None:
        """Print and track the new best proposal."""
        self._lab.console.print(f"[green]accepted[/] {self._summary(verdict)}")
        self._log(verdict)

    def rolled_back(self, verdict: Verdict) -> None:
        """Print and track a proposal that was measured and not accepted."""
        self._lab.console.print(f"[dim]rolled back {self._summary(verdict)}[/]")
        self._log(verdict)

    def withdrawn(self, verdict: Verdict) -> None:
        """Print an accepted proposal that the final comparison did not confirm, and correct its child run."""
        self._lab.console.print(f"[yellow]rolled back[/] [dim]{self._summary(verdict)}[/]")
        child, run_id = self._children.get(verdict.proposal.id), self._journal.child_run(verdict.proposal)
        if child is None and run_id is not None:  # tracked before the run was resumed
            child = self._tracker.known_child(run_id)
        if child is not None:
            child.set_tags(verdict_tags(verdict))

    def _summary(self, verdict: Verdict) -> str:
        number, proposal = self._numbers[verdict.proposal.id], verdict.proposal
        return escape(f"{number}: {proposal.description} ({verdict.reason})")

    def _log_curves(self, verdict: Verdict, number: int) -> None:
        """Track the best time and the spending so far; the step is the number of the evaluation."""
        if verdict.accepted and verdict.runtime_ns:
            self._best_ns = min(self._best_ns, verdict.runtime_ns)
        if self._journal.is_tracked(verdict.proposal):
            return  # logged before the run was resumed
        spending = self._progress.spending
        metrics = {}
        if self._best_ns:
            metrics["runtime_us"] = self._best_ns / 1e3
            metrics["speedup"] = self._baseline_ns / self._best_ns
        if spending is not None:
            metrics |= {"llm_tokens_so_far": float(spending.tokens), "llm_cost_so_far": spending.cost}
        if metrics:
            self._tracker.log_metrics(metrics, number)

    def _log(self, verdict: Verdict) -> None:
        proposal, identity = verdict.proposal, self._lab.device.identity
        if self._journal.is_tracked(proposal):
            return
        number = self._numbers[proposal.id]
        name, above = f"{number:02d} {proposal.description}", self._run_of_parent(proposal)
        with self._tracker.child(name, tags=verdict_tags(verdict), below=above) as child:
            child.log_params({"transform": proposal.transform, "description": proposal.description})
            child.log_metrics(verdict_metrics(verdict))
            profiled = self._profiled.get(proposal.id)
            if profiled is not None:
                child.set_tags(provenance_tags(identity, profiled))
                child.log_params(profile_params(self._lab.config, profiled))
                child.log_metrics(profile_metrics(profiled))
                for path in profiled.artifacts:
                    child.log_artifact(path)
            name = self._lab.config.kernel.source.name
            child.log_text(proposal.text, name if verdict.stage != "answer" else "answer.txt")
            if verdict.stage != "answer":
                child.log_text(self._parents[proposal.parent_id or self._baseline.id].diff(proposal, name), "proposal.diff")
            if verdict.log:
                child.log_text(verdict.log, "compiler.log")
            self._children[proposal.id] = child
        self._journal.tracked(proposal, child.run_id)

    def _run_of_parent(self, proposal: Proposal) -> str | None:
        """Return the run of a proposal's parent; None for the baseline, whose run is that of the job."""
        child = self._children.get(proposal.parent_id or "")
        if child is not None:
            return child.run_id
        return self._journal.child_run(self._parents[proposal.parent_id]) if proposal.parent_id in self._parents else None


class ProposalProgress:
    """Progress line with the number of evaluated proposals, the current one, and the spending on models."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self.spending: Spending | None = None

    def started(self, number: int, description: str) -> None:
        """Show the proposal that is being evaluated."""
        self._progress.update(self._task, description=f"proposal {number}: {description}")

    def evaluated(self) -> None:
        """Count one more evaluated proposal."""
        self._progress.advance(self._task)

    def spent(self, spending: Spending) -> None:
        """Show the calls, tokens and cost so far."""
        self.spending = spending
        cost = f", cost {spending.cost:.4g}" if spending.cost else ""
        self._progress.update(self._task, spending=f"{spending.calls} calls, {spending.tokens:,} tokens{cost}")


@contextmanager
def show_progress(console: Console) -> Iterator[ProposalProgress]:
    """Show a progress line at the bottom of a terminal while the closed loop runs."""
    columns = (
        SpinnerColumn(),
        TextColumn("[progress.description]{task.description}"),
        TextColumn("{task.completed:.0f} evaluated"),
        TextColumn("{task.fields[spending]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield ProposalProgress(progress, progress.add_task("proposals", total=None, spending=""))
