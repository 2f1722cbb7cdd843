"""End-to-end tests of capture tool and replay on the HSA stand-in runtime, with gfx942 code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.replay.application_capture import capture as capture_application
from rocm_perf_lab.replay.capture_request import CaptureRequest
from rocm_perf_lab.replay.format import Region, region_file
from rocm_perf_lab.replay.hsa.queue import DispatchPacket, place_of
from rocm_perf_lab.replay.hsa.reservation import extents_of
from rocm_perf_lab.replay.reader import open_capture
from tests.builders.captures import code_object, list_capture, scale_capture
from tests.builders.hsa_stand_in import build

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = [sys.executable, "-c", "from rocm_perf_lab.cli import main; main(prog_name='rocm-perf')", "replay"]
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with build.emulator() as variables:
        yield {**variables, "PYTHONPATH": str(REPOSITORY), "NO_COLOR": "1", "COLUMNS": "200"}


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scale_capture(tmp_path_factory.mktemp("hsa") / "scale")


def replay(environment: dict[str, str], *arguments: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    variables = environment | ({"STAND_IN_HSA_FAULT": fault} if fault else {})
    return subprocess.run(
        [*COMMAND, *arguments, "--device", "rocm"], env=variables, capture_output=True, text=True, check=False, timeout=300
    )


def full_vm(environment: dict[str, str], directory: Path, *arguments: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    return replay(environment, "full-vm", "--capture-dir", str(directory), *arguments, fault=fault)


def document(run: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert run.returncode == 0, run.stdout + run.stderr
    parsed: dict[str, Any] = json.loads(run.stdout)
    return parsed


@pytest.mark.parametrize("make", [scale_capture, list_capture], ids=["buffers", "linked list"])
def test_an_emulated_capture_replays_byte_for_byte_on_the_runtime(make: Any, environment: dict[str, str], tmp_path: Path) -> None:
    replayed = document(full_vm(environment, make(tmp_path / "c"), "--iterations", "3", "--check", "--json"))

    assert replayed["verification"]["passed"]
    assert replayed["verification"]["checked_replays"] == 3
    assert replayed["execution"] == {"iterations": 3, "mode": "stateless"}
    assert replayed["environment"]["gpu_agent"] == "gfx942 (stand-in (emulated MI300X))"
    assert replayed["environment"]["pid"] != os.getpid()
    assert len(replayed["timing"]["samples"]) == 3
    assert min(replayed["timing"]["samples"]) > 0


def test_times_of_an_emulated_gpu_are_not_reported_as_measured(environment: dict[str, str], captured: Path) -> None:
    as_json = document(full_vm(environment, captured, "--iterations", "2", "--json"))
    as_text = full_vm(environment, captured, "--iterations", "2")

    assert as_json["timing"]["kind"] == "emulated"
    assert "ms (emulated) on gfx942 (stand-in (emulated MI300X))" in as_text.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "scenario"),
    [
        ("scale", "normal"),
        ("walk", "normal"),
        ("reverse_tile", "normal"),
        ("/add_to/", "normal"),
        ("walk", "shared"),
        ("scale", "partial"),
    ],
)
def test_a_capture_of_an_application_replays_on_both_devices(
    kernel: str, scenario: str, environment: dict[str, str], tmp_path: Path
) -> None:
    command = (str(build.application("application")), str(build.kernels()), scenario, "2")
    made = capture_application(CaptureRequest(command=command, kernel=kernel, output=tmp_path / "c"), environment=environment)

    on_runtime = full_vm(environment, made.directory, "--check", "--iterations", "2", "--json")
    arguments = ["full-vm", "--capture-dir", str(made.directory), "--device", "emulator", "--check", "--json"]
    on_emulator = subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, check=False)

    assert document(on_runtime)["verification"]["passed"]
    assert document(on_emulator)["verification"]["passed"]


def test_without_recopy_the_kernel_starts_from_its_results(environment: dict[str, str], captured: Path) -> None:
    assert (
        document(full_vm(environment, captured, "--no-recopy", "--iterations", "2", "--json"))["execution"]["mode"] == "stateful"
    )


@pytest.mark.slow
def test_an_override_is_checked_on_the_captured_memory(environment: dict[str, str], captured: Path, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.hsaco", tmp_path / "wrong.hsaco"
    right.write_bytes(code_object(OFFSET=3).data)  # another code object, the same kernel
    wrong.write_bytes(wrong_scale(tmp_path))

    good = full_vm(environment, captured, "--hsaco", str(right), "--check")
    bad = full_vm(environment, captured, "--hsaco", str(wrong), "--check")

    assert good.returncode == 0, good.stdout + good.stderr
    assert bad.returncode == 1
    assert "Check failed" in bad.stdout


def wrong_scale(directory: Path) -> bytes:
    from tests.builders.kernels import build_hip

    source = """#include <hip/hip_runtime.h>
    extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = x[i] + factor;
    }"""
    return build_hip(source, directory).code_object.data


@pytest.mark.parametrize(
    ("fault", "codes", "message"),
    [
        ("relocates", [2, 1], "relocation: "),
        ("reserve_fails", [1, 1], "the runtime does not reserve"),
        ("no_vmem", [2, 2], "no virtual memory interface"),
        ("no_gpu", [2, 2], "the HSA runtime does not start"),
    ],
)
def test_addresses_are_reserved_exactly_or_the_reason_is_reported(
    fault: str, codes: list[int], message: str, environment: dict[str, str], captured: Path
) -> None:
    checked = replay(environment, "reserve-check", "--capture-dir", str(captured), fault=fault)
    replayed = full_vm(environment, captured, fault=fault)

    assert [checked.returncode, replayed.returncode] == codes
    assert message in checked.stderr
    assert "Memory reconstructed" not in replayed.stdout


def test_free_addresses_are_reserved_exactly(environment: dict[str, str], captured: Path) -> None:
    checked = replay(environment, "reserve-check", "--capture-dir", str(captured))

    assert checked.returncode == 0
    assert "exact: all 3 captured ranges" in checked.stdout


@pytest.mark.slow
def test_larger_granules_and_a_second_gpu_are_supported(environment: dict[str, str], captured: Path) -> None:
    assert full_vm(environment, captured, "--check", fault="granule=2097152").returncode == 0
    assert full_vm(environment, captured, "--check", "--agent", "1", fault="two_agents").returncode == 0
    missing = full_vm(environment, captured, "--agent", "1")
    assert missing.returncode == 2
    assert "there is no GPU number 1" in missing.stderr


def test_a_kernel_that_hangs_or_faults_is_reported_with_the_region(environment: dict[str, str], captured: Path) -> None:
    base = open_capture(captured).regions[1].base
    hung = full_vm(environment, captured, "--timeout", "1", fault="hang")
    faulted = full_vm(environment, captured, "--timeout", "120", fault=f"memory_fault={base + 4096}")

    assert hung.returncode == 1
    assert "did not end within 1 s" in hung.stderr
    assert faulted.returncode == 1
    assert f"memory fault at {base + 4096:#x} (page not present)" in faulted.stderr
    assert f"in captured region {base:#x}" in faulted.stderr


def test_a_missing_runtime_is_reported_with_a_hint(captured: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"} | {"PYTHONPATH": str(REPOSITORY)}

    run = replay(variables, "full-vm", "--capture-dir", str(captured))

    assert run.returncode == 2
    assert "the HSA runtime was not found" in run.stderr
    assert "use --device emulator" in run.stderr


def test_regions_that_share_a_granule_are_one_reservation() -> None:
    regions = [Region(base=base, size=4096, file=region_file(base)) for base in (0x10000, 0x13000, 0x40000)]

    assert [(e.address, e.nbytes) for e in extents_of(regions, 4096)] == [(0x10000, 4096), (0x13000, 4096), (0x40000, 4096)]
    assert [(e.address, e.nbytes) for e in extents_of(regions, 0x10000)] == [(0x10000, 0x10000), (0x40000, 0x10000)]
    assert [(e.address, e.nbytes) for e in extents_of(regions, 1 << 21)] == [(0, 1 << 21)]


def test_the_body_of_a_packet_has_the_standard_layout() -> None:
    packet = DispatchPacket(
        setup=2, workgroup=(1, 2, 3), grid=(4, 5, 6), scratch_bytes=7, lds_bytes=8, kernel_object=9, kernarg_address=10
    )

    body = packet.body(11)

    assert len(body) == 60
    assert body[0:6] == bytes([1, 0, 2, 0, 3, 0])  # bytes 4 to 9 of the packet
    assert [body[place - 4] for place in (12, 16, 20, 24, 28, 32, 40, 48, 56)] == [4, 5, 6, 7, 8, 9, 10, 0, 11]


def test_the_position_of_an_address_is_described(captured: Path) -> None:
    capture = open_capture(captured)
    x = capture.regions[0]

    assert place_of(capture, x.base + 5) == f"in captured region {x.base:#x} of 20,480 bytes"
    assert place_of(capture, x.end + 16) == f"outside captured memory, 16 bytes after region {x.base:#x}"
    assert place_of(capture, x.base - 16) == f"outside captured memory, 16 bytes before region {x.base:#x}"
