"""Selection of the analysed kernel: by name, by share of the critical path, by thread trace, or by exposed time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.collectives import is_communication
from rocm_perf_lab.jobs.analyze.evidence import is_called
from rocm_perf_lab.jobs.analyze.kernel_analysis import KernelSelector
from rocm_perf_lab.profiling.selection import other_choice, rank_kernels, select_kernel
from rocm_perf_lab.toolchain.kernel_names import bare_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.jobs.analyze.evidence import DetailedEvidence
    from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest
    from rocm_perf_lab.profiling.selection import RankedKernel
    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.target.model import Target


@dataclass(frozen=True)
class KernelChoice:
    """The selected kernel, and notes on alternatives."""

    kernel: RankedKernel
    notes: tuple[str, ...] = ()
    ranked: tuple[RankedKernel, ...] | None = None
    """All kernels of the trace, if ranked."""


def choose_kernel(
    request: AnalyzeRequest, evidence: DetailedEvidence, trace: Trace, target: Target, helpers: Sequence[str]
) -> KernelChoice:
    """Return the requested kernel; else the only traced one, else the one with the largest exposed time.

    Raises:
        ProfileError: The trace has no dispatch, or no kernel matches.
    """
    if request.kernel is not None:
        ranked = rank_kernels(trace, helpers)
        found = KernelSelector(request.kernel).matching(trace, ranked)
        chosen = select_kernel(trace, found)
        note = f"{len(found)} kernels match --kernel: the one with the largest exposed time of them is analysed"
        return KernelChoice(chosen, (note,) if len(found) > 1 else (), ranked)
    if request.focus_critical:
        return KernelChoice(KernelSelector(request.kernel, request.focus_critical, tuple(helpers)).of(trace, target))
    ranked = rank_kernels(trace, helpers)
    traced = [kernel for kernel in ranked if any(is_called(one, kernel.mangled_name) for one in evidence.traced)]
    if len(traced) == 1:
        return KernelChoice(traced[0], ranked=ranked)
    chosen = select_kernel(trace, ranked)
    if traced and chosen not in traced:
        names = ", ".join(bare_name(kernel.name)[:40] for kernel in traced[:3])
        return KernelChoice(chosen, (f"the thread traces are of other kernels: choose one with --kernel ({names})",), ranked)
    likely = other_choice(ranked, chosen, is_communication)
    return KernelChoice(chosen, (likely,) if likely else (), ranked)
