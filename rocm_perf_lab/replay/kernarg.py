"""Kernarg segment of a replay: the captured bytes, rearranged for another code object if one is replayed. Hidden arguments
that are specific to the captured process (queue, host services) are replaced.

Hidden arguments and their offsets: LLVM "User Guide for AMDGPU Backend", code object V3 to V6 metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.format import CapturedPacket, Region
    from rocm_perf_lab.toolchain.code_object import KernelArgument, KernelMetadata

HIDDEN = "hidden_"
PROCESS_ARGUMENTS = ("hidden_queue_ptr", "hidden_private_base", "hidden_shared_base")
"""Hidden arguments that are specific to a process; the replayer provides them."""
HOST_SERVICES = ("hidden_printf_buffer", "hidden_hostcall_buffer", "hidden_default_queue", "hidden_completion_action")
"""Hidden arguments of services provided by a host thread."""
MEMORY_ARGUMENTS = ("hidden_heap_v1", "hidden_multigrid_sync_arg")
"""Hidden pointers to device memory, which are kept if the memory was captured."""


@dataclass(frozen=True)
class ReplayGeometry:
    """Geometry of a replayed dispatch: packet and dynamic LDS. `scalars` replace by-value arguments, by offset."""

    packet: CapturedPacket
    dynamic_lds_bytes: int
    scalars: Mapping[int, bytes] = field(default_factory=dict)

    @classmethod
    def captured(cls, capture: Capture) -> ReplayGeometry:
        """Return the captured geometry."""
        return cls(capture.dispatch.packet, dynamic_lds_bytes(capture))


@dataclass(frozen=True)
class ReplayKernarg:
    """Kernarg segment of a replay, with notes for the user."""

    content: bytes
    notes: tuple[str, ...]


def replay_kernarg(
    capture: Capture, kernel: KernelMetadata, services: Mapping[str, int], geometry: ReplayGeometry
) -> ReplayKernarg:
    """Return the kernarg segment of `kernel` in a replay of `capture`.

    Args:
        capture: Source of the argument values.
        kernel: The captured kernel, or a replacement that satisfies :mod:`~rocm_perf_lab.replay.override`.
        services: Values of hidden arguments in this process, by value kind; zero for a host service that is not provided.
        geometry: Geometry of the dispatch.
    """
    segment = bytearray(_laid_out(capture, kernel, geometry))
    for offset, encoded in geometry.scalars.items():
        segment[offset : offset + len(encoded)] = encoded
    notes = []
    for argument in kernel.arguments:
        kind = argument.value_kind
        if kind not in (*PROCESS_ARGUMENTS, *HOST_SERVICES, *MEMORY_ARGUMENTS):
            continue
        captured = int.from_bytes(segment[argument.offset : argument.offset + argument.size], "little")
        value = captured
        if kind in PROCESS_ARGUMENTS or kind in HOST_SERVICES:
            value = services.get(kind, 0)
            if kind in HOST_SERVICES and captured not in (0, value):  # An emulated capture contains a placeholder.
                notes.append(_service_note(kind, is_provided=bool(value)))
        elif kind in MEMORY_ARGUMENTS and captured and capture.memory.region_at(captured) is None:
            value = services.get(kind, 0)
            if captured != value:
                notes.append(f"{kind} pointed to memory that was not captured; it is null in the replay")
        segment[argument.offset : argument.offset + argument.size] = value.to_bytes(8, "little")[: argument.size]
    return ReplayKernarg(bytes(segment), tuple(notes))


def _service_note(kind: str, *, is_provided: bool) -> str:
    if is_provided:
        return (
            "the kernel may print or allocate memory through the host; a replay discards the text, and the service time differs"
        )
    return f"{kind} was set in the captured process; replays do not provide this service, and a kernel that uses it fails"


def service_blocks(capture: Capture) -> Iterator[tuple[int, int]]:
    """Yield [begin, end) of the captured memory of host calls, which replays do not use.

    Memory that is only reachable through it is also the runtime's, for example a page with the signal of the dispatch.
    """
    for argument in capture.kernel.arguments:
        if argument.value_kind not in HOST_SERVICES:
            continue
        address = int.from_bytes(capture.kernarg[argument.offset : argument.offset + argument.size], "little")
        region = capture.memory.region_at(address)
        if region is None:
            continue
        blocks = (b for b in region.requested if b.base <= address < b.base + b.size)
        block = next(blocks, None)
        yield (block.base, block.base + block.size) if block is not None else (region.base, region.end)
        if len(region.requested) <= 1:
            yield from ((other.base, other.end) for other in reached_only_from(capture.memory.regions, region))


def reached_only_from(regions: Sequence[Region], region: Region) -> list[Region]:
    """Return the regions, such as those of signals, that are only reachable through `region`."""
    names = {f"{region.base:#x}"}
    only: list[Region] = []
    remaining = [other for other in regions if other is not region and other.reached_from]
    while True:
        found = [other for other in remaining if set(other.reached_from) <= names | {f"{other.base:#x}"}]
        if not found:
            return only
        only += found
        names |= {f"{other.base:#x}" for other in found}
        remaining = [other for other in remaining if other not in found]


def hidden_of_packet(packet: CapturedPacket, dynamic_lds_bytes: int) -> Mapping[str, int]:
    """Return the hidden arguments that follow from the geometry, by value kind."""
    values = {"hidden_grid_dims": packet.setup & 3, "hidden_dynamic_lds_size": dynamic_lds_bytes}
    for axis, items, size in zip("xyz", packet.grid_size, packet.workgroup_size, strict=True):
        values[f"hidden_block_count_{axis}"] = items // size
        values[f"hidden_group_size_{axis}"] = size
        values[f"hidden_remainder_{axis}"] = items % size
        values[f"hidden_global_offset_{axis}"] = 0
    return values


def dynamic_lds_bytes(capture: Capture) -> int:
    """Return the dynamic LDS of the captured dispatch in bytes."""
    return max(0, capture.dispatch.packet.group_segment_size - capture.dispatch.kernel.group_segment_size)


def explicit_arguments(kernel: KernelMetadata) -> tuple[KernelArgument, ...]:
    """Return the arguments that the source declares, ordered by offset."""
    explicit = (argument for argument in kernel.arguments if not argument.value_kind.startswith(HIDDEN))
    return tuple(sorted(explicit, key=lambda argument: argument.offset))


def _laid_out(capture: Capture, kernel: KernelMetadata, geometry: ReplayGeometry) -> bytes:
    as_captured = geometry.packet == capture.dispatch.packet
    if (kernel is capture.kernel and as_captured) or not kernel.arguments or not capture.kernel.arguments:
        size = max(kernel.kernarg_bytes, len(capture.kernarg))
        return capture.kernarg.ljust(size, b"\0")
    captured_at = {a.value_kind: a for a in capture.kernel.arguments if a.value_kind.startswith(HIDDEN)}
    computed = hidden_of_packet(geometry.packet, geometry.dynamic_lds_bytes)
    segment = bytearray(max([kernel.kernarg_bytes, *(a.offset + a.size for a in kernel.arguments)]))
    for argument in kernel.arguments:
        place = slice(argument.offset, argument.offset + argument.size)
        if not argument.value_kind.startswith(HIDDEN):
            segment[place] = capture.kernarg[place]
            continue
        source = captured_at.get(argument.value_kind)
        if source is not None and (as_captured or argument.value_kind not in computed):
            value = int.from_bytes(capture.kernarg[source.offset : source.offset + source.size], "little")
        else:
            value = computed.get(argument.value_kind, 0)
        segment[place] = value.to_bytes(8, "little")[: argument.size]
    return bytes(segment)
