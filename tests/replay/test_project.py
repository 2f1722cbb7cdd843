"""`rocm-perf replay project` and `compare`: editable projects of captures, and their measurement."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from rocm_perf_lab.cli import main
from rocm_perf_lab.device.protocol import Launch, ScalarValue
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.spec import KernelSpec
from rocm_perf_lab.replay.device import ReplayDevice
from rocm_perf_lab.replay.format import Region
from rocm_perf_lab.replay.kernarg import reached_only_from
from rocm_perf_lab.replay.project.arguments import captured_arguments, source_parameters
from rocm_perf_lab.replay.project.creation import guarded_macros
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.tool_build import find_cpp_compiler
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.hsa_headers import find_hsa_headers
from tests.builders.captures import Scene, list_capture, scale_capture
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from click.testing import Result

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
HEADER = "#pragma once\n__device__ inline float scaled(float x) { return FACTOR * x; }\n"
SOURCE = """#include <hip/hip_runtime.h>
#include "../include/scaled.h"
struct Options { int n; float bias; int unused; };
__constant__ float table[2] = {1.0f, 2.0f};
__global__ void shift(const float* __restrict__ in, float* out, Options options) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < options.n) out[i] = scaled(in[i]) * table[i & 1] + options.bias;
}
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source tree with a header and a compilation database, and the capture of its kernel."""
    root = tmp_path_factory.mktemp("application")
    (root / "src").mkdir()
    (root / "include").mkdir()
    (root / "src" / "shift.hip").write_text(SOURCE)
    (root / "include" / "scaled.h").write_text(HEADER)
    command = "hipcc -DFACTOR=3.0f -O2 -Wall -c src/shift.hip -o shift.o"
    (root / "compile_commands.json").write_text(
        json.dumps([{"directory": str(root), "file": "src/shift.hip", "command": command}])
    )
    request = CompileRequest(root / "src" / "shift.hip", defines={"FACTOR": "3.0f"}, optimisation="-O2")
    code_object = compile_source(request).code_object
    scene = Scene(code_object)
    buffers = [scene.buffer(np.arange(128, dtype=np.float32)), scene.buffer(bytes(512), "out")]
    options = struct.pack("<ifi", 128, 0.5, 0)
    scene.capture(root / "capture", code_object.kernels[0].symbol, [*buffers, options], block=128)
    return root


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


def created(capture: Path, directory: Path, *options: str | Path) -> dict[str, Any]:
    result = run("project", capture, directory, "--json", *options)
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / "replay_project.schema.json").read_text()))
    return document


def make(directory: Path, *targets: str) -> str:
    """Run make with the rocm-perf of this environment."""
    program = f"{sys.executable} -m rocm_perf_lab.cli"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run(
        ["make", "-s", f"ROCM_PERF={program}", *targets],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_the_source_is_found_by_its_compilation_database_and_copied_with_its_header(tree: Path, tmp_path: Path) -> None:
    document = created(tree / "capture", tmp_path / "work", "--compile-commands", tree)

    place = tmp_path / "work" / "experiments" / "shift"
    assert (place / "source" / "src" / "shift.hip").read_text() == SOURCE
    assert (place / "source" / "include" / "scaled.h").read_text() == HEADER
    assert document["source"]["defines"] == {"FACTOR": "3.0f"}
    assert document["source"]["flags"] == ["-O2"]
    assert document["source"]["machine_code"] in ("identical", "relocated")
    description = yaml.safe_load((place / "kernel.yaml").read_text())
    assert [argument["name"] for argument in description["arguments"]] == ["in", "out", "options"]
    assert [argument.get("access") for argument in description["arguments"]] == ["in", "inout", None]
    assert description["arguments"][2]["fields"] == [
        {"dtype": "u32", "value": 128},
        {"dtype": "u32", "value": 0x3F000000},
        {"dtype": "u32", "value": 0},
    ]
    assert np.array_equal(np.load(place / "data" / "in.npy"), np.arange(128, dtype=np.float32))
    expected = 3 * np.arange(128) * np.tile([1, 2], 64) + 0.5
    assert np.array_equal(np.load(place / "data" / "out.result.npy"), expected.astype(np.float32))


@pytest.mark.slow
def test_make_checks_and_times_a_project_and_finds_a_wrong_edit(tree: Path, tmp_path: Path) -> None:
    created(tree / "capture", tmp_path / "work", "--compile-commands", tree)

    assert "Check passed: 1 replay equals the captured result byte for byte" in make(tmp_path / "work", "check")
    assert "indistinguishable" in make(tmp_path / "work", "time")
    assert "emulated" in make(tmp_path / "work", "profile", "ARGS=tracking=none --quiet")

    header = tmp_path / "work" / "experiments" / "shift" / "source" / "include" / "scaled.h"
    header.write_text(HEADER.replace("FACTOR * x", "x"))
    make(tmp_path / "work", "all")
    result = run("full-vm", "--capture-dir", tree / "capture", "--hsaco", tmp_path / "work" / "build" / "kernel.hsaco", "--check")
    assert result.exit_code == 1
    assert "Check failed" in result.output


def test_the_relation_of_the_machine_code_is_one_line(tree: Path, tmp_path: Path) -> None:
    result = run("project", tree / "capture", tmp_path / "work", "--compile-commands", tree)

    line = next(line for line in result.output.splitlines() if line.startswith("code "))
    assert line.endswith(("byte for byte", "distances to data and functions"))


def test_without_source_the_project_is_assembly_that_reproduces_the_result(tree: Path, tmp_path: Path) -> None:
    document = created(tree / "capture", tmp_path / "work", "--assembly")
    place = tmp_path / "work" / "experiments" / "shift"

    assert document["source"]["language"] == "assembly"
    assert document["source"]["machine_code"] in ("identical", "relocated")
    assert "table@rel32@lo+4" in (place / "kernel.s").read_text()
    built = run("build", place / "kernel.yaml", "--output", tmp_path / "kernel.hsaco")
    assert built.exit_code == 0, built.output
    checked = run("full-vm", "--capture-dir", tree / "capture", "--hsaco", tmp_path / "kernel.hsaco", "--check", "--json")
    assert json.loads(checked.stdout)["verification"]["passed"]


def test_a_source_that_is_not_found_leads_to_assembly_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    capture = scale_capture(tmp_path / "scale", n=64)

    document = created(capture, tmp_path / "work")

    assert document["source"]["language"] == "assembly"
    assert document["source"]["machine_code"] == "identical"
    assert any(note.startswith("no source: ") for note in document["notes"])


def test_a_directory_with_content_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    capture = scale_capture(tmp_path / "scale", n=64)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("mine")

    result = run("project", capture, tmp_path / "work")

    assert result.exit_code == 2
    assert "not empty" in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scale", "work"]
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["notes.txt"]


def test_a_given_source_that_does_not_compile_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    capture = scale_capture(tmp_path / "scale", n=64)
    (tmp_path / "wrong.hip").write_text("__global__ void scale(float* x) { x[0] = undeclared; }\n")

    result = run("project", capture, tmp_path / "work", "--source", tmp_path / "wrong.hip")

    assert result.exit_code == 2
    assert "undeclared" in result.output
    assert not (tmp_path / "work").exists()


def test_the_comparison_of_a_capture_with_itself_is_indistinguishable(tmp_path: Path) -> None:
    capture = scale_capture(tmp_path / "scale", n=256)

    result = run("compare", "--capture-dir", capture, "--hsaco", capture / "kernel.hsaco", "--json", "--caches", "cold")

    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / "replay_compare.schema.json").read_text()))
    assert document["time_kind"] == "emulated"
    assert document["baseline"]["median_us"] == document["candidate"]["median_us"]
    assert document["speedup"]["estimate"] == 1
    assert document["speedup"]["verdict"] == "indistinguishable"
    assert document["verification"]["passed"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__global__ void k(const float* __restrict__ a, int n) {}", [("a", "const float*"), ("n", "int")]),
        ("template <typename T, int N> __global__ void k(T *p, Pair<int, float> q, float f = 1.0f) {}",
         [("p", "T*"), ("q", "Pair < int , float >"), ("f", "float")]),
        ("__global__ __launch_bounds__(128) void k(float* x, int n) {}", [("x", "float*"), ("n", "int")]),
        ("namespace n { __global__ void __launch_bounds__(256) k(void) {} }", []),
        ("__device__ void other(int a) {}", []),
    ],
)  # fmt: skip
def test_parameters_of_a_kernel_are_read_from_its_source(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(parameter.name, parameter.declared) for parameter in source_parameters(text, "k")] == expected


def test_a_copy_of_a_source_compiles_to_the_same_code_object_as_the_source_next_to_its_headers(tmp_path: Path) -> None:
    place = tmp_path / "project"
    (place / "source" / "include").mkdir(parents=True)
    (place / "copies").mkdir()
    (place / "source" / "include" / "scaled.h").write_text("__device__ inline float scaled(float x) { return 3 * x; }\n")
    text = '#include "scaled.h"\nextern "C" __global__ void k(float* x) { x[threadIdx.x] = scaled(x[threadIdx.x]); }\n'
    for directory in ("source", "copies"):
        (place / directory / "k.hip").write_text("#include <hip/hip_runtime.h>\n" + text)
    description = KernelSpec(
        name="k", source=place / "source" / "k.hip", entry="k", include_dirs=(place / "source" / "include",),
        arguments=(), grid=(1,), block=(1,),
    )  # fmt: skip

    builds = [
        compile_description(description, place / directory / "k.hip", architecture="gfx942", compiler=find_compiler, fresh=True)
        for directory in ("source", "copies")
    ]

    assert builds[0].code_object.sha256 == builds[1].code_object.sha256


def test_buffers_of_one_allocation_end_where_the_next_argument_begins(tmp_path: Path) -> None:
    scene = Scene()
    pool = scene.buffer(np.arange(512, dtype=np.float32)).address
    scalars = [struct.pack("<f", 3.0), struct.pack("<i", 64)]
    scene.capture(tmp_path / "pooled", "scale", [pool, pool + 1024, *scalars])

    found = captured_arguments(open_capture(tmp_path / "pooled"))

    assert [(buffer.before.nbytes, buffer.is_written) for buffer in found.buffers] == [(1024, False), (1024, True)]
    assert np.array_equal(found.buffers[1].after.view(np.float32)[:64], 3 * np.arange(64, dtype=np.float32))
    assert found.notes == ()


def test_macros_with_a_default_in_the_source_are_parameters_of_the_project() -> None:
    text = (
        "#ifndef SHIFT_H\n#define SHIFT_H 1\n#ifndef TILE\n# define TILE 16  // columns\n#endif\n"
        "#ifndef WIDTH\n#define WIDTH (2 * TILE)\n#endif\n#define FIXED 8\n#endif\n"
    )

    assert guarded_macros([text, "#ifndef ROWS\n#define ROWS 4\n#endif"]) == {"TILE": "16", "ROWS": "4"}


def test_a_default_of_the_source_is_in_the_description_and_the_space(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "include" / "scaled.h").write_text(HEADER.replace("FACTOR", "(TILE - 1.0f)"))
    (tmp_path / "src" / "shift.hip").write_text("#ifndef TILE\n#define TILE 4\n#endif\n" + SOURCE)

    document = created(tree / "capture", tmp_path / "work", "--source", tmp_path / "src" / "shift.hip", "--flags", "-O2")

    place = tmp_path / "work" / "experiments" / "shift"
    assert document["source"]["machine_code"] in ("identical", "relocated")
    assert yaml.safe_load((place / "kernel.yaml").read_text())["params"] == {"TILE": 4}
    assert yaml.safe_load((place / "space.yaml").read_text())["parameters"] == {"TILE": [2, 4, 8]}


STRUCTURE = """#include <hip/hip_runtime.h>
struct Tensors { const float* in; float* out; int n; };
extern "C" __global__ void twice(Tensors t) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < t.n) t.out[i] = 2 * t.in[i];
}
"""


@pytest.fixture(scope="module")
def structured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source and capture of a kernel whose only argument is a structure with two pointers."""
    root = tmp_path_factory.mktemp("structured")
    (root / "twice.hip").write_text(STRUCTURE)
    code_object = compile_source(CompileRequest(root / "twice.hip")).code_object
    scene = Scene(code_object)
    read, written = scene.buffer(np.arange(128, dtype=np.float32)), scene.buffer(bytes(512), "out")
    scene.capture(root / "capture", "twice", [struct.pack("<QQii", read.address, written.address, 128, 0)], block=128)
    return root


