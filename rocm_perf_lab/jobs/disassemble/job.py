"""`rocm-perf disassemble`: list the instructions of a code object, optionally with source lines and measured numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rocm_perf_lab.core.files import require_existing
from rocm_perf_lab.jobs.disassemble.counts import read_count_table
from rocm_perf_lab.target.catalog import load_target, target_aliases, target_names
from rocm_perf_lab.target.occupancy import occupancy
from rocm_perf_lab.toolchain.kernel_file import choose_kernel, read_kernel_file
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from rocm_perf_lab.toolchain.listing import Listing, list_kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console

    from rocm_perf_lab.jobs.disassemble.counts import CountTable
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata
    from rocm_perf_lab.toolchain.listing import ListedInstruction
    from rocm_perf_lab.toolchain.source_lines import SourceLine

_LARGEST_SOURCE_BYTES = 16 << 20
_TEXT_COLUMN = 44
_LEAST_PADDING = 4


@dataclass(frozen=True)
class DisassembleRequest:
    """Arguments and options of `rocm-perf disassemble`."""

    file: Path
    kernel: str | None = None
    with_source: bool = False
    counts: Path | None = None
    architecture: str | None = None
    """Architecture to select in a bundle. Default: gfx942 if present, else another one in the file."""
    list_only: bool = False
    """Whether to list the kernels without their instructions."""


@dataclass(frozen=True)
class CountedListing:
    """Listing of one kernel, with the numbers of its instructions, if available."""

    listing: Listing
    counts: CountTable | None
    elsewhere: int
    """Executions of instructions outside the listing, in functions that the kernel calls."""


def run_disassemble(request: DisassembleRequest, console: Console, *, as_json: bool) -> None:
    """Print one kernel, or all kernels of the file, or their names.

    Raises:
        LabError: The file or the counts cannot be read, the kernel does not exist, or the processor is not supported.
    """
    require_existing(request.file, "the code object")
    if request.architecture is None:
        code_objects = read_kernel_file(request.file, or_another=True)
    else:
        code_objects = read_kernel_file(request.file, architecture=request.architecture)
    counts = None
    if request.counts is not None:
        counts = read_count_table(request.counts, code_objects, request.kernel)
    wanted = _wanted(code_objects, request.kernel, counts)
    target = _target_of(wanted[0][0].architecture)
    listings = _listings(wanted, counts, request)
    if as_json:
        print(_document(list(listings), target, request), end="")
        return
    if request.list_only:
        for code_object, kernel in wanted:
            console.print(Text(_kernel_line(code_object, kernel)), soft_wrap=True)
        return
    sources = _Sources(request.file.parent)
    for number, (code_object, counted) in enumerate(listings):
        if number:
            console.print()
        for line in _lines(code_object, counted, target, sources):
            console.print(Text(line), soft_wrap=True)


def _listings(
    wanted: Iterable[tuple[CodeObject, KernelMetadata]], counts: CountTable | None, request: DisassembleRequest
) -> Iterator[tuple[CodeObject, CountedListing]]:
    """Yield the listings one by one, because a library may contain millions of instructions."""
    for code_object, kernel in wanted:
        instructions = () if request.list_only else list_kernel(code_object, kernel, with_source=request.with_source).instructions
        yield code_object, _counted(Listing(kernel, instructions), counts)


def _kernel_line(code_object: CodeObject, kernel: KernelMetadata) -> str:
    """Return a kernel in one line: code size, registers, LDS, and its name; the symbol if it differs."""
    vgprs = kernel.vgpr_count - kernel.agpr_count
    registers = f"{vgprs:3} VGPR {kernel.agpr_count:3} AGPR {kernel.sgpr_count:3} SGPR"
    name = kernel.name if kernel.symbol == kernel.name else f"{kernel.name}  [{kernel.symbol}]"
    return f"{code_object.target_id}  {kernel.code_bytes:7,} B  {registers}  {kernel.lds_bytes:6,} B LDS  {name}"


def _wanted(
    code_objects: Sequence[CodeObject], name: str | None, counts: CountTable | None
) -> list[tuple[CodeObject, KernelMetadata]]:
    """Return the named or the counted kernel, else all kernels."""
    name = name or (counts.symbol if counts is not None else None)
    if name is not None:
        return [choose_kernel(code_objects, name)]
    every = [(code_object, kernel) for code_object in code_objects for kernel in code_object.kernels]
    return every or [choose_kernel(code_objects, None)]  # raises, because the file has no kernel


def _counted(listing: Listing, counts: CountTable | None) -> CountedListing:
    if counts is None:
        return CountedListing(listing, None, 0)
    listed = {instruction.address for instruction in listing.instructions}
    return CountedListing(listing, counts, sum(n for address, n in counts.executions.items() if address not in listed))


def _target_of(architecture: str) -> Target | None:
    """Return a known GPU of the architecture, to compute the occupancy."""
    usual = target_aliases().get(architecture)
    known = map(load_target, target_names() if usual is None else (usual,))
    return next((target for target in known if target.architecture == architecture), None)


def _lines(code_object: CodeObject, counted: CountedListing, target: Target | None, sources: _Sources) -> Iterator[str]:
    kernel = counted.listing.kernel
    yield from _header(code_object, kernel, target)
    counts = counted.counts
    if counts is not None:
        yield f";{'  '.join(counts.titles)[1:]}  address  instruction"
        if counted.elsewhere:
            yield f"; {counted.elsewhere:,} executions were in functions that the kernel calls"
    last: SourceLine | None = None
    for run in _runs(counted):
        instruction = run[0]
        if instruction.label is not None:
            yield f"{instruction.label}:"
        if instruction.source is not None and instruction.source != last:
            last = instruction.source
            yield f"; {last.file}:{last.line}{sources.text(last)}"
        shown = run if len(run) < _LEAST_PADDING else run[:1]
        for one in shown:
            yield (counts.line(one.address) if counts is not None else "") + _instruction_text(one)
        if len(shown) < len(run):
            yield f"; {len(run) - 1} more of the same"


def _runs(counted: CountedListing) -> Iterator[list[ListedInstruction]]:
    """Group consecutive equal instructions, which compilers use as padding; a label starts a new group."""
    counts = counted.counts
    run: list[ListedInstruction] = []
    for instruction in counted.listing.instructions:
        first = run[0] if run else None
        is_same = (
            first is not None
            and instruction.label is None
            and (instruction.encoding, instruction.source) == (first.encoding, first.source)
            and (counts is None or counts.rows.get(instruction.address) == counts.rows.get(first.address))
        )
        if run and not is_same:
            yield run
            run = []
        run.append(instruction)
    if run:
        yield run


def _header(code_object: CodeObject, kernel: KernelMetadata, target: Target | None) -> Iterator[str]:
    yield f"; {kernel.name}"
    if kernel.symbol != kernel.name:
        yield f"; symbol     {kernel.symbol}"
    yield f"; processor  {code_object.target_id}, {kernel.code_bytes:,} bytes of code, entry {kernel.entry_address:#x}"
    vgprs = kernel.vgpr_count - kernel.agpr_count
    yield f"; registers  {vgprs} VGPR, {kernel.agpr_count} AGPR, {kernel.sgpr_count} SGPR"
    if kernel.vgpr_spill_count or kernel.sgpr_spill_count:
        yield f"; spilled    {kernel.vgpr_spill_count} VGPR, {kernel.sgpr_spill_count} SGPR"
    yield f"; memory     {kernel.lds_bytes:,} B LDS, {kernel.scratch_bytes:,} B scratch, {kernel.kernarg_bytes:,} B arguments"
    if target is not None:
        reached = occupancy(target, occupancy_request(kernel))
        yield (
            f"; occupancy  {reached.waves_per_simd:g} of {reached.max_waves_per_simd} waves per SIMD, "
            f"limited by {reached.limiter} ({target.name})"
        )


def _instruction_text(instruction: ListedInstruction) -> str:
    words = " ".join(_words(instruction.encoding))
    return f"{instruction.address:7x}  {instruction.text:<{_TEXT_COLUMN}} ; {words}"


def _words(encoding: bytes) -> list[str]:
    """Return the dwords as LLVM prints them."""
    return [f"{int.from_bytes(encoding[start : start + 4], 'little'):08X}" for start in range(0, len(encoding), 4)]


class _Sources:
    """Source files named by the debug information, if they still exist."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[str, list[str]] = {}

    def text(self, line: SourceLine) -> str:
        """Return the indented text of the line; empty if the file cannot be read."""
        if line.file not in self._files:
            self._files[line.file] = self._read(line.file)
        lines = self._files[line.file]
        return f"  {lines[line.line - 1].strip()}" if 0 < line.line <= len(lines) else ""

    def _read(self, name: str) -> list[str]:
        try:
            found = next((p for p in (self._directory / name, Path(name)) if p.is_file()), None)
            if found is None or found.stat().st_size > _LARGEST_SOURCE_BYTES:
                return []
            return found.read_text(errors="replace").splitlines()
        except (OSError, ValueError):  # ValueError: a NUL in the name
            return []


