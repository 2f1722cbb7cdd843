"""Guards: what a rewrite must not change or exceed, checked from its syntax tree and its code object before it runs.

Each guard is one class, named by `_target_` in YAML; to add one, write another with the same `check`. Here are the
protocol and the guards on signature and resources; `guards_source`, `guards_syntax` and `guards_code` have the others.
A guard judges what is new: what the unmodified kernel does already, a rewrite may do too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelArgument, KernelMetadata
    from rocm_perf_lab.toolchain.syntax import SyntaxNode


_PROMISES = frozenset({"const", "__restrict__", "__restrict"})


@dataclass(frozen=True)
class Inspection:
    """What the compiler knows of a source: its tree, its code object, the files that it read; `work_items` of a workgroup."""

    syntax: SyntaxNode
    code_object: CodeObject
    dependencies: frozenset[str]
    work_items: int


@dataclass(frozen=True)
class Candidate:
    """A compiled source. `occupancy_waves` per SIMD, for the launch's workgroup size."""

    source: SourceUnit
    kernel: KernelMetadata
    occupancy_waves: float
    inspection: Inspection | None = None

    @property
    def inspected(self) -> Inspection:
        """The inspection.

        Raises:
            LabError: There is none, and a guard asks for it: what was not looked at is not let through.
        """
        if self.inspection is None:
            raise LabError("this build was not inspected by the compiler", where="optimizer.guards")
        return self.inspection


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
    """The kernel keeps its symbol, its parameters and the layout of its arguments.

    `const` and `__restrict__` may be added to a parameter: they promise more to the caller and change no layout. Where
    C++ puts `const` into the mangled name, the symbol changes, and that is refused.
    """

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares the declarator in the source and the arguments in the code object."""
        before, after = baseline.kernel, candidate.kernel
        if before.symbol != after.symbol:
            return GuardResult("signature", False, f"the symbol changed from {before.symbol} to {after.symbol}")
        if not _only_promises_added(baseline.source.signature(), candidate.source.signature()):
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
        self.rule = (
            f"Occupancy falls by at most {max_loss:.0%}, and not below {min_waves_per_simd:g} waves per SIMD "
            "unless the unmodified kernel has fewer."
        )

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares waves per SIMD."""
        before, after = baseline.occupancy_waves, candidate.occupancy_waves
        floor = max(min(self._min_waves, before), before * (1 - self._max_loss))
        detail = f"{after:g} waves per SIMD, baseline {before:g}, floor {floor:g}"
        return GuardResult("occupancy", after >= floor, detail)


class RegisterBudget:
    """Registers of a work-item stay within a budget.

    Args:
        max_vgprs: Architectural and accumulation VGPRs together; a baseline above it may stay where it is.
        max_agprs: Accumulation VGPRs.
    """

    def __init__(self, *, max_vgprs: int = 256, max_agprs: int = 256) -> None:
        self._limits = {"VGPRs": max_vgprs, "AGPRs": max_agprs}
        self.rule = f"A work-item takes at most {max_vgprs} VGPRs, AGPRs included, and {max_agprs} AGPRs."

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares the counts of the metadata."""
        before = {"VGPRs": baseline.kernel.vgpr_count, "AGPRs": baseline.kernel.agpr_count}
        after = {"VGPRs": candidate.kernel.vgpr_count, "AGPRs": candidate.kernel.agpr_count}
        over = [f"{after[n]} {n}, at most {limit}" for n, limit in self._limits.items() if after[n] > max(limit, before[n])]
        return GuardResult("registers", not over, "; ".join(over) or ", ".join(f"{count} {n}" for n, count in after.items()))


class SameGeometry:
    """The kernel can still be launched with the workgroup that the launch has."""

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares the compiler's limits with the launch, and the fixed workgroup with the baseline's."""
        before, after = baseline.kernel, candidate.kernel
        items = candidate.inspected.work_items
        if after.max_flat_workgroup_size < items:
            limit = after.max_flat_workgroup_size
            return GuardResult("geometry", False, f"compiled for at most {limit} work-items, launched with {items}")
        if after.required_workgroup_size != before.required_workgroup_size:
            return GuardResult("geometry", False, f"asks for a workgroup of {after.required_workgroup_size}")
        if after.wavefront_size != before.wavefront_size:
            return GuardResult("geometry", False, f"wavefronts of {after.wavefront_size}, not {before.wavefront_size}")
        return GuardResult("geometry", True, "unchanged")


class LdsWithinTarget:
    """LDS of a workgroup fits the target."""

    def __init__(self, *, target: Target) -> None:
        self._limit = target.lds_pool.max_per_workgroup_bytes
        self.rule = f"A workgroup takes at most {self._limit:,} bytes of LDS."

    def check(self, baseline: Candidate, candidate: Candidate) -> GuardResult:
        """Compares static LDS with the limit."""
        used = candidate.kernel.lds_bytes
        return GuardResult("lds", used <= self._limit, f"{used:,} of {self._limit:,} bytes")


def _only_promises_added(before: str, after: str) -> bool:
    """Whether `after` has the tokens of `before` in order, and besides them only words that promise more."""
    rest = iter(after.split())
    for word in before.split():
        for found in rest:
            if found == word:
                break
            if found not in _PROMISES:
                return False
        else:
            return False
    return all(word in _PROMISES for word in rest)


def _layout(kernel: KernelMetadata) -> list[tuple[int, int, str]]:
    def row(argument: KernelArgument) -> tuple[int, int, str]:
        return argument.offset, argument.size, argument.value_kind

    return [row(a) for a in kernel.arguments if not a.value_kind.startswith("hidden")]
