"""Marks of the outcomes of conditions in translated code (see :mod:`rocm_perf_lab.emulator.branch_coverage`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import Value, constant
from rocm_perf_lab.emulator.probes import PROBE_WORDS, ProbeKind
from rocm_perf_lab.emulator.structures import EXEC, VCC
from rocm_perf_lab.emulator.translate.scalar import ScalarRegisters

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.translate.state import BlockState


class ProbeMarks:
    """Emits the marks of a program: words after the counts of its blocks, :data:`PROBE_WORDS` per probe."""

    def __init__(self, program: Program) -> None:
        first = len(program.blocks)
        self._slots = {p.instruction.index: (first + PROBE_WORDS * n, p.kind) for n, p in enumerate(program.probes)}

    def before(self, state: BlockState, instruction: Instruction) -> None:
        """Emit the marks that precede an instruction: the operands of a scalar comparison."""
        slot, kind = self._slots.get(instruction.index, (0, None))
        if kind is not ProbeKind.SCALAR_COMPARISON:
            return
        registers = ScalarRegisters(state, instruction)
        for number, name in enumerate(("S0", "S1"), 1):
            value = registers.read(name)
            if value is not None:
                signed = instruction.mnemonic.endswith("I32")
                state.keep_word(slot + number, state.scalar_builder.resize(value, max(value.bits, 32), signed=signed))

    def after(self, state: BlockState, instruction: Instruction) -> None:
        """Emit the marks that follow an instruction other than a branch."""
        slot, kind = self._slots.get(instruction.index, (0, None))
        if kind is ProbeKind.SCALAR_COMPARISON:
            state.mark_condition(slot, state.scc)
        elif kind is ProbeKind.LANES:
            state.close_group()
            state.mark_condition(slot, state.scalar_builder.compare("!=", state.read_mask(EXEC), constant(0, 64)))
        elif kind is ProbeKind.VECTOR_COMPARISON:
            state.watch_mask(slot, _mask_register(instruction))
        elif kind is ProbeKind.COMBINATION:
            state.watch_mask(slot, instruction.fields["sdst"])

    def branch(self, state: BlockState, instruction: Instruction, condition: Value) -> None:
        """Emit the mark of a conditional branch, whose condition is that of taking it."""
        state.mark_condition(self._slots[instruction.index][0], condition)


def _mask_register(instruction: Instruction) -> int:
    """Return the SGPR pair that a vector comparison writes."""
    fields = instruction.fields
    if instruction.variant.startswith("SDWA"):
        return fields["sdst"] if fields.get("sd") else VCC
    return VCC if instruction.encoding == "VOPC" else fields["vdst"]
