"""Hardware registers that S_GETREG and S_SETREG name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction

MODE_REGISTER = 1


def register_field(instruction: Instruction) -> tuple[int, int, int]:
    """Register id, first bit and number of bits of a `hwreg(...)` operand."""
    word = instruction.fields["simm16"]
    return word & 0x3F, word >> 6 & 0x1F, (word >> 11 & 0x1F) + 1
