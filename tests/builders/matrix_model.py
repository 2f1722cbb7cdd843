"""Bit-exact model of the matrix cores of AMD's GPUs, in integers of Python, and the list of what it assumes.

A number is a sign, an integer and a power of two; only :func:`float_bits` rounds to a format. Formats, layouts, denormals, MODE
and scales follow the ISA documents of CDNA2, CDNA3 and CDNA4, which leave order, width and rounding of sums open. Assumptions:

1. gfx90a and gfx942: the models of Xie et al., "MMA-Sim" (arXiv 2511.10909, package mmasim 2.1.1), which agree with these GPUs on
   large random samples. F32, F64: a fused multiply-add per product. gfx90a, halves: products and sums of pairs (of pairs of pairs
   for F16 and BF16_1K) are rounded to float32; operands below the normal range are +0, such results are flushed. gfx942: groups
   of 8 (F16, BF16), 4 (XF32, whose operands are truncated) or 16 (FP8, even and odd products apart) are added in fixed point,
   with 24 bits behind the largest exponent.
2. gfx950: no published model. The same sums as gfx942, also for the shapes of twice the depth.
3. F8F6F4: a block of 32 is one group, whose exponent the scales move ("the scales are applied after the normal dot product prior
   to output/accumulation", CDNA4 ISA). A scale of 255 makes the result NaN.
4. Sparse products: the stored elements are added as a dense product of half the depth would be.
5. Exact zero sums in fixed point are +0. Sign and payload of NaN are not modelled.
6. FP16_OVFL limits results of F8F6F4 and of the sparse products of gfx950 (CDNA4 ISA), after the last group; infinite operands
   stay infinite. Dense products of other types ignore it: the document has no such rule for them.
7. MODE flushes denormal F32 operands A and B as for vector instructions; C and D keep denormals (CDNA4 ISA).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NAN, INFINITY = "nan", "infinity"


@dataclass(frozen=True)
class Format:
    """Binary float; `has_infinities` of those that have them, `nans` the magnitudes that are NaN otherwise."""

    bits: int
    mantissa: int
    bias: int
    has_infinities: bool = False
    nans: tuple[int, ...] = ()
    has_negative_zero: bool = True

    @property
    def lowest_exponent(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias


FORMATS = {
    "f64": Format(64, 52, 1023, has_infinities=True),
    "f32": Format(32, 23, 127, has_infinities=True),
    "f16": Format(16, 10, 15, has_infinities=True),
    "bf16": Format(16, 7, 127, has_infinities=True),
    "fp8_fnuz": Format(8, 3, 8, has_negative_zero=False),
    "bf8_fnuz": Format(8, 2, 16, has_negative_zero=False),
    "fp8": Format(8, 3, 7, nans=(0x7F,)),
    "bf8": Format(8, 2, 15, has_infinities=True),
    "fp6": Format(6, 3, 1),
    "bf6": Format(6, 2, 3),
    "fp4": Format(4, 1, 1),
}


@dataclass(frozen=True)
class Number:
    """(-1)^negative * size * 2^power, or a special value; `exponent` is that of the first bit, or the lowest of the format."""

    negative: bool
    size: int
    power: int
    exponent: int
    special: str = ""

    @property
    def signed(self) -> int:
        """Size with its sign."""
        return -self.size if self.negative else self.size


def decode(code: int, name: str) -> Number:
    """Return the number of a code."""
    return _xf32(code) if name == "xf32" else _decode(code, name)


def _xf32(code: int) -> Number:
    """Return a float32 without its last 13 bits."""
    number = _decode(code, "f32")
    return number if number.special else _decode(code & ~0x1FFF, "f32")


@cache
def _decode(code: int, name: str) -> Number:
    kind = FORMATS[name]
    negative, magnitude = bool(code >> kind.bits - 1), code & (1 << kind.bits - 1) - 1
    field, mantissa = magnitude >> kind.mantissa, magnitude & (1 << kind.mantissa) - 1
    if not kind.has_negative_zero and negative and magnitude == 0:
        return Number(negative, 0, 0, 0, NAN)
    if magnitude in kind.nans:
        return Number(negative, 0, 0, 0, NAN)
    if kind.has_infinities and magnitude >> kind.mantissa == (1 << kind.bits - 1 - kind.mantissa) - 1:
        return Number(negative, 0, 0, 0, NAN if mantissa else INFINITY)
    exponent = max(field, 1) - kind.bias
    return Number(negative, mantissa | (field > 0) << kind.mantissa, exponent - kind.mantissa, exponent)


def float_bits(negative: bool, size: int, power: int, name: str = "f32") -> int:
    """Return the code of a number, rounded to nearest even; infinity if it is too large."""
    kind = FORMATS[name]
    sign = int(negative) << kind.bits - 1
    if size == 0:
        return sign
    place = max(size.bit_length() + power - 1, kind.lowest_exponent) - kind.mantissa  # of the last bit of the result
    rounded = size << power - place if power >= place else _nearest(size, place - power)
    code = (place + kind.mantissa - kind.lowest_exponent << kind.mantissa) + rounded  # a carry moves to the exponent
    infinity = (1 << kind.bits - 1) - (1 << kind.mantissa)
    return sign | min(code, infinity)


def _nearest(size: int, shift: int) -> int:
    kept, rest = size >> shift, size & (1 << shift) - 1
    half = 1 << shift - 1
    return kept + (rest > half or (rest == half and kept & 1 == 1))


# ---- fused multiply-add in order of K ----


def fused(a: Sequence[Number], b: Sequence[Number], c: int, name: str) -> int:
    """Return the code of C plus all products, each product added with one rounding."""
    for x, y in zip(a, b, strict=True):
        special = _special([x, y], [(x, y)], _decode(c, name), name)
        if special is not None:
            c = special
            continue
        addend = _decode(c, name)
        power = min(x.power + y.power, addend.power)
        total = (x.signed * y.signed << x.power + y.power - power) + (addend.signed << addend.power - power)
        if total == 0:
            both = (x.negative != y.negative) and addend.negative  # exact zeros: -0 only from -0 and -0
            c = float_bits(both and x.size * y.size == 0 and addend.size == 0, 0, 0, name)
        else:
            c = float_bits(total < 0, abs(total), power, name)
    return c


def _special(factors: Sequence[Number], pairs: Sequence[tuple[Number, Number]], c: Number, name: str) -> int | None:
    """Return the code of the result if an operand is special, or a product beyond float32 if `name` is f32, else None."""
    kind = FORMATS[name]
    infinity = (1 << kind.bits - 1) - (1 << kind.mantissa)
    nan = infinity | 1 << kind.mantissa - 1
    signs = {c.negative} if c.special == INFINITY else set()
    is_nan = c.special == NAN or any(f.special == NAN for f in factors)
    for x, y in pairs:
        if INFINITY in (x.special, y.special):
            is_nan |= any(not f.special and f.size == 0 for f in (x, y))
            signs.add(x.negative != y.negative)
    if is_nan or len(signs) == 2:
        return nan
    return int(signs.pop()) << kind.bits - 1 | infinity if signs else None


# ---- CDNA2: rounded products of halves, denormals are zero ----


def flushed(a: Sequence[Number], b: Sequence[Number], c: int, name: str, group: int) -> int:
    """Return the code of C plus groups of two products, or two pairs of products; every result is rounded, then flushed.

    Denormal operands and C become +0, denormal results keep their sign.
    """
    lowest = FORMATS[name].lowest_exponent
    left, right = ([_flushed_operand(x, lowest) for x in side] for side in (a, b))
    products = [_times(x, y) for x, y in zip(left, right, strict=True)]
    total = 0 if c & 0x7F800000 == 0 else c
    for first in range(0, len(products), group):
        sums = products[first : first + group]
        while len(sums) > 1:
            sums = [_plus(x, y) for x, y in zip(sums[::2], sums[1::2], strict=True)]
        total = _plus(total, sums[0])
    return total


def _flushed_operand(x: Number, lowest: int) -> Number:
    is_small = not x.special and x.size.bit_length() + x.power - 1 < lowest
    return Number(False, 0, 0, lowest) if is_small else x


def _flushed_result(code: int) -> int:
    return code if code & 0x7F800000 else code & 0x80000000


def _times(x: Number, y: Number) -> int:
    negative = x.negative != y.negative
    special = _special([x, y], [(x, y)], Number(False, 0, 0, 0), "f32")
    return _flushed_result(float_bits(negative, x.size * y.size, x.power + y.power)) if special is None else special


def _plus(first: int, second: int) -> int:
    x, y = _decode(first, "f32"), _decode(second, "f32")
    one = _decode(0x3F800000, "f32")
    special = _special([x, y], [(x, one)], y, "f32")
    if special is not None:
        return special
    power = min(x.power, y.power)
    total = (x.signed << x.power - power) + (y.signed << y.power - power)
    negative = total < 0 if total else x.negative and y.negative
    return _flushed_result(float_bits(negative, abs(total), power))


# ---- CDNA3: groups in fixed point ----

_CUT, _WIDE, _KEPT = 24, 32, 32
"""Bits behind the largest exponent: of products and C, of the sum of a group; bits of the sum that are rounded."""


def aligned(
    a: Sequence[Number], b: Sequence[Number], c: int, group: int, *, halves: bool = False, scales: Sequence[int | None] = ()
) -> int:
    """Return the code of C plus groups of products, each group in fixed point.

    Args:
        a: Row of A.
        b: Column of B.
        c: Code of C, float32.
        group: Size of a group.
        halves: Whether even and odd products of a group are added separately.
        scales: Exponent by which the sum of each group is moved; None is NaN. None of them by default.
    """
    moves = scales or [0] * (len(a) // group)
    for n, move in enumerate(moves):
        here = slice(n * group, (n + 1) * group)
        c = 0x7FC00000 if move is None else _group(a[here], b[here], c, halves, move)
    return c


def _group(a: Sequence[Number], b: Sequence[Number], c: int, halves: bool, move: int) -> int:
    addend = _decode(c, "f32")
    pairs = [_saturated(x, y) for x, y in zip(a, b, strict=True)]
    special = _special([n for pair in pairs for n in pair], pairs, addend, "f32")
    if special is not None:
        return special
    sums = [_cut_sum(pairs[n :: 1 + halves]) for n in range(1 + halves)]
    exponents = [exponent for _, exponent in sums if exponent is not None]
    if not exponents:
        top, total = addend.exponent, 0
    else:
        top = max(exponents)
        total = sum(_down(part, exponent - top) for part, exponent in sums if exponent is not None)
        top += move
    most = max(top, addend.exponent)
    wide = _down(total, top - most + _WIDE - _CUT)
    fixed = _down(addend.signed, addend.power - (most - _CUT))
    if halves and addend.exponent < most - _CUT - 1:
        fixed = 0
    wide += fixed << _WIDE - _CUT
    power = most - _WIDE
    place = max(abs(wide).bit_length() + power - 1, FORMATS["f32"].lowest_exponent) - (_KEPT - 1)
    if place > power:
        wide, power = wide >> place - power, place
    return float_bits(wide < 0, abs(wide), power)


def _saturated(x: Number, y: Number) -> tuple[Number, Number]:
    """Replace the factors of a product of 2^128 or more by infinities."""
    if not x.special and not y.special and (x.size * y.size).bit_length() + x.power + y.power > 128:
        return Number(x.negative, 0, 0, 0, INFINITY), Number(y.negative, 0, 0, 0, INFINITY)
    return x, y


def _cut_sum(pairs: Sequence[tuple[Number, Number]]) -> tuple[int, int | None]:
    """Return the sum of products, each cut to multiples of 2^(largest exponent - 24), in that unit, and the exponent."""
    exponents = [x.exponent + y.exponent for x, y in pairs if x.size and y.size]
    if not exponents:
        return 0, None
    top, total = max(exponents), 0
    for x, y in pairs:
        size = _down(x.size * y.size, x.power + y.power - (top - _CUT))
        total += -size if x.negative != y.negative else size
    return total, top


def _down(value: int, shift: int) -> int:
    """Return value * 2^shift, rounded down."""
    return value << shift if shift >= 0 else value >> -shift
