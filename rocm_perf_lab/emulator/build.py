"""Builds and loads the C runtime: `load_runtime() -> Runtime`.

The library is in the user's cache under a hash of its sources, the compiler and the CPU (it is built for this CPU). A file
whose checksum differs is built again.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes, write_text
from rocm_perf_lab.core.resources import cache_dir, zig_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOURCES = Path(__file__).parent / "runtime"
_FLAGS = ("-std=gnu11", "-O3", "-march=native", "-fno-strict-aliasing", "-shared", "-fPIC")
_SYSTEM_COMPILERS = ("clang", "gcc", "cc")
_DECLARATION = re.compile(r"^\w[\w ]*?\**\b(rpl_\w+)\(", re.MULTILINE)


class RuntimeBuildError(LabError):
    """The C runtime cannot be compiled on this computer."""


@dataclass(frozen=True)
class Runtime:
    """Loaded runtime library."""

    path: Path
    library: ctypes.CDLL

    @cached_property
    def helpers(self) -> Mapping[str, int]:
        """Address of every helper that translated code may call, by name."""
        names = _DECLARATION.findall((_SOURCES / "wave.h").read_text() + (_SOURCES / "machine.h").read_text())
        return {name: self.address_of(name) for name in names}

    def address_of(self, name: str) -> int:
        """Return the address of an exported function."""
        return int(ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value or 0)


def load_runtime(cache: Path | None = None) -> Runtime:
    """Return the runtime, and build it if it is not in the cache.

    Args:
        cache: Directory of the built libraries; the user's cache by default.

    Raises:
        RuntimeBuildError: No C compiler was found, or it failed.
    """
    path = build_runtime(cache or cache_dir() / "runtime")
    return Runtime(path, ctypes.CDLL(str(path)))


def build_runtime(cache: Path) -> Path:
    """Return the shared library in `cache`; compile it unless an intact one exists."""
    compiler = _compiler()
    path = cache / f"{_key(compiler)}.so"
    checksum = path.with_suffix(".sha256")
    if not _is_intact(path, checksum):
        content = _compile(compiler)
        write_bytes(path, content)
        write_text(checksum, hashlib.sha256(content).hexdigest())
    return path


def _compiler() -> tuple[str, ...]:
    if util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "cc")
    found = next(filter(None, map(shutil.which, _SYSTEM_COMPILERS)), None)
    if found is None:
        raise RuntimeBuildError(
            "no C compiler for the runtime of the emulator",
            hint="Run pip install 'rocm-perf-lab[emulator]', which includes one (ziglang), or install clang or gcc.",
        )
    return (found,)


def _key(compiler: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for source in sorted(_SOURCES.glob("*.[ch]")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    digest.update("\0".join((_compiler_version(compiler), *_FLAGS, _host_cpu())).encode())
    return digest.hexdigest()[:32]


def _compiler_version(compiler: tuple[str, ...]) -> str:
    if compiler[0] == sys.executable:
        from importlib.metadata import version

        return f"ziglang {version('ziglang')}"
    return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _host_cpu() -> str:
    """Return the CPU model and its features, on which the code of `-march=native` depends."""
    cpu_info = Path("/proc/cpuinfo")
    if not cpu_info.exists():
        return platform.processor()
    lines = cpu_info.read_text().split("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


def _is_intact(path: Path, checksum: Path) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == checksum.read_text()
    except OSError:
        return False


def _compile(compiler: tuple[str, ...]) -> bytes:
    sources = sorted(str(source) for source in _SOURCES.glob("*.c"))
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-runtime-") as directory:
        output = Path(directory) / "runtime.so"
        command = [*compiler, *_FLAGS, *sources, "-o", str(output), "-lm"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=zig_environment())
        if result.returncode != 0:
            raise RuntimeBuildError(
                "the C runtime of the emulator does not compile",
                where=result.stderr.strip()[-2000:],
                hint=f"The compiler was {' '.join(compiler)}. Reinstall ziglang or put another C compiler in PATH.",
            )
        return output.read_bytes()
