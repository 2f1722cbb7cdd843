"""Kernels and agents of a trace from the names and properties that every format provides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocm_perf_lab.rocprof.schema import PROVENANCE_KEY
from rocm_perf_lab.rocprof.trace import TracedKernel, TraceProvenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocm_perf_lab.rocprof.trace import TracedAgent

KERNEL_SIZES = ("arch_vgpr_count", "accum_vgpr_count", "sgpr_count", "group_segment_size", "private_segment_size")
"""rocprofv3's names of the sizes of a kernel symbol, in the order of :class:`TracedKernel`."""
_DESCRIPTOR = ".kd"


def traced_kernel(process: int, symbol: str, display: str, sizes: Iterable[int]) -> TracedKernel:
    """Return a kernel from the name of its descriptor (`_Z4copyPf.kd`) and its display name; either may be empty."""
    # A name ends at its first NUL.
    symbol, display = (name.partition("\0")[0] for name in (symbol, display))
    mangled = (symbol or display).removesuffix(_DESCRIPTOR)
    return TracedKernel(process, (display or mangled).removesuffix(_DESCRIPTOR), mangled, *sizes)


def unknown_kernel(process: int, kernel_id: int) -> TracedKernel:
    """Return a kernel that was dispatched but is not described."""
    name = f"unknown_kernel_{kernel_id}"
    return TracedKernel(process, name, name, 0, 0, 0, 0, 0)


def provenance_of(agents: Iterable[TracedAgent]) -> TraceProvenance:
    """Return the origin of the numbers: a device of rocm-perf-lab identifies itself in the properties of its agent."""
    for agent in agents:
        stated: Mapping[str, Any] | None = agent.properties.get(PROVENANCE_KEY)
        if isinstance(stated, dict):
            # A device that does not state otherwise counts as an emulator, never the other way round.
            emulated = bool(stated.get("emulated", True))
            versions, seed = stated.get("versions"), stated.get("sample_seed")
            return TraceProvenance(
                str(stated.get("device", "unknown")),
                emulated,
                dict(versions) if isinstance(versions, dict) else {},
                seed if isinstance(seed, int) else None,
            )
    return TraceProvenance("rocm", emulated=False, versions={})
