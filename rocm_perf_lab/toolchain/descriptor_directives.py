"""Assembler directives of a kernel descriptor: `descriptor_directives(kernel, architecture) -> tuple[str, ...]`.

Only fields that differ from the assembler's default have a directive, so that no directive is written that an architecture
does not have. Fields, defaults and directives: LLVM "User Guide for AMDGPU Backend", Kernel Descriptor and AMDHSA Kernel
Directives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.arch.registry import nearest_processor
from rocm_perf_lab.toolchain.descriptor import allocated_registers, splits_workgroups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.toolchain.code_object import KernelMetadata

_Word = Literal["compute_pgm_rsrc1", "compute_pgm_rsrc2", "kernel_code_properties", "kernarg_preload"]


@dataclass(frozen=True)
class _Field:
    """Bits of a word of the descriptor, with the default of their directive."""

    name: str
    word: _Word
    shift: int
    bits: int = 1
    default: int = 0


_FIELDS = (
    _Field("user_sgpr_private_segment_buffer", "kernel_code_properties", 0),
    _Field("user_sgpr_dispatch_ptr", "kernel_code_properties", 1),
    _Field("user_sgpr_queue_ptr", "kernel_code_properties", 2),
    _Field("user_sgpr_kernarg_segment_ptr", "kernel_code_properties", 3),
    _Field("user_sgpr_dispatch_id", "kernel_code_properties", 4),
    _Field("user_sgpr_flat_scratch_init", "kernel_code_properties", 5),
    _Field("user_sgpr_private_segment_size", "kernel_code_properties", 6),
    _Field("uses_dynamic_stack", "kernel_code_properties", 11),
    _Field("user_sgpr_kernarg_preload_length", "kernarg_preload", 0, 7),
    _Field("user_sgpr_kernarg_preload_offset", "kernarg_preload", 7, 9),
    _Field("system_sgpr_workgroup_id_x", "compute_pgm_rsrc2", 7, default=1),
    _Field("system_sgpr_workgroup_id_y", "compute_pgm_rsrc2", 8),
    _Field("system_sgpr_workgroup_id_z", "compute_pgm_rsrc2", 9),
    _Field("system_sgpr_workgroup_info", "compute_pgm_rsrc2", 10),
    _Field("system_vgpr_workitem_id", "compute_pgm_rsrc2", 11, 2),
    _Field("float_round_mode_32", "compute_pgm_rsrc1", 12, 2),
    _Field("float_round_mode_16_64", "compute_pgm_rsrc1", 14, 2),
    _Field("float_denorm_mode_32", "compute_pgm_rsrc1", 16, 2),
    _Field("float_denorm_mode_16_64", "compute_pgm_rsrc1", 18, 2, default=3),
    _Field("dx10_clamp", "compute_pgm_rsrc1", 21, default=1),
    _Field("ieee_mode", "compute_pgm_rsrc1", 23, default=1),
    _Field("fp16_overflow", "compute_pgm_rsrc1", 26),
    _Field("exception_fp_ieee_invalid_op", "compute_pgm_rsrc2", 24),
    _Field("exception_fp_denorm_src", "compute_pgm_rsrc2", 25),
    _Field("exception_fp_ieee_div_zero", "compute_pgm_rsrc2", 26),
    _Field("exception_fp_ieee_overflow", "compute_pgm_rsrc2", 27),
    _Field("exception_fp_ieee_underflow", "compute_pgm_rsrc2", 28),
    _Field("exception_fp_ieee_inexact", "compute_pgm_rsrc2", 29),
    _Field("exception_int_div_zero", "compute_pgm_rsrc2", 30),
)
_OF_RDNA = (
    _Field("wavefront_size32", "kernel_code_properties", 10),
    _Field("workgroup_processor_mode", "compute_pgm_rsrc1", 29),
    _Field("memory_ordered", "compute_pgm_rsrc1", 30),
    _Field("forward_progress", "compute_pgm_rsrc1", 31),
)
"""Fields of GFX10 and later, whose defaults depend on the architecture."""
_USER_SGPRS, _PRIVATE_SEGMENT = _Field("user_sgpr_count", "compute_pgm_rsrc2", 1, 5), 1
_SGPR_UNITS = _Field("next_free_sgpr", "compute_pgm_rsrc1", 6, 4)
PRIVATE_SEGMENT_DIRECTIVES = ("enable_private_segment", "system_sgpr_private_segment_wavefront_offset")
"""The first one is that of processors with architected flat scratch."""
_SGPRS_PER_UNIT, _LARGEST_NEXT_SGPR, _EXTRA_SGPRS = 8, 102, 6
"""The assembler adds VCC and flat scratch to the number of the directive."""
_ACCUM_OFFSET_UNITS, _VGPRS_PER_UNIT = 0x3F, 4


def descriptor_directives(kernel: KernelMetadata, architecture: str, private_segment: str) -> tuple[str, ...]:
    """Return the lines between `.amdhsa_kernel` and `.end_amdhsa_kernel`, without indentation.

    Args:
        kernel: Kernel with its descriptor.
        architecture: Processor.
        private_segment: One of :data:`PRIVATE_SEGMENT_DIRECTIVES`.

    Raises:
        ArchitectureError: The architecture is unknown.
    """
    return tuple(f".amdhsa_{name} {value}" for name, value in _values(kernel, architecture, private_segment))


def _values(kernel: KernelMetadata, architecture: str, private_segment: str) -> Iterator[tuple[str, int]]:
    descriptor, encoding = kernel.descriptor, nearest_processor(architecture).registers
    yield "group_segment_fixed_size", descriptor.lds_bytes
    yield "private_segment_fixed_size", descriptor.scratch_bytes
    yield "kernarg_size", descriptor.kernarg_bytes
    allocated = allocated_registers(descriptor, architecture)
    yield "next_free_vgpr", allocated.vgprs
    yield "next_free_sgpr", max(1, min(_LARGEST_NEXT_SGPR, _SGPRS_PER_UNIT * (_value(kernel, _SGPR_UNITS) + 1) - _EXTRA_SGPRS))
    if encoding.agprs == "unified":
        yield "accum_offset", ((descriptor.compute_pgm_rsrc3 & _ACCUM_OFFSET_UNITS) + 1) * _VGPRS_PER_UNIT
        if splits_workgroups(descriptor, architecture):
            yield "tg_split", 1
    yield _USER_SGPRS.name, _value(kernel, _USER_SGPRS)
    if descriptor.compute_pgm_rsrc2 & _PRIVATE_SEGMENT:
        yield private_segment, 1
    for field in _FIELDS:
        if _value(kernel, field) != field.default:
            yield field.name, _value(kernel, field)
    for field in _OF_RDNA if encoding.fixed_sgprs is not None else ():
        yield field.name, _value(kernel, field)


def _value(kernel: KernelMetadata, field: _Field) -> int:
    word: int = getattr(kernel.descriptor, field.word)
    return word >> field.shift & ((1 << field.bits) - 1)
