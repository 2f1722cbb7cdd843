"""Decoder of gfx942 machine code: bytes to :class:`Instruction`. Only this module depends on the decoder library.

The tables are those of tinygrad, generated from AMD's machine-readable specification (CDNA4, which includes CDNA3). Their
layout is private to that package, so its version is pinned.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from rocm_perf_lab.emulator.errors import IllegalInstruction
from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType
from rocm_perf_lab.emulator.isa.pseudocode import mnemonic_of, pseudocode_of

LONGEST_INSTRUCTION = 20
_MTBUF = 0b111010
_VARIANT_MARKERS = frozenset({249, 250, 255})
"""Operands that announce SDWA, DPP and a literal; other fields with these values only cost time."""
_WORD_BITS, _LOWER_BITS = 32, 23
"""Bits of a word, and of its part below the field that tells encodings apart."""


def decode_one(code: bytes, address: int, index: int = 0) -> Instruction:
    """Decode the instruction at the start of `code`.

    Raises:
        IllegalInstruction: The bytes do not encode an instruction of gfx942.
    """
    window = code[:LONGEST_INSTRUCTION].ljust(LONGEST_INSTRUCTION + 8, b"\0")
    try:
        decoded = _decoded(window)
        name, size = decoded.op.name, decoded.size()
    except (ValueError, KeyError, AssertionError, RuntimeError, AttributeError, TypeError, IndexError) as error:
        raise IllegalInstruction.at(address, code[:8], "not an encoding of gfx942") from error
    if size > len(code):
        raise IllegalInstruction.at(address, code, "the code ends inside this instruction")
    layout: Any = type(decoded)
    family, _, variant = layout.__name__.partition("_")
    mnemonic = mnemonic_of(name)
    return Instruction(
        index=index,
        address=address,
        size=size,
        mnemonic=mnemonic,
        encoding=family,
        variant=variant,
        raw=int.from_bytes(code[:size], "little"),
        fields={
            field: _number(getattr(decoded, field)) if base is None else (decoded._raw >> low & mask) + base
            for field, low, mask, base in _layout(layout)
        },
        operands={
            field: OperandType(kind.name.removeprefix("FMT_").removeprefix("NUM_"), bits)
            for field, (kind, bits, _) in decoded.operands.items()
        },
        pseudocode=pseudocode_of(mnemonic),
    )


def _decoded(window: bytes) -> Any:
    from tinygrad.renderer.amd import _matches

    if window[3] >> 2 == _MTBUF:  # the library has the layout but does not select it
        from tinygrad.runtime.autogen.amd.cdna.ins import MTBUF

        return MTBUF.from_bytes(window)
    for layout in _candidates(int.from_bytes(window[:4], "little") >> _LOWER_BITS):
        if _matches(window, layout):
            return _instance(layout, window)
    raise ValueError("no layout matches")


def _instance(layout: Any, window: bytes) -> Any:
    """Return an instruction of a layout; the library selects a variant if an operand is a marker of one."""
    raw = int.from_bytes(window[: layout._base_size], "little")
    for _, low, mask, base in _layout(layout):
        if base is None or (raw >> low & mask) + base in _VARIANT_MARKERS:
            return layout.from_bytes(window)
    decoded = object.__new__(layout)
    decoded._raw = raw
    return decoded


@cache
def _candidates(upper: int) -> tuple[Any, ...]:
    """Return the layouts whose fixed fields agree with the upper bits of the first word, in the order of the library."""
    from tinygrad.renderer.amd import _load_formats
    from tinygrad.renderer.amd.dsl import FixedBitField

    word = upper << _LOWER_BITS

    def may_match(layout: Any) -> bool:
        fixed = [f for _, f in layout._fields if isinstance(f, FixedBitField) and _LOWER_BITS <= f.lo < _WORD_BITS]
        return all(word >> f.lo & f.mask == f.default for f in fixed)

    return tuple(filter(may_match, _load_formats()["cdna"]))


@cache
def _layout(layout: Any) -> tuple[tuple[str, int, int, int | None], ...]:
    """Return name, lowest bit, mask and operand number of the value 0 of each field; None for fields that the library decodes."""
    from tinygrad.renderer.amd import dsl

    plain = (dsl.BitField, dsl.FixedBitField, dsl.EnumBitField)
    registers = (dsl.SrcField, dsl.VGPRField, dsl.SGPRField, dsl.SSrcField)

    def base(field: Any) -> int | None:
        if type(field) in plain:
            return 0
        return field._valid_range[0] if type(field) in registers else None

    return tuple((name, field.lo, field.mask, base(field)) for name, field in layout._fields)


def _number(value: Any) -> int:
    offset = getattr(value, "offset", None)
    return int(offset) if offset is not None else int(getattr(value, "value", value) or 0)
