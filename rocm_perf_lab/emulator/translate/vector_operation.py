"""Operands of one vector instruction: sources with their modifiers, lane masks, destination registers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.structures import EXEC, VCC
from rocm_perf_lab.emulator.translate import sdwa
from rocm_perf_lab.emulator.translate.float_modes import FLOAT_BITS, flushed_input, without_denormals
from rocm_perf_lab.emulator.translate.operands import (
    FIRST_VGPR,
    apply_sign_modifiers,
    inline_constant,
    join_words,
    read_source,
)

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.translate.lane_group import LaneGroup
    from rocm_perf_lab.emulator.translate.state import BlockState

_WORD = OperandType("B32", 32)
_PACKED_FLOAT = re.compile(r"V_PK_\w+_F(16|32)$")
_HALF_PRODUCT = re.compile(r"V_DOT2C?_F32_F16")
_ADDEND = 2
_FLOAT_FORMATS = ("F16", "F32", "F64", "BF16")


class VectorOperation:
    """Operands of one vector instruction, by their names in the pseudo-code."""

    def __init__(self, state: BlockState, instruction: Instruction, source0_row: int | None) -> None:
        self.state = state
        self.instruction = instruction
        self._source0_row = source0_row
        self.is_packed = instruction.encoding == "VOP3P"
        self.is_sdwa = instruction.variant.startswith("SDWA")
        self.flushes_products = (
            instruction.isa.flushes_half_products and _HALF_PRODUCT.fullmatch(instruction.mnemonic) is not None
        )
        """Whether denormal halves, and the denormal float32 that they are added to, are zero in any mode."""

    @property
    def group(self) -> LaneGroup:
        """The open group."""
        return self.state.group

    # hazards between masks of this group and scalar operands

    def settle_hazards(self) -> None:
        """Close the open group if this instruction reads as data, or partly overwrites, a pending mask of the group."""
        fields = self.instruction.fields
        for name in ("src0", "src1", "src2", "vsrc0"):
            register = fields.get(name)
            if register is None or register >= 128 or (name == "src2" and self._carry_register() == register):
                continue
            kind = self._operand_type(name)
            self.state.read64(register) if kind.bits == 64 else self.state.read32(register)
        carry = self._carry_register()
        if carry is not None and self.state.pending_mask(carry) is None:
            self.state.read_mask(carry)
        target = self.mask_register()
        if target is not None and self.group.clashes(target):
            self.state.close_group()
        if "CMPX" in self.instruction.mnemonic:
            self.state.close_group()

    # reading

    def read(self, name: str, bits: int | None = None) -> Value | None:
        """Return the raw bits of an operand or register, or None. `bits` is the width of D0 if the operand is narrower."""
        match name:
            case "S0" | "S1" | "S2":
                return self.source(int(name[1]))
            case "D0":
                return self._destination_value(bits)
            case "EXEC" | "VCC":
                return self.state.read_mask(EXEC if name == "EXEC" else VCC)
            case "SCC":
                return self.state.scc
            case "SIMM16":  # the literal of a float16 operation
                return self.state.literal(self.instruction, 16)
            case "SIMM32":
                return self.state.literal(self.instruction, 32)
            case "OPSEL":
                return constant(self.instruction.fields.get("opsel", 0), 4)
            case "OPSEL_HI":
                fields = self.instruction.fields
                return constant(fields.get("opsel_hi", 0) | fields.get("opsel_hi2", 0) << 2, 3)
            case "laneId" | "laneID":
                return self._lane_numbers()
            case "SDWA_SRC0_SEL":
                return constant(self.instruction.fields.get("src0_sel", 0), 3)
            case "BYTE0" | "BYTE1" | "BYTE2" | "BYTE3":
                return constant(int(name[4]), 3)
        return None

    def lane_bit(self, name: str) -> Value:
        """Return the bits of VCC (or the register in its place) or EXEC, one per lane."""
        register = EXEC if name == "EXEC" else self._carry_register()
        if register is None:
            register = VCC
        return self.group.mask_bits(register)

    def source(self, index: int) -> Value:
        """Return the raw bits of src0 to src2 with neg, abs, op_sel and SDWA selection applied."""
        name, kind = self._source_field(index)
        operand = self.instruction.fields[name]
        if self.is_packed:
            packed = self._packed_source(index, operand, kind)
            return self._product_operand(index, packed) if self.flushes_products else packed
        if index == 0 and self._source0_row is not None:
            words = [self.group.read_row(self._source0_row + i) for i in range(max(1, kind.bits // 32))]
            value = self.group.builder.resize(join_words(self.group.builder, words), kind.bits, signed=False)
        elif self.is_sdwa and index < 2:
            value = sdwa.select_source(self.state, self.instruction, index, operand, kind)
        else:
            value = self._plain_source(index, operand, kind)
        negate, absolute = self._sign_modifiers(index)
        if (negate or absolute) and (kind.format in _FLOAT_FORMATS or self.instruction.mnemonic.startswith("V_CNDMASK")):
            value = apply_sign_modifiers(self.group.builder, value, negate=negate, absolute=absolute)
        if FLOAT_BITS.get(kind.format) == value.bits:
            value = flushed_input(self.group.builder, self.instruction, value, value.bits)
        return self._product_operand(index, value) if self.flushes_products else value

    def _product_operand(self, index: int, word: Value) -> Value:
        """Return the pair of halves of a product, or the float32 that it is added to, without denormals."""
        builder = self.group.builder
        if index == _ADDEND:
            return without_denormals(builder, builder.raw(word), 32)
        halves = [self._half(builder.raw(word), 16, upper) for upper in (0, 1)]
        low, high = (builder.resize(without_denormals(builder, half, 16), 32, signed=False) for half in halves)
        return builder.binary("|", low, builder.binary("<<", high, constant(16)))

    def _plain_source(self, index: int, operand: int, kind: OperandType) -> Value:
        upper_half = self.instruction.encoding == "VOP3" and self.instruction.fields.get("opsel", 0) >> index & 1
        if kind.bits == 16 and upper_half and (operand >= FIRST_VGPR or operand < 128):
            word = read_source(self.state, self.instruction, operand, _WORD)
            builder = self.group.builder
            return builder.resize(builder.binary(">>", word, constant(16)), 16, signed=False)
        return read_source(self.state, self.instruction, operand, kind)

    def _packed_source(self, index: int, operand: int, kind: OperandType) -> Value:
        """Return two halves chosen by op_sel and op_sel_hi, each with its own negation."""
        fields, builder = self.instruction.fields, self.group.builder
        name = self.instruction.mnemonic
        if "MIX" in name:
            return self._mixed_source(index, operand)
        half = 32 if kind.bits == 64 else 16
        inline = inline_constant(operand, OperandType(kind.format if half == 16 else "F32", half))
        if inline is not None and half == 32:
            whole = builder.binary("|", builder.resize(inline, 64, signed=False), constant(inline.integer << 32, 64))
        elif inline is not None:
            whole = builder.resize(inline, 32, signed=False)
        else:
            whole = read_source(self.state, self.instruction, operand, OperandType("B", 2 * half))
        if name.startswith("V_DOT") and (not kind.format.endswith("16") or index == 2):
            return whole
        high_selects = fields.get("opsel_hi", 0) | fields.get("opsel_hi2", 0) << 2
        low = self._half(whole, half, fields["opsel"] >> index & 1)
        high = self._half(whole, half, high_selects >> index & 1)
        low = apply_sign_modifiers(builder, low, negate=bool(fields["neg"] >> index & 1), absolute=False)
        high = apply_sign_modifiers(builder, high, negate=bool(fields["neg_hi"] >> index & 1), absolute=False)
        if is_packed_float(self.instruction):
            low, high = (flushed_input(builder, self.instruction, part, half) for part in (low, high))
        wide = builder.resize(high, 2 * half, signed=False)
        return builder.binary(
            "|", builder.resize(low, 2 * half, signed=False), builder.binary("<<", wide, constant(half, 2 * half))
        )

    def _half(self, whole: Value, bits: int, upper: int) -> Value:
        builder = self.group.builder
        moved = builder.binary(">>", whole, constant(bits, whole.bits)) if upper else whole
        return builder.resize(moved, bits, signed=False)

    def _mixed_source(self, index: int, operand: int) -> Value:
        """Return a source of FMA_MIX: a float32, or the half of a register selected by op_sel, with neg and abs of its type."""
        fields, builder = self.instruction.fields, self.group.builder
        is_half = (fields.get("opsel_hi", 0) | fields.get("opsel_hi2", 0) << 2) >> index & 1
        inline = inline_constant(operand, OperandType("F16", 16)) if is_half else None
        if inline is not None:
            value = builder.resize(inline, 32, signed=False)
        else:
            value = read_source(self.state, self.instruction, operand, OperandType("F32", 32))
        negate, absolute = bool(fields["neg"] >> index & 1), bool(fields["neg_hi"] >> index & 1)
        if not is_half:
            value = apply_sign_modifiers(builder, value, negate=negate, absolute=absolute)
            return flushed_input(builder, self.instruction, value, 32)
        half = self._half(value, 16, fields["opsel"] >> index & 1)
        half = apply_sign_modifiers(builder, half, negate=negate, absolute=absolute)
        half = flushed_input(builder, self.instruction, half, 16)
        return builder.raw(builder.to_float(builder.reinterpret(half, "f", 16), 32))

    def _sign_modifiers(self, index: int) -> tuple[bool, bool]:
        fields = self.instruction.fields
        if "src0_neg" in fields:  # SDWA and DPP
            return bool(fields.get(f"src{index}_neg", 0)), bool(fields.get(f"src{index}_abs", 0))
        return bool(fields.get("neg", 0) >> index & 1), bool(fields.get("abs", 0) >> index & 1)

    def _source_field(self, index: int) -> tuple[str, OperandType]:
        fields = self.instruction.fields
        names = {0: ("vsrc0", "src0"), 1: ("src1", "vsrc1"), 2: ("src2",)}[index]
        uses_vsrc0 = self.is_sdwa or self._source0_row is not None
        for name in names:
            if name in fields and (name != "vsrc0" or uses_vsrc0):
                return name, self._operand_type(name)
        raise UnsupportedSemantics(f"no source operand {index}")

    def _operand_type(self, name: str) -> OperandType:
        operands = self.instruction.operands
        twin = name.removeprefix("v") if name.startswith("v") else f"v{name}"
        return operands.get(name) or operands.get(twin) or _WORD

    def _destination_value(self, bits: int | None) -> Value:
        row, own_bits = self.destination()
        words = max(1, (bits or own_bits) // 32)
        value = join_words(self.group.builder, [self.group.read_row(row + i) for i in range(words)])
        return self._product_operand(_ADDEND, value) if self.flushes_products else value

    def destination(self) -> tuple[int, int]:
        """Return the row of the vector register file that receives D0, and the width of D0 in bits."""
        row = self.instruction.fields["vdst"]
        kind = self.instruction.operands.get("vdst", _WORD)
        return row - FIRST_VGPR if row >= FIRST_VGPR else row, kind.bits

    def _lane_numbers(self) -> Value:
        group = self.group
        first = group.builder.emit(f"trunc i64 %{group.label}_lane to i32", "u", 32, True)
        group.body[-1] = f"{first.operand}_first = trunc i64 %{group.label}_lane to i32"
        names = self.state.names
        placed, spread = names.fresh(), names.fresh()
        group.body += [
            f"{placed} = insertelement <8 x i32> poison, i32 {first.operand}_first, i32 0",
            f"{spread} = shufflevector <8 x i32> {placed}, <8 x i32> poison, <8 x i32> zeroinitializer",
        ]
        steps = ", ".join(f"i32 {i}" for i in range(8))
        group.body.append(f"{first.operand} = add <8 x i32> {spread}, <{steps}>")
        return first

    # masks

    def _carry_register(self) -> int | None:
        """Return the SGPR pair that the pseudo-code reads as VCC per lane."""
        name, encoding = self.instruction.mnemonic, self.instruction.encoding
        if not self.instruction.pseudocode or "VCC.u64[laneId]" not in self.instruction.pseudocode:
            return None
        if "DIV_FMAS" in name:
            return VCC
        has_mask_operand = name.startswith("V_CNDMASK") or "ADDC" in name or "SUBB" in name
        if has_mask_operand and encoding in ("VOP3", "VOP3SD"):
            return self.instruction.fields["src2"]
        return VCC if has_mask_operand else None

    def mask_register(self) -> int | None:
        """Return the SGPR pair that receives one bit per lane."""
        fields, encoding = self.instruction.fields, self.instruction.encoding
        if encoding == "VOP3SD" or (self.is_sdwa and "sdst" in fields and fields.get("sd")):
            return fields["sdst"]
        if self.instruction.mnemonic.startswith("V_CMP"):
            return VCC if encoding == "VOPC" else fields["vdst"]
        return VCC if "_CO_" in self.instruction.mnemonic else None


def is_packed_float(instruction: Instruction) -> bool:
    """Return whether each half of the operands is a separate float (V_PK_ADD_F16)."""
    return _PACKED_FLOAT.match(instruction.mnemonic) is not None
