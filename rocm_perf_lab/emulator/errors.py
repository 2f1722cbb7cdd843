"""Errors of translating or executing a code object that the user can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from rocm_perf_lab.core.printed import PrintedPiece
    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet


_SHOWN_LINES = 10


class EmulationError(LabError):
    """A kernel that cannot be executed or that made an invalid operation; `printed` holds its output up to then."""

    printed: tuple[PrintedPiece, ...] = ()

    def lines(self) -> list[str]:
        """Return the message and the last lines that the kernel printed."""
        printed = "".join(piece.text for piece in self.printed).splitlines()
        if not printed:
            return super().lines()
        before = [f"({len(printed) - _SHOWN_LINES:,} lines before)"] if len(printed) > _SHOWN_LINES else []
        return [*super().lines(), "  the kernel printed:", *(f"    {line}" for line in [*before, *printed[-_SHOWN_LINES:]])]


class IllegalInstruction(EmulationError):
    """Bytes at a reachable address that do not encode an instruction."""

    @classmethod
    def at(cls, address: int, encoding: bytes, isa: InstructionSet, reason: str) -> IllegalInstruction:
        """Return the error for the bytes at an address of the code object."""
        return cls(
            f"illegal instruction: {reason}",
            where=f"address {address:#x}, encoding {encoding.hex(' ', 4)}",
            hint=f"Check that the code object is complete and compiled for {isa.architecture}.",
        )


class UnsupportedInstruction(EmulationError):
    """A valid instruction that the emulator does not implement; `address` is that in the code object."""

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None, address: int | None = None) -> None:
        super().__init__(what, where=where, hint=hint)
        self.address = address
