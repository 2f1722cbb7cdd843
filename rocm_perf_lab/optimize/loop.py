"""The closed loop: propose, compile, guard, check, measure, keep or roll back.

It knows neither devices nor files: a :class:`Bench` builds and evaluates sources, an :class:`Observer` is told what
happens. Nothing is printed here. Equal inputs give equal verdicts in equal order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.errors import LabError
from rocm_perf_lab.optimize.guards import Candidate
from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.source_tree import parse_source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.guards import Guard, GuardResult
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.optimize.verification import VerificationResult
    from rocm_perf_lab.toolchain.code_object import KernelMetadata


@dataclass(frozen=True)
class Built:
    """A compiled source. `code_sha256` is of the machine code alone, without line tables."""

    kernel: KernelMetadata
    code_sha256: str
    occupancy_waves: float
    cached: bool


@dataclass(frozen=True)
class Evaluation:
    """One evaluated build. `runtime_ns` of the kernel on the device, measured or emulated as the device is."""

    verification: VerificationResult
    runtime_ns: float


class Bench(Protocol):
    """Turns sources into numbers."""

    def build(self, proposal: Proposal) -> Built:
        """Compile; a LabError rejects the proposal."""
        ...

    def evaluate(self, proposal: Proposal, built: Built) -> Evaluation:
        """Run and check; a LabError rejects the proposal."""
        ...


class Observer(Protocol):
    """Is told what the loop does."""

    def proposed(self, proposal: Proposal, number: int) -> None:
        """A proposal is about to be judged."""
        ...

    def judged(self, verdict: Verdict) -> None:
        """Its verdict, before it is known whether it is the best of its iteration."""
        ...

    def accepted(self, verdict: Verdict) -> None:
        """It is the new best."""
        ...

    def rolled_back(self, verdict: Verdict) -> None:
        """It ran, and the best source stays what it was."""
        ...


@dataclass(frozen=True)
class Policy:
    """When the loop accepts and when it stops. `min_improvement` is relative to the best runtime so far."""

    min_improvement: float
    max_iterations: int
    max_proposals: int


@dataclass(frozen=True)
class LoopResult:
    """Where the loop ended. `verdicts` in the order in which they were reached."""

    baseline: Proposal
    baseline_runtime_ns: float
    best: Proposal
    best_runtime_ns: float
    verdicts: tuple[Verdict, ...]
    stop_reason: str

    @property
    def speedup(self) -> float:
        """Baseline time over best time."""
        return self.baseline_runtime_ns / self.best_runtime_ns


class ClosedLoop:
    """Greedy search: the best proposal of an iteration that clears the bar becomes the parent of the next."""

    def __init__(
        self,
        *,
        bench: Bench,
        entry: str,
        transforms: Sequence[Transform],
        guards: Sequence[Guard],
        policy: Policy,
        observer: Observer,
    ) -> None:
        self._bench = bench
        self._entry = entry
        self._transforms = transforms
        self._guards = guards
        self._policy = policy
        self._observer = observer
        self._verdicts: list[Verdict] = []
        self._seen_sources: set[str] = set()
        self._seen_code: dict[str, str] = {}
        self._out_of_budget = False

    def run(self, baseline: Proposal, built: Built, evaluation: Evaluation) -> LoopResult:
        """Search from a baseline that was built and evaluated already."""
        self._seen_sources.add(baseline.id)
        self._seen_code[built.code_sha256] = "the baseline"
        reference = self._candidate(baseline, built)
        best, best_ns = baseline, evaluation.runtime_ns
        stop = f"optimizer.max_iterations ({self._policy.max_iterations}) reached"
        for _ in range(self._policy.max_iterations):
            winner = self._iterate(best, best_ns, reference)
            if winner is None:
                stop = "optimizer.max_proposals reached" if self._out_of_budget else "no further proposal was accepted"
                break
            best, best_ns = winner.proposal, winner.runtime_ns or best_ns
        return LoopResult(baseline, evaluation.runtime_ns, best, best_ns, tuple(self._verdicts), stop)

    def _iterate(self, best: Proposal, best_ns: float, reference: Candidate) -> Verdict | None:
        """Judge every proposal from `best`; accept the fastest that clears the bar."""
        judged: list[Verdict] = []
        for proposal in self._proposals(best):
            if len(self._verdicts) + len(judged) >= self._policy.max_proposals:
                self._out_of_budget = True
                break
            self._observer.proposed(proposal, len(self._verdicts) + len(judged) + 1)
            verdict = self._judge(proposal, best_ns, reference)
            self._observer.judged(verdict)
            judged.append(verdict)
        eligible = [v for v in judged if v.accepted]
        winner = min(eligible, key=lambda v: v.runtime_ns or 0.0, default=None)
        for verdict in judged:
            self._verdicts.append(self._settle(verdict, winner))
        return winner

    def _settle(self, verdict: Verdict, winner: Verdict | None) -> Verdict:
        if verdict is winner:
            self._observer.accepted(verdict)
            return verdict
        if verdict.accepted and winner is not None:
            verdict = replace(verdict, accepted=False, reason=f"proposal {winner.proposal.id} is faster")
        if verdict.stage in ("verification", "measurement"):
            self._observer.rolled_back(verdict)
        return verdict

    def _proposals(self, best: Proposal) -> list[Proposal]:
        unit = parse_source(best.text.encode(), self._entry)
        fresh = []
        for transform in self._transforms:
            for rewrite in transform.propose(unit):
                proposal = Proposal.of(rewrite.text, transform=transform.name, description=rewrite.description, parent=best)
                if proposal.id not in self._seen_sources:
                    self._seen_sources.add(proposal.id)
                    fresh.append(proposal)
        return fresh

    def _judge(self, proposal: Proposal, best_ns: float, reference: Candidate) -> Verdict:
        try:
            built = self._bench.build(proposal)
            candidate = self._candidate(proposal, built)
        except LabError as error:
            return Verdict(proposal, False, "compile", error.what)
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
        twin = self._seen_code.setdefault(built.code_sha256, f"proposal {proposal.id}")
        if twin != f"proposal {proposal.id}":
            return replace(verdict, stage="duplicate", reason=f"same machine code as {twin}")
        return self._measure(proposal, built, verdict, best_ns)

    def _measure(self, proposal: Proposal, built: Built, verdict: Verdict, best_ns: float) -> Verdict:
        try:
            evaluation = self._bench.evaluate(proposal, built)
        except LabError as error:
            return replace(verdict, stage="verification", reason=str(error))
        verdict = replace(verdict, verification=evaluation.verification)
        if not evaluation.verification.passed:
            return replace(verdict, stage="verification", reason=str(evaluation.verification))
        improvement = (best_ns - evaluation.runtime_ns) / best_ns
        accepted = evaluation.runtime_ns < best_ns and improvement >= self._policy.min_improvement
        return replace(
            verdict,
            accepted=accepted,
            stage="measurement",
            reason=_measured_reason(improvement, self._policy.min_improvement),
            runtime_ns=evaluation.runtime_ns,
            improvement=improvement,
        )

    def _candidate(self, proposal: Proposal, built: Built) -> Candidate:
        return Candidate(parse_source(proposal.text.encode(), self._entry), built.kernel, built.occupancy_waves)

    def _check_guards(self, reference: Candidate, candidate: Candidate) -> tuple[GuardResult, ...]:
        return tuple(guard.check(reference, candidate) for guard in self._guards)


def _measured_reason(improvement: float, bar: float) -> str:
    if improvement >= bar and improvement > 0:
        return f"{improvement:.1%} less time"
    if improvement > 0:
        return f"only {improvement:.1%} less time, {bar:.1%} is asked for"
    return f"{-improvement:.1%} more time" if improvement < 0 else "the same time"
