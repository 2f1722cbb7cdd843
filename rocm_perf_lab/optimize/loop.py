"""The closed loop: propose, compile, check guards, verify, measure, and accept or roll back.

The loop is independent of devices and files: a :class:`~rocm_perf_lab.optimize.bench.Bench` builds and evaluates sources, a
:class:`LoopObserver` receives events, and a :class:`VerdictStore` keeps verdicts so that an interrupted loop can be resumed.
Equal inputs give equal verdicts in equal order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.bench import GateError, MeasuredSource
from rocm_perf_lab.optimize.inspection import CandidateSource
from rocm_perf_lab.optimize.proposal import Proposal, Stage, Verdict
from rocm_perf_lab.optimize.proposers.base import UnusableAnswer
from rocm_perf_lab.optimize.ranking import reason_to_stop
from rocm_perf_lab.optimize.search import GreedySearch
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.statistics.paired_test import AcceptanceRule
from rocm_perf_lab.toolchain.build import CompileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocm_perf_lab.optimize.bench import Bench, BuiltCandidate, Evaluation
    from rocm_perf_lab.optimize.guards import Guard, GuardResult
    from rocm_perf_lab.optimize.proposers.base import Offer, Proposer
    from rocm_perf_lab.optimize.search import Search
    from rocm_perf_lab.statistics.paired_test import PairedComparison


class LoopObserver(Protocol):
    """Receives the events of the loop. A resumed loop repeats all events in the same order."""

    def proposed(self, proposal: Proposal, number: int) -> None:
        """Called before a proposal is evaluated."""
        ...

    def evaluated(self, verdict: Verdict) -> None:
        """Called with each verdict, before the best proposal of the round is known."""
        ...

    def accepted(self, verdict: Verdict) -> None:
        """Called with the new best proposal of a round."""
        ...

    def rolled_back(self, verdict: Verdict) -> None:
        """Called with a proposal that ran and was not accepted."""
        ...


class VerdictStore(Protocol):
    """Storage of verdicts across processes."""

    def recall(self, proposal: Proposal) -> Verdict | None:
        """Return the verdict from before the interruption, or None."""
        ...

    def remember(self, verdict: Verdict) -> None:
        """Store a verdict."""
        ...


class NullVerdictStore:
    """Store without content, for loops that are not resumed."""

    def recall(self, proposal: Proposal) -> Verdict | None:
        """Return None."""
        return None

    def remember(self, verdict: Verdict) -> None:
        """Discard a verdict."""


@dataclass(frozen=True)
class LoopPolicy:
    """Acceptance and stopping rules. `min_improvement` is relative to the best runtime so far."""

    min_improvement: float
    max_iterations: int
    max_proposals: int
    confidence: float = 0.95
    first_pairs: int = 8
    most_pairs: int = 32

    @property
    def acceptance(self) -> AcceptanceRule:
        """Rule for accepting a rewrite."""
        return AcceptanceRule(self.min_improvement, self.confidence, self.first_pairs, self.most_pairs)


@dataclass(frozen=True)
class LoopResult:
    """Result of the loop.

    `verdicts` are in evaluation order. `comparison` compares the baseline with the best source, measured at the end; it is None
    if no proposal was accepted.
    """

    baseline: Proposal
    baseline_runtime_ns: float
    best: Proposal
    best_runtime_ns: float
    verdicts: tuple[Verdict, ...]
    stop_reason: str
    comparison: PairedComparison | None = None

    @property
    def speedup(self) -> float:
        """Baseline runtime divided by best runtime."""
        return self.comparison.speedup if self.comparison is not None else self.baseline_runtime_ns / self.best_runtime_ns


@dataclass
class _Progress:
    """State of the loop."""

    best: MeasuredSource
    verdicts: list[Verdict] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """Name of each proposal in reasons, by id."""
    code: dict[str, str] = field(default_factory=dict)
    """Name of each proposal in reasons, by hash of its machine code."""
    out_of_budget: bool = False
    proposer_stop: str | None = None
    """Reason of the proposer to stop."""


class ClosedLoop:
    """Search in rounds: each round evaluates rewrites of some parents, and the fastest accepted one becomes the best source.

    Args:
        bench: Builds, runs and compares sources.
        entry: Name or symbol of the kernel.
        proposer: Source of proposals.
        guards: Static checks.
        policy: Acceptance and stopping rules.
        observer: Receives events.
        search: Selects the parents of the next round; :class:`GreedySearch` if None.
        store: Stores verdicts for resuming; none if None.
    """

    def __init__(
        self,
        *,
        bench: Bench,
        entry: str,
        proposer: Proposer,
        guards: Sequence[Guard],
        policy: LoopPolicy,
        observer: LoopObserver,
        search: Search | None = None,
        store: VerdictStore | None = None,
    ) -> None:
        self._bench = bench
        self._entry = entry
        self._proposer = proposer
        self._guards = guards
        self._policy = policy
        self._observer = observer
        self._search = search or GreedySearch()
        self._store = store or NullVerdictStore()

    def run(self, baseline: Proposal, built: BuiltCandidate, evaluation: Evaluation) -> LoopResult:
        """Run the loop from a baseline that is built and evaluated."""
        start = MeasuredSource(baseline, evaluation.runtime_ns)
        progress = _Progress(start, sources={baseline.id: "the baseline"}, code={built.code_sha256: "the baseline"})
        reference = self._candidate(baseline, built)
        stop = self._rounds(progress, [baseline], reference)
        best = progress.best
        comparison = self._bench.compare(start, best, self._policy.acceptance) if best is not start else None
        return LoopResult(baseline, start.runtime_ns, best.proposal, best.runtime_ns, tuple(progress.verdicts), stop, comparison)

    def _rounds(self, progress: _Progress, parents: list[Proposal], reference: CandidateSource) -> str:
        """Run rounds and return the reason to stop."""
        for _ in range(self._policy.max_iterations):
            before = len(progress.verdicts)
            winner, followed = self._round(progress, parents, reference)
            if progress.proposer_stop is not None:
                return progress.proposer_stop
            if progress.out_of_budget:
                return "optimizer.max_proposals reached"
            if winner is not None and winner.share is not None:
                stop = reason_to_stop(winner.share, self._policy.min_improvement)
                if stop is not None:
                    return stop
            if followed:
                parents = followed
            elif not self._proposer.learns or len(progress.verdicts) == before:
                return "no further proposal was accepted"
        return f"optimizer.max_iterations ({self._policy.max_iterations}) reached"

    def _round(
        self, progress: _Progress, parents: Sequence[Proposal], reference: CandidateSource
    ) -> tuple[Verdict | None, list[Proposal]]:
        """Evaluate the offers for each parent; return the new best verdict and the parents of the next round."""
        first = len(progress.verdicts)
        for parent in parents:
            for verdict in self._expand(progress, parent, reference):
                progress.verdicts.append(verdict)
        verdicts = progress.verdicts[first:]
        winner = max((v for v in verdicts if v.accepted), key=lambda v: v.improvement or 0.0, default=None)
        if winner is not None and winner.runtime_ns is not None:
            progress.best = MeasuredSource(winner.proposal, winner.runtime_ns)
        followed = self._search.follow(verdicts, winner, progress.best.runtime_ns)
        names = {verdict.proposal.id for verdict in followed}
        progress.verdicts[first:] = [self._settle(v, winner, followed=v.proposal.id in names) for v in verdicts]
        return winner, [verdict.proposal for verdict in followed]

    def _settle(self, verdict: Verdict, winner: Verdict | None, *, followed: bool) -> Verdict:
        if verdict is winner:
            verdict = replace(verdict, followed=followed)
            self._observer.accepted(verdict)
            return verdict
        if verdict.accepted and winner is not None:
            verdict = replace(verdict, accepted=False, reason=_reason_of_winner(winner, verdict))
        if verdict.runtime_ns is not None:
            verdict = replace(verdict, followed=followed)
        if verdict.stage in ("verification", "measurement"):
            self._observer.rolled_back(verdict)
        return verdict

    def _expand(self, progress: _Progress, parent: Proposal, reference: CandidateSource) -> Iterator[Verdict]:
        """Yield verdicts on the offers for one parent. Repetitions are skipped unless the proposer learns from them."""
        if self._is_out_of_budget(progress):
            return
        offers = self._proposer.offers(parent, parse_source(parent.text.encode(), self._entry), tuple(progress.verdicts))
        try:
            offer = next(offers)
            while True:
                known = progress.sources.get(offer.proposal.id if isinstance(offer, UnusableAnswer) else offer.id)
                if known is not None and not self._proposer.learns:
                    offer = offers.send(_repeated(offer, known))
                    continue
                if self._is_out_of_budget(progress):
                    offers.close()
                    return
                verdict = self._evaluate_offer(offer, progress, known, reference)
                yield verdict
                if self._proposer.learns and self._is_out_of_budget(progress):
                    offers.close()  # the next offer may cost money
                    return
                offer = offers.send(verdict)
        except StopIteration as end:
            progress.proposer_stop = end.value

    def _is_out_of_budget(self, progress: _Progress) -> bool:
        progress.out_of_budget = len(progress.verdicts) >= self._policy.max_proposals
        return progress.out_of_budget

    def _evaluate_offer(self, offer: Offer, progress: _Progress, known: str | None, reference: CandidateSource) -> Verdict:
        proposal = offer.proposal if isinstance(offer, UnusableAnswer) else offer
        self._observer.proposed(proposal, len(progress.verdicts) + 1)
        verdict = _repeated(offer, known) if known is not None else self._store.recall(proposal)
        if verdict is None:
            if isinstance(offer, UnusableAnswer):
                verdict = Verdict(proposal, False, "answer", offer.reason)
            else:
                verdict = self._evaluate(proposal, progress, reference)
            self._store.remember(verdict)
        progress.sources.setdefault(proposal.id, f"proposal {proposal.id}")
        if verdict.code_sha256 is not None:
            progress.code.setdefault(verdict.code_sha256, f"proposal {proposal.id}")
        self._observer.evaluated(verdict)
        return verdict

    def _evaluate(self, proposal: Proposal, progress: _Progress, reference: CandidateSource) -> Verdict:
        try:
            built = self._bench.build(proposal)
            candidate = self._candidate(proposal, built)
        except LabError as error:
            return Verdict(proposal, False, "compile", error.what, log=error.log if isinstance(error, CompileError) else "")
        guards = self._check_guards(reference, candidate)
        verdict = Verdict(
            proposal,
            False,
            "guard",
            "",
            guards=guards,
            kernel=built.kernel,
            occupancy_waves=built.occupancy_waves,
            compile_cached=built.cached,
        )
        broken = [g for g in guards if not g.passed]
        if broken:
            return replace(verdict, reason="; ".join(f"{g.name}: {g.detail}" for g in broken))
        verdict = replace(verdict, code_sha256=built.code_sha256)
        twin = progress.code.get(built.code_sha256)
        if twin is not None:
            return replace(verdict, stage="duplicate", reason=f"same machine code as {twin}")
        return self._measure(proposal, built, verdict, progress.best)

    def _measure(self, proposal: Proposal, built: BuiltCandidate, verdict: Verdict, best: MeasuredSource) -> Verdict:
        try:
            evaluation = self._bench.evaluate(proposal, built)
            verdict = replace(verdict, verification=evaluation.verification)
            if not evaluation.verification.passed:
                return replace(verdict, stage="verification", reason=str(evaluation.verification))
            acceptance = self._policy.acceptance
            comparison = self._bench.compare(best, MeasuredSource(proposal, evaluation.runtime_ns), acceptance)
        except LabError as error:
            return replace(verdict, stage=_stage_of(error), reason=str(error))
        return replace(
            verdict,
            accepted=acceptance.accepts(comparison),
            stage="measurement",
            reason=measured_reason(comparison, acceptance),
            runtime_ns=evaluation.runtime_ns,
            improvement=comparison.improvement,
            comparison=comparison,
            share=evaluation.share,
        )

    def _candidate(self, proposal: Proposal, built: BuiltCandidate) -> CandidateSource:
        return CandidateSource(
            parse_source(proposal.text.encode(), self._entry), built.kernel, built.occupancy_waves, built.inspection
        )

    def _check_guards(self, reference: CandidateSource, candidate: CandidateSource) -> tuple[GuardResult, ...]:
        return tuple(guard.check(reference, candidate) for guard in self._guards)


def _stage_of(error: LabError) -> Stage:
    return "gate" if isinstance(error, GateError) else "verification"


def _repeated(offer: Offer, known: str) -> Verdict:
    if isinstance(offer, UnusableAnswer):
        return Verdict(offer.proposal, False, "answer", offer.reason)
    return Verdict(offer, False, "duplicate", f"same source as {known}")


def _reason_of_winner(winner: Verdict, other: Verdict) -> str:
    """Return why another accepted proposal of a round is preferred."""
    band = winner.comparison.band if winner.comparison is not None else None
    if band is not None and (other.runtime_ns or 0.0) <= band * (winner.runtime_ns or 0.0):
        return f"indistinguishable on the emulator from proposal {winner.proposal.id}, whose emulated time is not longer"
    return f"proposal {winner.proposal.id} is faster"


def measured_reason(comparison: PairedComparison, acceptance: AcceptanceRule) -> str:
    """Return why a measured rewrite was accepted or not, with the confidence interval if there is one."""
    gain, bar = comparison.improvement, acceptance.min_improvement
    spread = "" if comparison.is_exact else f" ({_interval(comparison)})"
    if acceptance.accepts(comparison):
        return f"{gain:.1%} less time{spread}"
    if comparison.is_indistinguishable:
        change = f"{gain:.1%} less" if gain > 0 else f"{-gain:.1%} more" if gain < 0 else "the same"
        return f"indistinguishable on the emulator: {change} time{spread}"
    if comparison.band is not None and gain > 0 and gain >= bar:
        return f"{gain:.1%} less time, but only {comparison.least:.1%} beyond the error band, {bar:.1%} required{spread}"
    if gain > 0 and gain >= bar:
        return f"{gain:.1%} less time, but not significant{spread}"
    if gain > 0:
        shown = f"{gain:.1%}" if f"{gain:.1%}" != f"{bar:.1%}" else f"{gain:.3%}"
        return f"only {shown} less time, {bar:.1%} required{spread}"
    return f"{-gain:.1%} more time{spread}" if gain < 0 else f"the same time{spread}"


def _interval(comparison: PairedComparison) -> str:
    low, high = comparison.speedup_interval
    if comparison.band is not None:
        return f"speed-up {low:.3f} to {high:.3f} at {comparison.confidence:.0%} confidence, error band of the emulator"
    return f"speed-up {low:.3f} to {high:.3f} at {comparison.confidence:.0%} confidence, {comparison.pairs} pairs"
