"""Whether running workgroups in another order, as threads do, could change the result of a kernel.

It could where atomics on device memory round, or give the old value back: such launches stay on one thread, in linear
order. Integer atomics without return commute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.isa.instruction import Instruction
    from rocm_perf_lab.emulator.program import Program

_RETURN_BIT = {"GLOBAL": 16, "FLAT": 16, "MUBUF": 14}
"""Bit of the encoding that asks for the old value (SC0)."""
_COMMUTING = ("ADD", "SUB", "SMIN", "UMIN", "SMAX", "UMAX", "AND", "OR", "XOR")


def results_depend_on_order(program: Program) -> bool:
    """True where one thread has to run the whole launch."""
    return any(_is_order_dependent(instruction) for instruction in program.instructions)


def _is_order_dependent(instruction: Instruction) -> bool:
    _, is_atomic, operation = instruction.mnemonic.partition("_ATOMIC_")
    if not is_atomic or instruction.encoding not in _RETURN_BIT:
        return False
    bit = _RETURN_BIT[instruction.encoding]
    return bool(instruction.bits(bit, bit)) or operation.removesuffix("_X2") not in _COMMUTING
