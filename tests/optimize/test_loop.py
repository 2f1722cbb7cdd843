"""The closed loop, with a bench of fixed runtimes: acceptance, rollback and stopping.

A source here is a kernel and a name in a comment; `RULES` of a test say which names follow from which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.spec import Tolerance
from rocm_perf_lab.optimize.bench import BuiltCandidate, Evaluation, MeasuredSource
from rocm_perf_lab.optimize.evolution import EvolutionarySearch, EvolutionRules
from rocm_perf_lab.optimize.guards import GuardResult
from rocm_perf_lab.optimize.loop import ClosedLoop
from rocm_perf_lab.optimize.policy import LoopPolicy
from rocm_perf_lab.optimize.profile_summary import ProfileSummary
from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.optimize.proposers.base import UnusableAnswer
from rocm_perf_lab.optimize.proposers.transforms import TransformProposer
from rocm_perf_lab.optimize.ranking import KernelShare
from rocm_perf_lab.optimize.resume import Journal
from rocm_perf_lab.optimize.search import BeamSearch
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.statistics.error_bands import RatioBand
from rocm_perf_lab.statistics.paired_test import AcceptanceRule, PairedComparison, compare_emulated
from rocm_perf_lab.toolchain.build import CompileError
from rocm_perf_lab.toolchain.code_object import KernelDescriptor, KernelMetadata
from rocm_perf_lab.verify.outputs import VerificationResult, verify_outputs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.optimize.loop_result import LoopResult
    from rocm_perf_lab.optimize.observer import VerdictStore
    from rocm_perf_lab.optimize.proposers.base import Offers, Proposer
    from rocm_perf_lab.optimize.search import ParentSelection, Search
    from rocm_perf_lab.optimize.source_tree import SourceUnit

KERNEL = 'extern "C" __global__ void k() {}  // '
BASELINE_NS = 1000.0


def text_of(name: str) -> str:
    return f"{KERNEL}{name}\n"


def name_of(proposal: Proposal) -> str:
    return proposal.text.rpartition("// ")[2].strip()


def metadata(vgpr_count: int) -> KernelMetadata:
    return KernelMetadata(
        symbol="k",
        name="k",
        entry_address=0,
        code_bytes=4,
        descriptor_address=0,
        descriptor=KernelDescriptor(0, 0, 0, 0, 0, 0, 0, 0, 0),
        vgpr_count=vgpr_count,
        agpr_count=0,
        sgpr_count=8,
        vgpr_spill_count=0,
        sgpr_spill_count=0,
        lds_bytes=0,
        scratch_bytes=0,
        kernarg_bytes=0,
        kernarg_alignment=8,
        wavefront_size=64,
        max_flat_workgroup_size=1024,
        required_workgroup_size=None,
        uses_dynamic_stack=False,
        arguments=(),
    )


@dataclass
class Steps:
    """A transform: the names that follow from a name, in that order."""

    follows: dict[str, list[str]]
    name: str = "steps"

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """One rewrite for each following name."""
        current = unit.content.decode().rpartition("// ")[2].strip()
        return tuple(Rewrite(f"to {name}", text_of(name)) for name in self.follows.get(current, []))

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """None."""
        return ()


@dataclass
class TableBench:
    """Runtimes by name; a name without one does not compile."""

    runtimes: dict[str, float]
    same_code: dict[str, str] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    crashing: set[str] = field(default_factory=set)
    headroom: dict[str, float] = field(default_factory=dict)
    bottlenecks: dict[str, str] = field(default_factory=dict)
    band: RatioBand | None = None
    built: list[str] = field(default_factory=list)
    evaluated: list[str] = field(default_factory=list)

    def build(self, proposal: Proposal) -> BuiltCandidate:
        """Names replace machine code."""
        name = name_of(proposal)
        self.built.append(name)
        if name not in self.runtimes:
            raise CompileError("k.hip:1:2: expected ';'", log="all it said", where="k.hip")
        return BuiltCandidate(metadata(vgpr_count=len(name)), self.same_code.get(name, name), occupancy_waves=8.0, cached=False)

    def evaluate(self, proposal: Proposal, built: BuiltCandidate) -> Evaluation:
        """The runtime of the table."""
        name = name_of(proposal)
        self.evaluated.append(name)
        if name in self.crashing:
            raise LabError("memory fault", where="k", hint="look at the index")
        output = {"y": np.array([2.0 if name in self.wrong else 1.0])}
        verification = verify_outputs(output, {"y": np.array([1.0])}, {"y": Tolerance(rtol=1e-5, atol=1e-6)})
        share = KernelShare("k", 1.0, self.headroom[name]) if name in self.headroom else None
        return Evaluation(verification, self.runtimes[name], share, profile=ProfileSummary(self.bottlenecks.get(name, "")))

    def compare(self, old: MeasuredSource, new: MeasuredSource, acceptance: AcceptanceRule) -> PairedComparison:
        """Without noise; with the error band, if there is one."""
        if self.band is not None:
            return compare_emulated(old.runtime_ns, new.runtime_ns, self.band)
        gain = (old.runtime_ns - new.runtime_ns) / old.runtime_ns
        return PairedComparison(gain, gain, gain, 1.0, 1, "two times of a table")


@dataclass
class Diary:
    """An observer that records events."""

    lines: list[str] = field(default_factory=list)

    def proposed(self, proposal: Proposal, number: int) -> None:
        """With its number."""
        self.lines.append(f"proposed {number} {name_of(proposal)}")

    def evaluated(self, verdict: Verdict) -> None:
        """With the stage."""
        self.lines.append(f"evaluated {name_of(verdict.proposal)}: {verdict.stage}")

    def accepted(self, verdict: Verdict) -> None:
        """The best."""
        self.lines.append(f"accepted {name_of(verdict.proposal)}")

    def rolled_back(self, verdict: Verdict) -> None:
        """Not the best."""
        self.lines.append(f"rolled back {name_of(verdict.proposal)}")

    def withdrawn(self, verdict: Verdict) -> None:
        """Not confirmed by the final comparison."""
        self.lines.append(f"withdrawn {name_of(verdict.proposal)}: {verdict.accepted}")


@dataclass(frozen=True)
class FewRegisters:
    """A guard: a name has at most so many letters (the bench counts them as registers)."""

    most: int

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare the count."""
        return GuardResult("registers", candidate.kernel.vgpr_count <= self.most, f"{candidate.kernel.vgpr_count} used")


