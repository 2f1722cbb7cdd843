"""Files of selected configurations, loaded and used: the Triton table, the C++ header, and params of kernel.yaml."""

from __future__ import annotations

import importlib.util
import math
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from rocm_perf_lab.autotune.dispatch_tables import header, kernel_params, triton_table
from rocm_perf_lab.autotune.shapes_document import ShapesDocument
from rocm_perf_lab.autotune.spaces.constraint_code import ShapeConstraints
from rocm_perf_lab.autotune.spaces.formula import compile_formula
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from tests.builders.candidates import described, the_compiler

if TYPE_CHECKING:
    from pathlib import Path


def document(configurations: list[dict[str, Any]], *shapes: tuple[dict[str, Any], int | None]) -> ShapesDocument:
    """Return a result whose shapes have these configurations."""
    rows = [
        {
            "shape": shape,
            "weight": 1 / len(shapes),
            "evaluated": 3,
            "configuration": position,
            "runtime_ms": None if position is None else 1.0,
            "regret": None if position is None else 0.0,
            "best_ms": 1.0,
            "best_parameters": None,
            "first_ms": 1.0,
        }
        for shape, position in shapes
    ]
    content = {
        "kernel": {"name": "gemm"},
        "gpu": {"name": "AMD Instinct MI300X", "architecture": "gfx942"},
        "time_kind": "measured",
        "timing": "median",
        "configurations": configurations,
        "shapes": rows,
        "weighted_regret": 0.0,
        "search_space_size": 10,
        "evaluated_configs": 6,
        "infeasible_configs": 0,
        "stop_reason": "the budget is used up",
        "model": None,
        "phases": {},
        "failures": [],
        "trials": [],
        "provenance": {"device": "rocm", "note": "", "emulated": False, "versions": {}},
    }
    return ShapesDocument.model_validate(content)


GEMM = document(
    [{"block_m": 64, "num_warps": 4, "num_stages": 2}, {"block_m": 16, "num_warps": 1, "num_stages": 1}],
    ({"m": 4096, "n": 4096, "k": 64}, 0),
    ({"m": 1, "n": 4096, "k": 64}, 1),
    ({"m": 1, "n": 1, "k": 1}, None),
)


