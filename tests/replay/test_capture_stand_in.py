"""The stand-in runtime behaves like the real one in the aspects that the capture and replay tests use."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders.hsa_stand_in import build

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT_OF_RESOURCES = 0x1008
NO_ADDRESS = 0x7E57_0000_0000

RESERVE = f"""
import ctypes
hsa = ctypes.CDLL("libhsa-runtime64.so.1")
print(hsa.hsa_init())
va = ctypes.c_void_p()
size, address, flags = ctypes.c_size_t(1 << 21), ctypes.c_uint64({NO_ADDRESS}), ctypes.c_uint64(0)
print(hsa.hsa_amd_vmem_address_reserve(ctypes.byref(va), size, address, flags))
print(va.value or 0)
"""


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with build.emulator() as variables:
        yield variables


def run(environment: dict[str, str], scenario: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(build.application("application")), str(build.kernels()), scenario, *more]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


def reserve(fault: str) -> list[int]:
    """Return the results of hsa_init and of a reservation, and the reserved address."""
    variables = {"LD_LIBRARY_PATH": str(build.library_directory()), "STAND_IN_HSA_FAULT": fault}
    run = subprocess.run([sys.executable, "-c", RESERVE], env=variables, capture_output=True, text=True, check=True)
    return [int(line) for line in run.stdout.split()]


def test_an_application_with_two_queues_computes_correct_results(environment: dict[str, str]) -> None:
    assert run(environment, "normal", "2").returncode == 0


def test_an_invalid_write_ends_the_process_with_a_message_of_the_runtime(environment: dict[str, str]) -> None:
    ended = run(environment, "out-of-bounds")

    assert ended.returncode == -6
    assert "Memory access fault by GPU node-1" in ended.stderr
    assert "address 0x1234567000" in ended.stderr


def test_a_fixed_address_is_reserved_exactly_and_faults_can_be_injected() -> None:
    assert reserve("") == [0, 0, NO_ADDRESS]
    assert reserve("reserve_fails")[1] != 0
    assert reserve("no_vmem")[1] != 0
    assert reserve("no_gpu")[0] == OUT_OF_RESOURCES
    relocated = reserve("relocates")
    assert relocated[:2] == [0, 0]
    assert relocated[2] not in (0, NO_ADDRESS)


def test_the_library_is_found_by_its_soname() -> None:
    library = ctypes.CDLL(str(build.library_directory() / build.LIBRARY))

    assert library.hsa_status_string