def search(
    bench: TableBench,
    follows: dict[str, list[str]],
    *,
    min_improvement: float = 0.1,
    max_iterations: int = 5,
    max_proposals: int = 50,
    max_seconds: float | None = None,
    guards: tuple[FewRegisters, ...] = (),
    observer: Diary | None = None,
    strategy: Search | None = None,
    proposer: Proposer | None = None,
    store: VerdictStore | None = None,
) -> LoopResult:
    """Run the loop from the source `base`."""
    loop = ClosedLoop(
        bench=bench,
        entry="k",
        proposer=proposer or TransformProposer([Steps(follows)], "k"),
        guards=guards,
        policy=LoopPolicy(min_improvement, max_iterations, max_proposals, max_seconds=max_seconds),
        observer=observer or Diary(),
        search=strategy,
        store=store,
    )
    baseline = Proposal.of(text_of("base"), transform="none", description="as it is", parent=None)
    built = BuiltCandidate(metadata(vgpr_count=4), "base", occupancy_waves=8.0, cached=False)
    return loop.run(baseline, built, Evaluation(VerificationResult(()), BASELINE_NS))


def verdicts(result: LoopResult) -> dict[str, Verdict]:
    return {name_of(verdict.proposal): verdict for verdict in result.verdicts}


AT = "at 95% confidence, error band of the emulator"


# What is accepted


