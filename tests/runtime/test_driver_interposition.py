"""The emulated driver preloaded into a process: paths, descriptors and ioctls of the emulated devices, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocm_perf_lab.core.resources import zig_environment
from rocm_perf_lab.runtime.driver_build import build_driver
from tests.builders.driver_library import write_session

PREAMBLE = """
import ctypes, errno, fcntl, os, stat, struct, sys, threading
def ioctl(fd, number, format, *values):
    data = bytearray(struct.pack(format, *values))
    fcntl.ioctl(fd, 3 << 30 | len(data) << 16 | ord("K") << 8 | number, data)
    return struct.unpack(format, data)
def fails(action, *arguments):
    try:
        action(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return None
libc = ctypes.CDLL(None, use_errno=True)
"""
TREE = {
    "sys/devices/virtual/kfd/kfd/topology/generation_id": "2\n",
    "sys/devices/pci0000:00/0000:03:00.0/vendor": "0x1002\n",
    "sys/class/drm/version": "drm 1.1.0\n",
}


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Return a session directory with a small tree of sysfs."""
    directory = write_session(tmp_path / "session")
    for name, content in TREE.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(content)
    (directory / "sys/class/drm/renderD128").symlink_to("../../devices/pci0000:00/0000:03:00.0")
    return directory


def run(code: str, session: Path | None) -> str:
    """Run a Python program with the driver preloaded, and return its output."""
    environment = {**os.environ, "LD_PRELOAD": str(build_driver())}
    if session:
        environment["RPL_SESSION"] = str(session)
    result = subprocess.run(
        [sys.executable, "-c", PREAMBLE + code], capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


class TestPaths:
    """Files below /sys and /dev."""

    def test_sysfs_of_the_emulated_machine(self, session: Path) -> None:
        code = """
print(open("/sys/devices/virtual/kfd/kfd/topology/generation_id").read().strip())
print(sorted(os.listdir("/sys/class/drm")), os.path.exists("/sys/class/kfd"))
print(os.path.exists("/sys/devices/virtual/kfd/none"), os.access("/sys/class/drm/version", os.R_OK))
print(os.readlink("/sys/class/drm/renderD128"))
print(os.path.realpath("/sys/class/drm/renderD128"))
print(stat.S_ISLNK(os.lstat("/sys/class/drm/renderD128").st_mode), stat.S_ISDIR(os.stat("/sys/class/drm/renderD128").st_mode))
print(open("/sys/devices/pci0000:00/0000:03:00.0/vendor").read().strip())
libc.realpath.restype = ctypes.c_char_p
print(libc.realpath(b"/sys/class/drm/renderD128", None).decode())
libc.fopen.restype = ctypes.c_void_p
file = libc.fopen(b"/sys/class/drm/version", b"r")
buffer = ctypes.create_string_buffer(64)
libc.fgets.restype = ctypes.c_char_p
print(libc.fgets(buffer, 64, ctypes.c_void_p(file)).decode().strip())
"""
        assert run(code, session).splitlines() == [
            "2",
            f"['renderD128', 'version'] {Path('/sys/class/kfd').exists()}",
            "False True",
            "../../devices/pci0000:00/0000:03:00.0",
            "/sys/devices/pci0000:00/0000:03:00.0",
            "True True",
            "0x1002",
            "/sys/devices/pci0000:00/0000:03:00.0",
            "drm 1.1.0",
        ]

    def test_the_rest_of_the_machine_is_unchanged(self, session: Path, tmp_path: Path) -> None:
        code = f"""
print(sorted(os.listdir("/sys/devices")) == {sorted(path.name for path in Path("/sys/devices").iterdir())!r})
print(os.path.exists("/sys/devices/system/cpu"), os.path.exists("/sys/class/net"))
descriptor = os.open({str(tmp_path / "new")!r}, os.O_CREAT | os.O_RDWR, 0o640)
os.fchmod(descriptor, os.fstat(descriptor).st_mode)
print(oct(os.fstat(descriptor).st_mode), os.stat({str(tmp_path / "new")!r}).st_size)
print(fails(os.stat, "/nowhere"), fails(os.open, "/nowhere", 0), fails(os.stat, "/dev/kfd2"))
directory = os.open("/", os.O_RDONLY)
print(stat.S_ISDIR(os.stat("proc", dir_fd=directory).st_mode), fails(fcntl.ioctl, descriptor, 0x4B3B, 0))
"""
        umask = os.umask(0)
        os.umask(umask)
        assert run(code, session).splitlines() == [
            "True",
            "True True",
            f"{oct(0o100640 & ~umask)} 0",
            "ENOENT ENOENT ENOENT",
            "True ENOTTY",
        ]

    def test_devices_are_character_devices(self, session: Path) -> None:
        code = """
for path in ("/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129"):
    status = os.stat(path)
    fd = os.open(path, os.O_RDWR)
    same = os.fstat(fd)
    print(stat.S_ISCHR(status.st_mode), os.major(status.st_rdev), os.minor(status.st_rdev), same.st_rdev == status.st_rdev)
print(os.access("/dev/kfd", os.R_OK | os.W_OK), os.access("/dev/kfd", os.X_OK), fails(os.stat, "/dev/dri/renderD130"))
"""
        assert run(code, session).splitlines() == [
            "True 236 0 True",
            "True 226 128 True",
            "True 226 129 True",
            "True False ENOENT",
        ]

    def test_without_a_session_nothing_is_replaced(self) -> None:
        code = """
print(os.path.exists("/dev/kfd"), os.path.exists("/sys/class/net"), fails(os.open, "/dev/kfd", os.O_RDWR))
"""
        has_gpu = Path("/dev/kfd").exists()
        expected = f"{has_gpu} True {None if has_gpu else 'ENOENT'}\n"
        assert run(code, None) == expected


OLD_PROGRAM = """
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
int main(void) {
  struct stat a, b, c, d;
  struct stat64 e;
  int fd = open("/dev/dri/renderD128", O_RDWR);
  printf("%d %d %d\\n", stat("/dev/kfd", &a), S_ISCHR(a.st_mode), major(a.st_rdev));
  printf("%d %d\\n", lstat("/sys/class/drm/renderD128", &b), S_ISLNK(b.st_mode));
  printf("%d %d\\n", fstat(fd, &c), minor(c.st_rdev));
  printf("%d %d\\n", fstatat(AT_FDCWD, "/sys/class/drm/version", &d, 0), (int)d.st_size);
  printf("%d %d\\n", stat64("/sys/class/drm/version", &e), (int)e.st_size);
  struct dirent **list;
  printf("%d\\n", scandir("/sys/class/drm", &list, 0, alphasort));
}
"""


def test_program_for_an_old_c_library(session: Path, tmp_path: Path) -> None:
    """Programs for glibc before 2.33 call __xstat and its relatives."""
    source, program = tmp_path / "old.c", tmp_path / "old"
    source.write_text(OLD_PROGRAM)
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.17"]
    subprocess.run([*compiler, "-o", str(program), str(source)], check=True, env={**os.environ, **zig_environment()})
    environment = {**os.environ, "LD_PRELOAD": str(build_driver()), "RPL_SESSION": str(session)}
    symbols = program.read_bytes()
    output = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=True).stdout

    assert b"__xstat" in symbols
    assert b"__fxstatat" in symbols
    assert output.splitlines() == ["0 1 236", "0 1", "0 128", "0 10", "0 10", "4"]


class TestDescriptors:
    """Descriptors of devices."""

    def test_duplicates_and_high_numbers_are_the_same_device(self, session: Path) -> None:
        code = """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
kfd = os.open("/dev/kfd", os.O_RDWR)
others = [os.dup(kfd), fcntl.fcntl(kfd, fcntl.F_DUPFD, hard - 1), os.dup2(kfd, 900)]
os.close(kfd)
print([ioctl(fd, 0x01, "II", 0, 0)[0] for fd in others])
plain = os.open("/dev/null", os.O_RDWR)
print(plain == kfd, fails(ioctl, plain, 0x01, "II", 0, 0))
print(os.get_inheritable(others[0]), os.get_inheritable(os.open("/dev/kfd", os.O_RDWR)))
libc.open.argtypes = [ctypes.c_char_p, ctypes.c_int]
print(os.get_inheritable(libc.open(b"/dev/kfd", os.O_RDWR)), os.get_inheritable(libc.open(b"/dev/kfd", os.O_RDWR | os.O_CLOEXEC)))
"""
        assert run(code, session).splitlines() == ["[1, 1, 1]", "True ENOTTY", "False False", "True False"]

    def test_child_may_not_use_its_parents_device(self, session: Path) -> None:
        code = """
kfd = os.open("/dev/kfd", os.O_RDWR)
child = os.fork()
if child == 0:
    old = fails(ioctl, kfd, 0x01, "II", 0, 0)
    new = ioctl(os.open("/dev/kfd", os.O_RDWR), 0x01, "II", 0, 0)[0]
    os._exit(0 if (old, new) == ("EBADF", 1) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ioctl(kfd, 0x01, "II", 0, 0)[0])
"""
        assert run(code, session) == "0 1\n"

    def test_kfd_of_render_node_and_unknown_numbers_are_refused(self, session: Path) -> None:
        code = """
kfd, node = os.open("/dev/kfd", os.O_RDWR), os.open("/dev/dri/renderD128", os.O_RDWR)
print(fails(ioctl, node, 0x01, "II", 0, 0), fails(ioctl, kfd, 0x7F, "II", 0, 0), fails(ioctl, kfd, 0x22, "Q", 0))
print([fails(ioctl, kfd, 0x15, "II", fd, gpu) for fd, gpu in ((node, 0x4242), (node, 0x4243), (kfd, 0x4242))])
print(ioctl(kfd, 0x14, "QII", 0, 0, 0)[1])
apertures = (ctypes.c_uint64 * 35)()
print(ioctl(kfd, 0x14, "QII", ctypes.addressof(apertures), 5, 0)[1])
print(hex(apertures[4]), apertures[5] == 2**47 - 1, apertures[6], apertures[13])
"""
        assert run(code, session).splitlines() == [
            "ENOTTY EINVAL EACCES",
            "[None, 'EINVAL', 'EINVAL']",
            "2",
            "2",
            "0x4000 True 16962 16963",
        ]

    def test_marks_in_the_session(self, session: Path) -> None:
        run("print(1)", session)
        assert (session / "loaded").exists()
        assert not (session / "used").exists()
        run('os.open("/dev/kfd", os.O_RDWR)', session)
        assert (session / "used").exists()

    def test_threads_open_the_device_at_the_same_time(self, session: Path) -> None:
        code = """
barrier, found = threading.Barrier(8), []
def work():
    barrier.wait()
    kfd = os.open("/dev/kfd", os.O_RDWR)
    found.append((os.fstat(kfd).st_ino, ioctl(kfd, 0x01, "II", 0, 0)[0]))
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), len(set(found)))
"""
        assert run(code, session) == "8 1\n"


class TestDrm:
    """ioctls of a render node, as libdrm issues them."""

    def test_version_and_properties(self, session: Path) -> None:
        code = """
node = os.open("/dev/dri/renderD129", os.O_RDWR)
name = ctypes.create_string_buffer(16)
version = bytearray(struct.pack("iiiiQQQQQQ", 0, 0, 0, 0, 16, ctypes.addressof(name), 0, 0, 0, 0))
fcntl.ioctl(node, 3 << 30 | len(version) << 16 | ord("d") << 8, version)
print(struct.unpack_from("ii", version), name.value)
def info(query, size, kind=0):
    out = ctypes.create_string_buffer(size)
    data = struct.pack("QIIIIQ", ctypes.addressof(out), size, query, kind, 0, 0)
    fcntl.ioctl(node, 1 << 30 | len(data) << 16 | ord("d") << 8 | 0x45, data)
    return out.raw
device = info(0x16, 64)
print(hex(struct.unpack_from("I", device)[0]), struct.unpack_from("I", device, 16)[0], struct.unpack_from("I", device, 28)[0])
print(struct.unpack("QQQ", info(0x14, 24))[0] == 1 << 36, fails(info, 0x1D, 4, 3), fails(info, 0x7F, 4))
"""
        assert run(code, session).splitlines() == ["(3, 61) b'amdgpu'", "0x74a1 141 100000", "True ENOTSUP EINVAL"]

    def test_memory_of_another_process_is_mapped_by_its_offset(self, session: Path) -> None:
        """A child imports a dmabuf of its parent as a buffer object, and maps it through the render node."""
        code = """
import mmap
def drm(node, number, direction, format, *values):
    data = bytearray(struct.pack(format, *values))
    fcntl.ioctl(node, direction << 30 | len(data) << 16 | ord("d") << 8 | number, data)
    return struct.unpack(format, data)
kfd = os.open("/dev/kfd", os.O_RDWR)
handle, offset = ioctl(kfd, 0x16, "QQQQII", 0, 8192, 0, 0, 0x4242, 1 << 29 | 1)[2:4]
dmabuf = ioctl(kfd, 0x24, "QIi", handle, os.O_CLOEXEC, 0)[2]
node = os.open("/dev/dri/renderD128", os.O_RDWR)
mmap.mmap(node, 8192, offset=offset)[4096:4102] = b"parent"
child = os.fork()
if child == 0:
    node = os.open("/dev/dri/renderD128", os.O_RDWR)
    object = drm(node, 0x2E, 3, "IIi", 0, 0, dmabuf)[0]
    place = drm(node, 0x41, 3, "II", object, 0)
    pages = mmap.mmap(node, 8192, offset=place[0] | place[1] << 32)
    print(pages[4096:4102], fails(mmap.mmap, node, 8192, mmap.MAP_SHARED, 3, 0, (place[0] | place[1] << 32) + 4096), flush=True)
    pages[:5] = b"child"
    os._exit(0)
os.waitpid(child, 0)
print(mmap.mmap(node, 8192, offset=offset)[:5])
"""
        assert run(code, session).splitlines() == ["b'parent' EINVAL", "b'child'"]

    def test_dmabuf_has_its_size_and_its_pages(self, session: Path) -> None:
        code = """
import mmap
kfd = os.open("/dev/kfd", os.O_RDWR)
blocks = [ioctl(kfd, 0x16, "QQQQII", 0, 8192, 0, 0, 0x4242, 1 << 29 | 1) for _ in range(2)]
dmabuf = ioctl(kfd, 0x24, "QIi", blocks[1][2], os.O_CLOEXEC, 0)[2]
mmap.mmap(os.open("/dev/dri/renderD128", os.O_RDWR), 8192, offset=blocks[1][3])[4096:4098] = b"ok"
print(os.lseek(dmabuf, 0, os.SEEK_END), os.lseek(dmabuf, 0, os.SEEK_SET), os.lseek(dmabuf, 0, os.SEEK_END))
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
print(ctypes.string_at(libc.mmap(None, 4096, 3, 1, dmabuf, 4096), 2))
file = os.open("/proc/self/exe", os.O_RDONLY)
print(os.lseek(file, 0, os.SEEK_END) == os.path.getsize("/proc/self/exe"), os.lseek(file, 0, os.SEEK_CUR) > 0)
print(os.lseek(file, 0, os.SEEK_SET), os.lseek(file, 0, os.SEEK_CUR), fails(os.lseek, os.pipe()[0], 0, os.SEEK_SET))
"""
        assert run(code, session).splitlines() == ["8192 0 8192", "b'ok'", "True True", "0 0 ESPIPE"]

    def test_directory_of_devices(self, session: Path) -> None:
        (session / "dev/dri").mkdir(parents=True)
        for name in ("card0", "renderD128"):
            (session / "dev/dri" / name).touch()
        code = """
print(sorted(os.listdir("/dev/dri")))
card = os.stat("/dev/dri/card1")
print(stat.S_ISCHR(card.st_mode), os.major(card.st_rdev), os.minor(card.st_rdev), os.path.isdir("/dev/dri"))
print(fails(os.stat, "/dev/dri/card2"), fails(os.stat, "/dev/dri/card"))
"""
        assert run(code, session).splitlines() == ["['card0', 'renderD128']", "True 226 1 True", "ENOENT ENOENT"]
