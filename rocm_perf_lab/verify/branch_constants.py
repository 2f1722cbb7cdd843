"""Constants of a kernel with which its conditions may compare sizes and input values.

The order is: constants of comparisons next to a condition with a missing outcome, other constants of comparisons, literals of the
source, other constants of the code.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.translate.operands import LITERAL, inline_constant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.verify.branches import OpenCondition

_COMPARISONS = ("S_CMP", "S_BITCMP", "V_CMP")
_SOURCES = ("ssrc0", "ssrc1", "src0", "src1", "vsrc1", "src2")
_ROUNDING = re.compile(r"\b(?:__builtin_)?(?:h2?|l{1,2})?(?:rint|nearbyint|round|roundeven)[fl]?\s*\(|2u?(?:int|ll)_rn\s*\(")
_NUMBER = re.compile(
    r"(?<![\w.])(?:0[xX](?P<hex>[0-9a-fA-F']+)|(?P<float>(?:\d[\d']*\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d[\d']*[eE][+-]?\d+)"
    r"|(?P<int>\d[\d']*))(?:[uUlLzZfFhH]*)(?![\w.])"
)
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LARGEST_SIZE = 1 << 40
_FLOAT_MAGNITUDES = (1e-37, 3e38)
_UNPACKED = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}


@dataclass(frozen=True)
class Constants:
    """Constants in order of relevance, without duplicates.

    Args:
        compared: Integers of comparisons next to conditions with a missing outcome.
        integers: All positive integers, with `compared` first.
        floats: Floating-point numbers other than zero.
    """

    compared: tuple[int, ...]
    integers: tuple[int, ...]
    floats: tuple[float, ...]


def find_constants(program: Program, open_ones: Iterable[OpenCondition], source: str) -> Constants:
    """Return the constants of a kernel.

    Args:
        program: Program of the kernel.
        open_ones: Conditions with a missing outcome.
        source: Text of the source.
    """
    places = {condition.instruction.address for condition in open_ones}
    near: list[int | float] = []
    comparisons: list[int | float] = []
    others: list[int | float] = []
    for block in program.blocks:
        is_near = any(i.address in places for i in block.instructions)
        for instruction in block.instructions:
            found = _of_instruction(instruction)
            is_comparison = instruction.mnemonic.startswith(_COMPARISONS)
            (comparisons if is_comparison else others).extend(found)
            if is_near:
                near.extend(found if is_comparison else [n for n in found if not isinstance(n, int)])
    written = list(_of_text(source))
    ordered = [*near, *comparisons, *written, *others]
    return Constants(
        compared=_sizes([*near, *comparisons]),
        integers=_sizes(ordered),
        floats=tuple(dict.fromkeys(float(n) for n in ordered if isinstance(n, float))),
    )


def floats_of(source: str) -> tuple[float, ...]:
    """Return the floating-point numbers in a source in order, without duplicates and integers."""
    return tuple(dict.fromkeys(number for number in _written(source) if isinstance(number, float)))


def rounds_to_nearest(source: str) -> bool:
    """Return whether a source calls a function that rounds floating-point numbers to nearest integers."""
    return _ROUNDING.search(_COMMENTS.sub(" ", source)) is not None


def _sizes(numbers: Iterable[int | float]) -> tuple[int, ...]:
    whole = (int(n) for n in numbers if isinstance(n, int))
    return tuple(dict.fromkeys(n for n in whole if 0 < n < _LARGEST_SIZE))


def _of_instruction(instruction: Instruction) -> list[int | float]:
    """Return constants in the operand types of the instruction; literals of moves both as integers and as floats."""
    found: list[int | float] = []
    if instruction.encoding == "SOPK" and instruction.mnemonic.startswith("S_CMPK"):
        word = instruction.fields["simm16"] & 0xFFFF
        found.append(abs(word - ((word >> 15) << 16)) if instruction.mnemonic.endswith("I32") else word)
    for name in _SOURCES:
        operand, kind = instruction.fields.get(name), instruction.operands.get(name)
        if operand is None or kind is None or not (128 <= operand <= 248 or operand == LITERAL):
            continue
        found += _of_operand(instruction, operand, kind)
    return [n for n in found if n]


def _of_operand(instruction: Instruction, operand: int, kind: OperandType) -> list[int | float]:
    bits = kind.bits if kind.bits in _UNPACKED else 32
    if operand == LITERAL:
        raw = instruction.fields.get("literal", 0) & 0xFFFFFFFF
        if kind.format.startswith("F"):
            wide = raw << 32 if bits == 64 else raw & ((1 << bits) - 1)
            return _floats(wide, bits)
        return [
            raw if raw < 1 << 31 else (1 << 32) - raw,
            *(_floats(raw, 32) if instruction.mnemonic.startswith(("S_MOV", "V_MOV", *_COMPARISONS)) else ()),
        ]
    value = inline_constant(operand, kind)
    if value is None:
        return []
    raw = value.integer & ((1 << bits) - 1)
    if kind.format.startswith("F") or operand >= 240:
        return _floats(raw, bits)
    return [raw] if raw < 1 << (bits - 1) else [(1 << bits) - raw]


def _floats(raw: int, bits: int) -> list[int | float]:
    whole, real = _UNPACKED[bits]
    value = float(struct.unpack(real, struct.pack(whole, raw))[0])
    low, high = _FLOAT_MAGNITUDES
    return [value] if math.isfinite(value) and low < abs(value) < high else []


def _of_text(source: str) -> Iterator[int | float]:
    """Yield the numbers of a C++ or Python source, integers also as floats, because inputs are compared with both."""
    for number in _written(source):
        yield number
        if isinstance(number, float):
            if number.is_integer() and abs(number) < _LARGEST_SIZE:
                yield int(number)
        elif number < 1 << 24:
            yield float(number)


def _written(source: str) -> Iterator[int | float]:
    """Yield the finite non-zero numbers of a source as the type of their literal."""
    for match in _NUMBER.finditer(_COMMENTS.sub(" ", source)):
        digits = next(group for group in match.groups() if group is not None).replace("'", "")
        number = float(digits) if match["float"] is not None else int(digits, 16 if match["hex"] is not None else 10)
        if number and math.isfinite(number):
            yield number