@pytest.mark.parametrize(
    ("runtime", "accepted", "reason"),
    [
        (500.0, True, "50.0% less time"),
        (900.0, True, "10.0% less time"),  # just what required
        (901.0, False, "only 9.9% less time, 10.0% required"),
        (1000.0, False, "the same time"),
        (1250.0, False, "25.0% more time"),
    ],
)
def test_a_proposal_is_accepted_if_it_gains_the_required_improvement(runtime: float, accepted: bool, reason: str) -> None:
    result = search(TableBench({"a": runtime}), {"base": ["a"]}, min_improvement=0.1)

    verdict = verdicts(result)["a"]
    assert (verdict.accepted, verdict.stage, verdict.reason) == (accepted, "measurement", reason)
    assert verdict.runtime_ns == runtime
    assert verdict.improvement == pytest.approx(1 - runtime / BASELINE_NS)
    assert name_of(result.best) == ("a" if accepted else "base")
    assert result.best_runtime_ns == (runtime if accepted else BASELINE_NS)


def test_an_equal_time_is_never_an_improvement() -> None:
    assert not verdicts(search(TableBench({"a": 1000.0}), {"base": ["a"]}, min_improvement=0.0))["a"].accepted
    assert verdicts(search(TableBench({"a": 999.0}), {"base": ["a"]}, min_improvement=0.0))["a"].accepted


def test_the_fastest_proposal_of_a_round_wins_and_the_others_name_it() -> None:
    result = search(TableBench({"a": 800.0, "b": 500.0, "c": 700.0}), {"base": ["a", "b", "c"]})

    found = verdicts(result)
    assert [name for name, verdict in found.items() if verdict.accepted] == ["b"]
    assert found["a"].reason == found["c"].reason == f"proposal {result.best.id} is faster"
    assert found["a"].improvement == pytest.approx(0.2)
    assert result.speedup == 2.0


def test_of_equally_fast_proposals_the_first_wins() -> None:
    assert name_of(search(TableBench({"a": 500.0, "b": 500.0}), {"base": ["a", "b"]}).best) == "a"


def test_the_winner_is_the_parent_and_reference_of_the_next_round() -> None:
    bench = TableBench({"a": 500.0, "b": 480.0, "c": 300.0, "d": 100.0})

    result = search(bench, {"base": ["a"], "a": ["b", "c"], "b": ["d"]}, min_improvement=0.1)

    found = verdicts(result)
    assert name_of(result.best) == "c"
    assert found["c"].proposal.parent_id == found["a"].proposal.id
    assert found["c"].improvement == pytest.approx(0.4)  # of 500, not of 1000
    assert found["b"].reason == "only 4.0% less time, 10.0% required"
    assert "d" not in bench.built  # b was rolled back and has no children


@pytest.mark.parametrize(
    ("runtime", "accepted", "indistinguishable", "reason"),
    [
        # The band is a factor of 1.25, so 1000 / 1.25 = 800 is its edge; 10 % more are required: 1000 * 0.9 / 1.25 = 720.
        (720.0, True, False, f"28.0% less time (speed-up 1.111 to 1.736 {AT})"),
        (750.0, True, False, f"25.0% less time (speed-up 1.067 to 1.667 {AT})"),
        (
            800.0,
            False,
            True,
            f"indistinguishable on the emulator: 20.0% less time (speed-up 1.000 to 1.562 {AT})",
        ),
        (
            1200.0,
            False,
            True,
            f"indistinguishable on the emulator: 20.0% more time (speed-up 0.667 to 1.042 {AT})",
        ),
        (1300.0, False, False, f"30.0% more time (speed-up 0.615 to 0.962 {AT})"),
    ],
)
def test_an_emulated_time_inside_the_error_band_is_not_accepted(
    runtime: float, accepted: bool, indistinguishable: bool, reason: str
) -> None:
    diary = Diary()
    bench = TableBench({"a": runtime}, band=RatioBand(coverage=0.9, factor=1.25))

    result = search(bench, {"base": ["a"]}, min_improvement=0.1, observer=diary)

    verdict = verdicts(result)["a"]
    assert (verdict.accepted, verdict.is_indistinguishable, verdict.reason) == (accepted, indistinguishable, reason)
    assert diary.lines[-1] == ("accepted a" if accepted else "rolled back a")
    assert name_of(result.best) == ("a" if accepted else "base")


