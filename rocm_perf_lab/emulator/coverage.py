"""What of gfx942 the emulator executes, as Markdown: `python -m rocm_perf_lab.emulator.coverage > docs/emulator-coverage.md`.

Every opcode of every encoding is encoded once with plain operands, decoded and translated: the report says what happened.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.emulator.errors import EmulationError, IllegalInstruction, UnsupportedInstruction
from rocm_perf_lab.emulator.isa.decode import decode_one
from rocm_perf_lab.emulator.isa.instruction import MODE_REGISTER
from rocm_perf_lab.emulator.program import Program, decode_program
from rocm_perf_lab.emulator.translate.function import kernel_ir

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PSEUDOCODE, OWN_CODE, UNSUPPORTED = "pseudo-code", "own code", "unsupported"

_CDNA4_ONLY = re.compile(
    r"BUFFER_ATOMIC_PK_ADD_BF16|DS_READ_B\d+_TR_B\d+|GLOBAL_LOAD_LDS_DWORDX[34]|V_ASHR_PK_.*|V_BITOP3_.*|V_CVT_F32_BF16"
    r"|V_CVT_PK_(BF16|F16)_F32|V_CVT_SCALEF32_.*|V_CVT_SR_B?F16_F32|V_DOT2C?_F32_BF16|V_(PK_)?(MAXIMUM|MINIMUM)3_.*"
    r"|V_MFMA_.*F8F6F4|V_MFMA_F32_(16X16X32|32X32X16)_B?F16|V_MFMA_I32_(16X16X64|32X32X32)_I8|V_MFMA_LD_SCALE_B32"
    r"|V_PERMLANE(16|32)_SWAP_B32|V_PRNG_B32|V_SMFMAC_F32_((16X16X64|32X32X32)_B?F16|(16X16X128|32X32X64)_(FP8|BF8)_(FP8|BF8))"
    r"|V_SMFMAC_I32_(16X16X128|32X32X64)_I8|S_SET_VALU_COEXEC_MODE"
)
"""In the decoder's tables, which are CDNA4's, but refused by assemblers for gfx942."""
_END = bytes.fromhex("000081bf")  # S_ENDPGM
_SUFFIX = re.compile(r"_(E32|E64|DPP|SDWA|DPP16)$")
_VARIANT = re.compile(r"_(SDWA|SDWA_SDST|DPP16)$")
_NAMES = {"VOP3P_MFMA": "VOP3P, matrix", "VOP3_SDST": "VOP3, to SGPRs", "VOP3SD": "VOP3, with carry"}
_FIELDS = {"vdst": 20, "vaddr": 8, "addr": 8, "data": 12, "data0": 12, "data1": 14, "vdata": 12, "sdst": 20, "sdata": 20,
           "sbase": 2, "ssrc0": 0, "ssrc1": 2, "src0": 256, "src1": 258, "src2": 260, "vsrc0": 0, "vsrc1": 2, "saddr": 0x7F,
           "imm": 1, "srsrc": 2, "seg": 0, "soffset": 0, "simm16": 0, "literal": 0x3F800000}  # fmt: skip


@dataclass(frozen=True)
class Opcode:
    """One opcode in one encoding and how it is executed; `reason` says why not."""

    encoding: str
    mnemonic: str
    how: str
    reason: str = ""


@cache
def opcodes() -> tuple[Opcode, ...]:
    """Every opcode of gfx942 in the decoder's tables, by encoding and name."""
    found = {(o.encoding, o.mnemonic): o for kind in _encodings() for o in _of_encoding(kind)}
    return tuple(found[key] for key in sorted(found))


def report() -> str:
    """The Markdown text."""
    known = opcodes()
    encodings = list(dict.fromkeys(o.encoding for o in known))
    lines = [
        "# Instructions of gfx942 that the emulator executes",
        "",
        "Written by `python -m rocm_perf_lab.emulator.coverage`; a test compares. Each opcode was translated once with plain",
        "operands. *Pseudo-code*: AMD's published description of the operation, compiled. *Own code*: written for the emulator,",
        "because that text is prose, missing, wrong or slow. What is unsupported ends in an error that names the instruction.",
        "Names are those of AMD's tables: v_mad_mix there is v_fma_mix of gfx942.",
        "",
        "| encoding | opcodes | pseudo-code | own code | unsupported |",
        "| --- | --- | --- | --- | --- |",
        *(_row(name, [o for o in known if o.encoding == name]) for name in encodings),
        _row("all", known),
        "",
        "## Unsupported",
        "",
        "| encoding | reason | opcodes |",
        "| --- | --- | --- |",
        *_reasons([o for o in known if o.how == UNSUPPORTED]),
    ]
    for name in encodings:
        lines += ["", f"## {name}"]
        for how in (PSEUDOCODE, OWN_CODE):
            members = [o.mnemonic.lower() for o in known if o.encoding == name and o.how == how]
            if members:
                lines += ["", f"{how.capitalize()}: {', '.join(members)}."]
    return "\n".join(lines) + "\n"


