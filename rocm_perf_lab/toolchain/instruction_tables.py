"""Decoder of instructions by the tables in `arch/encodings/*.yaml`, for architectures that the decoder library lacks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import rocm_perf_lab.arch
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.core.resources import load_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FIRST_VGPR = 256
LITERAL, SDWA, DPP16, DPP8, DPP8_FETCH_INACTIVE = 255, 249, 250, 233, 234
LONGEST_INSTRUCTION = 12
LANE_MASK = "M64"
"""Format of operands with one bit for each lane, in as many SGPRs as the wave size needs."""
_WORD_BITS, _DISPATCH_BITS = 32, 9
_SOURCES = ("src0", "src1", "src2", "ssrc0", "ssrc1")
_FIELD = re.compile(r"(?P<base>v|[24]x)?(?P<bits>\d+(-\d+)?(\+\d+(-\d+)?)*)")
_FORMAT_BITS = re.compile(r"\D+(\d+)")


class NotAnInstruction(Exception):
    """Bytes that do not encode an instruction; the text says why."""


class _Encoding(StrictModel):
    prefix: str
    fixed: dict[str, int] = {}
    fields: dict[str, str]
    opcodes: str


class _EncodingFile(StrictModel):
    encodings: dict[str, _Encoding]
    variants: dict[str, dict[str, str]]
    refused: dict[str, str]
    hardware_registers: dict[int, str]
    buffer_formats: str


@dataclass(frozen=True)
class TableField:
    """Bits of an instruction: parts as (lowest bit, number of bits), least significant first."""

    name: str
    parts: tuple[tuple[int, int], ...]
    scale: int = 1
    base: int = 0

    @property
    def mask(self) -> int:
        """Largest value of the bits."""
        return (1 << sum(bits for _, bits in self.parts)) - 1

    def placed(self, value: int) -> int:
        """Return an instruction with only these bits."""
        raw = 0
        for lowest, bits in self.parts:
            raw |= (value & (1 << bits) - 1) << lowest
            value >>= bits
        return raw

    def read(self, raw: int) -> int:
        """Return the value in an instruction; the operand number for registers."""
        value = width = 0
        for lowest, bits in self.parts:
            value |= (raw >> lowest & (1 << bits) - 1) << width
            width += bits
        return value * self.scale + self.base


@dataclass(frozen=True)
class TableOperand:
    """Operand of an opcode: its field, format and width in bits."""

    field: str
    format: str
    bits: int


@dataclass(frozen=True)
class TableRow:
    """One opcode of one encoding; `mnemonic` is lower case without the suffix of an encoding.

    `operands` are in the order of the assembly text. `flags`: `e` for opcodes with a short and a long form, `s`, `d` and `8` for
    those with SDWA, DPP16 and DPP8 forms, `g` for those of the global data share only.
    """

    encoding: str
    opcode: int
    mnemonic: str
    flags: str
    operands: tuple[TableOperand, ...]


@dataclass(frozen=True)
class TableInstruction:
    """Instruction as decoded by the tables. `variant` is empty, or LIT, SDWA, SDWA_SDST, DPP16 or DPP8; `size` is in bytes."""

    row: TableRow
    variant: str
    size: int
    raw: int
    fields: Mapping[str, int]


@dataclass(frozen=True)
class _Layout:
    name: str
    prefix: tuple[int, int]
    """Value, and number of bits below it in the first word."""
    fixed: tuple[tuple[TableField, int], ...]
    opcode: TableField
    fields: tuple[TableField, ...]
    bytes: int
    rows: Mapping[int, TableRow]

    def matches(self, word: int) -> bool:
        value, below = self.prefix
        return word >> below == value and all(field.read(word) == expected for field, expected in self.fixed)


@dataclass(frozen=True)
class InstructionTables:
    """Encodings of one architecture."""

    layouts: tuple[_Layout, ...]
    variants: Mapping[str, tuple[TableField, ...]]
    refused: Mapping[str, tuple[int, int]]
    dispatch: tuple[tuple[_Layout, ...], ...]
    """Layouts by the highest bits of the first word."""
    hardware_registers: Mapping[int, str]
    """Names of the registers of S_GETREG and S_SETREG."""
    buffer_formats: tuple[str, ...]
    """Names of the formats of MTBUF instructions: `32_FLOAT`; the first has number 1."""

    def rows(self) -> tuple[TableRow, ...]:
        """Return all opcodes."""
        return tuple(row for layout in self.layouts for row in layout.rows.values())

    def encode(self, row: TableRow, value_of: Callable[[str, int], int]) -> bytes:
        """Encode an opcode.

        Args:
            row: One of :meth:`rows`.
            value_of: Returns the bits of a field from its name and the largest value that fits.
        """
        layout = next(layout for layout in self.layouts if layout.name == row.encoding)
        value, below = layout.prefix
        raw = value << below
        for field, constant in layout.fixed:
            raw |= field.placed(constant)
        raw |= layout.opcode.placed(row.opcode)
        for field in layout.fields:
            raw |= field.placed(value_of(field.name, field.mask))
        literal = value_of("literal", (1 << _WORD_BITS) - 1) if any(o.field == "literal" for o in row.operands) else None
        code = raw.to_bytes(layout.bytes, "little")
        return code if literal is None else code + literal.to_bytes(_WORD_BITS // 8, "little")

    def decode(self, code: bytes) -> TableInstruction:
        """Decode the instruction at the start of `code`, which may be followed by other code.

        Raises:
            NotAnInstruction: The bytes do not encode an instruction of the tables, or end inside of it.
        """
        if len(code) < _WORD_BITS // 8:
            raise NotAnInstruction("the code ends inside this instruction")
        raw = int.from_bytes(code[:LONGEST_INSTRUCTION], "little")
        word = raw & (1 << _WORD_BITS) - 1
        for layout in self.dispatch[word >> _WORD_BITS - _DISPATCH_BITS]:
            if layout.matches(word):
                row = layout.rows.get(layout.opcode.read(raw))
                if row is not None:
                    return self._instruction(layout, row, raw, len(code))
        for what, (prefix, below) in self.refused.items():
            if word >> below == prefix:
                raise NotAnInstruction(f"{what} are not supported")
        raise NotAnInstruction("no encoding has this opcode")

    def _instruction(self, layout: _Layout, row: TableRow, raw: int, available: int) -> TableInstruction:
        fields = {field.name: field.read(raw) for field in layout.fields}
        if row.operands and row.operands[0].format == LANE_MASK:
            fields[row.operands[0].field] -= FIRST_VGPR  # a comparison writes to SGPRs
        variant, extra = _variant(row, fields), 0
        if variant == "LIT":
            fields["literal"] = raw >> 8 * layout.bytes & (1 << _WORD_BITS) - 1
            extra = _WORD_BITS // 8
        elif variant:
            fields |= {field.name: field.read(raw) for field in self.variants[variant]}
            extra = _WORD_BITS // 8
            if variant == "DPP8":
                fields["fi"] = int(fields["src0"] == DPP8_FETCH_INACTIVE)
        size = layout.bytes + extra
        if size > available:
            raise NotAnInstruction("the code ends inside this instruction")
        return TableInstruction(row, variant, size, raw & (1 << 8 * size) - 1, fields)


def _variant(row: TableRow, fields: Mapping[str, int]) -> str:
    """Return the variant that an operand announces.

    Raises:
        NotAnInstruction: The opcode has no such variant.
    """
    if any(operand.field == "literal" for operand in row.operands):
        return "LIT"
    announced = fields.get("src0")
    if "vsrc1" in fields or row.encoding == "VOP1":
        for flag, numbers, name in (("s", (SDWA,), "SDWA"), ("d", (DPP16,), "DPP16"), ("8", (DPP8, DPP8_FETCH_INACTIVE), "DPP8")):
            if announced in numbers:
                if flag not in row.flags:
                    raise NotAnInstruction(f"{row.mnemonic} has no {name} form")
                return "SDWA_SDST" if name == "SDWA" and row.encoding == "VOPC" else name
    return "LIT" if any(fields[o.field] == LITERAL for o in row.operands if o.field in _SOURCES) else ""


@cache
def instruction_tables(name: str) -> InstructionTables:
    """Return the tables in `arch/encodings/NAME.yaml`."""
    path = Path(rocm_perf_lab.arch.__file__).parent / "encodings" / f"{name}.yaml"
    content = _EncodingFile.model_validate(load_yaml(path.read_text(encoding="utf-8")))
    layouts = tuple(_layout(encoding, described) for encoding, described in content.encodings.items())
    by_length = sorted(layouts, key=lambda layout: layout.prefix[1])
    formats = (line.split() for line in content.buffer_formats.splitlines())
    return InstructionTables(
        hardware_registers=content.hardware_registers,
        buffer_formats=tuple(f"{components}_{kind}" for components, *kinds in formats for kind in kinds),
        layouts=layouts,
        variants={name: tuple(_field(*row) for row in fields.items()) for name, fields in content.variants.items()},
        refused={what: _prefix(prefix) for what, prefix in content.refused.items()},
        dispatch=tuple(
            tuple(layout for layout in by_length if _may_match(layout.prefix, upper)) for upper in range(1 << _DISPATCH_BITS)
        ),
    )


def _may_match(prefix: tuple[int, int], upper: int) -> bool:
    value, below = prefix
    return upper << _WORD_BITS - _DISPATCH_BITS >> below == value


def _layout(name: str, described: _Encoding) -> _Layout:
    fields = [_field(*row) for row in described.fields.items()]
    highest = max(lowest + bits for field in fields for lowest, bits in field.parts)
    rows = (_row(name, line) for line in described.opcodes.splitlines())
    return _Layout(
        name=name,
        prefix=_prefix(described.prefix),
        fixed=tuple((_field("", bits), value) for bits, value in described.fixed.items()),
        opcode=next(field for field in fields if field.name == "op"),
        fields=tuple(field for field in fields if field.name != "op"),
        bytes=8 if highest > _WORD_BITS else 4,
        rows={row.opcode: row for row in rows},
    )


def _prefix(bits: str) -> tuple[int, int]:
    return int(bits, 2), _WORD_BITS - len(bits)


def _field(name: str, text: str) -> TableField:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"field {name}: {text}")
    parts = []
    for part in match["bits"].split("+"):
        high, _, low = part.partition("-")
        lowest = int(low or high)
        parts.append((lowest, int(high) - lowest + 1))
    base = match["base"] or ""
    return TableField(name, tuple(parts), scale=int(base[0]) if base.endswith("x") else 1, base=FIRST_VGPR if base == "v" else 0)


def _row(encoding: str, line: str) -> TableRow:
    opcode, mnemonic, flags, *operands = line.split()
    return TableRow(encoding, int(opcode, 16), mnemonic, flags.strip("-"), tuple(map(_operand, operands)))


def _operand(text: str) -> TableOperand:
    field, _, kind = text.partition(":")
    name, _, bits = kind.partition("/")
    sized = _FORMAT_BITS.fullmatch(name)
    return TableOperand(field, name, int(bits or (sized[1] if sized else 0)))
