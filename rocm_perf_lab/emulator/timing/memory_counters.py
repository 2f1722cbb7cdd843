"""Hardware counters of the timing model: cycles, waits, caches and memory; the functional run counts instructions instead.

The rules are in `emulator/counter_rules.yaml`. Units are those of the hardware: waits and lifetimes of wavefronts in quad-cycles,
SQ_CYCLES and SQ_BUSY_CYCLES summed over shader engines, SQ_BUSY_CU_CYCLES over compute units, GRBM over XCDs, TCC_CYCLE over L2
channels; reads from L2 have 128, writes 64 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.arch.registry import load_architecture
from rocm_perf_lab.emulator.counter_rules import array_counters, counters_of, is_counter, model_counters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.timing.shared_caches import SharedMemoryProfile
    from rocm_perf_lab.emulator.timing.structures import CuCounters
    from rocm_perf_lab.target.model import Target

_CHANNEL_PREFIX = "channel_"
_LINE_BYTES = 128
_UNITS_PER_SCALAR_CACHE = 2
"""Compute units that share a scalar and an instruction cache (AMD CDNA3 white paper)."""
_SECTIONS = ("timing", "shared_totals")


def hardware_counters(
    unit: CuCounters,
    *,
    scale: float,
    cycles: float,
    active_units: int,
    target: Target,
    executed: Mapping[str, int] | None = None,
    memory: SharedMemoryProfile | None = None,
) -> dict[str, float]:
    """Return the counters of the launch and of every L2 channel, for example `TCC_HIT[17]`.

    Channels are numbered through the XCDs: with 16 channels each, 17 is channel 1 of XCD 1. A counter whose inputs are unknown is
    missing.

    Args:
        unit: Totals of the simulated compute unit.
        scale: Workgroups of the launch per simulated workgroup.
        cycles: Clocks of the whole launch.
        active_units: Compute units with work.
        target: Target GPU, for its XCDs, shader engines and channels.
        executed: Counters and events of the functional run, which have precedence over estimates.
        memory: Traffic of L2; without it, the counters of the simulated unit are used and those of channels are missing.
    """
    values: dict[str, float] = {str(name): getattr(unit, str(name)) * scale for name, *_ in unit._fields_}
    values |= {
        "cycles": cycles,
        "active_units": active_units,
        "active_engines": min(target.shader_engines, active_units),
        "active_xcds": min(target.xcds, active_units),
        "compute_units": target.compute_units,
        "shader_engines": target.shader_engines,
        "xcds": target.xcds,
        "l2_channels": target.xcds * target.caches.l2_channels_per_xcd,
        "scalar_line_reads": unit.scalar_misses * scale / _UNITS_PER_SCALAR_CACHE,
        "instruction_line_reads": unit.instruction_misses * scale / _UNITS_PER_SCALAR_CACHE,
    }
    counter_set = load_architecture(target.architecture).counter_set
    exact = {name: value for name, value in (executed or {}).items() if is_counter(name) or name not in values}
    counters = model_counters("timing", counter_set, {**values, **exact})
    if memory is None:
        return counters
    traffic = _traffic(memory, scalar_line_reads=values["scalar_line_reads"])
    return {
        **counters,
        **model_counters("shared_totals", counter_set, {**values, **traffic, **exact}),
        **_channel_counters(memory.channels, cycles, counter_set),
    }


def estimated_counters(counter_set: str) -> tuple[str, ...]:
    """Return the counters that :func:`hardware_counters` can make for a whole launch."""
    return tuple(sorted({name for section in _SECTIONS for name in counters_of(section, counter_set)}))


def _traffic(memory: SharedMemoryProfile, *, scalar_line_reads: float) -> dict[str, float]:
    """Return the events of all channels.

    The profile is made from a sample of lines. A few lines of scalar data that all workgroups read are in it or not, so the
    scalar caches of the simulated compute unit count these reads instead.
    """
    traffic = {f"{_CHANNEL_PREFIX}{name}": float(memory.channels[name].sum()) for name in memory.channels.dtype.names or ()}
    reads, memory_reads = (traffic[f"{_CHANNEL_PREFIX}{name}"] for name in ("scalar_reads", "memory_scalar_reads"))
    scalar_memory_reads = min(memory_reads, scalar_line_reads)
    return {
        **traffic,
        "scalar_memory_reads": scalar_memory_reads,
        "hits": traffic[f"{_CHANNEL_PREFIX}hits"] - (reads - memory_reads) + scalar_line_reads - scalar_memory_reads,
        "misses": traffic[f"{_CHANNEL_PREFIX}misses"] - memory_reads + scalar_memory_reads,
        "written_back_lines": memory.traffic.dirty_bytes_at_end / _LINE_BYTES,
    }


def _channel_counters(channels: NDArray[np.void], cycles: float, counter_set: str) -> dict[str, float]:
    """Return the counters of every channel, numbered through the XCDs."""
    flat = channels.reshape(-1)
    events = {f"{_CHANNEL_PREFIX}{name}": flat[name].astype(np.float64) for name in channels.dtype.names or ()}
    counters: dict[str, float] = {}
    values_of = {"cycles": np.full(len(flat), cycles), **events}
    for name, values in array_counters("shared_channels", counter_set, values_of).items():
        counters |= {f"{name}[{number}]": value for number, value in enumerate(values.tolist())}
    return counters
