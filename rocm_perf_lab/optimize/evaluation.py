"""Evaluation of one proposal: guards, compilation, guards of the compiled code, trials, and the comparison of its time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.bench import GateError, MeasuredSource
from rocm_perf_lab.optimize.decision import Decision, decide
from rocm_perf_lab.optimize.guards import check_before_compilation, rejections_of
from rocm_perf_lab.optimize.inspection import CandidateSource
from rocm_perf_lab.optimize.proposal import Proposal, Stage, Verdict
from rocm_perf_lab.optimize.source_tree import SourceUnit, parse_source
from rocm_perf_lab.toolchain.build import CompileError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.optimize.bench import Bench, BuiltCandidate
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.policy import LoopPolicy
    from rocm_perf_lab.statistics.paired_test import AcceptanceRule, PairedComparison


@dataclass(frozen=True)
class CandidateEvaluator:
    """Evaluates proposals for one kernel.

    Args:
        bench: Builds, runs and compares sources.
        entry: Name or symbol of the kernel.
        guards: Static checks.
        policy: Acceptance rules.
        reference: The compiled unmodified source, with which guards compare.
    """

    bench: Bench
    entry: str
    guards: Sequence[Guard]
    policy: LoopPolicy
    reference: CandidateSource

    def evaluate(self, proposal: Proposal, best: MeasuredSource, *, level: float, known_code: Mapping[str, str]) -> Verdict:
        """Return the verdict of the first stage that rejects a proposal, or that of the measurement.

        Args:
            proposal: Proposal.
            best: Best source so far.
            level: Significance level of the comparison with the best source.
            known_code: Names of evaluated proposals by the hash of their machine code.
        """
        checked = check_before_compilation(self.guards, self.reference.source, SourceUnit(proposal.text.encode(), self.entry))
        refused = rejections_of(checked)
        if refused is not None:
            return Verdict(proposal, False, "guard", refused, guards=checked)
        try:
            built = self.bench.build(proposal)
            candidate = compiled_source(proposal, built, self.entry)
        except LabError as error:
            return Verdict(proposal, False, "compile", error.what, log=error.log if isinstance(error, CompileError) else "")
        guards = tuple(guard.check(self.reference, candidate) for guard in self.guards)
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
        twin = known_code.get(built.code_sha256)
        if twin is not None:
            return replace(verdict, stage="duplicate", reason=f"same machine code as {twin}")
        return self._measure(proposal, built, verdict, best, self.policy.acceptance(level))

    def compare(self, old: MeasuredSource, new: MeasuredSource, acceptance: AcceptanceRule) -> tuple[PairedComparison, Decision]:
        """Compare two sources, and decide whether the new one is accepted."""
        comparison = self.bench.compare(old, new, acceptance)
        return comparison, decide(comparison, acceptance, old, new, use_counters=self.policy.use_counters)

    def _measure(
        self, proposal: Proposal, built: BuiltCandidate, verdict: Verdict, best: MeasuredSource, acceptance: AcceptanceRule
    ) -> Verdict:
        try:
            evaluation = self.bench.evaluate(proposal, built)
            verdict = replace(verdict, verification=evaluation.verification, uncovered=evaluation.uncovered)
            if not evaluation.verification.passed:
                return replace(verdict, stage="verification", reason=str(evaluation.verification))
            new = MeasuredSource(proposal, evaluation.runtime_ns, evaluation.counts)
            comparison, decision = self.compare(best, new, acceptance)
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
            profile=evaluation.profile,
        )


def compiled_source(proposal: Proposal, built: BuiltCandidate, entry: str) -> CandidateSource:
    """Return the input of guards for a compiled proposal.

    Raises:
        SourceError: The source does not contain the kernel.
    """
    unit = parse_source(proposal.text.encode(), entry)
    return CandidateSource(unit, built.kernel, built.occupancy_waves, built.inspection)


def _stage_of(error: LabError) -> Stage:
    return "gate" if isinstance(error, GateError) else "verification"
