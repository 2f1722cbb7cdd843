"""Bad input is reported by one error with place and hint: exit code 2, no traceback, no partial output."""

from pathlib import Path

import pytest

from rocm_perf_lab.cli.entry import run_lab
from tests.builders.command import Answer

SOURCE = """#include <hip/hip_runtime.h>
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
"""
DESCRIPTION = """name: twice
language: hip
source: twice.hip
entry: twice
params:
  n: 256
arguments:
  - {name: x, kind: buffer, dtype: f32, shape: [n], init: {kind: normal, seed: 1}}
  - {name: y, kind: buffer, dtype: f32, shape: [n], access: out}
  - {name: n, kind: scalar, dtype: i32, value: n}
grid: [1]
block: [256]
reference:
  y: 2 * x
"""
PROFILE = ("job=profile", "kernel=twice", "device=emulator", "tracking=none")


class Directory:
    """Working directory with one experiment."""

    def __init__(self, path: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capture = capture
        (path / "experiments" / "twice").mkdir(parents=True)
        self.source.write_text(SOURCE)
        self.description.write_text(DESCRIPTION)

    @property
    def source(self) -> Path:
        return self.path / "experiments" / "twice" / "twice.hip"

    @property
    def description(self) -> Path:
        return self.path / "experiments" / "twice" / "kernel.yaml"

    def change(self, file: Path, old: str, new: str) -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))

    def run(self, *words: str) -> Answer:
        self._capture.readouterr()
        code = run_lab([*PROFILE, *words])
        out, err = self._capture.readouterr()
        return Answer(code, out, err)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Directory:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    return Directory(tmp_path, capsys)


def refused(answer: Answer, *, says: str, where: str = "", hint: str = "") -> None:
    """Check that there is one error, and no profile."""
    assert answer.code == 2
    first, *rest = [line for line in answer.err.splitlines() if line]
    assert first.startswith("error: ")
    assert says in answer.err
    assert "Traceback" not in answer.err + answer.out
    assert any(where in line for line in [first, *rest])
    assert any(line.strip().startswith("hint:") and hint in line for line in rest) or not hint
    assert not list(Path.cwd().rglob("profile.json"))


def test_the_experiment_itself_runs(directory: Directory) -> None:
    answer = directory.run()

    assert answer.code == 0, answer.err
    assert list(directory.path.rglob("profile.json"))


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("optimizer.min_improvment=0.1", "did you mean optimizer.min_improvement?"),
        ("kernel.parms.n=3", "did you mean kernel.params.n?"),
        ("kernel.params.m=3", "valid keys of kernel.params: n"),
        ("kernel.dynamic_lds_bytes=4", "write +kernel.dynamic_lds_bytes=..."),
        ("device.thread=2", "did you mean device.threads?"),
        ("+toolchain.compiler=1", "did you mean toolchain.compilers?"),
    ],
)
def test_an_unknown_key_on_the_command_line_suggests_the_nearest(directory: Directory, word: str, hint: str) -> None:
    refused(directory.run(word), says="unknown key", where=word, hint=hint)


def test_an_unknown_key_in_a_file_is_reported_with_file_and_line(directory: Directory) -> None:
    directory.change(directory.description, "grid: [1]", "gird: [1]")

    refused(
        directory.run(), says="unknown key 'kernel.gird'", where=f"{directory.description}:11", hint="did you mean kernel.grid?"
    )


def test_an_unknown_key_of_an_argument_is_found_in_its_list(directory: Directory) -> None:
    directory.change(directory.description, "access: out}", "acess: out}")

    refused(directory.run(), says="unknown key 'kernel.arguments[1].acess'", where=f"{directory.description}:9", hint="access?")


def test_a_value_of_the_wrong_type_names_its_origin(directory: Directory) -> None:
    refused(directory.run("passes.runs=many"), says="valid integer", where="from the override 'passes.runs=many'")


@pytest.mark.parametrize(
    ("word", "hint"), [("kernel=twise", "did you mean kernel=twice?"), ("target=mi300", "did you mean target=mi300x?")]
)
def test_an_unknown_option_of_a_group_suggests_the_nearest(directory: Directory, word: str, hint: str) -> None:
    refused(directory.run(word), says="there is no", where=word, hint=hint)


@pytest.mark.parametrize("form", ["{}/experiments/twice/kernel.yaml", "{}/experiments/twice", "./experiments/twice"])
def test_the_path_of_a_kernel_is_refused_with_its_name_and_the_directory_of_kernels(directory: Directory, form: str) -> None:
    path = form.format(directory.path)

    refused(
        directory.run(f"kernel={path}"),
        says=f"kernel={path} is a path",
        where=f"the override kernel={path}",
        hint="kernel=twice;",
    )
    refused(directory.run(f"kernel={path}"), says="is selected by name", hint=f"{directory.path}/experiments/NAME/kernel.yaml")