def test_a_kernel_with_pointers_in_a_structure_runs_on_the_captured_memory(structured: Path, tmp_path: Path) -> None:
    document = created(structured / "capture", tmp_path / "work", "--source", structured / "twice.hip")

    assert any("contains pointers, or equal numbers (captured regions: 2)" in note for note in document["notes"])
    makefile = (tmp_path / "work" / "Makefile").read_text()
    assert "profile kernel=$(NAME) target=mi300x device=replay" in makefile
    refused = subprocess.run(["make", "optimize"], cwd=tmp_path / "work", capture_output=True, text=True, check=False)
    assert (refused.returncode, "the arguments contain pointers" in refused.stderr) == (2, True)


def test_without_output_arguments_the_memory_that_the_dispatch_changed_is_compared(structured: Path, tmp_path: Path) -> None:
    capture = open_capture(structured / "capture")
    wrong = tmp_path / "wrong.hip"
    wrong.write_text(STRUCTURE.replace("i < t.n", "i < 127"))
    right, other = capture.code_object, compile_source(CompileRequest(wrong)).code_object
    arguments = (ScalarValue("t", capture.kernarg[:24]),)
    launches = [Launch(code, "twice", (1, 1, 1), (128, 1, 1), 0, arguments) for code in (right, other)]
    device = ReplayDevice(target=mi300x(), device="emulator", capture=str(structured / "capture"), threads=1)

    expected = device.expected_outputs(launches[0])
    ran = [device.run(one, database=tmp_path / f"{i}.db", runs=1, counters=()).outputs for i, one in enumerate(launches)]
    device.close()

    assert expected is not None
    ((name, wanted),) = expected.items()
    assert wanted[:512].view(np.float32).tolist() == [2.0 * i for i in range(128)]
    assert np.array_equal(ran[0][name], wanted)
    assert np.flatnonzero(ran[1][name].view(np.float32) != wanted.view(np.float32)).tolist() == [127]


