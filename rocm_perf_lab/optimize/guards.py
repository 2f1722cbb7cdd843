"""Guards: static checks of a rewrite against the unmodified kernel, before any of its code is executed.

A guard is one class with a `check` method, named by `_target_` in YAML. This module has the protocol and the guards for
signature and resources; see `guards_source`, `guards_syntax` and `guards_code` for the others. Guards report only new constructs:
constructs of the unmodified kernel are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.inspection import CandidateSource
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import KernelArgument, KernelMetadata


Severity = Literal["error", "warning"]
"""`error` rejects a rewrite; a `warning` is reported, and trials and measurement decide."""
_ADDABLE_QUALIFIERS = frozenset({"const", "__restrict__", "__restrict"})


@dataclass(frozen=True)
class GuardResult:
    """Result of one guard; `detail` is shown to users and models."""

    name: str
    passed: bool
    detail: str
    severity: Severity = "error"

    @property
    def rejects(self) -> bool:
        """True if the rewrite is rejected: an error, not a warning."""
        return not self.passed and self.severity == "error"


class Guard(Protocol):
    """Static check of a candidate against the unmodified kernel."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Check a candidate."""
        ...


@runtime_checkable
class SourceGuard(Protocol):
    """Guard that also checks the text before compilation."""

    def check_source(self, baseline: SourceUnit, candidate: SourceUnit) -> GuardResult:
        """Check the text of a candidate."""
        ...


def check_before_compilation(guards: Sequence[Guard], baseline: SourceUnit, candidate: SourceUnit) -> tuple[GuardResult, ...]:
    """Return the results of the guards that check a text before it is compiled."""
    return tuple(guard.check_source(baseline, candidate) for guard in guards if isinstance(guard, SourceGuard))


def rejections_of(results: Sequence[GuardResult]) -> str | None:
    """Return the reasons of the guards that reject a rewrite, or None if no guard does."""
    return "; ".join(f"{r.name}: {r.detail}" for r in results if r.rejects) or None


def warnings_of(results: Sequence[GuardResult]) -> tuple[str, ...]:
    """Return the warnings of guards, with their names."""
    return tuple(f"{r.name}: {r.detail}" for r in results if not r.passed and not r.rejects)


class SameSignature:
    """The kernel keeps its symbol, its parameters and the layout of its arguments.

    `const` and `__restrict__` may be added to a parameter, because they do not change the layout. If `const` becomes part of
    the mangled name, the symbol changes and the rewrite is rejected.
    """

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare the declarator in the source and the arguments in the code object."""
        before, after = baseline.kernel, candidate.kernel
        if before.symbol != after.symbol:
            return GuardResult("signature", False, f"the symbol changed from {before.symbol} to {after.symbol}")
        if not _only_qualifiers_added(baseline.source.signature(), candidate.source.signature()):
            return GuardResult("signature", False, "the parameter list changed")
        if _layout(before) != _layout(after):
            return GuardResult("signature", False, "the layout of the kernel's arguments changed")
        return GuardResult("signature", True, "unchanged")


class NoNewSpills:
    """Register spills and scratch memory do not grow.

    Args:
        severity: `warning` lets the measurement decide.
    """

    def __init__(self, *, severity: Severity = "warning") -> None:
        self._severity = severity
        self.rule = f"Register spills and scratch memory do not grow{_consequence(severity)}."

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare spill counts and scratch bytes in the metadata."""
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
        return GuardResult("spills", not grown, ", ".join(grown) or "none added", self._severity)


