"""How types and constants are written in LLVM IR, and the names that a function uses up."""

from __future__ import annotations

from rocm_perf_lab.emulator.pcode.values import Value, float_bits, rounded

CHUNK = 8
"""Lanes that are computed at once."""
FLOAT_TYPES = {16: "half", 32: "float", 64: "double"}
"""By their bits."""


def type_text(kind: str, bits: int, is_chunk: bool) -> str:
    """LLVM type of a value."""
    element = element_text(kind, bits)
    return f"<{CHUNK} x {element}>" if is_chunk else element


def element_text(kind: str, bits: int) -> str:
    """LLVM type of one lane of a value."""
    return FLOAT_TYPES[bits] if kind == "f" else f"i{bits}"


def literal_text(value: Value) -> str:
    """A constant; LLVM wants floats in hexadecimal: those of 16 bits in their own, the others in those of a double."""
    if value.kind != "f":
        number = int(value.operand) & ((1 << value.bits) - 1)
        return ("true" if number else "false") if value.bits == 1 else str(number)
    if value.bits == 16:
        return f"0xH{float_bits(value.float, 16):04X}"
    return f"0x{float_bits(rounded(value.float, value.bits), 64):016X}"


class SsaNames:
    """Fresh SSA names and the declarations that a function needs."""

    def __init__(self) -> None:
        self._count = 0
        self.declarations: set[str] = set()

    def fresh(self) -> str:
        """A name that was not used before."""
        self._count += 1
        return f"%v{self._count}"

    def declare(self, text: str) -> None:
        """Remember a declaration, once."""
        self.declarations.add(text)
