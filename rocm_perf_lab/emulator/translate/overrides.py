"""Hand-written vector operations, for pseudo-code that loops over bits, indexes by data, is prose or is slow.

Each function accepts the builder and the operation and returns D0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.functions import call, extreme, fraction, frexp_exponent, sine_of_turns
from rocm_perf_lab.emulator.pcode.values import Value, constant, float_constant
from rocm_perf_lab.emulator.translate import division
from rocm_perf_lab.emulator.translate.additions import ADDITIONS
from rocm_perf_lab.emulator.translate.float_modes import clamped, flushed_output
from rocm_perf_lab.emulator.translate.removals import REMOVALS
from rocm_perf_lab.emulator.translate.scaled_conversions import SCALED_CONVERSIONS
from rocm_perf_lab.emulator.translate.small_floats import pair_to_small, small_to_float, stochastic_to_small
from rocm_perf_lab.emulator.translate.trigonometry import trigonometric_segment

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation


def _minmax(bits: int, *, smallest: bool) -> Callable[[Builder, VectorOperation], Value]:
    def combine(builder: Builder, operation: VectorOperation) -> Value:
        operands = [builder.reinterpret(operation.source(i), "f", bits) for i in range(2)]
        return extreme(builder, *operands, smallest=smallest)

    return combine


def _first_bit(intrinsic: str) -> Callable[[Builder, VectorOperation], Value]:
    def search(builder: Builder, operation: VectorOperation) -> Value:
        source = operation.source(0)
        place = builder.intrinsic(intrinsic, [source], kind="u", bits=32, extra=", i1 false")
        return builder.select(builder.compare("==", source, constant(0)), constant(0xFFFFFFFF), place)

    return search


def _count_bits(builder: Builder, operation: VectorOperation) -> Value:
    return builder.binary("+", builder.intrinsic("ctpop", [operation.source(0)], kind="u", bits=32), operation.source(1))


def _mask_count(*, high: bool) -> Callable[[Builder, VectorOperation], Value]:
    """Return the number of set bits of S0 below the lane, in one half of the wavefront, plus S1."""

    def count(builder: Builder, operation: VectorOperation) -> Value:
        lane = operation.read("laneId")
        assert lane is not None
        below = builder.binary("-", builder.shift_in_range("<<", constant(1, 64), lane), constant(1, 64))
        half = builder.binary(">>", below, constant(32, 64)) if high else below
        mask = builder.resize(half, 32, signed=False)
        bits = builder.intrinsic("ctpop", [builder.binary("&", operation.source(0), mask)], kind="u", bits=32)
        return builder.binary("+", bits, operation.source(1))

    return count


def _permute_bytes(builder: Builder, operation: VectorOperation) -> Value:
    """V_PERM_B32: selects bytes of {S0, S1}; selectors 8 to 11 are sign fills, 12 is 0, above is 0xff."""
    high, low = (builder.resize(operation.source(i), 64, signed=False) for i in (0, 1))
    data = builder.binary("|", builder.binary("<<", high, constant(32, 64)), low)
    selectors = operation.source(2)
    result: Value = constant(0)
    for place in range(4):
        selector = builder.binary("&", builder.binary(">>", selectors, constant(8 * place)), constant(0xFF))
        byte = _selected_byte(builder, data, selector)
        result = builder.binary("|", result, builder.binary("<<", byte, constant(8 * place)))
    return result


def _selected_byte(builder: Builder, data: Value, selector: Value) -> Value:
    index = builder.binary("&", selector, constant(7))
    shift = builder.binary("<<", builder.resize(index, 64, signed=False), constant(3, 64))
    byte = builder.binary("&", builder.resize(builder.shift_in_range(">>", data, shift), 32), constant(0xFF))
    # Selector 8 + i fills with the sign of byte 2 i + 1.
    odd = builder.binary("+", builder.binary("<<", builder.binary("&", selector, constant(3)), constant(4)), constant(15))
    sign = builder.shift_in_range(">>", data, builder.resize(odd, 64, signed=False))
    fill = builder.select(builder.resize(sign, 1, signed=False), constant(0xFF), constant(0))
    byte = builder.select(builder.compare(">=", selector, constant(8)), fill, byte)
    byte = builder.select(builder.compare("==", selector, constant(12)), constant(0), byte)
    return builder.select(builder.compare(">=", selector, constant(13)), constant(0xFF), byte)


def _packed_move(builder: Builder, operation: VectorOperation) -> Value:
    """V_PK_MOV_B32: op_sel of each source selects its half, which the packed read moves to the low half."""
    low = builder.resize(operation.source(0), 32, signed=False)
    high = builder.resize(builder.resize(operation.source(1), 32, signed=False), 64, signed=False)
    return builder.binary("|", builder.resize(low, 64, signed=False), builder.binary("<<", high, constant(32, 64)))


def _mixed_fma(*, half: str | None) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_MAD_MIX (FMA_MIX on gfx942) of float32 sources; `half` is the half of D0 for a float16 result."""

    def fused(builder: Builder, operation: VectorOperation) -> Value:
        operands = [builder.reinterpret(operation.source(i), "f", 32) for i in range(3)]
        result = builder.intrinsic("fma", operands, kind="f", bits=32)
        if half is None:
            return result
        number = builder.to_float(result, 16)
        if operation.instruction.fields["clmp"]:
            number = clamped(builder, number)
        number = flushed_output(builder, operation.instruction, number, 16)
        bits = builder.resize(builder.raw(number), 32, signed=False)
        before = operation.read("D0")
        assert before is not None
        if half == "low":
            return builder.binary("|", builder.binary("&", before, constant(0xFFFF0000)), bits)
        kept = builder.binary("&", before, constant(0xFFFF))
        return builder.binary("|", kept, builder.binary("<<", bits, constant(16)))

    return fused


