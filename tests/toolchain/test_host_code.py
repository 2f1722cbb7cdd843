"""HIP sources with host code that does not compile on this machine: kernels are the same as without that code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocm_perf_lab.toolchain.build import BuildResult, CompileError, CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.disassembly import disassemble
from rocm_perf_lab.toolchain.sandbox import Sandbox
from rocm_perf_lab.toolchain.source_lines import SourceLine, line_table
from rocm_perf_lab.toolchain.syntax import read_syntax
from tests.builders.kernels import write_source

KERNELS = """\
#include <hip/hip_runtime.h>
%s
template <typename T, int B> __global__ void scale(T* x, T factor) {
  x[blockIdx.x * B + threadIdx.x] *= factor;
}
__global__ void add(float* x, float y) { x[threadIdx.x] += y; }
"""
HOST = """\
static MPI_Comm world;
struct Halo {
  MPI_Request requests[2];
  int left;
  Halo(int n) : requests(), left(n) { MPI_Barrier(world); }
  template <class T> void step(T* x) { scale<T, 64><<<1, 64>>>(x, T(2)); MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); }
};
void run(MPI_Comm comm, double* x) {
  int rank = MPI_Comm_rank(comm);
  if (MPI_Wtime() > 0) scale<double, 256><<<rank + 1, 256>>>(x, 2.0);
}
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  float* x = nullptr;
  Halo halo(argc);
  for (int i = 0; i < MPI_COUNT; ++i) halo.step(x);
  run(MPI_COMM_WORLD, nullptr);
  MPI_Finalize();
}
"""
CLEAN_HOST = """\
void run(double* x, float* y) {
  scale<double, 256><<<1, 256>>>(x, 2.0);
  scale<float, 64><<<1, 64>>>(y, 2.0f);
}
"""
PASSED = """\
struct P { MPI_Comm c; int n; };
template <class T> __global__ void k(T p, int* x) { x[0] = p.n; }
int main() { P p; k<<<1, 64>>>(p, nullptr); }
"""
SOURCES = Path(__file__).parent / "sources"


def compiled(text: str, tmp_path: Path, cache_dir: Path, **options: Any) -> BuildResult:
    source = write_source(text, tmp_path)
    sandbox = options.pop("sandbox", None)
    return compile_source(
        CompileRequest(source, **options), compiler=find_compiler(("pip",)), cache_dir=cache_dir, sandbox=sandbox
    )


def refused(text: str, tmp_path: Path, cache_dir: Path, **options: Any) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compiled(text, tmp_path, cache_dir, **options)
    return caught.value


def names(build: BuildResult) -> set[str]:
    return {kernel.name for kernel in build.code_object.kernels}


def instructions(build: BuildResult, entry: str) -> list[str]:
    return [line.text for line in disassemble(build.code_object, entry)]


def lines(build: BuildResult, entry: str) -> set[SourceLine | None]:
    line_of = line_table(build.code_object)
    return {line_of(line.address) for line in disassemble(build.code_object, entry)}


def test_kernels_are_those_of_the_source_without_host_code(tmp_path: Path, cache_dir: Path) -> None:
    expected = compiled(KERNELS % "" + CLEAN_HOST, tmp_path, cache_dir)
    build = compiled(KERNELS % "#include <mpi.h>" + HOST, tmp_path, cache_dir)

    assert names(build) == names(expected)
    assert len(names(build)) == 3
    for name in names(build):
        assert instructions(build, name) == instructions(expected, name)
    library, host_code = build.notes
    assert library == "headers that are not installed are treated as empty, which only affects host code: mpi.h (MPI)"
    assert host_code.startswith("host code that does not compile was omitted, device code is unchanged: ")
    assert "kernel.hip:7 (unknown type name 'MPI_Comm')" in host_code
    assert SourceLine("kernel.hip", 6) in lines(build, "add")
    assert lines(build, "add") == lines(expected, "add")


def test_a_header_of_a_host_library_that_is_not_used_is_empty(tmp_path: Path, cache_dir: Path) -> None:
    build = compiled(KERNELS % '#include "omp.h"\n#include <gtest/gtest.h>', tmp_path, cache_dir)

    (note,) = build.notes
    assert note.endswith("omp.h (OpenMP), gtest/gtest.h (GoogleTest)")
    assert names(build) == {"add(float*, float)"}


@pytest.mark.slow
def test_a_cached_build_has_its_notes_until_the_header_is_found(tmp_path: Path, cache_dir: Path) -> None:
    text = KERNELS % '#include "mpi.h"'
    notes = [compiled(text, tmp_path, cache_dir).notes for _ in range(2)]
    (tmp_path / "mpi.h").write_text("#define MPI_VERSION 4\n")
    found = compiled(text, tmp_path, cache_dir)

    assert notes[0] == notes[1] != ()
    assert found.notes == ()
    assert Path("mpi.h") in found.dependencies


@pytest.mark.parametrize(
    ("include", "hint"),
    [
        ('"tile_config.h"', "Add the directory of tile_config.h to include_dirs"),
        pytest.param("<acme/kernels.hpp>", "Add the directory of acme/kernels.hpp to include_dirs", marks=pytest.mark.slow),
        ("<hiprand/hiprand_kernel.h>", "kernels use hipRAND's device functions: install ROCm"),
        pytest.param("<cuda_runtime.h>", "convert the source with hipify-perl", marks=pytest.mark.slow),
        pytest.param('"../mpi.h"', "Add the directory of ../mpi.h to include_dirs", marks=pytest.mark.slow),
    ],
)
def test_a_missing_header_that_kernels_may_need_is_an_error(tmp_path: Path, cache_dir: Path, include: str, hint: str) -> None:
    error = refused(KERNELS % f"#include <mpi.h>\n#include {include}", tmp_path, cache_dir)

    assert f"{tmp_path / 'kernel.hip'}:3:10: '{include[1:-1]}' file not found" in error.what
    assert hint in str(error.hint)


@pytest.mark.slow
def test_a_header_is_declared_to_be_for_host_code(tmp_path: Path, cache_dir: Path) -> None:
    text = KERNELS % '#include "utils/timer.h"' + "int main() { Timer timer; add<<<1, 64>>>(nullptr, timer.seconds()); }"

    build = compiled(text, tmp_path, cache_dir, host_headers=("utils/*.h",))

    assert "utils/timer.h (in host_headers)" in build.notes[0]
    assert names(build) == {"add(float*, float)"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("__global__ void k(float* x) { x[0] = MPI_VERSION; }", "7:38: use of undeclared identifier 'MPI_VERSION'"),
        ("constexpr int N = MPI_VERSION;\n__global__ void k(float* x) { x[0] = N; }", "7:19: use of undeclared identifier"),
        ("struct P { MPI_Comm c; };\n__global__ void k(P p, int* x) { x[0] = 1; }", "7:12: unknown type name 'MPI_Comm'"),
        (PASSED, r"void k<P>\(P, int\*\) uses P, which has a member of a type that is not declared"),
        ("static_assert(MPI_VERSION > 3);", "use of undeclared identifier 'MPI_VERSION'"),
        ('int main() { MPI_Init(0, 0); static_assert(1 > 2, "size"); }', "static assertion failed.*: size"),
        ("int main() { auto f = [] __device__(float* x) { x[0] = MPI_VERSION; }; }", "undeclared identifier 'MPI_VERSION'"),
    ],
)  # fmt: skip
def test_device_code_that_needs_a_missing_header_is_an_error(tmp_path: Path, cache_dir: Path, code: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        compiled(KERNELS % "#include <mpi.h>" + code, tmp_path, cache_dir)

    assert "not installed: mpi.h; if kernels need one of them, add its directory to include_dirs" in str(caught.value.hint)


@pytest.mark.slow
def test_an_error_in_a_kernel_is_reported_as_in_a_source_without_host_code(tmp_path: Path, cache_dir: Path) -> None:
    kernel = "__device__  float  helper(float x) { return x * factor; }\n"
    error = refused(KERNELS % "#include <mpi.h>" + kernel + "int main() { MPI_Finalize(); }", tmp_path, cache_dir)

    assert error.what == f"{tmp_path / 'kernel.hip'}:7:49: use of undeclared identifier 'factor'"


@pytest.mark.slow
def test_host_code_that_does_not_compile_is_left_out_without_missing_headers(tmp_path: Path, cache_dir: Path) -> None:
    host = "void save() { FILE* f = not_of_this_library(3); add<<<1, 64>>>(nullptr, 1.0f); }\n"
    build = compiled(KERNELS % "#include <cstdio>" + host, tmp_path, cache_dir)

    assert build.notes == (
        "host code that does not compile was omitted, device code is unchanged: "
        f"{tmp_path / 'kernel.hip'}:7 (use of undeclared identifier 'not_of_this_library')",
    )


@pytest.mark.slow
def test_a_sandboxed_build_has_the_same_kernels(tmp_path: Path) -> None:
    request = CompileRequest(write_source(KERNELS % "#include <mpi.h>" + HOST, tmp_path))

    build = compile_source(request, compiler=find_compiler(("pip",)), sandbox=Sandbox(), fresh=True)

    assert len(names(build)) == 3


@pytest.mark.slow
def test_the_syntax_tree_has_the_kernels(tmp_path: Path, cache_dir: Path) -> None:
    source = write_source(KERNELS % "#include <mpi.h>" + "int main() { MPI_Finalize(); }", tmp_path)

    tree = read_syntax(CompileRequest(source), compiler=find_compiler(("pip",)), cache_dir=cache_dir)

    assert {node.name for node in tree.walk() if "CUDAGlobalAttr" in node.attributes()} == {"scale", "add"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("bf16_norm", {"rmsnorm"}),
        ("catch_half", {"fill<int>", "fill<unsigned long long>"}),
        ("gemm_rocblas", {"gemm<_Float16, 16, 16, 16>", "gemm<float, 16, 16, 16>"}),
        ("gtest_test", {"acme::detail::scale<128>", "acme::detail::scale<256>"}),
        ("half_api", {"k"}),
        ("hdf5_lbm", {"collide"}),
        ("histogram_options", {f"hist<{block}u, unsigned char>" for block in (64, 128, 256)} | {"hist<512u, float>"}),
        ("mpi_heat", {"pack", "stencil<double, 16>", "stencil<float, 8>"}),
        ("nbody", {"forces<128, false>", "forces<256, true>"}),
        ("rccl_allreduce", {"add", "apply<float, Op>"}),
        ("reduce_cub", {"block_sum<double>", "block_sum<float>"}),
        ("softmax_half", {"gelu", "softmax<_Float16, 256>", "softmax<std::bfloat16_t, 64>", "softmax<float, 128>"}),
        ("solver_class", {"kadd", "kmul"}),
        ("spmv_mm", {f"csr_vector<int, {value}, {width}u>" for value in ("double", "float") for width in (16, 64)}),
        ("torch_ext", {"silu_kernel<_Float16>", "silu_kernel<float>"}),
    ],
)
def test_a_program_compiles_with_all_kernels(cache_dir: Path, name: str, kernels: set[str]) -> None:
    request = CompileRequest(SOURCES / f"{name}.hip")
    build = compile_source(request, compiler=find_compiler(("pip",)), cache_dir=cache_dir)

    assert {kernel.partition("(")[0].removeprefix("void ") for kernel in names(build)} == kernels
