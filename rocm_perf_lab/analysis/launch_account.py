"""Account of the launch geometry: compute units without work, the tail of the last workgroups, and wavefronts per SIMD.

The geometry determines how much of the GPU a launch can use. The durations of single workgroups are unknown and assumed to be
equal; counters and thread traces correct the shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.ledger import Account, Cause, Evidence, Reassignment, Source, TimePart

if TYPE_CHECKING:
    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.target.model import Target

LATENCIES = (Cause.MEMORY_LATENCY, Cause.LDS_LATENCY, Cause.SCALAR_LATENCY, Cause.DEPENDENCY)
"""Causes of waiting that more wavefronts would hide."""
_HIDING_WAVES = 4.0
"""Wavefronts per SIMD from which more of them seldom hide more latency."""
_GRID_EXPONENT, _OCCUPANCY_EXPONENT = 1.5, 0.8
"""Exponents that convert the share of missing wavefronts to the share of latency that they would hide. A grid that fills every
SIMD twice is seldom the reason for waiting; registers and LDS that only allow two wavefronts are."""
_LAUNCH_NS = 3000.0
"""Time of a dispatch beside its wavefronts, if the target has no timing parameters: 2 to 4 us on MI200 and MI300."""
_LEAST_SHARE = 0.005


@dataclass(frozen=True)
class LaunchShape:
    """Workgroups of a launch in relation to the compute units."""

    workgroups: int
    waves_per_workgroup: int
    compute_units: int
    slots_per_unit: int
    """Workgroups that fit on a compute unit at once."""
    simds_per_unit: int

    @classmethod
    def of(cls, profile: Profile) -> LaunchShape:
        """Return the shape of the launch of a profile."""
        target = profile.target
        spread = profile.occupancy.workgroups_per_cu * -(-profile.threads_per_block // profile.wave_size)
        fitting = profile.occupancy.waves_per_simd * target.simds_per_cu
        # In WGP modes workgroups_per_cu counts the workgroups of two compute units.
        units_per_slot = max(1, round(spread / fitting)) if fitting else 1
        return cls(
            workgroups=max(1, prod(profile.grid)),
            waves_per_workgroup=-(-profile.threads_per_block // profile.wave_size),
            compute_units=max(1, target.compute_units // units_per_slot),
            slots_per_unit=max(1, profile.occupancy.workgroups_per_cu),
            simds_per_unit=target.simds_per_cu * units_per_slot,
        )

    @property
    def idle_units(self) -> float:
        """Share of the compute units that get no workgroup."""
        return max(0.0, 1 - self.workgroups / self.compute_units)

    @property
    def rounds(self) -> float:
        """Workgroups relative to those that the whole device holds at once."""
        return self.workgroups / (self.compute_units * self.slots_per_unit)

    @property
    def tail(self) -> float:
        """Share of the unit-time without work at the end, if equal workgroups on a unit share its throughput."""
        each = self.workgroups / self.compute_units
        return 0.0 if each <= 1 else 1 - each / ceil(each)

    @property
    def longest_tail(self) -> float:
        """The same if the duration of workgroups does not depend on how many share a unit."""
        return self.tail if self.rounds <= 1 else max(self.tail, 1 - self.rounds / ceil(self.rounds))

    def resident_waves(self, waves_per_simd: float) -> float:
        """Return the wavefronts per SIMD of a unit with work, at most `waves_per_simd`."""
        groups = max(1.0, self.workgroups / self.compute_units)
        return min(waves_per_simd, groups * self.waves_per_workgroup / self.simds_per_unit)


def launch_account(profile: Profile, duration_ns: float | None) -> Account:
    """Return the account of the launch geometry.

    Args:
        profile: Profile of the kernel.
        duration_ns: Duration of a dispatch; None if unknown.
    """
    shape = LaunchShape.of(profile)
    losses = []
    overhead = 0.0
    if duration_ns:
        overhead = min(1.0, fixed_launch_ns(profile.target) / duration_ns)
        if overhead >= _LEAST_SHARE:
            losses.append(_overhead(profile, duration_ns, overhead))
    active = 1 - overhead
    if shape.idle_units:
        text = (
            f"{shape.workgroups:,} workgroups leave {shape.compute_units - shape.workgroups:,} of {shape.compute_units:,} "
            "compute units without work"
        )
        losses.append(_part(Cause.SMALL_GRID, active * shape.idle_units, active * shape.idle_units, 0.8, text))
    elif shape.longest_tail * active >= _LEAST_SHARE:
        text = (
            f"{shape.workgroups:,} workgroups are {shape.workgroups / shape.compute_units:.2f} per compute unit and "
            f"{shape.rounds:.2f} rounds of the {shape.compute_units * shape.slots_per_unit:,} that fit at once"
        )
        losses.append(_part(Cause.TAIL, active * shape.tail, active * shape.longest_tail, 0.55, text))
    return Account(Source.LAUNCH, tuple(losses), reassigned=_unhidden(profile, shape))


def fixed_launch_ns(target: Target) -> float:
    """Return the time of a dispatch beside its wavefronts, in ns."""
    timing = target.timing
    return float(timing.launch_overhead_ns + timing.dispatch_record_ns) if timing else _LAUNCH_NS


def _overhead(profile: Profile, duration_ns: float, share: float) -> TimePart:
    spent = fixed_launch_ns(profile.target) / 1000
    text = f"the dispatch lasts {duration_ns / 1000:.2f} us, one without work about {spent:.1f} us"
    return _part(Cause.LAUNCH_OVERHEAD, share, share, 0.6, text)


def _part(cause: Cause, share: float, gain: float, confidence: float, text: str) -> TimePart:
    return TimePart(cause, share, gain, confidence, (Evidence(Source.LAUNCH, text),))


def _unhidden(profile: Profile, shape: LaunchShape) -> tuple[Reassignment, ...]:
    fitting = profile.occupancy.waves_per_simd
    resident = shape.resident_waves(fitting)
    wanted = min(_HIDING_WAVES, float(profile.occupancy.max_waves_per_simd))
    if resident >= wanted:
        return ()
    missing = 1 - resident / wanted
    if resident < fitting:
        text = f"the grid keeps {resident:.2g} wavefront{'' if resident == 1 else 's'} per SIMD resident; {fitting:g} fit"
        return (Reassignment(Cause.SMALL_GRID, missing**_GRID_EXPONENT, LATENCIES, Evidence(Source.LAUNCH, text)),)
    limiter = profile.occupancy.limiter
    text = f"{resident:g} of {profile.occupancy.max_waves_per_simd} wavefronts per SIMD are resident, limited by {limiter}"
    return (
        Reassignment(
            Cause.LOW_OCCUPANCY,
            missing**_OCCUPANCY_EXPONENT,
            LATENCIES,
            Evidence(Source.LAUNCH, text),
            _occupancy_advice(profile),
        ),
    )


def _occupancy_advice(profile: Profile) -> str | None:
    if profile.resources.source == "profiler" and not profile.resources.vgpr_per_thread:
        return None
    found = profile.occupancy.what_if
    return f"Raise the occupancy: {found[0]}." if found else None


def launch_rate_share(shape: LaunchShape, target: Target, clocks: float | None, active: float) -> float:
    """Return the share of a dispatch for which its workgroup launcher is busy; 0 if the rate or the clocks are unknown.

    Args:
        shape: Workgroups of the launch.
        target: The GPU.
        clocks: Clocks with wavefronts.
        active: Share of the dispatch that these clocks are.
    """
    timing = target.timing
    if timing is None or not clocks:
        return 0.0
    each = shape.waves_per_workgroup * timing.wave_launch_cycles + timing.workgroup_launch_cycles
    return min(1.0, shape.workgroups * each / target.shader_engines / clocks) * active
