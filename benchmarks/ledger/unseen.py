"""Unseen set: labelled before it ran, hidden from the authors of the rules, and run once after the rules were frozen.

The kernels imitate the style of other people: ported CUDA suites, a templated inference library, C codecs, scientific codes,
coursework. The limits behind the labels are those of `development`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.ledger.cases import CUS, FULL, Case, halves, integers, reals, room

if TYPE_CHECKING:
    from benchmarks.ledger.cases import Array

_PORTED, _TENSORS, _CODECS, _SCIENCE, _COURSE = (
    f"unseen/{name}.hip" for name in ("ported", "tensors", "codecs", "science", "coursework")
)
_GRID = ("small_grid",)
"""Accepted beside a latency if the grid, not registers or LDS, leaves few wavefronts: as many more would hide it."""


def _star(edges: int, vertices: int) -> Array:
    """Return destinations of which 2 in 5 are vertex 0."""
    found = integers(edges, vertices, np.int32)
    found[np.arange(edges) % 5 < 2] = 0
    return found


def _costs(jobs: int) -> Array:
    """Return rounds of jobs that grow with the square of their number up to 40, and 400 for the last 40 jobs."""
    costs = (40 * (np.arange(jobs) / jobs) ** 2).astype(np.int32) + 1
    costs[-40:] = 400
    return costs


def _prefixes(count: int) -> Array:
    """Return a dictionary whose entries refer to one of the 128 entries before them."""
    at = np.arange(count)
    return np.maximum(at - 1 - integers(count, 128).astype(np.int64), 0).astype(np.uint32)


def _ring(count: int) -> Array:
    order = np.random.default_rng(3).permutation(count)
    parent = np.empty(count, np.int32)
    parent[order] = np.roll(order, -1)
    return parent


UNSEEN = (
    # --- near a roof
    Case("near dram", _TENSORS, "dequantize_int8", (32 * FULL, 1, 1), 256,
         "159 MB read and 319 written, more than the 256 MiB of the MALL; 40 vector instructions per 1.5 KiB of a wavefront "
         "are 20 clocks, memory needs 240. The MALL keeps a part of it from the launch before",
         lambda: (integers(32 * FULL * 2048, 256, np.uint8), reals(32 * FULL * 16), room(32 * FULL * 2048, np.float16)),
         also=("near mall",)),
    Case("near mall", _TENSORS, "abs_max_f16", (FULL, 1, 1), 256,
         "134 MB that the MALL holds from the launch before, read once with 4 loads of 16 bytes in flight per lane; counters "
         "of L2 cannot tell the MALL from DRAM",
         lambda: (halves(1 << 26), room(FULL), np.int32(1 << 23)), also=("near dram",)),
    Case("near l2", _TENSORS, "weights_times_rows", (FULL, 1, 1), 256,
         "1 MiB of weights stay in each L2; every workgroup reads all, from another row on, so L1 (32 KiB) keeps nothing: 2.5 "
         "GB at 27.5 TB/s",
         lambda: (reals(1 << 18), reals(FULL * 1024), room(FULL * 1024), np.int32(256))),
    Case("near vector_l1", _SCIENCE, "synth", (FULL, 1, 1), 256,
         "a table of 16 KiB stays in L1; 16 clocks of its data path (and of the address pipe, which is the same number) per "
         "load of 1 KiB, 4 additions need 2",
         lambda: (reals(4096), room(FULL * 1024), np.int32(512), np.int32(1023)), also=("near vmem issue",)),
    Case("near lds", _SCIENCE, "fir", (FULL, 1, 1), 256,
         "one operand of LDS per FMA: 2 clocks of the CU per wavefront and tap, the FMA half a clock; 2.5 KiB of memory per "
         "1024 clocks",
         lambda: (reals(FULL * 8 * 256 + 512), reals(128), room(FULL * 8 * 256), np.int32(128), np.int32(8))),
    Case("near valu", _CODECS, "stretch_key", (4 * FULL, 1, 1), 256,
         "24 x 96 integer instructions per work-item, which are the algorithm; 4 bytes written",
         lambda: (room(4 * FULL * 256, np.uint32), integers(4, 1 << 32).view("V16")[0], np.int32(24))),
    Case("near valu", _SCIENCE, "implied_vol", (4 * FULL, 1, 1), 256,
         "12 Newton steps of 60 vector instructions and 6 of a quarter of the rate, for 8 bytes of memory",
         lambda: (reals(4 * FULL * 256), room(4 * FULL * 256), np.float32(1), np.float32(1.1), np.float32(0.5), np.int32(12))),
    Case("near valu", _SCIENCE, "chebyshev", (2 * FULL, 1, 1), 256,
         "2 x 4 float64 FMA per step, 200 steps, which issue alone: 4 clocks each; 8 wavefronts per SIMD",
         lambda: (room(2 * FULL * 256, np.float64), np.int32(200))),
    Case("near valu", _SCIENCE, "kde", (FULL, 1, 1), 256,
         "an exponential (16 clocks of a SIMD) and 5 instructions per source: 26 clocks of the SIMD; LDS needs 4 per "
         "wavefront, 16 per round of the SIMDs",
         lambda: (reals(512, 2), reals(FULL * 256, 2), room(FULL * 256), np.int32(512), np.float32(-3))),
    Case("near matrix cores", _TENSORS, "two_layers_64", (3 * CUS, 1, 1), 256,
         "32 matrix instructions of 16 clocks per wavefront and block: 512 clocks of a SIMD beside 64 vector instructions (128 "
         "to 256) and 16 LDS reads of 4; 3 wavefronts per SIMD; the next block is loaded meanwhile",
         lambda: (halves(3 * CUS * 128 * 64), halves(64 * 64 * 64), reals(64 * 64), room(3 * CUS * 2048), np.int32(64)),
         miss="the kernel reaches 53 % of the matrix cores: the label overlooked barriers and the stores to LDS"),
    Case("near salu", _SCIENCE, "modular_power", (FULL, 1, 1), 256,
         "all arithmetic is uniform: 10 scalar instructions of 4 clocks per bit and wavefront, 8 wavefronts share the scalar "
         "port of a SIMD: 320 clocks for a chain of 80",
         lambda: (integers(FULL * 4, 1 << 32), room(FULL * 4, np.uint32), np.uint32(0xC3A5F00D), np.int32(12)),
         miss="scalar instructions beside no vector work are the work, which the ledger calls overhead"),
    # --- launch
    Case("launch_overhead", _PORTED, "bn_finalize", (1, 1, 1), 64,
         "64 channels of 2 partial sums: 4 loads of 256 bytes, about 1 us with the start; an empty dispatch lasts 2.4 us",
         lambda: (reals(128), reals(128), room(64), room(64), np.int32(2), np.float32(0.5))),
    Case("launch_overhead", _PORTED, "clear_counters", (32, 1, 1), 256,
         "32 KiB of zeros; an empty dispatch lasts 2.4 us",
         lambda: (room(8192, np.uint32), np.int32(8192))),
    Case("small_grid", _PORTED, "beam_argmax", (16, 1, 1), 256,
         "16 beams: 16 of 304 CUs work; 16 parts of the vocabulary per beam would use 256",
         lambda: (reals(16 * 32768), room(16, np.int32), np.int32(32768))),
    Case("small_grid", _SCIENCE, "implied_vol", (64, 1, 1), 256,
         "64 workgroups on 304 CUs; 79 % of the GPU idle for 100 us of arithmetic",
         lambda: (reals(64 * 256), room(64 * 256), np.float32(1), np.float32(1.1), np.float32(0.5), np.int32(400))),
    Case("tail", _TENSORS, "resident_mlp", (330, 1, 1), 256,
         "40 KiB of LDS: one workgroup per CU, 330 on 304 CUs: two rounds for 1.09, 46 % lost; LDS is busy half of the time",
         lambda: (reals(330 * 256 * 32), reals(10 * 1024), room(330 * 256 * 32))),
    Case("tail", _PORTED, "pair_distances", (304, 1, 1), 256,
         "block b visits b / 4 + 1 levels and all start together: the last one has 76, the mean is 38.5: half of the time most "
         "CUs idle",
         lambda: (reals(304 * 256, 4), room(304 * 256))),
    Case("low_occupancy", _CODECS, "build_bitmap", (2 * CUS, 1, 1), 64,
         "60 KiB of LDS for 64 work-items: one wavefront per CU with one load of 256 bytes in flight",
         lambda: (integers(2 * CUS * 8192, 1 << 32), room(2 * CUS * 15360, np.uint32), np.int32(8192))),
    # --- memory
    Case("memory_latency", _PORTED, "moving_energy", (CUS, 1, 1), 256,
         "every tile is loaded, waited for and used between barriers: 1 KiB per CU and 600 clocks or more, 1.7 B/clk of 8.6. "
         "The grid leaves 1 wavefront per SIMD: more workgroups would hide it as well",
         lambda: (reals(CUS * 256 * 128), room(CUS * 256), np.int32(128)), also=_GRID,
         miss="the emulator reported the noise of its sample as imbalance of the L2 channels, corrected afterwards"),
    Case("memory_latency", _SCIENCE, "replay_log", (2 * CUS, 1, 1), 512,
         "each block of 256 bytes names the next one: 226 clocks of L2 and 60 of issue; 16 wavefronts have 14 B/clk of 43, "
         "twice the wavefronts would halve the time, independent loads third it",
         lambda: (integers(1 << 19, 1 << 30), room(2 * CUS * 512, np.uint32), np.int32(300), np.uint32(8191))),
    Case("uncoalesced_access", _PORTED, "invert_mapping", (FULL, 1, 1), 256,
         "rows of 34 features: lanes read 136 bytes apart, a line each: 64 clocks of the address pipe for 256 bytes, and lines "
         "that 32 wavefronts evict before their next word is read",
         lambda: (reals(FULL * 256 * 34), room(FULL * 256 * 34), np.int32(FULL * 256), np.int32(34))),
    Case("uncoalesced_access", _PORTED, "mesh_height", (FULL, 1, 1), 256,
         "4 bytes of each vertex of 128: 159 MB move for 5",
         lambda: (reals(FULL * 512 * 32), room(FULL), np.int32(FULL * 512))),
    Case("uncoalesced_access", _SCIENCE, "permute", (8 * FULL, 1, 1), 256,
         "every lane stores 4 bytes to another line: 64 requests to L2 per wavefront instead of 4",
         lambda: (reals(8 * FULL * 256), np.random.default_rng(2).permutation(8 * FULL * 256).astype(np.int32),
                  room(8 * FULL * 256))),
    Case("uncoalesced_access", _SCIENCE, "probe", (8 * FULL, 1, 1), 256,
         "every lane fetches a line of 128 bytes of 64 MiB for 8: 640 MB move for 80",
         lambda: (integers(8 * FULL * 256, 1 << 32), integers(1 << 24, 1 << 32), room(8 * FULL * 256, np.uint32),
                  np.uint32((1 << 23) - 1))),
    Case("memory_backpressure", _CODECS, "binary_pattern", (16, 128, 1), 256,
         "13 loads and a store of one byte per lane: 50 clocks of the address pipe, 30 vector instructions need 15; 8 MiB. A "
         "full address pipe is also its roof",
         lambda: (integers(2056 * 4104, 256, np.uint8), room(2056 * 4104, np.uint8), np.int32(4104), np.int32(16)),
         also=("near vmem issue", "near vector_l1")),
    Case("atomic_contention", _PORTED, "in_degree", (FULL, 1, 1), 256,
         "2 of 5 edges end at one vertex: 25 lanes of a wavefront add to one word, 20 clocks each: 9,728 x 500 clocks",
         lambda: (_star(FULL * 256, 100000), room(100000, np.int32), np.int32(FULL * 256))),
    Case("atomic_contention", _PORTED, "collect_hits", (8 * FULL, 1, 1), 256,
         "77,824 additions to one counter, 4 clocks each: 148 us; reading 20 MB from the MALL takes 4",
         lambda: (reals(8 * FULL * 256), room(8 * FULL * 256, np.int32), room(1, np.int32), np.float32(0.5),
                  np.int32(8 * FULL * 256))),
    Case("register_spills", _SCIENCE, "relax_patch", (2 * CUS, 1, 1), 256,
         "196 cells in 128 registers: 640 words per work-item are stored and loaded in every sweep, 320 KiB per wavefront, "
         "from 188 MB of scratch that exceed L2: 37,000 clocks at 8.6 B/clk beside 784 vector instructions (400 clocks); 392 "
         "accesses of data in all",
         lambda: (reals(196 * 2 * CUS * 256), room(196 * 2 * CUS * 256), np.int32(4))),
    Case("register_spills", _SCIENCE, "invert_10", (2 * CUS, 1, 1), 256,
         "the matrix is indexed at run time, so its 110 floats are in scratch: 1,000 dependent accesses per work-item, 110 of "
         "memory",
         lambda: (reals(100, 2 * CUS * 256) + np.repeat(np.eye(10, dtype=np.float32).reshape(100, 1) * 5, 2 * CUS * 256, 1),
                  room(10 * 2 * CUS * 256), np.int32(2 * CUS * 256))),
    # --- LDS
    Case("lds_bank_conflicts", _CODECS, "haar_rows", (2 * FULL, 1, 1), 64,
         "a lane per row of 64 words: all lanes on one bank, 64 clocks instead of 2 for 224 accesses: 14,000 clocks; 32 KiB of "
         "memory 3,800",
         lambda: (reals(2 * FULL * 4096), np.int32(3))),
    Case("lds_bank_conflicts", _CODECS, "integral_rows", (2 * CUS, 1, 1), 256,
         "a lane per row of 32 words: 32 lanes on one bank, 64 clocks instead of 2 for 8 x 64 accesses",
         lambda: (reals(2 * CUS * 8192), room(2 * CUS * 8192), np.int32(8)),
         miss="the compiler keeps a row in registers between the repeats; a tenth of the expected conflicts remains"),
    Case("lds_latency", _CODECS, "follow_prefixes", (2 * CUS, 1, 1), 256,
         "chains of about 58 LDS reads that all lanes share: 64 clocks each and 50 of dependent instructions; 8 wavefronts per "
         "CU use 16 of 110 clocks of LDS. 30 KiB of LDS admit no more: occupancy is equal",
         lambda: (_prefixes(7680), integers(4096, 7680), room(2 * CUS * 256, np.uint32), np.int32(24)), also=("low_occupancy",)),
    # --- synchronisation and instructions
    Case("barrier_imbalance", _SCIENCE, "assemble_and_solve", (2 * CUS, 1, 1), 512,
         "the first of 8 wavefronts makes 16 sweeps of 64 LDS reads (12,000 clocks) while 7 wait; all together load for 1,500",
         lambda: (reals(2 * CUS * 4 * 4096), room(2 * CUS * 4 * 64), np.int32(4), np.int32(16))),
    Case("divergence", _PORTED, "smallest_factor", (FULL, 1, 1), 256,
         "one odd number in 6 is prime and needs 158 steps, a third ends after one: a fifth of the lanes works on average",
         lambda: (integers(FULL * 256, 25000) * 2 + 50001, room(FULL * 256, np.uint32))),
    Case("divergence", _SCIENCE, "shade", (2 * FULL, 1, 1), 256,
         "8 materials at random: each of the branches runs for 8 of 64 lanes",
         lambda: (integers(2 * FULL * 256, 8, np.uint8), reals(256, 4), room(2 * FULL * 256))),
    Case("instruction_overhead", _CODECS, "apply_gamma", (FULL, 1, 1), 256,
         "four float64 powers, 150 or more instructions each, for 4 bytes that a table of 256 entries would map; all vector "
         "slots are busy, which is a roof as well",
         lambda: (integers(FULL * 256, 1 << 32), room(FULL * 256, np.uint32), np.float64(2.2)), also=("near valu",)),
    Case("instruction_overhead", _TENSORS, "im2col_any", (FULL, 1, 1), 256,
         "fifteen 64-bit divisions for a load and a store of 4 bytes, which are coalesced: 300 instructions or more (150 "
         "clocks) for 512 bytes (60 clocks of the MALL); all vector slots are busy, which is a roof as well",
         lambda: (reals(8 * 32 * 58 * 58), room(8 * 32 * 9 * 56 * 56), np.int64(8 * 32 * 9 * 56 * 56), np.int64(32), np.int64(58),
                  np.int64(58), np.int64(3), np.int64(56), np.int64(56)), also=("near valu",)),
    Case("dependency", _TENSORS, "markov_power", (CUS, 1, 1), 256,
         "each product needs the last one: 32 clocks of matrix latency and 8 conversions, 70 clocks for 16 of the matrix core. "
         "The grid leaves one wavefront per SIMD; more would fill the gaps as well",
         lambda: (reals(256), room(CUS * 1024), np.int32(600)), also=("low_occupancy", *_GRID)),
    Case("scalar_latency", _CODECS, "run_program", (FULL, 1, 1), 64,
         "every instruction names the next one: a scalar load beyond the scalar cache (1 MiB, random), 250 clocks, and 40 of "
         "work. The grid leaves 2 wavefronts per SIMD",
         lambda: (integers(1 << 18, 1 << 30).reshape(-1, 4), reals(64), room(FULL * 64), np.int32(300),
                  np.uint32(65535)),
         also=_GRID),
    Case("scalar_latency", _SCIENCE, "tree_walk", (2 * FULL, 1, 1), 64,
         "one scalar load per step, of 4 MiB in random order: 250 clocks and 50 of instructions; 4 wavefronts per SIMD, which "
         "the grid limits",
         lambda: (_ring(1 << 20), room(2 * FULL * 64), np.int32(1 << 20), np.int32(250)), also=_GRID),
    Case("instruction_cache", _CODECS, "sbox_network", (CUS, 1, 1), 256,
         "more than 60 KiB of straight-line code, each line of 64 bytes executed once: 100 clocks to fetch, 30 to issue; one "
         "wavefront per SIMD, all at the same place",
         lambda: (integers(CUS * 256 * 40, 1 << 32),)),
    # --- coursework
    Case("near dram", _COURSE, "triad", (32 * FULL, 1, 1), 256,
         "159 MB each of a, b and c, more than the 256 MiB of the MALL, which keeps a part from the launch before; one FMA for "
         "24 bytes",
         lambda: (np.ones(32 * FULL * 256), np.ones(32 * FULL * 256), room(32 * FULL * 256, np.float64), np.float64(3)),
         also=("near mall",)),
    Case("uncoalesced_access", _COURSE, "matmul_v0", (2, 512, 1), 256,
         "lanes read rows of A that are 2 KiB apart: 64 lines for 256 bytes in every step, 64 clocks of the address pipe "
         "beside 4 for B, which all lanes share, and half a clock for the FMA",
         lambda: (reals(512 * 512), reals(512 * 512), room(512 * 512), np.int32(512)),
         miss="the emulator reported the noise of its sample as imbalance of the L2 channels, corrected afterwards"),
    Case("atomic_contention", _COURSE, "dot_v0", (FULL, 1, 1), 256,
         "every lane adds to one of two words of one line: 32 lanes each, 20 clocks per further lane: 4 x 9,728 x 1,200 clocks",
         lambda: (integers(FULL * 1024, 100, np.int32), integers(FULL * 1024, 100, np.int32), room(2, np.uint64), np.int32(4))),
    Case("barrier_imbalance", _COURSE, "sort_block", (4 * CUS, 1, 1), 512,
         "the first of 8 wavefronts sorts, 64 phases of 4 exchanges through LDS (20,000 clocks), the others load, wait and "
         "store (2,000)",
         lambda: (reals(4 * CUS * 512), np.int32(64))),
    Case("memory_backpressure", _COURSE, "life_step", (16, 128, 1), 256,
         "10 accesses of one byte per lane, 7 if neighbours are joined: 28 clocks or more of the address pipe, 30 vector "
         "instructions need 15; 8 MiB. A full address pipe is also its roof",
         lambda: (integers(2056 * 4104, 2, np.uint8), room(2056 * 4104, np.uint8), np.int32(4104), np.int32(16)),
         also=("near vmem issue", "near vector_l1"),
         miss="16 us are too short for the label: the address pipe needs 6.6 of them"),
    Case("small_grid", _COURSE, "integrate", (32, 1, 1), 256,
         "32 workgroups on 304 CUs, 2,000 samples per work-item",
         lambda: (room(32 * 256), np.float32(1e-5), np.int32(2000))),
    Case("lds_bank_conflicts", _COURSE, "small_products", (4 * CUS, 1, 1), 256,
         "lanes read rows of 16 doubles (32 banks) at the same column: 16 lanes on two banks, 16 times the clocks of a row",
         lambda: (np.ones(4 * CUS * 1024), np.ones(4 * CUS * 1024), room(4 * CUS * 1024, np.float64))),
    Case("divergence", _COURSE, "hailstone", (FULL, 1, 1), 256,
         "sequences of 108 steps on average, 230 and more for the longest of 64: half of the lanes are off or more",
         lambda: (room(FULL * 256, np.uint32), np.uint32(3))),
    Case("instruction_overhead", _COURSE, "tensor_pad", (FULL, 1, 1), 256,
         "four 64-bit divisions with remainder per element of 4 bytes: 200 instructions or more (100 clocks) for 512 bytes (60 "
         "clocks of the MALL); all vector slots are busy, which is a roof as well",
         lambda: (reals(8 * 20 * 24 * 32 * 68), room(8 * 20 * 24 * 32 * 64), np.uint64(8 * 20 * 24 * 32 * 64), np.uint64(20),
                  np.uint64(24), np.uint64(32), np.uint64(64), np.uint64(4)), also=("near valu",),
         miss="64-bit divisions of small numbers use a path of 32 bits: the kernel is at the roof of memory, as found"),
    Case("small_grid", _COURSE, "maximum_v0", (1, 1, 1), 1024,
         "one workgroup reads 4 MiB: one CU of 304 limited by its loads in flight, 100 us and more",
         lambda: (reals(1 << 20), room(1), np.int32(1 << 20))),
    Case("memory_latency", _COURSE, "chain_rows", (CUS, 1, 1), 1024,
         "every row of 256 bytes names the next one, 1 MiB in L2: 226 clocks and 60 of issue per step; 16 wavefronts have 14 "
         "B/clk of 43",
         lambda: (integers(1 << 18, 1 << 30, np.int32), room(CUS * 1024, np.int32), np.int32(300), np.int32(4096))),
    Case("low_occupancy", _COURSE, "follow_samples", (FULL, 1, 1), 256,
         "224 coefficients in registers leave 2 of 8 wavefronts per SIMD, which wait for one row of 256 bytes in L2 per step: "
         "7 B/clk of 43; 8 wavefronts would need a quarter of the time",
         lambda: (integers(1 << 18, 1 << 30, np.int32), reals(224 * 64), room(FULL * 256), np.int32(150), np.int32(4096))),
    Case("tail", _COURSE, "sorted_jobs", (2 * FULL, 1, 1), 256,
         "costs grow with the square of the number of the workgroup, 14 rounds on average, and the last 40 have 400: they "
         "start last and run alone",
         lambda: (_costs(2 * FULL), room(2 * FULL * 256))),
)  # fmt: skip
"""Labelled before any of them ran."""