def _sine(*, quarter_turns_ahead: int, bits: int) -> Callable[[Builder, VectorOperation], Value]:
    def sine(builder: Builder, operation: VectorOperation) -> Value:
        turns = builder.reinterpret(operation.source(0), "f", bits)
        return sine_of_turns(builder, turns, quarter_turns_ahead=quarter_turns_ahead)

    return sine


def _round_to_even(bits: int) -> Callable[[Builder, VectorOperation], Value]:
    def rounded(builder: Builder, operation: VectorOperation) -> Value:
        return builder.intrinsic("roundeven", [builder.reinterpret(operation.source(0), "f", bits)], kind="f", bits=bits)

    return rounded


def _unary(function: Callable[[Builder, Value], Value], bits: int) -> Callable[[Builder, VectorOperation], Value]:
    def apply(builder: Builder, operation: VectorOperation) -> Value:
        return function(builder, builder.reinterpret(operation.source(0), "f", bits))

    return apply


def _truncated_pair(builder: Builder, operation: VectorOperation) -> Value:
    """V_CVT_PKRTZ_F16_F32, which ignores MODE."""
    halves = []
    for i in (0, 1):
        value = builder.reinterpret(operation.source(i), "f", 32)
        near = builder.to_float(value, 16)
        back = replace(builder.to_float(near, 32), narrow=None)
        sizes = [builder.intrinsic("fabs", [number], kind="f", bits=32) for number in (back, value)]
        is_beyond = builder.resize(builder.compare(">", *sizes), 16, signed=False)
        halves.append(builder.resize(builder.raw(near), 32, signed=False))
        halves[i] = builder.binary("-", halves[i], builder.resize(is_beyond, 32, signed=False))
    return builder.binary("|", halves[0], builder.binary("<<", halves[1], constant(16)))


def _signed_nibble(builder: Builder, operation: VectorOperation) -> Value:
    """V_CVT_OFF_F32_I4: the table in the pseudo-code, -8/16 to 7/16."""
    nibble = builder.binary("<<", operation.source(0), constant(28))
    number = builder.binary(">>", replace(nibble, kind="i"), constant(28))
    return builder.binary("*", builder.to_float(replace(number, kind="i"), 32), float_constant(1 / 16))


