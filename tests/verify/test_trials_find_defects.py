"""Wrong kernels, each wrong for a class of shapes or inputs only: some trial must expose each of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.builders.wrong_kernels import KERNELS, correctness, written

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.verify.checker import CorrectnessChecker


EDITS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    # Sizes that are no multiple of a vector or tile.
    "only multiples of 2": ("scale", (("if (i < n)", "if (i < n / 2 * 2)"),)),
    "only multiples of 4": ("scale", (("if (i < n)", "if (i < (n & ~3))"),)),
    "only multiples of 8": ("scale", (("if (i < n)", "if (i < (n & ~7))"),)),
    "only multiples of 64": ("scale", (("if (i < n)", "if (i < (n & ~63))"),)),
    "a tail of at most one element": ("scale", (("if (i < n)", "if (i < n / 4 * 4 || (i == n - 1 && n % 4 == 1))"),)),
    "a tail of at most two elements": ("scale", (("if (i < n)", "if (i < n / 4 * 4 + (n % 4 < 2 ? n % 4 : 2))"),)),
    "no tail of 63 elements": ("scale", (("if (i < n)", "if (i < n - (n % 64 == 63))"),)),
    "no single element": ("scale", (("if (i < n)", "if (i < n && n > 1)"),)),
    "last wavefront is skipped if it is partial": ("scale", (("if (i < n)", "if (i < n && (i | 63) < n)"),)),
    "last workgroup is skipped if it is full": ("scale", (("if (i < n)", "if (i < n && !(n % 256 == 0 && i >= n - 256))"),)),
    # Limits.
    "more than 8,192 elements": ("scale", (("if (i < n)", "if (i < n && i < 8192)"),)),
    "fixed size": ("scale", (("if (i < n)", "if (i < n && i < 5000)"),)),
    "1,024 columns": ("row_sums", (("i < cols;", "i < (cols < 1024 ? cols : 1024);"),)),
    "4,096 columns": ("row_sums", (("i < cols;", "i < (cols < 4096 ? cols : 4096);"),)),
    "fixed trip count": ("row_sums", (("i < cols;", "i < 1024 && i < cols;"),)),
    "an odd limit": ("row_sums", (("i < cols;", "i < (cols < 1600 ? cols : 1600);"),)),
    "64 rows": ("row_sums", (("blockIdx.x * cols + i]", "(blockIdx.x % 64) * cols + i]"),)),
    "rows as in the description": ("row_sums", (("y[blockIdx.x] =", "if (blockIdx.x < 16) y[blockIdx.x] ="),)),
    "rows beyond 100": ("row_sums", (("y[blockIdx.x] =", "y[blockIdx.x] = blockIdx.x >= 100 ? 0.0f :"),)),
    # Barriers and LDS.
    "no barrier if a row is short": ("row_sums", (("__syncthreads();\n  for", "if (cols > 256) __syncthreads();\n  for"),)),
    "no barrier if a row is long": ("row_sums", (("__syncthreads();\n  for", "if (cols <= 256) __syncthreads();\n  for"),)),
    "stale LDS beyond the row": (
        "row_sums",
        (("part[threadIdx.x] = sum;", "if (threadIdx.x < cols) part[threadIdx.x] = sum;"),),
    ),
    # Inputs.
    "largest element is not negative": ("row_max", (("-INFINITY", "0.0f"),)),
    "largest element is above -100": ("row_max", (("-INFINITY", "-100.0f"),)),
    "last element is ignored if the row is long": ("row_max", (("i < cols;", "i < cols - (cols > 300);"),)),
    "first element is ignored": ("row_max", (("int i = threadIdx.x;", "int i = threadIdx.x + (threadIdx.x == 0 && cols > 1);"),)),
    "subnormal results are flushed": (
        "row_max",
        (("y[blockIdx.x] = part[0]", "y[blockIdx.x] = fabsf(part[0]) < 1e-38f ? 0.0f : part[0]"),),
    ),
    "large inputs saturate": ("scale", (("3.0f * x[i]", "fminf(3.0f * x[i], 500.0f)"),)),
    "small inputs vanish": ("scale", (("3.0f * x[i]", "fabsf(x[i]) < 1e-7f ? 0.0f : 3.0f * x[i]"),)),
    # Addresses.
    "idle below the addresses of a GPU": ("scale", (("if (i < n)", "if (i < n && ((size_t)x >> 40) >= 0x7e)"),)),
    "idle at the addresses of a GPU": ("scale", (("if (i < n)", "if (i < n && ((size_t)x >> 44) != 7)"),)),
}  # fmt: skip


QUICK = {
    "idle below the addresses of a GPU",
    "only multiples of 4",
    "a tail of at most one element",
    "1,024 columns",
    "64 rows",
    "largest element is not negative",
}
"""The others are slow tests."""


@pytest.fixture(scope="module")
def checkers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, CorrectnessChecker]:
    """One checker per kernel, which has recorded it."""
    return {name: correctness(kernel.description(tmp_path_factory.mktemp(name))) for name, kernel in KERNELS.items()}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.corpus) for n in EDITS])
def test_a_defect_is_exposed_by_some_trial(name: str, checkers: Mapping[str, CorrectnessChecker], tmp_path: Path) -> None:
    kernel, edits = EDITS[name]
    text = KERNELS[kernel].text
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)

    result = checkers[kernel].check(written(tmp_path, text))

    assert not result.passed
    assert result.failed is not None
    reason = result.gate or str(result.verification)
    assert re.search(r"; seed \d+\]", reason), "the reason names the trial"
    assert "\n" not in reason


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_unmodified_kernel_passes(kernel: str, checkers: Mapping[str, CorrectnessChecker]) -> None:
    checker = checkers[kernel]

    result = checker.check(checker.description.source_path)

    assert result.passed
    assert len(result.trials) > 100
