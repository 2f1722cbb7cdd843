"""The instructions that a kernel can reach, decoded once and kept on disk: decoding costs more than running small kernels.

A stored table is used only if its checksum matches; its key covers the code and the decoder.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.files import read_sealed, write_sealed
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.emulator.fingerprint import translator_fingerprint
from rocm_perf_lab.emulator.isa.decode import LONGEST_INSTRUCTION, decode_one
from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType
from rocm_perf_lab.emulator.long_branches import long_branch_target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def reachable_instructions(
    code: bytes, code_address: int, entries: tuple[int, ...], follow: Callable[[Instruction], tuple[bool, tuple[int, ...]]]
) -> Mapping[int, Instruction]:
    """Every instruction that control can reach from `entries`, by address.

    Args:
        code: The text section of the code object.
        code_address: Its address in the code object.
        entries: Addresses in the code object.
        follow: Whether control goes on behind an instruction, and the other addresses that it may go to.

    Raises:
        IllegalInstruction: Reachable bytes that are no instruction, or a jump out of the code.
    """
    digest = hashlib.sha256(f"{translator_fingerprint()} {code_address} {entries} ".encode() + code).hexdigest()
    path = cache_dir() / "jit" / f"{digest}.instructions"
    stored = read_sealed(path)
    if stored is not None:
        return _unpacked(stored)
    decoded = _decode(code, code_address, entries, follow)
    write_sealed(path, _packed(decoded))
    return decoded


def _decode(
    code: bytes, code_address: int, entries: tuple[int, ...], follow: Callable[[Instruction], tuple[bool, tuple[int, ...]]]
) -> dict[int, Instruction]:
    decoded: dict[int, Instruction] = {}
    pending = list(entries)
    while pending:
        address = pending.pop()
        while address not in decoded:
            offset = address - code_address
            window = code[offset : offset + LONGEST_INSTRUCTION] if 0 <= offset < len(code) else b""
            instruction = decode_one(window, address)
            target = long_branch_target(code, offset, address) if instruction.mnemonic == "S_SETPC_B64" else None
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


def _unpacked(content: bytes) -> dict[int, Instruction]:
    import msgpack

    rows: list[list[Any]] = msgpack.unpackb(content)
    return {row[0]: _instruction(*row) for row in rows}


def _instruction(
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
        pseudocode=pseudocode,
    )
