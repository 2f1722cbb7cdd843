"""Launch limits of the hardware, checked before anything is allocated."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import load_architecture
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.descriptor import splits_workgroups
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from rocm_perf_lab.toolchain.target_id import parse_target_id

if TYPE_CHECKING:
    from rocm_perf_lab.core.geometry import Geometry
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata


class LaunchRefused(LabError):
    """A launch beyond the limits of the hardware."""


def require_loadable(code_object: CodeObject, target: Target) -> None:
    """Check the processor and the settings that a code object requires; XNACK may be on or off, as in HSA_XNACK.

    Raises:
        LaunchRefused: The GPU does not run this code.
    """
    if code_object.architecture != target.architecture:
        raise LaunchRefused(
            f"the code object is for {code_object.described_target}, the emulator executes {target.architecture}",
            hint=f"Compile for {target.architecture}.",
        )
    unmet = parse_target_id(code_object.target_id).unmet(load_architecture(target.architecture).fixed_settings)
    if unmet:
        raise LaunchRefused(
            f"the code object is for {code_object.target_id}, but {', '.join(unmet)} is not a setting of {target.name}",
            hint=f"Compile for {target.architecture}: code without a setting runs with both.",
        )


def require_launchable(kernel: KernelMetadata, geometry: Geometry, target: Target, *, was_dispatched: bool = False) -> None:
    """Check workgroup size and LDS against the limits of the kernel and the GPU.

    Args:
        kernel: The kernel.
        geometry: The launch.
        target: The GPU.
        was_dispatched: Whether an application dispatched the kernel in this geometry. HIP dispatches internal kernels with
            more work-items than their metadata states, which the hardware does not check.

    Raises:
        LaunchRefused: A limit is exceeded.
    """
    if min(*geometry.grid, *geometry.block) < 1:
        raise LaunchRefused(
            f"grid {geometry.grid} and block {geometry.block} must be at least 1 in every dimension",
            where=f"kernel {kernel.name}",
        )
    compiled = target.max_workgroup_size if was_dispatched else kernel.max_flat_workgroup_size
    limit = min(compiled or target.max_workgroup_size, target.max_workgroup_size)
    if prod(geometry.block) > limit:
        raise LaunchRefused(
            f"a workgroup has {prod(geometry.block)} work-items, but the kernel was compiled for at most {limit}",
            where=f"kernel {kernel.name}, block {geometry.block}",
            hint="Launch smaller workgroups, or raise __launch_bounds__.",
        )
    required = kernel.required_workgroup_size
    if required is not None and required != geometry.block:
        raise LaunchRefused(
            f"the kernel was compiled for workgroups of {required} only",
            where=f"kernel {kernel.name}, block {geometry.block}",
            hint=f"Launch with block {list(required)}.",
        )
    lds_bytes = kernel.lds_bytes + geometry.dynamic_lds_bytes
    if lds_bytes and splits_workgroups(kernel.descriptor, target.architecture):
        raise LaunchRefused(
            f"a workgroup uses {lds_bytes:,} bytes of LDS, but its wavefronts may run on different CUs, which share no LDS",
            where=f"kernel {kernel.name}, compiled with -mtgsplit",
            hint="Compile without -mtgsplit, or without LDS.",
        )
    pool = target.lds_pool
    if lds_bytes > pool.max_per_workgroup_bytes:
        raise LaunchRefused(
            f"a workgroup uses {lds_bytes:,} bytes of LDS, but {target.name} has {pool.max_per_workgroup_bytes:,}",
            where=f"kernel {kernel.name}: {kernel.lds_bytes:,} static + {geometry.dynamic_lds_bytes:,} dynamic",
            hint="Use smaller tiles.",
        )


def require_resident(kernel: KernelMetadata, geometry: Geometry, target: Target) -> None:
    """Check that all workgroups of a cooperative launch fit on the GPU at the same time.

    Raises:
        LaunchRefused: There are too many workgroups.
    """
    request = occupancy_request(kernel, workgroup_size=prod(geometry.block), dynamic_lds_bytes=geometry.dynamic_lds_bytes)
    most = int(launch_occupancy(target, request).workgroups_per_cu) * target.compute_units
    if prod(geometry.grid) > most:
        raise LaunchRefused(
            f"a cooperative launch of {prod(geometry.grid):,} workgroups: {target.name} holds {most:,} of them at once",
            where=f"kernel {kernel.name}, grid {geometry.grid}",
            hint="Launch fewer workgroups with more work each.",
        )
