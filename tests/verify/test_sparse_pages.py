"""Changed bytes of pages and the final content of pages, against whole arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.emulator.memory import PAGE_BYTES
from rocm_perf_lab.languages.arguments import ArangeInit, BufferArgument
from rocm_perf_lab.verify.sparse_pages import ChangedBytes, FinalPages, PageContents, SparseBuffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

OFFSETS = st.sets(st.integers(0, PAGE_BYTES - 1), min_size=1, max_size=40)


def mask(offsets: set[int]) -> NDArray[np.bool_]:
    """Return the mask of some offsets in a page."""
    found = np.zeros(PAGE_BYTES, np.bool_)
    found[list(offsets)] = True
    return found


@pytest.fixture
def contents() -> PageContents:
    """Pages of one buffer of the bytes 0, 1, 2, ... as unsigned integers of 32 bits."""
    argument = BufferArgument(name="y", dtype="u32", shape=("n",), init=ArangeInit())
    return PageContents({"y": SparseBuffer(argument, (1 << 20,), 1 << 22)}, {}, seed=1)


@given(OFFSETS, OFFSETS)
def test_sets_of_bytes_are_their_masks(one: set[int], other: set[int]) -> None:
    first, second = ChangedBytes.of(mask(one)), ChangedBytes.of(mask(other))

    assert (first.mask == mask(one)).all()
    assert (first.first, first.last) == (min(one), max(one))
    assert (first.with_all(second).mask == mask(one | other)).all()
    assert first.meets(second) == bool(one & other)
    assert first.has_any(100, 200) == any(100 <= offset < 200 for offset in one)


@given(st.lists(OFFSETS, min_size=1, max_size=4))
def test_later_changes_of_a_page_replace_earlier_ones(changes: list[set[int]]) -> None:
    argument = BufferArgument(name="y", dtype="u32", shape=("n",), init=ArangeInit())
    pages = FinalPages(PageContents({"y": SparseBuffer(argument, (1 << 20,), 1 << 22)}, {}, seed=1))
    expected = pages.page(("y", 3)).copy()

    for number, offsets in enumerate(changes):
        content = np.full(PAGE_BYTES, 200 + number, np.uint8)
        expected[list(offsets)] = 200 + number
        pages.add(("y", 3), ChangedBytes.of(mask(offsets)), content)

    assert (pages.page(("y", 3)) == expected).all()


def test_a_copy_does_not_change_with_the_original(contents: PageContents) -> None:
    pages = FinalPages(contents)
    kept = pages.copy()

    pages.add(("y", 0), ChangedBytes.of(mask({5})), np.full(PAGE_BYTES, 9, np.uint8))

    assert pages.page(("y", 0))[5] == 9
    assert kept.page(("y", 0))[5] == 0  # second byte of the integer 1