def test_pointers_in_buffers_are_reported(tmp_path: Path) -> None:
    (note,) = captured_arguments(open_capture(list_capture(tmp_path / "list", (1, 2)))).notes

    assert "contain pointers" in note


def test_a_kernel_that_follows_pointers_is_profiled_on_the_captured_memory(tmp_path: Path) -> None:
    created(list_capture(tmp_path / "list", (1, 2)), tmp_path / "work", "--assembly")

    assert "profile kernel=$(NAME) target=mi300x device=replay" in (tmp_path / "work" / "Makefile").read_text()


def test_make_autotune_names_the_file_of_the_space_and_uses_it_once_it_exists(tree: Path, tmp_path: Path) -> None:
    created(tree / "capture", tmp_path / "work", "--compile-commands", tree)
    command = ["make", "-C", str(tmp_path / "work"), "autotune"]

    missing = subprocess.run(command, capture_output=True, text=True, check=False)
    (tmp_path / "work" / "experiments" / "shift" / "space.yaml").write_text("parameters: {TILE: [2, 4]}\n")
    present = subprocess.run([*command, "-n"], capture_output=True, text=True, check=True)

    assert missing.returncode == 2
    assert "params: {TILE: 4}, defines: {TILE: TILE}" in missing.stderr
    assert "--space experiments/shift/space.yaml" in present.stdout


