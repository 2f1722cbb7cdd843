"""Content of a rocpd database written by a device: one process, one GPU, its kernels and dispatches.

Times are integer nanoseconds of one clock, sizes are bytes, grids count work-items (as in HSA), not workgroups.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.target.model import Target

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class HostRecord:
    """Machine of the process. The environment is never recorded, because it can contain secrets."""

    system_name: str
    hostname: str
    release: str
    version: str
    hardware_name: str

    @classmethod
    def current(cls) -> HostRecord:
        """Return the record of this machine."""
        name = platform.uname()
        return cls(name.system, name.node, name.release, name.version, name.machine)


@dataclass(frozen=True)
class ProcessRecord:
    """The profiled process."""

    command: str
    pid: int = field(default_factory=os.getpid)
    parent_pid: int = field(default_factory=os.getppid)


@dataclass(frozen=True)
class AgentRecord:
    """The GPU. `provenance` states which device of rocm-perf-lab produced the numbers, and whether they are emulated."""

    name: str
    product_name: str
    properties: Mapping[str, Any]
    provenance: Mapping[str, Any]

    @classmethod
    def from_target(
        cls,
        target: Target,
        *,
        device: str,
        emulated: bool,
        versions: Mapping[str, str],
        sample_seed: int | None = None,
        has_times: bool = True,
    ) -> AgentRecord:
        """Return the agent of a GPU described by `target`, under the keys of rocprofiler_agent_v0_t.

        `sample_seed` chose the workgroups from which an emulated time was estimated; without `has_times` there is none.
        """
        limits = target.wave_limits
        engines = target.shader_engines
        properties = {
            "name": target.architecture,
            "product_name": target.product_name,
            "vendor_name": "AMD",
            "gfx_target_version": target.gfx_target_version,
            "cu_count": target.compute_units,
            "simd_per_cu": target.simds_per_cu,
            "simd_count": target.compute_units * target.simds_per_cu,
            "max_waves_per_simd": limits.max_waves_per_simd,
            "max_waves_per_cu": limits.max_waves_per_simd * target.simds_per_cu,
            "wave_front_size": limits.wave_size,
            "num_xcc": target.xcds,
            "num_shader_banks": engines,
            "cu_per_engine": target.compute_units // engines,
            "lds_size_in_kb": target.lds_pool.max_per_workgroup_bytes // 1024,
            "workgroup_max_size": target.max_workgroup_size,
            "max_engine_clk_fcompute": target.max_clock_mhz,
            "local_mem_size": target.dram_bytes,
        }
        provenance: dict[str, Any] = {"device": device, "emulated": emulated, "versions": dict(versions)}
        if sample_seed is not None:
            provenance["sample_seed"] = sample_seed
        if not has_times:
            provenance["has_times"] = False
        return cls(target.architecture, target.product_name, properties, provenance)


@dataclass(frozen=True)
class CodeObjectRecord:
    """A loaded code object; `sha256` is its identity throughout rocm-perf-lab."""

    id: int
    uri: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class KernelSymbolRecord:
    """One kernel of a code object; register counts as returned by :mod:`rocm_perf_lab.rocprof.registers`."""

    id: int
    code_object_id: int
    mangled_name: str
    display_name: str
    arch_vgpr_count: int
    accum_vgpr_count: int
    sgpr_count: int
    static_lds_bytes: int
    static_scratch_bytes: int
    kernarg_bytes: int = 0
    kernarg_alignment: int = 8


@dataclass(frozen=True)
class DispatchRecord:
    """One dispatch. `counters` contains device totals, summed over XCCs, shader engines and channels."""

    kernel_id: int
    start_ns: int
    end_ns: int
    grid: Triple
    workgroup: Triple
    lds_bytes: int
    """Static and dynamic LDS of a workgroup."""
    scratch_bytes: int
    """Per work-item."""
    queue: int = 0
    stream: int = 0
    counters: Mapping[str, float] = field(default_factory=dict)
    gpu: int = 0
    """Position of its GPU among the agents."""


@dataclass(frozen=True)
class MemoryCopyRecord:
    """One memory copy; `direction` is the name of rocprofiler-sdk, a GPU of None is the host, a stream of None is unknown."""

    direction: str
    size_bytes: int
    start_ns: int
    end_ns: int
    source_gpu: int | None
    destination_gpu: int | None
    queue: int = 0
    stream: int | None = None


@dataclass(frozen=True)
class RecordedRun:
    """Content of one database. Equal runs with an equal `guid` result in equal databases."""

    agent: AgentRecord
    process: ProcessRecord
    code_objects: tuple[CodeObjectRecord, ...]
    kernels: tuple[KernelSymbolRecord, ...]
    dispatches: tuple[DispatchRecord, ...]
    guid: str | None = None
    host: HostRecord = field(default_factory=HostRecord.current)
