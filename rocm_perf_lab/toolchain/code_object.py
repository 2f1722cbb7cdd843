"""Code objects and their metadata as immutable records; :mod:`rocm_perf_lab.toolchain.elf` reads them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property

from rocm_perf_lab.core.errors import LabError


class CodeObjectError(LabError):
    """Code object that cannot be read."""


@dataclass(frozen=True)
class KernelArgument:
    """One entry of `.args` in the AMDGPU metadata note; offsets and sizes in bytes within the kernarg segment.

    `value_kind` is `by_value`, `global_buffer`, `hidden_block_count_x`, ...; `name` is empty if the compiler
    did not record it.
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
    """Fields of the 64-byte kernel descriptor (`NAME.kd`); see the LLVM AMDGPU usage guide."""

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
    """Metadata of one kernel. Register counts are those of the metadata note, not the padded ones of the descriptor."""

    symbol: str
    name: str
    """Demangled name; without parameter list for extern "C" kernels."""
    entry_address: int
    code_bytes: int
    descriptor_address: int
    descriptor: KernelDescriptor
    vgpr_count: int
    """On CDNA2 and later the whole allocation: architectural VGPRs (rounded up to 4) plus AGPRs."""
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
    """`OpenCL C` for HIP and OpenCL; empty for assembly and most other compilers."""
    has_metadata: bool = True
    """False if only the descriptor is known, without arguments."""


@dataclass(frozen=True)
class CodeObject:
    """The bytes of one HSACO and the kernels in it, in symbol order."""

    data: bytes = field(repr=False)
    architecture: str
    """Processor; of generic code the one that was asked for if it is a member, else the first member."""
    target_id: str
    kernels: tuple[KernelMetadata, ...]
    members: tuple[str, ...] = ()
    """Processors that run it if its target is generic."""

    def for_processor(self, name: str) -> CodeObject:
        """Return the code object for a processor if that is a member of its generic target, else itself."""
        return replace(self, architecture=name) if name in self.members else self

    @property
    def described_target(self) -> str:
        """Target for messages: `gfx942`, or `gfx9-4-generic (gfx942, gfx950)`."""
        return f"{self.target_id.partition(':')[0]} ({', '.join(self.members)})" if self.members else self.architecture

    @cached_property
    def sha256(self) -> str:
        """Content hash: identifies the code object in caches, traces and reports."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class LaunchContract:
    """Launch facts that Triton decides at compile time and that the code object does not record.

    `arguments` are the names of the remaining explicit arguments in the order of the kernel; the others became constants.
    Pointer arguments after them belong to the compiler and are null.
    """

    arguments: tuple[str, ...]
    work_items: int
    """Work-items per workgroup."""
    dynamic_lds_bytes: int
