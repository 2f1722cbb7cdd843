"""Arguments of a captured dispatch for a `kernel.yaml`: `captured_arguments(capture, parameters) -> CapturedArguments`.

Names and types come from the source, the metadata of the code object and the demangled name; sizes from the captured
allocations; contents and results from the captured memory.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.replay.check import element_type, element_types, scalar_type
from rocm_perf_lab.replay.kernarg import explicit_arguments, service_blocks
from rocm_perf_lab.toolchain.cpp_structure import CppStructure, UnbalancedBrackets
from rocm_perf_lab.toolchain.demangle import base_name, demangle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.format import Region
    from rocm_perf_lab.toolchain.code_object import KernelArgument

_POINTER_BYTES = 8
_LARGEST_ALIGNMENT = 256
_POOLED_ALIGNMENT = 256
"""Minimum alignment in bytes of buffers from caching allocators; PyTorch uses 512."""
_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


@dataclass(frozen=True)
class SourceParameter:
    """Declared parameter of a kernel: name, and type without the name."""

    name: str
    declared: str


@dataclass(frozen=True)
class CapturedBuffer:
    """Memory to which an argument points, up to the end of its allocation or the next argument.

    Shape before and after the dispatch: (elements,).
    """

    name: str
    dtype: str
    address: int
    is_written: bool
    before: NDArray[Any]
    after: NDArray[Any]

    @property
    def alignment(self) -> int:
        """Largest power of two that divides the address, limited to the alignment of hipMalloc."""
        return min(_LARGEST_ALIGNMENT, self.address & -self.address)


@dataclass(frozen=True)
class CapturedValue:
    """Argument passed by value, as members (type, value) with their offsets; a scalar is one member."""

    name: str
    members: tuple[tuple[str, int | float], ...]
    is_struct: bool


@dataclass(frozen=True)
class CapturedArguments:
    """Arguments in the order of the kernel; `notes` are properties that a description cannot express.

    `need_capture` is True if values contain pointers, so that the kernel can only run on captured memory. `are_linked` is True if
    buffers contain pointers, which the kernel may follow.
    """

    arguments: tuple[CapturedBuffer | CapturedValue, ...]
    notes: tuple[str, ...]
    need_capture: bool = False
    are_linked: bool = False

    @property
    def buffers(self) -> tuple[CapturedBuffer, ...]:
        """The arguments that point to captured memory."""
        return tuple(argument for argument in self.arguments if isinstance(argument, CapturedBuffer))


def source_parameters(text: str, kernel_name: str) -> tuple[SourceParameter, ...]:
    """Return the parameters of a kernel in a HIP source; empty if it is not found or has several definitions.

    Args:
        text: The source.
        kernel_name: Demangled or mangled name.
    """
    try:
        structure = CppStructure.of(text)
    except UnbalancedBrackets:
        return ()
    wanted = base_name(demangle(kernel_name)).partition("<")[0].rpartition("::")[2].rpartition(" ")[2]
    found = []
    for function in structure.functions():
        places = structure.parameters(function)
        if places is None or function.body is None or structure.word(places[0] - 1) != wanted or not function.is_device:
            continue
        first, last = places
        found.append(_parameters(structure, first + 1, last))
    return found[0] if len(found) == 1 else ()


def _parameters(structure: CppStructure, index: int, end: int) -> tuple[SourceParameter, ...]:
    """Return the parameters between two parentheses."""
    parts: list[list[str]] = [[]]
    while index < end:
        word = structure.word(index)
        if word == "<":
            following = structure.after_angles(index, end)
            parts[-1] += [structure.word(i) for i in range(index, following)]
            index = following
            continue
        if word in "([{":
            index = structure.partner[index] + 1
            continue
        if word == ",":
            parts.append([])
        else:
            parts[-1].append(word)
        index += 1
    listed = [part[: part.index("=")] if "=" in part else part for part in parts if part and part != ["void"]]
    if any(not re.fullmatch(r"[A-Za-z_]\w*", part[-1]) or len(part) < 2 for part in listed):
        return ()
    return tuple(SourceParameter(part[-1], _spelled(part[:-1])) for part in listed)


def _spelled(words: Sequence[str]) -> str:
    """Return a type with words separated by spaces, and `*` attached to the preceding word."""
    kept = [word for word in words if word not in ("__restrict__", "__restrict", "restrict")]
    return " ".join(kept).replace(" *", "*").replace(" &", "&")


def captured_arguments(capture: Capture, parameters: Sequence[SourceParameter] = ()) -> CapturedArguments:
    """Return the arguments of the captured dispatch.

    Args:
        capture: The capture.
        parameters: Parameters in the source; ignored if their number differs.
    """
    explicit = explicit_arguments(capture.kernel)
    declared = list(parameters) if len(parameters) == len(explicit) else []
    of_name = _parameters_of_name(capture, len(explicit))
    types = element_types(capture)
    contents = [capture.kernarg[argument.offset : argument.offset + argument.size] for argument in explicit]
    pointers = [
        int.from_bytes(c, "little") for c, a in zip(contents, explicit, strict=True) if _region(capture, a, c) is not None
    ]
    found: list[CapturedBuffer | CapturedValue] = []
    for number, argument in enumerate(explicit):
        name = argument.name or (declared[number].name if declared else f"argument{number}")
        spelled = of_name[number] or (declared[number].declared if declared else "") or argument.type_name
        content = contents[number]
        region = _region(capture, argument, content)
        if region is None:
            found.append(_value(name, content, spelled))
            continue
        dtype = types.get(argument.offset) or element_type(spelled) or "u8"
        found.append(_buffer(capture, region, name, dtype, int.from_bytes(content, "little"), spelled, pointers))
    by_value = {
        argument.name: targets
        for argument, content in zip(found, contents, strict=True)
        if isinstance(argument, CapturedValue) and (targets := _pointed_to(capture, content))
    }
    passed = [
        f"{name} contains pointers, or equal numbers (captured regions: {len(targets)}): check, time, profile and autotune run "
        "on the captured memory; optimize cannot, because it requires different inputs"
        for name, targets in by_value.items()
    ]
    linked = _linked(capture, pointers)
    return CapturedArguments(tuple(found), (*_notes(found), *passed, *linked), bool(by_value), bool(linked))


def _pointed_to(capture: Capture, content: bytes) -> set[int]:
    """Return the bases of the captured regions to which aligned words of an argument point."""
    words = np.frombuffer(content[: len(content) // _POINTER_BYTES * _POINTER_BYTES], "<u8").tolist()
    regions = [capture.memory.region_at(word) for word in words]
    return {region.base for region in regions if region is not None and region.file is not None}


def _parameters_of_name(capture: Capture, count: int) -> list[str]:
    listed = re.search(r"\((.*)\)$", demangle(capture.dispatch.kernel.mangled_name))
    parameters = listed[1].split(", ") if listed else []
    return parameters if len(parameters) == count else [""] * count


def _region(capture: Capture, argument: KernelArgument, content: bytes) -> Region | None:
    """Return the captured region to which an argument points."""
    if argument.size != _POINTER_BYTES or argument.value_kind == "by_value":
        return None
    region = capture.memory.region_at(int.from_bytes(content, "little"))
    return region if region is not None and region.file is not None else None


def _buffer(
    capture: Capture, region: Region, name: str, dtype: str, address: int, spelled: str, pointers: Sequence[int]
) -> CapturedBuffer:
    """Return the memory from an address to the end of its allocation.

    Caching allocators place several buffers in one allocation: the buffer ends at the next pointer with their alignment.
    """
    blocks = [block for block in region.requested if block.base <= address < block.base + block.size]
    end = blocks[0].base + blocks[0].size if blocks else region.end
    following = (p for p in pointers if address < p < end and (p - address) % _POOLED_ALIGNMENT == 0)
    end = min(following, default=end)
    size = DTYPES[dtype].itemsize
    if end - address < size:
        dtype, size = "u8", 1
    span = slice(address - region.base, address - region.base + (end - address) // size * size)
    before = np.ascontiguousarray(capture.image(region)[span]).view(DTYPES[dtype])
    after = np.ascontiguousarray(capture.expected(region)[span]).view(DTYPES[dtype])
    is_const = "const" in spelled.partition("*")[0].split()
    changed = not np.array_equal(before.view(np.uint8), after.view(np.uint8))
    return CapturedBuffer(name, dtype, address, changed or (bool(spelled) and not is_const), before, after)


def _value(name: str, content: bytes, spelled: str) -> CapturedValue:
    dtype = scalar_type(spelled)
    if dtype is not None and DTYPES[dtype].itemsize == len(content):
        value = np.frombuffer(content, DTYPES[dtype])[0].item()
        if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
            return CapturedValue(name, ((dtype, value),), is_struct=False)
    if len(content) in _UNSIGNED:
        return CapturedValue(name, ((_UNSIGNED[len(content)], int.from_bytes(content, "little")),), is_struct=False)
    unit = 4 if len(content) % 4 == 0 else 1
    words = (content[n : n + unit] for n in range(0, len(content), unit))
    return CapturedValue(name, tuple((_UNSIGNED[unit], int.from_bytes(word, "little")) for word in words), is_struct=True)


def _linked(capture: Capture, pointers: Sequence[int]) -> list[str]:
    """Return a note about pointers in the memory of the arguments, which a description cannot express."""
    listed = {region.base: region for pointer in pointers if (region := capture.memory.region_at(pointer)) is not None}
    bases = {f"{base:#x}" for base in listed}
    services = list(service_blocks(capture))
    followed = [
        region
        for region in capture.memory.regions
        if bases & set(region.reached_from) and not any(begin <= region.base < end for begin, end in services)
    ]
    if not followed:
        return []
    return [
        f"the buffers contain pointers, or equal numbers, to {len(followed)} captured regions; kernel.yaml keeps their values: "
        "if the kernel follows them, optimize cannot run it"
    ]


def _notes(arguments: Sequence[CapturedBuffer | CapturedValue]) -> list[str]:
    buffers = [argument for argument in arguments if isinstance(argument, CapturedBuffer)]
    return [
        f"{one.name} and {other.name} are the same memory in the capture, and separate in kernel.yaml"
        for number, one in enumerate(buffers)
        for other in buffers[number + 1 :]
        if one.address < other.address + other.before.nbytes and other.address < one.address + one.before.nbytes
    ]
