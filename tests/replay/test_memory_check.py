"""Memory comparison: bytes, types, tolerances, NaN, and bytes that the kernel does not determine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.replay.check import MemoryCheck, MemoryState, Tolerances, differing_addresses, element_types
from rocm_perf_lab.replay.reader import open_capture
from tests.builders.captures import scale_capture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.replay.capture import Capture

N = 1500
"""Floats of an output: one page and a half."""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return open_capture(scale_capture(tmp_path_factory.mktemp("check") / "c", n=N, types={"@8": "f32"}))


def state(capture: Capture, changes: Mapping[int, float]) -> MemoryState:
    """Return the captured result with some floats of the output changed."""
    numbers, rows = MemoryState.captured(capture).pages[capture.regions[1].base]
    content = rows.copy()
    floats = content.reshape(-1).view(np.float32)
    for index, value in changes.items():
        floats[index] = value
    return MemoryState({capture.regions[1].base: (numbers, content)})


def wrong(capture: Capture, changes: Mapping[int, float], tolerances: Tolerances) -> list[str]:
    check = MemoryCheck(capture, MemoryState.captured(capture), tolerances)
    return [str(mismatch) for mismatch in check.mismatches(state(capture, changes))]


def test_the_captured_result_is_correct(capture: Capture) -> None:
    assert wrong(capture, {}, Tolerances()) == []


def test_one_changed_bit_is_found_byte_for_byte(capture: Capture) -> None:
    base = capture.regions[1].base

    (mismatch,) = wrong(capture, {1: np.nextafter(np.float32(3), np.float32(4))}, Tolerances())

    assert mismatch == f"region {base:#x}: 1 bytes differ, first at {base + 4:#x}: 0x01 instead of 0x00"


def test_errors_beyond_the_tolerance_are_reported_with_the_largest_one(capture: Capture) -> None:
    tolerances = Tolerances(rtol=1e-3)

    assert wrong(capture, {1: 3.002, 1400: 4201.0}, tolerances) == []
    (mismatch,) = wrong(capture, {1: 3.5, 1400: 4300.0}, tolerances)
    assert "2 elements (f32) differ" in mismatch
    assert "3.5 instead of 3, largest error 100" in mismatch


@pytest.mark.parametrize(
    ("policy", "value", "right"),
    [("equal", np.nan, False), ("exact", 3.0, True), ("forbid", np.nan, False), ("equal", np.inf, False)],
)
def test_nan_is_never_equal_to_a_number(policy: str, value: float, right: bool, capture: Capture) -> None:
    tolerances = Tolerances(rtol=1e-3, nan=policy)  # type: ignore[arg-type]

    assert (wrong(capture, {1: value}, tolerances) == []) == right


def test_nan_policies_differ_where_nan_is_expected(capture: Capture) -> None:
    one, other = np.array([0x7FC00000, 0x7FC00001], dtype=np.uint32).view(np.float32)
    expected, actual = state(capture, {7: one}), state(capture, {7: other})

    def found(policy: str, got: MemoryState) -> int:
        return len(MemoryCheck(capture, expected, Tolerances(rtol=1e-3, nan=policy)).mismatches(got))  # type: ignore[arg-type]

    assert [found("equal", actual), found("exact", actual), found("forbid", actual)] == [0, 1, 1]
    assert [found("exact", expected), found("forbid", expected)] == [0, 1]


def test_bytes_that_differ_between_two_baselines_are_ignored(capture: Capture) -> None:
    one, two = state(capture, {3: 1.0}), state(capture, {3: 2.0})
    indeterminate = differing_addresses(capture, one, two)
    check = MemoryCheck(capture, MemoryState.captured(capture), Tolerances(), indeterminate)
    base = capture.regions[1].base

    assert set(indeterminate.tolist()) <= set(range(base + 12, base + 16))
    assert len(indeterminate)
    assert check.mismatches(state(capture, {4: 1.0})) != []


def test_types_come_from_the_capture_the_caller_or_the_kernel_name(capture: Capture) -> None:
    assert element_types(capture) == {8: "f32"}
    renamed = capture.dispatch.kernel.model_copy(update={"mangled_name": "_Z5scalePKfPdfi"})
    dispatch = capture.dispatch.model_copy(update={"kernel": renamed, "argument_types": {}})

    from dataclasses import replace

    described = replace(capture, dispatch=dispatch)
    described.__dict__["kernel"] = capture.kernel
    assert element_types(described) == {0: "f32", 8: "f64"}


def test_memory_that_the_kernel_should_not_write_is_compared(capture: Capture) -> None:
    x = capture.regions[0]
    page = capture.image(x)[:4096].copy()
    page[100] ^= 1
    numbers, rows = MemoryState.captured(capture).pages[capture.regions[1].base]
    touched = MemoryState({x.base: (np.array([0]), page.reshape(1, -1)), capture.regions[1].base: (numbers, rows)})

    (mismatch,) = MemoryCheck(capture, MemoryState.captured(capture), Tolerances()).mismatches(touched)

    assert (mismatch.base, mismatch.first, mismatch.elements) == (x.base, x.base + 100, 1)
