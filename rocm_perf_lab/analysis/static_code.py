"""Code of a kernel without execution counts: conclusions that do not depend on the counts.

Without counts, the shares of instructions in the time are unknown. The code still limits the width of memory accesses, and
missing instructions cannot cause a loss. Counters can prove that every instruction executed once in each wavefront; counts are
then known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.executed_code import ExecutedCode, ExecutedInstruction, access_bytes
from rocm_perf_lab.analysis.ledger import Cause
from rocm_perf_lab.toolchain.listing import branch_target
from rocm_perf_lab.toolchain.static_features import instruction_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.analysis.counted import CountedEvents
    from rocm_perf_lab.toolchain.disassembly import AssemblyLine

_CALLS = ("s_swappc", "s_setpc", "s_call", "s_rfe")
_BRANCHES = ("s_branch", "s_cbranch", "s_subvector_loop")
_MAY_BE_SCRATCH = ("scratch_", "flat_", "buffer_", "tbuffer_")
"""Older GPUs access scratch memory with buffer instructions; flat instructions can reach it on every GPU."""
_ROUNDING = 0.01
"""Maximum relative difference of counted instructions from the code for which every instruction executed once."""


@dataclass(frozen=True)
class StaticCode:
    """Instructions of a kernel in the order of their addresses."""

    instructions: tuple[ExecutedInstruction, ...]
    """Instructions, each with one execution."""
    is_complete: bool
    """False if the kernel calls functions, whose code is not part of it."""
    has_branches: bool
    has_loops: bool

    @classmethod
    def of(cls, lines: Sequence[AssemblyLine]) -> StaticCode:
        """Return the code of a disassembled kernel."""
        branches = [line for line in lines if line.mnemonic.startswith(_BRANCHES)]
        targets = [(line.address, branch_target(line)) for line in branches]
        return cls(
            instructions=tuple(ExecutedInstruction(line.text, 1, line.address) for line in lines),
            is_complete=not any(line.mnemonic.startswith(_CALLS) for line in lines),
            has_branches=bool(branches),
            has_loops=any(target is None or target <= address for address, target in targets),
        )

    @cached_property
    def widths(self) -> tuple[int, int] | None:
        """Fewest and most bytes per lane of a vector memory instruction; None without any, or if some are not known."""
        accesses = [one.mnemonic for one in self.instructions if instruction_class(one.mnemonic) == "vmem"]
        found = [access_bytes(mnemonic) for mnemonic in accesses if not _is_cache_control(mnemonic)]
        known = [width for width in found if width is not None]
        return (min(known), max(known)) if self.is_complete and known and len(known) == len(found) else None

    @cached_property
    def accesses(self) -> int:
        """Number of vector memory instructions."""
        return sum(access_bytes(one.mnemonic) is not None for one in self.instructions)

    @cached_property
    def scratch_accesses(self) -> int:
        """Number of instructions that certainly access scratch memory."""
        return sum(one.mnemonic.startswith("scratch_") for one in self.instructions)

    @cached_property
    def never_uses_scratch(self) -> bool:
        """Return whether no instruction can access scratch memory."""
        return self.is_complete and not any(one.mnemonic.startswith(_MAY_BE_SCRATCH) for one in self.instructions)

    @cached_property
    def impossible(self) -> frozenset[Cause]:
        """Causes of lost time that need an instruction which the code does not contain."""
        if not self.is_complete:
            return frozenset()
        names = [one.mnemonic for one in self.instructions]
        found = set()
        if not any("barrier" in name for name in names):
            found.add(Cause.BARRIER_IMBALANCE)
        if not any("lds" in one.text or one.mnemonic.startswith(("ds_", "flat_")) for one in self.instructions):
            found |= {Cause.LDS_BANK_CONFLICTS, Cause.LDS_UNALIGNED, Cause.LDS_LATENCY}
        if not any("atomic" in name or name.startswith("ds_") for name in names):
            found.add(Cause.ATOMIC_CONTENTION)
        if not any("store" in name or "atomic" in name for name in names):
            found.add(Cause.STORE_DRAIN)
        return frozenset(found)

    def executed(self, counted: CountedEvents) -> ExecutedCode | None:
        """Return the code as executed if every instruction executed once in each wavefront; None if that is not certain.

        Code without branches always does. In code without loops an instruction executes at most once, so that counters equal to
        the number of instructions prove it for vector and memory instructions.
        """
        if not self.is_complete or self.has_loops:
            return None
        if self.has_branches and not self._all_counted(counted):
            return None
        return ExecutedCode(self.instructions)

    def _all_counted(self, counted: CountedEvents) -> bool:
        waves = counted.events("SQ_WAVES")
        vector = sum(instruction_class(one.mnemonic) in ("valu", "mfma") for one in self.instructions)
        numbers = {"SQ_INSTS_VALU": vector, "SQ_INSTS_VMEM": self.accesses}
        values = {name: counted.events(name) for name in numbers}
        return bool(waves) and all(
            value is not None and abs(value / (waves or 1.0) - numbers[name]) <= _ROUNDING * numbers[name]
            for name, value in values.items()
        )


def _is_cache_control(mnemonic: str) -> bool:
    return "_inv" in mnemonic or "_gl" in mnemonic or "_wb" in mnemonic
