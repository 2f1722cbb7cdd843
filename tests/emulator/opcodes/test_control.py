"""Branches, calls, and code behind instructions that end a wavefront."""

from __future__ import annotations

import numpy as np
import pytest

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.jit import compile_program
from rocm_perf_lab.emulator.program import decode_program
from rocm_perf_lab.emulator.structures import VCC
from tests.builders.opcodes import ALL_LANES, Snippets, assemble

BRANCHES = {name: f"s_cbranch_{name} 1f\ns_mov_b32 s20, 1\n1:" for name in ("scc0", "scc1", "vccz", "vccnz", "execz", "execnz")}
CALL = """\
s_call_b64 s[6:7], 1f
s_add_u32 s20, s20, 100
s_branch 2f
1:
s_mov_b32 s20, 5
s_setpc_b64 s[6:7]
2:"""
COMPUTED_CALL = """\
s_cbranch_scc1 1f
s_getpc_b64 s[4:5]
0:
s_add_u32 s4, s4, 1f-0b
s_addc_u32 s5, s5, 0
s_swappc_b64 s[6:7], s[4:5]
s_add_u32 s20, s20, 100
s_branch 2f
1:
s_mov_b32 s20, 7
s_setpc_b64 s[6:7]
2:"""
DEBUGGER = "s_cbranch_cdbgsys_or_user 1f\ns_mov_b32 s20, 1\n1:"
GET_MODE = "s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 6)"
INDEX_MODE = "s_set_gpr_idx_on s4, gpr_idx(SRC0)\ns_set_gpr_idx_mode gpr_idx(DST)\nv_mov_b32 v10, v0\ns_set_gpr_idx_off"


def texts() -> list[str]:
    """Return every instruction of this file."""
    return [*BRANCHES.values(), CALL, COMPUTED_CALL, DEBUGGER, GET_MODE, INDEX_MODE]


@pytest.mark.parametrize(
    ("name", "scc", "vcc", "execute", "taken"),
    [
        ("scc0", 0, 0, ALL_LANES, True), ("scc0", 1, 0, ALL_LANES, False),
        ("scc1", 1, 0, ALL_LANES, True), ("scc1", 0, 0, ALL_LANES, False),
        ("vccz", 0, 0, ALL_LANES, True), ("vccz", 0, 1 << 40, ALL_LANES, False),
        ("vccnz", 0, 1 << 40, ALL_LANES, True), ("vccnz", 0, 0, ALL_LANES, False),
        ("execz", 0, 0, 0, True), ("execz", 0, 0, 1 << 63, False),
        ("execnz", 0, 0, 1 << 63, True), ("execnz", 0, 0, 0, False),
    ],
)  # fmt: skip
def test_a_branch_is_taken_by_its_condition(snippets: Snippets, name: str, scc: int, vcc: int, execute: int, taken: bool) -> None:
    outcome = snippets.run(BRANCHES[name], {}, {VCC: vcc, VCC + 1: vcc >> 32}, execute=execute, scc=scc)

    assert outcome.scalar(20)[0] == (0 if taken else 1)


@pytest.mark.parametrize(("text", "result"), [(CALL, 105), (COMPUTED_CALL, 107), (DEBUGGER, 1), (GET_MODE, 0x3F)])
def test_calls_return_and_mode_is_read(snippets: Snippets, text: str, result: int) -> None:
    assert snippets.run(text).scalar(20)[0] == result


def test_code_behind_an_abort_is_not_decoded() -> None:
    code = assemble(["s_cbranch_scc1 1f", "s_endpgm", "1:", "s_trap 2", ".long 0xffffffff"])
    program = decode_program("abort", code, 0, (0,), instruction_set("gfx942"))

    assert [i.mnemonic for i in program.instructions] == ["S_CBRANCH_SCC1", "S_ENDPGM", "S_TRAP"]
    assert compile_program(program, load_runtime().helpers).address


def test_the_mode_of_indexed_registers_changes_while_it_is_on(snippets: Snippets) -> None:
    outcome = snippets.run(INDEX_MODE, {0: np.arange(64, dtype=np.uint32), 10: np.full(64, 5, np.uint32)}, {4: 3})

    assert np.array_equal(outcome.row(13), np.arange(64))
    assert (outcome.row(10) == 5).all()
