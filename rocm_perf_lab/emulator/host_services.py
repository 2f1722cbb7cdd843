"""Host services for kernels that print or allocate memory: provides their buffers and answers their host calls.

A kernarg segment holds placeholders (:data:`~rocm_perf_lab.emulator.kernarg.SERVICES`) for host services. During a launch
`LaunchServices` replaces them with real addresses; host calls are answered between two instructions of the calling wavefront,
which then continues. Output therefore appears in the order in which the emulator runs wavefronts: workgroups in linear order,
within a workgroup one wavefront after the other from barrier to barrier, lanes in order.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.device_heap import BOOKS_BYTES, BOOKS_NAME, DeviceHeap, MutableRegistry
from rocm_perf_lab.emulator.device_printf import (
    BUFFER_BYTES,
    BUFFER_NAME,
    PrintfFormatter,
    buffered_messages,
    clear_printf_buffer,
    constant_formats,
)
from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.emulator.host_calls import QUEUE_BYTES, QUEUE_NAME, HostCallMessages, HostService, PhasedQueue, StackedQueue
from rocm_perf_lab.emulator.kernarg import SERVICES
from rocm_perf_lab.emulator.printed import PrintedText
from rocm_perf_lab.emulator.structures import ANSWER, HostCallOutcome, HostServicesRecord
from rocm_perf_lab.toolchain.metadata import read_metadata_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.host_calls import HostCallPacket, PacketQueue
    from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory
    from rocm_perf_lab.emulator.structures import AllocationEntry, ChecksRecord, MachineState
    from rocm_perf_lab.toolchain.code_object import KernelMetadata
    from rocm_perf_lab.toolchain.elf_file import ElfFile

_HOSTCALL_ARGUMENT, _HEAP_ARGUMENT = "hidden_hostcall_buffer", "hidden_heap_v1"
_PRINTF_ARGUMENT = "hidden_printf_buffer"
_ARGUMENTS = (_HOSTCALL_ARGUMENT, _HEAP_ARGUMENT, _PRINTF_ARGUMENT)
_MARKS = {service.argument: service.address for service in SERVICES}
_TO_STDERR = 1
PHASED_SYMBOL = "last_signal_time"
"""Variable of device libraries whose packets have phases; older versions do not define it."""


class UnknownHostCall(EmulationError):
    """A host call for a service that the emulator does not provide."""


class HostServices:
    """Host services of one emulated GPU; memory allocated by kernels is freed with the device memory."""

    def __init__(self, runtime: Runtime, memory: DeviceMemory) -> None:
        self._memory = memory
        self._formatter = PrintfFormatter(runtime)
        self.heap = DeviceHeap(memory)

    def of_kernel(self, kernel: KernelMetadata, kernarg_address: int, elf: ElfFile) -> LaunchServices | None:
        """Return the services that a launch of this kernel needs, or None for most kernels."""
        places = {
            a.value_kind: kernarg_address + a.offset for a in kernel.arguments if a.value_kind in _ARGUMENTS and a.size == 8
        }
        if not places:
            return None
        memory, queue = self._phased_queue if any(PHASED_SYMBOL in name for name in elf.symbols) else self._stacked_queue
        addresses = {_HOSTCALL_ARGUMENT: memory.address}
        if _HEAP_ARGUMENT in places:
            addresses[_HEAP_ARGUMENT] = self._books.address
        formats: dict[int, bytes] = {}
        if _PRINTF_ARGUMENT in places:
            addresses[_PRINTF_ARGUMENT] = self.printf_memory.address
            note = read_metadata_note(elf)
            formats = constant_formats(note.printf_formats if note is not None else ())
        changes = {place: (_MARKS[kind], addresses[kind]) for kind, place in places.items()}
        return LaunchServices(kernel.name, self, queue, self._formatter, changes, formats if _PRINTF_ARGUMENT in places else None)

    @cached_property
    def _stacked_queue(self) -> tuple[Allocation, PacketQueue]:
        memory = self._memory.allocate(QUEUE_NAME, QUEUE_BYTES)
        return memory, StackedQueue(memory.address, self._memory.view(memory))

    @cached_property
    def _phased_queue(self) -> tuple[Allocation, PacketQueue]:
        memory = self._memory.allocate(QUEUE_NAME, QUEUE_BYTES)
        return memory, PhasedQueue(memory.address, self._memory.view(memory))

    @cached_property
    def printf_memory(self) -> Allocation:
        """Buffer for messages that kernels print without host calls."""
        return self._memory.allocate(BUFFER_NAME, BUFFER_BYTES)

    @cached_property
    def printf_buffer(self) -> NDArray[np.uint8]:
        """Content of that buffer."""
        return self._memory.view(self.printf_memory)

    @cached_property
    def _books(self) -> Allocation:
        return self._memory.allocate(BOOKS_NAME, BOOKS_BYTES)


class LaunchServices:
    """Host services of one prepared launch, which may run several times.

    Args:
        kernel: Name of the kernel, for messages.
        services: Services of the emulated GPU.
        queue: Queue of the packets of the kernel.
        formatter: Formatter of printed messages.
        changes: Placeholder and real address, by address in the kernarg segment.
        formats: Constant format strings by hash if the kernel prints to a buffer.
    """

    def __init__(
        self,
        kernel: str,
        services: HostServices,
        queue: PacketQueue,
        formatter: PrintfFormatter,
        changes: Mapping[int, tuple[int, int]],
        formats: dict[int, bytes] | None,
    ) -> None:
        self._kernel, self._services, self._formatter, self._changes = kernel, services, formatter, changes
        self._formats, self._queue = formats, queue
        self._callback = ANSWER(self._answer)
        self.record = HostServicesRecord(ready=queue.ready_address, answer=self._callback)
        self.printed = PrintedText()
        self.calls = 0
        self.error: BaseException | None = None
        self._messages = HostCallMessages()
        self._registry: MutableRegistry | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Replace placeholders in the kernarg segment by addresses and reset the state of the last run."""
        self.printed, self.calls, self.error, self._messages = PrintedText(), 0, None, HostCallMessages()
        if self._formats is not None:
            clear_printf_buffer(self._services.printf_buffer)
        marked = []
        for place, (mark, address) in self._changes.items():
            word = ctypes.c_uint64.from_address(place)
            if word.value == mark:
                word.value = address
                marked.append((word, mark))
        try:
            yield
        finally:
            self._read_printf_buffer()
            for word, mark in marked:  # a captured segment has to keep the placeholders, which are valid in every process
                word.value = mark

    def _read_printf_buffer(self) -> None:
        if self._formats is None:
            return
        for message in buffered_messages(self._services.printf_buffer, self._formats, self._formatter):
            self.printed.add(message.text, to_stderr=message.to_stderr, wavefront=None)

    def begin(self, registry: ctypes.Array[AllocationEntry], state: MachineState, checks: ChecksRecord | None) -> None:
        """Start a run on `state`."""
        self._registry = MutableRegistry(registry, state, checks)

    def _answer(self, workgroup: ctypes.Array[ctypes.c_uint32], wave: int) -> int:
        try:
            ready = self._queue.take_ready()
            for number, packet in ready:
                self._serve(packet, (workgroup[0], workgroup[1], workgroup[2]), wave)
                self._queue.give_back(number)
        except BaseException as error:  # noqa: BLE001  exceptions cannot cross C; `PreparedLaunch` raises it
            self.error = error
            return HostCallOutcome.NONE
        return HostCallOutcome.ANSWERED if ready else HostCallOutcome.NOTHING_ASKED

    def _serve(self, packet: HostCallPacket, workgroup: tuple[int, int, int], wave: int) -> None:
        self.calls += 1
        if packet.service == HostService.PRINTF:
            self._print(packet, workgroup, wave)
        elif packet.service == HostService.DEVICE_MEMORY:
            self._provide_memory(packet, workgroup, wave)
        else:
            raise UnknownHostCall(
                f"kernel {self._kernel}: host call for service {packet.service}, which the emulator does not provide",
                where=f"workgroup {workgroup}, wavefront {wave}",
                hint="Kernels may print and allocate memory. Build without -fsanitize=address, and do not call host functions.",
            )

    def _print(self, packet: HostCallPacket, workgroup: tuple[int, int, int], wave: int) -> None:
        slots = packet.slots
        for lane in packet.lanes:
            descriptor, message = self._messages.add(slots[lane].tolist())
            slots[lane, 0] = descriptor
            if message:
                text = self._formatter.message(message[1:])
                self.printed.add(text, to_stderr=bool(message[0] & _TO_STDERR), wavefront=(workgroup, wave))
                slots[lane, 0] = len(text)

    def _provide_memory(self, packet: HostCallPacket, workgroup: tuple[int, int, int], wave: int) -> None:
        registry, slots = self._registry, packet.slots
        if registry is None:
            raise RuntimeError("a kernel requested memory outside a run")
        added: list[Allocation] = []
        for lane in packet.lanes:
            address, nbytes = int(slots[lane, 0]), int(slots[lane, 1])
            if not address:
                slots[lane, 0] = np.uint64(self._services.heap.allocate(nbytes, added.append))
                continue
            freed = self._services.heap.free(address)
            if freed is None:
                raise EmulationError(
                    f"kernel {self._kernel}: free of {address:#x}, which malloc did not return or which was freed before",
                    where=f"workgroup {workgroup}, wavefront {wave}, lane {lane}",
                    hint="Free each block once, by the address that malloc returned.",
                )
            registry.free(freed)
        if added:
            registry.add(added)
