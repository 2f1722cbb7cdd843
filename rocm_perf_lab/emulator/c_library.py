"""Compiles C sources to a shared library in the cache: `build_library(CLibrary(...), cache) -> Path`.

Sources are compiled at the same time, and linked without their flags: zig builds its support library once per target, CPU and
level of optimisation. The cache key covers the sources, the compiler and the CPU, since libraries are built for this CPU. A file
with a wrong checksum is built again. Of several processes that need one library at the same time, one compiles it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import locked, write_bytes, write_text
from rocm_perf_lab.core.resources import zig_environment

_SYSTEM_COMPILERS = ("clang", "gcc", "cc")
_MOST_ERROR_CHARACTERS = 2000
_LINK_FLAGS = ("-shared", "-O2")
OLDEST_GLIBC = "2.28"
"""That of RHEL 8 and Debian 10. Containers with ROCm 6 and 7 are not older."""


class RuntimeBuildError(LabError):
    """A C library cannot be compiled on this computer."""


@dataclass(frozen=True)
class CLibrary:
    """Shared library to build."""

    what: str
    """Its name in error messages."""
    sources: tuple[Path, ...]
    """C files."""
    headers: tuple[Path, ...]
    """Files that the sources include and that may change."""
    flags: tuple[str, ...]
    """Of the compiler."""
    link_flags: tuple[str, ...] = ()
    glibc: str | None = None
    """Oldest version of glibc that must be able to load the library, for example 2.28; None for that of this computer.

    Only the compiler of the ziglang wheel can build for an older one.
    """


def build_library(library: CLibrary, cache: Path) -> Path:
    """Return the shared library in `cache`; compile it unless an intact one exists.

    Raises:
        RuntimeBuildError: No C compiler was found, or it failed.
        OSError: The cache cannot be written.
    """
    compiler = _compiler(library)
    path = cache / f"{_key(library, compiler)}.so"
    if not _is_intact(path):
        with locked(path.with_suffix(".lock")):
            if not _is_intact(path):
                content = _compile(library, compiler)
                write_bytes(path, content)
                write_text(path.with_suffix(".sha256"), hashlib.sha256(content).hexdigest())
    return path


def find_zig() -> Path | None:
    """Return the compiler and linker of the ziglang wheel, if that is installed.

    Its Python wrapper would take as much time as a small source.
    """
    found = util.find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / "zig"


def _compiler(library: CLibrary) -> tuple[str, ...]:
    zig = find_zig()
    if zig is not None:
        target = ("-target", f"{platform.machine()}-linux-gnu.{library.glibc}") if library.glibc else ()
        return (str(zig), "cc", *target)
    found = next(filter(None, map(shutil.which, _SYSTEM_COMPILERS)), None)
    if found is None:
        raise RuntimeBuildError(
            f"no C compiler for {library.what}",
            hint="Run pip install 'rocm-perf-lab[emulator]', which includes one (ziglang), or install clang or gcc.",
        )
    return (found,)


def _key(library: CLibrary, compiler: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for file in (*library.sources, *library.headers):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    flags = (*library.flags, *library.link_flags)
    digest.update("\0".join((_compiler_version(compiler), *compiler[1:], *flags, host_cpu())).encode())
    return digest.hexdigest()[:32]


def _compiler_version(compiler: tuple[str, ...]) -> str:
    if compiler[0] == str(find_zig()):
        from importlib.metadata import version

        return f"ziglang {version('ziglang')}"
    return subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout


def host_cpu() -> str:
    """Return the CPU model and its features, on which the code of `-march=native` depends."""
    cpu_info = Path("/proc/cpuinfo")
    if not cpu_info.exists():
        return platform.processor()
    lines = cpu_info.read_text().split("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


def _is_intact(path: Path) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == path.with_suffix(".sha256").read_text()
    except OSError:
        return False


def _compile(library: CLibrary, compiler: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-runtime-") as directory:
        objects = [Path(directory) / f"{number}.o" for number in range(len(library.sources))]
        commands = [
            [*compiler, *library.flags, "-c", str(source), "-o", str(compiled)]
            for source, compiled in zip(library.sources, objects, strict=True)
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(lambda command: _run(library, compiler, command), commands):
                pass
        output = Path(directory) / "runtime.so"
        _run(library, compiler, [*compiler, *_LINK_FLAGS, *map(str, objects), "-o", str(output), *library.link_flags])
        return output.read_bytes()


def _run(library: CLibrary, compiler: tuple[str, ...], command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=zig_environment())
    if result.returncode != 0:
        raise RuntimeBuildError(
            f"{library.what} does not compile",
            where=result.stderr.strip()[-_MOST_ERROR_CHARACTERS:],
            hint=f"The compiler was {' '.join(compiler)}. Reinstall ziglang or put another C compiler in PATH.",
        )
