"""Decodes gfx942 machine code: bytes in, :class:`Instruction` out. The only module that knows the decoder's library.

The tables are tinygrad's, generated from AMD's machine-readable specification (CDNA4 with CDNA3 inside it); their layout is
private to that package, which is why its version is pinned.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.emulator.errors import IllegalInstruction
from rocm_perf_lab.emulator.isa.corrections import corrected
from rocm_perf_lab.emulator.isa.instruction import Instruction, OperandType

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_INSTRUCTION = 20
_MTBUF = 0b111010
_SUFFIX = re.compile(r"_(E32|E64|DPP|SDWA|DPP16)$")


_SAME_AS = {
    "V_EXP_LEGACY_F32": "V_EXP_F32",
    "V_LOG_LEGACY_F32": "V_LOG_F32",
    "V_DIV_FIXUP_LEGACY_F16": "V_DIV_FIXUP_F16",
}
"""Operations without a text of their own, or with one that does not say the width of its result."""


def decode_one(code: bytes, address: int, index: int = 0) -> Instruction:
    """Decode the instruction at the start of `code`, which is at `address`.

    Raises:
        IllegalInstruction: The bytes encode no instruction of gfx942.
    """
    window = code[:LONGEST_INSTRUCTION].ljust(LONGEST_INSTRUCTION + 8, b"\0")
    try:
        decoded = _decoded(window)
        name, size = decoded.op.name, decoded.size()
    except (ValueError, KeyError, AssertionError, RuntimeError, AttributeError, TypeError, IndexError) as error:
        raise IllegalInstruction.at(address, code[:8], "no instruction of gfx942 is encoded so") from error
    if size > len(code):
        raise IllegalInstruction.at(address, code, "the code ends inside this instruction")
    family, _, variant = type(decoded).__name__.partition("_")
    mnemonic = _SUFFIX.sub("", name)
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

    if window[3] >> 2 == _MTBUF:  # the library has the layout but does not recognise it
        from tinygrad.runtime.autogen.amd.cdna.ins import MTBUF

        return MTBUF.from_bytes(window)
    return decode_inst(window, "cdna")


def pseudocode_of(mnemonic: str) -> str | None:
    """AMD's description of an operation."""
    return _pseudocode().get(_SAME_AS.get(mnemonic, mnemonic))


def _number(value: Any) -> int:
    offset = getattr(value, "offset", None)
    return int(offset) if offset is not None else int(getattr(value, "value", value) or 0)


@cache
def _pseudocode() -> Mapping[str, str]:
    """AMD's pseudo-code by mnemonic; the E32 and E64 forms of an operation share one entry."""
    from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE

    texts: dict[str, str] = {}
    for operation, text in PCODE.items():
        mnemonic = _SUFFIX.sub("", operation.name)
        texts.setdefault(mnemonic, corrected(mnemonic, text))
    return texts
