"""Issue times of instructions in quad-cycles (4 clocks), the unit of the hardware's issue counters.

A wave64 instruction occupies a SIMD of 16 lanes for four clocks, transcendentals four times as long (AMD CDNA3 white paper).
Matrix instructions have the passes of their architecture.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction

TRANSCENDENTAL_QUADS = 4
_TRANSCENDENTAL = re.compile(r"V_(EXP|LOG|RCP|RSQ|SQRT|SIN|COS)(_IFLAG|_LEGACY)?_F(16|32|64)$")
_MATRIX = re.compile(r"_(\d+)X(\d+)X(\d+)(?:_(\d+)B)?_(.+)$")
_MATRIX_RATE = {"F16": 1.0, "BF16": 1.0, "F32": 0.125, "F64": 0.125, "XF32": 0.5, "I8": 2.0}
_PAIR_BITS, _CBSZ, _BLGP, _FORMAT_MASK = 64, 8, 61, 7
"""Size of the pair of words before a scaled product, and the fields of the product with the formats of A and B."""
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
    if instruction.is_matrix:
        return matrix_passes(instruction)
    return TRANSCENDENTAL_QUADS if is_transcendental(instruction) else 1


def matrix_passes(instruction: Instruction) -> int:
    """Return the passes of a matrix instruction; those of f8f6f4 depend on the formats of its operands."""
    text = instruction.mnemonic.lower()
    if "f8f6f4" in text:
        product = instruction.raw >> _PAIR_BITS if "_scale_" in text else instruction.raw
        text = f"{text} cbsz:{product >> _CBSZ & _FORMAT_MASK} blgp:{product >> _BLGP & _FORMAT_MASK}"
    return instruction.isa.passes(text) or 1
