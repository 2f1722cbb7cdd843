"""Kernarg segment with explicit and hidden arguments: `pack_kernarg(kernel, values, geometry) -> bytes`.

Offsets are those of the metadata note. Hidden arguments: LLVM "User Guide for AMDGPU Backend", code object V2 to V6.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.core.geometry import Geometry
    from rocm_perf_lab.toolchain.code_object import KernelArgument, KernelMetadata

LDS_APERTURE_HIGH = 0x7FFF_0000
"""Upper 32 bits of flat addresses of LDS, as in SRC_SHARED_BASE and hidden_shared_base."""
SCRATCH_APERTURE_HIGH = 0x7FFE_0000

_LARGEST_SEGMENT_BYTES = 1 << 20
"""Far beyond the limit of compilers; a larger size indicates damaged metadata."""
_POINTER_KINDS = frozenset({"global_buffer", "dynamic_shared_pointer"})


class KernelArgumentError(LabError):
    """Argument values that do not match the kernel."""


@dataclass(frozen=True)
class RuntimeService:
    """Service of a runtime that a kernel may request through a hidden argument.

    The argument holds a placeholder, an address without memory. If the emulator provides the service, a launch replaces it with
    the real address (see :mod:`~rocm_perf_lab.emulator.host_services`); else the first access to it reports the missing service.
    """

    argument: str
    address: int
    missing: str = ""
    """What the kernel needs but the emulator does not provide, as a clause; empty if provided."""
    hint: str = ""


_SERVICE_BYTES = 1 << 32
_FIRST_SERVICE = 0x0F00_0000_0000
_SERVICES = (
    ("hidden_hostcall_buffer", "", ""),
    ("hidden_printf_buffer", "", ""),
    ("hidden_heap_v1", "", ""),
    ("hidden_default_queue", "device-side enqueue needs a queue the emulator does not have", "Launch from the host."),
    ("hidden_completion_action", "device-side enqueue needs a queue the emulator does not have", "Launch from the host."),
    ("hidden_queue_ptr", "the kernel reads the HSA queue, which the emulator does not have", "Run it on a GPU."),
)
SERVICES = tuple(
    RuntimeService(argument, _FIRST_SERVICE + number * _SERVICE_BYTES, missing, hint)
    for number, (argument, missing, hint) in enumerate(_SERVICES)
)


def service_at(address: int) -> RuntimeService | None:
    """Return the service whose placeholder contains an address."""
    number, _ = divmod(address - _FIRST_SERVICE, _SERVICE_BYTES)
    return SERVICES[number] if 0 <= number < len(SERVICES) else None


GRID_SYNC_ARGUMENT = "hidden_multigrid_sync_arg"
GRID_SYNC_NAME = "grid synchronisation"
"""Name of the allocation of the grid barrier."""
_GRID_SYNC = struct.Struct("<QIIQQIIII")


def grid_sync_block(geometry: Geometry) -> bytes:
    """Return the grid barrier of a cooperative launch: the counter at which its workgroups meet.

    Layout of the device libraries (`mg_info`): structure for several devices (none), this grid and number of grids, work-items
    before it and in total, two words of the counter, workgroups.
    """
    workgroups, work_items = prod(geometry.grid), prod(geometry.work_items)
    return _GRID_SYNC.pack(0, 0, 1, 0, work_items, 0, 0, workgroups, 0)


def pack_kernarg(
    kernel: KernelMetadata, values: Sequence[int | bytes], geometry: Geometry, *, grid_sync_address: int = 0
) -> bytes:
    """Return the bytes of the segment.

    Args:
        kernel: Kernel with the arguments.
        values: In the order of the explicit arguments: a device address, or an encoded scalar. Eight zero bytes are a null
            pointer.
        geometry: Geometry of the launch, for the hidden arguments.
        grid_sync_address: Address of the grid barrier of a cooperative launch.

    Raises:
        KernelArgumentError: Wrong number or size of values, or impossible size of the segment.
    """
    explicit = [argument for argument in kernel.arguments if not argument.value_kind.startswith("hidden_")]
    if values and not explicit and not kernel.has_metadata:
        raise KernelArgumentError(
            f"the code object has no metadata for kernel {kernel.name}: its arguments are unknown",
            where=f"its descriptor requests {kernel.kernarg_bytes} bytes of arguments",
            hint="Add an .amdgpu_metadata block with the .args of the kernel; strip and objcopy may have removed it.",
        )
    if len(values) != len(explicit):
        raise KernelArgumentError(
            f"kernel {kernel.name} has {len(explicit)} arguments, but {len(values)} were passed",
            where=", ".join(_label(argument, n) for n, argument in enumerate(explicit)) or "it has no arguments",
            hint="List every argument of the kernel, in order.",
        )
    size = max([kernel.kernarg_bytes, *(argument.offset + argument.size for argument in kernel.arguments)])
    if size > _LARGEST_SEGMENT_BYTES:
        raise KernelArgumentError(
            f"kernel {kernel.name}: the metadata declare {size:,} bytes of arguments",
            hint="The metadata of the code object are damaged. Compile it again.",
        )
    segment = bytearray(size)
    for position, (argument, value) in enumerate(zip(explicit, values, strict=True)):
        segment[argument.offset : argument.offset + argument.size] = _encode(argument, value, position, kernel)
    hidden = {**hidden_values(geometry), GRID_SYNC_ARGUMENT: grid_sync_address}
    for argument in kernel.arguments:
        if argument.value_kind in hidden:
            encoded = hidden[argument.value_kind].to_bytes(8, "little")[: argument.size]
            segment[argument.offset : argument.offset + argument.size] = encoded
    return bytes(segment)


def hidden_values(geometry: Geometry) -> Mapping[str, int]:
    """Return the hidden arguments that are not zero."""
    values = {service.argument: service.address for service in SERVICES} | {
        "hidden_grid_dims": geometry.dimensions,
        "hidden_dynamic_lds_size": geometry.dynamic_lds_bytes,
        "hidden_private_base": SCRATCH_APERTURE_HIGH,
        "hidden_shared_base": LDS_APERTURE_HIGH,
    }
    for axis, groups, items, rest in zip("xyz", geometry.grid, geometry.block, geometry.remainder, strict=True):
        values[f"hidden_block_count_{axis}"] = groups - (rest > 0)  # without partial ones
        values[f"hidden_group_size_{axis}"] = items
        values[f"hidden_remainder_{axis}"] = rest
    return values


def _encode(argument: KernelArgument, value: int | bytes, position: int, kernel: KernelMetadata) -> bytes:
    where = f"kernel {kernel.name}, {_label(argument, position)}"
    if isinstance(value, int):
        if argument.size != 8:
            raise KernelArgumentError(
                f"a buffer was passed for an argument of {argument.size} bytes",
                where=where,
                hint="Pointers have 8 bytes. Check the order of the arguments.",
            )
        return struct.pack("<Q", value)
    if len(value) != argument.size or (argument.value_kind in _POINTER_KINDS and any(value)):
        expected = "a pointer" if argument.value_kind in _POINTER_KINDS else f"{argument.size} bytes"
        raise KernelArgumentError(
            f"a scalar of {len(value)} bytes was passed, but the kernel expects {expected}",
            where=where,
            hint="Use the type that the kernel declares.",
        )
    return value


def _label(argument: KernelArgument, position: int) -> str:
    kind = argument.type_name or argument.value_kind
    return f"argument {position} ({argument.name or 'unnamed'}: {kind}, {argument.size} bytes)"
