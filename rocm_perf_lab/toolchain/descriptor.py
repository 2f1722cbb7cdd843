"""The 64-byte kernel descriptor that the command processor reads, and what its fields say of registers.

Layout and field meanings: LLVM "User Guide for AMDGPU Backend", sections Kernel Descriptor and compute_pgm_rsrc1..3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rocm_perf_lab.toolchain.code_object import KernelDescriptor

DESCRIPTOR_BYTES = 64

_LAYOUT = struct.Struct("<III4xq20xIIIHH4x")
_WGP_MODE = 1 << 29
_WAVEFRONT_SIZE_32 = 1 << 10
_DYNAMIC_STACK = 1 << 11
UNIFIED_VGPR_FILE = ("gfx90a", "gfx94", "gfx95")
"""Processors, by the beginning of their names, whose accumulation registers are part of the allocation."""


@dataclass(frozen=True)
class DescriptorRegisters:
    """Registers that a descriptor allocates: upper bounds of what the kernel uses, rounded to the allocation granule.

    `vgprs` counts the whole allocation, accumulation registers included, like the metadata's `.vgpr_count`.
    """

    vgprs: int
    agprs: int
    sgprs: int


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
    """Lanes of a wavefront."""
    return 32 if descriptor.kernel_code_properties & _WAVEFRONT_SIZE_32 else 64


def uses_workgroup_processor(descriptor: KernelDescriptor) -> bool:
    """Whether workgroups are spread over the two CUs of a WGP (gfx10 and later; `-mcumode` leaves it out)."""
    return bool(descriptor.compute_pgm_rsrc1 & _WGP_MODE)


def uses_dynamic_stack(descriptor: KernelDescriptor) -> bool:
    """Whether scratch beyond the stated size may be needed."""
    return bool(descriptor.kernel_code_properties & _DYNAMIC_STACK)


def allocated_registers(descriptor: KernelDescriptor, architecture: str) -> DescriptorRegisters:
    """The register allocation that `compute_pgm_rsrc1` and `3` encode."""
    unified = architecture.startswith(UNIFIED_VGPR_FILE)
    granule = 8 if unified or wavefront_size(descriptor) == 32 else 4
    vgprs = ((descriptor.compute_pgm_rsrc1 & 0x3F) + 1) * granule
    sgpr_field = (descriptor.compute_pgm_rsrc1 >> 6) & 0xF
    accumulation_offset = ((descriptor.compute_pgm_rsrc3 & 0x3F) + 1) * 4
    return DescriptorRegisters(
        vgprs=vgprs,
        agprs=max(0, vgprs - accumulation_offset) if unified else 0,
        sgprs=(sgpr_field // 2 + 1) * 16,
    )
