"""Repeated launches: memory mapped by the caller, tracking and restoring written pages."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.emulator.kernarg import pack_kernarg
from rocm_perf_lab.emulator.memory import PAGE_BYTES, DeviceMemoryError
from tests.builders.emulation import EmulatorBench, emulation_code_object, int64

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def bench() -> Iterator[EmulatorBench]:
    with EmulatorBench(emulation_code_object()) as made:
        yield made


def test_a_prepared_launch_runs_again_and_again(bench: EmulatorBench) -> None:
    x, bins = bench.buffer(np.arange(64, dtype=np.int32)), bench.buffer(np.zeros(8, dtype=np.int32))
    geometry = Geometry((1, 1, 1), (64, 1, 1))
    kernarg = pack_kernarg(bench.loaded.kernel("histogram"), [x.address, bins.address], geometry)

    with bench.machine.prepare(bench.loaded, "histogram", geometry, kernarg) as prepared:
        for _ in range(3):
            prepared.run(traced=False)

    assert bench.read(bins).tolist() == [24] * 8


def test_pages_written_by_a_kernel_are_tracked_and_restored(bench: EmulatorBench) -> None:
    image = np.arange(8 * PAGE_BYTES // 4, dtype=np.int32)
    out = bench.buffer(image)
    pages = bench.machine.memory.track_writes(out.address, 8 * PAGE_BYTES)

    bench.launch("store_at", 1, 64, out, int64(2 * PAGE_BYTES // 4 - 1))
    written = pages.written.tolist()
    restored = pages.restore(image.view(np.uint8))

    assert written == [0, 1, 1, 0, 0, 0, 0, 0]
    assert restored == 2
    assert not pages.written.any()
    assert np.array_equal(bench.read(out), image)


def test_loads_do_not_mark_pages_as_written(bench: EmulatorBench) -> None:
    x, out = bench.buffer(np.zeros(1024, dtype=np.int32)), bench.buffer(np.zeros(16, dtype=np.int32))
    pages = bench.machine.memory.track_writes(x.address, PAGE_BYTES)

    bench.launch("reduce", 16, 64, x, out, lds=256)

    assert not pages.written.any()


def test_memory_mapped_by_the_caller_is_used_in_place(bench: EmulatorBench) -> None:
    mapping = mmap.mmap(-1, PAGE_BYTES)
    view = np.frombuffer(mapping, dtype=np.int32)
    out = bench.machine.memory.adopt("out", PAGE_BYTES, view.ctypes.data)

    bench.launch("ids", 1, 64, out)

    assert view[:64].tolist() == list(range(64))


def test_memory_is_adopted_once(bench: EmulatorBench) -> None:
    x = bench.buffer(np.zeros(4, dtype=np.int32))

    with pytest.raises(DeviceMemoryError, match="overlaps 'x'"):
        bench.machine.memory.adopt("again", 8, x.address + 8)


def test_a_code_object_is_loaded_at_a_chosen_address(bench: EmulatorBench) -> None:
    loaded = bench.machine.load(emulation_code_object(), 0x2345_0000_0000)

    assert loaded.load_address == 0x2345_0000_0000
