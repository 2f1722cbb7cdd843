"""Reachable instructions of a kernel, decoded once and cached on disk: decoding costs more than running small kernels.

A cached table is used only if its checksum matches; its key covers the code and the decoder.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.files import read_sealed, write_sealed
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator.errors import IllegalInstruction
from rocm_perf_lab.emulator.fingerprint import translator_fingerprint
from rocm_perf_lab.emulator.isa.decode import LONGEST_INSTRUCTION, decode_one
from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType
from rocm_perf_lab.toolchain.demangle import demangle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocm_perf_lab.emulator.isa.instruction_set import InstructionSet

_SOP1, _OPCODE_SHIFT = 0xBE80_0000, 8
_ADD, _ADD_CARRY = 0x8000_FF00, 0x8200_FF00
_ADD_CARRY_INLINE = 0x8200_0000
_ZERO, _MINUS_ONE = 0x80, 0xC1
_TARGET_SHIFT, _SECOND_SHIFT = 16, 8
_ADDRESS_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Successors:
    """Addresses after an instruction: `targets` of jumps, and `after` if execution continues behind it.

    `may_not_return`: a call, or a trap. Compilers end functions with one if it does not return, and what follows is no code.
    """

    targets: tuple[int, ...] = ()
    after: int | None = None
    may_not_return: bool = False


@dataclass(frozen=True)
class ReachableCode:
    """Instructions by address; `missing` are addresses without code at which execution could arrive, with the reason.

    `doubtful` are the instructions that are only reached if a call returns, a trap continues or another function is called.
    """

    instructions: Mapping[int, Instruction]
    missing: Mapping[int, str]
    doubtful: frozenset[int]


def reachable_instructions(
    code: bytes,
    code_address: int,
    entries: tuple[int, ...],
    isa: InstructionSet,
    follow: Callable[[Instruction], Successors],
    ends: Mapping[int, str] | None = None,
) -> ReachableCode:
    """Return every instruction that is reachable from `entries`, by address.

    Args:
        code: Content of the text section of the code object.
        code_address: Address of the section in the code object.
        entries: Addresses in the code object. All but the first may never be reached.
        isa: Instruction set of the code.
        follow: Returns the addresses after an instruction.
        ends: Functions by the address behind them; a call at the end of a function does not return.

    Raises:
        IllegalInstruction: Bytes that are reached without a call do not encode an instruction, or such a jump leaves the code.
    """
    ends = ends or {}
    key = f"{translator_fingerprint()} {isa} {code_address} {entries} {sorted(ends.items())} "
    digest = hashlib.sha256(key.encode() + code).hexdigest()
    path = cache_dir() / "jit" / f"{digest}.instructions"
    stored = read_sealed(path)
    if stored is not None:
        return _unpacked(stored, isa)
    search = _Search(code, code_address, isa, follow, ends)
    search.follow_from(entries[0])
    found = search.reached(entries[1:])
    write_sealed(path, _packed(found))
    return found


@dataclass
class _Search:
    """Search for reachable code: first what is reached without calls, then the rest."""

    code: bytes
    code_address: int
    isa: InstructionSet
    follow: Callable[[Instruction], Successors]
    ends: Mapping[int, str]
    decoded: dict[int, Instruction] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)
    returns: list[int] = field(default_factory=list)

    def reached(self, entries: tuple[int, ...]) -> ReachableCode:
        """Return all code that is reachable from instructions that are found already, and from `entries`."""
        certain = frozenset(self.decoded)
        pending = [*reversed(entries), *self.returns]
        while pending:
            self.returns = []
            self.follow_from(pending.pop(), is_certain=False)
            pending += self.returns
        return ReachableCode(self.decoded, self.missing, frozenset(self.decoded) - certain)

    def follow_from(self, entry: int, *, is_certain: bool = True) -> None:
        """Decode everything that is reachable from an address without a return; note the addresses of returns."""
        pending = [entry]
        while pending:
            address: int | None = pending.pop()
            while address is not None and address not in self.decoded and address not in self.missing:
                instruction = self._decoded_at(address, is_certain=is_certain)
                if instruction is None:
                    break
                self.decoded[address] = instruction
                following = self.follow(instruction)
                pending.extend(following.targets)
                address = following.after
                if following.may_not_return and address is not None:
                    self._note_return(address)
                    address = None
                elif address == self.code_address + len(self.code):
                    self._note_end(address)

    def _note_return(self, address: int) -> None:
        if address in self.ends or address == self.code_address + len(self.code):
            self._note_end(address)
        else:
            self.returns.append(address)

    def _note_end(self, address: int) -> None:
        name = self.ends.get(address)
        self.missing[address] = f"the code of {demangle(name)} ends there" if name else "the code ends there"

    def _decoded_at(self, address: int, *, is_certain: bool) -> Instruction | None:
        """Return the instruction at an address, or None if there is none, which is an error only if it is certainly reached."""
        offset = address - self.code_address
        window = self.code[offset : offset + LONGEST_INSTRUCTION] if 0 <= offset < len(self.code) else b""
        try:
            if not window:
                raise IllegalInstruction.at(address, window, self.isa, "outside of the code")
            instruction = decode_one(window, address, self.isa)
        except IllegalInstruction as error:
            if is_certain:
                raise
            self.missing[address] = error.what
            return None
        if instruction.mnemonic != "S_SETPC_B64":
            return instruction
        target = _long_branch_target(self.code, offset, address, self.isa.getpc_opcode)
        return instruction if target is None else replace(instruction, fields={**instruction.fields, "target": target})


def _packed(found: ReachableCode) -> bytes:
    import msgpack

    rows = [
        [
            i.address, i.size, i.mnemonic, i.encoding, i.variant, i.raw.to_bytes(LONGEST_INSTRUCTION, "little"),
            dict(i.fields), {name: [o.format, o.bits] for name, o in i.operands.items()}, i.pseudocode,
        ]
        for i in found.instructions.values()
    ]  # fmt: skip
    packed: bytes = msgpack.packb([rows, list(found.missing.items()), sorted(found.doubtful)])
    return packed


def _unpacked(content: bytes, isa: InstructionSet) -> ReachableCode:
    import msgpack

    rows, missing, doubtful = msgpack.unpackb(content)
    return ReachableCode({row[0]: _instruction(isa, *row) for row in rows}, dict(missing), frozenset(doubtful))


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


def _long_branch_target(code: bytes, offset: int, address: int, getpc_opcode: int) -> int | None:
    """Return the target of the S_SETPC_B64 at `offset` if it ends a long branch, else None.

    Compilers write long branches, beyond the range of 16 bits, as S_GETPC_B64, S_ADD_U32, S_ADDC_U32 and S_SETPC_B64 on one pair
    of registers. Their target is constant, so they are not computed jumps.

    Args:
        code: Content of the text section.
        offset: Offset of the S_SETPC_B64 in the section.
        address: Address of the S_SETPC_B64.
        getpc_opcode: Opcode of S_GETPC_B64, which precedes that of S_SETPC_B64.
    """
    if offset < 20:
        return None
    setpc = int.from_bytes(code[offset : offset + 4], "little")
    low = setpc & 0xFF
    registers = low << _TARGET_SHIFT | low
    carried = registers + (1 << _TARGET_SHIFT) + 1
    if setpc != _SOP1 | getpc_opcode + 1 << _OPCODE_SHIFT | low:
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
    if (getpc, add) != (_SOP1 | getpc_opcode << _OPCODE_SHIFT | low << _TARGET_SHIFT, _ADD | registers):
        return None
    target = (begin + distance + (high << 32)) & _ADDRESS_MASK
    return target if target < 1 << 63 else None
