"""Conversions between small floats with the exponent of a scale and float32, float16 and bfloat16 (V_CVT_SCALEF32 of CDNA4).

A small number times a power of two is exact in float32, so wide results are rounded once. Forms of 32 elements are not shared
between instructions as others are: their operands overlap canonical registers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.values import Value, constant, float_constant
from rocm_perf_lab.emulator.translate.float_modes import flushed_input
from rocm_perf_lab.emulator.translate.narrowing import narrowed, next_random, scale_exponent
from rocm_perf_lab.emulator.translate.operands import FIRST_VGPR, apply_sign_modifiers, read_source
from rocm_perf_lab.emulator.translate.rounding import to_bfloat, to_half
from rocm_perf_lab.emulator.translate.small_floats import inserted, widened
from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.state import BlockState

_WORD = OperandType("B32", 32)
_SCALE_NAN = 255
_F64_REBIAS, _F64_MANTISSA = 1023 - 127, 52
_BITS = {"FP8": 8, "BF8": 8, "FP4": 4, "FP6": 6, "BF6": 6}
_SIX_BITS = {"FP6": (3, 1), "BF6": (2, 3)}
"""Bits of the mantissa, and bias of the exponent."""
_ELEMENTS = 32
"""Of the forms with 6 bits."""
_WORD_BITS = 32


def _scaled(source: str, target: str, *, packed: bool) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_CVT_SCALEF32_(PK_)`target`_`source`: op_sel selects the byte, or the pair of bytes, of S0."""
    bits = _BITS[source]

    def convert(builder: Builder, operation: VectorOperation) -> Value:
        instruction = operation.instruction
        word = read_source(operation.state, instruction, instruction.fields["src0"], _WORD)
        selected = instruction.fields["opsel"]
        first = 16 * (selected & 1) if packed and bits == 8 else 8 * (selected & 3)
        scale = _power_of_two(builder, operation.source(1))
        results = []
        for part in range(2 if packed else 1):
            code = builder.binary(">>", word, constant(first + bits * part))
            code = builder.binary("&", code, constant((1 << bits) - 1))
            number = _fp4(builder, code) if source == "FP4" else widened(builder, operation, code, source)
            results.append(_multiplied(builder, number, scale, target))
        if not packed:
            return results[0]
        width = 32 if target == "F32" else 16
        low, high = (builder.resize(builder.raw(r), 2 * width, signed=False) for r in results)
        return builder.binary("|", low, builder.binary("<<", high, constant(width, 2 * width)))

    return convert


def _multiplied(builder: Builder, number: Value, scale: Value, target: str) -> Value:
    wide = replace(builder.to_float(number, 64), narrow=None)
    return _TARGETS[target](builder, builder.to_float(builder.binary("*", wide, scale), 32))


def _power_of_two(builder: Builder, scale: Value) -> Value:
    """Return 2 to the exponent of a float32, NaN if all bits of the exponent are set."""
    exponent = scale_exponent(builder, scale)
    wide = builder.resize(builder.binary("+", exponent, constant(_F64_REBIAS)), 64, signed=False)
    power = builder.reinterpret(builder.binary("<<", wide, constant(_F64_MANTISSA, 64)), "f", 64)
    return builder.select(builder.compare("==", exponent, constant(_SCALE_NAN)), float_constant(float("nan"), 64), power)


def _fp4(builder: Builder, code: Value) -> Value:
    """Return an E2M1: 0, 0.5, 1, 1.5, 2, 3, 4 or 6, and its negation."""
    size = builder.binary("&", code, constant(7))
    bits = builder.binary("<<", size, constant(22))
    scaled = builder.binary("*", builder.reinterpret(bits, "f", 32), float_constant(2.0**126))
    sign = builder.binary("<<", builder.binary("&", code, constant(8)), constant(28))
    return builder.reinterpret(builder.binary("|", builder.raw(scaled), sign), "f", 32)


def _six_bits(builder: Builder, code: Value, source: str) -> Value:
    mantissa, bias = _SIX_BITS[source]
    size = builder.binary("<<", builder.binary("&", code, constant(0x1F)), constant(23 - mantissa))
    scaled = builder.binary("*", builder.reinterpret(size, "f", 32), float_constant(2.0 ** (127 - bias)))
    sign = builder.binary("<<", builder.binary("&", code, constant(0x20)), constant(26))
    return builder.reinterpret(builder.binary("|", builder.raw(scaled), sign), "f", 32)


