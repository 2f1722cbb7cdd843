"""Reachable instructions of a kernel, decoded once and cached on disk: decoding costs more than running small kernels.

A cached table is used only if its checksum matches; its key covers the code and the decoder.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.files import read_sealed, write_sealed
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator.fingerprint import translator_fingerprint
from rocm_perf_lab.emulator.isa.decode import LONGEST_INSTRUCTION, decode_one
from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet

_GETPC, _SETPC = 0xBE80_1C00, 0xBE80_1D00
_ADD, _ADD_CARRY = 0x8000_FF00, 0x8200_FF00
_ADD_CARRY_INLINE = 0x8200_0000
_ZERO, _MINUS_ONE = 0x80, 0xC1
_TARGET_SHIFT, _SECOND_SHIFT = 16, 8
_ADDRESS_MASK = (1 << 64) - 1


def reachable_instructions(
    code: bytes,
    code_address: int,
    entries: tuple[int, ...],
    isa: InstructionSet,
    follow: Callable[[Instruction], tuple[bool, tuple[int, ...]]],
) -> Mapping[int, Instruction]:
    """Return every instruction that is reachable from `entries`, by address.

    Args:
        code: Content of the text section of the code object.
        code_address: Address of the section in the code object.
        entries: Addresses in the code object.
        isa: Instruction set of the code.
        follow: Returns whether execution continues after an instruction, and the other addresses that it may jump to.

    Raises:
        IllegalInstruction: Reachable bytes do not encode an instruction, or a jump leaves the code.
    """
    digest = hashlib.sha256(f"{translator_fingerprint()} {isa} {code_address} {entries} ".encode() + code).hexdigest()
    path = cache_dir() / "jit" / f"{digest}.instructions"
    stored = read_sealed(path)
    if stored is not None:
        return _unpacked(stored, isa)
    decoded = _decode(code, code_address, entries, isa, follow)
    write_sealed(path, _packed(decoded))
    return decoded


def _decode(
    code: bytes,
    code_address: int,
    entries: tuple[int, ...],
    isa: InstructionSet,
    follow: Callable[[Instruction], tuple[bool, tuple[int, ...]]],
) -> dict[int, Instruction]:
    decoded: dict[int, Instruction] = {}
    pending = list(entries)
    while pending:
        address = pending.pop()
        while address not in decoded:
            offset = address - code_address
            window = code[offset : offset + LONGEST_INSTRUCTION] if 0 <= offset < len(code) else b""
            instruction = decode_one(window, address, isa)
            target = _long_branch_target(code, offset, address) if instruction.mnemonic == "S_SETPC_B64" else None
            if target is not None:
                instruction = replace(instruction, fields={**instruction.fields, "target": target})
            decoded[address] = instruction
            goes_on, elsewhere = follow(instruction)
            pending.extend(elsewhere)
            if not goes_on:
                break
            address += instruction.size
    return decoded


def _packed(decoded: Mapping[int, Instruction]) -> bytes:
    import msgpack

    rows = [
        [
            i.address, i.size, i.mnemonic, i.encoding, i.variant, i.raw.to_bytes(LONGEST_INSTRUCTION, "little"),
            dict(i.fields), {name: [o.format, o.bits] for name, o in i.operands.items()}, i.pseudocode,
        ]
        for i in decoded.values()
    ]  # fmt: skip
    packed: bytes = msgpack.packb(rows)
    return packed


def _unpacked(content: bytes, isa: InstructionSet) -> dict[int, Instruction]:
    import msgpack

    rows: list[list[Any]] = msgpack.unpackb(content)
    return {row[0]: _instruction(isa, *row) for row in rows}


def _instruction(
    isa: InstructionSet,
    address: int,
    size: int,
    mnemonic: str,
    encoding: str,
    variant: str,
    raw: bytes,
    fields: dict[str, int],
    operands: dict[str, list[Any]],
    pseudocode: str | None,
) -> Instruction:
    return Instruction(
        index=0,
        address=address,
        size=size,
        mnemonic=mnemonic,
        encoding=encoding,
        variant=variant,
        raw=int.from_bytes(raw, "little"),
        fields=fields,
        operands={name: OperandType(*kind) for name, kind in operands.items()},
        isa=isa,
        pseudocode=pseudocode,
    )


def _long_branch_target(code: bytes, offset: int, address: int) -> int | None:
    """Return the target of the S_SETPC_B64 at `offset` if it ends a long branch, else None.

    Compilers write long branches, beyond the range of 16 bits, as S_GETPC_B64, S_ADD_U32, S_ADDC_U32 and S_SETPC_B64 on one pair
    of registers. Their target is constant, so they are not computed jumps.

    Args:
        code: Content of the text section.
        offset: Offset of the S_SETPC_B64 in the section.
        address: Address of the S_SETPC_B64.
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
