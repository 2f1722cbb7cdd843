"""Decoder of gfx942 machine code: bytes to :class:`Instruction`. Only this module depends on the decoder library.

The tables are those of tinygrad, generated from AMD's machine-readable specification (CDNA4, which includes CDNA3). Their
layout is private to that package, so its version is pinned.
"""

from __future__ import annotations

from typing import Any

from rocm_perf_lab.emulator.errors import IllegalInstruction
from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType
from rocm_perf_lab.emulator.isa.pseudocode import mnemonic_of, pseudocode_of

LONGEST_INSTRUCTION = 20
_MTBUF = 0b111010


def decode_one(code: bytes, address: int, index: int = 0) -> Instruction:
    """Decode the instruction at the start of `code`.

    Raises:
        IllegalInstruction: The bytes do not encode an instruction of gfx942.
    """
    window = code[:LONGEST_INSTRUCTION].ljust(LONGEST_INSTRUCTION + 8, b"\0")
    try:
        decoded = _decoded(window)
        name, size = decoded.op.name, decoded.size()
    except (ValueError, KeyError, AssertionError, RuntimeError, AttributeError, TypeError, IndexError) as error:
        raise IllegalInstruction.at(address, code[:8], "not an encoding of gfx942") from error
    if size > len(code):
        raise IllegalInstruction.at(address, code, "the code ends inside this instruction")
    family, _, variant = type(decoded).__name__.partition("_")
    mnemonic = mnemonic_of(name)
    return Instruction(
        index=index,
        address=address,
        size=size,
        mnemonic=mnemonic,
        encoding=family,
        variant=variant,
        raw=int.from_bytes(code[:size], "little"),
        fields={field: _number(getattr(decoded, field)) for field, _ in decoded._fields},
        operands={
            field: OperandType(kind.name.removeprefix("FMT_").removeprefix("NUM_"), bits)
            for field, (kind, bits, _) in decoded.operands.items()
        },
        pseudocode=pseudocode_of(mnemonic),
    )


def _decoded(window: bytes) -> Any:
    from tinygrad.renderer.amd import decode_inst

    if window[3] >> 2 == _MTBUF:  # the library has the layout but does not select it
        from tinygrad.runtime.autogen.amd.cdna.ins import MTBUF

        return MTBUF.from_bytes(window)
    return decode_inst(window, "cdna")


def _number(value: Any) -> int:
    offset = getattr(value, "offset", None)
    return int(offset) if offset is not None else int(getattr(value, "value", value) or 0)
