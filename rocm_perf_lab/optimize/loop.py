"""The closed loop: propose, compile, check guards, verify, measure, and accept or roll back.

The loop is independent of devices and files: a :class:`~rocm_perf_lab.optimize.bench.Bench` builds and evaluates sources, a
:class:`~rocm_perf_lab.optimize.observer.LoopObserver` receives events, and a `VerdictStore` keeps verdicts so that an interrupted
loop can be resumed. Equal inputs yield equal verdicts in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.bench import MeasuredSource
from rocm_perf_lab.optimize.decision import reason_of_winner
from rocm_perf_lab.optimize.evaluation import CandidateEvaluator, compiled_source
from rocm_perf_lab.optimize.loop_result import LoopResult
from rocm_perf_lab.optimize.observer import NullVerdictStore
from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.proposers.base import UnusableAnswer
from rocm_perf_lab.optimize.ranking import reason_to_stop
from rocm_perf_lab.optimize.search import GreedySearch
from rocm_perf_lab.statistics.error_control import AlphaBudget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocm_perf_lab.optimize.bench import Bench, BuiltCandidate, Evaluation
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.observer import LoopObserver, VerdictStore
    from rocm_perf_lab.optimize.policy import LoopPolicy
    from rocm_perf_lab.optimize.proposers.base import Offer, Proposer
    from rocm_perf_lab.optimize.search import ParentSelection, Search

_MOST_IDLE_ROUNDS = 3
"""Rounds without a new proposal after which a search that always has parents stops."""


@dataclass
class _Progress:
    """State of the loop."""

    best: MeasuredSource
    alpha: AlphaBudget
    verdicts: list[Verdict] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """Name of each proposal for reasons, by id."""
    code: dict[str, str] = field(default_factory=dict)
    """Name of each proposal for reasons, by hash of its machine code."""
    exhausted: str | None = None
    """Limit of the loop that was reached, if any."""
    proposer_stop: str | None = None
    """Reason of the proposer to stop, if any."""


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
        store: Stores verdicts for resuming; None stores nothing.
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
        reference = compiled_source(baseline, built, self._entry)
        evaluator = CandidateEvaluator(self._bench, self._entry, self._guards, self._policy, reference)
        stop = self._rounds(progress, self._search.start(_verdict_on_baseline(baseline, built, evaluation)), evaluator)
        parents = {verdict.proposal.parent_id for verdict in progress.verdicts}
        progress.verdicts = [replace(v, followed=v.followed or v.proposal.id in parents) for v in progress.verdicts]
        best = progress.best
        if best is start:
            return LoopResult(baseline, start.runtime_ns, baseline, start.runtime_ns, tuple(progress.verdicts), stop)
        comparison, decision = evaluator.compare(start, best, self._policy.acceptance(self._policy.final_alpha))
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

    def _withdraw(self, verdict: Verdict, reason: str) -> Verdict:
        """Return an accepted verdict as rolled back, because the final comparison did not confirm the best source."""
        if not verdict.accepted:
            return verdict
        text = f"{verdict.reason}; rolled back, because the final comparison with the baseline did not confirm the best source: "
        withdrawn = replace(verdict, accepted=False, reason=f"{text}{reason}")
        self._observer.withdrawn(withdrawn)
        return withdrawn

    def _rounds(self, progress: _Progress, parents: list[ParentSelection], evaluator: CandidateEvaluator) -> str:
        """Run rounds and return the reason to stop."""
        idle = 0
        for _ in range(self._policy.max_iterations):
            before = len(progress.verdicts)
            winner, followed = self._round(progress, parents, evaluator)
            if progress.proposer_stop is not None:
                return progress.proposer_stop
            if progress.exhausted is not None:
                return progress.exhausted
            if winner is not None and winner.share is not None:
                stop = reason_to_stop(winner.share, self._policy.min_improvement)
                if stop is not None:
                    return stop
            idle = idle + 1 if len(progress.verdicts) == before else 0
            if idle >= _MOST_IDLE_ROUNDS:
                return "no further proposal was made"
            if followed:
                parents = followed
            elif not self._proposer.learns or idle:
                return "no further proposal was accepted"
        return f"optimizer.max_iterations ({self._policy.max_iterations}) reached"

    def _round(
        self, progress: _Progress, parents: Sequence[ParentSelection], evaluator: CandidateEvaluator
    ) -> tuple[Verdict | None, list[ParentSelection]]:
        """Evaluate the offers for all parents; return the new best verdict and the parents of the next round."""
        first = len(progress.verdicts)
        for verdict in self._expand(progress, parents, evaluator):
            progress.verdicts.append(verdict)
        verdicts = progress.verdicts[first:]
        winner = max((v for v in verdicts if v.accepted), key=lambda v: v.improvement or 0.0, default=None)
        if winner is not None and winner.runtime_ns is not None:
            progress.best = MeasuredSource(winner.proposal, winner.runtime_ns, winner.counts)
        followed = self._search.follow(verdicts, winner, progress.best.runtime_ns)
        names = {selection.parent.id for selection in followed}
        progress.verdicts[first:] = [self._settle(v, winner, followed=v.proposal.id in names) for v in verdicts]
        return winner, followed

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

    def _expand(
        self, progress: _Progress, parents: Sequence[ParentSelection], evaluator: CandidateEvaluator
    ) -> Iterator[Verdict]:
        """Yield verdicts on the offers for all parents. Repetitions are skipped unless the proposer learns from them."""
        if self._is_out_of_budget(progress):
            return
        offers = self._proposer.offers(parents, tuple(progress.verdicts))
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
                verdict = self._evaluate_offer(offer, progress, known, evaluator)
                yield verdict
                if self._proposer.learns and self._is_out_of_budget(progress):
                    offers.close()  # The next offer may cost money.
                    return
                offer = offers.send(verdict)
        except StopIteration as end:
            progress.proposer_stop = end.value

    def _is_out_of_budget(self, progress: _Progress) -> bool:
        """Return whether a limit is reached. Verdicts from before an interruption are within the time limit."""
        limit = self._policy.max_seconds
        if len(progress.verdicts) >= self._policy.max_proposals:
            progress.exhausted = "optimizer.max_proposals reached"
        elif limit is not None and not self._store.is_replaying and self._store.elapsed_s >= limit:
            progress.exhausted = f"optimizer.max_seconds ({limit:g}) reached"
        return progress.exhausted is not None

    def _evaluate_offer(self, offer: Offer, progress: _Progress, known: str | None, evaluator: CandidateEvaluator) -> Verdict:
        proposal = offer.proposal if isinstance(offer, UnusableAnswer) else offer
        self._observer.proposed(proposal, len(progress.verdicts) + 1)
        verdict = _repeated(offer, known) if known is not None else self._store.recall(proposal)
        if verdict is None:
            if isinstance(offer, UnusableAnswer):
                verdict = Verdict(proposal, False, "answer", offer.reason)
            else:
                level = progress.alpha.level(self._policy.max_proposals - len(progress.verdicts))
                verdict = evaluator.evaluate(proposal, progress.best, level=level, known_code=progress.code)
            self._store.remember(verdict)
        progress.sources.setdefault(proposal.id, f"proposal {proposal.id}")
        if verdict.comparison is not None and verdict.comparison.level is not None and not verdict.accepted:
            progress.alpha.spend(verdict.comparison.level)
        if verdict.code_sha256 is not None:
            progress.code.setdefault(verdict.code_sha256, f"proposal {proposal.id}")
        self._observer.evaluated(verdict)
        return verdict


def _verdict_on_baseline(baseline: Proposal, built: BuiltCandidate, evaluation: Evaluation) -> Verdict:
    """Return the unmodified source in the form of a verdict, as the first parent of a search."""
    return Verdict(
        baseline,
        True,
        "measurement",
        "the unmodified source",
        kernel=built.kernel,
        occupancy_waves=built.occupancy_waves,
        runtime_ns=evaluation.runtime_ns,
        share=evaluation.share,
        counts=evaluation.counts,
        profile=evaluation.profile,
    )


def _repeated(offer: Offer, known: str) -> Verdict:
    if isinstance(offer, UnusableAnswer):
        return Verdict(offer.proposal, False, "answer", offer.reason)
    return Verdict(offer, False, "duplicate", f"same source as {known}")
