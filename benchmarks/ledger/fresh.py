"""Fresh set: a second unseen set, labelled before it ran, by an author who did not know the rules of the ledger.

Labels follow from the limits listed in `development`; occupancy and instructions are those of the compiled kernels. A second
label is accepted if the arithmetic cannot separate the two, in at most a fifth of the cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.ledger.cases import CUS, FULL, Case, halves, integers, reals, room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.ledger.cases import Array

_GRAPHICS, _SIGNALS, _DATABASES, _SIMULATION, _ALGEBRA = (
    f"fresh/{name}.hip" for name in ("graphics", "signals", "databases", "simulation", "algebra")
)


def _rays(count: int) -> NDArray[np.int32]:
    """Return 6 samples for 15 of 16 rays and 96 for the others."""
    samples = np.full(count, 6, np.int32)
    samples[5::16] = 96
    return samples


def _ring(count: int, seed: int = 5) -> NDArray[np.uint32]:
    """Return the successor of each number in one random cycle through all of them."""
    order = np.random.default_rng(seed).permutation(count).astype(np.uint32)
    following = np.empty(count, np.uint32)
    following[order] = np.roll(order, -1)
    return following


def _nodes(count: int, *, bytes_each: int = 1) -> Array:
    """Return nodes of 32 words; each word is the number of a random node, or its offset in bytes."""
    nodes: Array = integers(count * 32, count).astype(np.uint32) * np.uint32(bytes_each)
    return nodes


def _chains(count: int) -> Array:
    """Return buckets of 32 words; the first word of each is the next bucket of one random cycle."""
    buckets = integers(count * 32, 1 << 32).reshape(count, 32)
    buckets[:, 0] = _ring(count)
    return buckets.reshape(-1)


def _objects(count: int) -> NDArray[np.int32]:
    """Return 16 rows for each object, but 2,400 for 5 of the last ones."""
    rows = np.full(count, 16, np.int32)
    rows[np.arange(5) * 61 + count - 400] = 2400
    return rows


def _view(sizes: tuple[int, ...]) -> Array:
    """Return the argument of `gather_view`: sizes and the strides of an array in C order."""
    strides = np.append(np.cumprod(np.array(sizes[:0:-1], np.int64))[::-1], 1)
    packed: Array = np.concatenate([sizes, strides]).astype(np.int32).view("V64")[0]
    return packed


FRESH = (
    # --- near a roof
    Case("near dram", _DATABASES, "checksum_pages", (3 * FULL, 1, 1), 256,
         "478 MB are read once, 1.8 times the 256 MiB of the MALL, 16 loads of 16 bytes in flight per lane; 80 vector "
         "instructions per 16 KiB of a wavefront are 40 clocks, DRAM needs 2,600. The MALL may keep a part from the launch "
         "before",
         lambda: (np.zeros(3 * FULL * 16384, np.uint32), room(3 * FULL * 256, np.uint32)), also=("near mall",)),
    Case("near mall", _ALGEBRA, "add_residual", (FULL, 1, 1), 256,
         "80 MB read and 40 MB written, less than the 256 MiB of the MALL and more than 32 MB of L2; 8 loads of 16 bytes in "
         "flight per lane, 20 vector instructions. Counters of L2 cannot tell the MALL from DRAM",
         lambda: (reals(FULL * 4096), reals(FULL * 4096), room(FULL * 4096), np.float32(0.5)), also=("near dram",)),
    Case("near l2", _ALGEBRA, "scan_dictionary", (FULL, 1, 1), 256,
         "a dictionary of 512 KiB stays in each L2; workgroups start at different rows, so the 32 KiB of L1 keep little: 1 KiB"
         " per wavefront and load is 24 clocks at 43 B/clk, its 9 vector instructions are 5",
         lambda: (integers(1 << 17, 1 << 32), room(FULL * 256, np.uint32), np.int32(128), integers(4, 1 << 32).view("V16")[0])),
    Case("near vector_l1", _ALGEBRA, "sum_tables", (FULL, 1, 1), 256,
         "tables of 16 KiB stay in L1 (32 KiB); a load of 1 KiB needs 16 clocks of its data path at 64 B/clk, which are the "
         "clocks of the address pipe as well; 2 packed additions need 1",
         lambda: (reals(4096), integers(256, 8, np.int32), room(FULL * 1024), np.int32(200)), also=("near vmem issue",)),
    Case("near lds", _SIGNALS, "autocorrelation", (FULL, 1, 1), 256,
         "8 bytes of LDS per lane and step without conflicts: 4 clocks of the CU at 128 B/clk; one packed FMA needs half a "
         "clock; 8 KiB of memory per workgroup and 12 x 64 steps",
         lambda: (reals(FULL * 768, 2), room(FULL * 512), np.int32(12))),
    Case("near valu", _GRAPHICS, "fractal_noise", (2 * FULL, 1, 1), 256,
         "14 octaves of about 120 vector instructions, which are the algorithm, for 4 bytes; 8 wavefronts per SIMD",
         lambda: (room(2 * FULL * 256), np.int32(14), np.float32(0.37))),
    Case("near valu", _GRAPHICS, "ocean_height", (FULL, 1, 1), 256,
         "a sine and a cosine of 16 clocks of the SIMD each per wave, 4 other instructions; 8 bytes of memory for 150 waves",
         lambda: (reals(65536), room(FULL * 256), np.int32(150))),
    Case("near valu", _SIMULATION, "philox_stream", (2 * FULL, 1, 1), 256,
         "10 rounds of 2 wide multiplications and 4 exclusive-ors per block, 260 vector instructions, 12 blocks; 4 bytes "
         "written",
         lambda: (room(2 * FULL * 256, np.uint32), np.uint32(0x1234567), np.uint32(0x89ABCDE), np.int32(12))),
    Case("near valu", _SIGNALS, "warp_samples", (FULL, 1, 1), 256,
         "80 float64 FMA per pass, which issue alone for 4 clocks each, 24 passes; coefficients are scalars; 8 bytes written",
         lambda: (np.linspace(0.01, 0.02, 20), room(FULL * 256, np.float64), np.int32(24))),
    Case("near matrix cores", _ALGEBRA, "dgemm_shifts", (2 * CUS, 1, 1), 256,
         "64 float64 matrix instructions of 32 clocks per wavefront and shift: 2,048 clocks, 4 independent accumulators; beside "
         "them 64 LDS reads of 4 clocks per wavefront; 2 wavefronts per SIMD, 24 shifts after 64 KiB of loads per workgroup",
         lambda: (np.ones(2 * CUS * 64 * 64), np.ones(4096), room(2 * CUS * 1024, np.float64), np.int32(24)),
         corrected="the first kernel loaded a panel per round: the matrix cores worked half of the time; before any diagnosis"),
    Case("near matrix cores", _ALGEBRA, "filter_bank", (3 * CUS, 1, 1), 256,
         "16 matrix instructions of 32 clocks per round and wavefront, two independent accumulators, for 8 LDS reads of 4 "
         "clocks; 3 wavefronts per SIMD; 60 rounds of 512 clocks after 64 KiB of loads per workgroup",
         lambda: (halves(3 * CUS * 256 * 64).view(np.int16), halves(128 * 64).view(np.int16), room(3 * CUS * 4096),
                  np.int32(60))),
    Case("near salu", _SIGNALS, "crc_records", (FULL, 1, 1), 256,
         "4 scalar instructions of 4 clocks per bit and wavefront, all uniform; 8 wavefronts share the scalar port of a SIMD: "
         "128 clocks for a chain of 16",
         lambda: (integers(1024 * 16, 1 << 32), room(FULL * 256, np.uint32), np.uint32(0xEDB88320), np.int32(16))),
    # --- launch
    Case("launch_overhead", _GRAPHICS, "next_frame", (64, 1, 1), 128,
         "32 KiB read and written by 128 wavefronts, less than 1 us; an empty dispatch lasts 2.4 us",
         lambda: (room(8192, np.uint32), np.uint32(5))),
    Case("launch_overhead", _SIGNALS, "prefix_of_histogram", (1, 1, 1), 64,
         "one wavefront: a load, 6 steps of 100 clocks and a store, about 1 us; an empty dispatch lasts 2.4 us",
         lambda: (integers(64, 100), room(64, np.uint32))),
    Case("launch_overhead", _ALGEBRA, "channel_scales", (8, 1, 1), 256,
         "2,048 scale factors: a load, a division and a store, about 1 us; an empty dispatch lasts 2.4 us",
         lambda: (reals(2048), room(2048), np.int32(2048))),
    Case("small_grid", _DATABASES, "fuzzy_search", (48, 1, 1), 256,
         "48 of 304 CUs have a workgroup; 800 rounds of 64 vector instructions without memory, 100 us",
         lambda: (integers(48 * 1024, 1 << 32), room(48 * 256, np.uint32), integers(4, 1 << 32).view("V16")[0], np.int32(800))),
    Case("small_grid", _ALGEBRA, "recurrent_cell", (24, 1, 1), 256,
         "24 of 304 CUs work for 500 steps of 100 vector instructions; independent sequences: 92 % of the GPU is idle",
         lambda: (reals(24 * 256), room(24 * 256), np.int32(500))),
    Case("small_grid", _SIMULATION, "integrate_orbits", (40, 1, 1), 256,
         "40 of 304 CUs integrate for 2,000 steps of 20 vector instructions without memory",
         lambda: (reals(40 * 256, 4), room(40 * 1024), np.int32(2000))),
    Case("tail", _SIMULATION, "push_tile", (340, 1, 1), 512,
         "36 KiB of LDS: one workgroup per CU, 340 on 304 CUs: the second round uses 36 CUs, 44 % of two rounds is lost; 36 "
         "vector instructions per LDS read",
         lambda: (reals(9216), room(340 * 512), np.int32(120))),
    Case("tail", _GRAPHICS, "object_coverage", (2 * FULL, 1, 1), 256,
         "5 of 4,864 objects have 2,400 rows and are among the last 400 workgroups, the others have 16: the GPU needs 10 us "
         "for all others, one object 100 us",
         lambda: (_objects(2 * FULL), room(2 * FULL * 256))),
    Case("low_occupancy", _DATABASES, "private_counts", (2 * CUS, 1, 1), 64,
         "60 KiB of LDS for 64 work-items: one wavefront per CU, so 3 of 4 SIMDs are idle; a load of 256 bytes, a remainder "
         "and an LDS update per key: below 1 B/clk of 8.6. Counters shared by 8 wavefronts would need the same LDS",
         lambda: (integers(2 * CUS * 400 * 64, 1 << 32), room(2 * CUS * 64, np.uint32), np.int32(400))),
    Case("low_occupancy", _ALGEBRA, "sequential_experts", (FULL, 1, 1), 256,
         "237 registers leave 2 of 8 wavefronts per SIMD, each waits 226 clocks or more for one line of 128 bytes from L2 per "
         "token, 160 tokens: 3 B/clk of 43; 8 wavefronts would need a quarter of the time",
         lambda: (_nodes(8192), reals(232 * 64), room(FULL * 256), np.int32(160), np.uint32(8191))),
    # --- memory
    Case("memory_latency", _GRAPHICS, "walk_bvh", (FULL, 1, 1), 256,
         "every node is one line of L2 (1 MiB of nodes) and names the next one: 226 clocks and 80 of dependent instructions "
         "per level; all 32 wavefronts of a CU together move 14 B/clk of 43; 2 loads in flight would halve the time",
         lambda: (_nodes(8192, bytes_each=128), room(FULL * 256, np.uint32), np.int32(150), np.uint32(8192))),
    Case("memory_latency", _DATABASES, "search_chain", (FULL, 1, 1), 256,
         "every bucket is one line of L2 (1 MiB) and names the next one: 226 clocks, 64 of an LDS permutation and 60 of other "
         "instructions; 32 wavefronts move 12 B/clk of 43, the vector unit works a quarter of the time",
         lambda: (_chains(8192), integers(8192, 8192), room(FULL * 256, np.uint32), np.int32(150))),
    Case("memory_latency", _SIMULATION, "sweep_planes", (CUS, 1, 1), 256,
         "a plane is loaded, waited for and used between two barriers: 1 KiB per CU in 700 clocks or more, 1.5 B/clk of 8.6; "
         "the next plane could be loaded meanwhile. The grid leaves 1 wavefront per SIMD; more would hide it as well",
         lambda: (reals(120 * CUS * 256), room(CUS * 256), np.int32(120), np.int32(CUS * 256)), also=("small_grid",)),
    Case("uncoalesced_access", _GRAPHICS, "oldest_particles", (2 * FULL, 1, 1), 256,
         "4 of every 96 bytes are used: 119 MB move for 5; a load has 48 lines instead of 2",
         lambda: (np.zeros(2 * FULL * 256 * 24, np.float32), room(2 * FULL * 256))),
    Case("uncoalesced_access", _DATABASES, "bloom_filter", (2 * FULL, 1, 1), 256,
         "each of 4 probes fetches a line of 128 bytes of 128 MiB for 4: 637 MB move for 20; 64 lines per load instead of 2",
         lambda: (integers(2 * FULL * 256, 1 << 32), np.zeros(1 << 25, np.uint32), room(2 * FULL * 256, np.uint8),
                  np.uint32((1 << 25) - 1))),
    Case("uncoalesced_access", _DATABASES, "scatter_keys", (4 * FULL, 1, 1), 256,
         "every lane stores 4 bytes to another line of 10 MB: 64 requests per wavefront instead of 2",
         lambda: (integers(4 * FULL * 256, 1 << 32), np.random.default_rng(4).permutation(4 * FULL * 256).astype(np.uint32),
                  room(4 * FULL * 256, np.uint32))),
    Case("uncoalesced_access", _ALGEBRA, "gemm_by_rows", (8, 304, 1), 256,
         "lanes read rows of A that are 256 bytes apart: 64 lines and 64 clocks of the address pipe for 256 bytes; the value "
         "of B is a scalar and the FMA needs half a clock",
         lambda: (reals(2048 * 64), reals(64 * 304), room(2048 * 304), np.int32(64), np.int32(304))),
    Case("memory_backpressure", _SIGNALS, "erode_green", (16, 512, 1), 256,
         "25 loads of one byte per lane: 100 clocks of the address pipe for 1.6 KiB, 12 minima of three need 6; 8 MB of image."
         " A full address pipe is also its roof",
         lambda: (integers(12304 * 516 + 64, 256, np.uint8), room(4096 * 512, np.uint8), np.int32(12304)),
         also=("near vmem issue", "near vector_l1")),
    Case("store_drain", _ALGEBRA, "initialise_embedding", (CUS, 1, 1), 1024,
         "all wavefronts compute 980 instructions (8,000 clocks at 4 per SIMD) and then store 32 rows each at the same time: "
         "128 KiB per CU at 10.6 B/clk are 12,000 clocks in which every wavefront only waits for its end",
         lambda: (room(CUS * 1024 * 32), np.uint32(9))),
    Case("atomic_contention", _SIMULATION, "deposit_charge", (FULL, 1, 1), 256,
         "particles are sorted, so all 64 lanes of a wavefront add to one word, twice: 20 clocks per lane on one line, 1,200 "
         "per instruction; its data are 8 bytes per lane",
         lambda: (np.arange(FULL * 256, dtype=np.int32) // 1024, reals(FULL * 256), room(FULL + 2))),
    Case("atomic_contention", _SIMULATION, "class_errors", (FULL, 1, 1), 256,
         "622,592 additions to 16 words of one line: 4 lanes of each wavefront share a word; 9,728 x 64 serial updates beside "
         "3 MB of data",
         lambda: (integers(FULL * 256, 16, np.uint8), reals(FULL * 256), room(16))),
    Case("register_spills", _DATABASES, "best_64", (2 * CUS, 1, 1), 256,
         "the list of 64 words is indexed at run time, so it is in scratch: 12 x 64 dependent loads and stores per lane; 4 "
         "bytes of data in and out",
         lambda: (integers(2 * CUS * 256, 1 << 32), room(2 * CUS * 256, np.uint32), np.int32(12))),
    Case("register_spills", _GRAPHICS, "skin_vertices", (2 * CUS, 1, 1), 256,
         "a palette of 72 floats is indexed by data, so it is in scratch: 30 x 12 loads of scratch per vertex, of lines that "
         "differ between lanes, 72 loads of data",
         lambda: (reals(72 * 64), integers(2 * CUS * 256, 1 << 32), room(6 * CUS * 256), np.int32(30))),
    Case("register_spills", _ALGEBRA, "cholesky_15", (2 * CUS, 1, 1), 256,
         "120 values and temporaries in 64 registers: about 400 words of scratch per round beside 560 products and 240 words "
         "of data in all; 6 rounds",
         lambda: (np.ones(120 * 2 * CUS * 256, np.float32), room(120 * 2 * CUS * 256), np.int32(6))),
    # --- LDS
    Case("lds_bank_conflicts", _SIGNALS, "fft_4096", (2 * CUS, 1, 1), 256,
         "lanes write 128 bytes apart, all to the same banks: 64 clocks instead of 8 for 8 writes of 16 bytes; 512 of the 576 "
         "LDS clocks of a pass and wavefront, its 350 vector instructions are 175",
         lambda: (reals(2 * CUS * 4096, 2), room(2 * CUS * 8192), np.int32(24)),
         corrected="24 passes instead of 8: memory had a third of the time; before any diagnosis"),
    Case("lds_bank_conflicts", _SIGNALS, "cipher_blocks", (FULL, 1, 1), 256,
         "64 random words of 32 banks: about 7 clocks instead of 2 for each of 16 x 14 reads; 4 vector instructions per read "
         "are 2 clocks; 32 bytes of memory",
         lambda: (integers(1024, 1 << 32), integers(FULL * 1024, 1 << 32), integers(4, 1 << 32).view("V16")[0], np.int32(14))),
    Case("lds_bank_conflicts", _ALGEBRA, "normalise_rows", (8 * CUS, 1, 1), 64,
         "a work-item has a row of 64 words: all 64 lanes are on the same banks, 64 clocks instead of 8 for each of 48 "
         "accesses per sweep, 4 sweeps: 12,000 clocks; 32 KiB of memory are 3,800",
         lambda: (reals(8 * CUS * 4096), room(8 * CUS * 4096), np.int32(4))),
    Case("lds_latency", _DATABASES, "find_roots", (2 * CUS, 1, 1), 256,
         "a chain of LDS reads that all lanes share: 64 clocks and 20 of other instructions; 8 wavefronts per CU use 16 to 32 "
         "of 84 clocks of LDS. 28 KiB of LDS admit no more: occupancy is equal",
         lambda: (_ring(7168), room(2 * CUS * 256, np.uint32), np.int32(1500)), also=("low_occupancy",)),
    # --- synchronisation and instructions
    Case("barrier_imbalance", _SIGNALS, "decode_groups", (2 * CUS, 1, 1), 512,
         "the first of 8 wavefronts decodes 8 x 64 steps (8,000 clocks) per group while 7 wait at the barrier; applying the "
         "symbols needs 200",
         lambda: (integers(2 * CUS * 64, 1 << 32), room(2 * CUS * 512), np.int32(5))),
    Case("barrier_imbalance", _SIMULATION, "triangular_steps", (CUS, 1, 1), 512,
         "wavefront w has (w + 1)^2 bands between barriers: the last has 64, the mean is 25, so 60 % of the time of a "
         "wavefront is waiting for the last",
         lambda: (reals(CUS * 512), room(CUS * 512), np.int32(4), np.int32(3))),
    Case("divergence", _GRAPHICS, "march_rays", (FULL, 1, 1), 256,
         "one ray in 16 has 96 samples, the others 6: 12 % of the lanes work on average; 20 bytes of memory per ray",
         lambda: (_rays(FULL * 256), room(FULL * 1024), np.float32(0.01))),
    Case("divergence", _GRAPHICS, "tissue_response", (FULL, 1, 1), 256,
         "7 kinds of tissue at random: each branch of 100 instructions runs for 9 of 64 lanes; 5 bytes of memory",
         lambda: (integers(FULL * 256, 7, np.uint8), room(FULL * 256))),
    Case("divergence", _SIMULATION, "rejection_sampling", (FULL, 1, 1), 256,
         "one candidate in 25 is accepted: 25 tries on average, 118 for the slowest of 64 lanes: 21 % of the lanes work",
         lambda: (room(FULL * 256, np.uint32), np.uint32((1 << 32) // 25), np.uint32(77))),
    Case("instruction_overhead", _DATABASES, "gather_view", (8 * FULL, 1, 1), 256,
         "eight divisions with remainder compute one address: 240 instructions (130 clocks) for a load and a store of 4 bytes,"
         " which are coalesced (512 bytes, 60 clocks of the MALL); all vector slots are busy, which is a roof as well",
         lambda: (reals(8 * FULL * 256), room(8 * FULL * 256), _view((152, 4, 4, 4, 4, 4, 2, 16))),
         also=("near valu",), corrected="8 times the work: an empty dispatch had a third of the time; before any diagnosis"),
    Case("dependency", _SIGNALS, "range_decode", (CUS, 1, 1), 256,
         "one wavefront per SIMD; a symbol needs a comparison, its mask in the scalar unit (20 clocks), a count, a lane read "
         "(20), a product, a branch (28): 110 clocks of which the units work 50. The grid leaves the other slots empty",
         lambda: (np.arange(64, dtype=np.uint32) * 1000, integers(CUS * 4, 1 << 32), room(CUS * 256, np.uint32), np.int32(600)),
         also=("small_grid",)),
    Case("dependency", _ALGEBRA, "rotate_repeatedly", (CUS, 1, 1), 256,
         "each matrix product needs the last one: 64 clocks until its result, 40 of conversions, for 32 clocks of the matrix "
         "core. The grid leaves one wavefront per SIMD; more would fill the gaps as well",
         lambda: (halves(4 * 64 * 4), room(CUS * 4096), np.int32(600)), also=("small_grid",)),
    Case("scalar_latency", _DATABASES, "run_automaton", (FULL, 1, 1), 256,
         "every state is a scalar load of 1 MiB in random order, beyond the scalar cache of 16 KiB: 250 clocks and 8 to issue;"
         " 8 wavefronts per SIMD use 64 of them",
         lambda: (_ring(1 << 18) * np.uint32(4), room(FULL * 256, np.uint32), np.int32(200))),
    Case("scalar_latency", _DATABASES, "follow_records", (2 * FULL, 1, 1), 64,
         "two scalar loads per step of 512 and 256 KiB in random order, the record names the next one: 250 clocks and 50 of "
         "instructions. The grid leaves 4 wavefronts per SIMD",
         lambda: (integers(1 << 17, 1 << 32).reshape(-1, 2), reals(65536), room(2 * FULL * 64), np.int32(200), np.uint32(65535)),
         also=("small_grid",)),
    Case("instruction_cache", _SIMULATION, "ignite_cells", (CUS, 1, 1), 256,
         "2,800 generated reactions are more than 64 KiB of straight-line code, each line of 64 bytes executed once: 100 "
         "clocks to fetch, 30 to issue; one wavefront per SIMD, all at the same place",
         lambda: (reals(CUS * 256 * 16),),
         corrected="12 short instructions per line needed longer than its fetch; seen in the counters, before any diagnosis"),
    Case("instruction_cache", _SIMULATION, "score_samples", (CUS, 1, 1), 256,
         "70 KiB of straight-line code, each line of 64 bytes executed once: 100 clocks to fetch, 30 to issue its 6 to 8 "
         "instructions; one wavefront per SIMD, all at the same place",
         lambda: (reals(CUS * 256 * 12), room(CUS * 256)),
         corrected="half of the code: the translation of 140 KiB took minutes; before any diagnosis"),
)  # fmt: skip
"""Labelled before any of them ran; five kernels were changed after their first run, before any diagnosis (`corrected`)."""
