"""Issue times of CDNA3 instructions in quad-cycles (4 clocks), the unit of the hardware's issue counters.

Rates: AMD CDNA3 white paper. A wave64 instruction occupies a SIMD of 16 lanes for four clocks, transcendentals four times as
long. A matrix core executes 2048 float16 operations per compute unit and clock, and other types in the ratios below.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction

TRANSCENDENTAL_QUADS = 4
F16_FLOPS_PER_SIMD_QUAD = 4 * 512
MIN_MATRIX_QUADS = 2
"""Passes of the shortest matrix instruction (CDNA3 ISA guide); a pass is four clocks."""
MIN_F64_MATRIX_QUADS = 4
_TRANSCENDENTAL = re.compile(r"V_(EXP|LOG|RCP|RSQ|SQRT|SIN|COS)(_IFLAG|_LEGACY)?_F(16|32|64)$")
_MATRIX = re.compile(r"_(\d+)X(\d+)X(\d+)(?:_(\d+)B)?_(.+)$")
_MATRIX_RATE = {"F16": 1.0, "BF16": 1.0, "F32": 0.125, "F64": 0.125, "XF32": 0.5, "I8": 2.0}
_NARROW_RATE = 2.0
"""FP8 and BF8."""


def is_transcendental(instruction: Instruction) -> bool:
    """Return whether an instruction runs at a quarter of the vector rate."""
    return _TRANSCENDENTAL.match(instruction.mnemonic) is not None


def matrix_f16_flops(instruction: Instruction) -> float | None:
    """Return the number of float16 operations that occupy the matrix core for the same time, or None for other instructions."""
    match = _MATRIX.search(instruction.mnemonic) if instruction.is_matrix else None
    if match is None:
        return None
    m, n, k, blocks = (int(part or 1) for part in match.groups()[:4])
    executed = 0.5 if "SMFMAC" in instruction.mnemonic else 1.0  # structured sparsity skips half of the products
    return executed * 2 * m * n * k * blocks / _MATRIX_RATE.get(match[5].rpartition("_")[2], _NARROW_RATE)


def vector_quads(instruction: Instruction) -> int:
    """Return the quad-cycles of a vector ALU or matrix instruction of one wavefront, at least one."""
    flops = matrix_f16_flops(instruction)
    if flops is not None:
        shortest = MIN_F64_MATRIX_QUADS if instruction.mnemonic.endswith("F64") else MIN_MATRIX_QUADS
        return max(shortest, round(flops / F16_FLOPS_PER_SIMD_QUAD))
    return TRANSCENDENTAL_QUADS if is_transcendental(instruction) else 1
