"""Code objects next to a recording: resources of the kernel, several versions, and other builds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.profiling.recorded_code import code_architecture, find_code, profile_with_code
from rocm_perf_lab.profiling.selection import rank_kernels
from rocm_perf_lab.rocprof.descriptions import traced_kernel
from rocm_perf_lab.rocprof.discovery import discover
from rocm_perf_lab.rocprof.loading import load_recording
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.rocprof.registers import corrected_vgprs
from rocm_perf_lab.rocprof.writer import write_database
from rocm_perf_lab.target.catalog import load_target
from tests.builders.kernels import build_hip
from tests.builders.rocpd import VEC_COPY, dispatch, recorded_run

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.trace import Trace
    from rocm_perf_lab.toolchain.code_object import CodeObject

TARGET = load_target("mi300x")
SOURCE = r"""#include <hip/hip_runtime.h>
__global__ void vecCopy(double* a, double* b, double* c, int n, int stride) {
  __shared__ double tile[300];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = a[i];
  __syncthreads();
  if (i < n) b[i] = tile[threadIdx.x ^ 1] + c[i];
}
"""
STATIC_LDS = 300 * 8


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("code")).code_object


def trace_of(directory: Path, lds_bytes: int = STATIC_LDS) -> Trace:
    run = [replace(dispatch(0, 100), lds_bytes=lds_bytes)]
    write_database(directory / "1_results.db", recorded_run(TARGET, run, kernels=(VEC_COPY,), emulated=False))
    return read_database(directory / "1_results.db")


def test_the_code_object_states_registers_and_the_trace_the_lds_of_the_launch(tmp_path: Path, code_object: CodeObject) -> None:
    path = tmp_path / "lab_gfx942_code_object_id_2.out"
    path.write_bytes(code_object.data)
    trace = trace_of(tmp_path, lds_bytes=STATIC_LDS + 4096)
    (kernel,) = rank_kernels(trace)

    profile = profile_with_code(trace, [path], kernel, target=TARGET)

    (compiled,) = code_object.kernels
    found = profile.resources
    assert (found.source, found.vgpr_per_thread) == ("code object", compiled.vgpr_count - compiled.agpr_count)
    assert (found.agpr_per_thread, found.sgpr_per_wave) == (compiled.agpr_count, compiled.sgpr_count)
    assert found.lds_bytes == STATIC_LDS + 4096
    assert profile.provenance.code_object_sha256 == code_object.sha256


@pytest.mark.parametrize("recorded", [0, 2560])
def test_lds_of_csv_is_rounded_or_missing_and_taken_from_the_code(tmp_path: Path, code_object: CodeObject, recorded: int) -> None:
    (tmp_path / "x.hsaco").write_bytes(code_object.data)
    trace = trace_of(tmp_path, lds_bytes=recorded)
    (kernel,) = rank_kernels(trace)

    assert profile_with_code(trace, [tmp_path / "x.hsaco"], kernel, target=TARGET).resources.lds_bytes == STATIC_LDS
    assert build_profile(trace, target=TARGET).resources.lds_bytes == recorded


@pytest.mark.parametrize(
    ("symbol", "display"),
    [
        ("_Z7vecCopyPdS_S_ii.kd", ""),
        ("", "vecCopy(double*, double*, double*, int, int)"),
        ("", "vecCopy"),
    ],
)
def test_kernels_are_matched_by_mangled_and_by_readable_names(
    tmp_path: Path, code_object: CodeObject, symbol: str, display: str
) -> None:
    (tmp_path / "x.co").write_bytes(code_object.data)

    search = find_code([tmp_path / "x.co"], traced_kernel(0, symbol, display, (0, 0, 0, 0, 0)), "gfx942")

    assert search.code is not None and search.code.kernel.symbol == "_Z7vecCopyPdS_S_ii"


def test_code_of_other_kernels_or_architectures_and_damaged_files_are_not_used(tmp_path: Path, code_object: CodeObject) -> None:
    (tmp_path / "x.co").write_bytes(code_object.data)
    (tmp_path / "y.co").write_bytes(code_object.data[:3000])
    (tmp_path / "z.co").write_bytes(b"\x7fELF vecCopy _Z7vecCopyPdS_S_ii")
    kernel = traced_kernel(0, "_Z7vecCopyPdS_S_ii.kd", "", (0, 0, 0, 0, 0))
    other = traced_kernel(0, "_Z5scalePd.kd", "", (0, 0, 0, 0, 0))
    files = [tmp_path / "gone.co", *sorted(tmp_path.glob("?.co"))]

    search = find_code(files, kernel, "gfx942")

    assert search.code is not None and search.code.path.name == "x.co"
    assert [note.partition(" ")[0] for note in search.notes if "ignored" in note][-1] == "z.co"
    assert find_code(files, other, "gfx942").code is None
    assert find_code([tmp_path / "x.co"], kernel, "gfx90a").code is None


def test_versions_that_the_registers_do_not_distinguish_are_not_used(tmp_path: Path, code_object: CodeObject) -> None:
    more = build_hip(SOURCE.replace("double tile[300]", "double tile[400]"), tmp_path).code_object
    for name, code in (("a.co", code_object), ("b.co", more)):
        (tmp_path / name).write_bytes(code.data)
    kernel = traced_kernel(0, "_Z7vecCopyPdS_S_ii.kd", "", (0, 0, 0, 0, 0))

    search = find_code([tmp_path / "a.co", tmp_path / "b.co"], kernel, "gfx942")

    assert search.code is None
    assert search.notes == ("2 code objects contain different versions of the kernel: resources are the profiler's",)


def test_a_launch_that_does_not_fit_the_code_is_of_another_build(tmp_path: Path, code_object: CodeObject) -> None:
    (tmp_path / "x.co").write_bytes(code_object.data)
    trace = trace_of(tmp_path, lds_bytes=1 << 20)
    (kernel,) = rank_kernels(trace)

    profile = profile_with_code(trace, [tmp_path / "x.co"], kernel, target=TARGET)

    assert profile.resources.source == "profiler"
    assert "x.co is of another build: the recorded launch does not fit its resources" in profile.notes


def test_code_objects_name_the_architecture(tmp_path: Path, code_object: CodeObject) -> None:
    (tmp_path / "x.co").write_bytes(code_object.data)
    (tmp_path / "y.co").write_bytes(b"\x7fELF")

    assert code_architecture([tmp_path / "x.co", tmp_path / "y.co"]) == "gfx942"
    assert code_architecture([tmp_path / "y.co"]) == ""


def test_code_next_to_a_given_file_is_found(tmp_path: Path, code_object: CodeObject) -> None:
    trace_of(tmp_path)
    (tmp_path / "1_gfx942_code_object_id_2.out").write_bytes(code_object.data)
    decoded = tmp_path / "ui_output_agent_1_dispatch_1"
    decoded.mkdir()
    (decoded / "code.json").write_text('{"code": []}')
    shutil.copy(tmp_path / "1_gfx942_code_object_id_2.out", decoded / "2_code_object_id_3.out")

    assert [path.name for path in load_recording([tmp_path / "1_results.db"]).code_objects] == ["1_gfx942_code_object_id_2.out"]
    assert {path.name for path in discover([decoded]).code_objects} == {"1_gfx942_code_object_id_2.out", "2_code_object_id_3.out"}


@pytest.mark.parametrize(("reported", "expected"), [((512, 0), (256, 256)), ((300, 0), (256, 44)), ((128, 8), (128, 8))])
def test_more_than_256_vgprs_of_a_unified_file_include_agprs(reported: tuple[int, int], expected: tuple[int, int]) -> None:
    assert corrected_vgprs("gfx942", *reported, others=()) == expected
