"""Decoder of machine code: bytes to :class:`Instruction`. Only this module depends on the decoder library.

The tables of CDNA are those of tinygrad, generated from AMD's machine-readable specification (CDNA4, which includes
most of CDNA3 and CDNA2); the instruction set of an architecture has the differences. Their
layout is private to that package, so its version is pinned. Other architectures have their own tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.emulator.errors import IllegalInstruction
from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType
from rocm_perf_lab.emulator.isa.pseudocode import mnemonic_of, pseudocode_of
from rocm_perf_lab.toolchain.instruction_tables import NotAnInstruction, instruction_tables

LONGEST_INSTRUCTION = 20
if TYPE_CHECKING:
    from rocm_perf_lab.arch.model import OwnOpcode
    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet

_MTBUF = 0b111010
_VARIANT_MARKERS = frozenset({249, 250, 255})
"""Operands that announce SDWA, DPP and a literal; other fields with these values only cost time."""
_SCALED_PRODUCT, _SCALES, _UPPER_HALF = "VOP3PX2", 0xD3AC, 16
"""Layout of two pairs of words, and the upper half of its first word."""
_WORD_BITS, _LOWER_BITS = 32, 23
"""Number of bits of a word, and of its part below the field that distinguishes encodings."""


def decode_one(code: bytes, address: int, isa: InstructionSet, index: int = 0) -> Instruction:
    """Decode the instruction at the start of `code`.

    Raises:
        IllegalInstruction: The bytes do not encode an instruction of the architecture.
    """
    if isa.decoder.own_tables:
        return _decode_by_tables(code, address, isa, index)
    window = code[:LONGEST_INSTRUCTION].ljust(LONGEST_INSTRUCTION + 8, b"\0")
    own = _own_opcode(window, isa) if isa.own_opcodes else None
    try:
        decoded = _decoded(window if own is None else own.substituted(window))
        name, size = decoded.op.name, decoded.size()
    except (ValueError, KeyError, AssertionError, RuntimeError, AttributeError, TypeError, IndexError) as error:
        raise IllegalInstruction.at(address, code[:8], isa, f"not an encoding of {isa.architecture}") from error
    if size > len(code):
        raise IllegalInstruction.at(address, code, isa, "the code ends inside this instruction")
    layout: Any = type(decoded)
    family, _, variant = layout.__name__.partition("_")
    mnemonic = mnemonic_of(name) if own is None else own.mnemonic
    if own is None and not isa.has(mnemonic):
        raise IllegalInstruction.at(address, code[:size], isa, f"{isa.architecture} has no {mnemonic.lower()}")
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
        isa=isa,
        pseudocode=pseudocode_of(mnemonic),
    )


def _decode_by_tables(code: bytes, address: int, isa: InstructionSet, index: int) -> Instruction:
    try:
        decoded = instruction_tables(isa.decoder.tables).decode(code)
    except NotAnInstruction as error:
        raise IllegalInstruction.at(address, code[:8], isa, f"{error} ({isa.architecture})") from error
    native = decoded.row.mnemonic.upper()
    if not isa.has(native):
        raise IllegalInstruction.at(address, code[: decoded.size], isa, f"{isa.architecture} has no {native.lower()}")
    mnemonic = isa.operation(native)
    return Instruction(
        index=index,
        address=address,
        size=decoded.size,
        mnemonic=mnemonic,
        encoding=decoded.row.encoding,
        variant=decoded.variant,
        raw=decoded.raw,
        fields=decoded.fields,
        operands={operand.field: OperandType(operand.format, operand.bits) for operand in decoded.row.operands},
        isa=isa,
        pseudocode=pseudocode_of(mnemonic),
    )


@dataclass(frozen=True)
class _Substitution:
    """Opcode field of an encoding: instructions with `value` decode as those with `known`."""

    tested: int
    """Bits that identify the encoding and its opcode; `value` are those of the instruction."""
    mask: int
    value: int
    known: int
    mnemonic: str

    def substituted(self, window: bytes) -> bytes:
        """Return the code of the instruction with the same operands."""
        word = int.from_bytes(window[:4], "little") & ~self.mask | self.known
        return word.to_bytes(4, "little") + window[4:]


def _own_opcode(window: bytes, isa: InstructionSet) -> _Substitution | None:
    word = int.from_bytes(window[:4], "little")
    for tested, by_value in _substitutions(isa):
        if found := by_value.get(word & tested):
            return found
    return None


@cache
def _substitutions(isa: InstructionSet) -> tuple[tuple[int, dict[int, _Substitution]], ...]:
    """Return the substitutions of an instruction set by the bits that they test and their value."""
    from tinygrad.renderer.amd import _load_formats
    from tinygrad.renderer.amd.dsl import FixedBitField

    layouts = {layout.__name__: dict(layout._fields) for layout in _load_formats()["cdna"]}

    def substitution(own: OwnOpcode) -> _Substitution:
        fields = layouts[own.encoding]
        fixed = [f for f in fields.values() if isinstance(f, FixedBitField) and f.lo < _WORD_BITS]
        op = fields["op"]
        return _Substitution(
            tested=sum(f.mask << f.lo for f in fixed) | op.mask << op.lo,
            mask=op.mask << op.lo,
            value=sum(f.default << f.lo for f in fixed) | own.opcode << op.lo,
            known=own.like << op.lo,
            mnemonic=own.mnemonic,
        )

    grouped: dict[int, dict[int, _Substitution]] = {}
    for one in map(substitution, isa.own_opcodes):
        grouped.setdefault(one.tested, {})[one.value] = one
    return tuple(grouped.items())


def _decoded(window: bytes) -> Any:
    from tinygrad.renderer.amd import _matches

    if window[3] >> 2 == _MTBUF:  # the library has the layout but does not select it
        from tinygrad.runtime.autogen.amd.cdna.ins import MTBUF

        return MTBUF.from_bytes(window)
    word = int.from_bytes(window[:4], "little")
    for layout in _candidates(word >> _LOWER_BITS):
        if layout.__name__ == _SCALED_PRODUCT and word >> _UPPER_HALF != _SCALES:
            continue  # the library does not compare the first pair of words of a scaled product
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
