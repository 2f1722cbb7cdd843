"""Decisions of the closed loop over a whole run: the final comparison, levels of comparisons, and exact counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.optimize.bench import BuiltCandidate, Evaluation, MeasuredSource
from rocm_perf_lab.optimize.counter_rule import DECIDING_COUNTERS, ExactCounts, decide_by_counters
from rocm_perf_lab.optimize.loop import ClosedLoop
from rocm_perf_lab.optimize.policy import LoopPolicy
from rocm_perf_lab.optimize.proposal import Proposal
from rocm_perf_lab.optimize.proposers.transforms import TransformProposer
from rocm_perf_lab.statistics.error_bands import RatioBand
from rocm_perf_lab.statistics.paired_test import AcceptanceRule, PairedComparison, compare_emulated
from rocm_perf_lab.verify.outputs import VerificationResult
from tests.optimize.test_loop import Diary, Steps, metadata, name_of, text_of, verdicts

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.loop_result import LoopResult

BAND = RatioBand(coverage=0.9, factor=1.25)


def counts(waves: float = 8.0, **changed: float) -> ExactCounts:
    """Counts of a launch with 1000 instructions, of which 200 are reads."""
    values = dict.fromkeys(DECIDING_COUNTERS, 0.0) | {"SQ_INSTS": 1000.0, "SQ_INSTS_VALU": 800.0, "SQ_INSTS_VMEM_RD": 200.0}
    return ExactCounts(values | changed, waves)


@dataclass
class ScriptedBench:
    """Comparisons by names: gains with a lower bound; emulated times if there is a band."""

    gains: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    runtimes: dict[str, float] = field(default_factory=dict)
    counts: dict[str, ExactCounts] = field(default_factory=dict)
    band: RatioBand | None = None
    levels: list[float] = field(default_factory=list)

    def build(self, proposal: Proposal) -> BuiltCandidate:
        """Names replace machine code."""
        return BuiltCandidate(metadata(4), name_of(proposal), occupancy_waves=8.0, cached=False)

    def evaluate(self, proposal: Proposal, built: BuiltCandidate) -> Evaluation:
        """A correct result."""
        name = name_of(proposal)
        return Evaluation(VerificationResult(()), self.runtimes.get(name, 900.0), counts=self.counts.get(name))

    def compare(self, old: MeasuredSource, new: MeasuredSource, acceptance: AcceptanceRule) -> PairedComparison:
        """The scripted gain, at the level of the rule."""
        if self.band is not None:
            return compare_emulated(old.runtime_ns, new.runtime_ns, self.band)
        self.levels.append(acceptance.own_level)
        gain, least = self.gains[name_of(old.proposal), name_of(new.proposal)]
        return PairedComparison(
            gain, least, 2 * gain - least, 0.95, 64, "script", level=acceptance.own_level, planned_pairs=64, smallest_gain=0.025
        )


def run(
    bench: ScriptedBench, follows: dict[str, list[str]], *, diary: Diary | None = None, use_counters: bool = False
) -> LoopResult:
    """Run the loop from the source `base`."""
    loop = ClosedLoop(
        bench=bench,
        entry="k",
        proposer=TransformProposer([Steps(follows)], "k"),
        guards=(),
        policy=LoopPolicy(0.02, 5, 4, use_counters=use_counters),
        observer=diary or Diary(),
    )
    baseline = Proposal.of(text_of("base"), transform="none", description="as it is", parent=None)
    built = BuiltCandidate(metadata(4), "base", occupancy_waves=8.0, cached=False)
    return loop.run(baseline, built, Evaluation(VerificationResult(()), 1000.0, counts=bench.counts.get("base")))


def test_a_confirmed_winner_is_the_result() -> None:
    bench = ScriptedBench({("base", "a"): (0.05, 0.01)})

    result = run(bench, {"base": ["a"]})

    assert (name_of(result.best), result.is_confirmed) == ("a", True)
    assert result.speedup == pytest.approx(1 / 0.95)
    assert result.final_reason.startswith("5.0% less time")


def test_the_result_is_the_baseline_if_the_final_comparison_fails() -> None:
    diary = Diary()
    bench = ScriptedBench({("base", "a"): (0.05, 0.01), ("a", "b"): (0.03, 0.01), ("base", "b"): (0.004, -0.01)})

    result = run(bench, {"base": ["a"], "a": ["b"]}, diary=diary)

    assert (result.best, result.best_runtime_ns, result.speedup, result.is_confirmed) == (result.baseline, 1000.0, 1.0, False)
    assert not any(verdict.accepted for verdict in result.verdicts)
    assert diary.lines[-2:] == ["withdrawn a: False", "withdrawn b: False"]
    expected = "rolled back, because the final comparison with the baseline did not confirm the best source: only 0.4% less time"
    assert all(expected in verdict.reason for verdict in result.verdicts)
    assert result.final_reason.startswith("not confirmed by the final comparison: only 0.4% less time, 2.0% required")


def test_the_levels_of_a_run_add_up_to_its_error_probability() -> None:
    gains = {("base", name): (0.001, -0.01) for name in ("a", "b", "c", "d")}
    bench = ScriptedBench(gains)

    run(bench, {"base": ["a", "b", "c", "d"]})

    assert bench.levels == pytest.approx([0.01] * 4)  # 80 % of 5 %, for at most 4 proposals; no final comparison


def test_an_accepted_proposal_returns_its_level_and_the_final_comparison_has_its_own() -> None:
    gains = {("base", "a"): (0.05, 0.01), ("base", "b"): (0.001, -0.01), ("a", "c"): (0.001, -0.01)}
    bench = ScriptedBench(gains)

    run(bench, {"base": ["a", "b"], "a": ["c"]})

    # a: 0.04 / 4 and accepted; b: 0.04 / 3; c: (0.04 - 0.04 / 3) / 2; final: 20 % of 5 %
    assert bench.levels == pytest.approx([0.01, 0.04 / 3, 0.04 / 3, 0.01])


def test_the_weakest_comparison_states_the_power_of_the_run() -> None:
    weakest = run(ScriptedBench({("base", "a"): (0.001, -0.01)}), {"base": ["a"]}).weakest_comparison

    assert weakest is not None
    assert (weakest.smallest_gain, weakest.planned_pairs) == (0.025, 64)


# Exact counters


def test_counters_decide_between_indistinguishable_times_if_asked() -> None:
    bench = ScriptedBench(
        runtimes={"a": 990.0},
        counts={"base": counts(), "a": counts(SQ_INSTS=950.0, SQ_INSTS_VMEM_RD=150.0)},
        band=BAND,
    )

    asked = run(bench, {"base": ["a"]}, use_counters=True)

    verdict = verdicts(asked)["a"]
    assert (verdict.accepted, verdict.by_counters) == (True, True)
    assert verdict.reason.startswith("indistinguishable in time (speed-up 0.808 to 1.263")
    assert verdict.reason.endswith("accepted by exact counters: 25% fewer VMEM reads, none grew")
    assert (name_of(asked.best), asked.by_counters, asked.speedup) == ("a", True, 1.0)
    assert not verdicts(run(bench, {"base": ["a"]}))["a"].accepted


def decision(new: ExactCounts | None, new_ns: float = 1000.0) -> tuple[bool, str]:
    found = decide_by_counters(counts(), new, old_ns=1000.0, new_ns=new_ns)
    return found.accepted, found.reason


@pytest.mark.parametrize(
    ("new", "new_ns", "reason"),
    [
        (counts(SQ_INSTS=950.0, SQ_INSTS_VMEM_RD=150.0), 1001.0, "exact counters do not decide for a longer emulated time"),
        (
            counts(SQ_INSTS=950.0, SQ_INSTS_VMEM_RD=150.0, SQ_INSTS_LDS=1.0),
            1000.0,
            "exact counters do not decide: more LDS instructions",
        ),
        (
            counts(SQ_INSTS=950.0, SQ_INSTS_VALU=750.0, SQ_INSTS_VALU_TRANS_F32=10.0),
            1000.0,
            "exact counters do not decide: more transcendental f32 instructions",
        ),
        (counts(4.0, SQ_INSTS=950.0, SQ_INSTS_VMEM_RD=150.0), 1000.0, "occupancy falls from 8 to 4 waves per SIMD"),
        (counts(SQ_INSTS=999.0, SQ_INSTS_VMEM_RD=199.0), 1000.0, "no exact counter falls by 5%"),
        (counts(SQ_INSTS=989.0, SQ_INSTS_VMEM_RD=189.0), 1000.0, "no exact counter falls by 5%"),  # 5.5 % of reads, 1.1 % of all
        (None, 1000.0, "exact counters cannot decide without both counts"),
        (ExactCounts({"SQ_INSTS": 1.0}, 8.0), 1000.0, "exact counters cannot decide without SQ_INSTS_VALU, "),
    ],
)
def test_counters_decide_only_if_nothing_is_worse(new: ExactCounts | None, new_ns: float, reason: str) -> None:
    accepted, found = decision(new, new_ns)

    assert not accepted
    assert found.startswith(reason)


def test_fewer_bank_conflicts_decide() -> None:
    old, new = counts(SQ_LDS_BANK_CONFLICT=64.0), counts(SQ_LDS_BANK_CONFLICT=0.0)

    found = decide_by_counters(old, new, old_ns=1000.0, new_ns=1000.0)

    assert (found.accepted, found.reason) == (True, "accepted by exact counters: 100% fewer LDS bank-conflict cycles, none grew")
