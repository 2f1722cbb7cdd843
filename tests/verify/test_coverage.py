"""Coverage-guided trials: rewrites that are wrong only in a branch which ordinary trials rarely take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.languages.arguments import BufferArgument, NormalInit, ScalarArgument
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.verify.branch_solving import ComparisonSolver
from rocm_perf_lab.verify.checker import CorrectnessChecker
from rocm_perf_lab.verify.policy import TrialPolicy
from rocm_perf_lab.verify.trial_runs import EmulatorRunner
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.checker import CorrectnessResult

SCALE = """#include <hip/hip_runtime.h>
extern "C" __global__ void scale(const float* x, float* y, int rows, int cols, float alpha, int mode) {{
  const float* in = x + (long)blockIdx.x * cols;
  float* out = y + (long)blockIdx.x * cols;
  float a = alpha;
  {before}
  for (int c = threadIdx.x; c < cols; c += BLOCK) {{
    float v = in[c] * a;
    {inside}
    out[c] = v;
  }}
}}
"""
BEFORE = {
    "threshold of a size": "if (cols > 3000) a = alpha * 1.01f;",
    "two sizes": "if (rows == 128 && cols == 4096) a = 1.0f;",
    "nested sizes": "if (rows == 77) { if (cols == 901) a = 1.0f; }",
    "product": "if (rows * cols == 524288) a = 1.0f;",
    "exclusive or": "if ((cols ^ 0x155) == 0x7) a = 1.0f;",
    "first element": "if (rows > 3 && cols > 60 && x[0] == 42.0f) a = 1.0f;",
    "scalar": "if (alpha == 0.25f) a = 0.5f;",
    "integer scalar": "if (mode == 17) a = 0.5f;",
    "scalar and size": "if (mode == 17 && cols > 900) a = 0.5f;",
    "workgroup": "if (blockIdx.x >= 5000) a = 0.5f;",
    # written after the rules of the search
    "sum": "if (rows + cols == 4217) a = 1.0f;",
    "difference": "if (cols - rows == 1234) a = 1.0f;",
    "square": "if (rows * rows == 40000) a = 1.0f;",
    "multiple and threshold": "if (rows % 48 == 0 && cols > 2500) a = 1.0f;",
    "bits of a scalar": "if (__float_as_int(alpha) == 0x41200000) a = 1.0f;",
    "negative scalar": "if (mode == -77) a = 1.0f;",
    "switch": "switch (mode) { case 3: break; case 11: a += 0.0f; break; case 23: a = 1.0f; break; case 31: a *= 1.0f; }",
    "size and first element": "if (cols > 700 && x[0] == 12345.0f) a = 1.0f;",
    "next to the measured shape": "if (rows == 63 && cols == 511) a = 1.0f;",
    "number of iterations": "int k = 0; for (int c = threadIdx.x; c < cols; c += BLOCK) k++; if (k == 37) a = 1.0f;",
}  # fmt: skip
INSIDE = {
    "small value": "if (in[c] == 1.0e-20f) v = 0.0f;",
    "lane and large value": "if (threadIdx.x == 77 && in[c] > 9.0e8f) v = 0.0f;",
}
QUICK = {"two sizes", "integer scalar", "small value", "square"}
"""The others are slow tests."""
RARE = [(name, code, "") for name, code in BEFORE.items()] + [(name, "", code) for name, code in INSIDE.items()]
MISSED = {"multiple and threshold": "shapes with more elements than cheap ones are tried last, and only three of them"}
CASES = [
    pytest.param(
        b,
        i,
        id=n,
        marks=[
            *([] if n in QUICK else [pytest.mark.corpus]),
            *([pytest.mark.xfail(reason=MISSED[n], strict=True)] if n in MISSED else []),
        ],
    )
    for n, b, i in RARE
]


def description() -> KernelDescription:
    return KernelDescription(
        name="scale",
        source="scale.hip",  # type: ignore[arg-type]
        entry="scale",
        params={"rows": 64, "cols": 512, "block": 128, "mode": 3},
        defines={"BLOCK": "block"},
        arguments=(
            BufferArgument(name="x", dtype="f32", shape=("rows", "cols"), init=NormalInit(seed=7)),
            BufferArgument(name="y", dtype="f32", shape=("rows", "cols"), access="out"),
            ScalarArgument(kind="scalar", name="rows", dtype="i32", value="rows"),
            ScalarArgument(kind="scalar", name="cols", dtype="i32", value="cols"),
            ScalarArgument(kind="scalar", name="alpha", dtype="f32", value=1.5),
            ScalarArgument(kind="scalar", name="mode", dtype="i32", value="mode"),
        ),
        grid=("rows",),
        block=("block",),
        reference={"y": "x * alpha"},
    )


def compiled(_: KernelDescription, source: Path) -> BuildResult:
    return compile_source(CompileRequest(source=source, architecture="gfx942", defines={"BLOCK": 128}))


def checker(directory: Path, **policy: object) -> CorrectnessChecker:
    """Return a checker with few ordinary trials, which has recorded the kernel."""
    settings = {"seed": 7, "shapes": 4, "instructions": 1_000_000, **policy}
    made = CorrectnessChecker(description(), compiled, (EmulatorRunner(mi300x()),), TrialPolicy.model_validate(settings))
    source = directory / "scale.hip"
    source.write_text(SCALE.format(before="", inside=""))
    made.record_baseline(source)
    return made


def checked(by: CorrectnessChecker, directory: Path, *, before: str = "", inside: str = "") -> CorrectnessResult:
    source = directory / "rewrite.hip"
    source.write_text(SCALE.format(before=before, inside=inside))
    return by.check(source)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> CorrectnessChecker:
    return checker(tmp_path_factory.mktemp("scale"))


@pytest.mark.parametrize(("before", "inside"), CASES)
def test_a_rare_branch_is_found(shared: CorrectnessChecker, tmp_path: Path, before: str, inside: str) -> None:
    result = checked(shared, tmp_path, before=before, inside=inside)

    assert not result.passed
    assert result.failed is not None


def test_a_branch_that_computes_the_same_passes_and_is_covered(shared: CorrectnessChecker, tmp_path: Path) -> None:
    result = checked(shared, tmp_path, inside="if (cols > 3000) v = (in[c] + 0.0f) * a;")

    assert result.passed
    assert result.uncovered == ()


def test_a_branch_that_no_trial_takes_is_listed_with_its_line(shared: CorrectnessChecker, tmp_path: Path) -> None:
    before = "if (((unsigned)cols * 2654435761u >> 12) == 777u) a = 1.0f;"

    result = checked(shared, tmp_path, before=before)

    assert result.passed
    (branch,) = result.uncovered
    assert branch.line == SCALE.splitlines().index("  {before}") + 1
    assert branch.source == before
    assert branch.message.startswith(f"line {branch.line}: ")


def test_equal_seeds_find_the_same_trial(shared: CorrectnessChecker, tmp_path: Path) -> None:
    one, two = (checked(shared, tmp_path, before=BEFORE["integer scalar"]) for _ in range(2))

    assert one.failed == two.failed
    assert one.failed is not None
    assert one.failed.params["mode"] == 17


def test_coverage_can_be_required(tmp_path: Path) -> None:
    strict = checker(tmp_path, require_coverage=True, searched=4)

    result = checked(strict, tmp_path, before="if (((unsigned)cols * 2654435761u >> 12) == 777u) a = 1.0f;")

    assert not result.passed
    assert "require_coverage" in (result.gate or "")


def test_a_size_is_solved_from_the_workgroups_of_the_grid() -> None:
    solver = ComparisonSolver(("n",), lambda sizes: (-(-sizes["n"] // 256),))
    solver.observe(0, (40, 3907), {"n": 10_000}, {})  # 40 workgroups of 256 against 3907

    found = next(solver.shapes(0))

    assert 3906 * 256 < found["n"] <= 3907 * 256


def test_sizes_are_solved_from_operands() -> None:
    solver = ComparisonSolver(("rows", "cols"))
    for rows, cols in ((2, 9), (3, 9), (3, 10)):  # 31 rows + 17 cols against 500
        solver.observe(0, (31 * rows + 17 * cols, 500), {"rows": rows, "cols": cols}, {})

    found = [s for s in solver.shapes(0) if s["rows"] > 0 and s["cols"] > 0]

    assert any(31 * s["rows"] + 17 * s["cols"] == 500 for s in found)
