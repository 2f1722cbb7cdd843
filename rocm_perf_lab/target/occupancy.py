"""Occupancy: wavefronts per SIMD, the resource that limits them, and the smallest saving that allows more.

:func:`occupancy` returns the number that LLVM prints (`; Occupancy: N`), the optimistic end of a range of workgroup sizes;
:func:`launch_occupancy` returns the occupancy of the hardware for one workgroup size. Source: LLVM's GCNSubtarget and
AMDGPUBaseInfo, checked against LLVM 22; LDS granules and whole workgroups from AMD's CDNA and RDNA ISA guides.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocm_perf_lab.arch.model import LdsPool, WaveLimits
    from rocm_perf_lab.target.model import Target

    _LimitsOf = Callable[["OccupancyRequest"], Mapping["Limiter", float]]

Limiter = Literal["vgpr", "sgpr", "lds", "workgroup slots", "wave slots"]


class LaunchImpossible(LabError):
    """Launch whose workgroups do not fit on a compute unit of the target."""


@dataclass(frozen=True)
class OccupancyRequest:
    """Resources of one kernel.

    Args:
        vgprs: Architectural VGPRs.
        agprs: Accumulation VGPRs.
        sgprs: SGPRs, including VCC and other special registers.
        lds_bytes: Static and dynamic LDS of one workgroup.
        workgroup_size: Smallest and largest number of work-items per workgroup.
        mode: One of the modes of the target; if None it follows from `wave_size` and `workgroup_processor`.
        wave_size: Lanes of a wavefront, if known.
        workgroup_processor: Whether workgroups use both CUs of a WGP (RDNA), if known.
        waves_per_eu_max: Upper end of an `amdgpu_waves_per_eu` attribute, which the compiler ignores if a workgroup needs more.
    """

    vgprs: int
    agprs: int = 0
    sgprs: int = 0
    lds_bytes: int = 0
    workgroup_size: tuple[int, int] = (1, 1024)
    mode: str | None = None
    wave_size: int | None = None
    workgroup_processor: bool | None = None
    waves_per_eu_max: int | None = None


@dataclass(frozen=True)
class Occupancy:
    """Wavefronts per SIMD with their limits.

    `by_limit` has the wavefronts that each resource alone allows. `workgroups_per_cu` counts per WGP in the WGP modes of RDNA.
    `waves_per_simd` is an integer for a compiled kernel; in a launch SIMDs may hold different numbers of wavefronts.
    """

    waves_per_simd: float
    max_waves_per_simd: int
    limiter: Limiter
    by_limit: Mapping[Limiter, float]
    workgroups_per_cu: int
    improvement: Improvement | None

    @property
    def fraction(self) -> float:
        """Used share of the wavefront slots."""
        return self.waves_per_simd / self.max_waves_per_simd

    @property
    def what_if(self) -> tuple[str, ...]:
        """Improvement as a sentence; empty if no saving raises the occupancy."""
        return () if self.improvement is None else (str(self.improvement),)


@dataclass(frozen=True)
class Improvement:
    """Smallest saving of resources that raises the occupancy."""

    vgprs: int
    sgprs: int
    lds_bytes: int
    waves_per_simd: float
    gain: float
    """Additional wavefronts per SIMD."""

    def __str__(self) -> str:
        savings = {"VGPR": self.vgprs, "SGPR": self.sgprs, "byte": self.lds_bytes}
        parts = [f"{count} {unit}{'' if count == 1 else 's'}" for unit, count in savings.items() if count]
        saved = " and ".join(parts) + (" of LDS" if self.lds_bytes else "")
        number = "one" if self.gain == 1 else f"{self.gain:g}"
        return f"saving {saved} allows {number} more {'wave' if self.gain <= 1 else 'waves'} per SIMD"


def occupancy(target: Target, request: OccupancyRequest) -> Occupancy:
    """Return the occupancy that LLVM reports for a kernel whose workgroup size is known as a range.

    Raises:
        LaunchImpossible: The target does not have the requested mode.
    """
    limits, pool = _mode_of(target, request)
    by_limit = _compiled_limits(limits, pool, request)
    waves = min(by_limit.values())
    in_group = _wavefronts(request.workgroup_size[1], limits)
    groups = min(_groups_that_fit(in_group, limits, pool, request.lds_bytes), int(waves) * pool.simds // in_group)
    return Occupancy(
        waves_per_simd=waves,
        max_waves_per_simd=limits.max_waves_per_simd,
        limiter=_limiter(by_limit),
        by_limit=by_limit,
        workgroups_per_cu=max(1, groups),
        improvement=_improvement(request, partial(_compiled_limits, limits, pool)),
    )


def launch_occupancy(target: Target, request: OccupancyRequest) -> Occupancy:
    """Return the occupancy on hardware: whole workgroups of one size, and LDS in allocation granules.

    Raises:
        LaunchImpossible: A single workgroup does not fit, or the target does not have the requested mode.
    """
    limits, pool = _mode_of(target, request)
    _check_that_one_fits(target, limits, pool, request)
    by_limit = _launch_limits(limits, pool, request)
    waves = min(by_limit.values())
    return Occupancy(
        waves_per_simd=waves,
        max_waves_per_simd=limits.max_waves_per_simd,
        limiter=_limiter(by_limit),
        by_limit=by_limit,
        workgroups_per_cu=round(waves * pool.simds) // _wavefronts(request.workgroup_size[1], limits),
        improvement=_improvement(request, partial(_launch_limits, limits, pool)),
    )


def mode_of(target: Target, request: OccupancyRequest) -> str:
    """Return the mode in which the request runs: as requested, else by wave size and WGP mode, else the default mode."""
    if request.mode is not None:
        return request.mode
    fitting = [name for name, limits in target.modes.items() if request.wave_size in (None, limits.wave_size)]
    if request.workgroup_processor is not None:
        spread = [name for name in fitting if (target.lds[name].simds > target.simds_per_cu) == request.workgroup_processor]
        fitting = spread or fitting
    return fitting[0] if fitting and target.default_mode not in fitting else target.default_mode


def _compiled_limits(limits: WaveLimits, pool: LdsPool, request: OccupancyRequest) -> dict[Limiter, float]:
    slots = _waves_by_groups(limits, pool, 0, request.workgroup_size)
    with_lds = _waves_by_groups(limits, pool, request.lds_bytes, request.workgroup_size)
    return {
        "vgpr": _waves_by_vgprs(limits, request),
        "sgpr": _waves_by_sgprs(limits, request.sgprs),
        "lds": with_lds if with_lds < slots else limits.max_waves_per_simd,
        "workgroup slots": slots,
        "wave slots": _wave_slots(limits, request),
    }


def _launch_limits(limits: WaveLimits, pool: LdsPool, request: OccupancyRequest) -> dict[Limiter, float]:
    in_group = _wavefronts(request.workgroup_size[1], limits)

    def whole_groups(waves_per_simd: int) -> float:
        return waves_per_simd * pool.simds // in_group * in_group / pool.simds

    lds_bytes = _round_up(request.lds_bytes, pool.granule_bytes)
    groups_by_lds = pool.bytes // lds_bytes if lds_bytes else _workgroup_slots(in_group, limits, pool)
    ceiling = whole_groups(limits.max_waves_per_simd)
    return {
        "vgpr": whole_groups(_waves_by_vgprs(limits, request)),
        "sgpr": whole_groups(_waves_by_sgprs(limits, request.sgprs)),
        "lds": min(ceiling, groups_by_lds * in_group / pool.simds) if lds_bytes else ceiling,
        "workgroup slots": _workgroup_slots(in_group, limits, pool) * in_group / pool.simds,
        "wave slots": whole_groups(_wave_slots(limits, request)),
    }


def _waves_by_vgprs(limits: WaveLimits, request: OccupancyRequest) -> int:
    total = request.vgprs
    if request.agprs:
        total = _round_up(request.vgprs, 4) + request.agprs if limits.agprs_share_file else max(total, request.agprs)
    waves = limits.vgprs_per_lane // _round_up(max(total, 1), limits.vgpr_granule)
    return max(1, min(waves, limits.max_waves_per_simd))


def _waves_by_sgprs(limits: WaveLimits, sgprs: int) -> int:
    if not limits.sgpr_limits:
        return limits.max_waves_per_simd
    fitting = [waves for waves, most in limits.sgpr_limits.items() if sgprs <= most]
    return max(fitting, default=min(limits.sgpr_limits))


def _waves_by_groups(limits: WaveLimits, pool: LdsPool, lds_bytes: int, sizes: tuple[int, int]) -> int:
    """Return LLVM's limit by workgroup slots and LDS: the maximum over the range of workgroup sizes."""
    few, many = (_wavefronts(size, limits) for size in sizes)
    groups_of_few = _groups_that_fit(few, limits, pool, lds_bytes)
    groups_of_many = _groups_that_fit(many, limits, pool, lds_bytes)
    if groups_of_few == 0:
        return 1
    waves_of_few, waves_of_many = few * groups_of_few, many * groups_of_many
    best = waves_of_many
    if waves_of_many < waves_of_few:
        free = limits.max_waves_per_simd * pool.simds - waves_of_few
        best = waves_of_few + groups_of_few * min(free // groups_of_few, many - few)
    return max(1, min(-(-best // pool.simds), limits.max_waves_per_simd))


def _groups_that_fit(in_group: int, limits: WaveLimits, pool: LdsPool, lds_bytes: int) -> int:
    return min(_workgroup_slots(in_group, limits, pool), pool.bytes // max(lds_bytes, 1))


def _workgroup_slots(in_group: int, limits: WaveLimits, pool: LdsPool) -> int:
    """Return the limit by wavefront and barrier slots; a workgroup of one wavefront needs no barrier slot."""
    by_waves = limits.max_waves_per_simd * pool.simds // in_group
    return by_waves if in_group == 1 else min(by_waves, pool.workgroup_slots)


def _wave_slots(limits: WaveLimits, request: OccupancyRequest) -> int:
    cap, most = request.waves_per_eu_max, limits.max_waves_per_simd
    if cap is None or cap >= most:
        return most
    return min(most, limits.vgprs_per_lane // max(1, _round_up(_padded_vgprs(limits, cap), limits.vgpr_granule)))


def _padded_vgprs(limits: WaveLimits, waves: int) -> int:
    """Return the VGPRs that the compiler allocates at least, so that no more wavefronts run; 0 if no number achieves it."""
    granule = limits.vgpr_granule

    def most_vgprs(waves_per_simd: int) -> int:
        return limits.vgprs_per_lane // waves_per_simd // granule * granule

    waves = max(waves, limits.vgprs_per_lane // limits.max_addressable_vgprs)
    if most_vgprs(waves) == most_vgprs(limits.max_waves_per_simd):
        return 0
    return 1 + min(most_vgprs(waves) - granule, most_vgprs(waves + 1))


def _limiter(by_limit: Mapping[Limiter, float]) -> Limiter:
    """Return the lowest limit; the wavefront slots if several limits are equal to them."""
    tightest = min(by_limit.values())
    return "wave slots" if by_limit["wave slots"] == tightest else min(by_limit, key=by_limit.__getitem__)


def _improvement(request: OccupancyRequest, limits_of: _LimitsOf) -> Improvement | None:
    by_limit = limits_of(request)
    waves = min(by_limit.values())
    if min(by_limit["workgroup slots"], by_limit["wave slots"]) <= waves:
        return None
    savings: dict[str, int] = {}
    for limit, resource in _SAVABLE.items():
        saving = _least_saving(request, resource, limits_of, limit)
        if saving is None:
            return None
        savings[resource] = saving
    reached = min(limits_of(_saved(request, **savings)).values())
    return Improvement(**savings, waves_per_simd=reached, gain=reached - waves)


_SAVABLE: dict[Limiter, str] = {"vgpr": "vgprs", "sgpr": "sgprs", "lds": "lds_bytes"}


def _least_saving(request: OccupancyRequest, resource: str, limits_of: _LimitsOf, limit: Limiter) -> int | None:
    """Return the smallest saving that raises a limit above the present occupancy, by bisection; None if there is none."""
    waves = min(limits_of(request).values())
    present = getattr(request, resource)

    def is_enough(saving: int) -> bool:
        return limits_of(_saved(request, **{resource: saving}))[limit] > waves

    saving = bisect_left(range(present + 1), True, key=is_enough)
    return saving if saving <= present else None


def _saved(request: OccupancyRequest, **savings: int) -> OccupancyRequest:
    return replace(request, **{name: getattr(request, name) - saving for name, saving in savings.items()})


def _mode_of(target: Target, request: OccupancyRequest) -> tuple[WaveLimits, LdsPool]:
    mode = mode_of(target, request)
    if mode not in target.modes:
        raise LaunchImpossible(f"{target.name} has no mode {mode!r}", hint=f"Modes: {', '.join(sorted(target.modes))}.")
    return target.modes[mode], target.lds[mode]


def _check_that_one_fits(target: Target, limits: WaveLimits, pool: LdsPool, request: OccupancyRequest) -> None:
    smallest, size = request.workgroup_size
    if smallest != size:
        raise LaunchImpossible(
            f"a launch has one workgroup size, not {smallest} to {size}",
            hint="Use the same value for both ends of workgroup_size.",
        )
    in_group = _wavefronts(size, limits)
    held = min(_waves_by_vgprs(limits, request), _waves_by_sgprs(limits, request.sgprs)) * pool.simds
    registers = request.vgprs + request.agprs
    for needed, available, what in (
        (size, target.max_workgroup_size, "work-items in a workgroup"),
        (request.lds_bytes, pool.max_per_workgroup_bytes, "bytes of LDS"),
        (registers, limits.max_addressable_vgprs, "VGPRs"),
        (in_group, held, f"wavefronts of {registers} VGPRs at the same time"),
    ):
        if needed > available:
            raise LaunchImpossible(
                f"the launch needs {needed} {what}, {target.name} has {available}",
                hint="Use a smaller workgroup, or less LDS or fewer registers per work-item.",
            )


def _wavefronts(workgroup_size: int, limits: WaveLimits) -> int:
    return -(-max(workgroup_size, 1) // limits.wave_size)


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule
