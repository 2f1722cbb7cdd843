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
from rocm_perf_lab.optimize.decision import Decision, decide, reason_of_winner
from rocm_perf_lab.optimize.guards import check_before_compilation, rejections_of
from rocm_perf_lab.optimize.inspection import CandidateSource
from rocm_perf_lab.optimize.proposal import Proposal, Stage, Verdict
from rocm_perf_lab.optimize.proposers.base import UnusableAnswer
from rocm_perf_lab.optimize.ranking import reason_to_stop
from rocm_perf_lab.optimize.search import GreedySearch
from rocm_perf_lab.optimize.source_tree import SourceUnit, parse_source
from rocm_perf_lab.statistics.error_control import AlphaBudget
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

    def withdrawn(self, verdict: Verdict) -> None:
        """Called at the end with each accepted proposal, if the final comparison did not confirm the best one."""
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
    """Acceptance and stopping rules. `min_improvement` is relative to the best runtime so far.

    `1 - confidence` is the probability that the run accepts a rewrite that is not faster, at any time. The final comparison has
    the part `final_share` of it, all others together the rest.
    """

    min_improvement: float
    max_iterations: int
    max_proposals: int
    confidence: float = 0.95
    first_pairs: int = 16
    most_pairs: int = 256
    final_share: float = 0.2
    use_counters: bool = False
    """Exact counters decide between indistinguishable emulated times."""

    def acceptance(self, level: float) -> AcceptanceRule:
        """Return the rule for accepting a rewrite; `level` is the significance level of its comparison."""
        return AcceptanceRule(self.min_improvement, self.confidence, level, self.first_pairs, self.most_pairs)

    @property
    def search_alpha(self) -> float:
        """Error probability of all comparisons but the final one."""
        return (1 - self.confidence) * (1 - self.final_share)

    @property
    def final_alpha(self) -> float:
        """Error probability of the final comparison."""
        return (1 - self.confidence) * self.final_share


@dataclass(frozen=True)
class LoopResult:
    """Result of the loop.

    `verdicts` are in evaluation order. `comparison` compares the baseline with the last accepted source, measured again at the
    end; it is None if no proposal was accepted. `best` is that source if the comparison confirmed it, else the baseline.
    `final_reason` is the reason of this decision.
    """

    baseline: Proposal
    baseline_runtime_ns: float
    best: Proposal
    best_runtime_ns: float
    verdicts: tuple[Verdict, ...]
    stop_reason: str
    comparison: PairedComparison | None = None
    final_reason: str = ""
    by_counters: bool = False
    """True if exact counters confirmed the best source; its emulated time is indistinguishable from the baseline's."""

    @property
    def is_confirmed(self) -> bool | None:
        """True if the final comparison confirmed the best source; None if there was none."""
        return None if self.comparison is None else self.best.id != self.baseline.id

    @property
    def speedup(self) -> float:
        """Baseline runtime divided by best runtime; 1 if the baseline is the best source, or only exact counters differ."""
        if self.best.id == self.baseline.id or self.by_counters or not self.best_runtime_ns:
            return 1.0
        return self.comparison.speedup if self.comparison is not None else self.baseline_runtime_ns / self.best_runtime_ns

    @property
    def weakest_comparison(self) -> PairedComparison | None:
        """Comparison of measured times with the largest gain that it could miss; None without measured times."""
        verdicts = [verdict.comparison for verdict in self.verdicts]
        found = [c for c in (*verdicts, self.comparison) if c is not None and c.smallest_gain is not None]
        return max(found, key=lambda c: c.smallest_gain or 0.0, default=None)


