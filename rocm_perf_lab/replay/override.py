"""Rules for replaying another code object: `override_violations(...)` lists all violations.

Arguments, geometry and memory of a capture are fixed; a replacement must be compatible with them.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import nearest_processor
from rocm_perf_lab.replay.kernarg import HIDDEN, HOST_SERVICES, MEMORY_ARGUMENTS, explicit_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.kernarg import ReplayGeometry
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelArgument, KernelMetadata

_LARGEST_WORKGROUP = 1024


def replacement_kernel(capture: Capture, code_object: CodeObject) -> KernelMetadata | None:
    """Return the kernel with the captured name in another code object, or None."""
    wanted = capture.dispatch.kernel.mangled_name
    return next((kernel for kernel in code_object.kernels if kernel.symbol == wanted), None)


def override_violations(capture: Capture, code_object: CodeObject, geometry: ReplayGeometry) -> tuple[str, ...]:
    """Return the rules that `code_object` violates as a replacement with that geometry; empty if it is compatible."""
    problems = list(_target_problems(capture.code_object, code_object))
    kernel = replacement_kernel(capture, code_object)
    if kernel is None:
        known = ", ".join(k.symbol for k in code_object.kernels) or "none"
        return (*problems, f"kernel name: no kernel {capture.dispatch.kernel.mangled_name!r}; available: {known}")
    problems += _argument_problems(capture.kernel, kernel)
    problems += _hidden_problems(capture.kernel, kernel)
    problems += _geometry_problems(capture, geometry, kernel, code_object.architecture)
    problems += _variable_problems(capture, code_object)
    return tuple(problems)


def _target_problems(captured: CodeObject, other: CodeObject) -> Iterator[str]:
    if captured.architecture != other.architecture:
        yield f"target id: {other.architecture}, but the capture is of {captured.architecture}"
        return
    have, want = _features(other.target_id), _features(captured.target_id)
    for feature in sorted(have.keys() & want.keys()):
        if have[feature] != want[feature]:
            yield f"target id: {feature}{have[feature]}, but the captured code object has {feature}{want[feature]}"


def _features(target_id: str) -> dict[str, str]:
    """Return features such as `{"sramecc": "+", "xnack": "-"}`; an unspecified feature is compatible with both settings."""
    return {part[:-1]: part[-1] for part in target_id.split(":")[1:] if part[-1:] in ("+", "-")}


def _argument_problems(captured: KernelMetadata, other: KernelMetadata) -> Iterator[str]:
    if not captured.arguments or not other.arguments:
        if captured.kernarg_bytes != other.kernarg_bytes:
            yield f"kernarg layout: a segment of {other.kernarg_bytes} bytes, but the captured one has {captured.kernarg_bytes}"
        return
    want, have = explicit_arguments(captured), explicit_arguments(other)
    if len(want) != len(have):
        yield f"kernarg layout: {len(have)} arguments, but the captured kernel has {len(want)}"
    for number, (old, new) in enumerate(zip(want, have, strict=False)):
        if (old.offset, old.size, old.value_kind) != (new.offset, new.size, new.value_kind):
            yield f"kernarg layout: argument {number} is {_described(new)}, but {_described(old)} in the captured kernel"


def _described(argument: KernelArgument) -> str:
    return f"{argument.value_kind} of {argument.size} bytes at {argument.offset}"


def _hidden_problems(captured: KernelMetadata, other: KernelMetadata) -> Iterator[str]:
    had = {argument.value_kind for argument in captured.arguments}
    for argument in other.arguments:
        kind = argument.value_kind
        if kind.startswith(HIDDEN) and kind in HOST_SERVICES + MEMORY_ARGUMENTS and kind not in had:
            yield f"hidden arguments: {kind} is required, but the captured dispatch did not have it"


def _geometry_problems(capture: Capture, geometry: ReplayGeometry, kernel: KernelMetadata, architecture: str) -> Iterator[str]:
    packet = geometry.packet
    if kernel.wavefront_size != capture.kernel.wavefront_size:
        yield f"wavefront size: {kernel.wavefront_size}, but the captured kernel has {capture.kernel.wavefront_size}"
    required = kernel.required_workgroup_size
    if required is not None and required != packet.workgroup_size:
        yield f"workgroup size: compiled for {required} only, but the dispatch has {packet.workgroup_size}"
    limit = kernel.max_flat_workgroup_size or _LARGEST_WORKGROUP
    captured_limit = capture.kernel.max_flat_workgroup_size or _LARGEST_WORKGROUP
    # HIP dispatches its internal kernels with more work-items than their metadata states.
    if limit < prod(packet.workgroup_size) and (limit < captured_limit or packet != capture.dispatch.packet):
        yield f"workgroup size: compiled for at most {limit} work-items, but the dispatch has {prod(packet.workgroup_size)}"
    dynamic, most = geometry.dynamic_lds_bytes, nearest_processor(architecture).workgroup_lds_bytes
    if kernel.lds_bytes + dynamic > most:
        yield f"LDS: {kernel.lds_bytes:,} static + {dynamic:,} dynamic bytes, but {architecture} has {most:,} per workgroup"


def _variable_problems(capture: Capture, code_object: CodeObject) -> Iterator[str]:
    from rocm_perf_lab.toolchain.elf_file import parse_elf

    symbols = parse_elf(code_object.data).symbols
    for variable in capture.dispatch.variables:
        symbol = symbols.get(variable.name)
        if symbol is not None and symbol.size != variable.size:
            yield f"module variables: {variable.name} has {symbol.size} bytes, but {variable.size} in the captured code object"
