"""Time base of counters: the clocks of a dispatch in its counter pass, and their share of the measured time.

A counter pass is a different run than the timed one, often with a different clock and with profiler overhead. Cycles are
therefore related to the busy clocks of the same pass, and only the resulting share is applied to the measured time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.launch_account import fixed_launch_ns

if TYPE_CHECKING:
    from rocm_perf_lab.analysis.counted import CountedEvents
    from rocm_perf_lab.analysis.launch_account import LaunchShape
    from rocm_perf_lab.target.model import Target

_CLOCK_TOLERANCE = 1.1
_LONGER_PASS = 1.5
"""Maximum plausible slowdown of a counter pass; more cycles at the maximum clock contradict the time."""
_MOST_LAUNCHES = 4.0
"""Longest time beside the wavefronts, in multiples of the fixed launch time: caches are written back at the end."""


@dataclass(frozen=True)
class CounterClock:
    """Clocks with wavefronts in flight, of one XCD, and their share of the measured time.

    `clocks` is None if no counter contains it. `doubt` names a contradiction between clocks and time; rates per measured time
    are then unreliable.
    """

    clocks: float | None
    active: float
    time_ns: float | None
    """Measured duration, or the clocks at the maximum clock if the duration is unknown: the shortest possible time."""
    is_measured: bool
    doubt: str | None

    def share(self, amount: float, units: float) -> float | None:
        """Return clocks summed over `units` as a share of the dispatch's time; None if the clocks are unknown."""
        return None if not self.clocks or units <= 0 else max(0.0, amount / (units * self.clocks) * self.active)


def counter_clock(counted: CountedEvents, target: Target, shape: LaunchShape, duration_ns: float | None) -> CounterClock:
    """Return the time base of the counters.

    Args:
        counted: Counters of the kernel.
        target: The GPU.
        shape: Workgroups of the launch.
        duration_ns: Duration of a dispatch; None if unknown.
    """
    per_ns = target.max_clock_mhz / 1000
    clocks = _clocks(counted, target, shape, duration_ns)
    if not duration_ns:
        return CounterClock(clocks, 1.0, clocks / per_ns if clocks else None, is_measured=False, doubt=None)
    if clocks is None:
        return CounterClock(None, 1 - min(1.0, fixed_launch_ns(target) / duration_ns), duration_ns, is_measured=True, doubt=None)
    busy_ns = clocks / per_ns
    if busy_ns > duration_ns * _LONGER_PASS and not counted.emulated:
        ghz = clocks / duration_ns
        doubt = (
            f"the counters imply a clock of {ghz:.1f} GHz, above the maximum of {per_ns:.1f} GHz: the time, the GPU or the "
            "counters are of another run"
        )
        return CounterClock(clocks, 1.0, duration_ns, is_measured=True, doubt=doubt)
    outside = max(0.0, duration_ns - busy_ns)
    if not counted.emulated:
        fixed = fixed_launch_ns(target)
        outside = min(max(outside, fixed), _MOST_LAUNCHES * fixed)
    return CounterClock(clocks, 1 - min(1.0, outside / duration_ns), duration_ns, is_measured=True, doubt=None)


def _clocks(counted: CountedEvents, target: Target, shape: LaunchShape, duration_ns: float | None) -> float | None:
    """Return the clocks with wavefronts: an engine's busy clocks, or those of the GPU if they are no longer than the time."""
    whole = counted.events("GRBM_GUI_ACTIVE")
    gpu = whole / target.xcds if whole else None
    if counted.emulated and gpu:
        return gpu
    engines = counted.events("SQ_BUSY_CYCLES")
    busy = engines / min(target.shader_engines, shape.workgroups) if engines else None
    if busy and (gpu is None or busy <= gpu * _CLOCK_TOLERANCE):
        return busy
    if gpu and (not duration_ns or gpu <= duration_ns * target.max_clock_mhz / 1000 * _CLOCK_TOLERANCE):
        return gpu
    units = counted.events("SQ_BUSY_CU_CYCLES")
    return busy or (units / min(target.compute_units, shape.workgroups) if units else gpu)
