"""Wrong kernels that show only if several sizes fit tiles at once, or if whole windows have one special value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.languages.description import KernelDescription
from tests.builders.wrong_kernels import correctness, written

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.verify.checker import CorrectnessChecker

CROSS = """extern "C" __global__ void kernel(const float* x, float* y, int rows, int cols) {
  const int c0 = blockIdx.x * 16, r0 = blockIdx.y * 16, c = c0 + threadIdx.x, r = r0 + threadIdx.y;
  if (r >= rows || c >= cols) return;
  const float* at = x + ((size_t)blockIdx.z * rows + r) * cols + c;
  float sum = at[0];
  if (BORDER) {
    if (r > 0) sum += at[-cols];
    if (r < rows - 1) sum += at[cols];
    if (c > 0) sum += at[-1];
    if (c < cols - 1) sum += at[1];
  } else {
    sum += at[-cols] + at[cols] + at[-1] + at[1];
  }
  y[((size_t)blockIdx.z * rows + r) * cols + c] = sum;
}
"""
LINE = """extern "C" __global__ void kernel(const float* x, float* y, int n) {
  const int i0 = blockIdx.x * 256, i = i0 + threadIdx.x;
  float sum = 0.0f;
  if (i >= n) return;
  for (int d = -3; d <= 3; ++d) sum += BORDER ? (i + d >= 0 && i + d < n ? x[i + d] : 0.0f) : x[i + d];
  y[i] = sum;
}
"""
WINDOW = """extern "C" __global__ void kernel(const float* x, float* y, int* at, int rows, int cols) {
  const int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r >= rows - 1 || c >= cols - 1) return;
  float best = FIRST;
  int place = PLACE;
  for (int k = 0; k < 4; ++k) {
    const float value = x[(size_t)(r + k / 2) * cols + c + k % 2];
    if (value > best || isnan(value)) {
      best = value;
      place = (r + k / 2) * cols + c + k % 2;
    }
  }
  y[(size_t)r * (cols - 1) + c] = best;
  at[(size_t)r * (cols - 1) + c] = place;
}
"""
REFERENCES = """import numpy as np

def cross(x, **_):
    p = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    return x + p[:, :-2, 1:-1] + p[:, 2:, 1:-1] + p[:, 1:-1, :-2] + p[:, 1:-1, 2:]

def line(x, **_):
    p = np.pad(x, 3)
    return sum(p[i : i + len(x)] for i in range(7))

