"""A compiled gfx code object and what its metadata says.

The parsing lives in :mod:`rocm_perf_lab.toolchain.elf`; this module is the vocabulary that the other rooms share.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from rocm_perf_lab.core.errors import LabError


class CodeObjectError(LabError):
    """Bytes that are not a readable code object."""


@dataclass(frozen=True)
class KernelArgument:
    """One entry of `.args` in the AMDGPU metadata note; offsets and sizes in bytes within the kernarg segment.

    `value_kind` is `by_value`, `global_buffer`, `hidden_block_count_x`, ...; `name` is empty where the compiler gave
    none.
    """

    name: str
    offset: int
    size: int
    value_kind: str
    type_name: str = ""
    address_space: str = ""
    access: str = ""


@dataclass(frozen=True)
class KernelDescriptor:
    """The 64-byte kernel descriptor (`NAME.kd`), as the LLVM AMDGPU usage guide lays it out."""

    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    entry_offset: int
    compute_pgm_rsrc1: int
    compute_pgm_rsrc2: int
    compute_pgm_rsrc3: int
    kernel_code_properties: int
    kernarg_preload: int


@dataclass(frozen=True)
class KernelMetadata:
    """What the compiler says of one kernel. Register counts are the metadata note's, not the padded descriptor's."""

    symbol: str
    name: str
    """Demangled, without parameter list for extern "C" kernels."""
    entry_address: int
    code_bytes: int
    descriptor_address: int
    descriptor: KernelDescriptor
    vgpr_count: int
    """On CDNA2 and later the whole allocation: architectural (rounded up to 4) plus accumulation VGPRs."""
    agpr_count: int
    sgpr_count: int
    vgpr_spill_count: int
    sgpr_spill_count: int
    lds_bytes: int
    scratch_bytes: int
    kernarg_bytes: int
    kernarg_alignment: int
    wavefront_size: int
    max_flat_workgroup_size: int
    required_workgroup_size: tuple[int, int, int] | None
    uses_dynamic_stack: bool
    arguments: tuple[KernelArgument, ...]
    language: str = ""
    """`OpenCL C` of HIP and OpenCL; nothing of assembly and most other compilers."""
    has_metadata: bool = True
    """False: only the descriptor is known, nothing of the arguments."""


@dataclass(frozen=True)
class CodeObject:
    """The bytes of one HSACO and the kernels in it, in symbol order."""

    data: bytes = field(repr=False)
    architecture: str
    target_id: str
    kernels: tuple[KernelMetadata, ...]

    @cached_property
    def sha256(self) -> str:
        """Content hash: the identity of a code object everywhere in the lab."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class LaunchContract:
    """What a compiler decided about the launch and the code object does not say: Triton's part of a build.

    `arguments` are the names of the explicit arguments that are left, in the kernel's order: others became constants.
    Pointers that the kernel takes after them are the compiler's own and null.
    """

    arguments: tuple[str, ...]
    work_items: int
    """Of a workgroup."""
    dynamic_lds_bytes: int
