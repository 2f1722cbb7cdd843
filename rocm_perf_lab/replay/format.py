"""The JSON documents of a capture directory, as pydantic models: `dispatch.json`, `memory_regions.json`, `manifest.json`.

`native/FORMAT.md` specifies the format; these models reject every deviation. Addresses and handles are integers here and
hexadecimal strings in the files, because some JSON readers lose bits above 2^53.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from rocm_perf_lab.core.models import write_schema

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = "rocm-perf-lab-capture"
FORMAT_VERSION: Final = 1
PACKED_VERSION: Final = 2
"""Version of manifests of packed captures."""
PAGE_BYTES: Final = 4096

DISPATCH_NAME = "dispatch.json"
MEMORY_NAME = "memory_regions.json"
MANIFEST_NAME = "manifest.json"
KERNARG_NAME = "kernarg.bin"
CODE_OBJECT_NAME = "kernel.hsaco"
VARIABLES_NAME = "variables.bin"
AFTER_VARIABLES_NAME = "after/variables.bin"

_LAST_ADDRESS = 1 << 64
_UNIT_IDENTIFIER = "__hip_cuid_"
_HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,16}")


def _parse_address(value: object) -> object:
    if isinstance(value, str):
        if not _HEXADECIMAL.fullmatch(value):
            raise ValueError('an address is "0x" and at most 16 lower-case hexadecimal digits')
        return int(value, 16)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError('an address must be a string "0x…"')


Address = Annotated[
    int,
    BeforeValidator(_parse_address, json_schema_input_type=str),
    PlainSerializer(lambda value: f"{value:#x}", return_type=str),
    Field(ge=0, lt=_LAST_ADDRESS),
]
Count = Annotated[int, Field(ge=0, lt=_LAST_ADDRESS, strict=True)]
Triple = tuple[Count, Count, Count]
CaptureMode = Literal["reachable", "full", "arguments"]
"""Captured memory: reachable from the kernel arguments, all, or only that to which the arguments point directly."""


class CaptureModel(BaseModel):
    """Part of a document; unknown keys are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FileEntry(CaptureModel):
    """Size and SHA-256 of one file."""

    size: Count
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class CaptureProvenance(CaptureModel):
    """Writer of the directory. `emulated`: an emulated GPU ran the dispatch, according to the writer."""

    writer: str
    version: str
    created: str
    emulated: bool


class PackedEntry(FileEntry):
    """File whose pages are in packs: size and SHA-256 of the unpacked file, and name of its page map."""

    pages: str


class Manifest(CaptureModel):
    """`manifest.json`, written last: a directory without it is incomplete.

    `files` are the files of the directory, `packed` those whose pages are in `packs`.
    """

    format: Literal["rocm-perf-lab-capture"] = FORMAT
    format_version: Literal[1, 2] = FORMAT_VERSION
    files: dict[str, FileEntry]
    packed: dict[str, PackedEntry] = {}
    packs: tuple[str, ...] = ()
    provenance: CaptureProvenance

    @model_validator(mode="after")
    def _names_each_file_once(self) -> Self:
        if self.format_version == FORMAT_VERSION and (self.packed or self.packs):
            raise ValueError(f"captures of version {FORMAT_VERSION} are not packed")
        stored = [*(entry.pages for entry in self.packed.values()), *self.packs]
        if len(set(stored)) < len(stored):
            raise ValueError("a page map or pack is listed twice")
        for name in stored:
            if name not in self.files:
                raise ValueError(f"{name!r} is not among the files")
        for name in self.packed.keys() & self.files.keys():
            raise ValueError(f"{name!r} is both packed and a file")
        for name, entry in self.packed.items():
            if entry.size % PAGE_BYTES or self.files[entry.pages].size * PAGE_BYTES != entry.size * 8:
                raise ValueError(f"the number of pages in the page map of {name!r} is wrong")
        return self

    @property
    def contents(self) -> dict[str, FileEntry]:
        """Files of the capture in unpacked form."""
        stored = {*(entry.pages for entry in self.packed.values()), *self.packs}
        return {name: entry for name, entry in self.files.items() if name not in stored} | self.packed


class CapturedAllocation(CaptureModel):
    """One allocation, as requested by the application."""

    base: Address
    size: Count


class AfterPages(CaptureModel):
    """Pages of a region that differ after the dispatch: `runs` of (first page, pages), ascending, packed in `file`."""

    file: str
    runs: tuple[tuple[Count, Count], ...]

    @property
    def pages(self) -> int:
        """Number of changed pages."""
        return sum(count for _, count in self.runs)


