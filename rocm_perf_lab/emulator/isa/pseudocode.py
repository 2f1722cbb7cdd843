"""AMD's pseudo-code of operations, corrected if the text cannot describe the hardware.

V_DIV_SCALE multiplies one operand by a power of two (2^64, for double 2^128) if the quotient is near the ends of its range,
and V_DIV_FMAS removes that factor. The text of FMAS always multiplies, by the root of the factor. The text of SCALE makes the
denominator overflow if it is huge and numerator / denominator is denormal. V_DIV_FIXUP has to test the quotient, not the
denominator, to find a quotient that overflowed (infinity or NaN).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_SUFFIX = re.compile(r"_(E32|E64|DPP|SDWA|DPP16)$")
_SAME_AS = {
    "V_EXP_LEGACY_F32": "V_EXP_F32",
    "V_LOG_LEGACY_F32": "V_LOG_F32",
    "V_DIV_FIXUP_LEGACY_F16": "V_DIV_FIXUP_F16",
}
"""Operations without pseudo-code, or whose pseudo-code omits the width of the result."""
_REMOVED = {
    "V_MAC_F32": "D0.f32 = S0.f32 * S1.f32 + D0.f32",
    "V_MAD_F32": "D0.f32 = S0.f32 * S1.f32 + S2.f32",
    "V_MAD_LEGACY_F32": "D0.f32 = S0.f32 * S1.f32 + S2.f32",
    "V_MADMK_F32": "D0.f32 = S0.f32 * SIMM32.f32 + S1.f32",
    "V_MADAK_F32": "D0.f32 = S0.f32 * S1.f32 + SIMM32.f32",
}
"""Operations of CDNA2 that later architectures lack, after the CDNA2 ISA guide."""
_RDNA = {
    "V_FMAC_DX9_ZERO_F32": """if ((64'F(S0.f32) == 0.0) || (64'F(S1.f32) == 0.0)) then
D0.f32 = D0.f32
else
D0.f32 = fma(S0.f32, S1.f32, D0.f32)
endif""",
    "V_FMAMK_F16": "D0.f16 = fma(S0.f16, SIMM16.f16, S1.f16)",
    "V_FMAAK_F16": "D0.f16 = fma(S0.f16, S1.f16, SIMM16.f16)",
}
"""Operations of RDNA whose pseudo-code names an operand that they lack."""
_BOTH_DENORMAL = "== DENORM.f{bits})) then\nVCC = 0x1LL;\nif S0.f{bits} == S1.f{bits} then\n// Only scale the denominator\n"


def mnemonic_of(operation: str) -> str:
    """Return the mnemonic without its encoding suffix: V_ADD_F32 for V_ADD_F32_E64."""
    return _SUFFIX.sub("", operation)


def pseudocode_of(mnemonic: str) -> str | None:
    """Return AMD's description of an operation, or None."""
    known = _pseudocode().get(_SAME_AS.get(mnemonic, mnemonic)) or _REMOVED.get(mnemonic) or _RDNA.get(mnemonic)
    return known or _rdna_pseudocode().get(mnemonic)


@cache
def _pseudocode() -> Mapping[str, str]:
    """Return AMD's pseudo-code by mnemonic; the E32 and E64 forms of an operation share one entry."""
    from tinygrad.runtime.autogen.amd.cdna.str_pcode import PCODE

    texts: dict[str, str] = {}
    for operation, text in PCODE.items():
        mnemonic = mnemonic_of(operation.name)
        texts.setdefault(mnemonic, _corrected(mnemonic, text))
    return texts


@cache
def _rdna_pseudocode() -> Mapping[str, str]:
    """Return AMD's pseudo-code of the operations of RDNA3, for those that CDNA lacks."""
    from tinygrad.runtime.autogen.amd.rdna3.str_pcode import PCODE

    return {mnemonic_of(operation.name): text for operation, text in PCODE.items()}


def _corrected(mnemonic: str, text: str) -> str:
    """Return the pseudo-code of an operation as the hardware executes it."""
    match mnemonic:
        case "V_DIV_SCALE_F32":
            text = text.replace("1.0 / 64'F(S1.f32) == DENORM.f64", "1.0F / S1.f32 == DENORM.f32")
            return _with_scaled_down_denominator(text, 32, 64)
        case "V_DIV_SCALE_F64":
            return _with_scaled_down_denominator(text, 64, 128)
        case "V_DIV_FIXUP_F32":
            return text.replace("exponent(S1.f32) == 255", "exponent(S0.f32) == 255")
        case "V_DIV_FIXUP_F64":
            return text.replace("exponent(S1.f64) == 2047", "exponent(S0.f64) == 2047")
        case "V_DIV_FMAS_F32":  # in double, so that a denormal result is rounded once; float64 is in translate/division.py
            fused = "fma(64'F(S0.f32), 64'F(S1.f32), 64'F(S2.f32))"
            up, down = f"32'F(ldexp({fused}, 64))", f"32'F(ldexp({fused}, -64))"
            return (  # S2 is the estimate of the quotient, large if the factor made it small
                f"if VCC.u64[laneId] then\nD0.f32 = exponent(S2.f32) > 127 ? {up} : {down}\n"
                "else\nD0.f32 = fma(S0.f32, S1.f32, S2.f32)\nendif"
            )
    return text


def _with_scaled_down_denominator(text: str, bits: int, power: int) -> str:
    before = _BOTH_DENORMAL.format(bits=bits)
    return text.replace(f"{before}D0.f{bits} = ldexp(S0.f{bits}, {power})", f"{before}D0.f{bits} = ldexp(S0.f{bits}, -{power})")
