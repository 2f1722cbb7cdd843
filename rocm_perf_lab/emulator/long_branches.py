"""Branches that are too far for their 16 bits: S_GETPC_B64, S_ADD_U32, S_ADDC_U32 and S_SETPC_B64 on one pair of registers.

Compilers write them in kernels of more than 128 KiB. Where they lead stands in the code, so that they are no computed jumps.
"""

from __future__ import annotations

import struct

_GETPC, _SETPC = 0xBE80_1C00, 0xBE80_1D00
_ADD, _ADD_CARRY = 0x8000_FF00, 0x8200_FF00
_ADD_CARRY_INLINE = 0x8200_0000
_ZERO, _MINUS_ONE = 0x80, 0xC1
_TARGET_SHIFT, _SECOND_SHIFT = 16, 8
_ADDRESS_MASK = (1 << 64) - 1


def long_branch_target(code: bytes, offset: int, address: int) -> int | None:
    """Where the S_SETPC_B64 at `offset` of `code` leads, or None where that is not written right before it.

    Args:
        code: The text section.
        offset: Of the S_SETPC_B64 in it.
        address: Of the S_SETPC_B64.
    """
    if offset < 20:
        return None
    setpc = int.from_bytes(code[offset : offset + 4], "little")
    low = setpc & 0xFF
    registers = low << _TARGET_SHIFT | low
    carried = registers + (1 << _TARGET_SHIFT) + 1
    if setpc != _SETPC | low:
        return None
    getpc, add, distance, carry, high = struct.unpack("<5I", code[offset - 20 : offset])
    begin = address - 16
    if carry != _ADD_CARRY | carried:
        getpc, add, distance, carry = struct.unpack("<4I", code[offset - 16 : offset])
        begin = address - 12
        upper = {
            _ADD_CARRY_INLINE | carried | _ZERO << _SECOND_SHIFT: 0,
            _ADD_CARRY_INLINE | carried | _MINUS_ONE << _SECOND_SHIFT: -1,
        }
        if carry not in upper:
            return None
        high = upper[carry]
    if (getpc, add) != (_GETPC | low << _TARGET_SHIFT, _ADD | registers):
        return None
    target = (begin + distance + (high << 32)) & _ADDRESS_MASK
    return target if target < 1 << 63 else None
