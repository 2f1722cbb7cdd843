"""Kernels whose bottleneck is known by construction, for `python -m benchmarks.bottlenecks`.

The rules were written with `FIRST`. `HELD_OUT` was written and labelled afterwards, before it ran, and used to correct the rules.
`UNSEEN` was written and labelled after that. A label follows from arithmetic with the limits of the MI300X, summarised in `why`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.generic]

CUS = 304
FULL = CUS * 8
"""Number of workgroups of 256 work-items that fill an MI300X."""
MIB = 1 << 20


@dataclass(frozen=True)
class Case:
    """A launch with a known bottleneck.

    Args:
        label: Expected bottleneck.
        kernel: Name in `kernels/SUITE.hip`.
        workgroups: Number of workgroups.
        why: Reason for the label.
        inputs: Returns all buffers but the last.
        outputs: Number of elements of the last buffer, which the kernel writes.
        kind: Element type of the last buffer.
        block: Work-items per workgroup.
        dynamic_lds: Dynamic LDS in bytes.
        suite: Suite that the case belongs to.
        miss: Reason for a known misclassification.
    """

    label: str
    kernel: str
    workgroups: int
    why: str
    inputs: Callable[[], tuple[Array, ...]]
    outputs: int
    kind: type[np.generic] = np.float32
    block: int = 256
    dynamic_lds: int = 0
    suite: str = "held_out"
    miss: str = ""


def _ramp(*counts: int) -> Callable[[], tuple[Array, ...]]:
    return lambda: tuple(np.linspace(0.1, 1.0, count, dtype=np.float32) for count in counts)


def _zeros(kind: type[np.generic], *counts: int) -> Callable[[], tuple[Array, ...]]:
    return lambda: tuple(np.zeros(count, kind) for count in counts)


def _random(count: int, most: int) -> Callable[[], tuple[Array, ...]]:
    return lambda: (np.random.default_rng(1).integers(0, most, count, dtype=np.uint32),)


def _chain(count: int) -> Callable[[], tuple[Array, ...]]:
    return lambda: (np.random.default_rng(1).permutation(count).astype(np.uint32),)


def _list(count: int) -> Callable[[], tuple[Array, ...]]:
    """Return nodes (next, value) of one ring in random order, (count, 2)."""

    def make() -> tuple[Array, ...]:
        order = np.random.default_rng(1).permutation(count).astype(np.uint32)
        nodes = np.ones((count, 2), np.uint32)
        nodes[order, 0] = np.roll(order, -1)
        return (nodes,)

    return make


def _trips(count: int) -> Callable[[], tuple[Array, ...]]:
    return lambda: (np.minimum(np.random.default_rng(1).geometric(0.05, count), 400).astype(np.uint32),)


def _spread(count: int) -> Callable[[], tuple[Array, ...]]:
    """Return values between 1e-6 and 1e6."""
    return lambda: (np.exp(np.random.default_rng(1).uniform(-14, 14, count)).astype(np.float32),)


def _none() -> tuple[Array, ...]:
    return ()


_STREAM = 32 * FULL * 256
"""Work-items of a stream: 20 million."""

FIRST = tuple(
    Case(label, kernel, workgroups, "named after its bottleneck", inputs, outputs, suite="labelled")
    for label, kernel, workgroups, inputs, outputs in (
        ("memory_bandwidth_bound", "copy", 16 * FULL, _ramp(16 * FULL * 1024), 16 * FULL * 1024),
        ("memory_bandwidth_bound", "triad", 32 * FULL, _ramp(64 * FULL * 256), 32 * FULL * 256),
        ("compute_bound", "multiply_add", 2 * FULL, _ramp(1024), 2 * FULL * 256),
        ("compute_bound", "transcendental", 2 * FULL, _ramp(1024), 2 * FULL * 256),
        ("lds_bank_conflicts", "bank_conflicts", 2 * FULL, _ramp(2048), 2 * FULL * 256),
        ("divergence_limited", "divergent", 2 * FULL, _ramp(1024), 2 * FULL * 256),
        ("latency_bound", "dependent_loads", FULL, _chain(32768), FULL * 256),
        ("under_occupied", "multiply_add", 40, _ramp(1024), 40 * 256),
        ("under_occupied", "dependent_loads", 30, _chain(32768), 30 * 256),
        ("under_occupied", "many_registers", 2 * 304, _chain(32768), 2 * 304 * 256),
        ("launch_bound", "nothing", FULL, _ramp(64), FULL * 256),
    )
)

BANDWIDTH, COMPUTE, WAITING = "memory_bandwidth_bound", "compute_bound", "latency_bound"
LANES, BANKS, PLACES, LAUNCHES = "divergence_limited", "lds_bank_conflicts", "under_occupied", "launch_bound"

HELD_OUT = (
    Case(BANDWIDTH, "fill", 64 * FULL, "dram: 640 MB written", _none, 64 * FULL * 1024),
    Case(
        BANDWIDTH,
        "copy_f64",
        64 * FULL,
        "dram: 16 B per work-item",
        _zeros(np.float64, 64 * FULL * 256),
        64 * FULL * 256,
        np.float64,
    ),
    Case(
        BANDWIDTH,
        "saxpy_loop",
        2 * FULL,
        "dram: 8 elements per work-item, in a loop",
        _ramp(16 * FULL * 256, 16 * FULL * 256),
        16 * FULL * 256,
    ),
    Case(
        BANDWIDTH,
        "sum_rows",
        2 * FULL,
        "dram: reads alone, 16 B per lane",
        _ramp(2 * FULL * 256 * 4 * 16),
        2 * FULL * 4,
    ),
    Case(BANDWIDTH, "widen", 64 * FULL, "dram: 4 B in, 16 B out", _zeros(np.uint8, 64 * FULL * 1024), 64 * FULL * 1024),
    Case(
        WAITING,
        "one_byte_each",
        32 * FULL,
        "64 B per wavefront in flight are 0.6 MB, dram needs 2 MB",
        _zeros(np.uint8, _STREAM),
        _STREAM,
        np.uint8,
    ),
    Case(BANDWIDTH, "one_line_each", FULL, "dram: every lane fetches 128 B", _ramp(FULL * 256 * 32), FULL * 256),
    Case(
        BANDWIDTH,
        "gather",
        FULL,
        "dram: every lane fetches 128 B of 256 MiB",
        _ramp(1 << 26),
        FULL * 256,
        miss="the model reaches 19 % of the DRAM bandwidth, which no counter of the rules explains",
    ),
    Case(BANDWIDTH, "stencil", 32 * 8190, "dram: 5 reads, of which 4 hit", _ramp(8192 * 8192), 8192 * 8192),
    Case(BANDWIDTH, "matrix_vector", 4 * FULL, "dram: the matrix once", _ramp(16 * FULL * 4096, 4096), 16 * FULL),
    Case(BANDWIDTH, "transpose_padded", 384 * 384, "dram: both sides coalesced", _ramp(12288 * 12288), 12288 * 12288),
    Case(
        BANDWIDTH,
        "transpose_naive",
        16 * 4096,
        "l2: every lane stores to a separate line",
        _ramp(4096 * 4096),
        4096 * 4096,
        miss="L2 reaches 39 % of its peak in the model, and no other level is nearer to its own",
    ),
    Case(BANDWIDTH, "l2_sweep", FULL, "l2: 2 MiB read again and again", _ramp(1 << 19), FULL * 256),
    Case(BANDWIDTH, "mall_sweep", FULL, "mall: 64 MiB read 19 times", _ramp(1 << 24), FULL * 256),
    Case(BANDWIDTH, "l1_wide", FULL, "vector_l1: 8 KiB read again and again", _ramp(2048), FULL * 256),
    Case(BANDWIDTH, "l1_scattered", FULL, "vector_l1: 64 lookups per load", _ramp(4096), FULL * 256),
    Case(BANDWIDTH, "lds_wide", 2 * FULL, "lds: 16 B per lane, no conflicts", _ramp(2048), 2 * FULL * 256),
    Case(COMPUTE, "fma_f64", 2 * FULL, "4 chains of f64", _none, 2 * FULL * 256, np.float64),
    Case(COMPUTE, "hash_rounds", 2 * FULL, "integers", _none, 2 * FULL * 256, np.uint32),
    Case(COMPUTE, "half_pairs", 2 * FULL, "packed f16", _none, 2 * FULL * 256, np.uint32),
    Case(COMPUTE, "logarithms", 2 * FULL, "transcendentals: a quarter of the rate", _none, 2 * FULL * 256),
    Case(COMPUTE, "one_chain", 2 * FULL, "f32, one chain, 8 wavefronts per SIMD", _none, 2 * FULL * 256),
    Case(COMPUTE, "divide_integers", 2 * FULL, "integer division by a variable", _none, 2 * FULL * 256, np.uint32),
    Case(
        COMPUTE,
        "bodies",
        FULL,
        "20 FLOP per LDS read that all lanes share",
        _ramp(16384),
        FULL * 256,
        miss="LDS is busy 95 % of the time with reads of 16 bytes; arithmetic is the second finding",
    ),
    Case(COMPUTE, "matrix_f16", FULL, "matrix cores", _none, FULL * 256),
    Case(COMPUTE, "matrix_f64", FULL, "matrix cores", _none, FULL * 256, np.float64),
    Case(COMPUTE, "matrix_i8", FULL, "matrix cores, no FLOP", _none, FULL * 256, np.int32),
    Case(
        COMPUTE,
        "scalar_rounds",
        2 * FULL,
        "the scalar unit, one of a CU's for 32 wavefronts",
        _random(64, 1 << 32),
        2 * FULL * 256,
        np.uint32,
    ),
    Case(
        "balanced",
        "register_tiles",
        64 * 64,
        "16 clocks of LDS beside 16 of FMA",
        _ramp(1 << 19, 1 << 19),
        1 << 24,
        miss="LDS is busy 84 % of the time and vector instructions take 57 % of the slots",
    ),
    Case(
        "balanced",
        "three_phases",
        2 * FULL,
        "memory, LDS and FMA in turn, 3 wavefronts per SIMD",
        _ramp(2 * FULL * 256 * 4 * 8),
        2 * FULL * 256,
        dynamic_lds=17408,
        miss="wavefronts of other workgroups fill the gaps: DRAM reaches 64 % of its peak, FMA 73 % of its issue slots",
    ),
    Case(BANDWIDTH, "small_tiles", 64 * 64, "lds: two reads per FMA", _ramp(1 << 17, 1 << 17), 1 << 20),
    Case(
        WAITING,
        "linked_list",
        FULL,
        "one node after the other, 64 MiB",
        _list(1 << 23),
        FULL * 256,
        np.uint32,
        miss="9728 wavefronts with a line each in flight reach 72 % of the DRAM bandwidth from the MALL",
    ),
    Case(
        WAITING,
        "binary_search",
        FULL,
        "24 loads, each needs the previous one",
        lambda: (np.arange(0, 1 << 30, 64, dtype=np.uint32),),
        FULL * 256,
        np.uint32,
    ),
    Case(WAITING, "barriers", FULL, "9 barriers for each sum of 256", _ramp(1024), FULL * 256),
    Case(WAITING, "lds_chase", FULL, "a chain in LDS, 4 wavefronts per SIMD", _chain(4096), FULL * 256, np.uint32),
    Case(WAITING, "lone_lane", FULL, "one lane in 64, but the units wait for its loads", _chain(1 << 19), FULL * 256, np.uint32),
    Case(WAITING, "few_conflicts", FULL, "32 lanes on a bank, but LDS is seldom used", _chain(1 << 19), FULL * 256, np.uint32),
    Case(WAITING, "one_counter", FULL, "all wavefronts update the same four dwords", _none, 4096, np.uint32),
    Case(WAITING, "global_bins", FULL, "atomics on 1 KiB", _random(8 * FULL * 256, 1 << 30), 256, np.uint32),
    Case(PLACES, "static_lds", 4 * CUS, "lds: 60 KiB, one workgroup per CU", _chain(1 << 18), 4 * CUS * 256, np.uint32),
    Case(PLACES, "dynamic_lds", 16 * CUS, "lds: 16 KiB per wavefront", _chain(1 << 18), 16 * CUS * 64, np.uint32, 64, 16384),
    Case(
        PLACES,
        "half_registers",
        32 * FULL,
        "vgpr: 2 wavefronts per SIMD, 4 B per lane in flight",
        _ramp(_STREAM),
        _STREAM,
    ),
    Case(PLACES, "long_loop", 1, "grid: one workgroup", _ramp(1024), 1024, np.float32, 1024),
    Case(PLACES, "long_loop", 100, "grid: 100 wavefronts", _ramp(1024), 6400, np.float32, 64),
    Case(PLACES, "long_loop", CUS, "grid: one wavefront per CU", _ramp(1024), CUS * 64, np.float32, 64),
    Case(LANES, "rare_work", 2 * FULL, "one lane in 32, by data", _random(2 * FULL * 256, 1 << 30), 2 * FULL * 256),
    Case(LANES, "eight_ways", 2 * FULL, "a switch over the lane", _ramp(1024), 2 * FULL * 256),
    Case(
        LANES,
        "own_trips",
        2 * FULL,
        "trips by data: 20 on average, 95 for the longest of 64",
        _trips(2 * FULL * 256),
        2 * FULL * 256,
        np.uint32,
    ),
    Case(LANES, "two_ways", 2 * FULL, "even and odd lanes", _ramp(1024), 2 * FULL * 256),
    Case(
        LANES,
        "mandelbrot",
        4 * 1216,
        "escape times differ between neighbours at the rim",
        _zeros(np.float32, 1),
        1024 * 1216,
        np.uint32,
        miss="the model fills only 4 % of the wavefront slots on average, which is not explained",
    ),
    Case(BANKS, "two_way", 2 * FULL, "2 lanes per bank", _ramp(128), 2 * FULL * 256),
    Case(BANKS, "four_way", 2 * FULL, "4 lanes per bank", _ramp(256), 2 * FULL * 256),
    Case(BANKS, "eight_way", 2 * FULL, "8 lanes per bank", _ramp(512), 2 * FULL * 256),
    Case(BANKS, "columns", 2 * FULL, "32 lanes per bank on every other access", _ramp(256), 2 * FULL * 256),
    Case(
        BANKS,
        "local_bins",
        2 * FULL,
        "random bins: about 5 of 64 lanes on the busiest bank",
        _random(256, 1 << 32),
        2 * FULL * 256,
        np.uint32,
    ),
    Case(LAUNCHES, "reset", 1, "one workgroup stores zeros", _none, 256, np.uint32),
    Case(LAUNCHES, "reset", FULL // 8, "76 kB of zeros", _none, FULL * 32, np.uint32),
    Case(LAUNCHES, "add_some", 16, "4096 sums", _ramp(4096, 4096), 4096),
)
"""Written and labelled after the rules, before they ran."""

UNSEEN = tuple(
    replace(case, suite="unseen")
    for case in (
        Case(BANDWIDTH, "split_triples", 64 * FULL, "dram: 12 B in, 12 B out", _ramp(192 * FULL * 256), 192 * FULL * 256),
        Case(BANDWIDTH, "softmax_rows", 131072, "dram: each row of 1024 read and written once", _ramp(1 << 27), 1 << 27),
        Case(BANDWIDTH, "reversed", 64 * FULL, "dram: 8 B in, 8 B out, backwards", _ramp(128 * FULL * 256), 128 * FULL * 256),
        Case(
            BANDWIDTH,
            "scale_halves",
            32 * FULL,
            "dram: 16 B in, 16 B out",
            _zeros(np.uint32, 128 * FULL * 256),
            128 * FULL * 256,
            np.uint32,
        ),
        Case(
            BANDWIDTH,
            "table_lookup",
            4 * FULL,
            "l2: every lane another line of 1 MiB",
            _random(1 << 18, 1 << 30),
            4 * FULL * 256,
            np.uint32,
        ),
        Case(
            BANDWIDTH,
            "lds_words",
            2 * FULL,
            "lds: 4 B per lane, no conflicts",
            _ramp(1024),
            2 * FULL * 256,
        ),
        Case(COMPUTE, "polynomial", 2 * FULL, "f32, two chains", _none, 2 * FULL * 256),
        Case(COMPUTE, "rotations", 2 * FULL, "integers", _none, 2 * FULL * 256, np.uint32),
        Case(COMPUTE, "divide_f64", 2 * FULL, "f64 division is a dozen FMA", _none, 2 * FULL * 256, np.float64),
        Case(COMPUTE, "sines", 2 * FULL, "transcendentals", _none, 2 * FULL * 256),
        Case(COMPUTE, "matrix_bf16", FULL, "matrix cores", _none, FULL * 256),
        Case(WAITING, "hash_probe", FULL, "one probe after the other in 128 MiB", _list(1 << 24), FULL * 256, np.uint32),
        Case(WAITING, "scan_1024", 608, "10 barriers for a scan", _ramp(1024), 608 * 1024, block=1024),
        Case(
            WAITING,
            "tickets",
            FULL,
            "each atomic needs the result of the previous one",
            _none,
            FULL * 256,
            np.uint32,
        ),
        Case(
            PLACES,
            "two_files",
            8 * CUS,
            "vgpr: 121 and 121 AGPR, 2 wavefronts per SIMD",
            _chain(1 << 16),
            8 * CUS * 256,
            np.uint32,
        ),
        Case(PLACES, "wide_scratchpad", 8 * CUS, "lds: 32 KiB per wavefront", _ramp(8192), 8 * CUS * 64, block=64),
        Case(PLACES, "few_readers", 30, "grid: 30 workgroups", _ramp(400 * 30 * 256 * 4), 30 * 256),
        Case(
            LANES, "triangle", 2 * FULL, "lane n makes 4 n rounds: half of the lanes on average", _none, 2 * FULL * 256, np.uint32
        ),
        Case(
            LANES,
            "sparse_rows",
            2 * FULL,
            "one lane in ten, by data",
            _random(2 * FULL * 256, 1 << 30),
            2 * FULL * 256,
            np.uint32,
        ),
        Case(LANES, "own_newton", 2 * FULL, "steps by data", _spread(2 * FULL * 256), 2 * FULL * 256),
        Case(BANKS, "f64_rows", 2 * FULL, "16 lanes on two banks", _zeros(np.float64, 1024), 2 * FULL * 256, np.float64),
        Case(BANKS, "sixteen_apart", 2 * FULL, "stores: 16 lanes on a bank", _ramp(1024), 2 * FULL * 256),
        Case(BANKS, "turned_tile", 2 * FULL, "32 lanes on a bank on every other access", _ramp(4096), 2 * FULL * 256),
        Case(LAUNCHES, "dot_1024", 1, "one workgroup, 8 KB", _ramp(1024, 1024), 1, block=1024),
        Case(LAUNCHES, "clamp_some", 100, "100 kB", _ramp(25600), 25600),
    )
)
"""Written and labelled after the rules were final."""

SUITES: Mapping[str, tuple[Case, ...]] = {"labelled": FIRST, "held_out": HELD_OUT, "unseen": UNSEEN}
"""Suites by the name of their source file."""