def test_accepted_proposals_inside_the_error_band_are_not_called_slower() -> None:
    bench = TableBench({"a": 500.0, "b": 450.0, "c": 700.0}, band=RatioBand(coverage=0.9, factor=1.25))

    result = search(bench, {"base": ["a", "b", "c"]})

    found = verdicts(result)
    assert name_of(result.best) == "b"
    tied = f"indistinguishable on the emulator from proposal {result.best.id}, whose emulated time is not longer"
    assert found["a"].reason == tied
    assert found["c"].reason == f"proposal {result.best.id} is faster"
    assert result.comparison is not None
    assert result.comparison.speedup_interval == pytest.approx((1000 / 450 / 1.25, 1000 / 450 * 1.25))


# What is not even run


def test_a_compile_error_rejects_one_proposal_only() -> None:
    bench = TableBench({"b": 500.0})

    result = search(bench, {"base": ["broken", "b"]})

    verdict = verdicts(result)["broken"]
    assert (verdict.accepted, verdict.stage, verdict.reason) == (False, "compile", "k.hip:1:2: expected ';'")
    assert [verdict.kernel, verdict.verification, verdict.runtime_ns, verdict.improvement] == [None] * 4
    assert verdict.log == "all it said"
    assert name_of(result.best) == "b"


def test_a_rewrite_without_the_kernel_is_rejected() -> None:
    @dataclass
    class Rename(Steps):
        def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
            return (Rewrite("rename", text_of("renamed").replace("void k", "void other")),)

    loop = ClosedLoop(
        bench=TableBench({"renamed": 1.0}),
        entry="k",
        proposer=TransformProposer([Rename({})], "k"),
        guards=[],
        policy=LoopPolicy(0.1, 1, 10),
        observer=Diary(),
    )
    baseline = Proposal.of(text_of("base"), transform="none", description="", parent=None)

    result = loop.run(baseline, BuiltCandidate(metadata(4), "base", 8.0, False), Evaluation(VerificationResult(()), 1000.0))

    assert [(v.stage, v.reason) for v in result.verdicts] == [("compile", "the source has no kernel 'k'")]


def test_a_proposal_that_a_guard_rejects_is_not_run() -> None:
    bench = TableBench({"longname": 1.0, "b": 500.0})

    result = search(bench, {"base": ["longname", "b"]}, guards=(FewRegisters(4), FewRegisters(6)))

    verdict = verdicts(result)["longname"]
    assert (verdict.stage, verdict.reason) == ("guard", "registers: 8 used; registers: 8 used")
    assert [guard.passed for guard in verdict.guards] == [False, False]
    assert bench.evaluated == ["b"]
    assert [guard.passed for guard in verdicts(result)["b"].guards] == [True, True]


def test_equal_machine_code_is_run_once() -> None:
    bench = TableBench({"a": 500.0, "twin": 1.0, "same": 1.0, "late": 1.0}, same_code={"twin": "a", "same": "base", "late": "a"})

    result = search(bench, {"base": ["a", "twin", "same"], "a": ["late"]})

    found = verdicts(result)
    assert bench.evaluated == ["a"]
    assert [found[n].stage for n in ("twin", "same", "late")] == ["duplicate"] * 3
    assert found["same"].reason == "same machine code as the baseline"
    assert found["twin"].reason == found["late"].reason == f"same machine code as proposal {result.best.id}"
    assert result.best_runtime_ns == 500.0


def test_an_equal_source_is_proposed_once() -> None:
    bench = TableBench({"a": 500.0, "b": 400.0})

    result = search(bench, {"base": ["a", "a", "base"], "a": ["base", "b"], "b": ["a", "base"]})

    assert bench.built == ["a", "b"]
    assert [name_of(v.proposal) for v in result.verdicts] == ["a", "b"]