@dataclass
class _Progress:
    """State of the loop."""

    best: MeasuredSource
    alpha: AlphaBudget
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
        start = MeasuredSource(baseline, evaluation.runtime_ns, evaluation.counts)
        progress = _Progress(
            start,
            AlphaBudget(self._policy.search_alpha),
            sources={baseline.id: "the baseline"},
            code={built.code_sha256: "the baseline"},
        )
        stop = self._rounds(progress, [baseline], self._candidate(baseline, built))
        best = progress.best
        if best is start:
            return LoopResult(baseline, start.runtime_ns, baseline, start.runtime_ns, tuple(progress.verdicts), stop)
        comparison, decision = self._compare(start, best, self._policy.acceptance(self._policy.final_alpha))
        if not decision.accepted:
            best = start
            progress.verdicts = [self._withdraw(verdict, decision.reason) for verdict in progress.verdicts]
        return LoopResult(
            baseline,
            start.runtime_ns,
            best.proposal,
            best.runtime_ns,
            tuple(progress.verdicts),
            stop,
            comparison,
            decision.reason if decision.accepted else f"not confirmed by the final comparison: {decision.reason}",
            decision.by_counters,
        )

    def _compare(self, old: MeasuredSource, new: MeasuredSource, acceptance: AcceptanceRule) -> tuple[PairedComparison, Decision]:
        comparison = self._bench.compare(old, new, acceptance)
        return comparison, decide(comparison, acceptance, old, new, use_counters=self._policy.use_counters)

    def _withdraw(self, verdict: Verdict, reason: str) -> Verdict:
        """Return an accepted verdict as rolled back, because the final comparison did not confirm the best source."""
        if not verdict.accepted:
            return verdict
        text = f"{verdict.reason}; rolled back, because the final comparison with the baseline did not confirm the best source: "
        withdrawn = replace(verdict, accepted=False, reason=f"{text}{reason}")
        self._observer.withdrawn(withdrawn)
        return withdrawn

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
            progress.best = MeasuredSource(winner.proposal, winner.runtime_ns, winner.counts)
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
            times = winner.runtime_ns or 0.0, verdict.runtime_ns or 0.0
            reason = reason_of_winner(winner.comparison, winner.proposal.id, times_ns=times)
            verdict = replace(verdict, accepted=False, reason=reason)
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
        if verdict.comparison is not None and verdict.comparison.level is not None and not verdict.accepted:
            progress.alpha.spend(verdict.comparison.level)
        if verdict.code_sha256 is not None:
            progress.code.setdefault(verdict.code_sha256, f"proposal {proposal.id}")
        self._observer.evaluated(verdict)
        return verdict

    def _evaluate(self, proposal: Proposal, progress: _Progress, reference: CandidateSource) -> Verdict:
        checked = check_before_compilation(self._guards, reference.source, SourceUnit(proposal.text.encode(), self._entry))
        refused = rejections_of(checked)
        if refused is not None:
            return Verdict(proposal, False, "guard", refused, guards=checked)
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
        refused = rejections_of(guards)
        if refused is not None:
            return replace(verdict, reason=refused)
        verdict = replace(verdict, code_sha256=built.code_sha256)
        twin = progress.code.get(built.code_sha256)
        if twin is not None:
            return replace(verdict, stage="duplicate", reason=f"same machine code as {twin}")
        return self._measure(proposal, built, verdict, progress)

    def _measure(self, proposal: Proposal, built: BuiltCandidate, verdict: Verdict, progress: _Progress) -> Verdict:
        try:
            evaluation = self._bench.evaluate(proposal, built)
            verdict = replace(verdict, verification=evaluation.verification, uncovered=evaluation.uncovered)
            if not evaluation.verification.passed:
                return replace(verdict, stage="verification", reason=str(evaluation.verification))
            acceptance = self._policy.acceptance(self._level(progress))
            new = MeasuredSource(proposal, evaluation.runtime_ns, evaluation.counts)
            comparison, decision = self._compare(progress.best, new, acceptance)
        except LabError as error:
            return replace(verdict, stage=_stage_of(error), reason=str(error))
        return replace(
            verdict,
            accepted=decision.accepted,
            stage="measurement",
            reason=decision.reason,
            runtime_ns=evaluation.runtime_ns,
            improvement=comparison.improvement,
            comparison=comparison,
            share=evaluation.share,
            counts=evaluation.counts,
            by_counters=decision.by_counters,
        )

    def _level(self, progress: _Progress) -> float:
        """Return the level of the next comparison: an equal part of the rest for each proposal that may follow."""
        return progress.alpha.level(self._policy.max_proposals - len(progress.verdicts))

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