def test_memory_that_only_the_services_of_the_host_reach_is_theirs() -> None:
    service = Region(base=0x10000, size=4096, reached_from=("kernarg", "0x10000"), error="unreadable")
    signals = Region(base=0x20000, size=4096, reached_from=("0x20000", "0x10000"), error="unreadable")
    events = Region(base=0x30000, size=4096, reached_from=("0x20000",), error="unreadable")
    shared = Region(base=0x40000, size=4096, reached_from=("0x10000", "kernarg"), error="unreadable")

    assert reached_only_from((events, shared, signals, service), service) == [signals, events]


@pytest.mark.parametrize(
    ("symbol", "name", "bare"),
    [
        ("_ZN3lab3ops10half_scaleEPKDF16_PDF16_i.kd", "lab::ops::half_scale(_Float16 const*, _Float16*, int)", "half_scale"),
        ("_Z4castPKDF16bPDF16_S0_.kd", "cast(__bf16 const*, _Float16*, __bf16 const*)", "cast"),
        ("_Z3addIfEvPT_.kd", "void add<float>(float*)", "add"),
        ("_Z13half_of_halvePDh.kd", "half_of_halve(half*)", "half_of_halve"),
    ],
)
def test_the_tool_demangles_half_precision_types_and_finds_kernels_without_their_namespace(
    tool_names: Path, symbol: str, name: str, bare: str
) -> None:
    printed = subprocess.run([tool_names, symbol, bare], capture_output=True, text=True, check=True).stdout.splitlines()

    assert printed == [name, "1"]


@pytest.fixture(scope="module")
def tool_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that prints the demangled name of a symbol, and whether a filter matches it."""
    place = tmp_path_factory.mktemp("names")
    (place / "main.cpp").write_text(
        '#include <iostream>\n#include "settings.h"\nint main(int, char** words) { using namespace capture;\n'
        "std::cout << demangled_name(words[1]) << '\\n' << KernelFilter(words[2]).matches(words[1]) << '\\n'; }\n"
    )
    native = Path(__file__).parents[2] / "rocm_perf_lab" / "replay" / "native"
    sources = [place / "main.cpp", native / "settings.cpp"]
    includes = [f"-I{native}", "-isystem", str(find_hsa_headers())]
    subprocess.run([*find_cpp_compiler().command, "-std=c++17", *includes, *sources, "-o", place / "names"], check=True)
    return place / "names"
