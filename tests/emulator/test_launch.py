"""Launches of real kernels: geometry, LDS, barriers, atomics, scratch, globals, threads, traces, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.execution import LDS_POISON
from rocm_perf_lab.emulator.launch_limits import LaunchRefused
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from tests.builders.emulation import EmulatorBench, emulation_code_object, float32, int32
from tests.builders.targets import rx6800xt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.toolchain.code_object import CodeObject

TAG_SHIFT = np.uint64(56)
BLOCK_TAG, VMEM_TAG, SMEM_TAG = 1, 2, 4


@pytest.fixture(scope="module")
def code_object() -> CodeObject:
    return emulation_code_object()


@pytest.fixture
def bench(code_object: CodeObject) -> Iterator[EmulatorBench]:
    with EmulatorBench(code_object) as made:
        yield made


def test_every_work_item_knows_its_place_in_three_dimensions(bench: EmulatorBench) -> None:
    grid, block = (3, 2, 2), (5, 4, 3)  # 60 work-items: a partial wavefront
    out = bench.buffer(np.full(12 * 60, -1, np.int32))

    result = bench.launch("ids", grid, block, out)

    z, y, x = np.indices((3, 4, 5))
    item = (x + 100 * y + 1000 * z).ravel()
    assert np.array_equal(bench.read(out), (np.arange(12)[:, None] * 100000 + item).ravel())
    assert (result.waves, result.workgroups) == (12, 12)
    assert (result.counters["SQ_ITEMS"], result.counters["SQ_WAVES_LT_64"]) == (720, 12)


@pytest.mark.parametrize("threads", [1, 2])
def test_barriers_order_the_steps_of_a_reduction(code_object: CodeObject, threads: int) -> None:
    with EmulatorBench(code_object, threads=threads) as bench:
        x = bench.buffer(np.arange(8 * 256, dtype=np.int32))
        out = bench.buffer(np.zeros(8, np.int32), "out")

        bench.launch("reduce", 8, 256, x, out, lds=1024)

        assert np.array_equal(bench.read(out), np.arange(8 * 256).reshape(8, 256).sum(axis=1))


def test_wavefronts_that_ended_do_not_hold_up_a_barrier(bench: EmulatorBench) -> None:
    out = bench.buffer(np.zeros(64, np.int32))

    bench.launch("early_exit", 1, 256, out)

    assert set(bench.read(out)) == {5}


@pytest.mark.parametrize("threads", [1, 2])
def test_integer_atomics_of_all_workgroups_add_up(code_object: CodeObject, threads: int) -> None:
    values = np.random.default_rng(1).integers(0, 8, 64 * 256).astype(np.int32)
    with EmulatorBench(code_object, threads=threads) as bench:
        x, bins = bench.buffer(values), bench.buffer(np.zeros(8, np.int32), "bins")

        bench.launch("histogram", 64, 256, x, bins)

        assert np.array_equal(bench.read(bins), np.bincount(values))


def test_float_atomics_give_the_same_sum_with_any_number_of_threads(code_object: CodeObject) -> None:
    sums = []
    for threads in (1, 2):
        with EmulatorBench(code_object, threads=threads) as bench:
            total = bench.buffer(np.zeros(1, np.float32))
            bench.launch("float_sum", 40, 64, total, float32(0.1))
            sums.append(bench.read(total, np.float32)[0])

    assert sums[0] == sums[1] == pytest.approx(256, rel=1e-3)


def test_tickets_are_drawn_in_the_order_of_workgroups(code_object: CodeObject) -> None:
    with EmulatorBench(code_object, threads=2) as bench:
        counter, out = bench.buffer(np.zeros(1, np.int32)), bench.buffer(np.zeros(256, np.int32), "out")

        bench.launch("tickets", 4, 64, counter, out)

        assert np.array_equal(np.sort(bench.read(out)), np.arange(256))
        assert np.array_equal(bench.read(out).reshape(4, 64).min(axis=1), [0, 64, 128, 192])


def test_each_work_item_has_its_own_scratch(bench: EmulatorBench) -> None:
    out = bench.buffer(np.zeros(128, np.int32))

    bench.launch("scratch", 1, 128, out, int32(5))

    items = np.arange(128)
    assert np.array_equal(bench.read(out), (5 + items) % 16 * 3 + items)


def test_device_globals_are_initialised_relocated_and_readable(bench: EmulatorBench) -> None:
    out = bench.buffer(np.zeros(64, np.int32))

    bench.launch("globals", 1, 64, out)

    assert list(bench.read(out)[:5]) == [10, 20, 30, 40, 10]
    assert bench.loaded.device_global("counter_of_groups").view(np.int32)[0] == 42


def test_uninitialised_lds_is_poison(bench: EmulatorBench) -> None:
    out = bench.buffer(np.zeros(64, np.int32))

    bench.launch("unwritten_lds", 1, 64, out)

    assert set(bench.read(out, np.uint32)) == {LDS_POISON}


def test_workgroups_may_wait_for_later_ones(code_object: CodeObject) -> None:
    with EmulatorBench(code_object, max_instructions=10**9) as bench:
        flag, out = bench.buffer(np.zeros(1, np.int32)), bench.buffer(np.zeros(6, np.int32), "out")

        bench.launch("wait_for_last_group", 6, 64, flag, out)

        assert np.array_equal(bench.read(out), np.arange(6))


# ---- traces ----


def test_sampled_workgroups_are_traced_wave_by_wave(code_object: CodeObject) -> None:
    with EmulatorBench(code_object, sample=2) as bench:
        x = bench.buffer(np.zeros(8 * 128, np.int32))
        out = bench.buffer(np.zeros(8, np.int32), "out")

        result = bench.launch("reduce", 8, 128, x, out, lds=512)

    assert result.sample is not None
    workgroup = result.sample.chosen[1]
    assert [len(waves) for waves in result.traces] == [2, 2]
    words = result.traces[1][1]  # wavefront 1 of a workgroup loads 256 bytes from x + 512 * workgroup + 256
    position = next(n for n, word in enumerate(words) if word >> TAG_SHIFT == VMEM_TAG)
    assert int(words[position]) >> 32 & 0xFFFFFF == 3  # a word of details and two lines of 128 bytes
    lines = [(int(w) & ~127) - x.address - 512 * workgroup for w in words[position + 2 : position + 4]]
    assert lines == [256, 384]


def test_traced_blocks_agree_with_the_counted_ones(code_object: CodeObject) -> None:
    with EmulatorBench(code_object, sample=4) as bench:
        out = bench.buffer(np.zeros(4 * 64, np.int32))
        result = bench.launch("ids", 4, 64, out)

    counted = np.zeros(len(result.program.blocks), np.uint64)
    for waves in result.traces:
        for words in waves:
            skip = 0
            for word in words.tolist():
                if skip:
                    skip -= 1
                elif word >> 56 == BLOCK_TAG:
                    counted[word & 0xFFFFFFFF] += np.uint64(1)
                elif word >> 56 in (VMEM_TAG, SMEM_TAG):
                    skip = word >> 32 & 0xFFFFFF
    assert np.array_equal(counted, result.block_executions)


# ---- refusals ----


@pytest.mark.parametrize(
    ("kernel", "grid", "block", "lds", "message"),
    [
        ("bounded", 0, 64, 0, "at least 1"),
        ("bounded", 1, 256, 0, "at most 128"),
        ("ids", 1, 2048, 0, "at most 1024"),
        ("ids", 1, 64, 65537, "65,537 bytes of LDS"),
    ],
)
def test_launches_beyond_hardware_limits_are_refused(
    bench: EmulatorBench, kernel: str, grid: int, block: int, lds: int, message: str
) -> None:
    with pytest.raises(LaunchRefused, match=message):
        bench.launch(kernel, grid, block, 0, lds=lds)


def test_an_unknown_kernel_is_refused_with_the_known_ones(bench: EmulatorBench) -> None:
    with pytest.raises(CodeObjectError, match="no kernel 'missing'") as caught:
        bench.launch("missing", 1, 64)

    assert "histogram" in str(caught.value)


def test_another_architecture_is_refused() -> None:
    other = rx6800xt().model_copy(update={"architecture": "gfx1100"})

    with pytest.raises(LaunchRefused, match="executes gfx90a, gfx942, gfx950, gfx1030, rx6800xt is gfx1100"):
        EmulatedGpu(other, max_instructions=1)


def test_the_host_fills_a_variable_before_the_launch(code_object: CodeObject) -> None:
    with EmulatorBench(code_object) as bench:
        bench.loaded.fill_global("table", np.array([1, 2, 3, 4], np.int32).tobytes())
        out = bench.buffer(np.zeros(64, np.int32))
        bench.launch("globals", 1, 64, out)

        assert list(bench.read(out))[:5] == [1, 2, 3, 4, 1]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [("table", bytes(12), "has 16 bytes, but 12 were passed"), ("tabel", bytes(16), "no device global 'tabel'")],
)
def test_a_variable_of_another_size_or_name(code_object: CodeObject, name: str, content: bytes, says: str) -> None:
    with EmulatorBench(code_object) as bench, pytest.raises(CodeObjectError, match=says):
        bench.loaded.fill_global(name, content)
