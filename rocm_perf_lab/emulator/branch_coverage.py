"""Coverage of branches: which outcomes the conditions of a kernel had in a launch.

Translated code marks the outcomes of every probe in two bits, for less than one percent of the time of a launch. Probes are

- conditional branches: taken, not taken;
- instructions that write EXEC: at least one lane remains, no lane remains. A predicated region without a branch is executed only
  if a lane remains;
- comparisons: true, false, of any wavefront or active lane. They show selections without a branch (S_CSELECT, V_CNDMASK).

A scalar comparison also keeps its last operands, from which a search can derive the argument that changes its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.structures import EXEC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.isa.instruction import Instruction

PROBE_WORDS = 3
"""Words of a probe: outcomes, and the last two operands of a scalar comparison."""


class ProbeKind(StrEnum):
    """Kind of a condition."""

    BRANCH = "branch"
    LANES = "lanes"
    SCALAR_COMPARISON = "scalar comparison"
    VECTOR_COMPARISON = "vector comparison"


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


@dataclass(frozen=True)
class BranchCoverage:
    """Outcomes of the conditions of one kernel.

    Args:
        code: SHA-256 of the code object.
        outcomes: Observed outcomes by address of the instruction.
        operands: Last operands of scalar comparisons that were executed, by address.
        executed: Addresses of the basic blocks that were executed.
    """

    code: str
    outcomes: Mapping[int, Outcome]
    operands: Mapping[int, tuple[int, int]]
    executed: frozenset[int]

    def merged(self, other: BranchCoverage) -> BranchCoverage:
        """Return the union of the outcomes of two launches of the same code, with the operands of `other`."""
        addresses = {*self.outcomes, *other.outcomes}
        outcomes = {a: self.outcomes.get(a, Outcome.NONE) | other.outcomes.get(a, Outcome.NONE) for a in addresses}
        return BranchCoverage(self.code, outcomes, {**self.operands, **other.operands}, self.executed | other.executed)


def find_probes(instructions: Iterable[Instruction], branches: frozenset[str]) -> tuple[Probe, ...]:
    """Return the probes of a program in address order.

    Args:
        instructions: Instructions in address order.
        branches: Mnemonics of conditional branches.
    """
    found = ((_kind(instruction, branches), instruction) for instruction in instructions)
    return tuple(Probe(kind, instruction) for kind, instruction in found if kind is not None)


def branch_coverage(code: str, probes: Sequence[Probe], words: NDArray[np.uint64], executed: frozenset[int]) -> BranchCoverage:
    """Return the coverage of a launch.

    Args:
        code: SHA-256 of the code object.
        probes: Probes of the program.
        words: Words of the probes, (n_probes, PROBE_WORDS).
        executed: Addresses of the blocks that were executed.
    """
    outcomes: dict[int, Outcome] = {}
    operands: dict[int, tuple[int, int]] = {}
    for probe, (bits, first, second) in zip(probes, words.tolist(), strict=True):
        outcomes[probe.instruction.address] = Outcome(bits)
        if bits and probe.kind is ProbeKind.SCALAR_COMPARISON:
            operands[probe.instruction.address] = (first, second)
    return BranchCoverage(code, outcomes, operands, executed)


def merged_words(per_thread: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words of all threads, (n_threads, n_probes, PROBE_WORDS), as (n_probes, PROBE_WORDS)."""
    merged = per_thread[0].copy()
    for words in per_thread[1:]:
        ran = words[:, 0] != 0
        merged[ran, 1:] = words[ran, 1:]
        merged[:, 0] |= words[:, 0]
    return merged


def _kind(instruction: Instruction, branches: frozenset[str]) -> ProbeKind | None:
    name = instruction.mnemonic
    if name in branches:
        return ProbeKind.BRANCH
    if name.startswith("V_CMPX") or "SAVEEXEC" in name or "WREXEC" in name:
        return ProbeKind.LANES
    if instruction.encoding.startswith("SOP"):
        if name.startswith(("S_CMP", "S_BITCMP")):
            return ProbeKind.SCALAR_COMPARISON
        return ProbeKind.LANES if instruction.fields.get("sdst") in (EXEC, EXEC + 1) else None
    return ProbeKind.VECTOR_COMPARISON if name.startswith("V_CMP_") else None
