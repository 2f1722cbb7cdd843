"""Budgets of the traced SIMDs' time, on traces small enough to add up by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit
from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from tests.builders.simd_traces import Step, Traced

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.trace_budget import LostTime, TraceBudget
    from rocm_perf_lab.rocprof.att.model import AttTrace

LOAD = ("global_load_dword v1, v0, s[0:1]", "k.hip:10")
WAIT = ("s_waitcnt vmcnt(0)", "k.hip:11")
ADD = ("v_add_f32_e32 v2, v1, v1", "k.hip:12")
MFMA = ("v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]", "k.hip:30")
NOP = ("s_nop 7", "k.hip:31")
BARRIER = ("s_barrier", "k.hip:40")
STORE = ("global_store_dword v0, v2, s[2:3]", "k.hip:50")
LDS = ("ds_read_b64 v[4:5], v3", "k.hip:60")
LDS_WAIT = ("s_waitcnt lgkmcnt(0)", "k.hip:61")
BRANCH = ("s_cbranch_scc1 65500", "k.hip:70")
END = ("s_endpgm", "")


def budget_of(trace: AttTrace) -> TraceBudget:
    result = analyse(trace)
    assert isinstance(result, ThreadTrace)
    assert result.budget is not None
    return result.budget


def lost(budget: TraceBudget) -> dict[str, int]:
    """Cause -> lost clocks of all SIMDs."""
    return {str(one.cause): round(one.share * budget.span) for one in budget.lost}


def of_cause(budget: TraceBudget, cause: Cause) -> LostTime:
    return next(one for one in budget.lost if one.cause is cause)


def checked(budget: TraceBudget) -> TraceBudget:
    """Check that the parts add up to the whole time."""
    binding = budget.use[budget.binding] if budget.binding else 0.0
    assert binding + sum(one.share for one in budget.lost) + budget.unexplained == pytest.approx(1)
    for simd in budget.simds:
        assert simd.binding + simd.beside + simd.exposed + simd.empty == simd.span
    return budget


def test_a_load_whose_latency_nothing_hides_is_the_loss() -> None:
    code = [LOAD, WAIT, ADD, END]
    budget = checked(budget_of(Traced(code).wave([(1, 0, 0, 4), (2, 0, 800, 800), (3, 0, 0, 4), (4, 0, 0, 4)]).trace()))

    # 812 clocks: 4 to issue the load, 800 exposed, 4 of the addition, 4 of s_endpgm. The address pipe needs 4 for the load.
    assert budget.span == 812
    assert budget.use[HardwareUnit.VALU] == pytest.approx(4 / 812)
    assert lost(budget)["memory_latency"] == 800
    assert [place.row.address for place in of_cause(budget, Cause.MEMORY_LATENCY).places if place.row] == [0x1000]


def test_latency_that_another_wavefront_hides_is_no_loss() -> None:
    code = [LOAD, WAIT, ADD, END]
    waiting: list[Step] = [(1, 0, 0, 4), (2, 0, 800, 800), (3, 0, 0, 4), (4, 0, 0, 4)]
    working: list[Step] = [*[(3, 0, 0, 4)] * 150, (4, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(waiting).wave(working, slot=1).trace()))

    # The second wavefront adds from 0 to 600; from 604 until 804 only the first one is left, and it waits. While the second one
    # ends (600 to 604), nothing adds because of both: half of the time is the waiting of the first one.
    assert budget.use[HardwareUnit.VALU] == pytest.approx((600 + 4) / 812)
    assert lost(budget)["memory_latency"] == 200 + 2


def test_two_waiting_wavefronts_share_the_exposed_time() -> None:
    code = [LOAD, WAIT, LDS, LDS_WAIT, END]
    loads: list[Step] = [(1, 0, 0, 4), (2, 0, 400, 400), (5, 0, 0, 4)]
    reads: list[Step] = [(3, 0, 0, 4), (4, 0, 400, 400), (5, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(loads).wave(reads, slot=1).trace()))

    assert lost(budget)["memory_latency"] == 200
    assert lost(budget)["lds_latency"] + lost(budget)["lds_bank_conflicts"] == 200
    # Without the load, the read would still be waited for during all of the time; the bound is the most that either could save.
    assert of_cause(budget, Cause.MEMORY_LATENCY).gain * budget.span == pytest.approx(400)


def test_a_chain_of_matrix_instructions_is_near_the_matrix_roof() -> None:
    code = [MFMA, NOP, ADD, END]
    # Ten matrix instructions of 32 clocks each: the wavefront waits in s_nop 7 (32 clocks) and for the accumulator.
    chain: list[Step] = [(1, 0, 0, 4), (1, 0, 28, 32), (1, 0, 28, 32), (1, 0, 28, 32), (1, 0, 28, 32)]
    steps: list[Step] = [*chain, (2, 0, 28, 28), *chain, (2, 0, 28, 28), (3, 0, 0, 4), (4, 0, 0, 28)]
    budget = checked(budget_of(Traced(code).wave(steps).trace()))

    # Each chain: 4 + 4 * 32 + 28 = 160 clocks, with the core busy throughout; then 4 + 28 clocks without it.
    assert budget.binding is HardwareUnit.MATRIX
    assert budget.use[HardwareUnit.MATRIX] == pytest.approx(320 / 352)
    assert "dependency" not in lost(budget)
    assert budget.use[HardwareUnit.MATRIX] > 0.9


def test_the_passes_of_a_matrix_instruction_depend_on_the_architecture() -> None:
    steps: list[Step] = [(1, 0, 0, 4), (2, 0, 96, 96), (4, 0, 0, 4)]
    traced = Traced([MFMA, NOP, ADD, END]).wave(steps)

    cdna3, cdna2 = (budget_of(traced.trace(architecture=name)) for name in ("gfx942", "gfx90a"))

    assert cdna3.simds[0].busy[HardwareUnit.MATRIX] == 32
    assert cdna2.simds[0].busy[HardwareUnit.MATRIX] == 64
    assert (cdna2.knows_matrix_rates, cdna3.knows_matrix_rates) == (True, True)


def test_a_barrier_is_charged_to_the_wavefront_that_did_more_work() -> None:
    code = [ADD, BARRIER, END]
    early: list[Step] = [(1, 0, 0, 4), (2, 0, 404, 404), (3, 0, 0, 4)]
    late: list[Step] = [*[(1, 0, 0, 4)] * 100, (2, 0, 8, 8), (3, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(early).wave(late, simd=1).trace()))

    # The early one arrives at 4 and leaves at 408, the late one arrives at 400: 404 clocks of SIMD 0 are lost to the additions
    # of the other, and 8 of SIMD 1 to the barrier itself.
    assert lost(budget)["barrier_imbalance"] == 412
    largest = of_cause(budget, Cause.BARRIER_IMBALANCE).places[0]
    assert largest.row is not None
    assert (largest.row.text, round(largest.share * budget.span)) == (ADD[0], 404)
    assert (budget.barriers, budget.barrier_late_clocks) == (1, 396)


def test_a_barrier_is_charged_to_the_load_that_delayed_an_equal_wavefront() -> None:
    code = [LOAD, WAIT, BARRIER, END]
    early: list[Step] = [(1, 0, 0, 4), (2, 0, 96, 96), (3, 0, 408, 408), (4, 0, 0, 4)]
    late: list[Step] = [(1, 0, 0, 4), (2, 0, 496, 496), (3, 0, 8, 8), (4, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(early).wave(late, simd=1).trace()))

    # SIMD 0: 96 clocks for its own load, 408 for the load of the other wavefront. SIMD 1: 496. The address pipe, which is the
    # busiest unit here, works from 0 to 8: 4 clocks of either wait.
    assert lost(budget)["memory_latency"] == 96 + 408 + 496 - 8
    assert lost(budget).get("barrier_imbalance", 0) == 8


def test_wavefronts_of_different_workgroups_do_not_wait_for_each_other() -> None:
    code = [ADD, BARRIER, END]
    early: list[Step] = [(1, 0, 0, 4), (2, 0, 404, 404), (3, 0, 0, 4)]
    late: list[Step] = [*[(1, 0, 0, 4)] * 100, (2, 0, 8, 8), (3, 0, 0, 4)]

    budget = budget_of(Traced(code).wave(early, workgroup=1).wave(late, simd=1, workgroup=2).trace())

    assert budget.barriers == 0
    place = of_cause(budget, Cause.BARRIER_IMBALANCE).places[0]
    assert place.row is not None
    assert place.row.text == "s_barrier"


def test_the_end_of_a_wavefront_waits_for_its_stores() -> None:
    code = [ADD, STORE, END]
    budget = checked(budget_of(Traced(code).wave([(1, 0, 0, 4), (2, 0, 0, 4), (3, 0, 200, 204)], tail=40).trace()))

    # 4 + 4, then 204 in s_endpgm and 40 until the wavefront is gone.
    assert lost(budget)["store_drain"] == 244
    place = of_cause(budget, Cause.STORE_DRAIN).places[0]
    assert place.row is not None
    assert place.row.text == STORE[0]


def test_gaps_are_launch_branch_or_code_that_was_not_fetched() -> None:
    code = [ADD, BRANCH, END]
    steps: list[Step] = [(1, 100, 0, 4), (2, 0, 0, 4), (1, 16, 0, 4), (1, 500, 0, 4), (1, 8, 0, 4), (3, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(steps).trace()))

    # 16 clocks behind the taken branch, and 4 + 4 in which the branch and s_endpgm issue.
    found = lost(budget)
    assert found["launch_overhead"] == 100
    assert found["instruction_cache"] == 500 + 8
    assert found["instruction_overhead"] == 16 + 4 + 4


def test_time_without_wavefronts_is_launch_and_then_tail() -> None:
    code = [ADD, END]
    steps: list[Step] = [*[(1, 0, 0, 4)] * 99, (2, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(steps).wave(steps, begin=1400).trace()))

    # 400 clocks of work, 1,000 without a wavefront, 400 of work. Two wavefronts need up to 800 to launch.
    assert budget.simds[0].empty == 1000
    assert lost(budget)["launch_overhead"] == 800
    assert lost(budget)["tail"] == 200


def test_a_partial_trace_counts_until_a_missing_wavefront_may_have_started() -> None:
    code = [ADD, LOAD, WAIT, END]
    short: list[Step] = [*[(1, 0, 0, 4)] * 99, (4, 0, 0, 4)]
    long: list[Step] = [*[(1, 0, 0, 4)] * 99, (2, 0, 0, 4), (3, 0, 800, 800), (4, 0, 0, 4)]
    traced = Traced(code).wave(short).wave(long, slot=1)

    whole, partial = budget_of(traced.trace()), budget_of(traced.trace(is_partial=True))

    assert lost(whole)["memory_latency"] == 800
    assert partial.span == 400
    assert "memory_latency" not in lost(partial)