def loaded(path: Path, text: str) -> Any:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_triton_selects_the_configuration_of_a_shape_or_of_the_nearest_one(tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    table = loaded(tmp_path / "configs.py", triton_table(GEMM, described(resource_dir("experiments") / "gemm_triton")))

    kernel = triton.autotune(configs=table.CONFIGS, key=table.KEY, prune_configs_by={"early_config_prune": table.select})(
        triton.jit(loaded(tmp_path / "kernel.py", "def gemm(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK_M): pass\n").gemm)
    )
    kernel.nargs = {"m": 4096, "n": 4096, "k": 64}
    (tuned,) = kernel.prune_configs({})
    kernel.nargs = {"m": 2, "n": 4000, "k": 60}
    (near,) = kernel.prune_configs({})

    assert table.KEY == ["m", "n", "k"]
    assert (tuned.kwargs["BLOCK_M"], tuned.num_warps, tuned.num_stages) == (64, 4, 2)
    assert tuned.kwargs["matrix_instr_nonkdim"] == 16  # a constant option of the kernel
    assert (near.kwargs["BLOCK_M"], near.num_warps, near.num_stages) == (16, 1, 1)


def test_a_size_of_the_grid_alone_is_no_key_of_triton(tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    found = document(
        [{"block": 512, "num_warps": 8}, {"block": 512, "num_warps": 2}],
        ({"rows": 1, "cols": 500}, 0),
        ({"rows": 64, "cols": 500}, 1),
        ({"rows": 65, "cols": 500}, 1),
        ({"rows": 64, "cols": 100}, 0),
    )
    directory = resource_dir("experiments") / "softmax_triton"

    table = loaded(tmp_path / "configs.py", triton_table(found, described(directory)))
    kernel = triton.autotune(configs=table.CONFIGS, key=table.KEY, prune_configs_by={"early_config_prune": table.select})(
        triton.jit(loaded(tmp_path / "kernel.py", "def softmax(input_ptr, output_ptr, cols, BLOCK): pass\n").softmax)
    )
    kernel.nargs = {"input_ptr": None, "output_ptr": None, "cols": 500}
    (wide,) = kernel.prune_configs({})
    kernel.nargs = {"input_ptr": None, "output_ptr": None, "cols": 90}
    (narrow,) = kernel.prune_configs({})

    assert table.KEY == ["cols"]  # rows is the number of workgroups, and no argument
    assert (wide.num_warps, narrow.num_warps) == (2, 8)  # two of three shapes with 500 columns have the second one


PROGRAM = """\
#include <hip/hip_runtime.h>
#include "configurations.hpp"

static_assert(gemm_tuned::select(4096, 4096, 64) == 0, "tuned");
static_assert(gemm_tuned::select(1, 4096, 64) == 1, "tuned");
static_assert(gemm_tuned::select(3, 3000, 80) == 1, "nearest");
static_assert(gemm_tuned::configurations[0].block_m == 64, "values");
static_assert(gemm_tuned::dispatch(1, 4096, 64, [](auto tuned) { return decltype(tuned)::block_m; }) == 16, "dispatch");

template <class Tuned> __global__ __launch_bounds__(64 * Tuned::num_warps) void tile(float* x) {
  __shared__ float rows[Tuned::block_m];
  rows[threadIdx.x % Tuned::block_m] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = rows[0];
}
template __global__ void tile<gemm_tuned::Configuration0>(float*);
template __global__ void tile<gemm_tuned::Configuration1>(float*);
"""


def test_the_header_dispatches_to_kernels_of_the_configurations(tmp_path: Path) -> None:
    (tmp_path / "configurations.hpp").write_text(header(GEMM))
    (tmp_path / "program.hip").write_text(PROGRAM)

    built = compile_source(CompileRequest(tmp_path / "program.hip", "gfx942"), compiler=the_compiler())

    sizes = {kernel.lds_bytes for kernel in built.code_object.kernels}
    assert sizes == {4 * 64, 4 * 16}


CHECKED = document(
    [{"block": 128, "split": 1}, {"block": 32, "split": 4}, {"block": 8, "split": 1}],
    ({"n": 1024, "k": 64}, 0),
    ({"n": 96, "k": 64}, 1),
    ({"n": 8, "k": 8}, 2),
)
"""Result of a space with the constraints of `divisible`."""


def divisible(*constraints: str) -> ShapeConstraints:
    known = {"block", "split", "n", "k", "tile", "limit"}
    formulas = [compile_formula(text, where="test", known=known) for text in constraints or ("n % block == 0", "tile <= limit")]
    tile = compile_formula("block * split", where="test", known=known)
    return ShapeConstraints(formulas, {"tile": tile}, {"limit": 128})


CHECKED_PROGRAM = """\
#include "configurations.hpp"
#include <cstdlib>
#include <cstring>
#include <cstdio>

static_assert(gemm_tuned::select(1024, 64) == 0, "tuned");
static_assert(gemm_tuned::select(992, 64) == 1, "992 is no multiple of 128, but of 32");
static_assert(gemm_tuned::select(1000, 64) == 2, "nor of 32, but of 8");
static_assert(gemm_tuned::select(1001, 64) == -1, "nor of 8");

int main(int count, char**) {
  const auto block = [](auto tuned) { return decltype(tuned)::block; };
  std::printf("%d %d\\n", gemm_tuned::dispatch(992, 64, block), gemm_tuned::dispatch(1000, 64, block));
  std::fflush(stdout);
  return gemm_tuned::dispatch(1000 + count, 64, block);
}
"""


def compiled(directory: Path, program: str) -> Path:
    """Return a program of C++17 for this machine."""
    (directory / "program.cpp").write_text(program)
    command = [sys.executable, "-m", "ziglang", "c++", "-std=c++17", "-Wall", "-Werror", "program.cpp", "-o", "program"]
    subprocess.run(command, cwd=directory, check=True, timeout=300)
    return directory / "program"


def test_the_header_selects_only_configurations_that_are_valid_for_the_shape(tmp_path: Path) -> None:
    (tmp_path / "configurations.hpp").write_text(header(CHECKED, divisible()))

    ran = subprocess.run([compiled(tmp_path, CHECKED_PROGRAM)], capture_output=True, text=True, check=False, timeout=60)

    assert ran.stdout == "32 8\n"
    assert ran.returncode == -signal.SIGABRT
    assert ran.stderr == "no tuned configuration is valid for this shape: tune it as well\n"


def test_triton_selects_only_configurations_that_are_valid_for_the_shape(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    table = loaded(tmp_path / "configs.py", triton_table(CHECKED, None, divisible()))

    def block(n: int) -> int:
        (chosen,) = table.select(table.CONFIGS, {"n": n}, k=64)
        return int(chosen.kwargs["block"])

    assert [block(n) for n in (1024, 992, 1000)] == [128, 32, 8]
    with pytest.raises(ValueError, match=r"valid for \{'n': 1001, 'k': 64\}"):
        block(1001)


EXPRESSIONS = (
    "n // block >= 3 and n % block == 0",
    "-n // block < -2 or (k - n) % block == 0",
    "k / n < 0.7 < 1 < block",
    "ceil_div(n, block) * block - n < split",
    "min(n, k, block) >= 8 and max(n, k) <= 4 * block",
    "2 ** split <= n <= k ** 2",
    "(n if k > 32 else 8 * n) >= 512",
    "not n & 7 and n ^ k and n << split > 700 and k >> 1 | 1",
    "block in (8, k) and n not in (96, 100)",
    "int(n / 3) == floor(n / 3) and ceil(n / 7) * 7 >= n",
    "abs(n - k) + (n > k) <= 33",
    "n % 2.5 < 1.1 or n // 2.5 == 38",
    "float(n) == n and -(k) < 0",
    "(n > 64) * (k > 8) + split > 1",
)


def test_checks_in_cpp_and_python_have_the_values_of_the_formulas(tmp_path: Path) -> None:
    rows = [(n, k, b, s) for n in (8, 96, 97, 1000, 1024) for k in (8, 64, 100) for b, s in ((128, 1), (32, 4), (8, 1))]
    columns = {name: np.array(values) for name, values in zip(("n", "k", "block", "split"), zip(*rows, strict=True), strict=True)}
    constraints = divisible(*EXPRESSIONS)
    expected = [list(map(bool, formula.holds(columns, len(rows)))) for formula in constraints.constraints]

    python = constraints.python(("n", "k"), columns)
    cpp = constraints.cpp(("n", "k"), {name: (name, "long long") for name in columns})

    assert python.unchecked == cpp.unchecked == ()
    for check, wanted in zip(python.checks, expected, strict=True):
        values = [dict(zip(("n", "k", "block", "split"), row, strict=True)) for row in rows]
        assert [bool(eval(check, {"math": math, "values": each})) for each in values] == wanted, check
    prints = "".join(f"std::putchar('0' + static_cast<int>(bool({check})));" for check in cpp.checks)
    loop = "".join(f"{{const long long n={n}, k={k}, block={b}, split={s}; {prints}}}\n" for n, k, b, s in rows)
    helpers = "\n".join(cpp.helpers)
    program = f"#include <cstdio>\nnamespace detail {{\n{helpers}\n}}\nint main() {{\n{loop}}}\n"
    ran = subprocess.run([compiled(tmp_path, program)], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "".join("01"[wanted[row]] for row in range(len(rows)) for wanted in expected)


def test_text_in_constraints_is_compared_in_cpp(tmp_path: Path) -> None:
    found = document([{"mode": "fast"}, {"mode": "exact"}], ({"layout": "nchw"}, 0), ({"layout": "nhwc"}, 1))
    names = {"mode", "layout"}
    rule = compile_formula("mode == 'exact' or layout in ('nchw', 'n')", where="test", known=names)
    (tmp_path / "configurations.hpp").write_text(header(found, ShapeConstraints([rule])))
    checks = 'static_assert(gemm_tuned::select("nchw") == 0 && gemm_tuned::select("x") == 1 && gemm_tuned::select("n") == 0);'

    compiled(tmp_path, f'#include "configurations.hpp"\n{checks}\nint main() {{}}\n')


def test_constraints_that_cannot_be_expressed_are_listed() -> None:
    code = divisible("log2(n) > 3", "n > block", "block > 4").cpp(("n",), {"n": ("n", "long long"), "block": ("b", "int")})

    assert code.unchecked == ("log2(n) > 3",)
    assert code.checks == ("(static_cast<long long>(n) > static_cast<long long>(b))",)
    assert divisible("n * k > 8").python(("n", "k"), ("n",)).unchecked == ("n * k > 8",)


def test_text_and_fractions_have_types_of_their_own() -> None:
    text = header(document([{"mode": "fast", "ratio": 0.5, "wide": True}], ({"layout": "nchw", "size": 3_000_000_000}, 0)))

    assert '{"fast", 0.5, true},' in text
    assert '{"nchw", 3000000000, 0},' in text
    assert "constexpr int select(const char* layout, long long size)" in text


def test_text_in_the_header_is_a_literal_of_cpp() -> None:
    text = header(document([{"mode": 'say "ü😀" \\ twice'}], ({"n": 1}, 0)))

    assert '{"say \\"ü😀\\" \\\\ twice"},' in text


ODD_NAMES = """\
#include <hip/hip_runtime.h>
#include "configurations.hpp"

static_assert(gemm_tuned::select(1, 2, 2) == 0, "tuned");
static_assert(gemm_tuned::dispatch(1, 2, 7, [](auto tuned) { return decltype(tuned)::template_0; }) == 5, "nearest");
static_assert(gemm_tuned::configurations[1].block_m == 7 && gemm_tuned::configurations[1].block_m_0 == 8, "both");
static_assert(gemm_tuned::configurations[1].m == 9 && gemm_tuned::configurations[1].value_2x, "ends and digits");
"""


def test_names_that_cannot_be_names_in_cpp_are_changed_in_the_header(tmp_path: Path) -> None:
    first = {"template": 4, "block m": 1, "block-m": 2, "_m": 3, "2x": False}
    second = {"template": 5, "block m": 7, "block-m": 8, "_m": 9, "2x": True}
    found = document([first, second], ({"Shape": 1, "n_": 2, "double": 2}, 0), ({"Shape": 1, "n_": 2, "double": 8}, 1))
    (tmp_path / "configurations.hpp").write_text(header(found))
    (tmp_path / "program.hip").write_text(ODD_NAMES)

    compile_source(CompileRequest(tmp_path / "program.hip", "gfx942"), compiler=the_compiler())


def test_params_of_the_kernel_are_those_of_the_heaviest_configuration_and_of_each_shape() -> None:
    content = yaml.safe_load(kernel_params(GEMM))

    assert content["params"] == {"block_m": 64, "num_warps": 4, "num_stages": 2}
    assert content["shapes"][1]["params"] == {"m": 1, "n": 4096, "k": 64, "block_m": 16, "num_warps": 1, "num_stages": 1}