@pytest.mark.parametrize(
    ("word", "says", "hint"),
    [
        ("experiment=softmax_optimize", "experiment is not part of the configuration", "write +experiment=softmax_optimize"),
        ("+experiment=sofmax_optimize", "there is no experiment named", "did you mean +experiment=softmax_optimize?"),
        ("+target=mi300x", "target is chosen twice", "write target=NAME without +"),
        ("space=null", "the option of a group must be a name", "space=none"),
    ],
)
def test_a_choice_of_a_group_is_explained(directory: Directory, word: str, says: str, hint: str) -> None:
    refused(directory.run(word), says=says, hint=hint)


def test_invalid_yaml_is_reported_with_file_and_line(directory: Directory) -> None:
    directory.change(directory.description, "grid: [1]", "grid: [1")

    refused(directory.run(), says="YAML", where=f"{directory.description}:12", hint="bracket")


def test_a_missing_source_file(directory: Directory) -> None:
    directory.source.unlink()

    refused(directory.run(), says="source file does not exist", where=str(directory.source), hint="path")


def test_an_unknown_entry_suggests_the_nearest(directory: Directory) -> None:
    refused(directory.run("kernel.entry=thrice"), says="no kernel 'thrice'", where="twice", hint="Did you mean 'twice'?")


def test_a_source_that_does_not_compile_shows_the_users_file_and_line(directory: Directory) -> None:
    directory.change(directory.source, "2.0f * x[i]", "2.0f * z[i]")

    refused(directory.run(), says="use of undeclared identifier 'z'", where=f"{directory.source}:4")


@pytest.mark.parametrize("reference", ["'2 * x[:10]'", "'[[1.0]] * x'"])
def test_a_reference_of_the_wrong_shape(directory: Directory, reference: str) -> None:
    directory.change(directory.description, "y: 2 * x", f"y: {reference}")

    refused(directory.run(), says="y", where="kernel.reference")


def test_output_that_differs_from_the_reference_exits_with_1(directory: Directory) -> None:
    directory.change(directory.source, "2.0f * x[i]", "3.0f * x[i]")

    answer = directory.run()

    assert answer.code == 1
    assert "256 of 256 elements are wrong" in answer.err


def test_a_kernel_that_writes_out_of_bounds_names_access_line_and_buffer(directory: Directory) -> None:
    directory.change(directory.source, "y[i] =", "y[i + 255] =")

    refused(directory.run(), says="global_store", where="twice.hip:4")
    assert "buffer 'y'" in directory.run().err


def test_a_kernel_that_never_ends_stops_at_its_instruction_budget_and_names_the_loop(directory: Directory) -> None:
    directory.change(directory.source, "if (i < n)", "while (n > 0) __builtin_amdgcn_s_sleep(1);\n  if (i < n)")

    refused(directory.run("device.max_instructions=100000"), says="100,000", where="twice.hip:4", hint="max_instructions")


def test_a_missing_compiler_has_an_installation_hint(directory: Directory) -> None:
    refused(directory.run("toolchain.compilers=[hipcc]"), says="no usable compiler", hint="rocm-perf-lab[emulator]")


def test_an_unwritable_output_directory(directory: Directory) -> None:
    (directory.path / "outputs").write_text("a file stands where the directory should be")

    refused(directory.run(), says="cannot", where="outputs", hint="hydra.run.dir=")


def test_a_workgroup_that_is_too_large_for_the_target(directory: Directory) -> None:
    refused(directory.run("kernel.block=[2048]"), says="1024")


def test_an_argument_too_few(directory: Directory) -> None:
    directory.change(directory.description, "  - {name: n, kind: scalar, dtype: i32, value: n}\n", "")

    refused(directory.run(), says="has 3 arguments, but 2 were passed", hint="argument")


def test_an_expression_with_an_unknown_name(directory: Directory) -> None:
    refused(directory.run("kernel.grid=[m]"), says="cannot evaluate 'm'", where="kernel.grid[0]", hint="n")


def test_no_gpu_for_the_rocm_device(directory: Directory) -> None:
    refused(directory.run("device=rocm"), says="no GPU", where="device=rocm", hint="device=emulator")


def test_a_finding_of_a_check_exits_with_1_and_is_stored(directory: Directory) -> None:
    directory.change(directory.source, "y[i] = 2.0f * x[i];", "y[i] = 2.0f * x[i];\n  if (i == 0) y[200] = 1.0f;")

    answer = directory.run("device.check=all")

    assert answer.code == 1
    assert "race on byte 800 of buffer 'y'" in answer.err
    assert "twice.hip:5" in answer.err
    assert list(directory.path.rglob("checks.json"))


def test_an_unknown_check(directory: Directory) -> None:
    refused(directory.run("device.check=race"), says="unknown check 'race'", where="device.check", hint="lds_races")


def test_debug_shows_the_traceback(directory: Directory) -> None:
    directory.source.unlink()

    answer = directory.run("--debug")

    assert answer.code == 2
    assert "Traceback" in answer.err
    assert "source file does not exist" in answer.err
