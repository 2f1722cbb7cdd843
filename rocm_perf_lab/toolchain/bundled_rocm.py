"""ROCm directory for clang on machines without ROCm.

The triton wheel contains AMD's HIP headers and device libraries (`ocml.bc`, `ockl.bc`); clang also needs a version file
and the small `oclc_*` control modules, which this module writes. There is one directory per version and path of the wheel
in the cache; it is created by one rename. Names of the control constants: LLVM's AMD device libraries.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rocm_perf_lab.arch.registry import compilable_targets, isa_number
from rocm_perf_lab.core.errors import LabError

_LAYOUT = 2
"""Increase it if the content written by this module changes, so that older directories are not used."""
_ABI_VERSIONS = (400, 500, 600)
_SWITCHES = {
    "unsafe_math": "__oclc_unsafe_math_opt",
    "finite_only": "__oclc_finite_only_opt",
    "correctly_rounded_sqrt": "__oclc_correctly_rounded_sqrt32",
    "daz_opt": "__oclc_daz_opt",
    "wavefrontsize64": "__oclc_wavefrontsize64",
}
_EMPTY_MODULES = ("opencl", "hip")


class RocmRootError(LabError):
    """ROCm directory that cannot be created."""


@dataclass(frozen=True)
class BundledRocm:
    """Paths of AMD's headers and device libraries in the triton wheel."""

    include_dir: Path
    library_dir: Path
    version: str
    """Version of the wheel."""

    @property
    def identity(self) -> str:
        """Key of the directory content and of the paths in line tables, for cache keys."""
        return f"{_LAYOUT} {self.version} {self.include_dir}"


def ensure_rocm_root(bundled: BundledRocm, clang: tuple[str, ...], linker: tuple[str, ...] | None, cache_dir: Path) -> Path:
    """Return the directory for these wheels; it is created on first use.

    Args:
        bundled: Headers and libraries to use.
        clang: Command that compiles the control modules to bitcode.
        linker: Command for clang to use as `lld`; None if clang finds a linker itself.
        cache_dir: Cache directory.

    Raises:
        RocmRootError: clang rejects the control modules.
    """
    identity = "\0".join([bundled.identity, *clang, *(linker or ()), *compilable_targets()])
    root = cache_dir / "rocm" / f"{bundled.version}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    if root.is_dir():
        return root
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".making-") as directory:
        scratch = Path(directory) / root.name
        _write_root(scratch, bundled, clang, linker)
        try:
            scratch.rename(root)
        except OSError:
            if not root.is_dir():  # otherwise another process has created the same directory
                raise
    return root


def _write_root(root: Path, bundled: BundledRocm, clang: tuple[str, ...], linker: tuple[str, ...] | None) -> None:
    bitcode = root / "amdgcn" / "bitcode"
    bitcode.mkdir(parents=True)
    (root / "include").symlink_to(bundled.include_dir)
    for library in ("ocml.bc", "ockl.bc"):
        shutil.copyfile(bundled.library_dir / library, bitcode / library)
    _write_control_modules(bitcode, clang)
    version_file = root / "share" / "hip" / "version"
    version_file.parent.mkdir(parents=True)
    version_file.write_text(_hip_version(bundled.include_dir))
    if linker:
        _write_linker_shim(root / "bin" / "lld", linker)


def _hip_version(include_dir: Path) -> str:
    header = (include_dir / "hip" / "hip_version.h").read_text()
    fields = re.findall(r"#define (HIP_VERSION_(?:MAJOR|MINOR|PATCH)) (\d+)", header)
    return "".join(f"{name}={value}\n" for name, value in fields)


def _write_control_modules(directory: Path, clang: tuple[str, ...]) -> None:
    modules = _control_modules()
    for name, text in modules.items():
        (directory / f"{name}.ll").write_text(text)
    sources = [f"{name}.ll" for name in modules]
    command = [*clang, "-target", "amdgcn-amd-amdhsa", "-nogpulib", "-x", "ir", "-emit-llvm", "-c", "-w", *sources]
    run = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RocmRootError(
            f"the compiler cannot compile the control modules of the device libraries:\n{run.stderr.strip()}",
            where=" ".join(clang),
            hint="Use clang 18 or later with the AMDGPU target.",
        )
    for source in sources:
        (directory / source).unlink()


def _control_modules() -> dict[str, str]:
    """Return LLVM IR by module name; each module defines one constant of the device libraries."""
    modules = dict.fromkeys(_EMPTY_MODULES, "; empty\n")
    for isa, number in filter(None, map(isa_number, compilable_targets())):
        modules[f"oclc_isa_version_{isa}"] = _constant("__oclc_ISA_version", "i32", number)
    for abi in _ABI_VERSIONS:
        modules[f"oclc_abi_version_{abi}"] = _constant("__oclc_ABI_version", "i32", abi)
    for switch, symbol in _SWITCHES.items():
        modules[f"oclc_{switch}_on"] = _constant(symbol, "i8", 1)
        modules[f"oclc_{switch}_off"] = _constant(symbol, "i8", 0)
    for state, log2 in (("on", 6), ("off", 5)):
        modules[f"oclc_wavefrontsize64_{state}"] += _constant("__oclc_wavefrontsize_log2", "i32", log2)
    return modules


def _constant(symbol: str, kind: str, value: int) -> str:
    return f"@{symbol} = linkonce_odr hidden local_unnamed_addr addrspace(4) constant {kind} {value}\n"


def _write_linker_shim(path: Path, linker: tuple[str, ...]) -> None:
    """Write an `lld` script: clang runs `lld -flavor gnu ...`, but the linker of the wheels has no option `-flavor`."""
    path.parent.mkdir()
    command = " ".join(f"'{part}'" for part in linker)
    path.write_text(f'#!/bin/sh\nshift 2\nexec {command} "$@"\n')
    path.chmod(path.stat().st_mode | 0o111)
