"""Chains of dependent instructions, and the time in which few wavefronts issue beside the busiest unit."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.analysis.executed_code import registers_of
from rocm_perf_lab.analysis.ledger import HardwareUnit
from rocm_perf_lab.analysis.serial_chain import longest_chain, step_of
from tests.analysis.test_trace_budget import budget_of, checked, lost
from tests.builders.simd_traces import Step, Traced

if TYPE_CHECKING:
    from collections.abc import Sequence

LOAD = ("global_load_dword v1, v0, s[0:1]", "k.hip:1")
WAIT = ("s_waitcnt vmcnt(0)", "k.hip:2")
END = ("s_endpgm", "")
COMPARE = ("v_cmp_gt_u32_e32 vcc, s9, v0", "k.hip:3")
COUNT = ("s_bcnt1_i32_b64 s10, vcc", "k.hip:4")
TEST = ("s_cmp_gt_u32 s7, s10", "k.hip:5")
SELECT = ("s_cselect_b32 s9, s9, s0", "k.hip:6")
MOVE = ("s_mov_b32 s20, 1", "k.hip:7")
MOVES = [(f"s_mov_b32 s{number}, {number}", "k.hip:8") for number in range(20, 30)]


def issued(order: Sequence[int], clocks: int = 4) -> list[Step]:
    return [(row, 0, 0, clocks) for row in order]


@pytest.mark.parametrize(
    ("text", "read", "written"),
    [
        (COMPARE[0], {"s9", "v0", "exec"}, {"vcc"}),
        (COUNT[0], {"vcc"}, {"s10", "scc"}),
        (TEST[0], {"s7", "s10"}, {"scc"}),
        (SELECT[0], {"s9", "s0", "scc"}, {"s9"}),
        ("s_cbranch_scc0 65526", {"scc"}, set()),
        ("s_cbranch_vccnz 4", {"vcc"}, set()),
        ("v_add_co_u32_e32 v0, vcc, s2, v1", {"vcc", "s2", "v1", "exec"}, {"v0", "vcc"}),
        ("v_fmac_f32_e32 v0, v1, v2", {"v0", "v1", "v2", "exec"}, {"v0"}),
        ("s_and_saveexec_b64 s[4:5], vcc", {"vcc", "exec"}, {"s4", "s5", "exec", "scc"}),
        ("global_load_dwordx2 v[2:3], v1, s[0:1]", {"v1", "s0", "s1", "exec"}, {"v2", "v3"}),
        ("global_store_dword v0, v2, s[2:3]", {"v0", "v2", "s2", "s3", "exec"}, set()),
        ("s_waitcnt vmcnt(0)", set(), set()),
    ],
)
def test_registers_of_an_instruction(text: str, read: set[str], written: set[str]) -> None:
    found = registers_of(text)

    assert (set(found.read), set(found.written)) == (read, written)


def test_of_equally_late_results_the_younger_one_is_on_the_chain() -> None:
    # Two loads issue for 4 clocks each without a dependency; the store needs both, in registers of any name.
    for one, other in itertools.permutations(range(2, 8), 2):
        loads = [f"global_load_dword v{register}, v0, s[0:1]" for register in (one, other)]
        steps = [step_of(text) for text in (*loads, f"v_add_u32_e32 v9, v{one}, v{other}", "global_store_dword v0, v9, s[2:3]")]

        assert longest_chain(steps, [4.0] * 4) == [3, 2, 1]


def test_a_lone_chain_of_dependent_instructions_is_dependency() -> None:
    code = [COMPARE, COUNT, TEST, SELECT, END]
    budget = checked(budget_of(Traced(code).wave([*issued([1, 2, 3, 4] * 50), (5, 0, 0, 4)]).trace()))

    # 50 rounds of a vector comparison and three scalar instructions, each of which needs the result before it. Scalar
    # instructions issue most, so that the comparisons are beside them: 200 clocks, all on the chain.
    assert budget.binding is HardwareUnit.SALU
    assert lost(budget)["dependency"] == 200
    assert lost(budget).get("instruction_overhead", 0) <= 4


def test_independent_instructions_of_a_lone_wavefront_are_overhead() -> None:
    code = [("v_mov_b32_e32 v1, 1", "k.hip:1"), *MOVES, END]
    vector: list[Step] = [(1, 0, 0, 4)] * 20
    scalar = issued([2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    budget = checked(budget_of(Traced(code).wave([*vector, *scalar, (12, 0, 0, 4)]).trace()))

    # 80 clocks of vector moves are the busiest unit; 40 of scalar moves, which need nothing and which nothing needs.
    assert budget.binding is HardwareUnit.VALU
    assert lost(budget)["instruction_overhead"] >= 40
    assert "dependency" not in lost(budget)


def test_a_wait_behind_the_issue_of_another_wavefront_is_still_latency() -> None:
    code = [LOAD, WAIT, MOVE, END]
    waiting: list[Step] = [(1, 0, 0, 4), (2, 0, 400, 400), (4, 0, 0, 4)]
    one_load: list[Step] = [(1, 0, 0, 4), (2, 0, 196, 196), *issued([3] * 50), (4, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(waiting).wave(one_load, slot=1).trace()))

    # Both wait until 200: scalar moves issue from 200 to 400 and are the busiest unit, no loss. The address pipe is not.
    assert budget.binding is HardwareUnit.SALU
    assert lost(budget)["memory_latency"] == pytest.approx(196 + 2, abs=4)


def test_half_of_the_issue_beside_the_unit_is_the_waiting_of_the_other_wavefront() -> None:
    code = [("v_mov_b32_e32 v2, 1", "k.hip:9"), LOAD, WAIT, *MOVES, END]
    moves = list(range(4, 14)) * 5
    waiting: list[Step] = [(2, 0, 0, 4), (3, 0, 696, 696), (14, 0, 0, 4)]
    working: list[Step] = [*[(1, 0, 0, 4)] * 125, *issued(moves), (14, 0, 0, 4)]
    budget = checked(budget_of(Traced(code).wave(waiting).wave(working, slot=1).trace()))

    # Vector moves until 500, then 200 clocks of scalar moves while the load is out: 100 belong to each wavefront.
    assert budget.binding is HardwareUnit.VALU
    assert lost(budget)["memory_latency"] == pytest.approx(100, abs=4)
    assert lost(budget)["instruction_overhead"] == pytest.approx(100, abs=8)
