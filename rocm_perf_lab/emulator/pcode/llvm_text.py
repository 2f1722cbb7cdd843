"""Types, constants and SSA names in the text of LLVM IR."""

from __future__ import annotations

from rocm_perf_lab.emulator.pcode.values import Value, float_bits, rounded

CHUNK = 8
"""Number of lanes computed per vector operation."""
FLOAT_TYPES = {16: "half", 32: "float", 64: "double"}
"""LLVM types by bits."""


def type_text(kind: str, bits: int, is_chunk: bool) -> str:
    """Return the LLVM type of a value."""
    element = element_text(kind, bits)
    return f"<{CHUNK} x {element}>" if is_chunk else element


def element_text(kind: str, bits: int) -> str:
    """Return the LLVM type of one lane of a value."""
    return FLOAT_TYPES[bits] if kind == "f" else f"i{bits}"


def literal_text(value: Value) -> str:
    """Return the text of a constant; LLVM writes float16 in its own hexadecimal digits and other floats in those of a double."""
    if value.kind != "f":
        number = int(value.operand) & ((1 << value.bits) - 1)
        return ("true" if number else "false") if value.bits == 1 else str(number)
    if value.bits == 16:
        return f"0xH{float_bits(value.float, 16):04X}"
    return f"0x{float_bits(rounded(value.float, value.bits), 64):016X}"


class SsaNames:
    """Source of SSA names, and the declarations that a function needs."""

    def __init__(self) -> None:
        self._count = 0
        self.declarations: set[str] = set()

    def fresh(self) -> str:
        """Return an unused name."""
        self._count += 1
        return f"%v{self._count}"

    def declare(self, text: str) -> None:
        """Add a declaration."""
        self.declarations.add(text)
