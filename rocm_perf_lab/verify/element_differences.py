"""Elements of large buffers that differ between a rewrite and the unmodified kernel: `element_differences(...)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.emulator.memory import PAGE_BYTES
from rocm_perf_lab.languages.spec import Tolerance
from rocm_perf_lab.verify.outputs import default_tolerance
from rocm_perf_lab.verify.rounding import UNIT_ROUNDOFF, growth_of_equal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.verify.recorded_shape import RecordedShape
    from rocm_perf_lab.verify.sparse_pages import ChangedBytes, Place
    from rocm_perf_lab.verify.sparse_run import SparseSession

_TOLERANCE_FACTOR = 4
"""Factor of the tolerance; wrong indices lead to much larger differences."""
_REORDERED = 8.0
"""Allowed error of a reordered sum in typical errors; one wrong summand of a million causes a larger difference."""


@dataclass(frozen=True)
class ElementDifference:
    """Element with different values after the rewrite and the unmodified kernel, and which of them wrote it."""

    buffer: str
    element: int
    shape: tuple[int, ...]
    size: int
    by_baseline: bool
    by_rewrite: bool
    got: Any
    want: Any

    @property
    def by_both(self) -> bool:
        """True if both kernels wrote the element."""
        return self.by_baseline and self.by_rewrite

    @property
    def place(self) -> tuple[Place, int]:
        """Buffer and page, and the offset in the page in bytes."""
        page, byte = divmod(self.element * self.size, PAGE_BYTES)
        return (self.buffer, page), byte

    @property
    def label(self) -> str:
        """Buffer and index of the element."""
        index = ", ".join(str(int(i)) for i in np.unravel_index(self.element, self.shape))
        return f"{self.buffer}[{index}]"

    def __str__(self) -> str:
        return f"{self.label}: {float(self.got):.9g} instead of {float(self.want):.9g}"


def element_differences(
    description: KernelDescription, recorded: RecordedShape, session: SparseSession
) -> list[ElementDifference]:
    """Return the first different element of each page and type of difference, by page."""
    ours = session.written_pages()
    found: list[ElementDifference] = []
    for place in sorted({*recorded.written, *ours}):
        left, expected = session.final.page(place), recorded.final.page(place)
        if np.array_equal(left, expected):
            continue
        buffer = recorded.launch.buffers[place[0]]
        size = buffer.dtype.itemsize
        got, want = left.view(buffer.dtype), expected.view(buffer.dtype)
        by_baseline, by_rewrite, owed = (
            _changed_elements(changes.get(place), size) for changes in (recorded.written, ours, recorded.owed)
        )
        close = _close(got, want, _tolerance(description, recorded, place[0], want, by_baseline))
        wrong = ~close & (by_baseline | by_rewrite)
        kinds = {
            (True, True): by_baseline & by_rewrite,
            (True, False): owed & ~by_rewrite,
            (False, True): by_rewrite & ~by_baseline,
        }
        for kind, elements in kinds.items():
            of_kind = np.flatnonzero(wrong & elements)
            if of_kind.size:
                first = int(of_kind[0])
                element = place[1] * (PAGE_BYTES // size) + first
                found.append(ElementDifference(place[0], element, buffer.shape, size, *kind, got[first], want[first]))
    return found


def _tolerance(
    description: KernelDescription, recorded: RecordedShape, name: str, values: NDArray[Any], written: NDArray[np.bool_]
) -> Tolerance:
    """Return the tolerance of a page: reordered sums of long rows differ more than those of the described shape."""
    given = description.tolerance.get(name) or default_tolerance(values)
    reordered = 0.0
    terms = max((max(b.shape) for b in recorded.launch.buffers.values() if b.argument.access == "in"), default=1)
    if (given.rtol or given.atol) and values.dtype.kind not in "biu" and recorded.is_reducing(name):
        known = np.abs(values[written].astype(np.float64))
        known = known[np.isfinite(known)]
        size = float(np.sqrt(np.mean(np.square(known)))) if known.size else 0.0
        reordered = _REORDERED * UNIT_ROUNDOFF * float(growth_of_equal(terms)) * size
    return Tolerance(rtol=given.rtol * _TOLERANCE_FACTOR, atol=given.atol * _TOLERANCE_FACTOR + reordered, note=given.note)


def _changed_elements(changed: ChangedBytes | None, size: int) -> NDArray[np.bool_]:
    """Return a mask of the elements of a page, of `size` bytes each, that have a changed byte."""
    if changed is None:
        return np.zeros(PAGE_BYTES // size, np.bool_)
    elements: NDArray[np.bool_] = changed.mask.view(np.dtype(f"u{size}")) != 0
    return elements


def _close(got: NDArray[Any], want: NDArray[Any], tolerance: Tolerance) -> NDArray[np.bool_]:
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
        near = np.abs(a - b) <= tolerance.atol + tolerance.rtol * np.abs(b)
        exact: NDArray[np.bool_] = (got == want) | (np.isnan(a) & np.isnan(b))
    return exact | near if want.dtype.kind not in "biu" else got == want
