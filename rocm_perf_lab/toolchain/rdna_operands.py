"""Assembly text of operands and immediates of RDNA instructions, as llvm-objdump writes it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.instruction_tables import FIRST_VGPR

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.instruction_tables import TableOperand

_VCC, _TRAP, _M0, NULL_REGISTER, _EXEC = 106, 108, 124, 125, 126
_PAIRS = {_VCC: "vcc", _EXEC: "exec"}
NAMED_OPERANDS = {
    _VCC: "vcc_lo",
    _VCC + 1: "vcc_hi",
    _M0: "m0",
    NULL_REGISTER: "null",
    _EXEC: "exec_lo",
    _EXEC + 1: "exec_hi",
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    239: "src_pops_exiting_wave_id",
    251: "src_vccz",
    252: "src_execz",
    253: "src_scc",
    254: "src_lds_direct",
}
FIRST_CONSTANT, _FIRST_NEGATIVE, _LAST_NEGATIVE = 128, 193, 208
_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}
_INVERSE_2PI, _INVERSE_2PI_BITS = 248, {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}
_PACK = {16: "<e", 32: "<f", 64: "<d"}
_SHIFTS = {0x100: "row_shl", 0x110: "row_shr", 0x120: "row_ror", 0x150: "row_share", 0x160: "row_xmask"}
_WITHOUT_ZERO = (0x100, 0x110, 0x120)
_MIRRORS = {0x140: "row_mirror", 0x141: "row_half_mirror"}
_QUAD_PERMUTATIONS = 0x100
_LARGEST_INLINE = 64
_SYMBOLIC_MESSAGES = {
    1: "MSG_INTERRUPT",
    4: "MSG_SAVEWAVE",
    5: "MSG_STALL_WAVE_GEN",
    6: "MSG_HALT_WAVES",
    7: "MSG_ORDERED_PS_DONE",
    9: "MSG_GS_ALLOC_REQ",
    10: "MSG_GET_DOORBELL",
    11: "MSG_GET_DDID",
}
_GS, _GS_DONE, _SYSTEM = 2, 3, 15
_GS_OPERATIONS = ("GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT")
_SYSTEM_OPERATIONS = {
    1: "SYSMSG_OP_ECC_ERR_INTERRUPT",
    2: "SYSMSG_OP_REG_RD",
    3: "SYSMSG_OP_HOST_TRAP_ACK",
    4: "SYSMSG_OP_TTRACE_PC",
}
_SWIZZLE_QUADS = 0x8000


def register(number: int, words: int) -> str:
    """Return the name of a register, or of a group of registers that starts there, by its operand number."""
    if words == 2 and number in _PAIRS:
        return _PAIRS[number]
    if number in NAMED_OPERANDS:
        return NAMED_OPERANDS[number]
    for first, letter in ((FIRST_VGPR, "v"), (_TRAP, "ttmp"), (0, "s")):
        if number >= first:
            start = number - first
            return f"{letter}{start}" if words == 1 else f"{letter}[{start}:{start + words - 1}]"
    raise ValueError(f"operand number {number}")


def inline_constant_text(value: int, bits: int, *, is_integer_half: bool) -> str:
    """Return the text of an inline constant; as bits for 16-bit integers."""
    if value < _FIRST_NEGATIVE:
        return str(value - FIRST_CONSTANT)
    if value <= _LAST_NEGATIVE:
        return str(_FIRST_NEGATIVE - 1 - value)
    if is_integer_half and value in (*_FLOATS, _INVERSE_2PI):
        return f"{_bits_of(value, 16):#x}"
    if value == _INVERSE_2PI:
        return "0.15915494309189532" if bits == 64 else "0.15915494"
    return str(_FLOATS[value]) if value in _FLOATS else f"/*invalid immediate {value}*/"


def _bits_of(value: int, bits: int) -> int:
    if value == _INVERSE_2PI:
        return _INVERSE_2PI_BITS[bits]
    return int.from_bytes(struct.pack(_PACK[bits], _FLOATS[value]), "little")


def literal_text(value: int, operand: TableOperand) -> str:
    """Return the text of a literal: an integer or float if an inline constant has its value, as LLVM writes it."""
    bits = 16 if operand.bits == 16 and not operand.field.startswith("ss") else 32
    value &= (1 << bits) - 1
    number = value if operand.bits == 64 else signed(value, bits)
    if -16 <= number <= _LARGEST_INLINE:
        return str(number)
    if (operand.bits == 32 and not operand.format.startswith("PK")) or operand.format == "F16":
        for code, constant in _FLOATS.items():
            if value == _bits_of(code, bits):
                return str(constant)
        if value == _INVERSE_2PI_BITS[bits]:
            return "0.15915494"
    return f"{value:#x}"


def with_signs(text: str, negate: bool, absolute: bool) -> str:
    """Return an operand with its negation and absolute value."""
    if absolute:
        text = f"|{text}|"
    if not negate:
        return text
    is_number = text.lstrip("-")[:1].isdigit()
    return f"neg({text})" if is_number else f"-{text}"


def signed(value: int, bits: int) -> int:
    """Return a field of `bits` bits as a signed number."""
    return value - (value >> bits - 1 << bits)


def small_decimal(value: int) -> str:
    """Return a number as LLVM writes immediates: decimal if an inline constant has its value."""
    return str(value) if value <= _LARGEST_INLINE else f"{value:#x}"


def hexadecimal(value: int) -> str:
    """Return a signed hexadecimal number."""
    return f"-{-value:#x}" if value < 0 else f"{value:#x}"


def selection_name(names: tuple[str, ...], value: int) -> str:
    """Return the name of a selection of SDWA."""
    return names[value] if value < len(names) else str(value)


def dpp_control(control: int) -> str:
    """Return the permutation of a DPP16 instruction."""
    if control < _QUAD_PERMUTATIONS:
        return f"quad_perm:[{','.join(str(control >> 2 * lane & 3) for lane in range(4))}]"
    if control in _MIRRORS:
        return _MIRRORS[control]
    name = _SHIFTS.get(control & ~0xF)
    if name is None or control in _WITHOUT_ZERO:
        return f"/* dpp_ctrl {control:#x} */"
    return f"{name}:{control & 0xF}"


def buffer_format(number: int, names: tuple[str, ...]) -> str:
    """Return the format of an MTBUF instruction; empty for the default."""
    if number == 1:  # the default
        return ""
    if number == 0:
        return "format:[BUF_FMT_INVALID]"
    return f"format:[BUF_FMT_{names[number - 1]}]" if number <= len(names) else f"format:{number}"


def swizzle(offset: int) -> str:
    """Return the pattern in the offset of DS_SWIZZLE."""
    if offset & _SWIZZLE_QUADS and not offset & 0x7F00:
        return f"swizzle(QUAD_PERM,{','.join(str(offset >> 2 * lane & 3) for lane in range(4))})"
    if offset & _SWIZZLE_QUADS:
        return str(offset)
    keep, force, flip = (offset >> shift & 0x1F for shift in (0, 5, 10))
    if keep == 0x1F and not force and flip and not flip & flip - 1:
        return f"swizzle(SWAP,{flip})"
    if keep == 0x1F and not force and flip and not flip + 1 & flip:
        return f"swizzle(REVERSE,{flip + 1})"
    group = _broadcast_group(keep, force, flip)
    if group:
        return f"swizzle(BROADCAST,{group},{force})"
    places = (_mask_character(keep >> bit & 1, force >> bit & 1, flip >> bit & 1) for bit in range(4, -1, -1))
    return f'swizzle(BITMASK_PERM,"{"".join(places)}")'


def _broadcast_group(keep: int, force: int, flip: int) -> int:
    """Return the size of the groups whose lane `force` is read by all lanes, or 0."""
    group = 0x20 - keep
    return group if group > 1 and not group & group - 1 and force < group and not flip else 0


def _mask_character(keep: int, force: int, flip: int) -> str:
    if force:
        return "0" if flip else "1"
    if keep:
        return "i" if flip else "p"
    return "1" if flip else "0"


def message(value: int) -> str:
    """Return the message of S_SENDMSG."""
    number, operation, stream = value & 0xF, value >> 4 & 0x7, value >> 8 & 0x3
    if value & ~0x37F:
        return str(value)
    if number in _SYMBOLIC_MESSAGES and value == number:
        return f"sendmsg({_SYMBOLIC_MESSAGES[number]})"
    if number == _SYSTEM and operation in _SYSTEM_OPERATIONS and not stream:
        return f"sendmsg(MSG_SYSMSG, {_SYSTEM_OPERATIONS[operation]})"
    if number in (_GS, _GS_DONE) and operation < len(_GS_OPERATIONS) and (operation or (number == _GS_DONE and not stream)):
        name = f"sendmsg({'MSG_GS' if number == _GS else 'MSG_GS_DONE'}, {_GS_OPERATIONS[operation]}"
        return f"{name}, {stream})" if operation else f"{name})"
    return f"sendmsg({number}, {operation}, {stream})"
