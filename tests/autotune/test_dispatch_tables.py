"""Files of selected configurations, loaded and used: the Triton table, the C++ header, and params of kernel.yaml."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from rocm_perf_lab.autotune.dispatch_tables import header, kernel_params, triton_table
from rocm_perf_lab.autotune.shapes_document import ShapesDocument
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
