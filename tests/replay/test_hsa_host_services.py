"""Host calls of replayed kernels: packets that a GPU pushes while the host reads."""

from __future__ import annotations

from struct import pack_into

import numpy as np

from rocm_perf_lab.emulator.host_calls import QUEUE_BYTES
from rocm_perf_lab.replay.hsa.host_services import SharedStackedQueue

HEADERS, READY_STACK, PACKETS, HEADER_BYTES = 4096, 32, 64, 24


class WritingGpu:
    """Device side of the stack of ready packets."""

    def __init__(self) -> None:
        self.memory = np.zeros(QUEUE_BYTES, np.uint8)
        self.queue = SharedStackedQueue(0x1000, self.memory)
        self._uses = 1

    def push(self, number: int, service: int) -> None:
        """Mark a packet as ready."""
        self._uses += 1
        (top,) = self.memory[READY_STACK:][:8].view(np.uint64)
        pack_into("<QQII", self.memory.data, HEADERS + HEADER_BYTES * number, int(top), 1, service, 1)
        pack_into("<Q", self.memory.data, READY_STACK, self._uses * PACKETS | number)

    def is_returned(self, number: int) -> bool:
        """Tell whether the wavefront that waits for the packet may continue."""
        return int(self.memory[HEADERS + HEADER_BYTES * number + 20]) & 1 == 0


def test_packets_are_taken_once_and_in_order() -> None:
    gpu = WritingGpu()
    gpu.push(5, 2)
    gpu.push(0, 3)

    first = gpu.queue.take_ready()
    gpu.push(7, 4)

    assert [(number, packet.service) for number, packet in first] == [(5, 2), (0, 3)]
    assert [(number, packet.service) for number, packet in gpu.queue.take_ready()] == [(7, 4)]
    assert gpu.queue.take_ready() == []


def test_a_returned_packet_is_used_again() -> None:
    gpu = WritingGpu()
    for service in (2, 3, 2):
        gpu.push(5, service)
        ((number, packet),) = gpu.queue.take_ready()
        assert (number, packet.service) == (5, service)
        assert not gpu.is_returned(5)
        gpu.queue.give_back(number)
        assert gpu.is_returned(5)
