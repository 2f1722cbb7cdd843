"""The launch of `rocm-perf emulate`: geometry, arguments, and the argument layout of a kernel without metadata.

Launches that exceed the limits of the dispatch packet, the GPU or this machine are rejected before memory is allocated.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.arch.registry import emulated_architectures
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import require_existing
from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.device.argument_text import format_argument, format_dim3, parse_argument, parse_dim3
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue, ScalarValue
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.target.catalog import choice_of_targets, load_target, usual_target
from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.code_object import CodeObject, KernelArgument, KernelMetadata
from rocm_perf_lab.toolchain.kernel_file import choose_kernel, read_kernel_file
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rocm_perf_lab.device.argument_text import TextArgument
    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.jobs.emulate.request import EmulateRequest
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.occupancy import Occupancy

_LARGEST_WORK_ITEMS = 2**32 - 1
_COPIES = 3
"""Number of copies of every buffer: input, device memory, output."""


@dataclass(frozen=True)
class RequestedLaunch:
    """Valid launch, with its arguments as parsed from the command line."""

    kernel: KernelMetadata
    launch: Launch
    arguments: tuple[TextArgument, ...]
    occupancy: Occupancy
    target: Target


def requested_launch(request: EmulateRequest, named: Target | None) -> RequestedLaunch:
    """Return the requested launch on the named target; None selects a target with the code object's architecture.

    Raises:
        LabError: An argument is invalid, the architecture differs, or a limit is exceeded.
    """
    geometry = _geometry(request)
    require_existing(request.file, "the code object")
    if named is None:
        code_objects = read_kernel_file(request.file, or_another=True)
    else:
        code_objects = read_kernel_file(request.file, architecture=named.architecture)
    code_object, kernel = choose_kernel(code_objects, request.kernel)
    target = named if named is not None else load_target(usual_target(code_object.architecture))
    _require_emulated(code_object, target, request.file)
    names = argument_names(kernel, len(request.arguments))
    arguments = tuple(parse_argument(text, name) for text, name in zip(request.arguments, names, strict=True))
    code_object, kernel = _with_argument_layout(code_object, kernel, arguments)
    _require_size(kernel, geometry, arguments)
    asked = occupancy_request(kernel, workgroup_size=prod(geometry.block), dynamic_lds_bytes=request.dynamic_lds_bytes)
    occupancy = launch_occupancy(target, asked)
    launch = _launch(request, code_object, kernel, arguments, geometry)
    return RequestedLaunch(kernel, launch, arguments, occupancy, target)


def argument_names(kernel: KernelMetadata, count: int) -> tuple[str, ...]:
    """Return the name of each argument: from the metadata if unique, else `arg0`, `arg1`, ..."""
    given = [argument.name for argument in explicit_arguments(kernel)]
    names = []
    for position in range(count):
        name = given[position] if position < len(given) else ""
        if given.count(name) != 1 or not name:
            name = f"arg{position}"
            while name in given:
                name += "_"
        names.append(name)
    return tuple(names)


def explicit_arguments(kernel: KernelMetadata) -> tuple[KernelArgument, ...]:
    """Return the explicit arguments in the order of the kernel's parameters."""
    return tuple(argument for argument in kernel.arguments if not argument.value_kind.startswith("hidden_"))


def _require_emulated(code_object: CodeObject, target: Target, file: Path) -> None:
    if code_object.architecture != target.architecture:
        raise LabError(
            f"the code object is for {code_object.described_target}, {target.name} is {target.architecture}",
            where=str(file),
            hint=_other_choice(code_object.architecture, target),
        )


def _other_choice(architecture: str, target: Target) -> str:
    """Return the hint for a wrong target: targets of the code object, and the compiler flag for the emulated architecture."""
    possible = choice_of_targets(architecture)
    if target.architecture not in emulated_architectures():
        return f"{possible}; the emulator executes {', '.join(emulated_architectures())}"
    return f"{possible}; or compile it with --offload-arch={target.architecture}"


