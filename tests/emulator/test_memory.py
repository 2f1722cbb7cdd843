"""Device memory: addresses, registry, freed buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.faults import describe_miss
from rocm_perf_lab.emulator.memory import DeviceMemory, DeviceMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def memory() -> Iterator[DeviceMemory]:
    made = DeviceMemory(load_runtime())
    yield made
    made.close()


def test_a_new_buffer_is_zero_and_keeps_what_is_written(memory: DeviceMemory) -> None:
    x = memory.allocate("x", 10)
    assert not memory.view(x).any()

    memory.view(x)[3] = 7

    assert memory.view(x)[3] == 7


def test_equal_runs_use_equal_addresses() -> None:
    addresses = []
    for _ in range(2):
        memory = DeviceMemory(load_runtime())
        addresses.append([memory.allocate(name, 100_000).address for name in "xy"])
        memory.close()

    assert addresses[0] == addresses[1]


def test_two_emulated_gpus_do_not_share_addresses(memory: DeviceMemory) -> None:
    other = DeviceMemory(load_runtime())
    x, y = memory.allocate("x", 4096), other.allocate("y", 4096)

    memory.view(x)[:] = 1

    assert not other.view(y).any()
    other.close()


def test_a_buffer_can_be_placed_at_a_chosen_address(memory: DeviceMemory) -> None:
    assert memory.allocate("x", 5000, address=0x2222_0000_0000).address == 0x2222_0000_0000


@pytest.mark.parametrize("address", [0x2222_0000_0000, 0x2222_0000_0010])
def test_an_address_in_use_or_unaligned_is_refused(memory: DeviceMemory, address: int) -> None:
    memory.allocate("x", 5000, address=0x2222_0000_0000)

    with pytest.raises(DeviceMemoryError, match="'y' cannot be placed"):
        memory.allocate("y", 5000, address=address)


def test_freed_addresses_are_not_reused(memory: DeviceMemory) -> None:
    x = memory.allocate("x", 4096)
    memory.free(x)

    y = memory.allocate("y", 4096)

    assert y.address > x.address
    assert [(entry.begin, entry.freed) for entry in memory.registry()] == [(x.address, 1), (y.address, 0)]


def test_a_freed_buffer_cannot_be_read_or_freed_again(memory: DeviceMemory) -> None:
    x = memory.allocate("x", 4096)
    memory.free(x)

    with pytest.raises(DeviceMemoryError, match="was freed"):
        memory.view(x)
    with pytest.raises(DeviceMemoryError, match="cannot be freed"):
        memory.free(x)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (104, "4 bytes past the end of buffer 'y' (100 bytes)"),
        (100, "right at the end of buffer 'y' (100 bytes)"),
        (96, "the last 4 bytes of it past the end of buffer 'y' (100 bytes)"),
        (-8, "8 bytes before buffer 'y' (100 bytes)"),
    ],
)
def test_a_miss_is_described_relative_to_the_nearest_buffer(memory: DeviceMemory, offset: int, expected: str) -> None:
    memory.allocate("x", 100)
    y = memory.allocate("y", 100)

    assert describe_miss(memory, y.address + offset, 8) == expected


def test_large_buffers_use_no_memory_before_access(memory: DeviceMemory) -> None:
    x = memory.allocate("x", 64 << 30)

    memory.view(x)[-1] = 1

    assert memory.view(x)[-1] == np.uint8(1)
