"""Code objects next to a recording: the compiler's metadata of a recorded kernel, and the architecture of the GPU."""

from __future__ import annotations

import mmap
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.rocprof.registers import reported_registers
from rocm_perf_lab.target.occupancy import LaunchImpossible
from rocm_perf_lab.toolchain.demangle import base_name, demangle
from rocm_perf_lab.toolchain.kernel_file import read_kernel_file
from rocm_perf_lab.toolchain.kernel_lookup import KernelNotFound, find_kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rocm_perf_lab.profiling.profile import Profile
    from rocm_perf_lab.profiling.selection import RankedKernel
    from rocm_perf_lab.rocprof.trace import Trace, TracedKernel
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_DESCRIPTOR = ".kd"


@dataclass(frozen=True)
class RecordedCode:
    """A kernel in a code object that was saved with a recording."""

    path: Path
    code_object: CodeObject
    kernel: KernelMetadata


@dataclass(frozen=True)
class CodeSearch:
    """Code of a kernel, if it was found, and notes on files that were not used."""

    code: RecordedCode | None
    notes: tuple[str, ...] = ()


def find_code(files: Iterable[Path], kernel: TracedKernel, architecture: str) -> CodeSearch:
    """Return the code of a recorded kernel among code objects, by name and, among several, by the recorded registers.

    Args:
        files: Code objects, or files with bundles of them.
        kernel: The kernel as recorded; CSV has demangled names, with or without parameters.
        architecture: Architecture of the GPU, which selects the code in a bundle.
    """
    found: list[RecordedCode] = []
    notes: list[str] = []
    for path in files:
        if not _mentions(path, kernel):
            continue
        try:
            code_objects = read_kernel_file(path, architecture=architecture)
        except LabError as error:
            notes.append(f"{path.name} was ignored: {error.what}")
            continue
        for code_object in code_objects:
            if code_object.architecture != architecture:
                continue
            own = _own_kernel(code_object, kernel)
            if own is not None:
                found.append(RecordedCode(path, code_object, own))
    distinct = list({(one.kernel.descriptor, one.kernel.code_bytes): one for one in reversed(found)}.values())
    fitting = [one for one in distinct if _has_recorded_registers(one, kernel)] or distinct
    if len(fitting) > 1:
        notes.append(f"{len(fitting)} code objects contain different versions of the kernel: resources are the profiler's")
        return CodeSearch(None, tuple(notes))
    return CodeSearch(fitting[0] if fitting else None, tuple(notes))


def profile_with_code(
    trace: Trace, code_objects: Iterable[Path], kernel: RankedKernel, *, failures: Sequence[str] = (), **options: Any
) -> Profile:
    """Build the profile of a kernel with the resources that its code object states.

    Args:
        trace: The timing run.
        code_objects: Code objects of the run.
        kernel: Kernel of the trace.
        failures: Descriptions of failed passes; they become notes.
        options: Further arguments of :func:`build_profile`.

    Raises:
        ProfileError: The trace contains no usable dispatch, or is of another architecture.
    """
    target: Target = options["target"]
    traced = trace.kernels[int(trace.dispatches.kernel[kernel.dispatches[0]])]
    search = find_code(code_objects, traced, target.architecture)
    notes = (*failures, *search.notes)
    if search.code is not None:
        sha256 = search.code.code_object.sha256
        with suppress(LaunchImpossible):
            return build_profile(
                trace,
                symbol=kernel.mangled_name,
                resources=search.code.kernel,
                code_object_sha256=sha256,
                failures=notes,
                **options,
            )
        notes = (*notes, f"{search.code.path.name} is of another build: the recorded launch does not fit its resources")
    return build_profile(trace, symbol=kernel.mangled_name, failures=notes, **options)


def code_architecture(files: Iterable[Path]) -> str:
    """Return the architecture of all code objects; empty if there are several, or none."""
    names: set[str] = set()
    for path in files:
        try:
            names.update(code_object.architecture for code_object in read_kernel_file(path))
        except LabError:
            continue
        if len(names) > 1:
            return ""
    return names.pop() if names else ""


def _mentions(path: Path, kernel: TracedKernel) -> bool:
    """Return True if a file contains the name of the kernel, or is compressed."""
    wanted = kernel.mangled_name.removesuffix(_DESCRIPTOR)
    text = wanted if wanted.startswith("_Z") else base_name(kernel.name)
    try:
        with path.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content[:4] != b"\x7fELF" or content.find(text.encode()) >= 0
    except (OSError, ValueError):
        return False


def _own_kernel(code_object: CodeObject, kernel: TracedKernel) -> KernelMetadata | None:
    names: Sequence[str] = (kernel.mangled_name.removesuffix(_DESCRIPTOR), demangle(kernel.name))
    for name in dict.fromkeys(names):
        try:
            return find_kernel(code_object, name)
        except KernelNotFound:
            continue
    return None


def _has_recorded_registers(code: RecordedCode, kernel: TracedKernel) -> bool:
    descriptor = code.kernel.descriptor
    reported = reported_registers(
        code.code_object.architecture,
        compute_pgm_rsrc1=descriptor.compute_pgm_rsrc1,
        compute_pgm_rsrc3=descriptor.compute_pgm_rsrc3,
        wavefront_size=code.kernel.wavefront_size,
    )
    return (reported.arch_vgprs, reported.accum_vgprs) == (kernel.arch_vgpr_count, kernel.accum_vgpr_count)
