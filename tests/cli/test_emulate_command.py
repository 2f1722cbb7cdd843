"""`rocm-perf emulate`: a code object run from the command line alone, and every mistake answered by one error."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from rocm_perf_lab.cli import main
from rocm_perf_lab.jobs.emulate.launch import argument_names
from rocm_perf_lab.jobs.emulate.request import summarise_output
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.toolchain.code_object import KernelArgument
from rocm_perf_lab.toolchain.elf import read_code_object
from tests.builders.command import Answer, rocm_perf
from tests.builders.kernels import build_hip
from tests.toolchain.test_elf import bundle, host_executable, without_notes

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = r"""
#include <hip/hip_runtime.h>
struct Line { float slope; float offset; };
extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void line(float* y, Line l) { y[threadIdx.x] = l.slope * threadIdx.x + l.offset; }
extern "C" __global__ void ids(int* out) {
  int item = threadIdx.y * blockDim.x + threadIdx.x;
  int group = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  out[group * blockDim.x * blockDim.y + item] = group * 1000 + item;
}
extern "C" __global__ void lds(int* out) {
  extern __shared__ int part[];
  part[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = part[63 - threadIdx.x];
}
extern "C" __global__ void mark(int* out, int value) { out[threadIdx.x] = value; }
extern "C" __global__ void race(int* out) { out[0] = threadIdx.x; }
extern "C" __global__ void store_at(int* out, long index) { out[index] = 1; }
extern "C" __global__ void spin(volatile int* flag) { while (*flag == 0) {} }
extern "C" __global__ void trap(int* out) { asm volatile("s_trap 2"); out[0] = 1; }
extern "C" __global__ void says(int* out) { printf("%d!\n", out[threadIdx.x]); out[0] = 1; }
extern "C" __global__ void falls(int* out, long index) { printf("on the way\n"); out[index] = 1; }
template <typename T> __global__ void widen(const unsigned char* x, T* y) { y[threadIdx.x] = x[threadIdx.x]; }
template __global__ void widen<unsigned short>(const unsigned char*, unsigned short*);
"""
SAXPY = ("--kernel", "saxpy", "--grid", "4", "--block", "64")
SAXPY_ARGUMENTS = ("f32[256]:normal:seed=1", "f32[256]:ones:inout", "f32=2", "i32=200")


def emulate(*words: str, arguments: tuple[str, ...] = ()) -> Answer:
    return rocm_perf("emulate", *words, *(word for argument in arguments for word in ("--arg", argument)))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("emulate")
    path = directory / "kernels.hsaco"
    path.write_bytes(build_hip(SOURCE, directory).code_object.data)
    return path


@pytest.fixture
def hsaco(kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.hsaco").write_bytes(kernels.read_bytes())
    return "kernels.hsaco"


def refused(answer: Answer, *, says: str, where: str = "", hint: str = "") -> None:
    """Check that there is one error with place and hint, and no output."""
    assert answer.code == 2, answer.err
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("error: ") == 1
    assert "Traceback" not in answer.err
    for part in (says, where, hint):
        assert part in answer.err


def test_the_outputs_are_correct(hsaco: str, tmp_path: Path) -> None:
    answer = emulate(hsaco, *SAXPY, "--output", "run", "--json", arguments=SAXPY_ARGUMENTS)

    assert answer.code == 0, answer.err
    x = np.random.default_rng(1).normal(size=256).astype(np.float32)
    expected = np.ones(256, np.float32)
    expected[:200] = np.float32(2) * x[:200] + 1
    np.testing.assert_allclose(np.load(tmp_path / "run" / "y.npy"), expected, rtol=1e-6)


def test_the_document_holds_the_launch_its_counters_and_its_outputs(hsaco: str) -> None:
    document = emulate(hsaco, *SAXPY, "--json", arguments=SAXPY_ARGUMENTS).document

    assert document["schema_version"] == "1.0"
    assert (document["kernel"], document["grid"], document["block"]) == ("saxpy", [4, 1, 1], [64, 1, 1])
    assert document["counters"]["SQ_WAVES"] == 4
    assert document["counters"]["SQ_INSTS_VMEM_RD"] == 8
    assert document["counters"]["SQ_INSTS_MFMA"] == 0
    assert document["time_us_emulated"] > 0
    first, *_ = document["error_bands"]["time"]
    assert first["low_us"] <= document["time_us_emulated"] <= first["high_us"]
    assert document["error_bands"]["ratio"][-1]["factor"] >= 1
    assert [(a["name"], a["text"]) for a in document["arguments"]] == [
        ("x", "f32[256]:normal:seed=1:in"),
        ("y", "f32[256]:constant:value=1.0:inout"),
        ("a", "f32=2.0"),
        ("n", "i32=200"),
    ]
    (output,) = document["outputs"]
    assert (output["name"], output["dtype"], output["shape"], output["nan_count"]) == ("y", "f32", [256], 0)
    assert output["min"] <= output["mean"] <= output["max"]
    assert len(output["first"]) == 8
    assert document["provenance"]["emulated"] is True
    assert document["provenance"]["target"] == "mi300x"
    assert set(document["estimated_counters"]) < set(document["counters"])
    certificates = document["counter_certificates"]
    assert set(certificates) == set(document["counters"])
    assert (certificates["SQ_WAVES"], certificates["TCP_TOTAL_CACHE_ACCESSES_sum"]) == ("exact", "bounded")
    assert document["estimated_counters"] == [name for name, kind in certificates.items() if kind == "estimated"]
    assert "SQ_WAVE_CYCLES" in document["estimated_counters"]


def test_equal_launches_print_equal_documents(hsaco: str) -> None:
    first, second = (emulate(hsaco, *SAXPY, "--json", arguments=SAXPY_ARGUMENTS) for _ in range(2))

    assert first.out == second.out


def test_the_table_fits_in_80_columns_and_calls_the_time_emulated(hsaco: str) -> None:
    answer = emulate(hsaco, *SAXPY, arguments=SAXPY_ARGUMENTS)

    assert answer.code == 0, answer.err
    assert max(map(len, answer.out.splitlines())) <= 80
    for word in ("saxpy", "us emulated", "us expected", "VGPR", "waves per SIMD", "VALU", "4 wavefronts", "f32[256]", "0 NaN"):
        assert word in answer.out


def test_the_output_directory_holds_database_document_and_counts(hsaco: str, tmp_path: Path) -> None:
    answer = emulate(hsaco, *SAXPY, "--output", "run", "--json", arguments=SAXPY_ARGUMENTS)

    directory = tmp_path / "run"
    assert sorted(path.name for path in directory.iterdir()) == [
        "emulation.json", "instruction_counts.json", "run_results.db", "y.npy",
    ]  # fmt: skip
    assert (directory / "emulation.json").read_text() == answer.out
    assert answer.document["outputs"][0]["file"] == "y.npy"
    trace = read_database(directory / "run_results.db")
    assert trace.provenance.emulated
    assert trace.counters_of(0)["SQ_WAVES"] == 4
    counts = json.loads((directory / "instruction_counts.json").read_text())
    assert counts["symbol"] == "saxpy"
    # Three whole wavefronts and one with 8 of its 64 work-items: 200 = 3 * 64 + 8.
    assert {row["executions"] for row in counts["instructions"]} == {4}
    assert {row["active_lanes"] for row in counts["instructions"]} == {None, 64.0, 50.0}
    assert sum(row["executions"] for row in counts["instructions"]) == answer.document["counters"]["SQ_INSTS"]


def test_a_geometry_may_have_three_dimensions(hsaco: str, tmp_path: Path) -> None:
    words = ("--kernel", "ids", "--grid", "2x3x2", "--block", "8x4", "--output", "run")
    answer = emulate(hsaco, *words, arguments=("i32[12x32]:out",))

    assert answer.code == 0, answer.err
    expected = np.arange(12)[:, None] * 1000 + np.arange(32)
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "out.npy"), expected)


def test_dynamic_lds(hsaco: str, tmp_path: Path) -> None:
    words = ("--kernel", "lds", "--grid", "1", "--block", "64", "--lds", "256", "--output", "run")
    answer = emulate(hsaco, *words, arguments=("i32[64]:out",))

    assert answer.code == 0, answer.err
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "out.npy"), np.arange(64)[::-1])


def test_a_struct_by_value_is_passed_as_bytes(hsaco: str, tmp_path: Path) -> None:
    line = struct.pack("<ff", 0.5, 3.0).hex()
    answer = emulate(
        hsaco, "--kernel", "line", "--grid", "1", "--block", "64", "--output", "run", arguments=("f32[64]:out", f"hex={line}")
    )

    assert answer.code == 0, answer.err
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "y.npy"), np.arange(64, dtype=np.float32) * 0.5 + 3)


def test_a_template_instance_is_found_by_its_cpp_name_and_files_are_read(hsaco: str, tmp_path: Path) -> None:
    values = np.arange(64, dtype=np.uint8)[::-1].copy()
    np.save(tmp_path / "in.npy", values)
    answer = emulate(
        hsaco, "--kernel", "widen<unsigned short>", "--grid", "1", "--block", "64", "--output", "run",
        arguments=("u8[64]:file=in.npy", "u16[64]:out"),
    )  # fmt: skip

    assert answer.code == 0, answer.err
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "y.npy"), values)


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_floats_without_a_npy_type_are_written_as_f32(hsaco: str, tmp_path: Path, dtype: str) -> None:
    answer = emulate(
        hsaco, "--kernel", "mark", "--grid", "1", "--block", "2", "--output", "run", "--json",
        arguments=(f"{dtype}[16]:arange:inout", "i32=0"),
    )  # fmt: skip

    assert answer.code == 0, answer.err
    written = 8 // (2 if dtype == "bf16" else 1)
    expected = np.where(np.arange(16) < written, 0, np.arange(16)).astype(np.float32)
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "out.npy"), expected)


def test_nan_and_infinities_are_strings_in_json(hsaco: str) -> None:
    answer = emulate(
        hsaco, "--kernel", "mark", "--grid", "1", "--block", "1", "--json",
        arguments=("f32[4]:constant:value=-inf:inout", f"i32={0x7FC00000}"),
    )  # fmt: skip

    (output,) = answer.document["outputs"]
    assert output["first"] == ["NaN", "-Infinity", "-Infinity", "-Infinity"]
    assert (output["nan_count"], output["min"], output["mean"]) == (1, "-Infinity", "-Infinity")


def test_an_unwritten_output_is_nan(hsaco: str) -> None:
    answer = emulate(hsaco, "--kernel", "mark", "--grid", "1", "--block", "1", arguments=("f32[4]:out", "i32=0"))

    assert "3 NaN" in answer.out


@pytest.mark.parametrize("wrap", [lambda data: bundle(("hip-amdgcn-amd-amdhsa--gfx942", data)), None])
def test_offload_bundles_and_object_files_are_accepted(hsaco: str, tmp_path: Path, wrap: Any) -> None:
    data = (tmp_path / hsaco).read_bytes()
    packed = bundle(("host-x86_64-unknown-linux", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+", data))
    (tmp_path / "packed.o").write_bytes(wrap(data) if wrap else host_executable(packed))

    assert emulate("packed.o", *SAXPY, arguments=SAXPY_ARGUMENTS).code == 0


def test_arguments_of_a_code_object_without_metadata(hsaco: str, tmp_path: Path) -> None:
    (tmp_path / "bare.hsaco").write_bytes(without_notes((tmp_path / hsaco).read_bytes()))
    words = ("bare.hsaco", "--kernel", "mark", "--grid", "1", "--block", "64", "--output", "run")

    answer = emulate(*words, "--json", arguments=("i32[64]:out", "i32=7"))

    assert answer.code == 0, answer.err
    assert [argument["name"] for argument in answer.document["arguments"]] == ["arg0", "arg1"]
    assert set(np.load(tmp_path / "run" / "arg0.npy")) == {7}
    refused(emulate(*words, arguments=("i32[64]:out", f"hex={'00' * 4096}")), says="bytes of arguments", hint="kernarg")


@pytest.mark.parametrize("length", [0, 3, 17, 63, 64, 200, 1000, 4000])
def test_a_truncated_file(hsaco: str, tmp_path: Path, length: int) -> None:
    (tmp_path / hsaco).write_bytes((tmp_path / hsaco).read_bytes()[:length])

    refused(emulate(hsaco, *SAXPY, arguments=SAXPY_ARGUMENTS), says="", where=hsaco)


def test_a_file_that_is_not_a_code_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.hip").write_text(SOURCE)

    refused(emulate("kernel.hip", *SAXPY), says="neither an ELF file nor an offload bundle", where="kernel.hip", hint=".hsaco")
    refused(emulate("nothing.hsaco", *SAXPY), says="No such file", where="nothing.hsaco")
    refused(emulate(".", *SAXPY), says="directory")


def test_an_object_file_that_is_not_linked(hsaco: str, tmp_path: Path) -> None:
    data = bytearray((tmp_path / hsaco).read_bytes())
    struct.pack_into("<H", data, 16, 1)
    (tmp_path / hsaco).write_bytes(data)

    refused(emulate(hsaco, *SAXPY, arguments=SAXPY_ARGUMENTS), says="not linked", where=hsaco, hint="ld.lld -shared")


def test_a_code_object_for_another_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.hsaco").write_bytes(build_hip(SOURCE, tmp_path, architecture="gfx90a").code_object.data)

    answer = emulate("other.hsaco", *SAXPY, "--target", "mi300x", arguments=SAXPY_ARGUMENTS)
    hint = "--target mi210 or mi250x; or compile it with --offload-arch=gfx942"
    refused(answer, says="the code object is for gfx90a, mi300x is gfx942", where="other.hsaco", hint=hint)
    answer = emulate("other.hsaco", *SAXPY, "--target", "rx6800xt", arguments=SAXPY_ARGUMENTS)
    refused(answer, says="rx6800xt is gfx1030", hint="mi210 or mi250x; or compile it with --offload-arch=gfx1030")
    own = emulate("other.hsaco", *SAXPY, arguments=SAXPY_ARGUMENTS)
    assert own.code == 0
    assert "mi250x (gfx90a)" in own.out
    data = bundle(("hip-amdgcn-amd-amdhsa--gfx90a", (tmp_path / "other.hsaco").read_bytes()))
    (tmp_path / "bundle.hsaco").write_bytes(data)
    assert "mi250x (gfx90a)" in emulate("bundle.hsaco", *SAXPY, arguments=SAXPY_ARGUMENTS).out
    answer = emulate("bundle.hsaco", *SAXPY, "--target", "mi300x", arguments=SAXPY_ARGUMENTS)
    refused(answer, says="no code object for gfx942, only for: gfx90a")


def test_one_of_several_kernels_must_be_named(hsaco: str) -> None:
    words = ("--grid", "1", "--block", "64")

    refused(emulate(hsaco, *words), says="the file has 12 kernels", hint="--kernel")
    refused(emulate(hsaco, "--kernel", "saxpi", *words), says="no kernel 'saxpi'", hint="Did you mean 'saxpy'?")


@pytest.mark.parametrize(
    ("arguments", "says", "where"),
    [
        (SAXPY_ARGUMENTS[:3], "has 4 arguments, but 3 were passed", "argument 3 (n: by_value, 4 bytes)"),
        ((*SAXPY_ARGUMENTS, "i32=1"), "has 4 arguments, but 5 were passed", "argument 0 (x"),
        ((*SAXPY_ARGUMENTS[:3], "i64=1"), "a scalar of 8 bytes was passed, but the kernel expects 4 bytes", "argument 3 (n"),
        (("f32=1", *SAXPY_ARGUMENTS[1:]), "pointer", "argument 0 (x"),
        ((*SAXPY_ARGUMENTS[:2], "f32[1]:zeros", "i32=1"), "a buffer was passed for an argument of 4 bytes", "argument 2 (a"),
        (
            ("f32[256]:nromal", *SAXPY_ARGUMENTS[1:]),
            "'nromal' is not an initialiser; did you mean normal?",
            "--arg f32[256]:nromal",
        ),
        (("f32[256]:file=no.npy", *SAXPY_ARGUMENTS[1:]), "cannot read no.npy", "(x)"),
        (("f32[9]:file=eight.npy", *SAXPY_ARGUMENTS[1:]), "has shape (8,), but the argument has (9,)", "(x)"),
        (("f32[8]:file=text.npy", *SAXPY_ARGUMENTS[1:]), "cannot read text.npy", "(x)"),
        (("f64[999999999999]:zeros", *SAXPY_ARGUMENTS[1:]), "exceed the", "--arg"),
        (("f32[4]:zeros", *SAXPY_ARGUMENTS[1:]), "global_load", "kernel.hip:6"),
    ],
)
def test_wrong_arguments(hsaco: str, tmp_path: Path, arguments: tuple[str, ...], says: str, where: str) -> None:
    np.save(tmp_path / "eight.npy", np.zeros(8, np.float32))
    (tmp_path / "text.npy").write_text("no array")

    refused(emulate(hsaco, *SAXPY, arguments=arguments), says=says, where=where)


@pytest.mark.parametrize(
    ("grid", "block", "says"),
    [
        ("0", "64", "--grid is '0': every dimension must be at least 1"),
        ("4x0", "64", "every dimension must be at least 1"),
        ("4", "0", "--block is '0'"),
        ("4,4", "64", "one to three whole numbers"),
        ("-1", "64", "--grid is '-1'"),
        ("4", "64x64", "4096 work-items in a workgroup"),
        ("1048576000", "256", "4,294,967,295 per dimension"),
    ],
)
def test_an_invalid_geometry(hsaco: str, grid: str, block: str, says: str) -> None:
    words = ("--kernel", "saxpy", f"--grid={grid}", f"--block={block}")

    refused(emulate(hsaco, *words, arguments=SAXPY_ARGUMENTS), says=says, hint="hint:")


@pytest.mark.parametrize(
    ("words", "says", "hint"),
    [
        (("--lds", "70000"), "70000 bytes of LDS", "less LDS"),
        (("--target", "mi300"), "unknown target 'mi300'", "Did you mean mi300x"),
        (("--check", "everything"), "unknown check 'everything'", "lds_races"),
    ],
)
def test_invalid_values_of_options(hsaco: str, words: tuple[str, ...], says: str, hint: str) -> None:
    refused(emulate(hsaco, *SAXPY, *words, arguments=SAXPY_ARGUMENTS), says=says, hint=hint)


@pytest.mark.parametrize("words", [("--lds", "-1"), ("--lds", "many"), ("--max-instructions", "0"), ("--bogus",)])
def test_options_rejected_by_click(hsaco: str, words: tuple[str, ...]) -> None:
    answer = emulate(hsaco, *SAXPY, *words, arguments=SAXPY_ARGUMENTS)

    assert answer.code == 2
    assert "Usage:" in answer.err


def test_with_work_items_the_last_workgroup_may_be_partial(hsaco: str) -> None:
    words = ("--kernel", "mark", "--work-items", "40", "--block", "64", "--output", "run", "--json")
    answer = emulate(hsaco, *words, arguments=("i32[64]:zeros:out", "i32=9"))

    assert np.load("run/out.npy").tolist() == [9] * 40 + [0] * 24
    assert (answer.document["grid"], answer.document["work_items"]) == ([1, 1, 1], [40, 1, 1])


@pytest.mark.parametrize("words", [(), ("--grid", "1", "--work-items", "64")], ids=["neither", "both"])
def test_one_of_grid_and_work_items_is_required(hsaco: str, words: tuple[str, ...]) -> None:
    answer = emulate(hsaco, "--kernel", "mark", *words, "--block", "64", arguments=("i32[64]:out", "i32=9"))

    refused(answer, says="exactly one of --grid and --work-items is required", hint="--grid counts workgroups")


def test_grid_and_block_are_required(hsaco: str) -> None:
    assert emulate(hsaco, "--kernel", "saxpy").code == 2


def test_a_kernel_that_never_ends(hsaco: str) -> None:
    words = ("--kernel", "spin", "--grid", "1", "--block", "64", "--max-instructions", "100000")

    refused(emulate(hsaco, *words, arguments=("i32[1]:zeros:inout",)), says="100,000", where="kernel.hip:")


def test_a_wild_pointer(hsaco: str) -> None:
    words = ("--kernel", "store_at", "--grid", "1", "--block", "64")

    refused(emulate(hsaco, *words, arguments=("i32[1]:out", "i64=0x10000000000")), says="global_store", where="kernel.hip:")


def test_a_trap(hsaco: str) -> None:
    words = ("--kernel", "trap", "--grid", "1", "--block", "64")

    refused(emulate(hsaco, *words, arguments=("i32[1]:out",)), says="s_trap", where="kernel.hip:")


def test_kernel_output_is_shown_under_a_heading_and_stored(hsaco: str, tmp_path: Path) -> None:
    words = ("--kernel", "says", "--grid", "1", "--block", "2", "--output", str(tmp_path / "run"))
    answer = emulate(hsaco, *words, arguments=("i32[2]:arange:inout",))

    assert answer.code == 0
    assert answer.out.partition("printed by the kernel\n")[2].splitlines()[:2] == ["0!", "1!"]
    assert "3 calls of the host (printf, malloc)" in answer.out
    assert (tmp_path / "run" / "printed.txt").read_text() == "0!\n1!\n"


def test_json_contains_the_kernel_output(hsaco: str) -> None:
    words = ("--kernel", "says", "--grid", "1", "--block", "2", "--json")
    document = emulate(hsaco, *words, arguments=("i32[2]:arange:inout",)).document

    assert document["printed"] == [{"stream": "stdout", "text": "0!\n1!\n"}]
    assert document["host_calls"] == 3  # begin, text, number
    assert len(document["notes"]) == 1


def test_output_before_an_error_is_shown(hsaco: str) -> None:
    words = ("--kernel", "falls", "--grid", "1", "--block", "1")
    arguments = ("i32[1]:out", "i64=0x10000000000")

    shown, quiet = emulate(hsaco, *words, arguments=arguments), emulate(hsaco, *words, "--json", arguments=arguments)

    assert (shown.code, quiet.code) == (2, 2)
    assert shown.out == "printed by the kernel\non the way\n"
    assert quiet.out == ""
    assert quiet.err.splitlines()[-2:] == ["  the kernel printed:", "    on the way"]


def test_an_unwritable_directory(hsaco: str, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file stands here")
    words = (*SAXPY, "--output", "blocked/run")

    refused(emulate(hsaco, *words, arguments=SAXPY_ARGUMENTS), says="cannot write", where="blocked", hint="--output")


def test_checks_report_defects_after_the_result(hsaco: str) -> None:
    words = ("--kernel", "race", "--grid", "1", "--block", "128", "--json")

    unchecked = emulate(hsaco, *words, arguments=("i32[1]:out",))
    checked = emulate(hsaco, *words, "--check", "all", arguments=("i32[1]:out",))

    assert (unchecked.code, unchecked.document["findings"]) == (0, [])
    assert checked.code == 1
    assert {finding["check"] for finding in checked.document["findings"]} == {"memory_races"}
    assert "the checks found 1 defect in kernel race" in checked.err
    assert "kernel.hip:" in checked.err


def test_a_kernel_without_defects_passes_all_checks(hsaco: str) -> None:
    answer = emulate(hsaco, *SAXPY, "--check", "all", arguments=SAXPY_ARGUMENTS)

    assert answer.code == 0, answer.err


@pytest.mark.parametrize(
    ("given", "count", "names"),
    [
        (["x", "y"], 2, ("x", "y")),
        (["x"], 3, ("x", "arg1", "arg2")),
        (["", "x", ""], 3, ("arg0", "x", "arg2")),
        (["x", "x"], 2, ("arg0", "arg1")),
        (["arg1", ""], 2, ("arg1", "arg1_")),
        ([], 0, ()),
    ],
)
def test_argument_names_are_unique(kernels: Path, given: list[str], count: int, names: tuple[str, ...]) -> None:
    kernel = read_code_object(kernels.read_bytes()).kernels[0]
    arguments = (*(KernelArgument(name, 8 * n, 8, "by_value") for n, name in enumerate(given)),)
    hidden = KernelArgument("", 800, 8, "hidden_none")

    assert argument_names(replace(kernel, arguments=(*arguments, hidden)), count) == names


def test_a_summary_excludes_nan() -> None:
    row = summarise_output("x", np.array([[np.nan, 2.0], [-1.0, np.nan]], dtype=np.float16))

    assert (row.dtype, row.shape, row.smallest, row.largest, row.mean, row.nan_count) == ("f16", (2, 2), -1.0, 2.0, 0.5, 2)


def test_a_summary_of_nan_only_has_no_numbers() -> None:
    row = summarise_output("x", np.full(3, np.nan, dtype=np.float32))

    assert (row.smallest, row.largest, row.mean, row.nan_count) == (None, None, None, 3)


def test_a_summary_of_integers_is_exact() -> None:
    row = summarise_output("x", np.array([2**64 - 1, 0], dtype=np.uint64))

    assert (row.smallest, row.largest, row.nan_count, row.first) == (0, 2**64 - 1, 0, (2**64 - 1, 0))


def test_the_command_line_imports_only_click_at_start() -> None:
    heavy = "{'numpy', 'rich', 'hydra', 'yaml', 'pydantic', 'mlflow'} & set(sys.modules)"
    program = f"import sys, rocm_perf_lab.cli; sys.exit(str({heavy} or ''))"

    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr.strip() == ""


def test_debug_prints_the_traceback(hsaco: str) -> None:
    result = CliRunner().invoke(main, ["emulate", hsaco, *SAXPY, "--debug"])

    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "has 4 arguments" in result.stderr.splitlines()[-3]