def _narrowed_pair(target: str, source: str, *, stochastic: bool, count: int) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_CVT_SCALEF32_(SR_)(PK_)`target`_`source`: `count` results replace a word or a byte of D0 that op_sel selects."""
    bits = _BITS[target]
    is_word = count * bits > 8

    def convert(builder: Builder, operation: VectorOperation) -> Value:
        separate = count > 1 and source == "F32" and not stochastic
        elements = [_element(builder, operation, source, 0 if separate else i, i if separate else 0) for i in range(count)]
        scale = scale_exponent(builder, operation.source(2 if stochastic or separate else 1))
        seed = operation.source(1) if stochastic else None
        result: Value = constant(0)
        for i, element in enumerate(elements):
            code = narrowed(builder, element, source, target, scale=scale, seed=seed)
            result = builder.binary("|", result, builder.binary("<<", code, constant(bits * i)))
            seed = None if seed is None else next_random(builder, seed)
        selected = operation.instruction.fields["opsel"]
        return inserted(builder, operation, result, count * bits, 16 * (selected >> 3) if is_word else 8 * (selected >> 2))

    return convert


def _stochastic(target: str) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_CVT_SR_F16_F32 or V_CVT_SR_BF16_F32; op_sel selects the half of D0."""

    def convert(builder: Builder, operation: VectorOperation) -> Value:
        number = builder.reinterpret(operation.source(0), "f", 32)
        code = narrowed(builder, number, "F32", target, scale=None, seed=operation.source(1))
        return inserted(builder, operation, code, 16, 16 * (operation.instruction.fields["opsel"] >> 3))

    return convert


def _element(builder: Builder, operation: VectorOperation, source: str, index: int, operand: int = 0) -> Value:
    """Return element `index` of a source operand as a float, with the modifiers of the operand."""
    bits = 32 if source == "F32" else 16
    fields = operation.instruction.fields
    first = fields[f"src{operand}"]
    row = index * bits // _WORD_BITS
    word = read_source(operation.state, operation.instruction, first + row if first >= FIRST_VGPR else first, _WORD)
    shift = index * bits % _WORD_BITS
    if source != "F32" and operation.instruction.operands[f"src{operand}"].bits == bits:  # one element: op_sel selects it
        shift = bits * (fields["opsel"] >> operand & 1)
    raw = builder.resize(builder.binary(">>", word, constant(shift)), bits, signed=False)
    negate, absolute = (bool(fields[name] >> operand & 1) for name in ("neg", "abs"))
    raw = apply_sign_modifiers(builder, raw, negate=negate, absolute=absolute)
    if source == "BF16":
        return builder.reinterpret(builder.binary("<<", builder.resize(raw, 32, signed=False), constant(16)), "f", 32)
    return builder.reinterpret(flushed_input(builder, operation.instruction, raw, bits), "f", bits)


def convert_elements(state: BlockState, instruction: Instruction) -> None:
    """Emit a conversion of 32 elements from or to 6 bits."""
    operation = VectorOperation(state, instruction, None)
    operation.settle_hazards()
    group = state.group
    group.instructions += 1
    words = ELEMENT_CONVERSIONS[instruction.mnemonic](group.builder, operation)
    row, _ = operation.destination()
    for i, word in enumerate(words):
        group.write_row(row + i, word)


def _widened_elements(target: str, source: str) -> Callable[[Builder, VectorOperation], list[Value]]:
    """Return V_CVT_SCALEF32_PK32_`target`_`source`."""

    def convert(builder: Builder, operation: VectorOperation) -> list[Value]:
        instruction = operation.instruction
        first = instruction.fields["src0"]
        words = [read_source(operation.state, instruction, first + i, _WORD) for i in range(6)]
        scale = _power_of_two(builder, operation.source(1))
        numbers = [_six_bits(builder, _field(builder, words, 6 * i), source) for i in range(_ELEMENTS)]
        return _joined(
            builder, [_multiplied(builder, number, scale, target) for number in numbers], 32 if target == "F32" else 16
        )

    return convert


