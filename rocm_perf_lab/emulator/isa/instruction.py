"""Decoded machine instruction, independent of the decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.assembly_text import decode_instruction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet

MODE_REGISTER = 1
"""Number of the MODE register in `hwreg(...)` operands."""


@dataclass(frozen=True)
class OperandType:
    """Format (`F32`, `U64`, `B16`, ...) and width in bits of an operand."""

    format: str
    bits: int


@dataclass(frozen=True)
class Instruction:
    """Machine instruction.

    `mnemonic` is upper case without encoding suffix (V_ADD_F32); `encoding` is VOP2, SOP1, GLOBAL, and so on. `fields` holds the
    fields of the encoding; registers are operand numbers: SGPRs 0 to 107, constants above, VGPRs from 256. `pseudocode` is AMD's
    description of the operation, or None.
    """

    index: int
    address: int
    size: int
    mnemonic: str
    encoding: str
    variant: str
    raw: int
    fields: Mapping[str, int] = field(repr=False)
    operands: Mapping[str, OperandType] = field(repr=False)
    isa: InstructionSet = field(repr=False, compare=False)
    pseudocode: str | None = field(repr=False, default=None)

    @property
    def text(self) -> str:
        """Assembly text, for messages."""
        text, size = decode_instruction(self.raw.to_bytes(self.size, "little"), self.isa.decoder, self.isa.wave_size)
        return text if size == self.size and not text.startswith(".long") else self.mnemonic.lower()

    @property
    def is_vector_alu(self) -> bool:
        """True for VOP1, VOP2, VOP3, VOP3P and VOPC, which run on the vector ALU or the matrix core."""
        return self.encoding.startswith("VOP")

    @property
    def is_matrix(self) -> bool:
        """True for instructions of the matrix core."""
        return "MFMA" in self.mnemonic or "SMFMAC" in self.mnemonic

    def bits(self, high: int, low: int) -> int:
        """Return bits of the encoding, for fields whose meaning depends on the instruction."""
        return (self.raw >> low) & ((1 << (high - low + 1)) - 1)


def register_field(instruction: Instruction) -> tuple[int, int, int]:
    """Return register id, first bit and number of bits of a `hwreg(...)` operand."""
    word = instruction.fields["simm16"]
    return word & 0x3F, word >> 6 & 0x1F, (word >> 11 & 0x1F) + 1
