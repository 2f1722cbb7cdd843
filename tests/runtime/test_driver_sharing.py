"""Device memory of several processes: dmabufs, IPC handles, fork, and buffer objects of DRM."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import traceback
from ctypes import c_int32, c_uint32, c_uint64
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.driver_library import FIRST_GPU_ID, PAGE, PUBLIC, VRAM, Driver

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
MAP, UNMAP, CLEAR, REPLACE = 1, 2, 3, 4
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


class DmabufInformation(ctypes.Structure):
    """kfd_ioctl_get_dmabuf_info_args."""

    _fields_ = (
        ("size", c_uint64), ("metadata", c_uint64), ("metadata_size", c_uint32), ("gpu_id", c_uint32),
        ("flags", c_uint32), ("dmabuf", c_uint32),
    )  # fmt: skip


class ImportArguments(ctypes.Structure):
    """kfd_ioctl_import_dmabuf_args."""

    _fields_ = (("address", c_uint64), ("handle", c_uint64), ("gpu_id", c_uint32), ("dmabuf", c_uint32))


class ExportArguments(ctypes.Structure):
    """kfd_ioctl_export_dmabuf_args."""

    _fields_ = (("handle", c_uint64), ("flags", c_uint32), ("dmabuf", c_int32))


class IpcExport(ctypes.Structure):
    """kfd_ioctl_ipc_export_handle_args."""

    _fields_ = (("handle", c_uint64), ("share_handle", c_uint32 * 4), ("gpu_id", c_uint32), ("flags", c_uint32))


class IpcImport(ctypes.Structure):
    """kfd_ioctl_ipc_import_handle_args."""

    _fields_ = (
        ("handle", c_uint64), ("address", c_uint64), ("mmap_offset", c_uint64), ("share_handle", c_uint32 * 4),
        ("gpu_id", c_uint32), ("flags", c_uint32),
    )  # fmt: skip


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    """Return a driver with two GPUs."""
    return Driver.load(tmp_path)


def reserve(size: int) -> int:
    """Return the address of pages for a mapping."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    return int(library.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE, 0x22, -1, ctypes.c_long(0)))


def export(driver: Driver, handle: int) -> int:
    """Return a dmabuf of a block."""
    arguments = ExportArguments(handle, os.O_CLOEXEC, -1)
    driver.kfd(0x24, arguments)
    return int(arguments.dmabuf)


def import_dmabuf(driver: Driver, dmabuf: int, address: int, gpu: int = 0) -> int:
    """Return the handle of a dmabuf, mapped at `address` on one GPU."""
    arguments = ImportArguments(address, 0, FIRST_GPU_ID + gpu, dmabuf)
    driver.kfd(0x1D, arguments)
    driver.map(arguments.handle, gpu)
    return int(arguments.handle)


