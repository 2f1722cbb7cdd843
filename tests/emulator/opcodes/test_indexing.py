"""Registers indexed by M0: S_SET_GPR_IDX_ON with every operand of vector instructions and with lane reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.emulator.structures import LANES
from tests.builders.opcodes import Snippets

if TYPE_CHECKING:
    from numpy.typing import NDArray


def between(mode: str, *lines: str) -> str:
    """Return the lines with indexing enabled and the index in s4."""
    return "\n".join([f"s_set_gpr_idx_on s4, gpr_idx({mode})", *lines, "s_set_gpr_idx_off"])


ADD_SOURCES = between("SRC0,SRC1", "v_add_f32 v10, v0, v4")
ADD_TARGET = between("DST", "v_add_u32 v10, v0, v1")
FMA_ALL = between("SRC0,SRC1,SRC2,DST", "v_fma_f32 v10, v0, v2, v4")
MAC_TARGET = between("DST", "v_fmac_f32 v10, v0, v1")
WIDE = between("SRC0,DST", "v_add_f64 v[10:11], v[0:1], v[4:5]")
COMPARE = between("SRC0", "v_cmp_gt_u32 s[6:7], v0, v4")
WRITE_LANE = between("DST", "v_writelane_b32 v10, s5, 7")
READ_LANE = between("SRC0", "v_readlane_b32 s6, v0, 9")
FIRST_LANE = between("SRC0", "v_readfirstlane_b32 s6, v0")
SCALAR_SOURCE = between("SRC0,DST", "v_add_u32 v10, s5, v0")
MODE_IN_M0 = "s_set_gpr_idx_on s4, gpr_idx(SRC0)\ns_movk_i32 m0, 0x8002\nv_add_u32 v10, v0, v1\ns_set_gpr_idx_off"
IN_A_LOOP = """\
s_mov_b32 s6, 0
s_set_gpr_idx_on s6, gpr_idx(SRC0)
1:
s_set_gpr_idx_idx s6
v_add_u32 v10, v0, v10
s_add_u32 s6, s6, 1
s_cmp_lt_u32 s6, 4
s_cbranch_scc1 1b
s_set_gpr_idx_off
v_add_u32 v10, v0, v10"""
OFF_BY_SETREG = "s_set_gpr_idx_on s4, gpr_idx(SRC0)\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 27, 1), 0\nv_mov_b32 v10, v0"
OPEN_ON_ONE_PATH = "s_cbranch_scc0 1f\ns_set_gpr_idx_on s4, gpr_idx(SRC0)\n1:\nv_mov_b32 v10, v0\ns_set_gpr_idx_off"
TEXTS = [
    ADD_SOURCES, ADD_TARGET, FMA_ALL, MAC_TARGET, WIDE, COMPARE, WRITE_LANE, READ_LANE, FIRST_LANE, SCALAR_SOURCE, MODE_IN_M0,
    IN_A_LOOP, OFF_BY_SETREG,
]  # fmt: skip
LANE = np.arange(LANES, dtype=np.uint32)


@pytest.fixture(scope="module")
def snippets() -> Snippets:
    return Snippets(TEXTS)


def rows(dtype: type[np.generic] = np.uint32, count: int = 16) -> dict[int, NDArray[Any]]:
    """Register r of lane l holds 100 r + l."""
    return {r: (100 * r + LANE).astype(dtype) for r in range(count)}


def test_both_sources_are_indexed_by_m0(snippets: Snippets) -> None:
    outcome = snippets.run(ADD_SOURCES, rows(np.float32), {4: 2})

    assert np.array_equal(outcome.row(10, np.float32), (200 + LANE) + (600 + LANE).astype(np.float32))


def test_the_target_is_counted_from_m0_and_its_neighbours_are_kept(snippets: Snippets) -> None:
    outcome = snippets.run(ADD_TARGET, rows(), {4: 3})

    assert np.array_equal(outcome.row(13), 100 + 2 * LANE)
    assert np.array_equal(outcome.row(10), 1000 + LANE)


def test_lanes_outside_exec_keep_the_target(snippets: Snippets) -> None:
    outcome = snippets.run(ADD_TARGET, rows(), {4: 3}, execute=0xFF)

    assert np.array_equal(outcome.row(13), np.where(LANE < 8, 100 + 2 * LANE, 1300 + LANE))


def test_three_sources_and_the_target(snippets: Snippets) -> None:
    outcome = snippets.run(FMA_ALL, rows(np.float32), {4: 1})

    assert np.array_equal(outcome.row(11, np.float32), ((100 + LANE) * (300 + LANE) + (500 + LANE)).astype(np.float32))


def test_the_addend_is_the_indexed_target(snippets: Snippets) -> None:
    outcome = snippets.run(MAC_TARGET, rows(np.float32), {4: 2})

    assert np.array_equal(outcome.row(12, np.float32), (LANE * (100 + LANE) + (1200 + LANE)).astype(np.float32))


def test_pairs_of_registers_move_together(snippets: Snippets) -> None:
    outcome = snippets.run(WIDE, {2: np.arange(LANES) + 0.5, 4: np.full(LANES, 3.0)}, {4: 2})

    assert np.array_equal(outcome.row(12, np.float64), np.arange(LANES) + 3.5)


def test_a_compare_reads_the_indexed_source(snippets: Snippets) -> None:
    outcome = snippets.run(COMPARE, rows(), {4: 5})

    assert outcome.mask(6).all()


def test_lane_writes_and_reads(snippets: Snippets) -> None:
    written = snippets.run(WRITE_LANE, rows(), {4: 2, 5: 4242})

    assert np.array_equal(written.row(12), np.where(LANE == 7, 4242, 1200 + LANE))
    assert snippets.run(READ_LANE, rows(), {4: 3}).scalar(6)[0] == 309
    assert snippets.run(FIRST_LANE, rows(), {4: 3}, execute=0xF0).scalar(6)[0] == 304


def test_a_scalar_source_is_not_indexed(snippets: Snippets) -> None:
    outcome = snippets.run(SCALAR_SOURCE, rows(), {4: 1, 5: 7})

    assert np.array_equal(outcome.row(11), 7 + LANE)


def test_any_instruction_may_write_the_mode_in_m0(snippets: Snippets) -> None:
    outcome = snippets.run(MODE_IN_M0, rows(), {4: 5})

    assert np.array_equal(outcome.row(12), 100 + 2 * LANE)


def test_the_mode_holds_over_branches(snippets: Snippets) -> None:
    outcome = snippets.run(IN_A_LOOP, rows(), {4: 0})

    assert np.array_equal(outcome.row(10), 1000 + LANE + sum(100 * r + LANE for r in range(4)) + LANE)


def test_a_write_to_mode_ends_it(snippets: Snippets) -> None:
    assert np.array_equal(snippets.run(OFF_BY_SETREG, rows(), {4: 3}).row(10), LANE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OPEN_ON_ONE_PATH, "depends on the path"),
        (between("SRC0", "v_mov_b32_dpp v10, v0 row_shr:1"), "in such an instruction"),
        (between("SRC0", "v_mfma_f32_4x4x1_16b_f32 a[0:3], v0, v1, a[0:3]"), "in such an instruction"),
    ],
)
def test_operations_that_cannot_be_indexed_are_refused(text: str, reason: str) -> None:
    snippets = Snippets([text])

    with pytest.raises(AssertionError, match=reason):
        snippets.run(text)
