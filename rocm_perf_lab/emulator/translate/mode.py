"""MODE register during translation: rounding, denormals, DX10_CLAMP, IEEE, FP16_OVFL, indexed registers.

The kernel descriptor sets it at entry; S_SETREG and S_SET_GPR_IDX change it. Its bits are therefore usually known at translation
and need no code. If paths with different values meet, the generated code reads them from the wavefront.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.isa.instruction import MODE_REGISTER, register_field
from rocm_perf_lab.emulator.program import is_computed_jump

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.program import BasicBlock, Program

ROUND_F32, ROUND_F64, DENORMALS_F32, DENORMALS_F64 = 0, 2, 4, 6
"""First bits of two-bit fields; those of float64 apply to float16 as well."""
DX10_CLAMP, IEEE, FP16_OVERFLOW, REGISTER_INDEXING = 8, 9, 23, 27
_ALL = 0xFFFFFFFF
MODE_FIELDS = {"S_ROUND_MODE": (ROUND_F32, 4), "S_DENORM_MODE": (DENORMALS_F32, 4)}
"""First bit and number of bits that an instruction sets."""
_INDEXING = ("S_SET_GPR_IDX_ON", "S_SET_GPR_IDX_OFF")


@dataclass(frozen=True)
class ModeRegister:
    """Known bits of MODE; bits outside `known` are zero in `value`."""

    value: int
    known: int = _ALL

    def bit(self, index: int) -> bool | None:
        """Return a bit, or None if it depends on the path."""
        return bool(self.value >> index & 1) if self.known >> index & 1 else None

    def meet(self, other: ModeRegister) -> ModeRegister:
        """Return the bits that are equal on two paths."""
        known = self.known & other.known & ~(self.value ^ other.value)
        return ModeRegister(self.value & known, known)

    def after(self, instruction: Instruction) -> ModeRegister:
        """Return MODE after an instruction."""
        if instruction.mnemonic in _INDEXING:
            bit, is_on = 1 << REGISTER_INDEXING, instruction.mnemonic.endswith("ON")
            return ModeRegister(self.value & ~bit | (bit if is_on else 0), self.known | bit)
        if instruction.mnemonic in MODE_FIELDS:
            offset, size = MODE_FIELDS[instruction.mnemonic]
            return self._with(offset, size, instruction.fields["simm16"])
        if not instruction.mnemonic.startswith("S_SETREG"):
            return self
        register, offset, size = register_field(instruction)
        if register != MODE_REGISTER:
            return self
        if "literal" not in instruction.fields:
            mask = ((1 << size) - 1) << offset
            return ModeRegister(self.value & ~mask, self.known & ~mask)
        return self._with(offset, size, instruction.fields["literal"])

    def _with(self, offset: int, size: int, bits: int) -> ModeRegister:
        mask = ((1 << size) - 1) << offset
        return ModeRegister(self.value & ~mask | bits << offset & mask, self.known | mask)


def modes_at_entry(program: Program) -> Mapping[int, ModeRegister]:
    """Return MODE at the start of each block, by block index."""
    start = ModeRegister(program.mode)
    if not any(i.mnemonic.startswith(("S_SETREG", "S_SET_GPR_IDX", *MODE_FIELDS)) for i in program.instructions):
        return dict.fromkeys((b.index for b in program.blocks), start)
    modes: dict[int, ModeRegister] = {}
    pending: list[tuple[BasicBlock, ModeRegister]] = [(program.block_at[program.entry], start)]
    while pending:
        block, incoming = pending.pop()
        mode = incoming if block.index not in modes else modes[block.index].meet(incoming)
        if modes.get(block.index) == mode:
            continue
        modes[block.index] = mode
        for instruction in block.instructions:
            mode = mode.after(instruction)
        is_computed = is_computed_jump(block.instructions[-1])
        following = program.blocks if is_computed else [program.block_at[a] for a in block.successors if a in program.block_at]
        pending += [(b, mode) for b in following]
    return {b.index: modes.get(b.index, start) for b in program.blocks}
