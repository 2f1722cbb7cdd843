"""The capture tool inside AMD's runtime, and replays of its captures through that runtime and on the emulator."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.builders.rocm_captures import Captures, document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders.rocm_programs import RocmPrograms


@pytest.fixture(scope="module")
def captures(rocm_programs: RocmPrograms, tmp_path_factory: pytest.TempPathFactory) -> Captures:
    return Captures(rocm_programs, tmp_path_factory.mktemp("captures"))


def test_a_capture_of_a_hip_application_replays_byte_for_byte_in_rocm_and_on_the_emulator(captures: Captures) -> None:
    name = captures.make("scale", "scale", "scale", "--dispatch", "1")
    full_vm = ("replay", "full-vm", "--capture-dir", name, "--check", "--iterations", "2", "--json")

    in_rocm = document(captures.inside(*full_vm))
    emulated = document(captures.rocm_perf(*full_vm, "--device", "emulator"))

    manifest = json.loads((captures.directory / name / "manifest.json").read_text())
    dispatch = json.loads((captures.directory / name / "dispatch.json").read_text())
    assert manifest["provenance"]["emulated"] is True
    assert dispatch["kernel"]["name"] == "scale(float const*, float*, int)"
    assert dispatch["index"]["kernel"] == 1
    for replayed in (in_rocm, emulated):
        assert replayed["verification"]["passed"]
        assert replayed["verification"]["exact"]
        assert replayed["verification"]["checked_replays"] == 2
        assert replayed["timing"]["kind"] == "emulated"
    assert in_rocm["environment"]["gpu_agent"] == "gfx942 (AMD Instinct MI300X)"
    # The second dispatch starts from one call: the variable, which has no name for the runtime, was restored before each replay.
    assert not [note for note in in_rocm["notes"] if "variable" in note]


def test_the_dispatched_kernels_are_listed_for_a_name_that_was_never_dispatched(captures: Captures) -> None:
    root = str(captures.programs.root)
    missing = captures.rocm_perf(*captures.command("missing", "scal", "walk", "--root", root))

    assert missing.returncode == 2
    assert "kernel 'scal' was never dispatched" in missing.stderr
    assert "walk(Node const*, int*) (once)" in missing.stderr
    assert not (captures.directory / "missing").exists()


@pytest.mark.slow
@pytest.mark.parametrize("low", ["0", "1"], ids=["high addresses", "low addresses"])
@pytest.mark.parametrize(("check", "kernel", "mode"), [("walk", "/walk/", "reachable"), ("reverse", "reverse", "full")])
def test_every_placement_of_memory_is_replayed(captures: Captures, check: str, kernel: str, mode: str, low: str) -> None:
    before = ("/usr/bin/env", f"HSA_RESERVE_SVM={low}")
    name = captures.make(f"{check}-{low}", kernel, check, "--mode", mode, before=before)
    memory = json.loads((captures.directory / name / "memory_regions.json").read_text())
    arguments = ("--capture-dir", name, "--check", "--json")

    replays = [
        document(captures.inside("replay", "full-vm", *arguments)),
        document(captures.rocm_perf("replay", "full-vm", *arguments, "--device", "emulator")),
    ]

    assert all(replay["verification"]["passed"] and replay["verification"]["exact"] for replay in replays)
    assert captures.rocm_perf("replay", "verify", name).returncode == 0
    lowest = min(int(region["base"], 16) for region in memory["regions"])
    assert (lowest < 1 << 40) == (low == "1")
    exact = captures.inside("replay", "reserve-check", "--capture-dir", name)
    assert exact.returncode == 0
    assert "exact: all" in exact.stdout


@pytest.mark.slow
def test_memory_that_was_not_captured_is_a_fault_that_the_runtime_reports(captures: Captures) -> None:
    name = captures.make("arguments", "walk", "walk", "--mode", "arguments")
    memory = json.loads((captures.directory / name / "memory_regions.json").read_text())

    faulted = captures.inside("replay", "full-vm", "--capture-dir", name)

    assert len(memory["regions"]) == 2  # the first node and the sum, but not the second node
    assert faulted.returncode == 1
    assert "(page not present)" in faulted.stderr
    assert "kernel walk(Node const*, int*); outside captured memory" in faulted.stderr
    assert "capture with --mode full" in " ".join(faulted.stderr.split())


@pytest.mark.slow
def test_the_tool_can_be_preloaded(captures: Captures) -> None:
    name = captures.make("preloaded", "reverse", "reverse", "--preload")

    assert captures.rocm_perf("replay", "verify", name).returncode == 0


@pytest.mark.slow
def test_the_tool_is_built_with_the_headers_and_the_compiler_of_rocm(captures: Captures, tmp_path: Path) -> None:
    made = captures.inside(*captures.command("inside", "walk", "walk"), cache=tmp_path)

    assert made.returncode == 0, made.stdout + made.stderr
    assert "PASS walk" in made.stdout
    assert len(list((tmp_path / "capture").glob("*/*.so"))) == 1
    assert captures.rocm_perf("replay", "verify", "inside").returncode == 0
