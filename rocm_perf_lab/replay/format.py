"""The JSON documents of a capture directory, as pydantic models: `dispatch.json`, `memory_regions.json`, `manifest.json`.

`native/FORMAT.md` is the contract; these models refuse whatever deviates from it. Addresses and handles are integers here and
hexadecimal strings in the files, because other readers of JSON lose bits above 2^53.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = "rocm-perf-lab-capture"
FORMAT_VERSION: Final = 1
PAGE_BYTES: Final = 4096

DISPATCH_NAME = "dispatch.json"
MEMORY_NAME = "memory_regions.json"
MANIFEST_NAME = "manifest.json"
KERNARG_NAME = "kernarg.bin"
CODE_OBJECT_NAME = "kernel.hsaco"
VARIABLES_NAME = "variables.bin"
AFTER_VARIABLES_NAME = "after/variables.bin"

_LAST_ADDRESS = 1 << 64
_HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,16}")


def _parse_address(value: object) -> object:
    if isinstance(value, str):
        if not _HEXADECIMAL.fullmatch(value):
            raise ValueError('an address is written "0x…", lower case, at most 16 digits')
        return int(value, 16)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError('an address is a string "0x…"')


Address = Annotated[
    int,
    BeforeValidator(_parse_address, json_schema_input_type=str),
    PlainSerializer(lambda value: f"{value:#x}", return_type=str),
    Field(ge=0, lt=_LAST_ADDRESS),
]
Count = Annotated[int, Field(ge=0, lt=_LAST_ADDRESS, strict=True)]
Triple = tuple[Count, Count, Count]
CaptureMode = Literal["reachable", "full", "arguments"]
"""Captured memory: reachable from the kernel arguments, all, or only what the arguments point to directly."""


class CaptureModel(BaseModel):
    """A part of a document; a key that the format does not have is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FileEntry(CaptureModel):
    """Size and SHA-256 of one file."""

    size: Count
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class CaptureProvenance(CaptureModel):
    """Who wrote the directory. `emulated`: no real GPU ran the dispatch, as far as the writer knows."""

    writer: str
    version: str
    created: str
    emulated: bool


class Manifest(CaptureModel):
    """`manifest.json`, written last: a directory without it is incomplete."""

    format: Literal["rocm-perf-lab-capture"] = FORMAT
    format_version: Literal[1] = FORMAT_VERSION
    files: dict[str, FileEntry]
    provenance: CaptureProvenance


class CapturedAllocation(CaptureModel):
    """One allocation as the application asked for it."""

    base: Address
    size: Count


class AfterPages(CaptureModel):
    """Pages of a region that differ after the dispatch: `runs` of (first page, pages), ascending, packed in `file`."""

    file: str
    runs: tuple[tuple[Count, Count], ...]

    @property
    def pages(self) -> int:
        """How many pages there are."""
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
        """First address behind it."""
        return self.base + self.size

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.base % PAGE_BYTES or self.size % PAGE_BYTES or not self.size or not self.base:
            raise ValueError(f"region {self.base:#x} of {self.size} bytes is not whole pages of {PAGE_BYTES}")
        if self.end > _LAST_ADDRESS:
            raise ValueError(f"region {self.base:#x} ends beyond the address space")
        if (self.file is None) == (self.error is None):
            raise ValueError(f"region {self.base:#x} needs either a file or an error")
        if self.file is not None and self.file != region_file(self.base):
            raise ValueError(f"the file of region {self.base:#x} is {region_file(self.base)!r}, not {self.file!r}")
        for block in self.requested:
            if block.base < self.base or block.base + block.size > self.end:
                raise ValueError(f"allocation {block.base:#x} lies outside of region {self.base:#x}")
        self._check_after()
        return self

    def _check_after(self) -> None:
        if self.after is None:
            return
        if self.after.file != after_file(self.base):
            raise ValueError(f"the changed pages of region {self.base:#x} are in {after_file(self.base)!r}")
        ends = [0]
        for first, count in self.after.runs:
            if count < 1 or first < ends[-1] or (first + count) * PAGE_BYTES > self.size:
                raise ValueError(f"the changed pages of region {self.base:#x} overlap or lie outside of it")
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
        """The region that holds an address."""
        return next((region for region in self.regions if region.base <= address < region.end), None)


