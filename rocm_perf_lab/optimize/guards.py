"""Guards: what a rewrite must not change or exceed, checked from its syntax tree and its code object before it runs.

Each guard is one class, named by `_target_` in YAML; to add one, write another with the same `check`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import KernelArgument, KernelMetadata


@dataclass(frozen=True)
class Candidate:
    """A compiled source. `occupancy_waves` per SIMD, for the launch's workgroup size."""

    source: SourceUnit
    kernel: KernelMetadata
    occupancy_waves: float


@dataclass(frozen=True)
class GuardResult:
    """One guard's answer, in words."""

    name: str
    passed: bool
    detail: str


class Guard(Protocol):
    """Compares a candidate with the unmodified kernel."""

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Pass or not, and why."""
        ...


class SameSignature:
    """The kernel keeps its symbol, its parameters and the layout of its arguments."""

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares the declarator in the source and the arguments in the code object."""
        before, after = baseline.kernel, candidate.kernel
        if before.symbol != after.symbol:
            return GuardResult("signature", False, f"the symbol changed from {before.symbol} to {after.symbol}")
        if baseline.source.signature() != candidate.source.signature():
            return GuardResult("signature", False, "the parameter list changed")
        if _layout(before) != _layout(after):
            return GuardResult("signature", False, "the layout of the kernel's arguments changed")
        return GuardResult("signature", True, "unchanged")


class NoNewSpills:
    """Registers are not spilled, and scratch is not used, beyond what the baseline does."""

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares spill counts and scratch of the metadata."""
        before, after = baseline.kernel, candidate.kernel
        grown = [
            f"{what} {old} to {new}"
            for what, old, new in (
                ("VGPR spills", before.vgpr_spill_count, after.vgpr_spill_count),
                ("SGPR spills", before.sgpr_spill_count, after.sgpr_spill_count),
                ("scratch bytes", before.scratch_bytes, after.scratch_bytes),
            )
            if new > old
        ]
        return GuardResult("spills", not grown, ", ".join(grown) or "none added")


class OccupancyFloor:
    """Occupancy does not fall below a floor.

    Args:
        min_waves_per_simd: Smallest occupancy that is accepted; a baseline below it may stay where it is.
        max_loss: Largest relative loss against the baseline.
    """

    def __init__(self, *, min_waves_per_simd: float = 2.0, max_loss: float = 0.5) -> None:
        self._min_waves = min_waves_per_simd
        self._max_loss = max_loss

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares waves per SIMD."""
        before, after = baseline.occupancy_waves, candidate.occupancy_waves
        floor = max(min(self._min_waves, before), before * (1 - self._max_loss))
        detail = f"{after:g} waves per SIMD, baseline {before:g}, floor {floor:g}"
        return GuardResult("occupancy", after >= floor, detail)


class LdsWithinTarget:
    """LDS of a workgroup fits the target."""

    def __init__(self, *, target: Target) -> None:
        self._limit = target.lds_pool.max_per_workgroup_bytes

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares static LDS with the limit."""
        used = candidate.kernel.lds_bytes
        return GuardResult("lds", used <= self._limit, f"{used:,} of {self._limit:,} bytes")


def _layout(kernel: KernelMetadata) -> list[tuple[int, int, str]]:
    def row(argument: KernelArgument) -> tuple[int, int, str]:
        return argument.offset, argument.size, argument.value_kind

    return [row(a) for a in kernel.arguments if not a.value_kind.startswith("hidden")]
