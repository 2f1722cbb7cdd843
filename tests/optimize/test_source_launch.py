"""Launch configuration in a comment of a source: reading, validation, and its use by builds, guards and trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.device.launch import LaunchError, launch_geometry
from rocm_perf_lab.jobs.profile.workbench import CompiledKernel
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.source_launch import LaunchDescriptor, launch_descriptor, with_source_launch
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from tests.builders.candidates import checker_of, described
from tests.builders.rewritten_kernels import buffer, kernel_of

if TYPE_CHECKING:
    from pathlib import Path

VECTOR_ADD = resource_dir("experiments") / "vector_add"


def test_a_source_without_the_comment_keeps_its_launch(tmp_path: Path) -> None:
    source = tmp_path / "kernel.hip"
    source.write_text("// launch: 4\n__global__ void f() {}\n")
    description = described(VECTOR_ADD)

    assert launch_descriptor(source.read_text()) is None
    assert with_source_launch(description, source) is description


def test_the_comment_replaces_what_it_names(tmp_path: Path) -> None:
    source = tmp_path / "kernel.hip"
    source.write_text('// rocm-perf launch: {"grid": ["ceil_div(n, 1024)"], "block": [128], "dynamic_lds_bytes": "4 * 32"}\n')
    description = described(VECTOR_ADD, n=3000)

    geometry = launch_geometry(with_source_launch(description, source))

    assert (geometry.grid, geometry.block, geometry.dynamic_lds_bytes) == ((3, 1, 1), (128, 1, 1), 128)


def test_a_descriptor_reads_its_own_line() -> None:
    descriptor = LaunchDescriptor(grid=("n",), block=(64,), defines={"BLOCK": 64})

    assert launch_descriptor(f"#include <x>\n{descriptor.line()}\nint f();\n") == descriptor


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("{", "invalid launch comment"),
        ('{"gird": [1]}', "gird"),
        ('{"grid": [1, 1, 1, 1]}', "grid"),
        ('{"defines": {"UNKNOWN": 4}}', "UNKNOWN is no macro"),
        ('{"block": [64]}\n// rocm-perf launch: {"block": [64]}', "2 launch comments"),
    ],
)
def test_an_invalid_comment_is_one_error(comment: str, says: str, tmp_path: Path) -> None:
    source = tmp_path / "kernel.hip"
    source.write_text(f"// rocm-perf launch: {comment}\n")

    with pytest.raises(LabError, match=says):
        with_source_launch(described(VECTOR_ADD), source)


def test_an_axis_has_less_than_two_to_the_32_work_items(tmp_path: Path) -> None:
    source = tmp_path / "kernel.hip"
    source.write_text(f'// rocm-perf launch: {{"grid": [{1 << 24}], "block": [256]}}\n')

    with pytest.raises(LaunchError, match="4,294,967,296 work-items along one axis"):
        launch_geometry(with_source_launch(described(VECTOR_ADD), source))


@pytest.mark.slow
def test_a_rewrite_is_checked_at_its_own_launch(tmp_path: Path) -> None:
    """Four elements per work-item are right in a quarter of the workgroups, and wrong in an eighth."""
    description = described(VECTOR_ADD, n=5000)
    checker = checker_of(description)
    right, wrong = tmp_path / "right.hip", tmp_path / "wrong.hip"
    body = description.source_path.read_text().replace(
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) c[i] = a[i] + b[i];\n",
        "  for (long i = blockIdx.x * 1024l + threadIdx.x, k = 0; k < 4 && i < n; ++k, i += 256) c[i] = a[i] + b[i];\n",
    )
    assert "1024" in body
    right.write_text('// rocm-perf launch: {"grid": ["ceil_div(n, 1024)"], "block": [256]}\n' + body)
    wrong.write_text('// rocm-perf launch: {"grid": ["ceil_div(n, 2048)"], "block": [256]}\n' + body)

    result = checker.check(right)
    assert result.stage == "right", result.reason
    assert checker.check(wrong).stage in ("gate", "verification")


def test_equal_code_with_another_grid_is_another_program(tmp_path: Path) -> None:
    """Two rewrites that differ in the grid only are both measured."""
    text = 'extern "C" __global__ void f(float* a) { a[blockIdx.x * blockDim.x + threadIdx.x] = gridDim.x; }\n'
    described = kernel_of([buffer("a", "f32", "n", access="out")], grid=["ceil_div(n, 64)"], block=[64], n=640)

    def compiled(line: str) -> CompiledKernel:
        source = tmp_path / "f.hip"
        source.write_text(f"{line}#include <hip/hip_runtime.h>\n{text}")
        own = with_source_launch(described, source)
        built = compile_description(own, source, architecture="gfx942", compiler=find_compiler)
        kernel = find_kernel(built.code_object, "f")
        occupancy = launch_occupancy(load_target("mi300x"), occupancy_request(kernel, workgroup_size=64, dynamic_lds_bytes=0))
        return CompiledKernel(built, kernel, occupancy, own)

    plain, same, other = (compiled(line) for line in ("", "// a comment\n", '// rocm-perf launch: {"grid": [5]}\n'))

    assert plain.machine_code_sha256 == same.machine_code_sha256 == other.machine_code_sha256
    assert plain.launched_code_sha256 == same.launched_code_sha256
    assert plain.launched_code_sha256 != other.launched_code_sha256