def _accumulated_byte(builder: Builder, operation: VectorOperation) -> Value:
    """V_CVT_PKACCUM_U8_F32: writes a byte of D0 and keeps the others."""
    byte = call(builder, "f32_to_u8", [builder.reinterpret(operation.source(0), "f", 32)])
    shift = builder.binary("<<", builder.binary("&", operation.source(1), constant(3)), constant(3))
    hole = builder.invert(builder.shift_in_range("<<", constant(255), shift))
    before = operation.read("D0")
    assert before is not None
    placed = builder.shift_in_range("<<", builder.resize(byte, 32, signed=False), shift)
    return builder.binary("|", builder.binary("&", before, hole), placed)


OVERRIDES: dict[str, Callable[[Builder, VectorOperation], Value]] = {
    **{f"V_MIN_F{bits}": _minmax(bits, smallest=True) for bits in (16, 32, 64)},
    **{f"V_MAX_F{bits}": _minmax(bits, smallest=False) for bits in (16, 32, 64)},
    **{f"V_RNDNE_F{bits}": _round_to_even(bits) for bits in (16, 32, 64)},
    "V_DIV_FMAS_F64": division.fused_and_scaled(64),
    **{f"V_FRACT_F{bits}": _unary(fraction, bits) for bits in (16, 32, 64)},
    "V_FREXP_EXP_I32_F32": _unary(frexp_exponent, 32),
    "V_FREXP_EXP_I32_F64": _unary(frexp_exponent, 64),
    "V_FREXP_EXP_I16_F16": _unary(frexp_exponent, 16),
    "V_CVT_F32_FP8": small_to_float("FP8", packed=False),
    "V_CVT_F32_BF8": small_to_float("BF8", packed=False),
    "V_CVT_PK_F32_FP8": small_to_float("FP8", packed=True),
    "V_CVT_PK_F32_BF8": small_to_float("BF8", packed=True),
    "V_CVT_PK_FP8_F32": pair_to_small("FP8"),
    "V_CVT_PK_BF8_F32": pair_to_small("BF8"),
    "V_CVT_SR_FP8_F32": stochastic_to_small("FP8"),
    "V_CVT_SR_BF8_F32": stochastic_to_small("BF8"),
    "V_CVT_PKRTZ_F16_F32": _truncated_pair,
    "V_CVT_OFF_F32_I4": _signed_nibble,
    "V_CVT_PKACCUM_U8_F32": _accumulated_byte,
    **{f"V_SIN_F{bits}": _sine(quarter_turns_ahead=0, bits=bits) for bits in (16, 32)},
    **{f"V_COS_F{bits}": _sine(quarter_turns_ahead=1, bits=bits) for bits in (16, 32)},
    "V_FFBH_U32": _first_bit("ctlz"),
    "V_FFBL_B32": _first_bit("cttz"),
    "V_BCNT_U32_B32": _count_bits,
    "V_MBCNT_LO_U32_B32": _mask_count(high=False),
    "V_MBCNT_HI_U32_B32": _mask_count(high=True),
    "V_PERM_B32": _permute_bytes,
    "V_PK_MOV_B32": _packed_move,
    "V_TRIG_PREOP_F64": trigonometric_segment,
    "V_MAD_MIX_F32": _mixed_fma(half=None),
    "V_MAD_MIXLO_F16": _mixed_fma(half="low"),
    "V_MAD_MIXHI_F16": _mixed_fma(half="high"),
    "V_FMA_MIX_F32": _mixed_fma(half=None),
    "V_FMA_MIXLO_F16": _mixed_fma(half="low"),
    "V_FMA_MIXHI_F16": _mixed_fma(half="high"),
    **ADDITIONS,
    **REMOVALS,
    **SCALED_CONVERSIONS,
}
