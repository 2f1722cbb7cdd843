"""Functions that a kernel may call through registers: `callable_functions(...)`.

Compilers compute the address of a function in three instructions: S_GETPC_B64, S_ADD_U32 with the distance as a literal,
S_ADDC_U32. A function whose address is neither computed in reachable code nor stored in data is never called. Kernels may pass
addresses to each other in memory, so code reachable from any kernel of the code object counts.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rocm_perf_lab.emulator.isa.instruction import Instruction

CDNA_GETPC = 0x1C
"""Opcode of S_GETPC_B64."""
_SOP1, _OPCODE_SHIFT = 0xBE80_0000, 8
_GETPC_MASK = 0xFF80_FFFF
_ADD_WITH_LITERAL = 0x8000_FF00
_SGPR_SHIFT = 16
_SGPR_MASK = 0x7F
_WORD = 4


def callable_functions(
    code: bytes, code_address: int, functions: Mapping[int, int], roots: Collection[int], getpc: int = CDNA_GETPC
) -> frozenset[int]:
    """Return the addresses of functions that may run: `roots`, functions whose addresses they compute, and so on.

    Args:
        code: Content of the text section.
        code_address: Address of the section in the code object.
        functions: Size of each function in bytes, by address; includes kernels.
        roots: Kernels, and functions whose addresses are stored in data.
        getpc: Opcode of S_GETPC_B64.

    Returns:
        All of `functions` if the code computes an address in another way.
    """
    made = {address: _made_addresses(code, code_address, address, size, getpc) for address, size in functions.items()}
    found: set[int] = set()
    pending = [address for address in roots if address in functions]
    while pending:
        address = pending.pop()
        if address in found:
            continue
        found.add(address)
        targets = made[address]
        if targets is None:
            return frozenset(functions)
        pending += [target for target in targets if target in functions]
    return frozenset(found)


def computed_addresses(instructions: Iterable[Instruction]) -> tuple[int, ...]:
    """Return the addresses that S_GETPC_B64 and the addition of a literal compute, in the order of the instructions.

    Args:
        instructions: Instructions in address order.
    """
    return tuple(
        dict.fromkeys(
            following.address + _signed(following.fields["literal"])
            for getpc, following in pairwise(instructions)
            if getpc.mnemonic == "S_GETPC_B64" and _adds_literal_to(following, getpc)
        )
    )


def _adds_literal_to(instruction: Instruction, getpc: Instruction) -> bool:
    low = getpc.fields["sdst"]
    operands = (instruction.fields.get("sdst"), instruction.fields.get("ssrc0"))
    is_next = instruction.address == getpc.address + getpc.size
    return instruction.mnemonic == "S_ADD_U32" and "literal" in instruction.fields and operands == (low, low) and is_next


def _signed(literal: int) -> int:
    literal &= 0xFFFF_FFFF
    return literal - (literal >> 31 << 32)


def _made_addresses(code: bytes, code_address: int, start: int, size: int, getpc: int) -> frozenset[int] | None:
    """Return the addresses that a function computes, or None if an S_GETPC_B64 is not followed by the addition of a literal."""
    first = start - code_address
    body = code[first : first + size]
    words = struct.unpack(f"<{len(body) // _WORD}I", body[: len(body) // _WORD * _WORD])
    targets = set()
    for index, word in enumerate(words):
        if word & _GETPC_MASK != _SOP1 | getpc << _OPCODE_SHIFT:
            continue
        low = word >> _SGPR_SHIFT & _SGPR_MASK
        if words[index + 1 : index + 2] != (_ADD_WITH_LITERAL | low << _SGPR_SHIFT | low,) or index + 2 >= len(words):
            return None
        distance = words[index + 2]
        here = start + (index + 1) * _WORD
        targets.add(here + distance - (distance >> 31 << 32))
    return frozenset(targets)
