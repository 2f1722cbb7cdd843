"""Trials with buffers beyond 2^31 elements and 4 GiB: narrow indices are found, other assignments of work are not refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.languages.arguments import BufferArgument, NormalInit, ScalarArgument
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.languages.spec import Tolerance
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.verify.large_shapes import large_shapes
from rocm_perf_lab.verify.large_trials import LargeTrials
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocm_perf_lab.toolchain.build import BuildResult

EXACT = {"y": Tolerance(rtol=0, atol=0, note=None)}
HEAD = "#include <hip/hip_runtime.h>\n"
ROWS = """extern "C" __global__ void scale(const float* x, float* y, int rows, int cols) {{
  {body}
}}
"""
ROWS_BASELINE = """size_t base = (size_t)blockIdx.x * cols;
  for (int i = threadIdx.x; i < cols; i += 64) y[base + i] = 2.0f * x[base + i] + 1.0f;"""
TILES = """extern "C" __global__ void turn(const float* x, float* y, int rows, int cols) {{
  {body}
}}
"""
TILES_BASELINE = """int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < cols) y[(size_t)c * rows + r] = x[(size_t)r * cols + c];"""
FLAT = """extern "C" __global__ void add(const float* x, float* y, {count} n) {{
  {body}
}}
"""
FLAT_BASELINE = """size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;"""


def kernel(entry: str, **changes: object) -> KernelDescription:
    sizes = {"rows": 40, "cols": 90}
    described = KernelDescription(
        name=entry,
        source=f"{entry}.hip",  # type: ignore[arg-type]
        entry=entry,
        params=dict(sizes),
        arguments=(
            BufferArgument(name="x", dtype="f32", shape=("rows", "cols"), init=NormalInit(seed=1)),
            BufferArgument(name="y", dtype="f32", shape=("rows", "cols"), access="out"),
            *(ScalarArgument(kind="scalar", name=name, dtype="i32", value=name) for name in sizes),
        ),
        grid=("rows",),
        block=(64,),
        tolerance=EXACT,
    )
    return described.model_copy(update=changes)


FLAT_ARGUMENTS = (
    BufferArgument(name="x", dtype="f32", shape=("n",), init=NormalInit(seed=1)),
    BufferArgument(name="y", dtype="f32", shape=("n",), access="out"),
    ScalarArgument(kind="scalar", name="n", dtype="i64", value="n"),
)
KERNELS = {
    "scale": (kernel("scale"), ROWS, ROWS_BASELINE),
    "turn": (kernel("turn", grid=("ceil_div(cols, 16)", "ceil_div(rows, 16)"), block=(16, 16)), TILES, TILES_BASELINE),
    "add": (
        kernel("add", params={"n": 5000}, arguments=FLAT_ARGUMENTS, grid=("ceil_div(n, 256)",), block=(256,)),
        FLAT,
        FLAT_BASELINE,
    ),
}


class Place:
    """Recorded large trials of each kernel."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._trials: dict[str, LargeTrials] = {}

    def trials(self, name: str) -> LargeTrials:
        if name not in self._trials:
            description, _, baseline = KERNELS[name]
            self._trials[name] = LargeTrials(description, _compile, mi300x(), seed=3)
            self._trials[name].record_baseline(self._source(name, baseline))
        return self._trials[name]

    def reason(self, name: str, body: str) -> str | None:
        return self.trials(name).check(self._source(name, body)).reason

    def close(self) -> None:
        for trials in self._trials.values():
            trials.close()

    def _source(self, name: str, body: str) -> Path:
        path = self._directory / f"{name}.hip"
        path.write_text(HEAD + KERNELS[name][1].format(body=body, count="long long"))
        return path