def _narrowed_elements(target: str, source: str, *, stochastic: bool) -> Callable[[Builder, VectorOperation], list[Value]]:
    """Return V_CVT_SCALEF32_(SR_)PK32_`target`_`source`, or the form whose two sources of 16 float32 alternate in the result."""

    def convert(builder: Builder, operation: VectorOperation) -> list[Value]:
        alternates = source == "F32" and not stochastic
        places = [(i // 2, i % 2) if alternates else (i, 0) for i in range(_ELEMENTS)]
        elements = [_element(builder, operation, source, *place) for place in places]
        scale = scale_exponent(builder, operation.source(2 if stochastic or alternates else 1))
        seed = operation.source(1) if stochastic else None
        codes = []
        for element in elements:
            codes.append(narrowed(builder, element, source, target, scale=scale, seed=seed))
            seed = None if seed is None else next_random(builder, seed)
        return _joined(builder, codes, 6)

    return convert


def _field(builder: Builder, words: list[Value], bit: int) -> Value:
    """Return the six bits from `bit` of consecutive words."""
    word, place = divmod(bit, _WORD_BITS)
    low = builder.binary(">>", words[word], constant(place))
    if place > _WORD_BITS - 6:
        low = builder.binary("|", low, builder.binary("<<", words[word + 1], constant(_WORD_BITS - place)))
    return builder.binary("&", low, constant(0x3F))


def _joined(builder: Builder, parts: list[Value], bits: int) -> list[Value]:
    """Return words of consecutive parts."""
    words: list[Value] = [constant(0)] * (len(parts) * bits // _WORD_BITS)
    for i, part in enumerate(parts):
        word, place = divmod(i * bits, _WORD_BITS)
        raw = builder.resize(builder.raw(part), _WORD_BITS, signed=False)
        words[word] = builder.binary("|", words[word], builder.binary("<<", raw, constant(place)))
        if place + bits > _WORD_BITS:
            words[word + 1] = builder.binary(">>", raw, constant(_WORD_BITS - place))
    return words


_TARGETS: dict[str, Callable[[Builder, Value], Value]] = {
    "F32": lambda _, number: replace(number, narrow=None),
    "F16": lambda builder, number: builder.resize(to_half(builder, builder.raw(number)), 16, signed=False),
    "BF16": lambda builder, number: builder.resize(to_bfloat(builder, builder.raw(number)), 16, signed=False),
}

SCALED_CONVERSIONS: dict[str, Callable[[Builder, VectorOperation], Value]] = {
    **{
        f"V_CVT_SCALEF32_PK_{target}_{source}": _scaled(source, target, packed=True)
        for target in ("F32", "F16", "BF16")
        for source in ("FP8", "BF8", "FP4")
    },
    **{
        f"V_CVT_SCALEF32_{target}_{source}": _scaled(source, target, packed=False)
        for target in ("F32", "F16")
        for source in ("FP8", "BF8")
    },
    **{
        f"V_CVT_SCALEF32_{mode}{target}_{source}": _narrowed_pair(target, source, stochastic=mode == "SR_", count=count)
        for mode, count in (("PK_", 2), ("SR_", 1))
        for target in ("FP8", "BF8")
        for source in ("F32", "F16", "BF16")
    },
    **{
        f"V_CVT_SCALEF32_{mode}PK_FP4_{source}": _narrowed_pair("FP4", source, stochastic=bool(mode), count=2)
        for mode in ("", "SR_")
        for source in ("F32", "F16", "BF16")
    },
    **{f"V_CVT_SR_{target}_F32": _stochastic(target) for target in ("F16", "BF16")},
}

ELEMENT_CONVERSIONS: dict[str, Callable[[Builder, VectorOperation], list[Value]]] = {
    **{
        f"V_CVT_SCALEF32_PK32_{wide}_{small}": _widened_elements(wide, small)
        for wide in ("F32", "F16", "BF16")
        for small in ("FP6", "BF6")
    },
    **{
        f"V_CVT_SCALEF32_{mode}_{small}_{wide}": _narrowed_elements(small, wide, stochastic=mode == "SR_PK32")
        for small in ("FP6", "BF6")
        for wide in ("F32", "F16", "BF16")
        for mode in ("SR_PK32", "2XPK16" if wide == "F32" else "PK32")
    },
}
"""Conversions whose operands are wider than the others': emitted by :func:`convert_elements`."""
