"""The oracles of `tests/emulator/opcodes` on RDNA2, in wavefronts of 32 and 64 lanes."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.emulator.coverage import UNSUPPORTED, opcodes
from rocm_perf_lab.emulator.isa.decode import decode_one
from rocm_perf_lab.emulator.isa.instruction_set import instruction_set
from rocm_perf_lab.emulator.program import decode_program
from rocm_perf_lab.emulator.translate.function import kernel_ir
from tests.builders.opcodes import Row, assemble, assemble_end, check_floats, check_integers
from tests.builders.rdna2 import ARCHITECTURE, Absent, Rdna2Snippets, assembles, translated
from tests.emulator.architectures import test_rdna2
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
from tests.emulator.opcodes.test_completeness import ELSEWHERE, NO_EFFECT

if TYPE_CHECKING:
    from types import ModuleType

ROW_TABLES = {test_integer: check_integers, test_compares: check_floats, test_conversions: check_floats, test_float: check_floats}
TABLES: tuple[ModuleType, ...] = (*ROW_TABLES, test_control, test_lanes, test_packed, test_scalar, test_sdwa)
VALUES = 256
WIDE_ON_CDNA = re.compile(r"v_(add|sub|subrev|mul_lo|min|max|lshlrev|lshrrev|ashrrev)_[iub]16(_e32|_e64|$)")
"""16-bit operations that clear the upper half of their result on CDNA and keep it on RDNA2."""
WAVES = [pytest.param(32), pytest.param(64, marks=pytest.mark.slow)]
UNTESTED = {
    "S_INST_PREFETCH", "S_CLAUSE", "S_WAIT_IDLE", "S_WAITCNT_DEPCTR", "S_TTRACEDATA_IMM", "S_VERSION", "S_WAITCNT_VSCNT",
    "S_WAITCNT_VMCNT", "S_WAITCNT_EXPCNT", "S_WAITCNT_LGKMCNT", "V_PIPEFLUSH", "S_CODE_END",
}  # fmt: skip
"""Without effect here: waits and hints."""


@cache
def snippets_of(module: ModuleType, wave_size: int) -> Rdna2Snippets:
    return Rdna2Snippets(module.texts(), wave_size=wave_size)


def own_row(row: Row) -> Row:
    return replace(row, out="u16") if row.out == "u32" and WIDE_ON_CDNA.match(row.name) else row


@pytest.mark.parametrize("wave_size", WAVES)
@pytest.mark.parametrize("module", ROW_TABLES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_opcodes_equal_the_oracles(module: ModuleType, wave_size: int) -> None:
    snippets, check = snippets_of(module, wave_size), ROW_TABLES[module]
    rows = [row for row in module.ROWS if row.text in snippets.known]

    for row in rows:
        check(snippets, own_row(row), limit=VALUES)

    assert len(rows) > 25
    assert snippets.refused == {}


@pytest.mark.slow
@pytest.mark.parametrize("wave_size", [32, 64])
def test_packed_operations_equal_the_oracles(wave_size: int) -> None:
    snippets = snippets_of(test_packed, wave_size)
    cases = [(packed, modifiers) for packed, modifiers in test_packed.CASES if text_of_case(packed, modifiers) in snippets.known]
    for packed, modifiers in cases:
        test_packed.test_each_half_is_computed_from_the_selected_halves(snippets, packed, modifiers)
    for name in test_packed.DOTS:
        for bounds in ("", " clamp"):
            test_packed.test_integer_dot_products_add_to_the_third_source(snippets, name, bounds)
    for text in test_packed.MIX:
        test_packed.test_mixed_fma_takes_each_source_as_float_or_half(snippets, text)
    for index, text in enumerate(test_packed.MIX_HALVES):
        test_packed.test_mixed_fma_to_half_keeps_the_other_half(snippets, text, index)
    test_packed.test_packed_fmac_adds_to_its_destination(snippets)

    assert len(cases) > 40
    assert snippets.refused == {}


def text_of_case(packed: test_packed.Packed, modifiers: test_packed.Modifiers) -> str:
    return test_packed.text_of(packed, modifiers)


@pytest.mark.slow
@pytest.mark.parametrize("wave_size", [32, 64])
def test_sub_dword_addressing_equals_the_oracles(wave_size: int) -> None:
    snippets, absent = snippets_of(test_sdwa, wave_size), 0
    for text, a, b, sext in test_sdwa.SOURCES:
        test_sdwa.test_a_source_is_the_selected_part(snippets, text, a, b, sext)
    for text, part, rest in test_sdwa.DESTINATIONS:
        test_sdwa.test_a_result_goes_to_the_selected_part(snippets, text, part, rest)
    for text in test_sdwa.HALVES:
        test_sdwa.test_half_floats_are_read_from_and_written_to_either_half(snippets, text)
    for text in test_sdwa.FLOATS:
        try:
            test_sdwa.test_float_modifiers_and_conversions(snippets, text)
        except Absent:
            absent += 1

    assert absent <= 1


def test_scalar_and_branch_code_is_that_of_cdna() -> None:
    texts = [text for module in (test_scalar, test_control) for text in module.texts() if "setreg" not in text]
    texts = [text for text, exists in zip(texts, assembles(texts, 64), strict=True) if exists and "getpc" not in text]
    others = {architecture: [translation(text, architecture) for text in texts] for architecture in (ARCHITECTURE, "gfx942")}

    assert len(texts) > 130
    assert others[ARCHITECTURE] == others["gfx942"]


def translation(text: str, architecture: str) -> str:
    code = assemble(text.splitlines(), architecture) + assemble_end()
    return kernel_ir(decode_program("one", code, 0, (0,), instruction_set(architecture, 64)))


def test_every_arithmetic_opcode_is_in_a_table() -> None:
    isa, tested = instruction_set(ARCHITECTURE, 64), set()
    texts = [translated(text, 64) for module in TABLES for text in module.texts()]
    texts = [text for text, exists in zip(texts, assembles(texts, 64), strict=True) if exists]
    code, address = assemble([*texts, *test_rdna2.texts()], ARCHITECTURE), 0
    while address < len(code):
        instruction = decode_one(code[address : address + 20], address, isa)
        tested.add(instruction.mnemonic)
        address += instruction.size

    executed = {
        isa.operation(o.mnemonic) for o in opcodes(ARCHITECTURE) if o.encoding.startswith(("VOP", "SOP")) and o.how != UNSUPPORTED
    }

    assert sorted(executed - tested - ELSEWHERE - NO_EFFECT - UNTESTED) == []
    assert len(executed & tested) > 550