class OccupancyFloor:
    """Occupancy does not fall below a floor.

    Args:
        min_waves_per_simd: Smallest accepted occupancy, unless the baseline's is lower.
        max_loss: Largest accepted loss relative to the baseline.
        severity: `warning` lets the measurement decide; a kernel that cannot run at all is always an error.
    """

    def __init__(self, *, min_waves_per_simd: float = 2.0, max_loss: float = 0.5, severity: Severity = "warning") -> None:
        self._severity = severity
        self._min_waves = min_waves_per_simd
        self._max_loss = max_loss
        self.rule = (
            f"Occupancy falls by at most {max_loss:.0%}, and not below {min_waves_per_simd:g} waves per SIMD "
            f"unless the unmodified kernel has fewer{_consequence(severity)}."
        )

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare waves per SIMD."""
        before, after = baseline.occupancy_waves, candidate.occupancy_waves
        floor = max(min(self._min_waves, before), before * (1 - self._max_loss))
        detail = f"{after:g} waves per SIMD, baseline {before:g}, floor {floor:g}"
        return GuardResult("occupancy", after >= floor, detail, self._severity if after > 0 else "error")


class RegisterBudget:
    """Registers per work-item stay within a limit.

    Args:
        max_vgprs: Limit of VGPRs, accumulation VGPRs included; a baseline above the limit may keep its count.
        max_agprs: Limit of accumulation VGPRs.
        severity: `warning` lets the measurement decide.
    """

    def __init__(self, *, max_vgprs: int = 256, max_agprs: int = 256, severity: Severity = "warning") -> None:
        self._severity = severity
        self._limits = {"VGPRs": max_vgprs, "AGPRs": max_agprs}
        self.rule = f"A work-item uses at most {max_vgprs} VGPRs, AGPRs included, and {max_agprs} AGPRs{_consequence(severity)}."

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare register counts in the metadata."""
        before = {"VGPRs": baseline.kernel.vgpr_count, "AGPRs": baseline.kernel.agpr_count}
        after = {"VGPRs": candidate.kernel.vgpr_count, "AGPRs": candidate.kernel.agpr_count}
        over = [f"{after[n]} {n}, at most {limit}" for n, limit in self._limits.items() if after[n] > max(limit, before[n])]
        detail = "; ".join(over) or ", ".join(f"{count} {n}" for n, count in after.items())
        return GuardResult("registers", not over, detail, self._severity)


class SameGeometry:
    """The kernel can be launched with its workgroup size: that of the description, or the one that the source asks for."""

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare the compiler's limit with the launch, and required workgroup and wavefront size with the baseline."""
        before, after = baseline.kernel, candidate.kernel
        items = candidate.inspected.work_items
        if after.max_flat_workgroup_size < items:
            limit = after.max_flat_workgroup_size
            return GuardResult("geometry", False, f"compiled for at most {limit} work-items, launched with {items}")
        required = after.required_workgroup_size
        if required != before.required_workgroup_size and not (required is not None and prod(required) == items):
            return GuardResult("geometry", False, f"requires a workgroup of {after.required_workgroup_size}")
        if after.wavefront_size != before.wavefront_size:
            return GuardResult("geometry", False, f"wavefront size {after.wavefront_size} instead of {before.wavefront_size}")
        return GuardResult("geometry", True, "unchanged")


class LdsWithinTarget:
    """LDS of a workgroup fits into the target's."""

    def __init__(self, *, target: Target) -> None:
        self._limit = target.lds_pool.max_per_workgroup_bytes
        self.rule = f"A workgroup uses at most {self._limit:,} bytes of LDS."

    def check(self, baseline: CandidateSource, candidate: CandidateSource) -> GuardResult:
        """Compare static and dynamic LDS with the limit."""
        inspection = candidate.inspection
        used = candidate.kernel.lds_bytes + (inspection.dynamic_lds_bytes if inspection is not None else 0)
        return GuardResult("lds", used <= self._limit, f"{used:,} of {self._limit:,} bytes")


def _consequence(severity: Severity) -> str:
    return "; more is a warning, and the measurement decides" if severity == "warning" else ""


def _only_qualifiers_added(before: str, after: str) -> bool:
    """Return whether `after` consists of the tokens of `before` in order and added qualifiers."""
    rest = iter(after.split())
    for token in before.split():
        for found in rest:
            if found == token:
                break
            if found not in _ADDABLE_QUALIFIERS:
                return False
        else:
            return False
    return all(token in _ADDABLE_QUALIFIERS for token in rest)


def _layout(kernel: KernelMetadata) -> list[tuple[int, int, str]]:
    def row(argument: KernelArgument) -> tuple[int, int, str]:
        return argument.offset, argument.size, argument.value_kind

    return [row(a) for a in kernel.arguments if not a.value_kind.startswith("hidden")]
