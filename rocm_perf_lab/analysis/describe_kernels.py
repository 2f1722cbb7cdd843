"""Rows of `kernels` in profile.json: every kernel of the run with its launch shapes and code versions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.analysis.roofline import evaluate_metrics
from rocm_perf_lab.profiling.documents import KernelLaunchPart, KernelSummary
from rocm_perf_lab.profiling.populations import populations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.profiling.populations import Population
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.rocprof.trace import Trace

_NS_PER_MS = 1e6
_DURATIONS_KEPT_PER_KERNEL = 100
_LAUNCHES_KEPT_PER_KERNEL = 20


def thinned_ms(durations_ns: NDArray[np.int64], most: int) -> tuple[float, ...]:
    """Return all durations, or `most` evenly spaced ones."""
    count = len(durations_ns)
    kept = durations_ns if count <= most else durations_ns[np.arange(most) * count // most]
    return tuple((kept / _NS_PER_MS).tolist())


def kernel_summaries(profile: Profile, critical_shares: Mapping[str, float], trace: Trace) -> tuple[KernelSummary, ...]:
    """Return the kernels of a run by descending total time, with their launch shapes.

    Args:
        profile: Profile of one of them.
        critical_shares: Share of the critical path by mangled name.
        trace: The run.
    """
    durations_ns = trace.dispatches.duration_ns
    is_chosen = {kernel.mangled_name: kernel.mangled_name == profile.kernel.mangled_name for kernel in profile.kernels}
    groups = {
        kernel.mangled_name: profile.populations if is_chosen[kernel.mangled_name] else populations(trace, kernel.dispatches)
        for kernel in profile.kernels
    }
    traffic = _dram_bytes(profile)
    return tuple(
        KernelSummary(
            name=kernel.name,
            mangled_name=kernel.mangled_name,
            calls=len(kernel.dispatches),
            total_ms=kernel.total_ns / _NS_PER_MS,
            share=kernel.share,
            critical_path_share=critical_shares.get(kernel.mangled_name, 0.0),
            helper=kernel.is_helper,
            median_ms=float(np.median(durations_ns[kernel.dispatches])) / _NS_PER_MS,
            durations_ms=thinned_ms(durations_ns[kernel.dispatches], _DURATIONS_KEPT_PER_KERNEL),
            launches=_launches(groups[kernel.mangled_name], durations_ns, traffic if is_chosen[kernel.mangled_name] else ()),
            launch_count=len(groups[kernel.mangled_name]),
        )
        for kernel in profile.kernels
    )


def _launches(
    groups: Sequence[Population], durations_ns: NDArray[np.int64], dram_bytes: Sequence[float | None]
) -> tuple[KernelLaunchPart, ...]:
    """Return the largest populations of a kernel; `dram_bytes` is known for the first ones, if any."""
    return tuple(
        KernelLaunchPart(
            grid=one.grid,
            block=one.block,
            lds_bytes=one.lds_bytes,
            code_version=one.version,
            calls=len(one.dispatches),
            total_ms=one.total_ns / _NS_PER_MS,
            median_ms=one.median_ns / _NS_PER_MS,
            durations_ms=() if len(groups) == 1 else thinned_ms(durations_ns[one.dispatches], _DURATIONS_KEPT_PER_KERNEL),
            dram_bytes=dram_bytes[number] if number < len(dram_bytes) else None,
        )
        for number, one in enumerate(groups[:_LAUNCHES_KEPT_PER_KERNEL])
    )


def _dram_bytes(profile: Profile) -> tuple[float | None, ...]:
    """Return the DRAM traffic of a dispatch of each population of the kernel."""
    found = []
    for counters, population in zip(profile.population_counters, profile.populations, strict=False):
        metrics = evaluate_metrics(replace(profile, counter_passes=counters), population.median_ns) if counters else {}
        found.append(metrics["dram_bytes"].value if "dram_bytes" in metrics else None)
    return tuple(found)
