"""Vector ALU instructions: operands with their modifiers in, pseudo-code, results with theirs out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import OperandType
from rocm_perf_lab.emulator.pcode.compiler import SemanticsCompiler
from rocm_perf_lab.emulator.pcode.parser import PseudocodeError, parse
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value, constant
from rocm_perf_lab.emulator.translate import overrides, saturation, sdwa
from rocm_perf_lab.emulator.translate.float_modes import (
    FLOAT_BITS,
    clamped,
    flushed_input,
    flushed_output,
    modified_output,
    rounding_field,
)
from rocm_perf_lab.emulator.translate.operands import (
    FIRST_VGPR,
    apply_sign_modifiers,
    inline_constant,
    join_words,
    read_source,
)
from rocm_perf_lab.emulator.wave import EXEC, VCC

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.translate.state import BlockState, LaneGroup

_WORD = OperandType("B32", 32)
_PACKED_FLOAT = re.compile(r"V_PK_\w+_F(16|32)$")
_MIXED_HALF = re.compile(r"V_(MAD|FMA)_MIX(LO|HI)_F16")
"""Their own code clamps the half that they write."""
_KEEPS_UPPER_HALF = re.compile(
    r"V_(MAD_[FUI]16|MAC_F16|MAD[AM]K_F16|FMA_F16|DIV_FIXUP_F16|(MIN3|MAX3|MED3)_[FUI]16|(ADD|SUB)_I16)"
)
"""Operations of 16 bits that are new in gfx9: they write half a register. The older ones clear the upper half."""
_FLOAT_FORMATS = ("F16", "F32", "F64", "BF16")


def translate_vector(state: BlockState, instruction: Instruction, *, source0_row: int | None = None) -> None:
    """Emit one vector instruction into the open lane group.

    Args:
        state: Registers of the block.
        instruction: VOP1, VOP2, VOP3, VOP3P or VOPC, without DPP (see `source0_row`).
        source0_row: Row that replaces src0, where DPP has prepared it.

    Raises:
        UnsupportedSemantics: No translation for it.
    """
    operation = VectorOperation(state, instruction, source0_row)
    operation.settle_hazards()
    rounding = rounding_field(instruction)
    if rounding is not None:
        state.round_as(rounding)
    group = state.group
    group.instructions += 1
    compiler = SemanticsCompiler(group.builder, operation, per_lane=True)
    handler = overrides.OVERRIDES.get(instruction.mnemonic)
    if handler is not None:
        compiler.variables["D0"] = handler(group.builder, operation)
        compiler.masks |= operation.masks
        compiler.assigned.add("D0")
    else:
        _run_pseudocode(compiler, instruction)
    operation.write_results(compiler)


def _run_pseudocode(compiler: SemanticsCompiler, instruction: Instruction) -> None:
    if instruction.pseudocode is None:
        raise UnsupportedSemantics("no pseudo-code")
    try:
        statements = parse(instruction.pseudocode)
    except PseudocodeError as error:
        raise UnsupportedSemantics(f"pseudo-code: {error}") from error
    if instruction.mnemonic.startswith("V_DIV_SCALE"):
        bits = instruction.operands["src0"].bits
        source = compiler.evaluate_register("S0")
        compiler.variables["D0"] = compiler.builder.reinterpret(source, "f", bits)  # what the text leaves unsaid
        compiler.assigned.add("D0")
    compiler.run(statements)


class VectorOperation:
    """One vector instruction: reads operands by their names in the pseudo-code, writes what it computed."""

    def __init__(self, state: BlockState, instruction: Instruction, source0_row: int | None) -> None:
        self.state = state
        self.instruction = instruction
        self.masks: dict[str, Value] = {}
        """Bits per lane that a hand-written operation gives besides its result."""
        self._source0_row = source0_row
        self._is_packed = instruction.encoding == "VOP3P"
        self._is_sdwa = instruction.variant.startswith("SDWA")

    @property
    def group(self) -> LaneGroup:
        """The open group."""
        return self.state.group

    # hazards between masks of this group and scalar operands

    def settle_hazards(self) -> None:
        """Close the open group where this instruction reads as data, or half overwrites, a mask pending in it."""
        fields = self.instruction.fields
        for name in ("src0", "src1", "src2", "vsrc0"):
            register = fields.get(name)
            if register is None or register >= 128 or (name == "src2" and self._carry_register() == register):
                continue
            kind = self._operand_type(name)
            self.state.read64(register) if kind.bits == 64 else self.state.read32(register)
        carry = self._carry_register()
        if carry is not None and self.state.pending_mask(carry) is None:
            self.state.read64(carry)
        target = self._mask_register()
        if target is not None and self.group.clashes(target):
            self.state.close_group()
        if "CMPX" in self.instruction.mnemonic:
            self.state.close_group()

    # reading

    def read(self, name: str, bits: int | None = None) -> Value | None:
        """Raw bits of an operand or register, or None. `bits` is for D0 where the instruction says fewer than it keeps."""
        match name:
            case "S0" | "S1" | "S2":
                return self.source(int(name[1]))
            case "D0":
                return self._destination_value(bits)
            case "EXEC":
                return self.state.read64(EXEC)
            case "VCC":
                return self.state.read64(VCC)
            case "SCC":
                return self.state.scc
            case "SIMM16":  # the literal of a float16 operation
                return constant(self.instruction.fields["literal"], 16)
            case "SIMM32":
                return constant(self.instruction.fields["literal"], 32)
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
        """The lanes' bits of VCC (or the register that stands for it) or EXEC."""
        register = EXEC if name == "EXEC" else self._carry_register()
        if register is None:
            register = VCC
        return self.group.mask_bits(register)

    def source(self, index: int) -> Value:
        """Raw bits of src0 to src2 with neg, abs, op_sel and SDWA selection applied."""
        name, kind = self._source_field(index)
        operand = self.instruction.fields[name]
        if self._is_packed:
            return self._packed_source(index, operand, kind)
        if index == 0 and self._source0_row is not None:
            words = [self.group.read_row(self._source0_row + i) for i in range(max(1, kind.bits // 32))]
            value = self.group.builder.resize(join_words(self.group.builder, words), kind.bits, signed=False)
        elif self._is_sdwa and index < 2:
            value = sdwa.select_source(self, index, operand, kind)
        else:
            value = self._plain_source(index, operand, kind)
        negate, absolute = self._sign_modifiers(index)
        if (negate or absolute) and (kind.format in _FLOAT_FORMATS or self.instruction.mnemonic.startswith("V_CNDMASK")):
            value = apply_sign_modifiers(self.group.builder, value, negate=negate, absolute=absolute)
        if FLOAT_BITS.get(kind.format) == value.bits:
            value = flushed_input(self.group.builder, self.instruction, value, value.bits)
        return value

    def _plain_source(self, index: int, operand: int, kind: OperandType) -> Value:
        upper_half = self.instruction.encoding == "VOP3" and self.instruction.fields.get("opsel", 0) >> index & 1
        if kind.bits == 16 and upper_half and (operand >= FIRST_VGPR or operand < 128):
            word = read_source(self.state, self.instruction, operand, _WORD)
            builder = self.group.builder
            return builder.resize(builder.binary(">>", word, constant(16)), 16, signed=False)
        return read_source(self.state, self.instruction, operand, kind)

    def _packed_source(self, index: int, operand: int, kind: OperandType) -> Value:
        """Two halves chosen by op_sel and op_sel_hi, each with its own negation."""
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
        if _PACKED_FLOAT.match(name):
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
        """FMA_MIX: a float32, or the half of a register that op_sel names, with neg and abs of its own type."""
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
        uses_vsrc0 = self._is_sdwa or self._source0_row is not None
        for name in names:
            if name in fields and (name != "vsrc0" or uses_vsrc0):
                return name, self._operand_type(name)
        raise UnsupportedSemantics(f"no source operand {index}")

    def _operand_type(self, name: str) -> OperandType:
        operands = self.instruction.operands
        twin = name.removeprefix("v") if name.startswith("v") else f"v{name}"
        return operands.get(name) or operands.get(twin) or _WORD

    def _destination_value(self, bits: int | None) -> Value:
        row, own_bits = self._destination()
        words = max(1, (bits or own_bits) // 32)
        return join_words(self.group.builder, [self.group.read_row(row + i) for i in range(words)])

    def _destination(self) -> tuple[int, int]:
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
        """The SGPR pair that is meant where the pseudo-code reads VCC per lane."""
        name, encoding = self.instruction.mnemonic, self.instruction.encoding
        if not self.instruction.pseudocode or "VCC.u64[laneId]" not in self.instruction.pseudocode:
            return None
        if "DIV_FMAS" in name:
            return VCC
        has_mask_operand = name.startswith("V_CNDMASK") or "ADDC" in name or "SUBB" in name
        if has_mask_operand and encoding in ("VOP3", "VOP3SD"):
            return self.instruction.fields["src2"]
        return VCC if has_mask_operand else None

    def _mask_register(self) -> int | None:
        """The SGPR pair that receives one bit per lane."""
        fields, encoding = self.instruction.fields, self.instruction.encoding
        if encoding == "VOP3SD" or (self._is_sdwa and "sdst" in fields and fields.get("sd")):
            return fields["sdst"]
        if self.instruction.mnemonic.startswith("V_CMP"):
            return VCC if encoding == "VOPC" else fields["vdst"]
        return VCC if "_CO_" in self.instruction.mnemonic else None

    # writing

    def write_results(self, compiler: SemanticsCompiler) -> None:
        """Store D0 and the masks that the pseudo-code assigned."""
        target = self._mask_register()
        for name, bits in compiler.masks.items():
            register = EXEC if name == "EXEC" else target
            if register is None:
                raise UnsupportedSemantics(f"per-lane assignment to {name}")
            self.group.write_mask(register, bits)
        if "D0" in compiler.assigned and "D0" not in compiler.masks:
            self._write_destination(compiler.variables["D0"])
        if "S0" in compiler.assigned:  # V_SWAP
            row = self.instruction.fields["src0"] - FIRST_VGPR
            self.group.write_row(row, self.group.builder.raw(compiler.variables["S0"]))
        if "EXEC" in compiler.masks:
            self.state.close_group()

    def _write_destination(self, value: Value) -> None:
        row, bits = self._destination()
        builder = self.group.builder
        value = self._output_modifiers(value)
        value = self._flushed_result(value)
        raw = builder.raw(value)
        if self._is_sdwa and bits <= 32:
            self.group.write_row(row, sdwa.place_result(self, raw, self.group.read_row(row)))
            return
        if raw.bits > 32 and bits > 32:
            for i in range(bits // 32):
                word = builder.resize(builder.binary(">>", raw, constant(32 * i, raw.bits)), 32, signed=False)
                self.group.write_row(row + i, word)
            return
        if self._writes_upper_half(raw.bits):
            kept = builder.binary("&", self.group.read_row(row), constant(0xFFFF))
            upper = builder.binary("<<", builder.resize(raw, 32, signed=False), constant(16))
            self.group.write_row(row, builder.binary("|", kept, upper))
            return
        if raw.bits == 16 and bits == 16 and _KEEPS_UPPER_HALF.fullmatch(self.instruction.mnemonic):
            kept = builder.binary("&", self.group.read_row(row), constant(0xFFFF0000))
            self.group.write_row(row, builder.binary("|", kept, builder.resize(raw, 32, signed=False)))
            return
        self.group.write_row(row, builder.resize(raw, 32, signed=False))

    def _writes_upper_half(self, bits: int) -> bool:
        return bits == 16 and self.instruction.encoding == "VOP3" and bool(self.instruction.fields.get("opsel", 0) & 8)

    def _output_modifiers(self, value: Value) -> Value:
        fields, builder = self.instruction.fields, self.group.builder
        kind = self.instruction.operands.get("vdst", _WORD).format
        scale, clamp = fields.get("omod", 0), fields.get("clmp", 0)
        if not (scale or clamp) or _MIXED_HALF.match(self.instruction.mnemonic):
            return value
        if self._is_packed and _PACKED_FLOAT.match(self.instruction.mnemonic):
            return self._each_part(value, lambda part: clamped(builder, part))
        if kind not in ("F16", "F32", "F64"):
            return saturation.saturated(self) if clamp else value
        number = value if value.kind == "f" else builder.reinterpret(value, "f", value.bits)
        return modified_output(builder, number, scale=scale, clamp=bool(clamp))

    def _flushed_result(self, value: Value) -> Value:
        builder = self.group.builder
        if self._is_packed and not self.instruction.mnemonic.endswith("MIX_F32"):
            if not _PACKED_FLOAT.match(self.instruction.mnemonic):
                return value
            return self._each_part(value, lambda part: flushed_output(builder, self.instruction, part, part.bits))
        bits = FLOAT_BITS.get(self.instruction.operands.get("vdst", _WORD).format)
        return flushed_output(builder, self.instruction, value, bits) if bits == value.bits else value

    def _each_part(self, value: Value, change: Callable[[Value], Value]) -> Value:
        """Apply `change` to each float of a packed result."""
        builder = self.group.builder
        bits = 32 if value.bits == 64 else 16
        raw = builder.raw(value)
        result: Value = constant(0, raw.bits)
        for shift in range(0, raw.bits, bits):
            part = builder.resize(builder.binary(">>", raw, constant(shift, raw.bits)), bits, signed=False)
            changed = builder.raw(change(builder.reinterpret(part, "f", bits)))
            wide = builder.resize(changed, raw.bits, signed=False)
            result = builder.binary("|", result, builder.binary("<<", wide, constant(shift, raw.bits)))
        return result
