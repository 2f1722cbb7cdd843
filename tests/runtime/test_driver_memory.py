"""Memory of the emulated driver: blocks, limits, accessible ranges, and the host's memory."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders.driver_library import FIRST_GPU_ID, GTT, PAGE, PUBLIC, USERPTR, VRAM, Driver

if TYPE_CHECKING:
    from pathlib import Path

ACCESS, IN_PLACE, NO_ACCESS, SET_FLAGS, CLEAR_FLAGS, PREFERRED, PREFETCH, GRANULARITY = 2, 3, 4, 5, 6, 0, 1, 7


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """Return a driver with two GPUs of 64 GiB."""
    return Driver.load(tmp_path_factory.mktemp("driver"))


@dataclass
class HostPages:
    """Private anonymous pages of this process."""

    count: int
    memory: mmap.mmap = field(init=False)
    address: int = field(init=False)

    def __post_init__(self) -> None:
        self.memory = mmap.mmap(-1, self.count * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def page(self, index: int) -> int:
        """Return the address of a page."""
        return self.address + index * PAGE


def error_of(action: object, *arguments: object, **keywords: object) -> int:
    """Return the errno with which a call fails, 0 if it does not."""
    try:
        action(*arguments, **keywords)  # type: ignore[operator]
    except OSError as error:
        return int(error.errno or -1)
    return 0


class TestBlocks:
    """ALLOC, MAP, UNMAP and FREE."""

    def test_mapped_block_is_accessible_until_it_is_unmapped(self, driver: Driver) -> None:
        pages = HostPages(4)
        block = driver.allocate(2 * PAGE, address=pages.page(1))
        assert (pages.page(1), pages.page(3)) not in driver.ranges()

        assert driver.map(block.handle, 0, 1) == 2
        mapped = driver.ranges()
        driver.unmap(block.handle, 0)

        assert (pages.page(1), pages.page(3)) in mapped
        assert (pages.page(1), pages.page(3)) not in driver.ranges()
        assert (pages.page(1), pages.page(3)) in driver.ranges(gpu=1)
        driver.unmap(block.handle, 1)
        assert (pages.page(1), pages.page(3)) not in driver.ranges(gpu=1)
        driver.free(block.handle)

    def test_block_is_accessible_to_the_gpus_that_map_it(self, driver: Driver) -> None:
        pages = HostPages(1)
        block = driver.allocate(PAGE, address=pages.address)
        whole = (pages.address, pages.address + PAGE)

        driver.map(block.handle, 0)
        by_owner = whole in driver.ranges(), whole in driver.ranges(gpu=1)
        driver.map(block.handle, 1)
        by_both = whole in driver.ranges(), whole in driver.ranges(gpu=1)
        driver.unmap(block.handle, 0)
        by_peer = whole in driver.ranges(), whole in driver.ranges(gpu=1)

        assert (by_owner, by_both, by_peer) == ((True, False), (True, True), (False, True))
        driver.unmap(block.handle, 1)
        driver.free(block.handle)

    def test_block_is_found_by_each_address_inside(self, driver: Driver) -> None:
        pages = HostPages(4)
        block = driver.allocate(2 * PAGE, address=pages.page(1), gpu=1)
        driver.map(block.handle, 1)

        assert driver.block(pages.page(1)) == (pages.page(1), 2 * PAGE, block.mmap_offset, FIRST_GPU_ID + 1)
        assert driver.block(pages.page(3) - 1) == driver.block(pages.page(1))
        assert driver.block(pages.page(3)) is None
        assert driver.block(pages.page(1) - 1) is None
        driver.unmap(block.handle, 1)
        driver.free(block.handle)

    def test_content_is_that_of_the_memory_file(self, driver: Driver) -> None:
        pages = HostPages(1)
        block = driver.allocate(PAGE, address=pages.address, flags=VRAM)
        driver.map(block.handle, 0)
        ctypes.memset(pages.address, 0x5A, PAGE)

        assert os.pread(driver.file, 3, block.mmap_offset) == b"ZZZ"
        driver.unmap(block.handle, 0)
        driver.free(block.handle)
        assert os.pread(driver.file, 3, block.mmap_offset) == b"\0\0\0"

    def test_refusals_of_kfd(self, driver: Driver) -> None:
        pages = HostPages(1)
        block = driver.allocate(PAGE, address=pages.address)
        driver.map(block.handle, 0)

        assert error_of(driver.allocate, 0) == errno.EINVAL
        assert error_of(driver.allocate, PAGE, flags=PUBLIC) == errno.EINVAL
        assert error_of(driver.allocate, PAGE, flags=VRAM | GTT) == errno.EINVAL
        assert error_of(driver.allocate, PAGE, gpu=2) == errno.EINVAL
        assert error_of(driver.allocate, PAGE, flags=1 << 3) == errno.EINVAL, "doorbells have a fixed size"
        assert error_of(driver.allocate, PAGE, flags=USERPTR, user=0) == errno.EINVAL
        assert error_of(driver.allocate, PAGE, flags=USERPTR, user=PAGE) == errno.EFAULT
        assert error_of(driver.free, block.handle) == errno.EBUSY
        assert error_of(driver.map, block.handle) == errno.EINVAL
        assert error_of(driver.map, block.handle, 1, 2) == errno.EINVAL
        assert error_of(driver.unmap, block.handle, 0) == 0
        assert error_of(driver.unmap, block.handle, 0) == errno.EINVAL
        assert error_of(driver.unmap, block.handle, 1) == 0, "the GPU before the unknown one was mapped"
        assert error_of(driver.free, block.handle) == 0
        assert error_of(driver.free, block.handle) == errno.EINVAL
        assert error_of(driver.map, block.handle, 0) == errno.ENOMEM
        assert error_of(driver.free, 0) == errno.EINVAL

    def test_memory_of_a_gpu_is_limited_and_only_reserved(self, tmp_path: Path) -> None:
        driver = Driver.load(tmp_path, memory_bytes=100 << 30)
        before = os.fstat(driver.file).st_blocks

        first = driver.allocate(60 << 30)
        too_large = error_of(driver.allocate, 41 << 30)
        other = driver.allocate(41 << 30, gpu=1)
        driver.free(first.handle)
        second = driver.allocate(100 << 30)

        assert too_large == errno.ENOMEM
        assert os.fstat(driver.file).st_blocks == before
        assert error_of(driver.allocate, PAGE) == errno.ENOMEM
        driver.free(second.handle)
        driver.free(other.handle)

    def test_many_blocks(self, driver: Driver) -> None:
        """20,000 blocks with gaps between them: all are found, and freeing every second one halves the ranges."""
        count = 20_000
        pages = HostPages(2 * count)
        before = len(driver.ranges())
        blocks = [driver.allocate(PAGE, address=pages.page(2 * i), flags=USERPTR, user=pages.page(2 * i)) for i in range(count)]
        for block in blocks:
            driver.map(block.handle, 0)

        mapped = len(driver.ranges())
        for block in blocks[::2]:
            driver.unmap(block.handle, 0)
            driver.free(block.handle)

        assert mapped == before + count
        assert len(driver.ranges()) == before + count // 2
        assert driver.block(pages.page(2)) == (pages.page(2), PAGE, 2**64 - 1, FIRST_GPU_ID)
        assert driver.block(pages.page(4)) is None
        for block in blocks[1::2]:
            driver.unmap(block.handle, 0)
            driver.free(block.handle)


COUNTED, SVM = 0, 1
FIRST, SECOND = 1, 2
"""Masks of GPUs."""
RANGES = st.tuples(st.integers(0, 31), st.integers(1, 8)).map(lambda pair: (pair[0], min(32, pair[0] + pair[1])))
CHANGES = st.lists(st.tuples(st.booleans(), st.sampled_from((COUNTED, SVM)), RANGES), max_size=40)


class TestRanges:
    """Accessible ranges against a model that counts per page."""

    @given(changes=CHANGES)
    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_random_changes_equal_a_model_of_pages(
        self, driver: Driver, changes: list[tuple[bool, int, tuple[int, int]]]
    ) -> None:
        library = driver.library
        library.drv_ranges_forget()
        counts, svm = [0] * 32, [False] * 32
        # Mapped pages, since pages that the host has not mapped are dropped.
        pages = HostPages(32)
        base = pages.address
        for is_added, kind, (first, last) in changes:
            arguments = (FIRST, kind, ctypes.c_uint64(base + first * PAGE), ctypes.c_uint64(base + last * PAGE))
            version = library.drv_ranges_version(0)
            if is_added:
                assert library.drv_ranges_add_locked(*arguments) == 0
            else:
                library.drv_ranges_remove_locked(*arguments)
            assert library.drv_ranges_version(0) > version
            for page in range(first, last):
                if kind == SVM:
                    svm[page] = is_added
                else:
                    counts[page] = max(0, counts[page] + (1 if is_added else -1))
            expected = _runs([count > 0 or is_svm for count, is_svm in zip(counts, svm, strict=True)], base)
            assert driver.ranges() == expected
            assert driver.ranges(gpu=1) == []

    def test_a_snapshot_does_not_change(self, driver: Driver) -> None:
        library = driver.library
        library.drv_ranges_forget()
        page = ctypes.c_uint64(1 << 40), ctypes.c_uint64((1 << 40) + PAGE)  # counted ranges are not looked at
        library.drv_ranges_add_locked(FIRST | SECOND, COUNTED, *page)

        snapshot = library.drv_ranges_get(0)
        same = library.drv_ranges_get(0)
        library.drv_ranges_remove_locked(FIRST | SECOND, COUNTED, *page)

        assert ctypes.addressof(snapshot.contents) == ctypes.addressof(same.contents)
        assert driver.ranges() == []
        assert snapshot.contents.count == 1
        library.drv_ranges_put(snapshot)
        library.drv_ranges_put(same)


def _runs(accessible: list[bool], base: int) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for page, is_accessible in enumerate(accessible):
        if is_accessible and runs and runs[-1][1] == base + page * PAGE:
            runs[-1] = (runs[-1][0], base + (page + 1) * PAGE)
        elif is_accessible:
            runs.append((base + page * PAGE, base + (page + 1) * PAGE))
    return runs


def _has_userfaultfd() -> bool:
    number, user_mode_only = 323, 1
    descriptor = ctypes.CDLL(None).syscall(number, os.O_CLOEXEC | user_mode_only)
    if descriptor >= 0:
        os.close(descriptor)
    return bool(descriptor >= 0)


class TestHostMemory:
    """Registration of the host's memory, and XNACK."""

    def test_registered_pages_at_a_second_address_are_the_same_pages(self, driver: Driver) -> None:
        user, place = HostPages(4), HostPages(4)
        user.memory[:4] = b"abcd"
        user.memory[3 * PAGE : 3 * PAGE + 2] = b"yz"

        block = driver.allocate(4 * PAGE, address=place.address, flags=USERPTR, user=user.address)
        driver.map(block.handle, 0)
        before = place.memory[:4], place.memory[3 * PAGE : 3 * PAGE + 2]
        place.memory[5] = 7
        user.memory[6] = 8

        assert before == (b"abcd", b"yz")
        assert user.memory[5] == 7
        assert place.memory[6] == 8
        driver.unmap(block.handle, 0)
        driver.free(block.handle)

    @pytest.mark.skipif(not _has_userfaultfd(), reason="userfaultfd() is not allowed here")
    def test_no_store_is_lost_while_pages_move(self, driver: Driver) -> None:
        """A thread counts in a page while it and 2,000 others move: each count is there afterwards."""
        user, place = HostPages(2001), HostPages(2001)
        user.memory[:] = bytes([1]) * len(user.memory)
        counter = ctypes.c_uint64.from_address(user.address)
        counter.value = 0
        stop = threading.Event()

        def count() -> int:
            expected = 0
            while not stop.is_set():
                for _ in range(1000):
                    expected += 1
                    counter.value += 1
            return expected

        with ThreadPoolExecutor(1) as pool:
            counting = pool.submit(count)
            time.sleep(0.05)
            block = driver.allocate(2001 * PAGE, address=place.address, flags=USERPTR, user=user.address)
            time.sleep(0.05)
            stop.set()
            expected = counting.result(timeout=10)

        assert expected > 1000
        assert counter.value == expected
        assert place.memory[:8] == expected.to_bytes(8, "little")
        assert place.memory[8:] == bytes([1]) * (len(place.memory) - 8)
        driver.free(block.handle)

    def test_pages_that_the_host_unmapped_are_given_back(self, tmp_path: Path) -> None:
        """100 registrations of 1 MiB each, unmapped afterwards: most of the 100 MiB are free again."""
        driver = Driver.load(tmp_path)
        place = HostPages(256)
        for _ in range(100):
            with mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as user:
                user[:] = bytes([1]) * len(user)
                address = ctypes.addressof(ctypes.c_char.from_buffer(user))
                block = driver.allocate(1 << 20, address=place.address, flags=USERPTR, user=address)
                driver.free(block.handle)
        assert os.fstat(driver.file).st_blocks * 512 <= 40 << 20

    def test_child_has_a_copy_of_moved_pages(self, driver: Driver) -> None:
        user, place = HostPages(1), HostPages(1)
        user.memory[:3] = b"abc"
        block = driver.allocate(PAGE, address=place.address, flags=USERPTR, user=user.address)
        child = os.fork()
        if child == 0:
            is_copy = user.memory[:3] == b"abc"
            user.memory[:3] = b"xyz"
            os._exit(0 if is_copy else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert user.memory[:3] == b"abc"
        user.memory[0] = ord("d")
        assert place.memory[:3] == b"dbc"
        driver.free(block.handle)

    def test_shared_file_at_a_second_address(self, driver: Driver, tmp_path: Path) -> None:
        with (tmp_path / "file").open("w+b") as file:
            file.truncate(PAGE)
            shared = mmap.mmap(file.fileno(), PAGE)
            place = HostPages(1)
            block = driver.allocate(
                PAGE, address=place.address, flags=USERPTR, user=ctypes.addressof(ctypes.c_char.from_buffer(shared))
            )
            place.memory[0] = 9
            assert shared[0] == 9
            assert file.read(1) == b"\x09"
            driver.free(block.handle)

    def test_svm_attributes(self, driver: Driver) -> None:
        pages = HostPages(8)
        first, second = FIRST_GPU_ID, FIRST_GPU_ID + 1
        driver.svm(0, pages.page(1), 4 * PAGE, [(ACCESS, first), (SET_FLAGS, 0x20), (PREFERRED, first), (GRANULARITY, 3)])
        driver.svm(0, pages.page(3), 2 * PAGE, [(IN_PLACE, second), (CLEAR_FLAGS, 2)])

        inside = driver.svm(1, pages.page(1), 2 * PAGE, [(ACCESS, first), (ACCESS, second), (SET_FLAGS, 0), (PREFERRED, 0)])
        all_of_it = driver.svm(1, pages.page(1), 4 * PAGE, [(ACCESS, first), (ACCESS, second), (SET_FLAGS, 0), (CLEAR_FLAGS, 0)])
        beyond = driver.svm(1, pages.page(0), 2 * PAGE, [(ACCESS, first), (PREFERRED, 0), (GRANULARITY, 0)])

        assert inside == [(ACCESS, first), (NO_ACCESS, second), (SET_FLAGS, 0x23), (PREFERRED, first)]
        assert all_of_it == [(ACCESS, first), (NO_ACCESS, second), (SET_FLAGS, 0x21), (CLEAR_FLAGS, 0xFFFFFFDC)]
        assert beyond == [(NO_ACCESS, first), (PREFERRED, 0xFFFFFFFF), (GRANULARITY, 3)]
        assert (pages.page(1), pages.page(5)) in driver.ranges()

        driver.svm(0, pages.page(1), 4 * PAGE, [(NO_ACCESS, first), (NO_ACCESS, second)])
        assert (pages.page(1), pages.page(5)) not in driver.ranges()

    def test_registered_memory_leaves_with_its_mapping(self, driver: Driver) -> None:
        pages = HostPages(2048)
        driver.svm(0, pages.address, 2048 * PAGE, [(ACCESS, FIRST_GPU_ID)])

        def is_accessible(page: int) -> bool:
            return any(begin <= pages.page(page) < end for begin, end in driver.ranges())

        before = is_accessible(0), is_accessible(2047)
        library = ctypes.CDLL(None)
        library.munmap(ctypes.c_void_p(pages.page(1024)), ctypes.c_size_t(1024 * PAGE))
        after = is_accessible(0), is_accessible(1100)
        library.mmap.restype = ctypes.c_void_p
        library.mmap(ctypes.c_void_p(pages.page(1024)), ctypes.c_size_t(1024 * PAGE), 3, 0x32, -1, ctypes.c_long(0))

        assert before == (True, True)
        assert after == (True, False)

    def test_svm_refusals(self, driver: Driver) -> None:
        pages = HostPages(1)
        assert error_of(driver.svm, 0, pages.address, 0, []) == errno.EINVAL
        assert error_of(driver.svm, 0, pages.address, PAGE, [(8, 0)]) == errno.EINVAL
        assert error_of(driver.svm, 0, pages.address, PAGE, [(ACCESS, 1)]) == errno.EINVAL
        assert error_of(driver.svm, 2, pages.address, PAGE, []) == errno.EINVAL
        assert error_of(driver.svm, 0, PAGE, PAGE, [(ACCESS, FIRST_GPU_ID)]) == errno.EFAULT
        assert error_of(driver.svm, 0, pages.address, PAGE, [(PREFETCH, 0xFFFFFFFF)]) == errno.EINVAL

    def test_xnack_makes_host_memory_accessible_at_a_fault(self, tmp_path: Path) -> None:
        driver = Driver.load(tmp_path)
        pages = HostPages(2048)
        assert driver.library.drv_memory_fault_in(ctypes.c_uint64(pages.address)) == 0
        assert driver.xnack(-1) == 0
        assert driver.xnack(1) == 1

        def is_accessible(page: int) -> bool:
            return any(begin <= pages.page(page) < end for begin, end in driver.ranges())

        assert driver.library.drv_memory_fault_in(ctypes.c_uint64(pages.page(3) + 5)) == 1
        assert [is_accessible(page) for page in (0, 3, 1023, 2047)] == [True] * 4
        assert driver.library.drv_memory_fault_in(ctypes.c_uint64(PAGE)) == 0

        # The host gives back the second half: 4 MiB.
        library = ctypes.CDLL(None)
        library.munmap(ctypes.c_void_p(pages.page(1024)), ctypes.c_size_t(1024 * PAGE))
        after = [is_accessible(page) for page in (3, 1100)]
        library.mmap.restype = ctypes.c_void_p
        library.mmap(ctypes.c_void_p(pages.page(1024)), ctypes.c_size_t(1024 * PAGE), 3, 0x32, -1, ctypes.c_long(0))

        assert after == [True, False]

    def test_xnack_is_refused_where_a_gpu_cannot_do_it(self, tmp_path: Path) -> None:
        driver = Driver.load(tmp_path, xnack=False)
        assert error_of(driver.xnack, 1) == errno.EPERM
        assert driver.xnack(-1) == 0
