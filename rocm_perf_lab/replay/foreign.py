"""Reader of capture directories of kerncap and of the original rocm-perf-lab prototype.

Both have a flat dispatch.json and a memory_regions.json whose regions are (base, size), neither aligned nor disjoint; kerncap
adds metadata.json and module_variables.json. Neither stores checksums or the memory after the dispatch, so that these captures
can be replayed, but not compared with the captured result.

Accepted irregularities: decimal and "0x…" addresses; a trailing comma in the list of regions, which the prototype writes after a
region that it could not copy; regions without a file; a reservation and its mapping at one address (the file size selects one);
kernel names with ".kd"; module variables of other code objects (the hash in metadata.json selects).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rocm_perf_lab.replay.capture import Capture
from rocm_perf_lab.replay.directory import CaptureDirectory
from rocm_perf_lab.replay.errors import CaptureError
from rocm_perf_lab.replay.format import (
    CODE_OBJECT_NAME,
    DISPATCH_NAME,
    KERNARG_NAME,
    MANIFEST_NAME,
    MEMORY_NAME,
    PAGE_BYTES,
    CapturedAgent,
    CapturedAllocation,
    CapturedCodeObject,
    CapturedKernel,
    CapturedPacket,
    CapturedQueue,
    CapturedVariable,
    Count,
    DispatchDocument,
    DispatchIndex,
    MemoryDocument,
    Region,
    parsed_json,
    region_file,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_HEADER = 2 | 1 << 8 | 2 << 9 | 2 << 11
"""Kernel dispatch, barrier bit, acquire and release at system scope; neither tool stores the header."""
_LARGEST_DOCUMENT = 1 << 28
_METADATA_NAME, _VARIABLES_NAME = "metadata.json", "module_variables.json"
_CAPTURE_AGAIN = "Copy the directory again, or capture again with rocm-perf replay capture."
_PROTOTYPE = "original rocm-perf-lab"


_LAST_ADDRESS = 1 << 64


def _number(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}", value):
        return int(value, 16 if value[:2] in ("0x", "0X") else 10)
    return value


_Number = Annotated[int, BeforeValidator(_number), Field(ge=0, lt=_LAST_ADDRESS, strict=True)]


class _Foreign(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Dispatch(_Foreign):
    mangled_name: str
    demangled_name: str = ""
    kernel_object: _Number = 0
    isa_name: str = ""
    agent_name: str = ""
    wavefront_size: Count = 64
    grid: Annotated[tuple[Count, ...], Field(min_length=1, max_length=3)]
    block: Annotated[tuple[Count, ...], Field(min_length=1, max_length=3)]
    group_segment_size: Count = 0
    private_segment_size: Count = 0
    kernarg_size: Count = 0
    dispatch_index: int = 0


class _Range(_Foreign):
    base: _Number
    size: _Number
    is_vmem: bool = False
    contains_kernarg: bool = False


class _Ranges(_Foreign):
    regions: tuple[_Range, ...]


class _Variable(_Foreign):
    name: str
    size: Count
    blob: str
    executable_sha256: str = ""


class _Variables(_Foreign):
    variables: tuple[_Variable, ...] = ()


class _Metadata(_Foreign):
    hsaco_sha256: str = ""


def is_foreign_capture(path: Path) -> bool:
    """Return whether a directory has no manifest and a flat dispatch.json."""
    directory = CaptureDirectory(path)
    if not path.is_dir() or directory.exists(MANIFEST_NAME) or not directory.exists(DISPATCH_NAME):
        return False
    try:
        plain = json.loads(directory.content(DISPATCH_NAME, _LARGEST_DOCUMENT))
    except (CaptureError, ValueError, RecursionError):
        return False
    return isinstance(plain, dict) and "mangled_name" in plain and "format_version" not in plain


def open_foreign_capture(path: Path) -> Capture:
    """Open a capture of kerncap or of the prototype.

    Raises:
        CaptureError: A file is missing, truncated or invalid.
    """
    try:
        return _opened(path)
    except ValidationError as error:
        reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise CaptureError(f"this capture is inconsistent: {reason}", where=str(path), hint=_CAPTURE_AGAIN) from error


def _opened(path: Path) -> Capture:
    directory = CaptureDirectory(path)
    dispatch = _read(directory, DISPATCH_NAME, _Dispatch)
    ranges = sorted(_read(directory, MEMORY_NAME, _Ranges).regions, key=lambda r: r.base)
    is_kerncap = directory.exists(_METADATA_NAME)
    hsaco, kernarg = directory.content(CODE_OBJECT_NAME), directory.content(KERNARG_NAME)
    variables, variable_bytes = _variables(directory)
    present, warnings = _present(directory, ranges)
    groups = _pages(present)
    document = _dispatch_document(directory, dispatch, hsaco, kernarg, variables)
    if is_kerncap:
        warnings.append("kerncap copies memory after the dispatch: a kernel that modifies its inputs starts from modified ones")
    return Capture(
        directory=path,
        dispatch=document.model_copy(update={"warnings": tuple(warnings)}),
        memory=MemoryDocument(mode="full", regions=tuple(_region(group) for group in groups)),
        manifest=None,
        kernarg=kernarg[: document.kernel.kernarg_size],
        hsaco=hsaco,
        variables=variable_bytes,
        after_variables=None,
        contents=_ForeignContents(directory, {group[0].base // PAGE_BYTES * PAGE_BYTES: tuple(group) for group in groups}),
        has_after=False,
        layout="kerncap" if is_kerncap else _PROTOTYPE,
    )


@dataclass(frozen=True)
class _ForeignContents:
    """File contents at their offsets in whole pages; gaps are zero."""

    directory: CaptureDirectory
    groups: dict[int, tuple[_Range, ...]]

    def image(self, region: Region) -> NDArray[np.uint8]:
        image = np.zeros(region.size, dtype=np.uint8)
        for piece in self.groups[region.base]:
            start = piece.base - region.base
            image[start : start + piece.size] = self.directory.view(region_file(piece.base))
        return image

    def after_pages(self, region: Region) -> NDArray[np.uint8]:
        return np.zeros(0, dtype=np.uint8)


def _read(directory: CaptureDirectory, name: str, model: type[Any]) -> Any:
    try:
        return model.model_validate(_parsed(directory.content(name, _LARGEST_DOCUMENT)))
    except (ValidationError, ValueError, RecursionError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        key = ".".join(map(str, error.errors()[0]["loc"])) if isinstance(error, ValidationError) else ""
        raise CaptureError(
            f"{name} does not have the format of kerncap or the original rocm-perf-lab{f', at {key}' if key else ''}: {reason}",
            where=str(directory.path),
            hint=_CAPTURE_AGAIN,
        ) from error


def _parsed(content: bytes) -> Any:
    try:
        return parsed_json(content)
    except ValueError:
        without = re.sub(rb"\}\s*,(\s*\]\s*\})\s*$", rb"}\1", content)  # trailing comma
        if without == content:
            raise
        return parsed_json(without)


def _present(directory: CaptureDirectory, ranges: Sequence[_Range]) -> tuple[list[_Range], list[str]]:
    """Return the ranges with complete files, and warnings about ranges without a file."""
    present, warnings = [], []
    for base, same in groupby((piece for piece in ranges if piece.size), key=lambda piece: piece.base):
        pieces, name = list(same), region_file(base)
        if not directory.exists(name):
            warnings.append(f"region {base:#x} of {pieces[0].size:,} bytes has no file and was not copied")
            continue
        size = directory.size(name)
        fitting = [piece for piece in pieces if piece.size == size]
        if not fitting:
            raise CaptureError(
                f"{name} has {size:,} bytes, but {pieces[0].size:,} were captured", where=str(directory.path), hint=_CAPTURE_AGAIN
            )
        present.append(fitting[0])
    return present, warnings


def _pages(ranges: Sequence[_Range]) -> list[list[_Range]]:
    """Group ranges that share a page."""
    groups: list[list[_Range]] = []
    end = 0
    for piece in ranges:
        if groups and piece.base // PAGE_BYTES * PAGE_BYTES < end:
            groups[-1].append(piece)
        else:
            groups.append([piece])
        end = max(end, _page_end(piece.base + piece.size))
    return groups


def _page_end(address: int) -> int:
    return -(-address // PAGE_BYTES) * PAGE_BYTES


def _region(group: Sequence[_Range]) -> Region:
    base = group[0].base // PAGE_BYTES * PAGE_BYTES
    end = max(_page_end(piece.base + piece.size) for piece in group)
    return Region(
        base=base,
        size=end - base,
        requested=tuple(CapturedAllocation(base=piece.base, size=piece.size) for piece in group),
        kind="vmem" if any(piece.is_vmem for piece in group) else "pool",
        contains_kernarg=any(piece.contains_kernarg for piece in group),
        file=region_file(base),
    )


def _variables(directory: CaptureDirectory) -> tuple[tuple[CapturedVariable, ...], bytes]:
    if not directory.exists(_VARIABLES_NAME):
        return (), b""
    captured = _read(directory, _METADATA_NAME, _Metadata).hsaco_sha256 if directory.exists(_METADATA_NAME) else ""
    content, variables = b"", []
    for variable in _read(directory, _VARIABLES_NAME, _Variables).variables:
        if captured and variable.executable_sha256 not in ("", captured):
            continue
        blob = directory.content(variable.blob)
        if len(blob) != variable.size:
            raise CaptureError(
                f"{variable.blob} has {len(blob):,} bytes, but {variable.size:,} were captured", where=str(directory.path)
            )
        variables.append(CapturedVariable(name=variable.name, address=0, size=variable.size, offset=len(content)))
        content += blob
    return tuple(variables), content


def _dispatch_document(
    directory: CaptureDirectory, dispatch: _Dispatch, hsaco: bytes, kernarg: bytes, variables: tuple[CapturedVariable, ...]
) -> DispatchDocument:
    """Build the dispatch document; fields that the tools do not store are read from the code object."""
    from rocm_perf_lab.toolchain.elf import read_code_object

    code_object = read_code_object(hsaco)
    name = dispatch.mangled_name.removesuffix(".kd")
    kernel = next((k for k in code_object.kernels if k.symbol == name), None)
    if kernel is None:
        known = ", ".join(k.symbol for k in code_object.kernels)
        raise CaptureError(f"the captured code object has no kernel {name!r}", where=str(directory.path), hint=f"It has {known}.")
    size = kernel.kernarg_bytes or dispatch.kernarg_size
    if len(kernarg) < size:
        raise CaptureError(f"{KERNARG_NAME} has {len(kernarg):,} bytes, the kernel needs {size:,}", where=str(directory.path))
    isa = dispatch.isa_name or f"amdgcn-amd-amdhsa--{code_object.target_id}"
    gpu = CapturedAgent(
        type="gpu", name=dispatch.agent_name or code_object.architecture, isa=isa, wavefront_size=dispatch.wavefront_size
    )
    return DispatchDocument(
        kernel=CapturedKernel(
            symbol=f"{name}.kd",
            mangled_name=name,
            name=(dispatch.demangled_name or kernel.name).removesuffix(" [clone .kd]"),
            kernel_object=dispatch.kernel_object,
            kernarg_size=size,
            group_segment_size=kernel.lds_bytes,
            private_segment_size=kernel.scratch_bytes,
        ),
        packet=_packet(dispatch),
        index=DispatchIndex(kernel=max(dispatch.dispatch_index, 0), process=0),
        queue=CapturedQueue(id=0, type=0, size=0, agent=0),
        agent=0,
        agents=(gpu,),
        code_object=CapturedCodeObject(sha256=code_object.sha256, load_base=0, load_size=0, load_delta=0),
        variables=variables,
    )


def _packet(dispatch: _Dispatch) -> CapturedPacket:
    """Build the packet. The address of the kernarg segment is chosen at replay."""
    gx, gy, gz = (*dispatch.grid, 1, 1)[:3]
    bx, by, bz = (*dispatch.block, 1, 1)[:3]
    return CapturedPacket(
        header=_HEADER,
        setup=3 if gz > 1 or bz > 1 else 2 if gy > 1 or by > 1 else 1,
        workgroup_size=(bx, by, bz),
        grid_size=(gx, gy, gz),
        private_segment_size=dispatch.private_segment_size,
        group_segment_size=dispatch.group_segment_size,
        kernarg_address=0,
        completion_signal=0,
    )
