"""What can go wrong while a code object is translated or executed; all of it is the user's to act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from rocm_perf_lab.core.printed import PrintedPiece


_SHOWN_LINES = 10


class EmulationError(LabError):
    """A kernel that cannot be executed, or did something that it must not do. `printed` is what it had printed by then."""

    printed: tuple[PrintedPiece, ...] = ()

    def lines(self) -> list[str]:
        """The message, and the end of what the kernel had printed."""
        printed = "".join(piece.text for piece in self.printed).splitlines()
        if not printed:
            return super().lines()
        before = [f"({len(printed) - _SHOWN_LINES:,} lines before)"] if len(printed) > _SHOWN_LINES else []
        return [*super().lines(), "  the kernel printed:", *(f"    {line}" for line in [*before, *printed[-_SHOWN_LINES:]])]


class IllegalInstruction(EmulationError):
    """Bytes that are no instruction, reached by the program."""

    @classmethod
    def at(cls, address: int, encoding: bytes, reason: str) -> IllegalInstruction:
        """The error for the bytes at an address of the code object."""
        return cls(
            f"illegal instruction: {reason}",
            where=f"address {address:#x}, encoding {encoding.hex(' ', 4)}",
            hint="the emulator executes gfx942; check that the code object is complete and for that processor",
        )


class UnsupportedInstruction(EmulationError):
    """A valid instruction that the emulator does not know."""