def in_child(action: Callable[[], None]) -> None:
    """Call `action` in a child process; its exceptions fail the test."""
    child = os.fork()
    if child == 0:
        # Nothing of pytest may run in the child, whatever happens.
        try:
            action()
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class TestDmabuf:
    """EXPORT_DMABUF, GET_DMABUF_INFO, IMPORT_DMABUF."""

    def test_another_process_has_the_same_pages(self, driver: Driver) -> None:
        address, size = reserve(MIB), MIB
        block = driver.allocate(size, address=address, flags=VRAM, gpu=1)
        driver.map(block.handle, 1)
        ctypes.memmove(address, b"from the parent", 15)
        dmabuf = export(driver, block.handle)

        def child() -> None:
            other = reserve(size)
            assert driver.ranges() == []
            handle = import_dmabuf(driver, dmabuf, other)
            assert ctypes.string_at(other, 15) == b"from the parent"
            assert driver.ranges() == [(other, other + size)]
            ctypes.memmove(other + 100, b"from the child", 14)
            information = DmabufInformation(dmabuf=dmabuf)
            driver.kfd(0x1C, information)
            assert (information.size, information.gpu_id, information.flags) == (size, FIRST_GPU_ID + 1, VRAM)
            driver.unmap(handle, 0)
            driver.free(handle)

        in_child(child)
        assert ctypes.string_at(address + 100, 14) == b"from the child"

    def test_pages_live_as_long_as_a_descriptor_of_them(self, driver: Driver) -> None:
        address = reserve(MIB)
        block = driver.allocate(MIB, address=address)
        driver.map(block.handle, 0)
        os.pwrite(driver.file, b"kept" * (MIB // 4), block.mmap_offset)
        dmabuf = export(driver, block.handle)
        used = os.fstat(driver.file).st_blocks
        driver.unmap(block.handle, 0)
        driver.free(block.handle)
        while_open = os.pread(driver.file, 4, block.mmap_offset)
        again = import_dmabuf(driver, dmabuf, address)
        after_import = ctypes.string_at(address, 4)
        os.close(dmabuf)
        driver.unmap(again, 0)
        driver.free(again)

        assert while_open == b"kept"
        assert after_import == b"kept"
        assert os.pread(driver.file, 4, block.mmap_offset) == b"\0" * 4
        assert os.fstat(driver.file).st_blocks <= used - MIB // 512

    def test_pages_outlive_the_exporter(self, driver: Driver) -> None:
        """A child allocates and sends a dmabuf over a socket, then ends."""
        from socket import AF_UNIX, SOCK_STREAM, recv_fds, send_fds, socketpair

        here, there = socketpair(AF_UNIX, SOCK_STREAM)

        def child() -> None:
            address = reserve(PAGE)
            block = driver.allocate(PAGE, address=address)
            driver.map(block.handle, 0)
            os.pwrite(driver.file, b"of the child", block.mmap_offset)
            send_fds(there, [b"x"], [export(driver, block.handle)])

        in_child(child)
        _, (dmabuf, *_), _, _ = recv_fds(here, 1, 1)
        address = reserve(PAGE)
        import_dmabuf(driver, dmabuf, address)
        os.close(dmabuf)
        assert ctypes.string_at(address, 12) == b"of the child"

    def test_pages_that_another_process_holds_are_kept(self, driver: Driver) -> None:
        address = reserve(PAGE)
        block = driver.allocate(PAGE, address=address)
        os.pwrite(driver.file, b"kept", block.mmap_offset)
        dmabuf = export(driver, block.handle)
        wait_read, wait_write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(wait_write)
            os.read(wait_read, 1)
            os._exit(0)
        os.close(dmabuf)
        driver.free(block.handle)
        while_held = os.pread(driver.file, 4, block.mmap_offset)
        os.close(wait_write)
        os.waitpid(child, 0)
        driver.free(driver.allocate(PAGE).handle)

        assert while_held == b"kept"
        assert os.pread(driver.file, 4, block.mmap_offset) == b"\0" * 4

    def test_other_descriptors_are_refused(self, driver: Driver) -> None:
        block = driver.allocate(PAGE)
        with pytest.raises(OSError, match="Invalid argument"):
            driver.kfd(0x1C, DmabufInformation(dmabuf=driver.file))
        with pytest.raises(OSError, match="Invalid argument"):
            driver.kfd(0x1D, ImportArguments(0, 0, FIRST_GPU_ID, driver.file))
        with pytest.raises(OSError, match="Bad file descriptor"):
            driver.kfd(0x1D, ImportArguments(0, 0, FIRST_GPU_ID, 1 << 20))
        with pytest.raises(OSError, match="Invalid argument"):
            export(driver, block.handle + 1)


class TestIpcHandles:
    """IPC_EXPORT_HANDLE and IPC_IMPORT_HANDLE of AMD's own driver."""

    def test_another_process_imports_a_handle_until_the_block_is_freed(self, driver: Driver) -> None:
        address = reserve(2 * PAGE)
        block = driver.allocate(2 * PAGE, address=address, flags=VRAM | PUBLIC)
        os.pwrite(driver.file, b"shared", block.mmap_offset + PAGE)
        exported = IpcExport(handle=block.handle)
        driver.kfd(0x81, exported)
        name = tuple(exported.share_handle)

        def child() -> None:
            imported = IpcImport(address=reserve(2 * PAGE), share_handle=name)
            driver.kfd(0x80, imported)
            driver.map(imported.handle, 0)
            assert imported.gpu_id == FIRST_GPU_ID
            assert ctypes.string_at(imported.address + PAGE, 6) == b"shared"
            ctypes.memmove(imported.address, b"answer", 6)

        def too_late() -> None:
            with pytest.raises(OSError, match="Invalid argument"):
                driver.kfd(0x80, IpcImport(address=0, share_handle=name))

        in_child(child)
        answer = os.pread(driver.file, 6, block.mmap_offset)
        driver.free(block.handle)
        in_child(too_late)
        too_late()

        assert answer == b"answer"


class TestFork:
    """A child starts without device memory, and does not disturb its parent."""

    def test_child_has_a_memory_file_of_its_own(self, driver: Driver) -> None:
        address = reserve(PAGE)
        block = driver.allocate(PAGE, address=address, flags=VRAM)
        driver.map(block.handle, 0)
        ctypes.memset(address, 1, PAGE)
        assert "gpu memory" in Path("/proc/self/maps").read_text()
        inode = os.fstat(driver.file).st_ino

        def child() -> None:
            maps = Path("/proc/self/maps").read_text()
            assert "gpu memory" not in maps, "device memory is not inherited"
            with pytest.raises(OSError, match="Invalid argument"):
                driver.free(block.handle)
            assert int(driver.library.drv_memory_file()) >= 0
            assert os.fstat(int(driver.library.drv_memory_file())).st_ino != inode
            own = driver.allocate(PAGE, address=reserve(PAGE))
            driver.map(own.handle, 0)
            assert driver.ranges() == [(own.address, own.address + PAGE)]
            driver.event()

        in_child(child)
        assert ctypes.string_at(address, 2) == b"\1\1"
        assert driver.ranges() == [(address, address + PAGE)]


class TestBufferObjects:
    """GEM handles and virtual addresses, for the virtual memory management of the runtime."""

    def test_parts_of_an_object_at_addresses(self, driver: Driver) -> None:
        library = driver.library
        library.drv_share_import.restype = ctypes.c_void_p
        block = driver.allocate(4 * PAGE)
        dmabuf = export(driver, block.handle)
        handle = library.drv_gem_add(ctypes.c_void_p(library.drv_share_import(dmabuf)), 0)
        os.close(dmabuf)
        os.pwrite(driver.file, b"page 1", block.mmap_offset + PAGE)
        driver.free(block.handle)
        place = reserve(8 * PAGE)

        def change(operation: int, first: int, pages: int, offset: int = 0) -> int:
            arguments = (c_uint64(offset * PAGE), c_uint64(pages * PAGE), c_uint64(place + first * PAGE))
            return int(library.drv_gem_va(0, handle, operation, *arguments))

        assert change(MAP, 2, 2, 1) == 0
        content = ctypes.string_at(place + 2 * PAGE, 6)
        mapped = driver.ranges()
        assert change(REPLACE, 3, 4, 0) == 0
        replaced = driver.ranges()
        assert change(UNMAP, 4, 1) == 0
        cut = driver.ranges()
        assert change(UNMAP, 0, 1) == errno.ENOENT
        assert change(CLEAR, 0, 8) == 0
        assert change(MAP, 0, 5) == errno.EINVAL
        assert change(MAP, 0, 1, 4) == errno.EINVAL
        assert library.drv_gem_va(1, handle, MAP, c_uint64(0), c_uint64(PAGE), c_uint64(place)) == errno.ENOENT

        page = [place + i * PAGE for i in range(9)]
        assert content == b"page 1"
        assert mapped == [(page[2], page[4])]
        assert replaced == [(page[2], page[7])]
        assert cut == [(page[2], page[4]), (page[5], page[7])]
        assert driver.ranges() == []
        assert library.drv_gem_close(handle) == 0
        assert library.drv_gem_close(handle) == errno.EINVAL
        assert os.pread(driver.file, 6, block.mmap_offset + PAGE) == b"\0" * 6
