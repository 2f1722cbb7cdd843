"""Wrong and right rewrites of shipped kernels, written after the rules of the trials were fixed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.languages.description import KernelDescription
from tests.builders.wrong_kernels import correctness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.verify.checker import CorrectnessChecker

pytestmark = pytest.mark.corpus
Edits = tuple[tuple[str, str], ...]

SIZES = {
    "transpose": {"rows": 256, "cols": 256},
    "layernorm": {"rows": 64, "cols": 1024},
    "gemm_naive": {"m": 64, "n": 64, "k": 64},
    "histogram": {"n": 65536},
    "softmax": {"rows": 64, "cols": 1024},
}

WRONG: dict[tuple[str, str], Edits] = {
    ("transpose", "square only"): (("output[(size_t)(y + step) * rows + x]", "output[(size_t)(y + step) * cols + x]"),),
    ("transpose", "a row of 33"): (
        ("x < rows && y + step < cols", "x < rows && y + step < cols && !(rows % 64 == 33 && x == rows - 1)"),
    ),
    ("transpose", "more than 512 columns"): (("(y + step) * cols + x]", "((y + step) * cols + (x & 511))]"),),
    ("transpose", "full tiles only"): (("if (x < rows && y + step < cols)", "if (x < rows / 8 * 8 && y + step < cols)"),),
    ("layernorm", "mean of the described size"): (
        ("block_sum(sum, partial) / cols", "block_sum(sum, partial) / (cols < 2048 ? cols : 2048)"),
    ),
    ("layernorm", "variance by squares"): (
        ("squares += (row_in[i] - mean) * (row_in[i] - mean);", "squares += row_in[i] * row_in[i] - mean * mean;"),
    ),
    ("layernorm", "epsilon is a constant"): (("+ epsilon)", "+ 1.0e-5f)"),),
    ("layernorm", "gamma of the first tile"): (("* gamma[i]", "* gamma[i & 2047]"),),
    ("layernorm", "one element is left out"): (
        (
            "for (int i = threadIdx.x; i < cols; i += BLOCK) {\n    squares",
            "for (int i = threadIdx.x; i < cols - (cols % 16 == 11); i += BLOCK) {\n    squares",
        ),
    ),
    ("gemm_naive", "last product of an odd k"): (("i < k; ++i", "i < (k > 100 ? k / 2 * 2 : k); ++i"),),
    ("gemm_naive", "steps of 16"): (("i < k; ++i", "i < k / 16 * 16 + (k % 16 > 13 ? 13 : k % 16); ++i"),),
    ("gemm_naive", "m up to 1000"): (("row >= m", "row >= m || row >= 1000"),),
    ("gemm_naive", "negative products"): (
        ("+= a[row * k + i] * b[i * n + col]", "+= fabsf(a[row * k + i]) < 2e-6f ? 0.0f : a[row * k + i] * b[i * n + col]"),
    ),
    ("gemm_naive", "half precision"): (
        ("+= a[row * k + i] * b[i * n + col]", "+= (float)((_Float16)a[row * k + i] * (_Float16)b[i * n + col])"),
    ),
    ("histogram", "one count is lost"): (("i < n; i", "i < n - (n % 64 == 1 && n > 64); i"),),
    ("histogram", "at most two strides"): (("i < n; i", "i < n && i < 4 * stride; i"),),
    ("histogram", "highest value"): (
        ("atomicAdd(&local[values[i] % BINS], 1u)", "if (values[i] != 65535u) atomicAdd(&local[values[i] % BINS], 1u)"),
    ),
    ("histogram", "previous counts are lost"): (
        ("atomicAdd(&bins[b], local[b])", "if (local[b]) atomicAdd(&bins[b], local[b]); else bins[b] = 0"),
    ),
    ("softmax", "no maximum"): (("largest = partial[0];", "largest = 0.0f;"),),
    ("softmax", "maximum of 64"): (
        (
            "for (int i = lane; i < cols; i += BLOCK) {\n    largest",
            "for (int i = lane; i < cols && i < 64; i += BLOCK) {\n    largest",
        ),
    ),
    ("softmax", "more than 16 per thread"): (("sum += expf", "if (i < 16 * BLOCK) sum += expf"),),
    ("softmax", "rows in two dispatches"): (
        ("float largest = -INFINITY;", "if (blockIdx.x >= 2048) return;\n  float largest = -INFINITY;"),
    ),
    ("softmax", "first guess of the maximum"): (("float largest = -INFINITY;", "float largest = -50.0f;"),),
}

RIGHT: dict[tuple[str, str], Edits] = {
    ("transpose", "padded tile"): (("tile[TILE][TILE]", "tile[TILE][TILE + 1]"),),
    ("layernorm", "reciprocal root"): (
        ("float deviation = sqrtf(", "float scale = rsqrtf("),
        ("/ deviation * gamma", "* scale * gamma"),
    ),
    ("layernorm", "product with the inverse size"): (
        ("block_sum(sum, partial) / cols", "block_sum(sum, partial) * (1.0f / cols)"),
        ("block_sum(squares, partial) / cols", "block_sum(squares, partial) * (1.0f / cols)"),
    ),
    ("gemm_naive", "sum in a register"): (
        ("  c[row * n + col] = 0.0f;\n", "  float sum = 0.0f;\n"),
        ("    c[row * n + col] +=", "    sum +="),
        ("  }\n}", "  }\n  c[row * n + col] = sum;\n}"),
    ),
    ("gemm_naive", "two sums"): (
        ("  c[row * n + col] = 0.0f;\n", "  float sum = 0.0f, other = 0.0f;\n"),
        ("    c[row * n + col] +=", "    (i % 2 ? sum : other) +="),
        ("  }\n}", "  }\n  c[row * n + col] = sum + other;\n}"),
    ),
    ("histogram", "empty bins are skipped"): (("atomicAdd(&bins[b], local[b])", "if (local[b]) atomicAdd(&bins[b], local[b])"),),
    ("softmax", "product with the reciprocal"): (("/ sum;", "* (1.0f / sum);"),),
}


def _path(directory: Path, kernel: str, edits: Edits) -> Path:
    text = (resource_dir("experiments") / kernel / f"{kernel}.hip").read_text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = directory / f"{kernel}.hip"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def checker() -> Callable[[str], CorrectnessChecker]:
    """Return the checker of an experiment, which has recorded it."""
    known: dict[str, CorrectnessChecker] = {}

    def of(kernel: str) -> CorrectnessChecker:
        if kernel not in known:
            directory = resource_dir("experiments") / kernel
            data = yaml.safe_load((directory / "kernel.yaml").read_text())
            data["params"] |= SIZES[kernel]
            known[kernel] = correctness(KernelDescription.model_validate({**data, "directory": directory}), seed=11)
        return known[kernel]

    return of


@pytest.mark.parametrize(("kernel", "name"), WRONG)
def test_a_wrong_rewrite_is_rejected(
    kernel: str, name: str, checker: Callable[[str], CorrectnessChecker], tmp_path: Path
) -> None:
    result = checker(kernel).check(_path(tmp_path, kernel, WRONG[kernel, name]))

    assert not result.passed
    assert re.search(r"; seed \d+\]", result.gate or str(result.verification))


@pytest.mark.parametrize(("kernel", "name"), RIGHT)
def test_a_right_rewrite_passes(kernel: str, name: str, checker: Callable[[str], CorrectnessChecker], tmp_path: Path) -> None:
    result = checker(kernel).check(_path(tmp_path, kernel, RIGHT[kernel, name]))

    assert result.gate is None
    assert result.verification.passed, str(result.verification)


def test_the_shipped_rewrite_of_softmax_passes(checker: Callable[[str], CorrectnessChecker]) -> None:
    result = checker("softmax").check(resource_dir("experiments") / "softmax" / "softmax_registers.hip")

    assert result.gate is None
    assert result.verification.passed, str(result.verification)
