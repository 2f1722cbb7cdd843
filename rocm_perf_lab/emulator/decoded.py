"""Reachable instructions of a kernel, decoded once and cached on disk: decoding costs more than running small kernels.

A cached table is used only if its checksum matches; its key covers the code and the decoder.
"""

from __future__ import annotations

import hashlib
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
_ZERO, _MINUS_ONE, _LITERAL = 0x80, 0xC1, 0xFF
_LARGEST_INLINE, _NEGATIVE_INLINES = 64, 16
_TARGET_SHIFT = 16
_WORD = 4
_WORD_MASK = (1 << 32) - 1
_LONGEST_LONG_BRANCH = 40


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
        target = _long_branch_target(self.code, self.code_address, instruction)
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


def _long_branch_target(code: bytes, code_address: int, setpc: Instruction) -> int | None:
    """Return the target of an S_SETPC_B64 if it ends a long branch, else None.

    Compilers and Tensile write long branches, beyond the range of 16 bits, as S_GETPC_B64, additions or subtractions of
    constants, and S_SETPC_B64. Their target is constant, so they are not computed jumps.

    Args:
        code: Content of the text section.
        code_address: Address of the section.
        setpc: The S_SETPC_B64.
    """
    low = setpc.fields["ssrc0"]
    getpc = _SOP1 | setpc.isa.getpc_opcode << _OPCODE_SHIFT | low << _TARGET_SHIFT
    end = setpc.address - code_address
    for begin in range(end - _WORD, max(0, end - _LONGEST_LONG_BRANCH) - 1, -_WORD):
        if int.from_bytes(code[begin : begin + _WORD], "little") == getpc:
            here = code_address + begin + _WORD
            pair = {low: here & _WORD_MASK, low + 1: here >> 32}
            registers = _evaluated(code[begin + _WORD : end], here, setpc.isa, pair)
            if registers is None:
                return None
            target = registers[low + 1] << 32 | registers[low]
            return target if target < 1 << 63 else None
    return None


def _evaluated(code: bytes, address: int, isa: InstructionSet, known: Mapping[int, int]) -> dict[int, int] | None:
    """Return the scalar registers after code that adds and subtracts constants, or None if it does anything else.

    Args:
        code: Instructions without jumps.
        address: Address of the first.
        isa: Their instruction set.
        known: Values of registers before.
    """
    registers, offset = dict(known), 0
    carry: int | None = None
    while offset < len(code):
        try:
            instruction = decode_one(code[offset : offset + LONGEST_INSTRUCTION], address + offset, isa)
        except IllegalInstruction:
            return None
        name = instruction.mnemonic
        operate = _SCALAR_OPERATIONS.get(name)
        sources = [_constant(instruction, field, registers) for field in ("ssrc0", "ssrc1") if field in instruction.fields]
        if operate is None or None in sources or (name in _USE_CARRY and carry is None):
            return None
        first, second = (*(value for value in sources if value is not None), 0)[:2]
        result = operate(first, second, carry or 0)
        if name != "S_MOV_B32":
            carry = int(not 0 <= result <= _WORD_MASK) if name.endswith("U32") else None  # of the others, it is another condition
        registers[instruction.fields["sdst"]] = result & _WORD_MASK
        offset += instruction.size
    return registers


def _constant(instruction: Instruction, name: str, registers: Mapping[int, int]) -> int | None:
    """Return the value of a source that is a literal, an inline integer or a known register, else None."""
    source = instruction.fields[name]
    if source == _LITERAL:
        return instruction.fields["literal"] & _WORD_MASK
    if _ZERO <= source <= _ZERO + _LARGEST_INLINE:
        return source - _ZERO
    if _MINUS_ONE <= source < _MINUS_ONE + _NEGATIVE_INLINES:
        return (_MINUS_ONE - 1 - source) & _WORD_MASK
    return registers.get(source)


def _magnitude(value: int) -> int:
    return (1 << 32) - value if value >> 31 else value


_USE_CARRY = frozenset({"S_ADDC_U32", "S_SUBB_U32"})
_SCALAR_OPERATIONS: Mapping[str, Callable[[int, int, int], int]] = {
    "S_ADD_U32": lambda a, b, carry: a + b,
    "S_ADDC_U32": lambda a, b, carry: a + b + carry,
    "S_SUB_U32": lambda a, b, carry: a - b,
    "S_SUBB_U32": lambda a, b, carry: a - b - carry,
    "S_ADD_I32": lambda a, b, carry: a + b,
    "S_SUB_I32": lambda a, b, carry: a - b,
    "S_ABS_I32": lambda a, b, carry: _magnitude(a),
    "S_MOV_B32": lambda a, b, carry: a,
}