# What is run and wrong


def test_a_wrong_output_is_rejected_however_fast_it_is() -> None:
    result = search(TableBench({"a": 1.0, "b": 800.0}, wrong={"a"}), {"base": ["a", "b"]})

    verdict = verdicts(result)["a"]
    assert (verdict.accepted, verdict.stage) == (False, "verification")
    assert verdict.reason == "y: 1 of 1 elements are wrong, worst at [0]: 2 instead of 1"
    assert verdict.runtime_ns is verdict.improvement is None
    assert verdict.verification is not None
    assert not verdict.verification.passed
    assert name_of(result.best) == "b"


def test_a_failing_run_is_rejected_with_the_whole_error_message() -> None:
    verdict = verdicts(search(TableBench({"a": 1.0}, crashing={"a"}), {"base": ["a"]}))["a"]

    assert (verdict.stage, verdict.reason) == ("verification", "memory fault\n   at: k\n hint: look at the index")
    assert verdict.verification is None


# When it stops


def test_the_loop_stops_after_a_round_without_accepted_proposals() -> None:
    result = search(TableBench({"a": 500.0, "b": 499.0}), {"base": ["a"], "a": ["b"], "b": ["a"]})

    assert result.stop_reason == "no further proposal was accepted"
    assert len(result.verdicts) == 2


def test_the_loop_stops_without_proposals() -> None:
    result = search(TableBench({}), {})

    assert (result.verdicts, result.stop_reason, result.speedup) == ((), "no further proposal was accepted", 1.0)
    assert result.best is result.baseline


def test_the_loop_stops_after_the_last_round() -> None:
    chain = {"base": ["a"], "a": ["b"], "b": ["c"]}

    result = search(TableBench({"a": 500.0, "b": 250.0, "c": 125.0}), chain, max_iterations=2)

    assert (name_of(result.best), result.stop_reason) == ("b", "optimizer.max_iterations (2) reached")


def test_the_loop_stops_at_the_proposal_limit_and_keeps_the_best() -> None:
    bench = TableBench({"a": 500.0, "b": 400.0, "c": 1.0})

    result = search(bench, {"base": ["a", "b", "c"]}, max_proposals=2)

    assert bench.built == ["a", "b"]
    assert (name_of(result.best), result.stop_reason) == ("b", "optimizer.max_proposals reached")


def test_the_proposal_limit_includes_all_rounds_and_failures() -> None:
    bench = TableBench({"a": 500.0, "b": 250.0})

    result = search(bench, {"base": ["broken", "a"], "a": ["b", "c"]}, max_proposals=3)

    assert bench.built == ["broken", "a", "b"]
    assert (name_of(result.best), result.stop_reason) == ("b", "optimizer.max_proposals reached")


def test_a_sufficient_proposal_limit_is_not_the_stop_reason() -> None:
    result = search(TableBench({"a": 2000.0, "b": 3000.0}), {"base": ["a", "b"]}, max_proposals=2)

    assert result.stop_reason == "no further proposal was accepted"


@pytest.mark.parametrize(("headroom", "stops"), [(1.05, True), (2.0, False)])
def test_the_loop_stops_if_the_possible_gain_is_too_small(headroom: float, stops: bool) -> None:
    bench = TableBench({"a": 500.0, "b": 400.0}, headroom={"a": headroom})

    result = search(bench, {"base": ["a"], "a": ["b"]}, min_improvement=0.1)

    assert ("b" in bench.built) is not stops
    assert result.stop_reason.startswith("k can save at most 4.8% of the total time") is stops


# What is followed


def test_greedy_search_misses_combinations_with_a_slow_first_step() -> None:
    follows = {"base": ["a", "b"], "b": ["c"]}
    bench = TableBench({"a": 800.0, "b": 830.0, "c": 400.0})

    assert name_of(search(bench, follows).best) == "a"


