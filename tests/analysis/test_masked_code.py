"""Vector instructions in divergent branches and loops."""

from __future__ import annotations

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
