"""Build of the capture tool on first use: `build_tool() -> Path` of the shared library in the cache.

The cache key covers the sources, the HSA headers and the compiler. `cmake` in the root of the repository builds the same library.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_bytes, write_text
from rocm_perf_lab.core.resources import cache_dir, zig_environment
from rocm_perf_lab.toolchain.hsa_headers import HSA_HEADERS, find_hsa_headers

if TYPE_CHECKING:
    from collections.abc import Sequence

LIBRARY = "librocm_perf_lab_capture.so"
SDK_LOADER_LIBRARY = "librocm_perf_lab_capture_sdk_loader.so"
SOURCES = Path(__file__).parent / "native"
SDK_LOADER_SOURCES = SOURCES / "sdk_loader"
_COMPILE = ("-std=gnu++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-pthread", "-Wall", "-Wextra")
_LINK = ("-shared", "-pthread", "-ldl", "-Wl,-z,defs")
_EXPORTS = f"-Wl,--version-script={SOURCES / 'exports.map'}"
_GNU_LINK = ("-static-libstdc++", "-static-libgcc")  # Avoids interference with the application's C++ library.
_SYSTEM_COMPILERS = ("g++", "clang++")


class ToolBuildError(LabError):
    """Failure to build the capture tool on this machine."""


@dataclass(frozen=True)
class CppCompiler:
    """Command that compiles C++17, and its version."""

    command: tuple[str, ...]
    version: str

    @property
    def link_flags(self) -> tuple[str, ...]:
        """Linker flags that link the C++ library statically; ziglang always does."""
        return _LINK if "ziglang" in self.command else (*_LINK, *_GNU_LINK)


def build_tool(*, include_dir: Path | None = None, cache: Path | None = None) -> Path:
    """Return the capture tool; build it unless the cache has an intact copy.

    Args:
        include_dir: Directory with hsa.h. Default: that of ROCm, or of the triton package.
        cache: Directory for built libraries. Default: in the cache of rocm-perf-lab.

    Raises:
        ToolBuildError: No compiler is installed, or compilation failed.
        MissingHsaHeaders: The HSA headers are not installed.
    """
    include_dir = include_dir or find_hsa_headers()
    headers = [include_dir / header for header in HSA_HEADERS]
    return _cached(LIBRARY, SOURCES, headers, ("-isystem", str(include_dir)), (_EXPORTS,), cache)


def build_sdk_loader(*, cache: Path | None = None) -> Path:
    """Return the library that loads the tool through rocprofiler-sdk when it is preloaded.

    Raises:
        ToolBuildError: No compiler is installed, or compilation failed.
    """
    return _cached(SDK_LOADER_LIBRARY, SDK_LOADER_SOURCES, [], (), (), cache)


def _cached(
    name: str, sources: Path, headers: Sequence[Path], compile_flags: Sequence[str], link_flags: Sequence[str], cache: Path | None
) -> Path:
    compiler = find_cpp_compiler()
    path = (cache or cache_dir() / "capture") / _key(compiler, sources, headers) / name
    checksum = path.with_suffix(".sha256")
    if not _is_intact(path, checksum):
        content = _build(compiler, sources, compile_flags, link_flags)
        write_bytes(path, content)
        write_text(checksum, hashlib.sha256(content).hexdigest())
    return path


def find_cpp_compiler() -> CppCompiler:
    """Return g++, clang++, or the compiler of the ziglang package.

    Raises:
        ToolBuildError: None of them is installed.
    """
    for name in _SYSTEM_COMPILERS:
        found = shutil.which(name)
        if found is not None:
            version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
            return CppCompiler((found,), version)
    if util.find_spec("ziglang") is not None:
        from importlib.metadata import version as wheel_version

        return CppCompiler((sys.executable, "-m", "ziglang", "c++"), f"ziglang {wheel_version('ziglang')}")
    raise ToolBuildError(
        "the capture tool cannot be built without a C++ compiler",
        where="g++, clang++ on PATH, ziglang in this Python",
        hint="Install g++ or clang++, or: pip install 'rocm-perf-lab[emulator]'.",
    )


def _key(compiler: CppCompiler, sources: Path, headers: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in [*sorted(p for p in sources.iterdir() if p.is_file()), *headers]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    digest.update("\0".join((*compiler.command, compiler.version, *_COMPILE, *compiler.link_flags)).encode())
    return digest.hexdigest()[:32]


def _is_intact(path: Path, checksum: Path) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == checksum.read_text()
    except OSError:
        return False


def _build(compiler: CppCompiler, directory_of_sources: Path, compile_flags: Sequence[str], link_flags: Sequence[str]) -> bytes:
    sources = sorted(directory_of_sources.glob("*.cpp"))
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-capture-") as directory:
        objects = [Path(directory) / f"{source.stem}.o" for source in sources]
        commands = [
            [*compiler.command, *_COMPILE, *compile_flags, "-c", str(source), "-o", str(target)]
            for source, target in zip(sources, objects, strict=True)
        ]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(_run, commands))
        library = Path(directory) / LIBRARY
        _run([*compiler.command, *map(str, objects), *compiler.link_flags, *link_flags, "-o", str(library)])
        return library.read_bytes()


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=zig_environment())
    if done.returncode != 0:
        raise ToolBuildError(
            "the capture tool does not compile",
            where=done.stderr.strip()[-2000:],
            hint=f"The command was: {' '.join(command)}",
        )