def _geometry(request: EmulateRequest) -> Geometry:
    block = parse_dim3(request.block, "--block")
    if (request.grid is None) == (request.work_items is None):
        raise LabError(
            "exactly one of --grid and --work-items is required",
            where=f"--grid {request.grid} --work-items {request.work_items}" if request.grid else "neither is set",
            hint="--grid counts workgroups; --work-items counts work-items, and the last workgroup may be partial",
        )
    if request.work_items is not None:
        return Geometry.of_work_items(parse_dim3(request.work_items, "--work-items"), block, request.dynamic_lds_bytes)
    return Geometry(parse_dim3(request.grid or "", "--grid"), block, request.dynamic_lds_bytes)


def _require_size(kernel: KernelMetadata, geometry: Geometry, arguments: Sequence[TextArgument]) -> None:
    """Check the limits of the dispatch packet and the memory of this machine."""
    if max(geometry.work_items) > _LARGEST_WORK_ITEMS:
        raise LabError(
            f"{format_dim3(geometry.grid)} workgroups of {format_dim3(geometry.block)} work-items: "
            f"a dispatch holds {_LARGEST_WORK_ITEMS:,} per dimension",
            where=f"kernel {kernel.name}, --grid",
            hint="--grid counts workgroups, not work-items",
        )
    needed = sum(_buffer_bytes(argument) for argument in arguments)
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if _COPIES * needed > available:
        raise LabError(
            f"the buffers have {needed:,} bytes; with copies they exceed the {available:,} bytes of this machine",
            where="--arg",
            hint="use smaller buffers",
        )


def _buffer_bytes(argument: TextArgument) -> int:
    if not isinstance(argument, BufferArgument):
        return 0
    return prod(int(size) for size in argument.shape) * DTYPES[argument.dtype].itemsize


def _with_argument_layout(
    code_object: CodeObject, kernel: KernelMetadata, arguments: Sequence[TextArgument]
) -> tuple[CodeObject, KernelMetadata]:
    """Lay out the arguments of a kernel without metadata, each at its natural alignment.

    Raises:
        LabError: The arguments exceed the kernel's argument segment.
    """
    if kernel.arguments or not arguments:
        return code_object, kernel
    laid_out: list[KernelArgument] = []
    end = 0
    for argument in arguments:
        size, kind = _size_and_kind(argument)
        alignment = math.gcd(size, 8)
        offset = -(-end // alignment) * alignment
        laid_out.append(KernelArgument(argument.name, offset, size, kind))
        end = offset + size
    if end > kernel.kernarg_bytes:
        raise LabError(
            f"kernel {kernel.name} takes {kernel.kernarg_bytes} bytes of arguments, {end} bytes were passed",
            where=f"its metadata lists no arguments; passed: {', '.join(map(format_argument, arguments))}",
            hint="pass the arguments that it declares; hand-written assembly needs .amdhsa_kernarg_size and .args",
        )
    described = replace(kernel, arguments=tuple(laid_out))
    kernels = tuple(described if other is kernel else other for other in code_object.kernels)
    return replace(code_object, kernels=kernels), described


def _size_and_kind(argument: TextArgument) -> tuple[int, str]:
    if isinstance(argument, BufferArgument):
        return 8, "global_buffer"
    return (len(argument.encoded) if isinstance(argument, ScalarValue) else DTYPES[argument.dtype].itemsize), "by_value"


def _launch(
    request: EmulateRequest,
    code_object: CodeObject,
    kernel: KernelMetadata,
    arguments: tuple[TextArgument, ...],
    geometry: Geometry,
) -> Launch:
    """Build the launch from a kernel description, then insert raw bytes."""
    description = KernelDescription(
        name=kernel.name,
        source=request.file,
        entry=kernel.symbol,
        arguments=tuple(argument for argument in arguments if not isinstance(argument, ScalarValue)),
        work_items=geometry.work_items,
        block=geometry.block,
        dynamic_lds_bytes=request.dynamic_lds_bytes,
        cooperative=request.cooperative,
    )
    with np.errstate(all="ignore"):  # values beyond the range of a small float become infinite, as on the device
        launch = build_launch(description, code_object, kernel.symbol)
    built: Mapping[str, BufferValue | ScalarValue] = {value.name: value for value in launch.arguments}
    values = tuple(built.get(a.name, a) if isinstance(a, ScalarValue) else built[a.name] for a in arguments)
    return replace(launch, arguments=values)
