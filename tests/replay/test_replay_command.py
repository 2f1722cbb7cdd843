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
from tests.builders.captures import code_object, scale_capture

if TYPE_CHECKING:
    from click.testing import Result


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scale_capture(tmp_path_factory.mktemp("command") / "scale", n=256)


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, words)])


def emulated(command: str, directory: Path, *words: str | Path) -> Result:
    return run(command, "--capture-dir", directory, "--device", "emulator", *words)


def test_full_vm_prints_the_lines_of_the_guide(captured: Path) -> None:
    result = emulated("full-vm", captured, "--iterations", "5")

    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[:3] == ["Memory reconstructed.", "Iterations: 5", "Recopy between iterations: yes"]
    assert lines[3].startswith("Average GPU time: 0.00")
    assert lines[3].endswith(" ms (emulated)")
    assert lines[4].startswith("Total wall time: ")


def test_the_document_fits_its_committed_schema(captured: Path) -> None:
    result = emulated("full-vm", captured, "--iterations", "3", "--no-recopy", "--json", "--check")
    document = json.loads(result.stdout)

    schema = Path(__file__).parents[2] / "docs" / "schemas" / "replay.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    assert document["kernel"]["name"] == "scale"
    assert document["execution"] == {"iterations": 3, "mode": "stateful"}
    assert document["timing"]["unit"] == "microseconds"
    assert document["timing"]["kind"] == "emulated"
    assert document["hsaco_path"] == f"{captured}/kernel.hsaco"
    assert document["verification"]["checked_replays"] == 1


def test_reserve_check_says_exact(captured: Path) -> None:
    result = emulated("reserve-check", captured)

    assert result.exit_code == 0
    assert "exact: all 3 captured ranges" in result.output


def test_the_capture_of_this_directory_is_taken_when_none_is_named(
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
    assert "SHA-256 sums are right" in verify.output
    assert "scale" in run("info", captured).output


def test_a_damaged_capture_fails_each_command_with_its_own_code(captured: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(captured, tmp_path / "damaged"))
    blob = sorted((damaged / "memory").iterdir())[0]
    blob.write_bytes(b"\1" * blob.stat().st_size)

    verify, replayed = run("verify", damaged), emulated("full-vm", damaged)

    assert verify.exit_code == 2
    assert "its SHA-256 is another" in verify.output
    assert replayed.exit_code == 1
    assert "Memory reconstructed" not in replayed.stdout


def test_an_override_that_cannot_be_read_is_a_failed_setup(captured: Path, tmp_path: Path) -> None:
    nothing = tmp_path / "no.hsaco"
    assert emulated("full-vm", captured, "--hsaco", nothing).exit_code == 1
    nothing.write_bytes(b"not a code object")
    assert emulated("full-vm", captured, "--hsaco", nothing).exit_code == 1


def test_an_equal_override_passes_the_check(captured: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.hsaco"
    path.write_bytes(code_object(OFFSET=9).data)

    result = emulated("full-vm", captured, "--hsaco", path, "--check")

    assert result.exit_code == 0, result.output
    assert "Check passed: 1 replay equals the captured result byte for byte" in result.output


@pytest.mark.parametrize(
    "words", [["--iterations", "0"], ["--nonsense"], ["--device", "abacus"], ["--type", "x=f99"], ["--timeout", "0"]]
)
def test_wrong_usage_has_a_code_of_its_own(words: list[str], captured: Path) -> None:
    assert emulated("full-vm", captured, *words).exit_code == 5


def test_a_described_kernel_is_captured_by_its_name_and_only_dispatched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["kernel=vector_add", "kernel.params.n=1000", "tracking=none"]

    made = run("capture", "--output", "c", *words)
    again = run("capture", "--output", "c", *words)
    later = run("capture", "--output", "d", "--dispatch", "2", *words)
    other = run("capture", "--output", "d", "--kernel", "gemm", *words)

    assert made.exit_code == 0, made.output
    assert run("verify", "c").exit_code == 0
    assert again.exit_code == later.exit_code == other.exit_code == 2
    assert "not empty" in again.stderr
    assert "was dispatched once, number 2 (from 0) does not exist" in later.stderr
    assert "kernel 'gemm' was never dispatched" in other.stderr
    assert not Path("d").exists()


def test_a_capture_of_an_application_needs_the_name_of_a_kernel() -> None:
    result = run("capture", "--", "./app")

    assert result.exit_code == 5
    assert "--kernel NAME" in result.stderr
