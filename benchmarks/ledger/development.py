"""Development set: the rules of the ledger may be corrected with it.

Per compute unit and clock (2.1 GHz) an MI300X reaches 6.3 bytes of DRAM, 8.6 of the Infinity Cache (MALL), 43 of L2, 64 of L1 and
128 of LDS; 2 vector instructions per SIMD in 4 clocks, 1 of matrix 32x32x8 in 32; the address pipe needs 4 clocks per instruction
and at least one per line of 128 bytes. Latencies in clocks: LDS 64, L1 130, L2 226, MALL 480, DRAM 870; scalar loads 40 to 250.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.ledger.cases import CUS, FULL, Case, halves, integers, reals, room

if TYPE_CHECKING:
    from benchmarks.ledger.cases import Array

_LA, _ML, _IMAGE, _PHYSICS, _DATA, _VARIED, _FURTHER = (
    f"development/{name}.hip" for name in ("linear_algebra", "neural", "image", "physics", "data", "varied", "further")
)


_BEYOND_L2 = (
    "the MALL keeps a third of a working set of 400 to 480 MB from the launch before, so 6 TB/s leave L2 while DRAM works at its "
    "4 TB/s; counters of L2 do not tell the two apart"
)


def _starts(rows: int, each: int) -> Array:
    return np.arange(rows + 1, dtype=np.int32) * each


def _band(rows: int, each: int) -> Array:
    at = np.arange(rows * each)
    return (at // each % 65000 + at % each).astype(np.int32)


def _giant_row() -> tuple[Array, Array, Array]:
    """Return starts, columns and values of 19456 rows of 64 elements, but row 9000 of 262,144."""
    lengths = np.full(8 * FULL, 64)
    lengths[9000] = 1 << 18
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return starts, integers(int(starts[-1]), 8 * FULL, np.int32), reals(int(starts[-1]))


def _tree() -> tuple[Array]:
    """Return the keys of a search tree of three levels with 64 children each, level after level."""
    leaves = np.sort(integers(64**3, 1 << 30))
    return (np.concatenate([leaves[4095::4096], leaves[63::64], leaves]),)


def _lists(cells: int, each: int) -> tuple[Array, Array]:
    """Return heads and successors of `cells` lists of `each` nodes in random order."""
    order = np.random.default_rng(1).permutation(cells * each).astype(np.int32).reshape(cells, each)
    following = np.full(cells * each, -1, np.int32)
    following[order[:, :-1]] = order[:, 1:]
    return order[:, 0].copy(), following


def _ragged(rows: int) -> tuple[Array, Array]:
    """Return starts and values of rows of 1024 elements, but 8 of 262,144."""
    lengths = np.full(rows, 1024)
    lengths[np.arange(8) * 97 + 3500] = 1 << 18
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return starts, reals(int(starts[-1]))


def _forest(nodes: int) -> Array:
    """Return a random earlier node as the parent of each node."""
    return (np.random.default_rng(1).random(nodes) * np.arange(nodes)).astype(np.int32)


def _points(count: int) -> Array:
    """Return points of the complex plane of which one in 16 is in the Mandelbrot set, in random order."""
    points = np.stack([reals(count) + 0.5, reals(count)], axis=1)
    points[integers(count, 16) == 0] = (-0.1, 0.1)
    return points


def _documents(count: int) -> tuple[Array, Array]:
    """Return starts and characters of documents of 512 characters, but 4 of 200,000."""
    lengths = np.full(count, 512)
    lengths[np.arange(4) * 211 + 3900] = 200_000
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return starts, integers(int(starts[-1]), 256)


def _dark_image(pixels: int) -> Array:
    """Return RGBA pixels of which 15 of 16 are black."""
    image = integers(4 * pixels, 256, np.uint8).reshape(pixels, 4)
    image[np.arange(pixels) % 16 != 3] = 0
    return image


DEVELOPMENT = (
    # --- near a roof
    Case("near dram", _LA, "axpby", (24 * FULL, 1, 1), 256,
         "478 MB read and 239 written, of vectors of 239 MB each: more than the 256 MiB of the MALL; 170 us of DRAM at 4.2 "
         "TB/s beside 2 us of arithmetic",
         lambda: (reals(24 * FULL * 1024), room(24 * FULL * 1024), np.float32(2), np.float32(0.5)),
         also=("near mall",), corrected=_BEYOND_L2),
    Case("near dram", _ML, "rms_norm", (24576, 1, 1), 256,
         "201 MB read once and 201 written once; 60 vector instructions per 2 KiB of a wavefront are 30 clocks per SIMD pair, "
         "DRAM needs 325",
         lambda: (halves(24576 * 4096), halves(4096), room(24576 * 4096, np.float16)),
         also=("near mall",), corrected=_BEYOND_L2),
    Case("near mall", _LA, "dot", (FULL, 1, 1), 256,
         "two vectors of 64 MiB are in the MALL from the launch before and too large for L2 (8 x 4 MiB): 134 MB at 5.5 TB/s. "
         "The counters of L2 cannot tell the MALL from DRAM, whose roof is as near",
         lambda: (reals(1 << 24), reals(1 << 24), room(FULL), np.int32(1 << 22)), also=("near dram",)),
    Case("near l2", _ML, "embedding_bag", (4 * FULL, 1, 1), 128,
         "the table of 2 MiB stays in each L2; 64 rows of 2 KiB per workgroup, coalesced, 8 loads in flight: 1.3 GB at 27.5 "
         "TB/s; every XCD reads all, L1 holds 32 KiB of 2 MiB",
         lambda: (reals(1 << 19), integers(4 * FULL * 64, 1024, np.int32), room(4 * FULL * 512), np.int32(64))),
    Case("near vector_l1", _LA, "codebook_products", (FULL, 1, 1), 256,
         "24 KiB of codebook stay in L1 (32 KiB); a load of 1 KiB needs 16 clocks at 64 B/clk, its 4 FMA 2",
         lambda: (reals(FULL * 1024), reals(24 * 256), room(FULL * 1024), np.int32(24), np.int32(16)),
         also=("near vmem issue",),
         corrected="the 16 clocks of L1 data are the 16 clocks for which the address pipe is busy: one number, two names"),
    Case("near lds", _LA, "sgemm_16", (64, 64, 1), 256,
         "two LDS operands per FMA: at least 4 clocks of LDS per wavefront and step, the FMA needs half a clock of the CU; 8 "
         "B/clk of global loads per CU come from L2",
         lambda: (reals(1024 * 256), reals(256 * 1024), room(1 << 20), np.int32(1024), np.int32(256))),
    Case("near valu", _PHYSICS, "gravity", (FULL, 1, 1), 256,
         "17 vector instructions and a square root (16 clocks of a SIMD) per body: about 12.5 clocks of the CU per wavefront; "
         "the read of 16 bytes from LDS that all lanes share needs 8; almost no memory",
         lambda: (reals(FULL * 256, 4), room(FULL * 1024), np.int32(256))),
    Case("near valu", _DATA, "polynomials", (2 * FULL, 1, 1), 256,
         "3072 FMA per work-item, 4 bytes written: 8 wavefronts per SIMD fill both issue ports",
         lambda: (room(2 * FULL * 256), reals(4).view("V16")[0])),
    Case("near valu", _DATA, "sha256_nonces", (4 * FULL, 1, 1), 256,
         "1,600 integer instructions per work-item, all of the algorithm, 4 bytes written; code of 13 KiB fits the instruction "
         "cache",
         lambda: (room(4 * FULL * 256, np.uint32), np.uint32(7))),
    Case("near valu", _IMAGE, "bilateral", (128, 64, 1), 256,
         "49 exponentials of 16 clocks and 6 simple instructions each per pixel: 28 clocks per tap and SIMD; LDS needs 2 per "
         "tap and wavefront, 8 per CU and round of 4 SIMDs",
         lambda: (reals(1030 * 2054), room(1030 * 2054), np.int32(2054), np.float32(-0.05), np.float32(-9.0))),
    Case("near matrix cores", _ML, "best_match", (3 * CUS, 1, 1), 256,
         "8 matrix instructions (256 clocks of a SIMD) per 32 x 32 scores; beside them 16 maxima (64 clocks) and 8 LDS reads "
         "of 4 clocks run on other units; 16 KiB of database per chunk and workgroup are 4 B/clk",
         lambda: (halves(3 * CUS * 128 * 64), halves(32 * 128 * 64), room(3 * CUS * 4096), np.int32(32))),
    # --- launch
    Case("launch_overhead", _ML, "add_bias", (64, 1, 1), 256,
         "64 KiB: less than 1 us of work, an empty dispatch lasts 2.4 us",
         lambda: (reals(64 * 256), reals(256))),
    Case("launch_overhead", _ML, "clip_factor", (1, 1, 1), 256,
         "one workgroup adds 1024 numbers: 4 loads in flight together, about 1 us with the start of the wavefronts; an empty "
         "dispatch lasts 2.4 us",
         lambda: (reals(1024), room(1), np.int32(1024), np.float32(1))),
    Case("small_grid", _DATA, "sum_squares", (40, 1, 1), 256,
         "40 of 304 CUs read 64 MiB; all would share the 8.6 B/clk of the MALL, a CU alone has few loads in "
         "flight",
         lambda: (reals(1 << 24), room(40 * 256), np.int32(1 << 22))),
    Case("small_grid", _ML, "decode_attention", (32, 1, 1), 256,
         "32 workgroups (batch 4, 8 heads) on 304 CUs: 89 % of the GPU has no work; 4096 keys split in 9 parts would use all",
         lambda: (halves(32 * 128), halves(32 * 2048 * 128), halves(32 * 2048 * 128), room(32 * 128), np.int32(2048))),
    Case("tail", _LA, "sgemm_tn_128x192", (20, 16, 1), 512,
         "40 KiB of LDS: one workgroup per CU, 320 workgroups on 304 CUs: the second round uses 16 CUs, 320/304 rounds would "
         "do: 47 % lost",
         lambda: (reals(192 * 2048), reals(192 * 3840), room(2048 * 3840), np.int32(2048), np.int32(3840), np.int32(192))),
    Case("tail", _LA, "spmv_row_per_wave", (2 * FULL, 1, 1), 256,
         "one row of 262,144 elements among 19,456 rows of 64: its wavefront makes 4,096 dependent rounds of loads, the others "
         "one",
         lambda: (*_giant_row(), reals(8 * FULL), room(8 * FULL))),
    Case("low_occupancy", _IMAGE, "joint_histogram", (2 * CUS, 1, 1), 64,
         "56 KiB of LDS for 64 work-items: one wavefront per CU, on one of 4 SIMDs, with one load of 256 bytes in flight: 0.3 "
         "B/clk of 8.6; 16 wavefronts could share the bins",
         lambda: (integers(2 * CUS * 8192, 14336, np.int32), room(14336, np.uint32), np.int32(8192))),
    Case("low_occupancy", _PHYSICS, "weighted_chains", (FULL, 1, 1), 256,
         "244 registers: 2 of 8 wavefronts per SIMD; each waits for one row of 256 bytes in L2 (226 clocks) per step: 7 B/clk "
         "of 43; 8 wavefronts per SIMD would need a quarter of the time, at 27 B/clk",
         lambda: (integers(1 << 19, 1 << 30), reals(240 * 64), room(FULL * 256), np.int32(150), np.uint32(8191))),
    # --- memory
    Case("memory_latency", _PHYSICS, "markov_chains", (CUS, 1, 1), 1024,
         "every step waits for one row of 256 bytes from L2 (226 clocks and 60 of issue): 16 wavefronts have 14 B/clk of 43; "
         "twice the wavefronts would halve the time, independent loads third it",
         lambda: (integers(1 << 19, 1 << 30), room(CUS * 1024, np.uint32), np.int32(400), np.uint32(8191))),
    Case("memory_latency", _DATA, "tree_lookups", (CUS, 1, 1), 1024,
         "three levels of 64 keys, each load of 256 bytes from L2 decides the next: 226 clocks and 80 of dependent "
         "instructions per level; 16 wavefronts have 13 B/clk of 43 in flight; twice the wavefronts would halve the time, two "
         "keys at a time as well, four third it",
         lambda: (*_tree(), integers(CUS * 16 * 64, 1 << 30), room(CUS * 16 * 64, np.uint32), np.int32(64))),
    Case("uncoalesced_access", _ML, "layer_norm_tokens", (2 * CUS, 1, 1), 256,
         "lanes read rows 512 bytes apart: 64 lines per load instead of 4, and 8 wavefronts of 64 lines each (64 KiB, one set "
         "of L1) evict each other: 128 bytes fetched for 4 or 16 used",
         lambda: (reals(2 * CUS * 256 * 128), reals(128), room(2 * CUS * 256 * 128), np.int32(128))),
    Case("uncoalesced_access", _LA, "transpose", (8, 2048, 1), 256,
         "each store of a wavefront writes 4 bytes to 64 lines: 64 clocks of the address pipe and 64 requests to L2 instead of "
         "4",
         lambda: (reals(2048 * 2048).view(np.uint32), room(2048 * 2048, np.uint32), np.int32(2048))),
    Case("uncoalesced_access", _LA, "spmv_row_per_item", (FULL, 1, 1), 256,
         "all rows have 16 elements: lanes are 64 bytes apart in columns and values, 32 lines per load instead of 2 for 256 "
         "useful bytes; neighbouring rows have neighbouring columns, so x is in L1",
         lambda: (_starts(FULL * 256, 16), _band(FULL * 256, 16), reals(FULL * 256 * 16), reals(65536), room(FULL * 256))),
    Case("uncoalesced_access", _ML, "logits_direct", (1024, 1, 1), 256,
         "lanes of a fragment are a row (1 KiB) apart: 32 lines per load of 8 bytes per lane, 2 loads per matrix instruction "
         "of 32 clocks; 128 clocks of the address pipe per CU for what LDS would read in 16",
         lambda: (halves(2048 * 512), halves(2048 * 512), room(2048 * 2048), np.int32(128), np.int32(2048))),
    Case("uncoalesced_access", _PHYSICS, "total_energy", (4 * FULL, 1, 1), 256,
         "4 of every 128 bytes are used: 319 MB move for 10 MB",
         lambda: (reals(4 * FULL * 256 * 32), room(4 * FULL * 4))),
    Case("uncoalesced_access", _IMAGE, "grade", (2 * FULL, 1, 1), 256,
         "8 random entries of a table of 512 KiB per pixel: 64 lines of 128 bytes from L2 per load of 1 KiB; 190 clocks of L2 "
         "per load instead of 24",
         lambda: (integers(2 * FULL * 256 * 4, 256, np.uint8), reals(1 << 15, 4), room(2 * FULL * 256 * 4, np.uint8))),
    Case("memory_backpressure", _IMAGE, "box_filter_8", (16, 2048, 1), 256,
         "25 loads of one byte per lane: 100 clocks of the address pipe for 1.6 KiB, which 4 bytes per lane would read in a "
         "quarter; 60 vector instructions need 30; the image is 8 MiB. A full address pipe is also its roof",
         lambda: (integers(2056 * 4104, 256, np.uint8), room(2056 * 4104, np.uint8), np.int32(4104)),
         also=("near vmem issue", "near vector_l1")),
    Case("atomic_contention", _IMAGE, "luminance_histogram", (FULL, 1, 1), 256,
         "15 of 16 pixels are black: 60 lanes of a wavefront add to one word, 20 clocks each on the one line: 9,728 x 1,200 "
         "clocks",
         lambda: (_dark_image(FULL * 256), room(256, np.uint32))),
    Case("atomic_contention", _DATA, "count_flags", (16 * FULL, 1, 1), 256,
         "155,648 additions to one word, 4 clocks each: 296 us; reading 40 MB from the MALL takes 8",
         lambda: (integers(16 * FULL * 256, 2), room(1, np.uint32))),
    Case("register_spills", _LA, "sgemm_tn_64regs", (32, 19, 1), 256,
         "64 accumulators and 16 operands in 64 registers: 287 spilled; 70 registers of scratch per step of 64 FMA are many "
         "times the LDS reads",
         lambda: (reals(64 * 2432), reals(64 * 4096), room(2432 * 4096), np.int32(2432), np.int32(4096), np.int32(64))),
    Case("register_spills", _IMAGE, "median_49", (4, 152, 1), 256,
         "the window of 49 floats is indexed at run time, so it is in scratch: about 600 dependent accesses per pixel, 49 "
         "loads of the image",
         lambda: (integers(158 * 1030, 1 << 20).astype(np.float32), room(158 * 1030), np.int32(1030))),
    # --- LDS
    Case("lds_bank_conflicts", _LA, "sgemm_nt_32", (32, 32, 1), 256,
         "lanes read a column of a tile with rows of 32 words: 32 lanes on one bank (8 for reads of 16 bytes), 64 clocks for 4 "
         "or 16",
         lambda: (reals(1024 * 256), reals(1024 * 256), room(1 << 20), np.int32(1024), np.int32(256))),
    Case("lds_bank_conflicts", _LA, "batched_lu", (FULL, 1, 1), 64,
         "a lane per row of 32 words: every read and write of the elimination has 32 lanes on one bank, 64 clocks and more for "
         "2",
         lambda: (np.tile((np.eye(32, dtype=np.float32) * 40 + reals(32, 32)).reshape(-1), 2 * FULL),)),
    Case("lds_latency", _DATA, "decode_states", (2 * CUS, 1, 1), 256,
         "a chain of LDS reads: 64 clocks, and 30 of dependent instructions; 8 wavefronts per CU use 16 of 90 clocks of LDS "
         "and 40 of issue. 32 KiB of LDS admit no more: occupancy is equal by arithmetic",
         lambda: (integers(8192, 1 << 32), room(2 * CUS * 256, np.uint32), np.int32(1000)), also=("low_occupancy",)),
    # --- synchronisation and instructions
    Case("barrier_imbalance", _IMAGE, "quantise_groups", (2 * CUS, 1, 1), 1024,
         "the first of 16 wavefronts iterates 4 x 64 values (25,000 clocks) while 15 wait at the barrier; the shared part "
         "needs 2,000",
         lambda: (reals(2 * CUS * 2048), room(2 * CUS * 2048, np.uint8), np.int32(2), np.int32(4))),
    Case("divergence", _PHYSICS, "photon_paths", (FULL, 1, 1), 256,
         "absorption 0.05: 20 steps on average, 95 for the longest of 64 lanes: 21 % of the lanes work; 4 bytes written",
         lambda: (room(FULL * 256), np.float32(0.05), np.float32(2))),
    Case("divergence", _DATA, "evaluate_programs", (FULL, 1, 1), 256,
         "16 operations chosen by data: each branch runs for 4 of 64 lanes; 8 bytes of memory per work-item",
         lambda: (integers(FULL * 256, 1 << 32), room(FULL * 256), reals(4).view("V16")[0])),
    Case("instruction_overhead", _ML, "rotary", (4 * FULL, 1, 1), 256,
         "three 64-bit divisions, a power, a sine and a cosine per element: more than 400 instructions (200 clocks of the CU) "
         "for 4 FMA and 512 bytes, which the MALL moves in 60. All vector slots are busy, which is a roof as well",
         lambda: (halves(4 * FULL * 512), room(4 * FULL * 512, np.float16), np.int64(32), np.int64(64), np.float32(10000)),
         also=("near valu",)),
    Case("instruction_overhead", _IMAGE, "crop_batch", (FULL, 1, 1), 256,
         "five 64-bit divisions per element of two bytes: 200 or more instructions (100 clocks of the CU) for one load and one "
         "store of 128 bytes, which are coalesced and need 30 from the MALL; all vector slots are busy, which is a roof as "
         "well",
         lambda: (integers(1588 * 60 * 64, 65536, np.uint16), room(1588 * 56 * 56, np.uint16), np.int64(1588 * 56 * 56),
                  np.int64(56), np.int64(56), np.int64(60), np.int64(64)),
         also=("near valu",), corrected="the first kernel transposed as well, which its label had overlooked"),
    Case("dependency", _DATA, "select_kth", (CUS, 1, 1), 256,
         "one wavefront per SIMD; every bit needs a comparison, its mask in the scalar unit (20 clocks), a count, a branch "
         "(20): 70 clocks, of which the vector unit works 8 and the scalar unit 24. More wavefronts would fill them as well",
         lambda: (integers(CUS * 4 * 32 * 64, 1 << 32), room(CUS * 256, np.uint32), np.int32(32), np.int32(20)),
         also=("low_occupancy", "small_grid"),
         corrected="the grid, not registers or LDS, leaves one wavefront per SIMD; the ledger calls that a small grid"),
    Case("scalar_latency", _PHYSICS, "cell_list_forces", (FULL, 1, 1), 64,
         "a list per wavefront through scalar loads: 250 clocks per node beyond the scalar cache (nodes are random in 2.5 and "
         "5 MB), 20 of instructions; 2 wavefronts per SIMD",
         lambda: (*_lists(FULL, 256), reals(FULL * 256, 2), reals(FULL * 64), room(FULL * 64)), also=("small_grid",),
         corrected="the grid leaves 2 of 8 wavefronts per SIMD; four times the wavefronts would hide as much as shorter lists"),
    Case("instruction_cache", _PHYSICS, "reaction_step", (CUS, 1, 1), 256,
         "72 KiB of straight-line code, each line of 64 bytes executed once: 100 clocks to fetch, 32 to issue its 8 "
         "instructions; one wavefront per SIMD, all at the same place",
         lambda: (reals(CUS * 256 * 32),)),
    # --- added after the first run of those above
    Case("near valu", _VARIED, "lennard_jones", (FULL, 1, 1), 256,
         "10 float64 instructions per pair, which issue alone: 40 clocks of the SIMD; LDS needs 4 per wavefront and pair of "
         "values",
         lambda: (reals(FULL * 256).astype(np.float64), room(FULL * 256, np.float64), np.int32(256))),
    Case("near salu", _VARIED, "shared_sequence", (FULL, 1, 1), 256,
         "9 scalar instructions of 4 clocks per number and wavefront, 8 wavefronts share the scalar port of a SIMD: 290 clocks "
         "for a chain of 60",
         lambda: (integers(256, 1 << 32), room(FULL * 4, np.uint32), np.int32(250))),
    Case("tail", _VARIED, "ragged_norms", (2 * FULL, 1, 1), 256,
         "8 of 4,864 rows have 262,144 elements, the others 1,024: their workgroups make 1,024 rounds of a load, the others 4",
         lambda: (*_ragged(2 * FULL), room(2 * FULL))),
    Case("tail", _VARIED, "orbit_density", (310, 1, 1), 256,
         "36 KiB of LDS: one workgroup per CU, 310 on 304 CUs: two rounds for 1.02, 49 % lost; one wavefront per SIMD uses one "
         "of two issue ports, a quarter of the time",
         lambda: (room(9216, np.uint32), np.int32(512))),
    Case("memory_latency", _VARIED, "channel_sums", (2 * CUS, 1, 1), 256,
         "a tile of 1 KiB per channel is loaded, waited for and used: 2 KiB per CU in 600 clocks or more: 3.4 B/clk of 8.6. 32 "
         "KiB of LDS admit 2 wavefronts per SIMD: more would hide it as well",
         lambda: (reals(128 * 2 * CUS * 256), reals(128), room(2 * CUS * 256), np.int32(128)), also=("low_occupancy",)),
    Case("lds_latency", _VARIED, "forest_votes", (2 * CUS, 1, 1), 256,
         "11 dependent LDS reads per tree: 64 clocks each and 40 of instructions; 8 wavefronts per CU use 32 of 104 clocks of "
         "LDS. 32 KiB of LDS admit no more: occupancy is equal",
         lambda: (integers(8190, 1 << 32), integers(2 * CUS * 4, 1 << 32), room(2 * CUS * 256, np.uint32), np.int32(60)),
         also=("low_occupancy",)),
    Case("scalar_latency", _VARIED, "block_rows", (2 * FULL, 1, 1), 64,
         "a list per wavefront through scalar loads, of 2 MB in random order: 250 clocks for the node, 250 for its scale, 40 "
         "of instructions. The grid leaves 4 wavefronts per SIMD",
         lambda: (*_lists(2 * FULL, 100), integers(2 * FULL * 100, 1 << 19, np.int32), reals(1 << 19), room(2 * FULL * 64)),
         also=("small_grid",)),
    Case("dependency", _VARIED, "distinct_values", (CUS, 1, 1), 256,
         "one wavefront per SIMD; for every value a lane number from the scalar unit, its lane read (20 clocks), a comparison, "
         "its mask (20), a branch (28): 90 clocks of which the units work 30. The grid leaves the other slots empty",
         lambda: (integers(CUS * 256, 16), room(CUS * 256, np.uint32), np.int32(64)), also=("low_occupancy", "small_grid")),
    Case("register_spills", _VARIED, "transform_64", (2 * CUS, 1, 1), 256,
         "128 values and their temporaries in 128 registers: 338 words stored and loaded per pass beside 1,150 vector "
         "instructions (580 clocks): 86 KiB per wavefront and direction, 10,000 clocks of the MALL",
         lambda: (reals(64 * 2 * CUS * 256, 2), room(128 * 2 * CUS * 256), np.int32(8))),
    Case("launch_overhead", _VARIED, "advance_state", (CUS, 1, 1), 256,
         "a load, an addition and a store per work-item, one workgroup per CU: 1 us; an empty dispatch lasts 2.4 us",
         lambda: (room(CUS * 256), np.float32(1))),
    Case("near valu", _VARIED, "format_numbers", (FULL, 1, 1), 256,
         "12 divisions of 64 bits by a variable, 100 instructions or more each, for 12 bytes; the divisions are the work, and "
         "overhead as well",
         lambda: (integers(FULL * 256, 1 << 62, np.uint64), room(FULL * 256, np.uint32), np.uint32(10)),
         also=("instruction_overhead",)),
    Case("memory_backpressure", _VARIED, "label_sums", (2, 256, 32), 256,
         "27 loads of two bytes per lane: 112 clocks of the address pipe for 3.4 KiB; 75 vector instructions need 37; 10 MB. A "
         "full address pipe is also its roof",
         lambda: (integers(36 * 260 * 520, 65536, np.uint16), room(36 * 260 * 520, np.uint16), np.int32(520),
                  np.int32(260 * 520)),
         also=("near vmem issue", "near vector_l1")),
    Case("uncoalesced_access", _VARIED, "energies", (2 * FULL, 1, 1), 256,
         "4 bytes of every 192 are used: a line of 128 for each: 159 MB move for 5",
         lambda: (np.zeros(2 * FULL * 256 * 48, np.float32), room(2 * FULL * 256))),
    Case("barrier_imbalance", _VARIED, "classify_keys", (4 * CUS, 1, 1), 512,
         "the first of 8 wavefronts sorts in 21 exchanges of 130 clocks while 7 wait; all search 6 levels in 700 clocks",
         lambda: (integers(4 * CUS * 8 * 512, 1 << 32), room(4 * CUS * 8 * 512, np.uint8), np.int32(8))),
    Case("uncoalesced_access", _VARIED, "node_depths", (FULL, 1, 1), 256,
         "every lane follows its own chain in 2.5 MB: 64 lines of L2 per step and wavefront, 8 KiB at 43 B/clk: 190 clocks of "
         "the CU each, 6,000 for 32 wavefronts, which hide the latency",
         lambda: (_forest(FULL * 256), room(FULL * 256, np.int32))),
    # --- added for causes that a thread trace alone had left undecided
    Case("divergence", _FURTHER, "escape_times", (2 * FULL, 1, 1), 256,
         "one point in 16 never escapes and needs 256 steps, the others 3 on average: nearly every wavefront has one, so a "
         "tenth of the lanes works",
         lambda: (_points(2 * FULL * 256), room(2 * FULL * 256, np.uint32), np.int32(256))),
    Case("divergence", _FURTHER, "check_messages", (2 * FULL, 1, 1), 256,
         "6 kinds at random: each of the loops runs for 11 of 64 lanes; 8 bytes of memory for 150 rounds",
         lambda: (integers(2 * FULL * 256, 1 << 32), room(2 * FULL * 256, np.uint32), np.int32(150))),
    Case("near valu", _FURTHER, "guarded_series", (2 * FULL, 1, 1), 256,
         "24 FMA per round and work-item, 60 rounds, 8 bytes of memory; all lanes take every branch",
         lambda: (reals(2 * FULL * 256), room(2 * FULL * 256), np.int32(2 * FULL * 256), np.int32(60))),
    Case("atomic_contention", _FURTHER, "claim_slots", (FULL, 1, 1), 256,
         "16 slots in one line: every lane adds and waits for the old value; 64 lanes of a wavefront need 20 clocks each: 9,728 "
         "x 1,200 clocks",
         lambda: (integers(FULL * 256, 1 << 32), room(16, np.uint32), room(FULL * 256, np.uint32), np.uint32(15))),
    Case("atomic_contention", _FURTHER, "class_scores", (FULL, 1, 1), 256,
         "10 classes in one line: every lane adds to one of 10 words, 4 x 9,728 x 1,200 clocks beside 12 MB",
         lambda: (integers(FULL * 1024, 10, np.uint8), reals(FULL * 1024), room(10), np.int32(4))),
    Case("tail", _FURTHER, "count_words", (2 * FULL, 1, 1), 256,
         "4 of 4,864 documents have 200,000 characters, the others 512: 780 rounds of a load against 2",
         lambda: (*_documents(2 * FULL), room(2 * FULL, np.int32))),
    Case("tail", _FURTHER, "refine_cells", (FULL, 1, 1), 256,
         "all 2,432 workgroups start together; a unit gets every 304th: the cost grows with the square of the number up to 400 "
         "rounds, so that wavefronts on a unit end at different times, and one wavefront alone uses half of a SIMD",
         lambda: (room(FULL * 256), np.int32(15000)), also=("near valu", "dependency", "low_occupancy")),
    Case("dependency", _FURTHER, "chained_modulus", (CUS, 1, 1), 256,
         "a chain of a square root and a reciprocal: 16 clocks of issue each at 1 wavefront per SIMD, and latency; the grid "
         "leaves the other slots empty",
         lambda: (integers(CUS * 256, 1 << 32), room(CUS * 256, np.uint32), np.int32(800)),
         also=("small_grid", "low_occupancy", "near valu")),
    Case("memory_latency", _FURTHER, "follow_links", (CUS, 1, 1), 512,
         "every row of 512 bytes names the next one, 2 MiB in L2: 226 clocks and 60 of issue per step; 8 wavefronts per unit "
         "have 14 B/clk of 43. The grid leaves 2 per SIMD",
         lambda: (integers(1 << 19, 1 << 32).reshape(-1, 2), room(CUS * 512, np.uint32), np.int32(300), np.uint32((1 << 18) - 1)),
         also=("small_grid",)),
    Case("near mall", _FURTHER, "scale_rows", (FULL, 1, 1), 256,
         "80 MB read and 80 written, which the MALL holds from the launch before, and more than L2; 5 vector instructions for "
         "2 KiB of a wavefront",
         lambda: (reals(FULL * 8 * 1024), room(FULL * 8 * 1024), np.float32(2), np.int32(8)), also=("near dram",)),
    Case("near l2", _FURTHER, "shared_codebook", (2 * FULL, 1, 1), 256,
         "512 rows of 4 KiB stay in each L2, 64 rows per workgroup, 4 loads in flight per lane: 1.3 GB at 27.5 TB/s",
         lambda: (reals(1 << 19), integers(8192, 512, np.int32), room(2 * FULL * 1024), np.int32(64))),
)  # fmt: skip
"""Written and labelled before they ran."""
