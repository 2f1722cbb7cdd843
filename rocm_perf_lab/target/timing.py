"""Parameters of the emulator's timing model; values and sources are in `arch/*.yaml` and `conf/target/*.yaml`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.target.timing_errors import UNVALIDATED, TimingErrors


class TimingParameters(BaseModel):
    """Issue times and latencies in shader clocks, rates in bytes per clock."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    valu_cycles: int
    """Issue time of one wave64 vector instruction on a SIMD."""
    valu_f64_cycles: int
    transcendental_cycles: int
    matrix_flops_per_simd_clock: int
    """Rate of float16 matrix instructions; rates of other types scale with the matrix peaks of the target."""
    scalar_cycles: int
    """Clocks until the same wavefront can issue again."""
    branch_cycles: int
    issue_cycles: int
    """Clocks until the same wavefront can issue again after a memory, LDS, wait or internal instruction."""
    barrier_cycles: int
    scalar_load_latency: int
    lds_latency: int
    """Clocks from issue to data, without bank conflicts."""
    vector_l1_latency: int
    l2_latency: int
    mall_latency: int
    dram_latency: int
    vector_l1_bytes_per_clock: int
    l2_bytes_per_clock_per_cu: float
    """L2 bandwidth of a single active CU."""
    achievable_dram_gb_per_s: float
    """Bandwidth that streaming kernels reach with all CUs."""
    achievable_l2_gb_per_s: float
    achievable_mall_gb_per_s: float
    atomic_cycles: int = 0
    """Clocks that memory is occupied per atomic instruction and 64-byte segment; 0: not modelled."""
    workgroup_launch_cycles: int
    """Clocks between two workgroup launches on one CU."""
    launch_overhead_ns: int
    """Time from the start of a dispatch to its first wavefront, plus from its last wavefront to its end."""
    error: TimingErrors = UNVALIDATED
    """Error bands of the times; `python -m benchmarks.error_bands` writes them."""
