"""Registers of a wavefront at its first instruction, as requested by the kernel descriptor.

Source: LLVM "User Guide for AMDGPU Backend", sections Kernel Descriptor and Initial Kernel Execution State; work-item ids are
packed in VGPR0. With architected flat scratch there is no SGPR for the scratch offset; otherwise it is zero, because the resource
of scratch (:data:`_PRIVATE_RESOURCE`) means the wavefront's own.
Only code objects of version 2 request the numbers of workgroups.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.kernarg import SERVICES
from rocm_perf_lab.emulator.structures import LANES
from rocm_perf_lab.toolchain.descriptor import wavefront_size

if TYPE_CHECKING:
    from rocm_perf_lab.core.geometry import Dim3, Geometry
    from rocm_perf_lab.toolchain.code_object import KernelDescriptor

DISPATCH_PACKET_BYTES = 64
MAX_USER_SGPRS = 16

_PACKET = struct.Struct("<HHHHHHIIIIIQQQQ")
_KERNEL_DISPATCH_HEADER = 2  # HSA_PACKET_TYPE_KERNEL_DISPATCH
_QUEUE = next(service.address for service in SERVICES if service.argument == "hidden_queue_ptr")
_PRIVATE_RESOURCE = (0, 0x8000_FFFE, 0xFFFF_FFFF, 0x00E0_0000)
"""Buffer resource of scratch: base 0xFFFE00000000 (RPL_PRIVATE_RESOURCE), lanes interleaved in units of four bytes."""
_PRELOAD_LENGTH_MASK, _PRELOAD_OFFSET_SHIFT = 0x7F, 7


@dataclass(frozen=True)
class InitialState:
    """Initial state common to all wavefronts of a launch; workgroup ids follow the user SGPRs as set in `system_sgprs`.

    `system_sgprs` has bit 0 to 2 for workgroup id x, y, z, bit 3 for workgroup info and bit 4 for the scratch offset.
    `work_item_id_dims` is 0 for x only, 1 for x and y, 2 for all three; they are packed in VGPR 0 if `work_item_id_rows` is 1,
    else in that many. `mode` is the MODE register, `wave_size` the lanes of a wavefront.
    """

    user_sgprs: tuple[int, ...]
    system_sgprs: int
    work_item_id_dims: int
    mode: int
    work_item_id_rows: int = 1
    wave_size: int = LANES


def initial_state(
    descriptor: KernelDescriptor,
    *,
    kernarg: bytes,
    kernarg_address: int,
    dispatch_packet_address: int,
    scratch_bytes: int,
    workgroups: Dim3 = (0, 0, 0),
    architected_scratch: bool = True,
    packed_work_item_ids: bool = True,
) -> InitialState:
    """Return the SGPRs in the order of the enable bits of the descriptor, and MODE from compute_pgm_rsrc1."""
    pairs = {1: dispatch_packet_address, 2: _QUEUE, 3: kernarg_address, 4: 0, 5: 0}  # dispatch id, flat scratch: zero
    properties = descriptor.kernel_code_properties
    registers = list(_PRIVATE_RESOURCE) if properties & 1 else []
    for bit, value in pairs.items():
        if properties >> bit & 1:
            registers += [value & 0xFFFF_FFFF, value >> 32]
    if properties >> 6 & 1:
        registers.append(scratch_bytes)
    registers += [count for axis, count in enumerate(workgroups) if properties >> 7 + axis & 1]
    registers += _preloaded(descriptor, kernarg)
    declared = descriptor.compute_pgm_rsrc2 >> 1 & 0x1F
    registers += [0] * (declared - len(registers))
    if len(registers) > MAX_USER_SGPRS:
        raise LabError(
            f"the kernel descriptor requests {len(registers)} user SGPRs, but the hardware has {MAX_USER_SGPRS}",
            hint="The code object is damaged. Compile it again.",
        )
    axes = min(descriptor.compute_pgm_rsrc2 >> 11 & 3, 2)
    return InitialState(
        user_sgprs=tuple(registers),
        system_sgprs=descriptor.compute_pgm_rsrc2 >> 7 & 0xF
        | (0 if architected_scratch else descriptor.compute_pgm_rsrc2 & 1) << 4,
        work_item_id_dims=axes,
        mode=initial_mode(descriptor),
        work_item_id_rows=1 if packed_work_item_ids else axes + 1,
        wave_size=wavefront_size(descriptor),
    )


def dispatch_packet(geometry: Geometry, *, lds_bytes: int, scratch_bytes: int, kernel_object: int, kernarg_address: int) -> bytes:
    """Return an hsa_kernel_dispatch_packet_t."""
    return _PACKET.pack(
        _KERNEL_DISPATCH_HEADER,
        geometry.dimensions,
        *geometry.block,
        0,
        *geometry.work_items,
        scratch_bytes,
        lds_bytes,
        kernel_object,
        kernarg_address,
        0,
        0,
    )


def _preloaded(descriptor: KernelDescriptor, kernarg: bytes) -> list[int]:
    dwords = descriptor.kernarg_preload & _PRELOAD_LENGTH_MASK
    first = 4 * (descriptor.kernarg_preload >> _PRELOAD_OFFSET_SHIFT)
    content = kernarg[first : first + 4 * dwords].ljust(4 * dwords, b"\0")
    return list(struct.unpack(f"<{dwords}I", content))


def initial_mode(descriptor: KernelDescriptor) -> int:
    """Return the initial MODE register of a kernel."""
    rsrc1 = descriptor.compute_pgm_rsrc1
    round_and_denormals = rsrc1 >> 12 & 0xFF
    dx10_clamp, ieee, fp16_overflow = rsrc1 >> 21 & 1, rsrc1 >> 23 & 1, rsrc1 >> 26 & 1
    return round_and_denormals | dx10_clamp << 8 | ieee << 9 | fp16_overflow << 23
