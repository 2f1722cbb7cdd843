"""Scenarios for the budget of a thread trace, written after its rules: whole kernels in miniature, added up by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.analysis.ledger import Cause, HardwareUnit
from rocm_perf_lab.analysis.thread_trace import ThreadTrace, analyse
from rocm_perf_lab.analysis.trace_account import trace_account
from tests.analysis.test_trace_budget import budget_of, checked, lost, of_cause
from tests.builders.simd_traces import Step, Traced

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.trace_budget import TraceBudget

S_LOAD = ("s_load_dwordx2 s[0:1], s[4:5], 0x0", "k.hip:1")
S_WAIT = ("s_waitcnt lgkmcnt(0)", "k.hip:2")
LOAD = ("global_load_dword v1, v0, s[0:1]", "k.hip:3")
V_WAIT = ("s_waitcnt vmcnt(0)", "k.hip:4")
FMA = ("v_fma_f32 v2, v1, v1, v2", "k.hip:5")
SALU = ("s_add_u32 s2, s2, s3", "k.hip:6")
MFMA = ("v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]", "k.hip:7")
READ = ("v_accvgpr_read_b32 v9, a3", "k.hip:8")
DS_READ = ("ds_read_b32 v4, v3", "k.hip:9")
SPILL = ("scratch_load_dword v5, off, s32", "k.hip:10")
ATOMIC = ("global_atomic_add_f32 v0, v1, s[0:1] sc0", "k.hip:11")
STORE = ("global_store_dwordx4 v0, v[4:7], s[2:3]", "k.hip:12")
BARRIER = ("s_barrier", "k.hip:13")
SLEEP = ("s_sleep 8", "k.hip:14")
DEPCTR = ("s_waitcnt_depctr 0xffe3", "k.hip:15")
BACK = ("s_cbranch_scc1 65500", "k.hip:16")
END = ("s_endpgm", "")


def largest(budget: TraceBudget) -> Cause:
    return budget.lost[0].cause


def place(budget: TraceBudget, cause: Cause) -> str:
    row = of_cause(budget, cause).places[0].row
    return row.mnemonic if row is not None else ""


@pytest.mark.parametrize(
    ("operation", "wait", "cause"),
    [
        (S_LOAD, S_WAIT, Cause.SCALAR_LATENCY),
        (LOAD, V_WAIT, Cause.MEMORY_LATENCY),
        (SPILL, V_WAIT, Cause.REGISTER_SPILLS),
        (ATOMIC, V_WAIT, Cause.ATOMIC_CONTENTION),
        (STORE, V_WAIT, Cause.STORE_DRAIN),
    ],
)
def test_a_wait_has_the_cause_of_its_operation(operation: tuple[str, str], wait: tuple[str, str], cause: Cause) -> None:
    code = [operation, wait, FMA, END]
    budget = checked(budget_of(Traced(code).wave([(1, 0, 0, 4), (2, 0, 500, 500), (3, 0, 0, 4), (4, 0, 0, 4)]).trace()))

    assert largest(budget) is cause
    # The pipe works on a store of 1,024 bytes for 16 clocks, 4 of them while it issues.
    busy_behind = 12 if operation is STORE else 0
    assert lost(budget)[str(cause)] == 500 - busy_behind
    assert place(budget, cause) == operation[0].split()[0]


def test_lds_waits_are_latency_up_to_the_time_without_conflicts() -> None:
    code = [DS_READ, S_WAIT, FMA, END]
    turn: list[Step] = [(1, 0, 0, 4), (2, 0, 96, 96), (3, 0, 0, 4)]
    slow: list[Step] = [(1, 0, 0, 4), (2, 0, 396, 396), (3, 0, 0, 4)]

    quick, conflicted = (budget_of(Traced(code).wave([*steps * 10, (4, 0, 0, 4)]).trace()) for steps in (turn, slow))

    # The data of an unhindered access arrive 4 + 64 clocks after its issue, with 32 for queueing: 100 in all.
    assert lost(quick)["lds_latency"] == 960
    assert "lds_bank_conflicts" not in lost(quick)
    assert lost(conflicted)["lds_bank_conflicts"] == 10 * 300
    assert lost(conflicted)["lds_latency"] == 10 * 96


def test_lds_accesses_that_stall_each_other_show_conflicts_by_their_pace() -> None:
    code = [DS_READ, FMA, END]
    # Every access waits until the LDS has served the previous one: 32 clocks each, instead of 4.
    steps: list[Step] = [(1, 0, 0, 4), *[(1, 0, 28, 32)] * 99, (3, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(steps).trace()))

    assert budget.lds_pace is not None
    assert (budget.lds_pace.samples, budget.lds_pace.clocks, budget.lds_pace.ideal_clocks) == (99, 32, 4)
    assert largest(budget) is Cause.LDS_BANK_CONFLICTS
    # 3,176 clocks: 400 of ideal service, 4 of s_endpgm, the rest is lost to conflicts: 7/8 of the time that the LDS is busy.
    assert of_cause(budget, Cause.LDS_BANK_CONFLICTS).share == pytest.approx(7 / 8, abs=0.01)


@pytest.mark.parametrize(("interval", "cause"), [(64, Cause.UNCOALESCED_ACCESS), (20, Cause.MEMORY_BACKPRESSURE)])
def test_back_pressure_is_uncoalesced_if_little_useful_data_moves(interval: int, cause: Cause) -> None:
    code = [LOAD, END]
    # 256 bytes each: 4 bytes per clock in 64 clocks, 12.8 in 20.
    steps: list[Step] = [(1, 0, 0, 4), *[(1, 0, interval - 4, interval)] * 40, (2, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(steps).trace()))

    assert largest(budget) is cause
    assert budget.vector_pace is not None
    assert budget.vector_pace.bytes_per_clock == 256 / interval


def test_two_interleaved_wavefronts_keep_the_vector_unit_busy() -> None:
    code = [LOAD, V_WAIT, FMA, END]
    # Each loads for 400 clocks and computes for 400, and computes while the other one loads.
    first: list[Step] = [(1, 0, 0, 4), (2, 0, 396, 396), *[(3, 0, 0, 4)] * 100] * 5
    second: list[Step] = [*[(3, 0, 0, 4)] * 100, (1, 0, 0, 4), (2, 0, 396, 396)] * 5
    budget = checked(budget_of(Traced(code).wave(first).wave(second, slot=1).trace()))

    assert budget.binding is HardwareUnit.VALU
    assert budget.use[HardwareUnit.VALU] == 1
    assert budget.lost == ()
    assert budget.co_issue == 1


def test_co_issue_counts_two_vector_instructions_at_a_time() -> None:
    steps: list[Step] = [(1, 0, 0, 4)] * 50
    budget = budget_of(Traced([FMA, END]).wave(steps).wave(steps, slot=1).trace())

    assert budget.co_issue == 2
    assert budget.use[HardwareUnit.VALU] == 1


def test_scalar_work_beside_a_matrix_kernel_is_overhead_only_while_the_core_is_idle() -> None:
    code = [MFMA, SALU, END]
    # A matrix instruction works for 16 clocks; three scalar instructions fit behind its issue, four more do not.
    turn: list[Step] = [(1, 0, 0, 4), *[(2, 0, 0, 4)] * 7]
    budget = checked(budget_of(Traced(code).wave([*turn * 10, (3, 0, 0, 4)]).trace()))

    assert budget.binding is HardwareUnit.MATRIX
    assert budget.use[HardwareUnit.MATRIX] == pytest.approx(160 / 324)
    assert lost(budget) == {"instruction_overhead": 160 + 4}


def test_waiting_for_the_result_of_a_matrix_instruction_is_the_roof_and_then_a_dependency() -> None:
    code = [MFMA, READ, END]
    steps: list[Step] = [(1, 0, 0, 4), (2, 0, 60, 64), (3, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(steps).trace()))

    # The core works until 16; the result is read at 64.
    assert budget.use[HardwareUnit.MATRIX] == pytest.approx(16 / 72)
    assert lost(budget)["dependency"] == 48


def test_a_matrix_core_that_is_busy_behind_waiting_wavefronts_is_no_loss() -> None:
    code = [MFMA, BARRIER, END]
    # One wavefront feeds the core, the other one waits for it at the barrier.
    feeding: list[Step] = [*[(1, 0, 12, 16)] * 50, (2, 0, 8, 8), (3, 0, 0, 4)]
    waiting: list[Step] = [(2, 0, 808, 808), (3, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(feeding).wave(waiting, slot=1).trace()))

    # From 12 to 812 the core works; 12 clocks before, and 4 behind.
    assert budget.use[HardwareUnit.MATRIX] == pytest.approx(800 / 812)
    assert lost(budget).get("barrier_imbalance", 0) <= 12


def test_pauses_and_hazards_are_dependencies() -> None:
    code = [FMA, SLEEP, DEPCTR, END]
    steps: list[Step] = [(1, 0, 0, 4), (2, 0, 512, 512), (3, 0, 40, 40), (1, 0, 0, 4), (4, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(steps).trace()))

    assert lost(budget)["dependency"] == 552
    assert budget.unexplained == 0


def test_a_wait_without_a_known_operation_is_unexplained() -> None:
    steps: list[Step] = [(1, 0, 300, 300), (2, 0, 0, 4), (3, 0, 0, 4)]
    budget = checked(budget_of(Traced([V_WAIT, FMA, END]).wave(steps).trace()))

    assert budget.unexplained * budget.span == pytest.approx(300)


def test_a_chain_of_barriers_blames_the_slow_wavefront_of_each() -> None:
    code = [FMA, BARRIER, END]
    # The wavefronts alternate with 100 additions; each arrival is 396 clocks after that of the other one.
    long_first: list[Step] = [*[(1, 0, 0, 4)] * 100, (2, 0, 4, 4), (1, 0, 0, 4), (2, 0, 400, 400), (3, 0, 0, 4)]
    long_second: list[Step] = [(1, 0, 0, 4), (2, 0, 400, 400), *[(1, 0, 0, 4)] * 100, (2, 0, 4, 4), (3, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(long_first).wave(long_second, simd=1).trace()))

    assert budget.barriers == 2
    assert budget.barrier_late_clocks == 396
    assert lost(budget)["barrier_imbalance"] == 800
    assert place(budget, Cause.BARRIER_IMBALANCE) == FMA[0].split()[0]


def test_a_late_start_of_the_last_wavefront_is_charged_to_the_barrier() -> None:
    code = [FMA, BARRIER, END]
    early: list[Step] = [(1, 0, 0, 4), (2, 0, 604, 604), (3, 0, 0, 4)]
    late: list[Step] = [(1, 0, 0, 4), (2, 0, 4, 4), (3, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(early).wave(late, simd=1, begin=600).trace()))

    assert lost(budget)["barrier_imbalance"] == 604


def test_the_end_without_stores_is_part_of_the_launch() -> None:
    steps: list[Step] = [(1, 0, 0, 4), (2, 0, 96, 100)]
    budget = checked(budget_of(Traced([FMA, END]).wave(steps, tail=20).trace()))

    assert lost(budget)["launch_overhead"] == 120


def test_traces_of_generations_whose_durations_include_execution() -> None:
    code = [LOAD, ("s_waitcnt vmcnt(0)", "k.hip:4"), FMA, END]
    # GFX10 and later: the duration of the load includes 300 clocks of execution, which overlap the addition behind it, and a wait
    # is recorded as execution, not as stall.
    traced = Traced(code).wave([(1, 0, 0, 300), (3, -296, 0, 4), (2, 0, 0, 500), (3, 0, 0, 4), (4, 0, 0, 4)])
    budget = checked(budget_of(traced.trace(gfxip=11, architecture=None)))

    assert budget.span == 516
    assert lost(budget)["memory_latency"] == 500
    assert budget.use[HardwareUnit.VALU] == pytest.approx(8 / 516)


def test_loops_separate_prologue_and_epilogue() -> None:
    code = [S_LOAD, S_WAIT, FMA, BACK, STORE, END]
    steps: list[Step] = [(1, 0, 0, 4), (2, 0, 596, 596), *[(3, 0, 0, 4), (4, 0, 0, 4)] * 40, (5, 0, 0, 4), (6, 0, 76, 76)]
    result = analyse(Traced(code).wave(steps).trace())
    assert isinstance(result, ThreadTrace)

    # 600 clocks before the loop of 40 turns of 8 clocks, 80 behind it.
    assert result.phases is not None
    assert (result.phases.prologue, result.phases.loops, result.phases.epilogue) == (0.6, 0.32, 0.08)


def test_losses_below_one_clock_count() -> None:
    # The vector load issues in four of five clocks; the first one counts half as dependence, half as overhead.
    traced = Traced([S_LOAD, LOAD]).wave([(1, 0, 0, 0), (2, 0, 0, 0)]).wave([(1, 0, 0, 4)], slot=1, begin=1)
    budget = checked(budget_of(traced.trace()))

    assert budget.span == 5
    assert {str(one.cause): one.share for one in budget.lost} == pytest.approx({"dependency": 0.1, "instruction_overhead": 0.1})


CODE = [S_LOAD, S_WAIT, LOAD, V_WAIT, FMA, SALU, MFMA, READ, DS_READ, SPILL, ATOMIC, STORE, BARRIER, SLEEP, DEPCTR, BACK, END]
STEPS = st.lists(
    st.tuples(st.integers(1, len(CODE)), st.integers(0, 30), st.integers(0, 200), st.integers(0, 60)).map(
        lambda step: (step[0], 4 * step[1], 4 * step[2], 4 * (step[2] + step[3]))
    ),
    min_size=1,
    max_size=25,
)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(STEPS, st.integers(0, 1), st.integers(0, 500), st.integers(0, 80)), min_size=1, max_size=6),
    st.sampled_from([9, 10, 11, 12]),
    st.booleans(),
)
def test_the_parts_of_any_trace_add_up(waves: list[tuple[list[Step], int, int, int]], gfxip: int, is_partial: bool) -> None:
    traced = Traced(CODE)
    for number, (steps, simd, begin, tail) in enumerate(waves):
        traced.wave(steps, simd=simd, slot=number, begin=begin, tail=tail)
    trace = traced.trace(gfxip=gfxip, is_partial=is_partial)
    result = analyse(trace)
    if not isinstance(result, ThreadTrace) or result.budget is None:
        return

    budget = checked(result.budget)
    assert budget.unexplained >= -1e-9
    for one in budget.lost:
        assert 0 < one.share <= one.gain + 1e-9
        assert one.gain <= 1
        assert sum(where.share for where in one.places) <= one.share + 1e-9
    assert all(0 <= share <= 1 for share in budget.use.values())
    account = trace_account(result)
    assert sum(part.share or 0.0 for part in account.losses) <= 1 + 1e-9