def _row(name: str, members: Iterable[Opcode]) -> str:
    hows = [o.how for o in members]
    return f"| {name} | {len(hows)} | {' | '.join(str(hows.count(how)) for how in (PSEUDOCODE, OWN_CODE, UNSUPPORTED))} |"


def _reasons(members: list[Opcode]) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for opcode in members:
        groups.setdefault((opcode.encoding, opcode.reason), []).append(opcode.mnemonic.lower())
    return [f"| {encoding} | {reason} | {', '.join(names)} |" for (encoding, reason), names in groups.items()]


def _encodings() -> list[Any]:
    """The decoder's classes but for sub-dword and data-parallel variants, which exist for any opcode of their family."""
    from tinygrad.renderer.amd import _load_formats
    from tinygrad.runtime.autogen.amd.cdna.ins import MTBUF

    return [MTBUF] + [
        kind for kind in _load_formats()["cdna"] if not _VARIANT.search(kind.__name__) and kind.__name__ != "VOP3PX2"
    ]


def _of_encoding(kind: Any) -> Iterable[Opcode]:
    fields = dict(kind._fields)
    allowed = fields["op"].allowed or list(fields["op"].enum)
    name = _NAMES.get(kind.__name__, kind.__name__.removesuffix("_LIT"))
    for operation in allowed:
        mnemonic = _SUFFIX.sub("", operation.name)
        if not _CDNA4_ONLY.fullmatch(mnemonic):
            yield _judged(name, mnemonic, _encoded(kind, fields, operation))


def _encoded(kind: Any, fields: Mapping[str, Any], operation: Any) -> bytes:
    """The opcode with plain operands."""
    word = 0
    top = max(field.hi for field in fields.values())
    for name, field in fields.items():
        if name == "op":
            value = operation.value
        elif field.default is not None and type(field).__name__ == "FixedBitField":
            value = field.default
        else:
            value = _operand(name, operation.name, field.mask)
        word |= (value & field.mask) << field.lo
    del kind
    return word.to_bytes((top // 32 + 1) * 4, "little")


def _operand(name: str, operation: str, mask: int) -> int:
    if "LANE_B32" in operation and "FIRST" not in operation:
        scalar = {"src1": 2} if operation.startswith("V_READLANE") else {"src0": 2, "src1": 4}
        if name in scalar:
            return scalar[name]
    if name == "simm16" and "REG" in operation:
        return MODE_REGISTER | 3 << 11  # hwreg(HW_REG_MODE, 0, 4)
    if name == "vdst" and operation.startswith(("V_READLANE", "V_READFIRSTLANE")):
        return 20
    value = _FIELDS.get(name, 0)
    return value - 256 if value >= 256 and mask < 256 else value


def _judged(encoding: str, mnemonic: str, code: bytes) -> Opcode:
    try:
        instruction = decode_one(code, 0)
        if instruction.mnemonic != mnemonic:
            return Opcode(encoding, mnemonic, UNSUPPORTED, f"decoded as {instruction.mnemonic.lower()}")
        program = decode_program("coverage", code + _END, 0, (0,), 0)
        kernel_ir(program)
    except IllegalInstruction:
        return Opcode(encoding, mnemonic, UNSUPPORTED, "the decoder does not know it")
    except UnsupportedInstruction as error:
        return Opcode(encoding, mnemonic, UNSUPPORTED, _reason(error, mnemonic))
    except EmulationError as error:
        return Opcode(encoding, mnemonic, UNSUPPORTED, error.what)
    return Opcode(encoding, mnemonic, OWN_CODE if _needs_no_text(program) else PSEUDOCODE)


def _reason(error: UnsupportedInstruction, mnemonic: str) -> str:
    """What the message says in brackets, without the instruction's own name."""
    match = re.search(r"\((.*)\)", error.what)
    words = (match[1] if match else error.what).split()
    return " ".join(word for word in words if not (word.isupper() and "_" in word and mnemonic.endswith(word)))


def _needs_no_text(program: Program) -> bool:
    first = replace(program.blocks[0], instructions=tuple(replace(i, pseudocode=None) for i in program.blocks[0].instructions))
    try:
        kernel_ir(replace(program, blocks=(first, *program.blocks[1:])))
    except UnsupportedInstruction:
        return False
    return True


if __name__ == "__main__":
    sys.stdout.write(report())
