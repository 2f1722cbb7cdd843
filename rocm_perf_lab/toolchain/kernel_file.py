"""Kernels in files: code objects, offload bundles, and object files or executables with a bundle.

`read_kernel_file(path)` returns the code objects of a file, `choose_kernel` selects one of their kernels.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import emulated_architectures, processors_of_generic_target
from rocm_perf_lab.toolchain.bundles import EM_AMDGPU, bundled_architectures
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf import read_code_objects
from rocm_perf_lab.toolchain.elf_file import ELF_MAGIC
from rocm_perf_lab.toolchain.kernel_lookup import KernelNotFound, find_kernel_of, listed_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_RELOCATABLE = 1
_TYPE_AND_MACHINE = struct.Struct("<HH")
_TYPE_OFFSET = 16


def read_kernel_file(path: Path, *, architecture: str = "gfx942", or_another: bool = False) -> tuple[CodeObject, ...]:
    """Return the code objects of a file; of a bundle those for `architecture`.

    Args:
        path: Code object, offload bundle, HIP object file, executable or library.
        architecture: Architecture of the code in a bundle.
        or_another: Return code for another architecture if the bundle has none for this one: of those that the emulator
            executes the first.

    Raises:
        CodeObjectError: The file is unreadable, damaged or not linked, or has no code for the architecture.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CodeObjectError(f"cannot read the code object: {error.strerror}", where=str(path), hint="check the path") from error
    if _is_relocatable(data):
        raise CodeObjectError(
            "the GPU object file is not linked: its addresses are not known",
            where=str(path),
            hint=f"link it: ld.lld -shared {path.name} -o {path.stem}.hsaco",
        )
    try:
        if or_another:
            architecture = _available(bundled_architectures(data), architecture)
        return read_code_objects(data, bundle_architecture=architecture)
    except CodeObjectError as error:
        raise CodeObjectError(error.what, where=error.where or str(path), hint=error.hint) from error


def choose_kernel(code_objects: Sequence[CodeObject], name: str | None) -> tuple[CodeObject, KernelMetadata]:
    """Return the kernel of that name, or the only one if `name` is None.

    Raises:
        KernelNotFound: No kernel or several kernels match.
    """
    every = [(code_object, kernel) for code_object in code_objects for kernel in code_object.kernels]
    if name is None and len(every) == 1:
        return every[0]
    if name is None:
        raise KernelNotFound(
            f"the file has {len(every)} kernels:\n{listed_kernels([kernel for _, kernel in every])}"
            if every
            else "the file contains no kernels",
            hint="select one with --kernel NAME" if every else "mark the entry function __global__",
        )
    found = find_kernel_of([kernel for _, kernel in every], name)
    return next((code_object, kernel) for code_object, kernel in every if kernel is found)


def _available(present: Sequence[str], wanted: str) -> str:
    """Return the wanted architecture, or the best one of a bundle that lacks it; a bundle may have code for generic targets."""
    if wanted in present or any(wanted in processors_of_generic_target(name) for name in present):
        return wanted
    return next((name for name in emulated_architectures() if name in present), next(iter(present), wanted))


def _is_relocatable(data: bytes) -> bool:
    if not data.startswith(ELF_MAGIC) or len(data) < _TYPE_OFFSET + _TYPE_AND_MACHINE.size:
        return False
    return _TYPE_AND_MACHINE.unpack_from(data, _TYPE_OFFSET) == (_RELOCATABLE, EM_AMDGPU)
