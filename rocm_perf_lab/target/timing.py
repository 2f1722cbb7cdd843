"""Parameters of the emulator's timing model; values and their sources are in `conf/target/*.yaml`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class TimingParameters(BaseModel):
    """Issue times and latencies in shader clocks, rates in bytes per clock."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    valu_cycles: int
    """A SIMD is busy this long with one wave64 vector instruction."""
    valu_f64_cycles: int
    transcendental_cycles: int
    matrix_flops_per_simd_clock: int
    """Rate of float16 matrix instructions; others scale with the target's matrix peaks."""
    scalar_cycles: int
    """Before the same wavefront can issue again."""
    branch_cycles: int
    issue_cycles: int
    """Of memory, LDS, wait and internal instructions, before the same wavefront can issue again."""
    barrier_cycles: int
    scalar_load_latency: int
    lds_latency: int
    """From issue to data, without conflicts."""
    vector_l1_latency: int
    l2_latency: int
    mall_latency: int
    dram_latency: int
    vector_l1_bytes_per_clock: int
    l2_bytes_per_clock_per_cu: float
    """What one CU can draw from L2 when alone."""
    achievable_dram_gb_per_s: float
    """What streaming kernels reach, all CUs together."""
    achievable_l2_gb_per_s: float
    achievable_mall_gb_per_s: float
    atomic_cycles: int = 0
    """Memory is busy this long with what one instruction of a wavefront does to one segment of 64 bytes; 0: not modelled."""
    workgroup_launch_cycles: int
    """Between two workgroups launched on one CU."""
    launch_overhead_ns: int
    """Start of a dispatch to its first wavefront, and its last to the end."""
