"""Functions for operations, shared by all instructions of one form, for code that runs rarely.

Instructions of one form differ only in registers and constants. The code of such an instruction is a call that passes offsets of
registers and values of constants, so a large kernel consists of few functions, and LLVM has little to do. The functions are
translated as other instructions are, from the instruction with canonical operands: operand `n` is SGPR 4n, or VGPR 8n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.llvm_text import SsaNames
from rocm_perf_lab.emulator.pcode.values import UnsupportedSemantics, Value
from rocm_perf_lab.emulator.structures import EXEC, LANES, NULL, offset_of
from rocm_perf_lab.emulator.translate.operands import FIRST_VGPR, LITERAL, inline_constant, literal_constant
from rocm_perf_lab.emulator.translate.state import BlockState

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.translate.mode import ModeRegister

_OPERANDS = ("vdst", "sdst", "src0", "src1", "src2", "vsrc0", "vsrc1", "ssrc0", "ssrc1")
_LAST_SGPR = 127
_SGPR_STEP, _VGPR_STEP = 4, 8
_ENTER_BLOCK = "enter_block"
_CONSTANT_BITS = (32, 64)
"""Widths of operands whose constants become arguments; op_sel treats 16-bit constants unlike registers."""


@dataclass(frozen=True)
class _Argument:
    """Operand of an instruction: offset of an SGPR or VGPR in bytes, or the value of a constant."""

    kind: str
    value: int
    register: int = -1


@dataclass(frozen=True)
class _Function:
    """Function of a form; `written` are SGPRs of its canonical instruction, `writes_scc` whether it writes SCC."""

    name: str
    written: tuple[int, ...]
    writes_scc: bool


class SharedOperations:
    """Functions for the forms that one kernel uses."""

    def __init__(self) -> None:
        self._lines = _block_entry()
        self._declarations = {"declare void @rpl_trace_block(ptr, i32)"}
        self._functions: dict[object, _Function | None] = {}

    def ir(self) -> str:
        """Return the LLVM IR of the functions so far."""
        return "\n".join([*sorted(self._declarations), *self._lines])

    def enter_block(self, block: int, instructions: int, names: SsaNames) -> str:
        """Return a call that counts the execution of a block, and traces it if the wavefront is traced."""
        names.declare(f"declare void @{_ENTER_BLOCK}(ptr, i64, i64)")
        return f"call void @{_ENTER_BLOCK}(ptr %wave, i64 {block}, i64 {instructions})"

    def call(
        self, state: BlockState, instruction: Instruction, emit: Callable[[BlockState, Instruction, int | None], None],
        source0_row: int | None = None,
    ) -> bool:  # fmt: skip
        """Emit an instruction as a call, and return whether that is possible.

        Args:
            state: Registers of the block.
            instruction: Instruction without memory access or effect on MODE.
            emit: Translates the canonical instruction.
            source0_row: Row that replaces src0.
        """
        if instruction.variant.startswith("SDWA") or _writes_absent_lanes(state, instruction):
            return False
        canonical, arguments = _canonical(instruction)
        literal = len(arguments) - 1 if "literal" in canonical and _reads_literal(instruction) else None
        row = None
        if source0_row is not None:
            row = _VGPR_STEP * len(arguments)
            arguments.append(_Argument("v", source0_row * LANES))
        form = (
            instruction.mnemonic, instruction.encoding, instruction.variant, *canonical.items(),
            *(a.kind for a in arguments), row, state.mode,
        )  # fmt: skip
        if form not in self._functions:
            abstract = replace(instruction, fields=canonical)
            inner = _OperandState(state.mode, arguments, literal, state.wave_size)
            self._functions[form] = self._translate(inner, lambda: emit(inner, abstract, row))
        function = self._functions[form]
        if function is None:
            return False
        state.close_group()
        if instruction.is_vector_alu:
            state.count_vector()
        self._emit_call(state, function, arguments)
        return True

    def _translate(self, state: _OperandState, emit: Callable[[], None]) -> _Function | None:
        name = f"operation{len(self._functions)}"
        try:
            emit()
        except UnsupportedSemantics:  # the operation, or only its translation for operands that are no constants
            return None
        state.close_group()
        written, writes_scc = state.pending_stores
        state.store_scalars()
        parameters = ", ".join(["ptr noalias align 64 %wave", *(f"i64 %a{n}" for n in range(state.argument_count))])
        self._lines += [f"define void @{name}({parameters}) {{", "entry:", *state.lines, "ret void", "}"]
        self._declarations |= state.names.declarations
        return _Function(name, written, writes_scc)

    def _emit_call(self, state: BlockState, function: _Function, arguments: list[_Argument]) -> None:
        state.store_scalars()
        state.names.declare(f"declare void @{function.name}({', '.join(['ptr', *['i64'] * len(arguments)])})")
        given = ", ".join(["ptr %wave", *(f"i64 {a.value}" for a in arguments)])
        state.lines.append(f"call void @{function.name}({given})")
        for register in function.written:
            slot = register // _SGPR_STEP
            is_operand = slot < len(arguments) and arguments[slot].kind == "s"
            state.forget(arguments[slot].register + register % _SGPR_STEP if is_operand else register, 1)
        if function.writes_scc:
            state.forget_scc()


class _OperandState(BlockState):
    """Registers of a canonical instruction: operands are arguments of the function, others (VCC, EXEC) are themselves."""

    def __init__(self, mode: ModeRegister, arguments: list[_Argument], literal: int | None, wave_size: int) -> None:
        super().__init__(SsaNames(), [], mode, wave_size=wave_size)
        self._arguments = arguments
        self._literal = literal

    @property
    def argument_count(self) -> int:
        """Number of arguments."""
        return len(self._arguments)

    def row_origin(self, row: int) -> str:
        """Return the number of dwords from the start of the wavefront to a row."""
        name = self.names.fresh()
        self.lines.append(f"{name} = add i64 %a{row // _VGPR_STEP}, {row % _VGPR_STEP * LANES}")
        return name

    def sgpr_pointer(self, register: int) -> str:
        """Return the address of an SGPR."""
        slot = register // _SGPR_STEP
        if slot >= len(self._arguments):
            return super().sgpr_pointer(register)
        place, address = self.names.fresh(), self.names.fresh()
        self.lines += [
            f"{place} = add i64 %a{slot}, {4 * (register % _SGPR_STEP)}",
            f"{address} = getelementptr i8, ptr %wave, i64 {place}",
        ]
        return address

    def literal(self, instruction: Instruction, bits: int) -> Value:
        """Return the literal, an argument if the operation itself reads it."""
        if self._literal is None:
            return super().literal(instruction, bits)
        return self.scalar_builder.resize(Value(f"%a{self._literal}", "u", 64), bits, signed=False)

    def _load32(self, register: int) -> str:
        slot = register // _SGPR_STEP
        if register in self._scalars or slot >= len(self._arguments) or self._arguments[slot].kind != "c":
            return super()._load32(register)
        builder, whole = self.scalar_builder, Value(f"%a{slot}", "u", 64)
        moved = builder.binary(">>", whole, Value(32, "u", 64)) if register % _SGPR_STEP else whole
        self._scalars[register] = str(builder.resize(moved, 32, signed=False).operand)
        return self._scalars[register]


def _writes_absent_lanes(state: BlockState, instruction: Instruction) -> bool:
    """Return whether an instruction may write EXEC_HI of a wavefront of 32 lanes."""
    return state.wave_size < LANES and instruction.fields.get("sdst") in (EXEC, EXEC + 1)


def _canonical(instruction: Instruction) -> tuple[dict[str, int], list[_Argument]]:
    """Return the fields with canonical operands, and the arguments for them."""
    fields = dict(instruction.fields)
    arguments: list[_Argument] = []
    for name in _OPERANDS:
        number = fields.get(name)
        if number is None or number == NULL:
            continue
        slot = len(arguments)
        if number >= FIRST_VGPR:
            arguments.append(_Argument("v", (number - FIRST_VGPR) * LANES))
            fields[name] = FIRST_VGPR + _VGPR_STEP * slot
        elif number <= _LAST_SGPR:
            arguments.append(_Argument("s", offset_of("sgpr") + 4 * number, number))
            fields[name] = _SGPR_STEP * slot
        else:
            value = _constant(instruction, name, number)
            if value is not None:
                arguments.append(_Argument("c", value))
                fields[name] = _SGPR_STEP * slot
    if "literal" in fields and LITERAL not in (fields.get(name) for name in _OPERANDS):
        if _reads_literal(instruction):
            arguments.append(_Argument("c", fields["literal"] & 0xFFFFFFFF))
        fields["literal"] = 0
    return fields, arguments


def _reads_literal(instruction: Instruction) -> bool:
    return "SIMM" in (instruction.pseudocode or "")


def _constant(instruction: Instruction, name: str, number: int) -> int | None:
    """Return the value of a constant operand, or None if it has to stay a constant."""
    kind = instruction.operands.get(name)
    if instruction.encoding == "VOP3P" or kind is None or kind.bits not in _CONSTANT_BITS:
        return None
    value = literal_constant(instruction, kind) if number == LITERAL else inline_constant(number, kind)
    return None if value is None else value.integer & ((1 << kind.bits) - 1)


def _block_entry() -> list[str]:
    """Return the function that every block calls: counts its execution, its instructions in the slice, and traces it."""
    fields = {name: offset_of(name) for name in ("block_executions", "trace", "slice")}
    return [
        f"define void @{_ENTER_BLOCK}(ptr noalias align 64 %wave, i64 %block, i64 %length) {{",
        f"%executions_field = getelementptr i8, ptr %wave, i64 {fields['block_executions']}",
        "%executions = load ptr, ptr %executions_field",
        "%count_at = getelementptr i64, ptr %executions, i64 %block",
        "%count = load i64, ptr %count_at",
        "%counted = add i64 %count, 1",
        "store i64 %counted, ptr %count_at",
        f"%slice = getelementptr i8, ptr %wave, i64 {fields['slice']}",
        "%had = load i64, ptr %slice",
        "%has = sub i64 %had, %length",
        "store i64 %has, ptr %slice",
        f"%trace_field = getelementptr i8, ptr %wave, i64 {fields['trace']}",
        "%trace = load ptr, ptr %trace_field",
        "%traced = icmp ne ptr %trace, null",
        "br i1 %traced, label %tell, label %done",
        "tell:",
        "%number = trunc i64 %block to i32",
        "call void @rpl_trace_block(ptr %wave, i32 %number)",
        "br label %done",
        "done:",
        "ret void",
        "}",
    ]
