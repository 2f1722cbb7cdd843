"""Disassembly of one CDNA instruction with tinygrad's instruction tables, as text of LLVM."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.toolchain.cdna_assembly import cdna_text
from rocm_perf_lab.toolchain.instruction_tables import NotAnInstruction, instruction_tables
from rocm_perf_lab.toolchain.rdna_assembly import assembly_text

if TYPE_CHECKING:
    from rocm_perf_lab.arch.model import InstructionDecoder, OwnOpcode

_DWORD = 4
_LONGEST_INSTRUCTION, _USUAL_INSTRUCTION = 16, 8
_SCALES = b"\xac\xd3"
"""Upper half of the first word of the only longer instruction, a scaled product; the library does not compare it."""
_MTBUF = 0b111010


def decode_instruction(code: bytes, decoder: InstructionDecoder, wave_size: int = 64) -> tuple[str, int]:
    """Return text and size in bytes of the first instruction in `code`; `.long` for bytes that do not decode."""
    if decoder.own_tables:
        return _decode_by_tables(code, decoder, wave_size)
    longest = _LONGEST_INSTRUCTION if code[2:4] == _SCALES else _USUAL_INSTRUCTION
    try:
        instruction, name = _decoded(code[:longest].ljust(longest, b"\0"), decoder)
        size = instruction.size()
        text = cdna_text(instruction, name, decoder)
    except (ValueError, KeyError, IndexError, AssertionError, RuntimeError):  # raised for invalid encodings
        size, text = len(code) + 1, ""
    if size > len(code):
        return f".long {int.from_bytes(code[:_DWORD], 'little'):#010x}", min(_DWORD, len(code))
    return text, size


def _decoded(window: bytes, decoder: InstructionDecoder) -> tuple[Any, str]:
    """Return the instruction at the start of a window, and its name in lower case."""
    from tinygrad.renderer.amd import decode_inst

    word = int.from_bytes(window[:_DWORD], "little")
    for own in decoder.own_opcodes:
        fixed, mask, value, known = _opcode_bits(own, decoder.tables)
        if word & (fixed | mask) == value:
            word = word & ~mask | known
            return decode_inst(word.to_bytes(_DWORD, "little") + window[_DWORD:], decoder.tables), own.mnemonic.lower()
    if window[3] >> 2 == _MTBUF:  # the library has the layout but does not select it
        from tinygrad.runtime.autogen.amd.cdna.ins import MTBUF

        typed: Any = MTBUF.from_bytes(window)
        return typed, typed.op.name.lower()
    instruction: Any = decode_inst(window, decoder.tables)
    return instruction, instruction.op.name.lower()


def _decode_by_tables(code: bytes, decoder: InstructionDecoder, wave_size: int) -> tuple[str, int]:
    tables = instruction_tables(decoder.tables)
    try:
        instruction = tables.decode(code)
    except NotAnInstruction:
        return f".long {int.from_bytes(code[:_DWORD], 'little'):#010x}", min(_DWORD, len(code))
    return assembly_text(instruction, tables, decoder, wave_size), instruction.size


@lru_cache(maxsize=256)
def _opcode_bits(own: OwnOpcode, tables: str) -> tuple[int, int, int, int]:
    """Return fixed bits and opcode bits of the first word, their values, and the opcode bits of the known opcode."""
    from tinygrad.renderer.amd import _load_formats
    from tinygrad.renderer.amd.dsl import FixedBitField

    fields = next(dict(layout._fields) for layout in _load_formats()[tables] if layout.__name__ == own.encoding)
    fixed = [f for f in fields.values() if isinstance(f, FixedBitField) and f.lo < 8 * _DWORD]
    op = fields["op"]
    value = sum(f.default << f.lo for f in fixed) | own.opcode << op.lo
    return sum(f.mask << f.lo for f in fixed), op.mask << op.lo, value, own.like << op.lo