def test_beam_search_finds_combinations_with_a_slow_first_step() -> None:
    follows = {"base": ["a", "b", "slow"], "b": ["c"], "slow": ["d"]}
    bench = TableBench({"a": 800.0, "b": 830.0, "slow": 900.0, "c": 400.0, "d": 1.0})

    result = search(bench, follows, strategy=BeamSearch(width=2, slack=0.05))

    assert name_of(result.best) == "c"
    assert [name_of(v.proposal) for v in result.verdicts if v.followed] == ["a", "b", "c"]
    assert "d" not in bench.built  # 900 is more than 5 % above 800


def test_beam_search_respects_its_width() -> None:
    follows = {"base": ["a", "b", "c"], "a": ["aa"], "b": ["bb"], "c": ["cc"]}
    bench = TableBench({"a": 801.0, "b": 800.0, "c": 802.0, "aa": 1e6, "bb": 1e6, "cc": 1e6})

    search(bench, follows, strategy=BeamSearch(width=2, slack=0.05))

    assert bench.built == ["a", "b", "c", "bb", "aa"]


# A proposer that learns


@dataclass
class Student:
    """Offers the next name of a list, whatever the parent, and keeps the verdicts that it is sent."""

    names: list[str]
    end: str | None = None
    learns: bool = True
    heard: list[str] = field(default_factory=list)

    def offers(self, parents: Sequence[ParentSelection], verdicts: Sequence[Verdict]) -> Offers:
        """One per round."""
        parent = parents[0].parent
        if self.names:
            name = self.names.pop(0)
            proposal = Proposal.of(text_of(name), transform="student", description=name, parent=parent)
            verdict = yield UnusableAnswer(proposal, "no source in it") if name.startswith("?") else proposal
            self.heard.append(f"{name} {verdict.stage}")
        return self.end if not self.names else None


def test_a_learning_proposer_continues_after_a_round_without_success() -> None:
    student = Student(["broken", "?", "bad", "a", "a", "b"], end="that was all")
    bench = TableBench({"bad": 1.0, "a": 500.0, "b": 400.0}, wrong={"bad"})

    result = search(bench, {}, proposer=student, max_iterations=10)

    assert student.heard == ["broken compile", "? answer", "bad verification", "a measurement", "a duplicate", "b measurement"]
    assert (name_of(result.best), result.stop_reason) == ("b", "that was all")
    assert [v.proposal.parent_id for v in result.verdicts if name_of(v.proposal) == "b"] == [
        next(v.proposal.id for v in result.verdicts if v.accepted)
    ]


def test_a_learning_proposer_respects_the_proposal_limit() -> None:
    student = Student(["a", "b"])

    result = search(TableBench({"a": 500.0, "b": 400.0}), {}, proposer=student, max_proposals=1)

    assert student.names == ["b"]
    assert result.stop_reason == "optimizer.max_proposals reached"


# An interruption


@pytest.mark.parametrize("ends_after", [1, 2, 3, 4, 5])
def test_a_resumed_loop_has_the_result_of_an_uninterrupted_one(ends_after: int, tmp_path: Path) -> None:
    follows = {"base": ["a", "broken", "b"], "b": ["bad", "c"]}

    def bench() -> TableBench:
        return TableBench({"a": 800.0, "b": 500.0, "bad": 1.0, "c": 300.0}, wrong={"bad"})

    whole = search(bench(), follows, store=Journal(tmp_path / "whole.jsonl", clock=lambda: 0.0))
    search(bench(), follows, store=Journal(tmp_path / "cut.jsonl", clock=lambda: 0.0), max_proposals=ends_after)
    second = bench()

    result = search(second, follows, store=Journal(tmp_path / "cut.jsonl", clock=lambda: 0.0))

    assert result == whole
    assert len(second.built) == 5 - ends_after  # no proposal is evaluated twice
    assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


# Events


