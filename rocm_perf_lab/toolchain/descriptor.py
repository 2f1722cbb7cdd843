"""Kernel descriptors: the 64 bytes that the command processor reads, and the register allocation that they encode.

Layout and field meanings: LLVM "User Guide for AMDGPU Backend", sections Kernel Descriptor and compute_pgm_rsrc1..3.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import nearest_processor
from rocm_perf_lab.toolchain.code_object import KernelDescriptor

if TYPE_CHECKING:
    from rocm_perf_lab.arch.model import RegisterCounts

DESCRIPTOR_BYTES = 64

_LAYOUT = struct.Struct("<III4xq20xIIIHH4x")
_WGP_MODE = 1 << 29
_WAVEFRONT_SIZE_32 = 1 << 10
_DYNAMIC_STACK = 1 << 11
_SPLIT_WORKGROUPS = 1 << 16


def parse_descriptor(data: bytes) -> KernelDescriptor:
    """Decode the 64 bytes of a `.kd` object."""
    lds, scratch, kernarg, entry, rsrc3, rsrc1, rsrc2, properties, preload = _LAYOUT.unpack(data)
    return KernelDescriptor(
        lds_bytes=lds,
        scratch_bytes=scratch,
        kernarg_bytes=kernarg,
        entry_offset=entry,
        compute_pgm_rsrc1=rsrc1,
        compute_pgm_rsrc2=rsrc2,
        compute_pgm_rsrc3=rsrc3,
        kernel_code_properties=properties,
        kernarg_preload=preload,
    )


def wavefront_size(descriptor: KernelDescriptor) -> int:
    """Return the number of lanes of a wavefront."""
    return 32 if descriptor.kernel_code_properties & _WAVEFRONT_SIZE_32 else 64


def uses_workgroup_processor(descriptor: KernelDescriptor) -> bool:
    """Return whether workgroups use both CUs of a WGP (GFX10 and later, without `-mcumode`)."""
    return bool(descriptor.compute_pgm_rsrc1 & _WGP_MODE)


def splits_workgroups(descriptor: KernelDescriptor, architecture: str) -> bool:
    """Return whether wavefronts of a workgroup may run on different CUs (`-mtgsplit`, TG_SPLIT of gfx90a and later CDNA)."""
    is_unified = nearest_processor(architecture).registers.agprs == "unified"
    return is_unified and bool(descriptor.compute_pgm_rsrc3 & _SPLIT_WORKGROUPS)


def uses_dynamic_stack(descriptor: KernelDescriptor) -> bool:
    """Return whether the kernel may need more scratch than its descriptor states."""
    return bool(descriptor.kernel_code_properties & _DYNAMIC_STACK)


def allocated_registers(descriptor: KernelDescriptor, architecture: str) -> RegisterCounts:
    """Return the register allocation of a descriptor: upper bounds, rounded to the allocation granule.

    `vgprs` counts the whole allocation, AGPRs of a unified register file included, like `.vgpr_count` in the metadata.

    Raises:
        ArchitectureError: The architecture is unknown.
    """
    encoding = nearest_processor(architecture).registers
    return encoding.allocated(descriptor.compute_pgm_rsrc1, descriptor.compute_pgm_rsrc3, wavefront_size(descriptor))