def _document(listings: Sequence[tuple[CodeObject, CountedListing]], target: Target | None, request: DisassembleRequest) -> str:
    document = {
        "schema_version": "1.0",
        "kernels": [_kernel_row(code_object, counted, target) for code_object, counted in listings],
        "provenance": {
            "code_object": str(request.file),
            "counts": str(request.counts) if request.counts is not None else None,
            "occupancy_target": target.name if target is not None else None,
        },
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _kernel_row(code_object: CodeObject, counted: CountedListing, target: Target | None) -> dict[str, Any]:
    kernel = counted.listing.kernel
    reached = occupancy(target, occupancy_request(kernel)) if target is not None else None
    return {
        "name": kernel.name,
        "symbol": kernel.symbol,
        "target_id": code_object.target_id,
        "code_object_sha256": code_object.sha256,
        "entry_address": kernel.entry_address,
        "code_bytes": kernel.code_bytes,
        "vgpr": kernel.vgpr_count - kernel.agpr_count,
        "agpr": kernel.agpr_count,
        "sgpr": kernel.sgpr_count,
        "lds_bytes": kernel.lds_bytes,
        "scratch_bytes": kernel.scratch_bytes,
        "kernarg_bytes": kernel.kernarg_bytes,
        "waves_per_simd": reached.waves_per_simd if reached is not None else None,
        "occupancy_limiter": reached.limiter if reached is not None else None,
        "executions_elsewhere": counted.elsewhere if counted.counts is not None and counted.counts.executions else None,
        "instructions": [_instruction_row(i, counted.counts) for i in counted.listing.instructions],
    }


def _instruction_row(instruction: ListedInstruction, counts: CountTable | None) -> dict[str, Any]:
    source = instruction.source
    return {
        "address": instruction.address,
        "encoding": _words(instruction.encoding),
        "text": instruction.text,
        "label": instruction.label,
        "target": instruction.target,
        "source": {"file": source.file, "line": source.line} if source is not None else None,
        **(counts.values(instruction.address) if counts is not None else {"executions": None, "active_lanes": None}),
    }
