"""Vector instructions in divergent branches and loops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocm_perf_lab.analysis.masked_code import masked_vector_share
from rocm_perf_lab.analysis.traced_loops import LoopTime
from rocm_perf_lab.rocprof.att.model import InstructionRow

VECTOR = "v_add_f32_e32 v0, v1, v2"


def rows(*texts: str) -> tuple[InstructionRow, ...]:
    """Return rows that each issued for 4 cycles, after a stall of 8."""
    return tuple(InstructionRow(line, text, "", 1, 8 * line, 1, 12, 8, 0) for line, text in enumerate(texts))


@pytest.mark.parametrize(
    ("texts", "share"),
    [
        ((VECTOR, VECTOR), 0.0),
        ((VECTOR, "s_and_saveexec_b64 s[0:1], vcc", VECTOR, VECTOR, "s_or_b64 exec, exec, s[0:1]", VECTOR), 0.5),
        (("s_and_saveexec_b64 s[0:1], vcc", "s_cbranch_execz 8", VECTOR, VECTOR, "s_endpgm"), 0.0),
        (
            ("s_and_saveexec_b32 s0, vcc_lo", VECTOR, "s_and_saveexec_b32 s1, vcc_lo", VECTOR, "s_or_b32 exec_lo, exec_lo, s1",
             VECTOR, "s_or_b32 exec_lo, exec_lo, s0", VECTOR),
            0.75,
        ),
        (("s_or_b64 exec, exec, s[0:1]", "s_endpgm"), None),
    ],
)  # fmt: skip
def test_branches_count_between_opening_and_closing(texts: tuple[str, ...], share: float | None) -> None:
    assert masked_vector_share(rows(*texts), ()) == share


@pytest.mark.parametrize(("branch", "share"), [("s_cbranch_execnz 65533", 2 / 3), ("s_cbranch_scc1 65533", 0.0)])
def test_loops_count_if_they_end_on_the_mask(branch: str, share: float) -> None:
    code = rows(VECTOR, VECTOR, VECTOR, branch)

    loop = LoopTime(code[1], code[3], "", 4, 4.0, 100, 25.0, 0.9)

    assert masked_vector_share(code, (loop,)) == pytest.approx(share)


def test_lanes_leave_a_loop_through_its_mask_but_not_one_with_a_constant_stride() -> None:
    def share(update: str, compare: str) -> float | None:
        code = rows(
            "v_mov_b32_e32 v5, 0", "global_load_dword v2, v0, s[0:1]", "s_mov_b64 s[2:3], 0", VECTOR, update, compare,
            "s_or_b64 s[2:3], vcc, s[2:3]", "s_andn2_b64 exec, exec, s[2:3]", "s_cbranch_execnz 65530",
        )  # fmt: skip
        return masked_vector_share(code, (LoopTime(code[3], code[8], "", 4, 4.0, 100, 25.0, 0.9),))

    strided = share("v_add_u32_e32 v5, 0x100, v5", "v_cmp_le_i32_e32 vcc, s4, v5")
    to_loaded_end = share("v_add_u32_e32 v5, 0x100, v5", "v_cmp_le_i32_e32 vcc, v2, v5")
    until_escape = share("v_mul_f32_e32 v5, v5, v5", "v_cmp_lt_f32_e32 vcc, 4.0, v5")

    assert strided == 0.0
    assert to_loaded_end == until_escape == pytest.approx(3 / 4)


def test_a_side_that_all_lanes_take_is_not_divergent() -> None:
    def share(hits_of_then: int, hits_of_else: int) -> float | None:
        code = rows(
            "s_and_saveexec_b64 s[0:1], vcc", "s_xor_b64 s[2:3], exec, s[0:1]", VECTOR,
            "s_or_saveexec_b64 s[0:1], s[2:3]", "s_xor_b64 exec, exec, s[0:1]", VECTOR, "s_or_b64 exec, exec, s[0:1]",
        )  # fmt: skip
        then, other = (replace(code[at], hits=hits, latency=12 * hits, stall=8 * hits)
                       for at, hits in ((2, hits_of_then), (5, hits_of_else)))  # fmt: skip
        return masked_vector_share((*code[:2], then, *code[3:5], other, code[6]), ())

    assert share(0, 1) == share(1, 0) == 0.0
    assert share(1, 1) == 1.0