def window(x, cols, **_):
    best = np.full((x.shape[0] - 1, x.shape[1] - 1), -np.inf)
    place = np.arange(x.shape[0] - 1)[:, None] * cols + np.arange(x.shape[1] - 1)
    first = place
    for k in range(4):
        value = x[k // 2 : x.shape[0] - 1 + k // 2, k % 2 : x.shape[1] - 1 + k % 2]
        taken = (value > best) | np.isnan(value)
        best, place = np.where(taken, value, best), np.where(taken, first + k // 2 * cols + k % 2, place)
    return {"y": best, "at": place.astype(np.int32)}
"""
GUARDED = "c0 == 0 || r0 == 0 || c0 + 16 >= cols || r0 + 16 >= rows"
KERNELS: dict[str, tuple[str, dict[str, str], dict[str, int], list[str], list[str], list[str], list[int]]] = {
    "cross": (CROSS, {"BORDER": GUARDED}, {"slices": 3, "rows": 20, "cols": 24}, ["slices", "rows", "cols"], ["y"],
              ["ceil_div(cols, 16)", "ceil_div(rows, 16)", "slices"], [16, 16]),
    "line": (LINE, {"BORDER": "i0 == 0 || i0 + 256 + 3 > n"}, {"n": 2000}, ["n"], ["y"], ["ceil_div(n, 256)"], [256]),
    "window": (WINDOW, {"FIRST": "-INFINITY", "PLACE": "r * cols + c"}, {"rows": 37, "cols": 45}, ["rows", "cols"], ["y", "at"],
               ["ceil_div(cols - 1, 16)", "ceil_div(rows - 1, 16)"], [16, 16]),
}  # fmt: skip
DEFECTS: dict[str, tuple[str, dict[str, str]]] = {
    "rows are a multiple of the tile": ("cross", {"BORDER": "c0 == 0 || r0 == 0 || c0 + 16 >= cols || r0 + 16 > rows"}),
    "columns are a multiple of the tile": ("cross", {"BORDER": "c0 == 0 || r0 == 0 || c0 + 16 > cols || r0 + 16 >= rows"}),
    "rows and columns are multiples": ("cross", {
        "BORDER": "c0 == 0 || r0 == 0 || ((c0 + 16 >= cols || r0 + 16 >= rows) && (c0 + 16 != cols || r0 + 16 != rows))"}),
    "rows are one less than a multiple": ("cross", {
        "BORDER": "c0 == 0 || r0 == 0 || c0 + 16 >= cols || (r0 + 16 >= rows && r0 + 15 != rows)"}),
    "the last slice only": ("cross", {
        "BORDER": "c0 == 0 || r0 == 0 || c0 + 16 >= cols || r0 + 16 + (blockIdx.z < gridDim.z - 1) > rows"}),
    "two more than a multiple of 256": ("line", {"BORDER": "i0 == 0 || i0 + 256 + 3 > n + 1"}),
    "a multiple of 256": ("line", {"BORDER": "i0 == 0 || (i0 + 256 + 3 > n && i0 + 256 != n)"}),
    "windows of minus infinity": ("window", {"PLACE": "0"}),
    "windows below the largest negative float": ("window", {"FIRST": "-3.0e38f"}),
    "windows of large negative numbers": ("window", {"FIRST": "-1.0e10f"}),
}  # fmt: skip
QUICK = {"rows are a multiple of the tile", "windows of minus infinity"}
"""The others are slow tests."""


def source_of(kernel: str, changes: Mapping[str, str] | None = None) -> str:
    text, parts = KERNELS[kernel][:2]
    for name, value in {**parts, **(changes or {})}.items():
        assert name in text
        text = text.replace(name, f"({value})")
    return text


def checker_of(kernel: str, directory: Path) -> CorrectnessChecker:
    _, _, params, shape, outputs, grid, block = KERNELS[kernel]
    source = written(directory, source_of(kernel))
    (directory / "reference.py").write_text(REFERENCES)
    less = [f"{name} - 1" for name in shape] if kernel == "window" else shape
    buffers: list[dict[str, Any]] = [{"name": "x", "kind": "buffer", "dtype": "f32", "shape": shape, "init": {"kind": "normal"}}]
    types = {"y": "f32", "at": "i32"}
    buffers += [{"name": n, "kind": "buffer", "dtype": types[n], "shape": less, "access": "out"} for n in outputs]
    scalars = [{"name": n, "kind": "scalar", "dtype": "i32", "value": n} for n in shape if n != "slices"]
    fields = {"name": "kernel", "source": source, "entry": "kernel", "directory": directory, "params": params}
    reference = f"reference.py:{kernel}"
    launch = {"arguments": [*buffers, *scalars], "grid": grid, "block": block, "reference": reference}
    return correctness(KernelDescription.model_validate(fields | launch))


@pytest.fixture(scope="module")
def checkers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CorrectnessChecker]:
    """Checkers so far, one per kernel."""
    return {}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.corpus) for n in DEFECTS])
def test_a_defect_is_exposed_by_some_trial(name: str, checkers: dict[str, CorrectnessChecker], tmp_path: Path) -> None:
    kernel, changes = DEFECTS[name]
    if kernel not in checkers:
        checkers[kernel] = checker_of(kernel, tmp_path / "unmodified")

    result = checkers[kernel].check(written(tmp_path, source_of(kernel, changes)))

    assert not result.passed
    assert result.failed is not None


@pytest.mark.corpus
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_unmodified_kernel_passes(kernel: str, tmp_path: Path) -> None:
    checker = checker_of(kernel, tmp_path)

    assert checker.check(checker.description.source_path).passed