def _compile(description: KernelDescription, source: Path) -> BuildResult:
    return compile_description(description, source, architecture="gfx942", compiler=find_compiler)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Kernels with recorded large trials."""
    made = Place(tmp_path_factory.mktemp("large"))
    yield made
    made.close()


WRONG = {
    "int row offset": ("scale", "int base = blockIdx.x * cols;\n" + ROWS_BASELINE.split("\n")[1]),
    "unsigned row offset": ("scale", "unsigned base = blockIdx.x * cols;\n" + ROWS_BASELINE.split("\n")[1]),
    "int product before it is widened": ("scale", "size_t base = (int)blockIdx.x * cols;\n" + ROWS_BASELINE.split("\n")[1]),
    "unsigned byte offset": (
        "scale",
        """for (int i = threadIdx.x; i < cols; i += 64) {
    size_t e = (size_t)blockIdx.x * cols + i;
    unsigned b = (unsigned)(e * 4);
    y[e] = 2.0f * *(const float*)((const char*)x + b) + 1.0f;
  }""",
    ),
    "24-bit product": ("scale", "size_t base = __mul24((int)blockIdx.x, cols);\n" + ROWS_BASELINE.split("\n")[1]),
    "float row offset": ("scale", "size_t base = (size_t)((float)blockIdx.x * cols);\n" + ROWS_BASELINE.split("\n")[1]),
    "16-bit row": ("scale", "size_t base = (size_t)(unsigned short)blockIdx.x * cols;\n" + ROWS_BASELINE.split("\n")[1]),
    "float index": (
        "add",
        "float f = (float)blockIdx.x * 256.0f + threadIdx.x; size_t i = (size_t)f; if (i < n) y[i] = x[i] + 1.0f;",
    ),
    "int index": ("add", "int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = x[i] + 1.0f;"),
    "int index, negative ones skipped": (
        "add",
        "int i = blockIdx.x * 256 + threadIdx.x; if (i >= 0 && i < n) y[i] = x[i] + 1.0f;",
    ),
    "int index of a vector": (
        "add",
        """int i = 4 * (blockIdx.x * 256 + threadIdx.x);
  if (i >= 0 && i < n) for (int k = 0; k < 4; k++) if (i + k < n) y[i + k] = x[i + k] + 1.0f;""",
    ),
    "int offset of the output": (
        "turn",
        """int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < cols) y[c * rows + r] = x[(size_t)r * cols + c];""",
    ),
    "int offset of the input": (
        "turn",
        """int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < cols) y[(size_t)c * rows + r] = x[r * cols + c];""",
    ),
    "last rows skipped": ("scale", "if (blockIdx.x >= 1u << 20) return;\n  " + ROWS_BASELINE),
}
RIGHT = {
    "unsigned index": ("add", "unsigned i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = x[i] + 1.0f;"),
    "repeated last row": (
        "scale",
        """size_t two = blockIdx.x < (rows + 1) / 2 ? blockIdx.x : (rows - 1) / 2;
  for (size_t r = 2 * two; r < 2 * two + 2 && r < rows; r++)
    for (int i = threadIdx.x; i < cols; i += 64) y[r * cols + i] = 2.0f * x[r * cols + i] + 1.0f;""",
    ),
    "itself": ("scale", ROWS_BASELINE),
    "pointers": (
        "scale",
        """const float* in = x + (long)blockIdx.x * cols; float* out = y + (long)blockIdx.x * cols;
  for (int i = threadIdx.x; i < cols; i += 64) out[i] = fmaf(2.0f, in[i], 1.0f);""",
    ),
    "rows in reverse order": (
        "scale",
        ROWS_BASELINE.replace("(size_t)blockIdx.x", "(size_t)(rows - 1 - blockIdx.x)"),
    ),
    "rows of eight XCDs": (
        "scale",
        """unsigned per = gridDim.x / 8, row = blockIdx.x < per * 8 ? blockIdx.x % 8 * per + blockIdx.x / 8 : blockIdx.x;
  """
        + ROWS_BASELINE.replace("blockIdx.x", "row"),
    ),
    "two rows per workgroup": (
        "scale",
        """for (size_t r = 2 * (size_t)blockIdx.x; r < 2 * (size_t)blockIdx.x + 2 && r < rows; r++)
    for (int i = threadIdx.x; i < cols; i += 64) y[r * cols + i] = 2.0f * x[r * cols + i] + 1.0f;""",
    ),
    "four elements per work-item": (
        "add",
        """size_t i = 4 * ((size_t)blockIdx.x * 256 + threadIdx.x);
  for (int k = 0; k < 4; k++) if (i + k < n) y[i + k] = x[i + k] + 1.0f;""",
    ),
    "stride of the grid": (
        "add",
        "for (size_t i = (size_t)blockIdx.x * 256 + threadIdx.x; i < n; i += (size_t)gridDim.x * 256) y[i] = x[i] + 1.0f;",
    ),
    "tiles in LDS": (
        "turn",
        """__shared__ float tile[16][17];
  int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < cols) tile[threadIdx.y][threadIdx.x] = x[(size_t)r * cols + c];
  __syncthreads();
  c = blockIdx.x * 16 + threadIdx.y, r = blockIdx.y * 16 + threadIdx.x;
  if (r < rows && c < cols) y[(size_t)c * rows + r] = tile[threadIdx.x][threadIdx.y];""",
    ),
}

WRONG |= {  # written after the rules
    "pointer steps of int": (
        "scale",
        """const float* in = x + (int)(blockIdx.x * cols); float* out = y + (size_t)blockIdx.x * cols;
  for (int i = threadIdx.x; i < cols; i += 64) out[i] = 2.0f * in[i] + 1.0f;""",
    ),
    "unsigned 24-bit product": (
        "scale",
        "size_t base = __umul24(blockIdx.x, (unsigned)cols);\n" + ROWS_BASELINE.split("\n")[1],
    ),
    "half of the grid": (
        "add",
        "size_t i = ((size_t)(blockIdx.x & 0x3fffff)) * 256 + threadIdx.x; if (i < n) y[i] = x[i] + 1.0f;",
    ),
    "large grids skipped": ("add", "if (gridDim.x > 1u << 20) return;\n  " + FLAT_BASELINE),
    "all workgroups of large grids skipped but the first": (
        "add",
        "if (gridDim.x > 1u << 20 && blockIdx.x > 0) return;\n  " + FLAT_BASELINE,
    ),
    "tile index in float": (
        "turn",
        """int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < cols) y[(size_t)((float)c * rows) + r] = x[(size_t)r * cols + c];""",
    ),
}
RIGHT |= {  # written after the rules
    "last elements first": (
        "add",
        "size_t b = gridDim.x - 1 - blockIdx.x, i = b * 256 + threadIdx.x; if (i < n) y[i] = x[i] + 1.0f;",
    ),
    "rows by pairs of columns": (
        "scale",
        """long base = (long)blockIdx.x * cols;
  for (int i = 2 * threadIdx.x; i < cols; i += 128) {
    y[base + i] = 2.0f * x[base + i] + 1.0f;
    if (i + 1 < cols) y[base + i + 1] = 2.0f * x[base + i + 1] + 1.0f;
  }""",
    ),
    "shifted last tile": (
        "turn",
        """int c0 = min((int)blockIdx.x * 16, cols > 16 ? cols - 16 : 0), c = c0 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
  if (r < rows && c < cols) y[(size_t)c * rows + r] = x[(size_t)r * cols + c];""",
    ),
}


FOUR = '\n// rocm-perf launch: {"grid": ["ceil_div(n, 1024)"], "block": [256]}\n'
NARROW_ROWS = '\n// rocm-perf launch: {"grid": ["rows"], "block": [32]}\n'
LARGE_TILES = '\n// rocm-perf launch: {"grid": ["ceil_div(cols, 32)", "ceil_div(rows, 32)"], "block": [32, 8]}\n'
TILE_LOOP = (
    "for (int k = 0; k < 32; k += 8) if (c < cols && r + k < rows) y[(size_t)c * rows + r + k] = x[(size_t)(r + k) * cols + c];"
)
WRONG |= {  # with their own launch
    "own launch, 16-bit workgroup": (
        "add",
        FOUR + "size_t i = (size_t)(unsigned short)blockIdx.x * 1024 + threadIdx.x;"
        "for (int k = 0; k < 4; k++) if (i + 256 * k < n) y[i + 256 * k] = x[i + 256 * k] + 1.0f;",
    ),
    "own launch, int index, negative ones skipped": (
        "add",
        FOUR + "int i = blockIdx.x * 1024 + threadIdx.x;"
        "for (int k = 0; k < 4; k++) if (i >= 0 && i + 256 * k < n) y[i + 256 * k] = x[i + 256 * k] + 1.0f;",
    ),
    "own launch, 20-bit row": (
        "scale",
        NARROW_ROWS + "size_t base = (size_t)(blockIdx.x & 0xfffff) * cols;"
        "for (int i = threadIdx.x; i < cols; i += 32) y[base + i] = 2.0f * x[base + i] + 1.0f;",
    ),
    "own launch, last rows skipped": (
        "scale",
        NARROW_ROWS + "if (blockIdx.x >= 1u << 20) return; size_t base = (size_t)blockIdx.x * cols;"
        "for (int i = threadIdx.x; i < cols; i += 32) y[base + i] = 2.0f * x[base + i] + 1.0f;",
    ),
    "own launch, rows of tiles skipped": (
        "turn",
        LARGE_TILES + "int c = blockIdx.x * 32 + threadIdx.x, r = (blockIdx.y & 0xfff) * 32 + threadIdx.y;" + TILE_LOOP,
    ),
}
RIGHT |= {  # with their own launch
    "own launch, four elements": (
        "add",
        FOUR + "size_t i = (size_t)blockIdx.x * 1024 + threadIdx.x;"
        "for (int k = 0; k < 4; k++) if (i + 256 * k < n) y[i + 256 * k] = x[i + 256 * k] + 1.0f;",
    ),
    "own launch, last elements first": (
        "add",
        FOUR + "size_t b = gridDim.x - 1 - blockIdx.x, i = b * 1024 + threadIdx.x;"
        "for (int k = 0; k < 4; k++) if (i + 256 * k < n) y[i + 256 * k] = x[i + 256 * k] + 1.0f;",
    ),
    "own launch, elements of eight XCDs": (
        "add",
        FOUR + "size_t per = gridDim.x / 8, b = blockIdx.x < per * 8 ? blockIdx.x % 8 * per + blockIdx.x / 8 : blockIdx.x;"
        "size_t i = b * 1024 + threadIdx.x;"
        "for (int k = 0; k < 4; k++) if (i + 256 * k < n) y[i + 256 * k] = x[i + 256 * k] + 1.0f;",
    ),
    "own launch, narrow rows": (
        "scale",
        NARROW_ROWS + "size_t base = (size_t)blockIdx.x * cols;"
        "for (int i = threadIdx.x; i < cols; i += 32) y[base + i] = 2.0f * x[base + i] + 1.0f;",
    ),
    "own launch, tiles": (
        "turn",
        LARGE_TILES + "int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;" + TILE_LOOP,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_narrow_index_is_wrong(place: Place, name: str) -> None:
    reason = place.reason(*WRONG[name])

    assert reason is not None
    assert "large shape (" in reason


@pytest.mark.parametrize("name", RIGHT)
def test_another_assignment_of_work_is_right(place: Place, name: str) -> None:
    assert place.reason(*RIGHT[name]) is None


def test_shapes_exceed_each_limit() -> None:
    shapes = large_shapes(KERNELS["scale"][0])

    counts = {shape.goal: shape.elements for shape in shapes}
    assert counts["elements"] > 1 << 31
    assert counts["int"] < 1 << 31
    assert counts["wide"] > 1 << 32
    assert counts["bytes"] * 4 > 1 << 32
    assert 1 << 24 < counts["middle"] < 1 << 27


def test_only_sizes_that_may_grow_are_enlarged() -> None:
    shapes = large_shapes(KERNELS["scale"][0], frozenset({"rows"}))

    assert shapes
    assert all(shape.grown == ("rows",) for shape in shapes)


def test_a_kernel_with_narrow_indices_is_not_tried_beyond_them(tmp_path: Path) -> None:
    description, template, _ = KERNELS["scale"]
    source = tmp_path / "scale.hip"
    source.write_text(HEAD + template.format(body=WRONG["int row offset"][1]))
    trials = LargeTrials(description, _compile, mi300x(), seed=3)

    notes = trials.record_baseline(source)

    trials.close()
    assert any("kernel scale: load of 4 bytes" in note for note in notes)
    assert trials.shapes
    assert all(int(shape.split(": ")[1].split(" ")[0].replace(",", "")) < 1 << 31 for shape in trials.shapes)


def test_a_result_to_which_all_workgroups_add_is_not_decided(tmp_path: Path) -> None:
    description, template, _ = KERNELS["add"]
    source = tmp_path / "add.hip"
    source.write_text(HEAD + template.format(body="atomicAdd(y, x[blockIdx.x]);", count="long long"))
    trials = LargeTrials(description, _compile, mi300x(), seed=3)

    notes = trials.record_baseline(source)

    trials.close()
    assert trials.shapes == ()
    assert all("several workgroups write the same elements" in note for note in notes)