class Region(CaptureModel):
    """One range of device memory, in whole pages."""

    base: Address
    size: Count
    requested: tuple[CapturedAllocation, ...] = ()
    kind: Literal["pool", "region", "vmem", "ipc", "locked", "interop", "svm"] = "pool"
    location: Literal["gpu", "cpu"] = "gpu"
    agent: Count = 0
    pool_flags: Count = 0
    access_agents: tuple[Count, ...] = ()
    reached_from: tuple[str, ...] = ()
    contains_kernarg: bool = False
    file: str | None = None
    zero_pages: Count = 0
    after: AfterPages | None = None
    error: str | None = None

    @property
    def end(self) -> int:
        """First address after the region."""
        return self.base + self.size

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.base % PAGE_BYTES or self.size % PAGE_BYTES or not self.size or not self.base:
            raise ValueError(f"region {self.base:#x} of {self.size} bytes does not consist of whole pages of {PAGE_BYTES}")
        if self.end > _LAST_ADDRESS:
            raise ValueError(f"region {self.base:#x} ends beyond the address space")
        if (self.file is None) == (self.error is None):
            raise ValueError(f"region {self.base:#x} needs either a file or an error")
        if self.file is not None and self.file != region_file(self.base):
            raise ValueError(f"the file of region {self.base:#x} must be {region_file(self.base)!r}, not {self.file!r}")
        for block in self.requested:
            if block.base < self.base or block.base + block.size > self.end:
                raise ValueError(f"allocation {block.base:#x} is outside region {self.base:#x}")
        self._check_after()
        return self

    def _check_after(self) -> None:
        if self.after is None:
            return
        if self.after.file != after_file(self.base):
            raise ValueError(f"the changed pages of region {self.base:#x} must be in {after_file(self.base)!r}")
        ends = [0]
        for first, count in self.after.runs:
            if count < 1 or first < ends[-1] or (first + count) * PAGE_BYTES > self.size:
                raise ValueError(f"the changed pages of region {self.base:#x} overlap or are outside the region")
            ends.append(first + count)


class MemoryDocument(CaptureModel):
    """`memory_regions.json`."""

    format_version: Literal[1] = FORMAT_VERSION
    page_size: Literal[4096] = PAGE_BYTES
    mode: CaptureMode
    regions: tuple[Region, ...]

    @model_validator(mode="after")
    def _does_not_overlap(self) -> Self:
        for lower, upper in pairwise(self.regions):
            if upper.base < lower.end:
                raise ValueError(f"regions {lower.base:#x} and {upper.base:#x} overlap or are not in order")
        return self

    def region_at(self, address: int) -> Region | None:
        """Return the region that contains an address, or None."""
        return next((region for region in self.regions if region.base <= address < region.end), None)


class CapturedKernel(CaptureModel):
    """Kernel, with the static sizes from its code object in bytes."""

    symbol: str
    mangled_name: str
    name: str
    kernel_object: Address
    kernarg_size: Count
    group_segment_size: Count
    private_segment_size: Count


class CapturedPacket(CaptureModel):
    """AQL kernel dispatch packet; `grid_size` counts work-items."""

    header: Annotated[int, Field(ge=0, le=0xFFFF)]
    setup: Annotated[int, Field(ge=0, le=0xFFFF)]
    workgroup_size: Triple
    grid_size: Triple
    private_segment_size: Count
    group_segment_size: Count
    kernarg_address: Address
    completion_signal: Address

    @model_validator(mode="after")
    def _fits_the_packet(self) -> Self:
        if min(self.workgroup_size) < 1 or max(self.workgroup_size) > 0xFFFF:
            raise ValueError(f"workgroup size {self.workgroup_size} does not fit an AQL packet")
        if min(self.grid_size) < 1 or max(self.grid_size) > 0xFFFF_FFFF:
            raise ValueError(f"grid size {self.grid_size} does not fit an AQL packet")
        if max(self.private_segment_size, self.group_segment_size) > 0xFFFF_FFFF:
            raise ValueError("a segment size does not fit an AQL packet")
        return self


class DispatchIndex(CaptureModel):
    """Position of the dispatch among those of its kernel and of the process, both from 0."""

    kernel: Count
    process: Count


class CapturedQueue(CaptureModel):
    """Queue to which the packet was submitted; `cu_mask` has 32 compute units per word; empty for all."""

    id: Count
    type: Count
    size: Count
    agent: Count
    cu_mask: tuple[Annotated[int, Field(ge=0, le=0xFFFF_FFFF)], ...] = ()


class CapturedKernarg(CaptureModel):
    """Memory of the kernarg segment."""

    location: Literal["gpu", "cpu"]
    pool_flags: Count = 0


