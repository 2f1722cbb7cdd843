"""Kernels and agents of a trace from the names and properties that every format provides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.rocprof.schema import PROVENANCE_KEY
from rocm_perf_lab.rocprof.trace import TracedKernel, TraceProvenance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocm_perf_lab.rocprof.trace import TracedAgent

KERNEL_SIZES = ("arch_vgpr_count", "accum_vgpr_count", "sgpr_count", "group_segment_size", "private_segment_size")
"""rocprofv3's names of the sizes of a kernel symbol, in the order of :class:`TracedKernel`."""
_DESCRIPTOR = ".kd"


def traced_kernel(process: int, symbol: str, display: str, sizes: Iterable[int], code_object: str = "") -> TracedKernel:
    """Return a kernel from the name of its descriptor (`_Z4copyPf.kd`) and its display name; either may be empty."""
    # A name ends at its first NUL.
    symbol, display = (name.partition("\0")[0] for name in (symbol, display))
    mangled = (symbol or display).removesuffix(_DESCRIPTOR)
    name = (display or mangled).removesuffix(_DESCRIPTOR)
    vgprs, agprs, sgprs, lds_bytes, scratch_bytes = sizes
    return TracedKernel(process, name, mangled, vgprs, agprs, sgprs, lds_bytes, scratch_bytes, code_object)


def described_code_object(uri: str, load_bytes: int) -> str:
    """Return the file name and size of a code object; of one in memory only the size, since its address differs every time.

    Args:
        uri: `file:///path/to/app#offset=4096&size=32648` or `memory://<pid>#offset=...&size=...`; may be empty.
        load_bytes: Size of the loaded segments, 0 if unknown. Used if the URI has no size.
    """
    scheme, _, rest = uri.partition("://")
    path, _, place = rest.partition("#")
    stated = re.search(r"(?:^|&)size=(\d{1,18})", place)
    size = f"{stated[1]} bytes" if stated else f"{load_bytes} bytes loaded" if load_bytes > 0 else ""
    name = path.rpartition("/")[2] if scheme == "file" else ""
    return ", ".join(filter(None, (name, size)))


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
                stated.get("has_times") is not False,
            )
    return TraceProvenance("rocm", emulated=False, versions={})