class CapturedKernel(CaptureModel):
    """The kernel, and the static sizes of its code object."""

    symbol: str
    mangled_name: str
    name: str
    kernel_object: Address
    kernarg_size: Count
    group_segment_size: Count
    private_segment_size: Count


class CapturedPacket(CaptureModel):
    """The AQL kernel dispatch packet; `grid_size` counts work-items."""

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
    """Which dispatch it was, of its kernel and of the process, both from 0."""

    kernel: Count
    process: Count


class CapturedQueue(CaptureModel):
    """The queue that the packet was in."""

    id: Count
    type: Count
    size: Count
    agent: Count


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
    """`kernel.hsaco`, and where the loader had put it."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    load_base: Address
    load_size: Count
    load_delta: Address


class CapturedVariable(CaptureModel):
    """A module variable; its bytes are at `offset` of variables.bin."""

    name: str
    address: Address
    size: Count
    offset: Count


class CodePointer(CaptureModel):
    """Where such a word was, and what it was."""

    address: Address
    value: Address


class CodePointers(CaptureModel):
    """Words in kernarg and regions that pointed into code: they do not survive where code cannot be loaded at its old address."""

    count: Count = 0
    places: tuple[CodePointer, ...] = ()


class DispatchTiming(CaptureModel):
    """Ticks of the system clock of the captured dispatch, and ticks per second."""

    start: Count
    end: Count
    frequency: Annotated[int, Field(gt=0)]

    @property
    def duration_us(self) -> float:
        """Of the captured dispatch."""
        return (self.end - self.start) * 1e6 / self.frequency


class CapturedRuntime(CaptureModel):
    """The HSA runtime of the captured process."""

    version: str = ""
    path: str = ""
    build_id: str = ""


class CapturedEnvironment(CaptureModel):
    """What the captured process was. `command` is null where it was not to be kept."""

    variables: dict[str, str] = {}
    runtime: CapturedRuntime = CapturedRuntime()
    pid: Count = 0
    command: tuple[str, ...] | None = None


class DispatchDocument(CaptureModel):
    """`dispatch.json`."""

    format_version: Literal[1] = FORMAT_VERSION
    kernel: CapturedKernel
    packet: CapturedPacket
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
    def gpu(self) -> CapturedAgent:
        """The agent that ran the dispatch."""
        return self.agents[self.agent]


DOCUMENTS: dict[str, type[CaptureModel]] = {
    DISPATCH_NAME: DispatchDocument,
    MEMORY_NAME: MemoryDocument,
    MANIFEST_NAME: Manifest,
}
"""File name -> model."""


def region_file(base: int) -> str:
    """Where the bytes of a region are."""
    return f"memory/region_{base:x}.bin"


def after_file(base: int) -> str:
    """Where the changed pages of a region are."""
    return f"after/region_{base:x}.bin"


def parsed_json(content: bytes) -> Any:
    """JSON whose strings are text.

    Raises:
        ValueError: No JSON, or a string has half of a surrogate pair, which nothing can print.
        RecursionError: Nested too deeply.
    """
    plain = json.loads(content)
    if b"\\u" in content:
        json.dumps(plain, ensure_ascii=False).encode()
    return plain


def document_text(document: CaptureModel) -> str:
    """As the files have it."""
    return json.dumps(document.model_dump(mode="json"), indent=2) + "\n"


def export_schemas(directory: Path) -> tuple[Path, ...]:
    """Write the JSON Schemas of a capture's documents, `capture_<document>.schema.json`, and `replay.schema.json`."""
    from rocm_perf_lab.replay.report import ReplayDocument

    named: dict[str, type[BaseModel]] = {f"capture_{name}": model for name, model in DOCUMENTS.items()}
    paths = []
    named["replay.json"] = ReplayDocument
    for name, model in named.items():
        schema: dict[str, Any] = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **model.model_json_schema(mode="validation"),
        }
        path = directory / name.replace(".json", ".schema.json")
        write_text(path, json.dumps(schema, indent=2, sort_keys=True) + "\n")
        paths.append(path)
    return tuple(paths)
