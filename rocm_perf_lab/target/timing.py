"""Parameters of the emulator's timing model; values and sources are in `arch/*.yaml` and `conf/target/*.yaml`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from rocm_perf_lab.target.timing_errors import UNVALIDATED, TimingErrors


class TimingParameters(BaseModel):
    """Issue times and latencies in shader clocks, rates in bytes per clock."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    valu_cycles: int
    """Time for which a wave64 vector instruction occupies its port."""
    valu_f64_cycles: int
    transcendental_cycles: int
    matrix_flops_per_simd_clock: int | None
    """Rate of float16 matrix instructions, from which those of other types follow; None: the passes of the architecture."""
    issue_cycles: int
    """Clocks until the same wavefront can issue again, unless an instruction has its own time below."""
    branch_taken_cycles: int
    """From a branch to its target; a branch that is not taken lasts `issue_cycles`."""
    branch_straddling_cycles: int
    """To a target that straddles two fetch blocks."""
    barrier_cycles: int
    """From the last arrival to the release."""
    valu_to_memory_cycles: int
    """From a vector instruction to a vector memory or LDS instruction of the same wavefront."""
    valu_to_scalar_cycles: int
    """From a vector instruction with a scalar result to the next scalar instruction of the same wavefront."""
    scalar_to_branch_cycles: int
    matrix_to_wait_cycles: int
    fetch_block_cycles: int
    """Between two consecutive blocks of 32 bytes of code of one wavefront."""
    first_fetch_cycles: int
    """From the first wavefront on a CU to its first instruction, with a cold instruction cache."""
    wave_start_cycles: int
    """From the start of a wavefront to its first instruction, with a warm instruction cache."""
    instruction_miss_cycles: int
    scalar_cached_latency: int
    scalar_latency: int
    """Of a scalar load that misses the scalar cache."""
    scalar_cold_latency: int
    """Of the first scalar loads of a launch."""
    lds_latency: int
    """Clocks from the end of an LDS access to its data."""
    lds_write_latency: int
    """From the end of an LDS write to its completion."""
    lds_queue_cycles: int
    """Work that the LDS accepts ahead; then wavefronts stall."""
    lds_issue_cycles: int
    """Between two LDS instructions of one wavefront."""
    lds_write_cycles_per_dword: int
    """Issue time of an LDS write beyond `issue_cycles`, per dword of a lane."""
    lds_write_factor: float
    """Time of a write in the LDS, relative to a read; less one clock."""
    vector_l1_latency: int
    """Clocks from the end of the address calculation to the last data; likewise for the levels below."""
    l2_latency: int
    mall_latency: int
    dram_latency: int
    store_latency: int
    """To the acknowledgement, without which a wavefront does not end."""
    atomic_latency: int
    vector_queue: int
    """Vector memory instructions that wait for the address pipe of a CU before wavefronts stall."""
    outstanding_lines: int
    """Lines of 128 bytes that a CU can have in flight beyond L2."""
    tlb_entries: int
    tlb_page_bytes: int
    tlb_miss_cycles: int
    """For which a translation miss of a CU holds up its vector memory instructions."""
    tlb_cold_cycles: int
    """The same for the first instructions of a launch."""
    l2_burst_cycles: int
    """Work of its share of L2 that a CU can request without delay after a pause."""
    store_cycles: int
    """Shortest time of a store in the address pipe of a CU."""
    l2_bytes_per_clock_per_cu: float
    """From L2 to one CU."""
    achievable_dram_gb_per_s: float
    """Bandwidth that streaming kernels reach with all CUs, for reads."""
    achievable_dram_write_gb_per_s: float
    achievable_l2_gb_per_s: float
    achievable_mall_gb_per_s: float
    achievable_mall_write_gb_per_s: float
    write_back_gb_per_s: float
    """Rate at which the end of a kernel writes dirty lines of L2 back."""
    wave_launch_cycles: int
    """Between the starts of two wavefronts of one shader engine."""
    workgroup_launch_cycles: int
    """Between two workgroups of one shader engine, beyond the time for their wavefronts."""
    workgroup_replace_cycles: int
    """From the end of a workgroup to the start of the next one in its place."""
    launch_overhead_ns: int
    """Time from the start of a dispatch to its first wavefront, plus from its last wavefront to its end."""
    dispatch_record_ns: int = 0
    """Time by which the record of a profiler exceeds the time per launch in a graph of equal launches."""
    matrix_clock_drop_mhz: int = 0
    """By which sustained load of all matrix cores lowers the clock."""
    error: TimingErrors = UNVALIDATED
    """Error bands of the times; `python -m benchmarks.error_bands` writes them."""
