"""One gfx90a or gfx942 instruction from its bytes, written close to LLVM's syntax, by tinygrad's instruction tables.

Operands come in encoding order with LLVM's names for registers; modifiers that are not at rest follow as `name:value`.
"""

from __future__ import annotations

from typing import Any

_DWORD = 4
_LONGEST_INSTRUCTION = 16
_OFF = 0x7F
"""`saddr` of a global access that has no scalar base: EXEC_HI's number."""
_BRANCHES = ("s_branch", "s_cbranch", "s_call")


def decode_instruction(code: bytes) -> tuple[str, int]:
    """Text and size in bytes of the first instruction in `code`; what does not decode becomes `.long`."""
    from tinygrad.renderer.amd import decode_inst

    try:
        instruction = decode_inst(code[:_LONGEST_INSTRUCTION].ljust(_LONGEST_INSTRUCTION, b"\0"), "cdna")
        size = instruction.size()
        text = _text(instruction)
    except (ValueError, AssertionError, RuntimeError):  # tinygrad's ways to say that the bits mean nothing
        size, text = len(code) + 1, ""
    if size > len(code):
        return f".long {int.from_bytes(code[:_DWORD], 'little'):#010x}", min(_DWORD, len(code))
    return text, size


def _text(instruction: Any) -> str:
    mnemonic = instruction.op.name.lower()
    fields = _operand_fields(instruction)
    if mnemonic == "s_waitcnt":
        return f"{mnemonic} {_waitcnt(fields['simm16'][0])}"
    if mnemonic.startswith(_BRANCHES) and "simm16" in fields:
        return f"{mnemonic} {_signed16(fields['simm16'][0])}"
    operands, modifiers = [], []
    for name, (value, default) in fields.items():
        if _is_register(value):
            operands.append("off" if name == "saddr" and value.offset in (_OFF, 124) else value.fmt())
        elif name in ("simm16", "imm", "literal"):
            operands.append(f"{value:#x}")
        elif value != default:
            modifiers.append(f"{name}:{value}")
    return " ".join([mnemonic, ", ".join(operands), *modifiers]).rstrip()


def _operand_fields(instruction: Any) -> dict[str, tuple[Any, Any]]:
    """Name -> (value, value at rest), without opcode and fixed bits."""
    from tinygrad.renderer.amd.dsl import FixedBitField

    return {
        name: (getattr(instruction, name), field.default)
        for name, field in instruction._fields
        if name != "op" and not isinstance(field, FixedBitField)
    }


def _is_register(value: Any) -> bool:
    return hasattr(value, "fmt")


def _waitcnt(bits: int) -> str:
    """gfx9: vmcnt in bits 3:0 and 15:14, expcnt in 6:4, lgkmcnt in 11:8; all ones do not wait."""
    counters = {
        "vmcnt": ((bits & 0xF) | (bits >> 14 & 0x3) << 4, 0x3F),
        "expcnt": (bits >> 4 & 0x7, 0x7),
        "lgkmcnt": (bits >> 8 & 0xF, 0xF),
    }
    return " ".join(f"{name}({value})" for name, (value, at_rest) in counters.items() if value != at_rest)


def _signed16(value: int) -> int:
    return value - 0x10000 if value & 0x8000 else value
