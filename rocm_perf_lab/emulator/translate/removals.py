"""Hand-written vector operations of CDNA2 that CDNA3 lacks: products that are rounded before the sum, without denormals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.pcode.values import Value, float_constant
from rocm_perf_lab.emulator.translate.float_modes import without_denormals

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.emulator.pcode.ir import Builder
    from rocm_perf_lab.emulator.translate.vector_operation import VectorOperation


def _unfused(first: str, second: str, addend: str, *, zero_wins: bool = False) -> Callable[[Builder, VectorOperation], Value]:
    """Return V_MAD_F32 and its forms; `zero_wins`: zero times anything is zero."""

    def combine(builder: Builder, operation: VectorOperation) -> Value:
        a, b, c = (_operand(builder, operation, name) for name in (first, second, addend))
        product = builder.binary("*", a, b)
        if zero_wins:
            zeros = [builder.compare("==", x, float_constant(0.0)) for x in (a, b)]
            product = builder.select(builder.binary("||", *zeros), float_constant(0.0), product)
        rounded = builder.reinterpret(without_denormals(builder, builder.raw(product), 32), "f", 32)
        return builder.binary("+", rounded, c)

    return combine


def _operand(builder: Builder, operation: VectorOperation, name: str) -> Value:
    value = operation.read(name)
    assert value is not None
    return builder.reinterpret(without_denormals(builder, builder.raw(value), 32), "f", 32)


REMOVALS: dict[str, Callable[[Builder, VectorOperation], Value]] = {
    "V_MAC_F32": _unfused("S0", "S1", "D0"),
    "V_MAD_F32": _unfused("S0", "S1", "S2"),
    "V_MAD_LEGACY_F32": _unfused("S0", "S1", "S2", zero_wins=True),
    "V_MADMK_F32": _unfused("S0", "SIMM32", "S1"),
    "V_MADAK_F32": _unfused("S0", "S1", "SIMM32"),
}
