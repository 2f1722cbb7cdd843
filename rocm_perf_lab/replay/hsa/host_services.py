"""Host calls of replayed kernels on the HSA runtime: `printf`, and memory for `malloc`.

A kernel writes packets to host memory and waits for the answer of a host thread, here the thread that waits for the end of the
dispatch. Printed text is discarded.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.device_printf import BUFFER_BYTES, PrintfFormatter, clear_printf_buffer
from rocm_perf_lab.emulator.host_calls import QUEUE_BYTES, HostCallMessages, HostService, PhasedQueue, StackedQueue
from rocm_perf_lab.emulator.host_services import PHASED_SYMBOL
from rocm_perf_lab.replay.errors import DeviceFault
from rocm_perf_lab.replay.hsa import library as hsa
from rocm_perf_lab.toolchain.elf_file import parse_elf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.host_calls import HostCallPacket, PacketQueue
    from rocm_perf_lab.replay.hsa.memory import DeviceRegions
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_POINTER_BYTES = 8


class HsaHostServices:
    """Host services of one replayer. `is_needed` is true if a loaded kernel has a host service buffer."""

    def __init__(self, memory: DeviceRegions) -> None:
        self._memory = memory
        self._queues: dict[type[PacketQueue], tuple[int, PacketQueue]] = {}
        self._printf: tuple[int, NDArray[np.uint8]] | None = None
        self._messages = HostCallMessages()

    @property
    def is_needed(self) -> bool:
        """Return whether a kernel may wait for an answer."""
        return bool(self._queues)

    def arguments(self, code_object: CodeObject, kernel: KernelMetadata) -> Mapping[str, int]:
        """Return the values of hidden arguments of services by value kind, for those that the kernel has.

        Raises:
            ReplayError: Memory is insufficient.
        """
        kinds = {argument.value_kind for argument in kernel.arguments if argument.size == _POINTER_BYTES}
        values = {}
        if "hidden_hostcall_buffer" in kinds:
            is_phased = any(PHASED_SYMBOL in name for name in parse_elf(code_object.data).symbols)
            values["hidden_hostcall_buffer"] = self._queue(PhasedQueue if is_phased else SharedStackedQueue)
        if "hidden_printf_buffer" in kinds:
            if self._printf is None:
                self._printf = self._allocate(BUFFER_BYTES)
            values["hidden_printf_buffer"] = self._printf[0]
        return values

    def reset(self) -> None:
        """Discard the text of the last dispatch."""
        self._messages = HostCallMessages()
        if self._printf is not None:
            clear_printf_buffer(self._printf[1])

    def answer(self) -> None:
        """Answer all waiting packets.

        Raises:
            DeviceFault: A packet requests an unsupported service.
            ReplayError: There is not enough memory for the kernel.
        """
        for _, queue in self._queues.values():
            for number, packet in queue.take_ready():
                self._serve(packet)
                queue.give_back(number)

    def _serve(self, packet: HostCallPacket) -> None:
        slots = packet.slots
        for lane in packet.lanes:
            if packet.service == HostService.PRINTF:
                descriptor, message = self._messages.add(slots[lane].tolist())
                slots[lane, 0] = descriptor if message is None else len(self._formatter.message(message[1:]))
            elif packet.service == HostService.DEVICE_MEMORY:
                requested, nbytes = int(slots[lane, 0]), int(slots[lane, 1])
                # Freed memory stays allocated until the process ends: a replay is short.
                slots[lane, 0] = 0 if requested else self._memory.allocate_device(nbytes, hsa.POOL_COARSE)
            else:
                raise DeviceFault(
                    f"the kernel requested host service {packet.service}, which a replay does not provide",
                    hint="Kernels may print and allocate memory. Build without -fsanitize=address; do not call host functions.",
                )

    @property
    def _formatter(self) -> PrintfFormatter:
        from rocm_perf_lab.emulator.build import load_runtime

        return PrintfFormatter(load_runtime())

    def _queue(self, layout: type[PhasedQueue | SharedStackedQueue]) -> int:
        if layout not in self._queues:
            address, content = self._allocate(QUEUE_BYTES)
            self._queues[layout] = (address, layout(address, content))
        return self._queues[layout][0]

    def _allocate(self, nbytes: int) -> tuple[int, NDArray[np.uint8]]:
        address = self._memory.allocate_host(nbytes)
        content = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))
        content[:] = 0
        return address, content


class SharedStackedQueue(StackedQueue):
    """Stack of ready packets that is read while a GPU pushes packets.

    It is never emptied, which would require an atomic exchange. New packets are those above the last known one, whose reference
    contains a tag that changes with every use.
    """

    def __init__(self, address: int, content: NDArray[np.uint8]) -> None:
        super().__init__(address, content)
        self._last_seen = 0

    def take_ready(self) -> list[tuple[int, HostCallPacket]]:
        """Return the packets that were pushed since the last call, the oldest first."""
        top, last = self.ready_reference, self._last_seen
        self._last_seen = top
        return self.packets_above(top, last)
