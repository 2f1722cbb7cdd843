"""Probes: conditions of a kernel whose outcomes translated code records (see :mod:`.branch_coverage`).

Translated code marks the outcomes of every probe in two bits, for less than one percent of the time of a launch. Probes are

- conditional branches: taken, not taken;
- instructions that write EXEC: at least one lane remains, no lane remains. A predicated region without a branch is executed only
  if a lane remains;
- comparisons, and logic of 64 bits, which combines their results: true, false, of any wavefront or active lane. They show
  selections without a branch (S_CSELECT, V_CNDMASK).

A scalar comparison also keeps its last operands, from which a search can derive the argument that changes its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.structures import EXEC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocm_perf_lab.emulator.isa.instruction import Instruction

PROBE_WORDS = 3
"""Words of a probe: outcomes, and the last two operands of a scalar comparison."""


_LOGIC = frozenset(f"S_{operation}_B64" for operation in ("AND", "OR", "ANDN2", "ORN2", "NAND", "NOR", "XOR", "XNOR"))


class ProbeKind(StrEnum):
    """Kind of a condition."""

    BRANCH = "branch"
    LANES = "lanes"
    SCALAR_COMPARISON = "scalar comparison"
    VECTOR_COMPARISON = "vector comparison"
    COMBINATION = "combination"


class Outcome(IntFlag):
    """Observed outcomes: `TRUE` is also a taken branch or a non-zero EXEC."""

    NONE = 0
    TRUE = 1
    FALSE = 2
    BOTH = 3


@dataclass(frozen=True)
class Probe:
    """Instruction whose outcomes are recorded."""

    kind: ProbeKind
    instruction: Instruction


def find_probes(instructions: Iterable[Instruction], branches: frozenset[str]) -> tuple[Probe, ...]:
    """Return the probes of a program in address order.

    Args:
        instructions: Instructions in address order.
        branches: Mnemonics of conditional branches.
    """
    found = ((_kind(instruction, branches), instruction) for instruction in instructions)
    return tuple(Probe(kind, instruction) for kind, instruction in found if kind is not None)


def _kind(instruction: Instruction, branches: frozenset[str]) -> ProbeKind | None:
    name = instruction.mnemonic
    if name in branches:
        return ProbeKind.BRANCH
    if name.startswith("V_CMPX") or "SAVEEXEC" in name or "WREXEC" in name:
        return ProbeKind.LANES
    if instruction.encoding.startswith("SOP"):
        if name.startswith(("S_CMP", "S_BITCMP")):
            return ProbeKind.SCALAR_COMPARISON
        if instruction.fields.get("sdst") in (EXEC, EXEC + 1):
            return ProbeKind.LANES
        return ProbeKind.COMBINATION if name in _LOGIC else None
    return ProbeKind.VECTOR_COMPARISON if name.startswith("V_CMP_") else None
