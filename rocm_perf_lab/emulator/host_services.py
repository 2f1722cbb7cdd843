"""The host's side of a kernel that prints or allocates: gives it the memory it needs for that, and answers its calls.

A kernarg segment holds marks (:data:`~rocm_perf_lab.emulator.kernarg.SERVICES`) where a service of the host belongs. While a
launch runs, `HostServices` puts addresses of its own there; `answer` is called between two instructions of the wavefront that
asks, which then goes on at once. So what is printed comes in the order in which the emulator runs wavefronts: workgroups in
linear order, in each of them one wavefront after the other from barrier to barrier, lanes in order.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator import printf_buffer
from rocm_perf_lab.emulator.device_heap import BOOKS_BYTES, BOOKS_NAME, DeviceHeap
from rocm_perf_lab.emulator.device_printf import Formatter
from rocm_perf_lab.emulator.errors import EmulationError
from rocm_perf_lab.emulator.growing_registry import GrowingRegistry
from rocm_perf_lab.emulator.host_calls import QUEUE_BYTES, QUEUE_NAME, HostService, Messages, PhasedQueue, StackedQueue
from rocm_perf_lab.emulator.kernarg import SERVICES
from rocm_perf_lab.emulator.printed import PrintedText
from rocm_perf_lab.emulator.printf_buffer import BUFFER_BYTES, BUFFER_NAME, constant_formats
from rocm_perf_lab.emulator.structures import ANSWER, Answer, HostRecord
from rocm_perf_lab.toolchain.metadata import read_metadata_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.host_calls import Packet, PacketQueue
    from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory
    from rocm_perf_lab.emulator.structures import AllocationEntry, ChecksRecord, MachineState
    from rocm_perf_lab.toolchain.code_object import KernelMetadata
    from rocm_perf_lab.toolchain.elf_file import ElfFile

_HOSTCALL_ARGUMENT, _HEAP_ARGUMENT = "hidden_hostcall_buffer", "hidden_heap_v1"
_PRINTF_ARGUMENT = "hidden_printf_buffer"
_ARGUMENTS = (_HOSTCALL_ARGUMENT, _HEAP_ARGUMENT, _PRINTF_ARGUMENT)
_MARKS = {service.argument: service.address for service in SERVICES}
_TO_STDERR = 1
_PHASED_SYMBOL = "last_signal_time"
"""A variable of the device libraries whose packets have phases; older ones do not have it."""


class UnknownHostCall(EmulationError):
    """The kernel asks the host for something that only a real process can give."""


class HostServices:
    """Of one machine; what kernels allocated lives until its memory is closed."""

    def __init__(self, runtime: Runtime, memory: DeviceMemory) -> None:
        self._memory = memory
        self._formatter = Formatter(runtime)
        self.heap = DeviceHeap(memory)

    def of_kernel(self, kernel: KernelMetadata, kernarg_address: int, elf: ElfFile) -> LaunchServices | None:
        """What a launch of this kernel needs; None where it needs nothing, as nearly all do."""
        places = {
            a.value_kind: kernarg_address + a.offset for a in kernel.arguments if a.value_kind in _ARGUMENTS and a.size == 8
        }
        if not places:
            return None
        memory, queue = self._phased_queue if any(_PHASED_SYMBOL in name for name in elf.symbols) else self._stacked_queue
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
        """Where kernels leave what they print without host calls."""
        return self._memory.allocate(BUFFER_NAME, BUFFER_BYTES)

    @cached_property
    def printf_buffer(self) -> NDArray[np.uint8]:
        """Its bytes."""
        return self._memory.view(self.printf_memory)

    @cached_property
    def _books(self) -> Allocation:
        return self._memory.allocate(BOOKS_NAME, BOOKS_BYTES)


class LaunchServices:
    """Of one launch, which may run many times.

    Args:
        kernel: Its name, for messages.
        services: Of the machine.
        queue: Where the kernel puts its packets.
        formatter: What makes text of messages.
        changes: By address in the kernarg segment: the mark that is there, and what the kernel has to find.
        formats: Constant format strings by their hash, where the kernel prints to a buffer.
    """

    def __init__(
        self,
        kernel: str,
        services: HostServices,
        queue: PacketQueue,
        formatter: Formatter,
        changes: Mapping[int, tuple[int, int]],
        formats: dict[int, bytes] | None,
    ) -> None:
        self._kernel, self._services, self._formatter, self._changes = kernel, services, formatter, changes
        self._formats, self._queue = formats, queue
        self._callback = ANSWER(self._answer)
        self.record = HostRecord(ready=queue.ready_address, answer=self._callback)
        self.printed = PrintedText()
        self.calls = 0
        self.error: BaseException | None = None
        self._messages = Messages()
        self._registry: GrowingRegistry | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Addresses instead of marks in the kernarg segment, and a clean slate."""
        self.printed, self.calls, self.error, self._messages = PrintedText(), 0, None, Messages()
        if self._formats is not None:
            printf_buffer.clear(self._services.printf_buffer)
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
            for word, mark in marked:  # the segment may belong to a capture, whose content means the same in every process
                word.value = mark

    def _read_printf_buffer(self) -> None:
        if self._formats is None:
            return
        for message in printf_buffer.messages(self._services.printf_buffer, self._formats, self._formatter):
            self.printed.add(message.text, to_stderr=message.to_stderr, wavefront=None)

    def begin(self, registry: ctypes.Array[AllocationEntry], state: MachineState, checks: ChecksRecord | None) -> None:
        """A run on `state` begins."""
        self._registry = GrowingRegistry(registry, state, checks)

    def _answer(self, workgroup: ctypes.Array[ctypes.c_uint32], wave: int) -> int:
        try:
            ready = self._queue.take_ready()
            for number, packet in ready:
                self._serve(packet, (workgroup[0], workgroup[1], workgroup[2]), wave)
                self._queue.give_back(number)
        except BaseException as error:  # noqa: BLE001  nothing may pass through C; `PreparedLaunch` raises it again
            self.error = error
            return Answer.NONE
        return Answer.ANSWERED if ready else Answer.NOTHING_ASKED

    def _serve(self, packet: Packet, workgroup: tuple[int, int, int], wave: int) -> None:
        self.calls += 1
        if packet.service == HostService.PRINTF:
            self._print(packet, workgroup, wave)
        elif packet.service == HostService.DEVICE_MEMORY:
            self._provide_memory(packet, workgroup, wave)
        else:
            raise UnknownHostCall(
                f"kernel {self._kernel}: it calls the host for service {packet.service}, which the emulator does not have",
                where=f"workgroup {workgroup}, wavefront {wave}",
                hint="Kernels may print and allocate. Build without -fsanitize=address, and do not call host functions.",
            )

    def _print(self, packet: Packet, workgroup: tuple[int, int, int], wave: int) -> None:
        slots = packet.slots
        for lane in packet.lanes:
            descriptor, message = self._messages.add(slots[lane].tolist())
            slots[lane, 0] = descriptor
            if message:
                text = self._formatter.message(message[1:])
                self.printed.add(text, to_stderr=bool(message[0] & _TO_STDERR), wavefront=(workgroup, wave))
                slots[lane, 0] = len(text)

    def _provide_memory(self, packet: Packet, workgroup: tuple[int, int, int], wave: int) -> None:
        registry, slots = self._registry, packet.slots
        if registry is None:
            raise RuntimeError("memory was asked for outside of a run")
        added: list[Allocation] = []
        for lane in packet.lanes:
            address, nbytes = int(slots[lane, 0]), int(slots[lane, 1])
            if not address:
                slots[lane, 0] = np.uint64(self._services.heap.allocate(nbytes, added.append))
                continue
            freed = self._services.heap.free(address)
            if freed is None:
                raise EmulationError(
                    f"kernel {self._kernel}: it frees {address:#x}, which malloc did not give or which was freed before",
                    where=f"workgroup {workgroup}, wavefront {wave}, lane {lane}",
                    hint="Free each block once, by the address that malloc gave.",
                )
            registry.free(freed)
        if added:
            registry.add(added)
