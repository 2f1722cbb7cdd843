"""What can go wrong while a code object is translated or executed; all of it is the user's to act on."""

from __future__ import annotations

from rocm_perf_lab.errors import LabError


class EmulationError(LabError):
    """A kernel that cannot be executed, or did something that it must not do."""


class IllegalInstruction(EmulationError):
    """Bytes that are no instruction, reached by the program."""

    @classmethod
    def at(cls, address: int, encoding: bytes, reason: str) -> IllegalInstruction:
        """The error for the bytes at an address of the code object."""
        return cls(
            f"illegal instruction: {reason}",
            where=f"address {address:#x}, encoding {encoding.hex(' ', 4)}",
            remedy="the emulator executes gfx942; check that the code object is complete and for that processor",
        )


class UnsupportedInstruction(EmulationError):
    """A valid instruction that the emulator does not know."""
