"""A ROCm-shaped directory for clang on machines without ROCm.

The triton wheel carries AMD's HIP headers and device libraries (`ocml.bc`, `ockl.bc`); clang also wants a version file
and the small `oclc_*` control modules, which are written here. The directory lives in the lab's cache, one per wheel
version and place, and appears by one rename. Names of the control constants: LLVM's AMD device libraries.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rocm_perf_lab.arch.registry import isa_number, processors
from rocm_perf_lab.core.errors import LabError

_LAYOUT = 2
"""Raise it when what this module writes changes, so that older directories are not taken."""
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
    """The directory could not be made."""


@dataclass(frozen=True)
class BundledRocm:
    """Where the triton wheel keeps AMD's headers and device libraries."""

    include_dir: Path
    library_dir: Path
    version: str
    """Of the wheel."""

    @property
    def identity(self) -> str:
        """What decides the content of the directory that is made of it, and the paths in line tables: part of cache keys."""
        return f"{_LAYOUT} {self.version} {self.include_dir}"


def ensure_rocm_root(bundled: BundledRocm, clang: tuple[str, ...], linker: tuple[str, ...] | None, cache_dir: Path) -> Path:
    """The directory for these wheels, made on first use.

    Args:
        bundled: Headers and libraries to use.
        clang: Command that compiles the control modules to bitcode (so that it can also read them).
        linker: Command that clang should find as `lld`; None where it finds its own.
        cache_dir: The lab's cache.

    Raises:
        RocmRootError: clang refused the control modules.
    """
    identity = "\0".join([bundled.identity, *clang, *(linker or ()), *processors()])
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
            if not root.is_dir():  # otherwise another process was faster, with the same content
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
            f"the compiler could not make the device-library control modules:\n{run.stderr.strip()}",
            where=" ".join(clang),
            hint="Use clang 18 or later with the AMDGPU target.",
        )
    for source in sources:
        (directory / source).unlink()


def _control_modules() -> dict[str, str]:
    """LLVM IR by module name; each holds one constant that the device libraries read."""
    modules = dict.fromkeys(_EMPTY_MODULES, "; empty\n")
    for isa, number in filter(None, map(isa_number, processors())):
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
    """clang runs `lld -flavor gnu ...`; the wheels' linker is a subcommand that takes no flavour."""
    path.parent.mkdir()
    words = " ".join(f"'{word}'" for word in linker)
    path.write_text(f'#!/bin/sh\nshift 2\nexec {words} "$@"\n')
    path.chmod(path.stat().st_mode | 0o111)
