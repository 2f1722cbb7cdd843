"""The list of supported instructions is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocm_perf_lab.arch.registry import emulated_architectures
from rocm_perf_lab.emulator.coverage import HAND_WRITTEN, PSEUDOCODE, UNSUPPORTED, opcodes, report

DOCUMENTS = Path(__file__).parents[2] / "docs"
PAGES = {
    "gfx942": "emulator-coverage.md",
    "gfx90a": "emulator-coverage-gfx90a.md",
    "gfx950": "emulator-coverage-gfx950.md",
    "gfx1030": "emulator-coverage-gfx1030.md",
}


@pytest.mark.parametrize("architecture", emulated_architectures())
def test_the_committed_report_is_current(architecture: str) -> None:
    page = PAGES[architecture]

    assert (DOCUMENTS / page).read_text() == report(architecture), (
        f"run: python -m rocm_perf_lab.emulator.coverage {architecture} > docs/{page}"
    )


def test_every_vector_and_scalar_arithmetic_opcode_is_executed() -> None:
    missing = [
        o for o in opcodes("gfx942") if o.how == UNSUPPORTED and o.encoding.startswith("VOP") and "matrix" not in o.encoding
    ]

    assert [o.mnemonic for o in missing] == ["V_SCREEN_PARTITION_4SE_B32"] * 2


def test_the_report_distinguishes_pseudocode_and_hand_written_operations() -> None:
    how = {(o.encoding, o.mnemonic): o.how for o in opcodes("gfx942")}

    assert how["VOP2", "V_ADD_F32"] == PSEUDOCODE
    assert how["VOP3", "V_PERM_B32"] == HAND_WRITTEN
    assert how["SMEM", "S_SCRATCH_LOAD_DWORD"] == UNSUPPORTED
