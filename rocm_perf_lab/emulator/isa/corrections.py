"""Where AMD's pseudo-code cannot be what the hardware does: divisions of the compiler would come out wrong.

V_DIV_SCALE multiplies one operand by a power of two (2^64, for double 2^128) where the quotient nears the ends of its range,
and V_DIV_FMAS takes the factor out again. The text of FMAS always multiplies, by the root of that factor; and where numerator
over denominator is denormal and the denominator is huge, the text of SCALE makes it overflow. V_DIV_FIXUP has to look at the
quotient, not at the denominator, to find one that overflowed (as infinity or as NaN).
"""

from __future__ import annotations

_BOTH_DENORMAL = "== DENORM.f{bits})) then\nVCC = 0x1LL;\nif S0.f{bits} == S1.f{bits} then\n// Only scale the denominator\n"


def corrected(mnemonic: str, text: str) -> str:
    """The pseudo-code of an operation as the hardware must execute it."""
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
        case "V_DIV_FMAS_F32":  # in double: a denormal result is rounded once; float64 is written by hand
            fused = "fma(64'F(S0.f32), 64'F(S1.f32), 64'F(S2.f32))"
            up, down = f"32'F(ldexp({fused}, 64))", f"32'F(ldexp({fused}, -64))"
            return (  # S2 is the estimate of the quotient: large where the factor made it small
                f"if VCC.u64[laneId] then\nD0.f32 = exponent(S2.f32) > 127 ? {up} : {down}\n"
                "else\nD0.f32 = fma(S0.f32, S1.f32, S2.f32)\nendif"
            )
    return text


def _with_scaled_down_denominator(text: str, bits: int, power: int) -> str:
    before = _BOTH_DENORMAL.format(bits=bits)
    return text.replace(f"{before}D0.f{bits} = ldexp(S0.f{bits}, {power})", f"{before}D0.f{bits} = ldexp(S0.f{bits}, -{power})")
