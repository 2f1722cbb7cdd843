"""L2 per XCD, MALL and HBM: services and traffic of launches whose accesses are known line by line."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.footprint import LINE_ACCESS, FootprintRecord
from rocm_perf_lab.emulator.structures import AccessKind
from rocm_perf_lab.emulator.timing.shared_cache_structures import (
    CHANNEL_COUNTS,
    MEMORY_CHANNEL,
    RequestKind,
    SharedParameters,
    SharedRun,
    SharedTotals,
)
from rocm_perf_lab.emulator.timing.shared_caches import ServiceShares, SharedMemoryProfile, shared_memory_profile
from tests.builders.footprints import ADDRESS, accesses, footprint
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.footprint import LineFootprint

XCDS, CHANNELS, LINES_PER_MIB = 8, 16, 8192
L2_LINES = 4 * LINES_PER_MIB


def profile(
    workgroups: Sequence[NDArray[np.void]], *, sampling: int = 1, resident: int = 1, warm: bool = True
) -> SharedMemoryProfile:
    lines = footprint(workgroups, sampling=sampling)
    buffers = [(ADDRESS, lines.allocations[0][1])]
    return shared_memory_profile(load_runtime(), lines, buffers, mi300x(), resident_workgroups=resident, warm=warm)


def loads(workgroups: Sequence[NDArray[np.void]], *, sampling: int = 1, warm: bool = True) -> ServiceShares:
    return profile(workgroups, sampling=sampling, warm=warm).shares(RequestKind.LOAD)


def test_structures_have_the_compiled_size() -> None:
    sizes = (ctypes.c_uint64 * 7)()

    load_runtime().library.rpl_shared_layout(sizes)

    expected = [
        LINE_ACCESS.itemsize,
        ctypes.sizeof(FootprintRecord),
        ctypes.sizeof(SharedParameters),
        CHANNEL_COUNTS.itemsize,
        MEMORY_CHANNEL.itemsize,
        ctypes.sizeof(SharedTotals),
        ctypes.sizeof(SharedRun),
    ]
    assert list(sizes) == expected


# ---- reuse between workgroups ----


def test_workgroups_of_one_xcd_share_its_l2_and_others_do_not() -> None:
    nothing, lines = accesses([]), np.arange(100)
    first, later = accesses(lines), accesses(lines, np.arange(100) + 200)

    of_one_xcd = loads([first, *[nothing] * (XCDS - 1), later])
    of_two = loads([first, later])

    assert (of_one_xcd.l2, of_one_xcd.mall) == (0.5, 0.5)
    assert (of_two.l2, of_two.mall) == (0.0, 1.0)


def test_a_line_that_another_workgroup_requests_at_the_same_time_is_pending() -> None:
    nothing, both = accesses([]), accesses(np.arange(100))

    shares = loads([both, *[nothing] * (XCDS - 1), both])

    assert (shares.pending, shares.mall, shares.l2) == (0.5, 0.5, 0.0)


def test_a_cold_launch_reads_hbm_and_a_warm_one_the_mall() -> None:
    group = accesses(np.arange(1000))

    assert loads([group], warm=False).hbm == 1.0
    assert loads([group], warm=True).mall == 1.0


def test_l2_keeps_what_fits_and_nothing_of_a_longer_cycle() -> None:
    def twice(lines: int) -> NDArray[np.void]:
        return accesses(np.tile(np.arange(lines), 2))

    assert loads([twice(L2_LINES)]).l2 == 0.5
    assert loads([twice(2 * L2_LINES)]).l2 == 0.0


def test_lines_of_the_vector_l1_cause_no_requests() -> None:
    shares = loads([accesses(np.tile(np.arange(64), 10))])

    assert shares.l1 == pytest.approx(0.9)
    assert shares.requests == 640


@pytest.mark.parametrize(
    ("mib", "published_tb_per_s"), [(1.5, 19.5), (4.0, 19.5), (7.5, 14.5), (8.5, 12.7), (9.5, 10.7), (14.0, 19.5), (16.5, 5.7)]
)
def test_chunks_that_blocks_share_have_the_published_bandwidth_of_an_mi300x(mib: float, published_tb_per_s: float) -> None:
    """gpu-l2-cache (Hanindhito et al., SC25): a block per CU reads one of `mib` * 2 chunks of 512 KiB again and again.

    Odd numbers of chunks are far slower than those of which each XCD reads only some. The rates of L2 and of the MALL are the
    published ones of smaller and larger sets (19.5 and 5.0 to 5.8 TB/s).
    """
    chunks, lines = int(2 * mib), 4096
    times = np.tile(np.arange(lines), 3) // 64 + np.repeat(np.arange(3), lines) * lines // 64
    groups = [accesses(np.tile(np.arange(lines), 3) + block % chunks * lines, times) for block in range(304)]

    shares = loads(groups, sampling=16)

    first_pass = chunks * min(XCDS, 38) / 304 / 3  # of the requests: L2 is empty at first, which the benchmark warms
    from_mall = max(0.0, shares.mall + shares.hbm - (first_pass if shares.l2 > 0.2 else 0.0))
    rate = 1 / max(1 / 19.5, from_mall / 5.4)
    assert rate == pytest.approx(published_tb_per_s, rel=0.15)


def test_tiles_in_turn_over_the_xcds_share_more_columns_than_a_block_of_tiles_per_xcd() -> None:
    """Matrix product of 32 x 32 tiles, of which an XCD executes 38 at once; a tile reads a panel of A and one of B.

    In turn, an XCD gets 4 of the 32 columns: its 38 tiles have about 10 rows, together 14 panels. As a block they have 2 rows
    and 32 columns, together 34 panels.
    """
    tiles, lines_per_panel, steps = 32, 2048, 32

    def tile(row: int, column: int) -> NDArray[np.void]:
        panel = np.arange(lines_per_panel)
        time = panel * steps // lines_per_panel
        both = np.concatenate([row * lines_per_panel + panel, (tiles + column) * lines_per_panel + panel])
        return _by_time(both, np.concatenate([time, time]))

    in_turn = [tile(k // tiles, k % tiles) for k in range(tiles * tiles)]
    blocks = [in_turn[k % XCDS * tiles * tiles // XCDS + k // XCDS] for k in range(tiles * tiles)]

    ratio = profile(in_turn, sampling=16).traffic.mall_read_bytes / profile(blocks, sampling=16).traffic.mall_read_bytes
    assert ratio == pytest.approx(14 / 34, rel=0.25)


# ---- sampled against exact ----


def _by_time(lines: NDArray[np.integer], times: NDArray[np.integer]) -> NDArray[np.void]:
    order = np.argsort(times, kind="stable")
    return accesses(lines[order], times[order])


def _kernel(shape: str, reuse: int, footprint_lines: int, seed: int) -> list[NDArray[np.void]]:
    """Return 256 workgroups of 600 accesses each."""
    random, count, groups = np.random.default_rng(seed), 600, 256
    if shape == "panels":  # groups of `reuse` workgroups stream the same lines
        return [accesses(np.arange(count) + group // reuse * count) for group in range(groups)]
    if shape == "strided":
        return [accesses((np.arange(count) * 8 * reuse + group) % footprint_lines) for group in range(groups)]
    if shape == "stencil":
        return [accesses(np.arange(count) // 3 + np.tile([0, 200, 400], count // 3) + group * 200) for group in range(groups)]
    return [accesses(random.integers(0, footprint_lines, count)) for _ in range(groups)]


@given(
    shape=st.sampled_from(["panels", "strided", "stencil", "random"]),
    reuse=st.sampled_from([1, 4, 16, 64]),
    footprint_lines=st.sampled_from([16_384, 65_536, 400_000]),
    seed=st.integers(0, 100),
    warm=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_a_sixteenth_of_the_lines_has_the_hit_rates_of_all(
    shape: str, reuse: int, footprint_lines: int, seed: int, warm: bool
) -> None:
    groups = _kernel(shape, reuse, footprint_lines, seed)

    exact, sampled = (loads(groups, sampling=sampling, warm=warm) for sampling in (1, 16))

    assert sampled.requests == pytest.approx(exact.requests, rel=0.1)
    for level in ("l2", "pending", "mall", "hbm"):
        assert getattr(sampled, level) == pytest.approx(getattr(exact, level), abs=0.05), level


@given(sampling=st.sampled_from([1, 4, 16]), seed=st.integers(0, 1000), warm=st.booleans())
@settings(max_examples=20, deadline=None)
def test_services_and_traffic_are_consistent(sampling: int, seed: int, warm: bool) -> None:
    random = np.random.default_rng(seed)
    groups = []
    for _ in range(64):
        parts = [
            accesses(random.integers(0, 5000, 50), kind=kind) for kind in (AccessKind.LOAD, AccessKind.STORE, AccessKind.ATOMIC)
        ]
        groups.append(np.concatenate(parts))

    result = profile(groups, sampling=sampling, warm=warm)

    channels, traffic = result.channels, result.traffic
    for kind in RequestKind:
        shares = result.shares(kind)
        assert shares.l2 + shares.pending + shares.mall + shares.hbm == pytest.approx(1.0)
    requests = sum(int(channels[name].sum()) for name in ("reads", "scalar_reads", "writes", "atomics"))
    assert int(channels["hits"].sum() + channels["misses"].sum()) == requests
    assert traffic.mall_read_bytes == 128 * channels["memory_reads"].sum() + 64 * channels["memory_atomics"].sum()
    assert traffic.dram_read_bytes <= traffic.mall_read_bytes
    assert int(result.memory_channels["read_bytes"].sum()) == traffic.dram_read_bytes
    assert min(result.l2_imbalance, result.l2_window_imbalance, result.memory_imbalance) >= 1.0


# ---- stores and atomics ----


def test_the_first_store_to_a_line_misses_and_the_end_of_the_kernel_writes_it_back() -> None:
    result = profile([accesses(np.arange(1000), kind=AccessKind.STORE)])

    counts = {name: int(result.channels[name].sum()) for name in CHANNEL_COUNTS.names or ()}
    assert (counts["writes"], counts["misses"], counts["hits"]) == (2000, 1000, 1000)
    assert (counts["memory_writes"], counts["memory_partial_writes"], counts["memory_reads"]) == (2000, 0, 0)
    assert result.traffic.dirty_bytes_at_end == result.traffic.mall_write_bytes == 128_000


def test_scattered_stores_write_partial_sectors_unless_l2_collects_the_rest() -> None:
    parts = [accesses(np.arange(100), kind=AccessKind.STORE, sectors=1, dwords=1) for _ in range(8)]

    alone, all_of_them = profile(parts[:1]), profile([np.concatenate(parts)])

    assert int(alone.channels["memory_partial_writes"].sum()) == 100
    assert alone.traffic.partial_write_sectors == 100
    assert int(all_of_them.channels["writes"].sum()) == 800
    assert all_of_them.traffic.partial_write_sectors == 0
    assert all_of_them.traffic.mall_write_bytes == 100 * 32


def test_device_scope_atomics_of_several_xcds_are_executed_at_the_memory() -> None:
    shares = profile([accesses([5] * 100, kind=AccessKind.ATOMIC, sectors=1, dwords=1)]).shares(RequestKind.ATOMIC)

    assert (shares.l2, shares.mall, shares.hbm) == (0.0, 1.0, 0.0)


# ---- channels ----


def test_a_copy_loads_every_channel_equally_as_in_the_recorded_profile() -> None:
    """Recorded on an MI300X (rocprofiler-compute, vcopy): 512 reads and 1024 writes in each of the 128 channels."""
    groups = [
        np.concatenate([accesses(np.arange(16) + 16 * k), accesses(65_536 + np.arange(16) + 16 * k, kind=AccessKind.STORE)])
        for k in range(4096)
    ]

    result = profile(groups, resident=8)

    assert result.channels.shape == (XCDS, CHANNELS)
    assert np.unique(result.channels["reads"]).tolist() == [512]
    assert np.unique(result.channels["writes"]).tolist() == [1024]
    assert np.unique(result.channels["memory_writes"]).tolist() == [1024]
    assert result.l2_imbalance == 1.0


def test_a_stride_that_keeps_the_hashed_bits_uses_one_channel() -> None:
    # Bits 19 and 20 of an address do not select an L2 channel, bit 7 selects a line of 256 bytes.
    lines = [(high << 19 | line << 7) >> 7 for high in range(4) for line in range(2)]

    result = profile([accesses(lines) for _ in range(XCDS)])

    assert np.count_nonzero(result.channels["reads"], axis=1).tolist() == [1] * XCDS
    assert result.l2_imbalance == CHANNELS


def test_conflicts_of_channels_in_time_count_although_all_channels_are_used_equally_over_the_launch() -> None:
    """A window uses one channel with 160 requests, the next one another: the busiest channel has 16 times the average of 10."""
    lines = footprint([accesses(np.arange(64))])
    windows = np.zeros((1, 8, CHANNELS), dtype=np.uint64)
    for number in range(8):
        windows[0, number, number] = 160

    conflicting = _with_windows(lines, windows)
    even = _with_windows(lines, np.full_like(windows, 10))

    by_chance = 1.77 / 10**0.5  # 1.77 standard deviations: expectation of the largest of 16 normal variables
    assert conflicting.l2_window_imbalance == pytest.approx(16 - by_chance, rel=0.01)
    assert even.l2_window_imbalance == 1.0


def _with_windows(lines: LineFootprint, windows: NDArray[np.uint64]) -> SharedMemoryProfile:
    changed = replace(lines, channel_windows=windows)
    return shared_memory_profile(load_runtime(), changed, [(ADDRESS, 64 * 128)], mi300x(), resident_workgroups=1)


def test_hbm_channels_of_a_stream_are_loaded_equally() -> None:
    result = profile([accesses(np.arange(4096) + 4096 * k) for k in range(16)], warm=False)

    assert np.unique(result.memory_channels["read_bytes"]).tolist() == [16 * 4096 * 128 // 128]
    assert result.memory_imbalance == 1.0


def test_workgroups_without_samples_have_the_shares_of_the_launch() -> None:
    result = profile([accesses(np.arange(1000)), accesses([])], warm=False)

    assert result.shares(RequestKind.LOAD, [1]).hbm == 1.0
    assert result.shares(RequestKind.LOAD, [1]).requests == 0