def test_the_observer_receives_events_in_order() -> None:
    diary = Diary()
    bench = TableBench({"a": 800.0, "b": 500.0, "bad": 1.0, "twin": 1.0, "c": 600.0}, wrong={"bad"}, same_code={"twin": "a"})

    search(bench, {"base": ["a", "b", "bad", "twin", "broken"], "b": ["c"]}, observer=diary)

    assert diary.lines == [
        "proposed 1 a",
        "evaluated a: measurement",
        "proposed 2 b",
        "evaluated b: measurement",
        "proposed 3 bad",
        "evaluated bad: verification",
        "proposed 4 twin",
        "evaluated twin: duplicate",
        "proposed 5 broken",
        "evaluated broken: compile",
        "rolled back a",
        "accepted b",
        "rolled back bad",
        "proposed 6 c",
        "evaluated c: measurement",
        "rolled back c",
    ]


# For any table


names = st.sampled_from("abcdefgh")


@given(
    runtimes=st.dictionaries(names, st.integers(1, 2000).map(float)),
    follows=st.dictionaries(names | st.just("base"), st.lists(names, max_size=4)),
    wrong=st.sets(names),
    bar=st.sampled_from([0.0, 0.05, 0.5]),
    budget=st.integers(1, 10),
)
def test_the_best_is_correct_and_every_accepted_step_improves_enough(
    runtimes: dict[str, float], follows: dict[str, list[str]], wrong: set[str], bar: float, budget: int
) -> None:
    bench = TableBench(runtimes, wrong=wrong)

    result = search(bench, follows, min_improvement=bar, max_proposals=budget)

    accepted = [v for v in result.verdicts if v.accepted]
    times = [BASELINE_NS, *(runtimes[name_of(v.proposal)] for v in accepted)]
    assert all(new < old and (old - new) / old >= bar for old, new in pairwise(times))
    assert result.best_runtime_ns == times[-1]
    assert name_of(result.best) not in wrong
    assert len(result.verdicts) <= budget
    assert len(bench.built) == len(set(bench.built))


# The limit of time, and evolution


def test_the_limit_of_time_stops_before_the_next_proposal(tmp_path: Path) -> None:
    seconds = iter([0.0, 1.0, 2.0, 3.0, 70.0, 71.0, 72.0, 73.0, 74.0])
    journal = Journal(tmp_path / "j", clock=lambda: next(seconds))
    bench = TableBench({"a": 800.0, "b": 500.0})

    result = search(bench, {"base": ["a", "b"]}, store=journal, max_seconds=60.0)

    assert (list(verdicts(result)), result.stop_reason) == (["a"], "optimizer.max_seconds (60) reached")
    assert name_of(result.best) == "a"


def test_verdicts_from_before_an_interruption_are_kept_if_the_time_is_over(tmp_path: Path) -> None:
    follows = {"base": ["a", "b"], "b": ["c"]}
    bench = TableBench({"a": 800.0, "b": 500.0, "c": 300.0})
    search(bench, follows, store=Journal(tmp_path / "j", clock=lambda: 0.0), max_proposals=2)
    hours = iter(range(0, 10**6, 3600))

    result = search(bench, follows, store=Journal(tmp_path / "j", clock=lambda: float(next(hours))), max_seconds=60.0)

    assert (name_of(result.best), result.stop_reason) == ("b", "optimizer.max_seconds (60) reached")


def test_evolution_finds_a_combination_behind_a_slower_step() -> None:
    bench = TableBench({"a": 800.0, "slow": 1500.0, "fast": 100.0}, bottlenecks={"slow": "lds_conflicts"})
    follows = {"base": ["a", "slow"], "slow": ["fast"]}
    evolution = EvolutionarySearch(EvolutionRules(islands=1, samples=2, crossover=0.0))

    greedy = search(bench, follows)
    evolved = search(bench, follows, strategy=evolution, max_iterations=20)

    assert (name_of(greedy.best), name_of(evolved.best)) == ("a", "fast")
    assert evolved.stop_reason == "no further proposal was made"
    assert next(v for v in evolved.verdicts if name_of(v.proposal) == "slow").followed
