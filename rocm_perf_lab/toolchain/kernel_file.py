"""Kernels in files: code objects, offload bundles, and object files or executables with a bundle.

`read_kernel_file(path)` returns the code objects of a file, `choose_kernel` selects one of their kernels.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rocm_perf_lab.toolchain.bundles import EM_AMDGPU
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf import read_code_objects
from rocm_perf_lab.toolchain.elf_file import ELF_MAGIC
from rocm_perf_lab.toolchain.kernel_lookup import KernelNotFound, find_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_RELOCATABLE = 1
_TYPE_AND_MACHINE = struct.Struct("<HH")
_TYPE_OFFSET = 16


def read_kernel_file(path: Path, *, architecture: str = "gfx942") -> tuple[CodeObject, ...]:
    """Return the code objects of a file; of a bundle those for `architecture`.

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
        listed = "".join(f"\n  {kernel.name}" for _, kernel in every)
        raise KernelNotFound(
            f"the file has {len(every)} kernels:{listed}" if every else "the file contains no kernels",
            hint="select one with --kernel NAME" if every else "mark the entry function __global__",
        )
    refused: list[KernelNotFound] = []
    for code_object in code_objects:
        try:
            return code_object, find_kernel(code_object, name)
        except KernelNotFound as error:
            refused.append(error)
    raise refused[0]


def _is_relocatable(data: bytes) -> bool:
    if not data.startswith(ELF_MAGIC) or len(data) < _TYPE_OFFSET + _TYPE_AND_MACHINE.size:
        return False
    return _TYPE_AND_MACHINE.unpack_from(data, _TYPE_OFFSET) == (_RELOCATABLE, EM_AMDGPU)
