"""Code of sampled kernels: texts, source lines and unsampled instructions from code objects next to the recording.

rocprofv3 saves code objects as `<prefix>_code_object_id_<id>.out`. The offset of a sample is relative to the address at which the
code object was loaded, which is its address in the ELF file.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.pc_sample_rows import in_code_order
from rocm_perf_lab.rocprof.pc_samples import SampledInstruction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from rocm_perf_lab.rocprof.pc_samples import PcSampling, SampledKernel
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata
    from rocm_perf_lab.toolchain.listing import ListedInstruction, Listing

_SAVED = re.compile(r"code_object_id_(\d+)\.(?:out|hsaco|co)$")

_WORD = 4
_DISTANCE_WRAP = 1 << 16


def saved_code_objects(files: Iterable[Path]) -> tuple[dict[int, CodeObject], tuple[str, ...]]:
    """Return the code objects among files by the id that rocprofv3 gave them, and notes on unreadable ones."""
    from rocm_perf_lab.toolchain.kernel_file import read_kernel_file

    found: dict[int, CodeObject] = {}
    notes = []
    for file in sorted(files):
        match = _SAVED.search(file.name)
        if match is None or int(match[1]) in found:
            continue
        try:
            code_objects = read_kernel_file(file)
        except LabError as error:
            notes.append(f"{file.name} was ignored: {error.what}")
            continue
        if code_objects:
            found[int(match[1])] = code_objects[0]
    return found, tuple(notes)


def with_code(sampling: PcSampling, code_objects: Mapping[int, CodeObject]) -> PcSampling:
    """Return the samples with the whole code of each kernel whose code object is known.

    Instructions get their text and source line, unsampled ones are added, and kernels without name get that of their code.
    Kernels whose samples have no address, or are of several code objects, stay as they are.
    """
    kernels, notes = [], []
    for kernel in sampling.kernels:
        try:
            kernels.append(_completed(kernel, code_objects))
        except LabError as error:
            kernels.append(kernel)
            notes.append(f"the code of {kernel.name or 'a sampled kernel'} cannot be listed: {error.what}")
    return replace(sampling, kernels=tuple(kernels), notes=(*sampling.notes, *notes))


def _completed(kernel: SampledKernel, code_objects: Mapping[int, CodeObject]) -> SampledKernel:
    from rocm_perf_lab.toolchain.listing import list_kernel

    ids = {one.code_object for one in kernel.instructions if one.address is not None}
    if len(ids) != 1 or (number := ids.pop()) is None or number not in code_objects:
        return kernel
    code_object = code_objects[number]
    own = _kernel_at(code_object, kernel)
    if own is None:
        return kernel
    listing = list_kernel(code_object, own, with_source=True)
    sampled = {one.address: one for one in kernel.instructions}
    listed = {line.address for line in listing.instructions}
    rest = [one for address, one in sampled.items() if address not in listed]  # of functions that the kernel calls
    lines = [*rest, *_instructions(listing, sampled, number)]
    return replace(kernel, name=kernel.name or own.symbol, instructions=in_code_order(lines))


def _kernel_at(code_object: CodeObject, kernel: SampledKernel) -> KernelMetadata | None:
    """Return the kernel with most of the samples, by address."""
    counts: dict[str, int] = {}
    for one in kernel.instructions:
        for own in code_object.kernels:
            if one.address is not None and own.entry_address <= one.address < own.entry_address + own.code_bytes:
                counts[own.symbol] = counts.get(own.symbol, 0) + one.samples
    if not counts:
        return None
    symbol = max(counts, key=lambda name: (counts[name], name))
    return next(own for own in code_object.kernels if own.symbol == symbol)


def _instructions(
    listing: Listing, sampled: Mapping[int | None, SampledInstruction], code_object: int
) -> list[SampledInstruction]:
    found = []
    for line in listing.instructions:
        source = f"{line.source.file}:{line.source.line}" if line.source else ""
        one = sampled.get(line.address)
        if one is None:
            found.append(SampledInstruction(_unlabelled(line), source, code_object, line.address, 0))
        else:
            found.append(replace(one, text=one.text or _unlabelled(line), source=one.source or source))
    return found


def _unlabelled(line: ListedInstruction) -> str:
    """Return the text with the distance of a branch instead of its label, as rocprofv3 writes it."""
    mnemonic = line.text.split(maxsplit=1)[0] if line.text.strip() else ""
    if line.target is None or not mnemonic.startswith(("s_branch", "s_cbranch")):
        return line.text
    return f"{mnemonic} {(line.target - line.address - _WORD) // _WORD % _DISTANCE_WRAP}"