class CapturedAgent(CaptureModel):
    """One agent of the captured process."""

    type: Literal["cpu", "gpu"]
    name: str
    product: str = ""
    isa: str = ""
    node: Count = 0
    uuid: str = ""
    bdf: Count = 0
    chip_id: Count = 0
    compute_units: Count = 0
    wavefront_size: Count = 0


class CapturedCodeObject(CaptureModel):
    """`kernel.hsaco` and its load address."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    load_base: Address
    load_size: Count
    load_delta: Address


class CapturedVariable(CaptureModel):
    """Module variable; its bytes are at `offset` of variables.bin."""

    name: str
    address: Address
    size: Count
    offset: Count


class CodePointer(CaptureModel):
    """Address and value of one pointer into code."""

    address: Address
    value: Address


class CodePointers(CaptureModel):
    """64-bit words in kernarg and regions that point into code. Valid only if code is loaded at the captured address."""

    count: Count = 0
    places: tuple[CodePointer, ...] = ()


class DispatchTiming(CaptureModel):
    """Start and end of the captured dispatch in ticks of the system clock; `frequency` is in ticks per second."""

    start: Count
    end: Count
    frequency: Annotated[int, Field(gt=0)]

    @property
    def duration_us(self) -> float:
        """Duration of the captured dispatch in microseconds."""
        return (self.end - self.start) * 1e6 / self.frequency


class CapturedRuntime(CaptureModel):
    """HSA runtime of the captured process."""

    version: str = ""
    path: str = ""
    build_id: str = ""


class CapturedEnvironment(CaptureModel):
    """Captured process. If `command_redacted`, the arguments in `command` are omitted."""

    variables: dict[str, str] = {}
    runtime: CapturedRuntime = CapturedRuntime()
    pid: Count = 0
    command: tuple[str, ...] | None = None
    command_redacted: bool = False


class DispatchDocument(CaptureModel):
    """`dispatch.json`."""

    format_version: Literal[1] = FORMAT_VERSION
    kernel: CapturedKernel
    packet: CapturedPacket
    kernarg: CapturedKernarg | None = None
    index: DispatchIndex
    queue: CapturedQueue
    agent: Count
    agents: tuple[CapturedAgent, ...]
    code_object: CapturedCodeObject
    variables: tuple[CapturedVariable, ...] = ()
    argument_types: dict[str, str] = {}
    code_pointers: CodePointers = CodePointers()
    timing: DispatchTiming | None = None
    warnings: tuple[str, ...] = ()
    environment: CapturedEnvironment = CapturedEnvironment()

    @model_validator(mode="after")
    def _names_existing_agents(self) -> Self:
        for number in (self.agent, self.queue.agent):
            if number >= len(self.agents):
                raise ValueError(f"agent {number} is not among the {len(self.agents)} agents")
        if self.agents[self.agent].type != "gpu":
            raise ValueError(f"agent {self.agent}, which ran the dispatch, is not a GPU")
        return self

    @property
    def described_variables(self) -> tuple[CapturedVariable, ...]:
        """Variables declared in the source, without the identifier that the compiler adds to each unit."""
        return tuple(variable for variable in self.variables if not variable.name.startswith(_UNIT_IDENTIFIER))

    @property
    def gpu(self) -> CapturedAgent:
        """Agent that ran the dispatch."""
        return self.agents[self.agent]


DOCUMENTS: dict[str, type[CaptureModel]] = {
    DISPATCH_NAME: DispatchDocument,
    MEMORY_NAME: MemoryDocument,
    MANIFEST_NAME: Manifest,
}
"""Models by file name."""


def region_file(base: int) -> str:
    """Return the name of the file with the bytes of a region."""
    return f"memory/region_{base:x}.bin"


def after_file(base: int) -> str:
    """Return the name of the file with the changed pages of a region."""
    return f"after/region_{base:x}.bin"


def parsed_json(content: bytes) -> Any:
    """Parse JSON and check that its strings are valid text.

    Raises:
        ValueError: The content is not JSON, or a string contains a lone surrogate.
        RecursionError: The document is nested too deeply.
    """
    plain = json.loads(content)
    if b"\\u" in content:
        json.dumps(plain, ensure_ascii=False).encode()
    return plain


def document_text(document: CaptureModel) -> str:
    """Return a document as stored in the capture directory."""
    return json.dumps(document.model_dump(mode="json"), indent=2) + "\n"


def export_schemas(directory: Path) -> tuple[Path, ...]:
    """Write the JSON Schemas of a capture's documents, `capture_<document>.schema.json`."""
    named = {f"capture_{name}": model for name, model in DOCUMENTS.items()}
    return tuple(
        write_schema(directory / name.replace(".json", ".schema.json"), model, "validation") for name, model in named.items()
    )
