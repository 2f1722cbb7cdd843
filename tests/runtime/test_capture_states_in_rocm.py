"""Captures of applications in special states inside AMD's runtime: mapped chunks, a full queue, interrupts, secrets."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.replay.capture_work import leftovers
from tests.builders.rocm_captures import ROCM_PERF, Captures, document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.builders.rocm_programs import RocmPrograms

MIB = 1 << 20


@pytest.fixture(scope="module")
def captures(rocm_programs: RocmPrograms, tmp_path_factory: pytest.TempPathFactory) -> Captures:
    return Captures(rocm_programs, tmp_path_factory.mktemp("states"), "capture_states")


def require_equal_replays(captures: Captures, name: str) -> None:
    for replay in captures.replays(name):
        assert replay["verification"]["passed"]
        assert replay["verification"]["exact"]


def test_all_chunks_of_a_reservation_are_captured_from_a_pointer_to_the_first(captures: Captures) -> None:
    name = captures.make("chunks", "add_chunks", "chunks")

    mapped = [region for region in captures.content(name, "memory_regions.json")["regions"] if region["kind"] == "vmem"]

    assert [region["size"] for region in mapped] == [5 * 2 * MIB]  # 5 of 8 chunks are mapped
    assert captures.content(name, "dispatch.json")["environment"]["command"][1:] == ["[redacted]"]
    require_equal_replays(captures, name)


@pytest.mark.slow
def test_memory_behind_a_hole_of_a_reservation_is_captured(captures: Captures) -> None:
    name = captures.make("hole", "read_behind_hole", "hole")

    mapped = [region for region in captures.content(name, "memory_regions.json")["regions"] if region["kind"] == "vmem"]

    assert [region["size"] for region in mapped] == [2 * MIB]
    require_equal_replays(captures, name)


@pytest.mark.slow
def test_memory_at_addresses_that_were_used_before_is_captured_once(captures: Captures) -> None:
    name = captures.make("reused", "triple", "reused", "--mode", "full")

    regions = captures.content(name, "memory_regions.json")["regions"]

    (written,) = [region for region in regions if region["after"] is not None]  # not the ring buffer of the queue
    assert [block["size"] for block in written["requested"]] == [12 * MIB]
    assert not [region["error"] for region in regions if region["error"]]
    require_equal_replays(captures, name)


@pytest.mark.slow
def test_a_dispatch_behind_a_full_queue_is_captured(captures: Captures) -> None:
    name = captures.make("flood", "increment", "flood", "--dispatch", "16600")

    assert captures.content(name, "dispatch.json")["index"]["kernel"] == 16600
    require_equal_replays(captures, name)


@pytest.mark.slow
def test_kernarg_memory_and_the_mask_of_compute_units_are_those_of_the_application(captures: Captures) -> None:
    name = captures.make("masked", "triple", "masked")

    dispatch = captures.content(name, "dispatch.json")

    assert dispatch["kernarg"] == {"location": "gpu", "pool_flags": 4}  # HIP 6.4 places arguments in device memory
    assert dispatch["queue"]["cu_mask"] == [0xFF, 0]
    require_equal_replays(captures, name)


@pytest.mark.slow
def test_secrets_of_the_environment_and_the_command_line_are_not_captured(captures: Captures) -> None:
    secrets = ("AMD_API_TOKEN=token-1", "HIP_PASSWORD=password-2", "HSA_XNACK=0")

    name = captures.make("secrets", "triple", "masked", before=("/usr/bin/env", *secrets))

    text = (captures.directory / name / "dispatch.json").read_text()
    environment = captures.content(name, "dispatch.json")["environment"]
    assert "token-1" not in text
    assert "password-2" not in text
    assert environment["variables"]["HSA_XNACK"] == "0"
    assert environment["command_redacted"]


@pytest.mark.slow
@pytest.mark.parametrize("before", [(), ("/usr/bin/env", "HSA_RESERVE_SVM=0")], ids=["unset", "of the user"])
def test_low_addresses_are_an_option_that_does_not_override_the_user(captures: Captures, before: tuple[str, ...]) -> None:
    name = captures.make(f"low-{len(before)}", "triple", "masked", "--low-addresses", before=before)

    value = captures.content(name, "dispatch.json")["environment"]["variables"]["HSA_RESERVE_SVM"]

    assert value == ("0" if before else "1")


@pytest.fixture
def serving(captures: Captures) -> Iterator[subprocess.Popen[str]]:
    """Start the capture of an application that never ends, and wait until the capture is sealed."""
    root = ("--root", str(captures.programs.root))
    command = [ROCM_PERF, *captures.command("serving", "triple", "serving", *root, "--dispatch", "2")]
    before = set(captures.directory.glob(".serving.*"))
    with subprocess.Popen(command, cwd=captures.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as launcher:
        try:
            deadline = time.monotonic() + 120
            while not [m for w in set(captures.directory.glob(".serving.*")) - before for m in w.glob("*/manifest.json")]:
                assert launcher.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield launcher
        finally:
            launcher.kill()
    subprocess.run(["/usr/bin/rm", "-rf", str(captures.directory / "serving")], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["ctrl-c", "sigterm", "sigkill"])
def test_a_sealed_capture_survives_every_end(captures: Captures, serving: subprocess.Popen[str], number: signal.Signals) -> None:
    serving.send_signal(number)
    serving.wait(60)

    deadline = time.monotonic() + 30
    while not (captures.directory / "serving").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert captures.rocm_perf("replay", "verify", "serving").returncode == 0
    assert not list(captures.directory.glob(".serving.*"))
    assert not leftovers()
    assert not serving_processes()


def serving_processes() -> list[int]:
    """Return the running processes of the application, without its launcher."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (process / "cmdline").read_text(errors="replace")
            if "capture_states-" in line.split("\0")[0] and "serving" in line:
                found.append(int(process.name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("option", [("--stop-after-capture",), ("--application-timeout", "20")], ids=["stop", "timeout"])
def test_a_service_is_ended_after_its_capture(captures: Captures, option: tuple[str, ...]) -> None:
    name = f"ended-{option[0][2:6]}"

    captures.make(name, "triple", "serving", *option)

    assert captures.rocm_perf("replay", "verify", name).returncode == 0


@pytest.mark.slow
def test_a_service_continues_on_its_emulated_gpus_after_a_detached_capture(captures: Captures) -> None:
    options = ("--root", str(captures.programs.root), "--detach", "--gpus", "2")
    command = [ROCM_PERF, *captures.command("detached", "triple", "serving", *options)]
    launched = subprocess.run(command, cwd=captures.directory, capture_output=True, text=True, check=True, timeout=300)

    running = serving_processes()
    for process in running:
        os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + 30
    while serving_processes() and time.monotonic() < deadline:
        time.sleep(0.1)

    assert "PASS serving" in launched.stdout
    assert "the application continues; its output is in detached.log" in launched.stdout
    assert len(running) == 1
    assert not serving_processes()
    agents = captures.content("detached", "dispatch.json")["agents"]
    assert [agent["name"] for agent in agents].count("gfx942") == 2
    assert captures.rocm_perf("replay", "verify", "detached").returncode == 0


@pytest.mark.slow
def test_several_dispatches_are_captured_in_one_run(captures: Captures) -> None:
    root = ("--root", str(captures.programs.root))
    kernels = ("--kernel", "increment", "--kernel", "missing")

    made = captures.rocm_perf(*captures.command("several", "wait_cycles", "flood", *root, *kernels))

    assert made.returncode == 1
    assert "missing: dispatch 0 of 'missing' was not captured: it was never dispatched" in made.stdout
    for name in ("_Z11wait_cyclesmPi-0", "_Z9incrementPi-0"):
        assert captures.rocm_perf("replay", "verify", f"several/{name}").returncode == 0


@pytest.mark.slow
def test_kernels_are_listed_by_time_with_their_dispatches(captures: Captures) -> None:
    program = str(captures.programs.compile("capture_states"))

    listed = document(
        captures.rocm_perf("replay", "list", "--json", "--root", str(captures.programs.root), "--", program, "flood", "masked")
    )

    kernels = {kernel["name"]: kernel for kernel in listed["kernels"]}
    increment = kernels["increment(int*)"]
    assert listed["time_kind"] == "emulated"
    assert listed["kernels"][0]["name"] == "wait_cycles(unsigned long, int*)"
    assert increment["calls"] == 17000
    assert increment["first"]["index"] == 0
    assert increment["first"]["time_us"] <= increment["slowest"]["time_us"] < 100
    assert kernels["triple(int*, int)"]["shapes"] == {"256x1x1/256x1x1": 1}


@pytest.mark.slow
def test_the_slowest_dispatches_of_the_longest_kernels_are_captured(captures: Captures) -> None:
    command = captures.command("top", "-", "masked", "--root", str(captures.programs.root), "--top", "1", "--dispatch", "median")
    del command[2:4]  # --kernel

    made = captures.rocm_perf(*command)

    assert made.returncode == 0, made.stderr
    assert "chosen   triple(int*, int), dispatch 0" in made.stdout
    assert captures.rocm_perf("replay", "verify", "top").returncode == 0
