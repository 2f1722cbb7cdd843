"""Queues of the emulated driver: packets that a program writes itself, without AMD's runtime."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kernels import build_hip
from tests.builders.packet_programs import KERNELS

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the code object of the kernels."""
    directory = tmp_path_factory.mktemp("queues")
    path = directory / "kernels.hsaco"
    path.write_bytes(build_hip(KERNELS, directory).code_object.data)
    return path


def run(program: str, code: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program of `packet_programs` on the emulated GPU."""
    rocm_perf = Path(sys.executable).with_name("rocm-perf")
    command = [rocm_perf, "run", *options, "--", sys.executable, "-m", "tests.builders.packet_programs", program, code]
    return subprocess.run(list(map(str, command)), cwd=_ROOT, capture_output=True, text=True, check=False, timeout=400)


def result(program: str, code: Path, *options: str) -> Any:
    """Return what a program prints."""
    process = run(program, code, *options)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_a_dispatch_computes_and_completes_its_signal(code: Path) -> None:
    found = result("axpy", code)
    assert found["y"] == [1 + 2 * k for k in range(1000)]
    assert found["read"] == 1
    start, end = found["ticks"]
    assert 0 < start < end


def test_grids_need_not_be_multiples_of_workgroups(code: Path) -> None:
    sizes = {(x, y, z): n for x, y, z, n in result("items", code)}
    assert len(sizes) == 3 * 3 * 3
    assert sizes[0, 0, 0] == 32 * 4 * 2
    assert sizes[2, 0, 0] == (70 - 64) * 4 * 2
    assert sizes[2, 2, 2] == (70 - 64) * (9 - 8) * (5 - 4)
    assert sum(sizes.values()) == 70 * 9 * 5


def test_dynamic_lds(code: Path) -> None:
    assert result("lds", code) == list(range(255, -1, -1))


def test_kernels_that_wait_are_released_by_another_queue_and_by_the_host(code: Path) -> None:
    assert result("released", code) == [1, True, 42, 1, True, 42, True, 7]


def test_barriers_hold_back_the_packets_behind_them(code: Path) -> None:
    blocked, done = 0, 11
    assert result("barriers", code) == [blocked] * 3 + [done, blocked, done, done] + [blocked] * 2 + [done, blocked, done]


def test_packets_run_in_order_around_the_ring(code: Path) -> None:
    assert result("order", code) == {"log": list(range(100)), "ordered": True, "read": 100}


@pytest.mark.slow
def test_a_hundred_thousand_launches_take_less_than_20_s(code: Path) -> None:
    assert result("many", code) < 20


def test_threads_share_a_large_grid(code: Path) -> None:
    expected = [(k - 2) * 0.5**20 + 2 for k in range(1 << 16)]
    assert result("large", code) == pytest.approx(expected, rel=1e-6)


def test_a_paused_queue_waits(code: Path) -> None:
    assert result("paused", code) == [1, True]


def test_a_queue_can_be_destroyed_while_its_kernel_runs(code: Path) -> None:
    assert result("destroyed", code) == [1, True]


def test_errors_stop_the_queue_with_the_code_of_the_packet_processor(code: Path) -> None:
    stopped = [1, 0]  # the signal of the next packet, the read index
    assert result("errors", code) == {
        "trap": [0x8000_0000, *stopped],
        "no work-items": [0x2, *stopped],
        "empty workgroup": [0x2, *stopped],
        "large workgroup": [0x40, *stopped],
        "LDS": [0x4, *stopped],
        "no kernel": [0x4000_0000, *stopped],
    }


def test_a_store_outside_of_memory_raises_the_memory_event(code: Path) -> None:
    process = run("memory_fault", code)
    assert json.loads(process.stdout) == [1, 0, 0x1234_5678_9000, 0x4242]
    assert "store of 4 bytes at 0x123456789000" in process.stderr


@pytest.mark.parametrize(
    ("option", "text"), [("--max-instructions=1000000", "instruction"), ("--max-seconds=1", "max_seconds = 1")]
)
def test_a_kernel_that_never_ends_is_a_gpu_that_hangs(code: Path, option: str, text: str) -> None:
    process = run("endless", code, option)
    assert json.loads(process.stdout) is True
    assert text in process.stderr


def test_code_that_was_replaced_is_translated_again(code: Path) -> None:
    assert result("replaced", code) == [5, 5]


def test_copy_engines_execute_their_packets(code: Path) -> None:
    found = result("copies", code)
    assert found["copied"]
    assert found["filled"] == [0x0102_0304] * 16 + [0]
    assert found["window"] == found["expected_window"]
    assert found["fence"] == 77
    assert found["has_time"]
    assert found["waited"] == [1, True]
    assert found["event"]
