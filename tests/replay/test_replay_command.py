"""`rocm-perf replay`: commands, output, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from click.testing import CliRunner

from rocm_perf_lab.cli import main
from rocm_perf_lab.target.catalog import load_target
from tests.builders.captures import code_object, scale_capture

if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scale_capture(tmp_path_factory.mktemp("command") / "scale", n=256)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


def emulated(command: str, directory: Path, *arguments: str | Path) -> Result:
    return run(command, "--capture-dir", directory, "--device", "emulator", *arguments)


def test_full_vm_prints_the_documented_lines(captured: Path) -> None:
    result = emulated("full-vm", captured, "--iterations", "5")

    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[:3] == ["Memory reconstructed.", "Iterations: 5", "Recopy between iterations: yes"]
    assert lines[3].startswith("Average GPU time: 0.00")
    assert lines[3].endswith(" ms (emulated)")
    assert lines[4].startswith("Total wall time: ")


def test_the_json_report_conforms_to_the_committed_schema(captured: Path) -> None:
    result = emulated("full-vm", captured, "--iterations", "3", "--no-recopy", "--json", "--check")
    document = json.loads(result.stdout)

    schema = Path(__file__).parents[2] / "docs" / "schemas" / "replay.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    assert document["kernel"]["name"] == "scale"
    assert document["execution"] == {"iterations": 3, "mode": "stateful"}
    assert document["timing"]["unit"] == "microseconds"
    assert document["timing"]["kind"] == "emulated"
    errors = load_target("mi300x").timing_errors
    low, high = errors.around(document["timing"]["median"])
    assert document["timing"]["expected"] == {
        "coverage": errors.expected.coverage,
        "low": pytest.approx(low),
        "high": pytest.approx(high),
        "ratio_factor": errors.decisive.factor,
        "status": errors.status,
    }
    assert document["hsaco_path"] == f"{captured}/kernel.hsaco"
    assert document["verification"]["checked_replays"] == 1


def test_reserve_check_reports_exact_addresses(captured: Path) -> None:
    result = emulated("reserve-check", captured)

    assert result.exit_code == 0
    assert "exact: all 3 captured ranges" in result.output


def test_the_default_capture_directory_is_used_without_the_option(
    captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(captured, tmp_path / "isolate_capture")
    monkeypatch.chdir(tmp_path)

    assert run("reserve-check", "--device", "emulator").exit_code == 0


def test_info_and_verify_need_no_device(captured: Path) -> None:
    info, verify = run("info", captured, "--json"), run("verify", captured)

    document: dict[str, Any] = json.loads(info.stdout)
    assert document["kernel"] == "scale"
    assert document["changed_bytes"] == 4096
    assert "SHA-256 sums match" in verify.output
    assert "scale" in run("info", captured).output


def test_a_damaged_capture_fails_verification_and_is_bad_input_for_a_replay(captured: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(captured, tmp_path / "damaged"))
    blob = sorted((damaged / "memory").iterdir())[0]
    blob.write_bytes(b"\1" * blob.stat().st_size)

    verify, replayed = run("verify", damaged), emulated("full-vm", damaged)

    assert verify.exit_code == 1
    assert "its SHA-256 does not match" in verify.output
    assert run("verify", tmp_path / "missing").exit_code == 2
    assert replayed.exit_code == 2
    assert "Memory reconstructed" not in replayed.stdout


def test_an_override_that_cannot_be_read_is_bad_input(captured: Path, tmp_path: Path) -> None:
    override = tmp_path / "no.hsaco"
    assert emulated("full-vm", captured, "--hsaco", override).exit_code == 2
    override.write_bytes(b"not a code object")
    assert emulated("full-vm", captured, "--hsaco", override).exit_code == 2


def test_an_equal_override_passes_the_check(captured: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.hsaco"
    path.write_bytes(code_object(OFFSET=9).data)

    result = emulated("full-vm", captured, "--hsaco", path, "--check")

    assert result.exit_code == 0, result.output
    assert "Check passed: 1 replay equals the captured result byte for byte" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--iterations", "0"],
        ["--nonsense"],
        ["--device", "abacus"],
        ["--type", "x=f99"],
        ["--timeout", "0"],
        ["--timeout", "nan"],
        ["--check", "--rtol", "inf"],
        ["--rtol", "0.1"],
        ["--type", "x=f32"],
    ],
)
def test_wrong_usage_is_bad_input(arguments: list[str], captured: Path) -> None:
    assert emulated("full-vm", captured, *arguments).exit_code == 2


def test_a_described_kernel_is_captured_by_name_and_has_one_dispatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    overrides = ["kernel=vector_add", "kernel.params.n=1000", "tracking=none"]

    made = run("capture", "--output", "c", *overrides)
    again = run("capture", "--output", "c", *overrides)
    later = run("capture", "--output", "d", "--dispatch", "2", *overrides)
    other = run("capture", "--output", "d", "--kernel", "gemm", *overrides)
    detached = run("capture", "--output", "d", "--detach", *overrides)
    several = run("capture", "--output", "d", "--kernel", "vector_add", "--kernel", "gemm", *overrides)

    assert made.exit_code == 0, made.output
    assert run("verify", "c").exit_code == 0
    assert {refused.exit_code for refused in (again, later, other, detached, several)} == {2}
    assert "--detach is for captures of applications" in detached.stderr
    assert "pass one --kernel" in several.stderr
    assert "not empty" in again.stderr
    assert "was dispatched once; dispatch 2 (from 0) does not exist" in later.stderr
    assert "kernel 'gemm' was never dispatched" in other.stderr
    assert not Path("d").exists()


def test_a_capture_of_an_application_needs_the_name_of_a_kernel() -> None:
    result = run("capture", "--", "./app")

    assert result.exit_code == 2
    assert "--kernel NAME" in result.stderr


@pytest.mark.parametrize(
    ("kernel", "output", "what"),
    [("/a{1,2}{1}/", "new", "is not a regular expression"), ("a", ".", "the output directory already")],
)
def test_bad_input_is_found_before_the_application_is_timed(kernel: str, output: str, what: str, tmp_path: Path) -> None:
    program = ("touch", str(tmp_path / "started"))
    options = ("--kernel", kernel, "--dispatch", "slowest", "--device", "rocm", "--output", output)

    result = run("capture", *options, "--", *program)

    assert result.exit_code == 2
    assert what in result.stderr
    assert not (tmp_path / "started").exists()


def test_a_root_is_refused_for_the_gpu_of_this_machine(tmp_path: Path) -> None:
    result = run("capture", "--kernel", "k", "--device", "rocm", "--root", tmp_path, "--", "./app")

    assert result.exit_code == 2
    assert "--root needs the emulated GPU" in result.stderr


def test_a_target_of_another_architecture_is_refused_with_those_that_work(captured: Path) -> None:
    result = emulated("full-vm", captured, "--target", "mi250x")

    assert result.exit_code == 2
    assert "the capture is of gfx942, mi250x is gfx90a" in result.output
    assert "--target mi300a or mi300x or mi308x or mi325x" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--check", "--type", "z=f32"), "has no pointer argument 'z'"),
        (("--check", "--type", "x=q9"), "--type x=q9: expected ARG=DTYPE"),
        (("--agent", "7"), "the emulator has one GPU"),
    ],
    ids=["unknown argument", "unknown type", "agent"],
)
def test_options_that_do_not_fit_the_capture_are_errors(captured: Path, arguments: tuple[str, ...], what: str) -> None:
    result = emulated("full-vm", captured, *arguments)

    assert result.exit_code == 2
    assert what in result.stderr
