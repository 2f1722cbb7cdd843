"""Coverage of branches: which outcomes the conditions of a kernel had in a launch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.probes import Outcome, ProbeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.program import Program


_OUTCOMES = tuple(Outcome(bits) for bits in range(4))


@dataclass(frozen=True)
class BranchCoverage:
    """Outcomes of the conditions of one kernel.

    Args:
        program: Program of the kernel.
        code: SHA-256 of the code object.
        outcomes: Observed outcomes by address of the instruction.
        operands: Last operands of scalar comparisons that were executed, by address.
        executed: Addresses of the basic blocks that were executed.
    """

    program: Program = field(compare=False, repr=False)
    code: str
    outcomes: Mapping[int, Outcome]
    operands: Mapping[int, tuple[int, int]]
    executed: frozenset[int]

    def merged(self, other: BranchCoverage) -> BranchCoverage:
        """Return the union of the outcomes of two launches of the same code, with the operands of `other`."""
        known = self.outcomes
        if other.executed <= self.executed and all(
            o | known.get(a, Outcome.NONE) == known.get(a) for a, o in other.outcomes.items()
        ):
            return BranchCoverage(self.program, self.code, known, {**self.operands, **other.operands}, self.executed)
        addresses = {*self.outcomes, *other.outcomes}
        outcomes = {a: self.outcomes.get(a, Outcome.NONE) | other.outcomes.get(a, Outcome.NONE) for a in addresses}
        return BranchCoverage(
            self.program, self.code, outcomes, {**self.operands, **other.operands}, self.executed | other.executed
        )


def branch_coverage(code: str, program: Program, words: NDArray[np.uint64], executions: NDArray[np.uint64]) -> BranchCoverage:
    """Return the coverage of a launch.

    Args:
        code: SHA-256 of the code object.
        program: Program of the kernel.
        words: Words of the probes, (n_probes, PROBE_WORDS).
        executions: Executions of each block, (n_blocks).
    """
    outcomes: dict[int, Outcome] = {}
    operands: dict[int, tuple[int, int]] = {}
    for probe, (bits, first, second) in zip(program.probes, words.tolist(), strict=True):
        outcomes[probe.instruction.address] = _OUTCOMES[bits]
        if bits and probe.kind is ProbeKind.SCALAR_COMPARISON:
            operands[probe.instruction.address] = (first, second)
    executed = frozenset(block.address for block in program.blocks if executions[block.index])
    return BranchCoverage(program, code, outcomes, operands, executed)


def merged_words(per_thread: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words of all threads, (n_threads, n_probes, PROBE_WORDS), as (n_probes, PROBE_WORDS)."""
    merged: NDArray[np.uint64] = per_thread[0].copy()
    for words in per_thread[1:]:
        ran = words[:, 0] != 0
        merged[ran, 1:] = words[ran, 1:]
        merged[:, 0] |= words[:, 0]
    return merged
