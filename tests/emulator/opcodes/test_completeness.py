"""Every arithmetic opcode that the emulator executes has a row in a table of this directory."""

from __future__ import annotations

from rocm_perf_lab.emulator.coverage import UNSUPPORTED, opcodes
from rocm_perf_lab.emulator.isa.decode import decode_one
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from tests.builders.opcodes import assemble
from tests.emulator.opcodes import (
    test_compares,
    test_control,
    test_conversions,
    test_float,
    test_integer,
    test_lanes,
    test_packed,
    test_scalar,
    test_sdwa,
)

TABLES = (
    test_compares,
    test_control,
    test_conversions,
    test_float,
    test_integer,
    test_lanes,
    test_packed,
    test_scalar,
    test_sdwa,
)
ELSEWHERE = {
    "S_BARRIER", "S_ENDPGM", "S_TRAP", "S_SLEEP", "S_SETREG_B32", "S_SETREG_IMM32_B32", "S_SET_GPR_IDX_IDX", "S_SET_GPR_IDX_OFF",
    "S_SET_GPR_IDX_ON", "S_SETVSKIP",
}  # fmt: skip
"""In every snippet, in test_modes.py, or in whole kernels."""
NO_EFFECT = {
    "S_CBRANCH_CDBGSYS", "S_CBRANCH_CDBGSYS_AND_USER", "S_CBRANCH_CDBGUSER", "S_DECPERFLEVEL", "S_ENDPGM_SAVED", "S_ICACHE_INV",
    "S_INCPERFLEVEL", "S_SENDMSG", "S_SETHALT", "S_SETPRIO", "S_TTRACEDATA", "S_WAITCNT", "S_WAKEUP", "V_CLREXCP", "V_NOP",
    "S_NOP",
}  # fmt: skip


def test_every_arithmetic_opcode_is_in_a_table() -> None:
    code = assemble([text for table in TABLES for text in table.texts()])
    isa = instruction_set("gfx942")
    tested, address = set(), 0
    while address < len(code):
        instruction = decode_one(code[address : address + 20], address, isa)
        tested.add(instruction.mnemonic)
        address += instruction.size
    arithmetic = [o for o in opcodes("gfx942") if o.encoding.startswith(("VOP", "SOP")) and "MFMA" not in o.mnemonic]
    executed = {o.mnemonic for o in arithmetic if o.how != UNSUPPORTED}

    assert not executed - tested - ELSEWHERE - NO_EFFECT
    assert len(executed & tested) > 600
