"""Disassembly of one CDNA instruction with tinygrad's instruction tables.

Registers, literals and `s_waitcnt` are written as in LLVM; rarer modifiers are written as `name:value` of their encoding field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocm_perf_lab.arch.model import InstructionDecoder

_DWORD = 4
_LONGEST_INSTRUCTION, _USUAL_INSTRUCTION = 16, 8
_SCALES = b"\xac\xd3"
"""Upper half of the first word of the only longer instruction, a scaled product; the library does not compare it."""
_LITERAL = 255
"""Operand number of the constant that follows the instruction."""
_NO_SCALAR_BASE = 0x7F
_SCALAR_MEMORY_MODIFIERS = ("imm", "soffset_en", "offset", "soffset")
_SIGN_FIELDS = ("neg", "abs")
_SOURCES = ("src0", "src1", "src2")
_DECIMAL_IMMEDIATE = ("s_branch", "s_cbranch", "s_call", "s_nop", "s_sleep", "s_setprio")
_SCALAR_RESULT = ("v_readlane_b32", "v_readfirstlane_b32")
_VCC_WRITERS = ("v_cmp_", "v_cmpx_")
_CARRY_WRITERS = ("v_add_co_u32_e32", "v_sub_co_u32_e32", "v_subrev_co_u32_e32")
_CARRY_READERS = ("v_addc_co_u32_e32", "v_subb_co_u32_e32", "v_subbrev_co_u32_e32")


def decode_instruction(code: bytes, decoder: InstructionDecoder) -> tuple[str, int]:
    """Return text and size in bytes of the first instruction in `code`; `.long` for bytes that do not decode."""
    from tinygrad.renderer.amd import decode_inst

    longest = _LONGEST_INSTRUCTION if code[2:4] == _SCALES else _USUAL_INSTRUCTION
    try:
        instruction = decode_inst(code[:longest].ljust(longest, b"\0"), decoder.tables)
        size = instruction.size()
        text = _text(instruction, decoder)
    except (ValueError, AssertionError, RuntimeError):  # raised by tinygrad for invalid encodings
        size, text = len(code) + 1, ""
    if size > len(code):
        return f".long {int.from_bytes(code[:_DWORD], 'little'):#010x}", min(_DWORD, len(code))
    return text, size


def _text(instruction: Any, decoder: InstructionDecoder) -> str:
    mnemonic = instruction.op.name.lower()
    fields = _fields(instruction)
    if mnemonic == "s_waitcnt":
        operands = [" ".join(f"{name}({value})" for name, value in decoder.waits(fields["simm16"][0]).items())]
    elif mnemonic.startswith(_DECIMAL_IMMEDIATE) and "simm16" in fields:
        operands = [*_registers(instruction, fields), str(fields["simm16"][0])]
    elif mnemonic.startswith("s_") and "sbase" in fields:
        operands = [*_registers(instruction, fields), _scalar_offset(fields)]
    else:
        operands = _with_implicit_vcc(mnemonic, _registers(instruction, fields)) + _immediates(fields)
    return " ".join([mnemonic, ", ".join(operands), *_modifiers(fields)]).replace("  ", " ").rstrip()


def _fields(instruction: Any) -> dict[str, tuple[Any, Any]]:
    """Return name -> (value, default), without opcode and fixed bits."""
    from tinygrad.renderer.amd.dsl import FixedBitField

    return {
        name: (getattr(instruction, name), field.default)
        for name, field in instruction._fields
        if name != "op" and not isinstance(field, FixedBitField)
    }


def _registers(instruction: Any, fields: dict[str, tuple[Any, Any]]) -> list[str]:
    """Return the operands of the opcode, without fields that it does not use."""
    used = instruction.operands
    return [
        _register(name, value, fields, instruction)
        for name, (value, _) in fields.items()
        if hasattr(value, "fmt") and name in used and name != "soffset"
    ]


def _register(name: str, value: Any, fields: dict[str, tuple[Any, Any]], instruction: Any) -> str:
    if value.offset == _LITERAL:
        return f"{fields['literal'][0]:#x}"
    if name == "saddr" and value.offset == _NO_SCALAR_BASE:
        return "off"
    if name == "addr" and "saddr" in fields:
        text = value.fmt(sz=2 if fields["saddr"][0].offset == _NO_SCALAR_BASE else 1)
    else:
        text = value.fmt()
    if name == "vdst" and instruction.op.name.lower().startswith(_SCALAR_RESULT):
        text = text.replace("v", "s")
    return _signed(text, name, instruction)


def _signed(text: str, name: str, instruction: Any) -> str:
    """Apply the negation and absolute value of VOP3, one bit for each source."""
    if name not in _SOURCES or hasattr(instruction, "neg_hi"):  # packed instructions have modifiers instead
        return text
    bit = 1 << _SOURCES.index(name)
    if int(getattr(instruction, "abs", 0)) & bit:
        text = f"|{text}|"
    return f"-{text}" if int(getattr(instruction, "neg", 0)) & bit else text


def _with_implicit_vcc(mnemonic: str, operands: list[str]) -> list[str]:
    if mnemonic.startswith(_VCC_WRITERS) and mnemonic.endswith("_e32"):
        return ["vcc", *operands]
    if mnemonic == "v_cndmask_b32_e32":
        return [*operands, "vcc"]
    if mnemonic in _CARRY_WRITERS:
        return [operands[0], "vcc", *operands[1:]]
    if mnemonic in _CARRY_READERS:
        return [operands[0], "vcc", *operands[1:], "vcc"]
    return operands


def _scalar_offset(fields: dict[str, tuple[Any, Any]]) -> str:
    if fields["soffset_en"][0]:
        return str(fields["soffset"][0].fmt())
    return f"{fields['offset'][0]:#x}"


def _immediates(fields: dict[str, tuple[Any, Any]]) -> list[str]:
    value, default = fields.get("simm16", (0, 0))
    return [f"{value:#x}"] if value != default else []


def _modifiers(fields: dict[str, tuple[Any, Any]]) -> list[str]:
    hidden = {"simm16", "literal", "opsel_hi", "opsel_hi2", *(() if "neg_hi" in fields else _SIGN_FIELDS)}
    if "sbase" in fields:
        hidden.update(_SCALAR_MEMORY_MODIFIERS)
    return [
        name if value == 1 and name != "offset" else f"{name}:{value}"
        for name, (value, default) in fields.items()
        if name not in hidden and not hasattr(value, "fmt") and value != default
    ]
