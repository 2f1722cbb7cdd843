"""In-memory form of a capture: documents, code object, kernel arguments and the bytes of every region.

:func:`rocm_perf_lab.replay.reader.open_capture` returns a :class:`Capture`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.replay.errors import CaptureError
from rocm_perf_lab.replay.format import PAGE_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.replay.format import DispatchDocument, Manifest, MemoryDocument, Region
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata


class RegionContents(Protocol):
    """Source of the bytes of captured regions."""

    def image(self, region: Region) -> NDArray[np.uint8]:
        """Return the content of a region before the dispatch, shape (size,), read-only."""
        ...

    def after_pages(self, region: Region) -> NDArray[np.uint8]:
        """Return the pages that the dispatch changed, shape (pages * 4096,), read-only; empty if no page changed."""
        ...


@dataclass(frozen=True)
class Capture:
    """One captured dispatch. `has_after` is False if the memory after the dispatch was not captured."""

    directory: Path
    dispatch: DispatchDocument
    memory: MemoryDocument
    manifest: Manifest | None
    kernarg: bytes
    hsaco: bytes
    variables: bytes
    after_variables: bytes | None
    contents: RegionContents
    has_after: bool = True
    layout: str = "rocm-perf-lab"

    @cached_property
    def code_object(self) -> CodeObject:
        """The captured code object.

        Raises:
            CodeObjectError: The code object is damaged.
        """
        from rocm_perf_lab.toolchain.elf import read_code_object
        from rocm_perf_lab.toolchain.target_id import parse_target_id

        code_object = read_code_object(self.hsaco)
        recorded = parse_target_id(self.dispatch.agents[self.dispatch.agent].isa.rpartition("--")[2])
        return code_object.for_processor(recorded.processor)

    @cached_property
    def kernel(self) -> KernelMetadata:
        """The captured kernel, found by its exact symbol.

        Raises:
            CaptureError: The code object does not contain the kernel.
        """
        wanted = self.dispatch.kernel.mangled_name
        for kernel in self.code_object.kernels:
            if kernel.symbol == wanted:
                return kernel
        raise CaptureError(
            f"the captured code object has no kernel {wanted!r}",
            where=str(self.directory),
            hint=f"It has {', '.join(kernel.symbol for kernel in self.code_object.kernels) or 'none'}; capture again.",
        )

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions whose content was captured."""
        return tuple(region for region in self.memory.regions if region.file is not None)

    @property
    def total_bytes(self) -> int:
        """Bytes of all captured regions."""
        return sum(region.size for region in self.regions)

    @property
    def emulated(self) -> bool:
        """Return whether an emulated GPU ran the captured dispatch."""
        return self.manifest is not None and self.manifest.provenance.emulated

    def image(self, region: Region) -> NDArray[np.uint8]:
        """Return the content of a region before the dispatch, shape (size,), read-only."""
        return self.contents.image(region)

    def expected(self, region: Region) -> NDArray[np.uint8]:
        """Return the content of a region after the dispatch, shape (size,); the image itself if no page changed."""
        image = self.image(region)
        if region.after is None:
            return image
        after = image.copy()
        pages, place = self.contents.after_pages(region), 0
        for first, count in region.after.runs:
            content = pages[place : place + count * PAGE_BYTES]
            after[first * PAGE_BYTES : (first + count) * PAGE_BYTES] = content
            place += count * PAGE_BYTES
        return after
