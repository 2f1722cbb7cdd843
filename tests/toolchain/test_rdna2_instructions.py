"""Each row of RDNA2's tables against LLVM: the text of its encodings assembles to the same bytes, and is that of llvm-objdump."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.arch.registry import load_architecture
from rocm_perf_lab.toolchain.assembly_text import decode_instruction
from rocm_perf_lab.toolchain.instruction_tables import (
    DPP8,
    DPP16,
    FIRST_VGPR,
    LANE_MASK,
    LITERAL,
    SDWA,
    NotAnInstruction,
    TableRow,
    instruction_tables,
)
from tests.builders.opcodes import assemble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.arch.model import InstructionDecoder

TABLES = instruction_tables("rdna2")
RECORDED = Path(__file__).parent / "sources" / "rdna2_objdump.json"
SCALAR, VECTOR, NULL, EXEC, INLINE_ONE, WORD = 8, FIRST_VGPR + 4, 125, 126, 129, 0x5678
SDWA_WORD, DPP_WORD = 0x05040604, 0xFF0D1104
SCALAR_OPERANDS = {"v_readlane_b32": ("src1",), "v_writelane_b32": ("src0", "src1")}
PERMUTATIONS = ("v_permlane16_b32", "v_permlanex16_b32")
WITHOUT_LITERAL = ("v_movrel", "v_swap", "v_readfirstlane", "v_readlane", "v_writelane", "v_permlane", "s_movrel", "s_rfe")
"""Operations whose source is a register."""
LONG_ONLY_WITHOUT_ASSEMBLY = ("v_nop", "v_pipeflush", "v_clrexcp")
"""Their text is the same in both lengths, so it assembles to the short one."""


def decoder() -> InstructionDecoder:
    found = load_architecture("gfx1030").decoder
    assert found is not None
    return found


def register_of(row: TableRow, field: str) -> int:
    """Return a register for an operand of an opcode."""
    operand = next(operand for operand in row.operands if operand.field == field)
    is_scalar = field in SCALAR_OPERANDS.get(row.mnemonic, ()) or (row.mnemonic in PERMUTATIONS and field in ("src1", "src2"))
    return SCALAR if operand.format == LANE_MASK or is_scalar or field.startswith("ss") else VECTOR


def code_of(row: TableRow, **chosen: int) -> bytes:
    """Return the plain encoding of an opcode; `chosen` overrides fields."""
    layout = next(one for one in TABLES.layouts if one.name == row.encoding)
    used = {operand.field for operand in row.operands}
    defaults = {"gds": int("g" in row.flags), "opsel_hi": 3, "op": row.opcode}
    defaults |= {"opsel_hi2": 1, "saddr": NULL, "soffset": NULL if used & {"sbase", "srsrc"} else 0}
    defaults |= {"offen": int("vaddr" in used), "format": 22}
    defaults["simm16"] = 3 if "simm16" in used else 0
    if row.mnemonic.startswith("v_cmpx_"):
        defaults["vdst"] = EXEC + FIRST_VGPR
    raw = layout.prefix[0] << layout.prefix[1]
    raw |= sum(value << field.parts[0][0] for field, value in layout.fixed)
    for field in (layout.opcode, *layout.fields):
        value = defaults.get(field.name, 0)
        if field.name in used and field.name.startswith(("src", "ssrc")):
            value = register_of(row, field.name)
        elif field.name in used and field.base == FIRST_VGPR:
            value = SCALAR + FIRST_VGPR if register_of(row, field.name) == SCALAR else VECTOR
        elif field.name in used and field.name.startswith("s") and field.name not in ("simm16", "soffset"):
            value = SCALAR
        value = (max(0, chosen.get(field.name, value) - field.base)) // field.scale
        for lowest, bits in field.parts:
            raw |= (value & (1 << bits) - 1) << lowest
            value >>= bits
    code = raw.to_bytes(layout.bytes, "little")
    return code + WORD.to_bytes(4, "little") if "literal" in used or LITERAL in chosen.values() else code


def encodings(row: TableRow) -> Iterator[bytes]:
    """Yield the plain encoding of an opcode, and those with a literal and in each variant of its second word."""
    sources = [o.field for o in row.operands if o.field in ("src0", "ssrc0") and o.bits < 64]
    if "atomic" in row.mnemonic and {"vdst", "vdata"} & {operand.field for operand in row.operands}:
        yield code_of(row, glc=1)
    if not row.mnemonic.endswith("atomic_csub"):  # always returns
        yield code_of(row, **({"vdst": FIRST_VGPR} if "atomic" in row.mnemonic else {}))
    if "literal" in {operand.field for operand in row.operands}:
        return
    if sources and not row.mnemonic.startswith(WITHOUT_LITERAL):
        yield code_of(row, **{sources[0]: LITERAL})
        yield code_of(row, **{sources[0]: INLINE_ONE})
    unary = "vsrc1" not in {operand.field for operand in row.operands}
    for flag, number, word in (("s", SDWA, SDWA_WORD), ("d", DPP16, DPP_WORD), ("8", DPP8, DPP_WORD), ("8", DPP8 + 1, DPP_WORD)):
        if flag in row.flags:
            second = word & 0x00FFFFFF if flag == "s" and unary else word
            if flag == "s" and row.encoding == "VOPC":  # has a scalar destination in the place of dst_sel
                second = second & 0xFFFF00FF | (0 if "cmpx" in row.mnemonic else (0x80 | SCALAR) << 8)
            yield code_of(row, src0=number) + second.to_bytes(4, "little")


ENCODINGS = [code for row in TABLES.rows() for code in encodings(row) if row.mnemonic not in LONG_ONLY_WITHOUT_ASSEMBLY]


@pytest.mark.parametrize("wave_size", [32, 64])
def test_text_assembles_to_the_same_bytes(wave_size: int) -> None:
    texts = [decode_instruction(code, decoder(), wave_size) for code in ENCODINGS]
    assert [size for _, size in texts] == [len(code) for code in ENCODINGS]

    assembled = assemble([text for text, _ in texts], "gfx1030", wave_size)

    assert assembled == b"".join(ENCODINGS)


def test_text_is_that_of_objdump() -> None:
    for wave_size, rows in json.loads(RECORDED.read_text()).items():
        for words, text in rows:
            assert decode_instruction(bytes.fromhex(words), decoder(), int(wave_size)) == (text, len(words) // 2)


@given(st.binary(min_size=0, max_size=16))
def test_any_bytes_decode_to_an_instruction_inside_of_them_or_are_refused(code: bytes) -> None:
    try:
        found = TABLES.decode(code)
    except NotAnInstruction:
        return
    assert 4 <= found.size <= len(code)
    assert TABLES.decode(code[: found.size]) == found
    assert TABLES.decode(code + b"\xff" * 8) == found


@pytest.mark.parametrize(
    ("word", "reason"),
    [(0xF0000000, "image instructions"), (0xF8000000, "exports"), (0xC8000000, "interpolation"), (0xBE80FF00, "no encoding")],
)
def test_what_compute_kernels_do_not_have_is_refused_by_name(word: int, reason: str) -> None:
    with pytest.raises(NotAnInstruction, match=reason):
        TABLES.decode(word.to_bytes(4, "little") + bytes(8))
