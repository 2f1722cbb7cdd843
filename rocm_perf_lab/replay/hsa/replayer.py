"""Replay of a capture on a GPU through the HSA runtime, with the captured memory at its captured addresses."""

from __future__ import annotations

import ctypes
from ctypes import c_uint64
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.replay.errors import ReplayError
from rocm_perf_lab.replay.hsa import library as hsa
from rocm_perf_lab.replay.hsa.agents import choose_gpu, host_agent, list_agents
from rocm_perf_lab.replay.hsa.clocks import read_clocks
from rocm_perf_lab.replay.hsa.host_services import HsaHostServices
from rocm_perf_lab.replay.hsa.library import HsaLibrary, out
from rocm_perf_lab.replay.hsa.memory import AgentPair, DeviceRegions
from rocm_perf_lab.replay.hsa.queue import DispatchPacket, DispatchQueue
from rocm_perf_lab.replay.kernarg import ReplayGeometry, replay_kernarg
from rocm_perf_lab.replay.replayer import ReplayEnvironment
from rocm_perf_lab.toolchain.elf_file import parse_elf

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.messages import CacheState
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata

_SMALLEST_KERNARG_BYTES = 64
_CACHE_LEVELS, _WORD, _SMALLEST_FLUSHED_BYTES = 4, 4, 64 << 20


@dataclass(frozen=True)
class _Executable:
    """Loaded code object; `variables` are (address, bytes) by name, `content` keeps the ELF image alive.

    `is_captured`: the captured code object with the captured geometry and scalars, which writes the same pages as the captured
    dispatch.
    """

    handle: int
    content: bytes
    packet: DispatchPacket
    kernarg: bytes
    variables: Mapping[str, tuple[int, bytes]]
    is_captured: bool


class HsaReplayer:
    """Replayer on one GPU.

    Args:
        capture: The capture; this process has reserved its address ranges.
        timeout_s: Time limit of one dispatch in seconds.
        agent: Index of the GPU; None selects the captured one, else the first of its architecture.
        library: Path of the HSA runtime; None searches the usual directories.

    Raises:
        ReservationError: The runtime does not reserve the captured addresses.
        ReplayError: The runtime or a suitable GPU is missing, or memory is insufficient.
    """

    def __init__(self, capture: Capture, *, timeout_s: float, agent: int | None = None, library: str | None = None) -> None:
        self._capture = capture
        self._library = HsaLibrary(library)
        self._library.initialise()
        agents = list_agents(self._library)
        self._gpu = choose_gpu(agents, capture, agent)
        self._memory = DeviceRegions(self._library, AgentPair(self._gpu, host_agent(agents)), capture)
        self._services = HsaHostServices(self._memory)
        self._queue = DispatchQueue(self._library, self._gpu, capture, self._services, timeout_s=timeout_s)
        self._loaded: dict[str, _Executable] = {}
        self._current: _Executable | None = None
        self._flushed: tuple[int, int] | None = None
        self._fills = 0
        self._notes: dict[str, None] = dict.fromkeys([*_notes(capture), *self._queue.notes])

    @property
    def environment(self) -> ReplayEnvironment:
        """GPU and runtime version."""
        info = "hsa_system_get_info"
        major, minor = (self._library.word(info, i, bits=16) for i in (hsa.SYSTEM_VERSION_MAJOR, hsa.SYSTEM_VERSION_MINOR))
        version = _rocm_version() or f"unknown (HSA {major}.{minor})"
        return ReplayEnvironment(f"{self._gpu.name} ({self._gpu.product})", version, self._gpu.is_emulated)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user on the fidelity of this replay."""
        return tuple(self._notes)

    def load(self, code_object: CodeObject, kernel: KernelMetadata, geometry: ReplayGeometry) -> None:
        """Load a code object, arrange its arguments and fill its variables."""
        key = f"{code_object.sha256} {geometry}"
        if key not in self._loaded:
            self._loaded[key] = self._load(code_object, kernel, geometry)
        self._current = self._loaded[key]
        self._memory.restore(changed_only=False)
        self._restore_small()

    def restore(self) -> int:
        """Restore memory; only the changed pages if the captured kernel ran and its changes were captured."""
        known = self._code.is_captured and self._capture.has_after
        copied = self._memory.restore(changed_only=known)
        return copied + self._restore_small()

    def dispatch(self, *, timed: bool = True) -> float | None:
        """Submit the packet and wait; return the duration in microseconds."""
        self._services.reset()
        return self._queue.dispatch(self._code.packet)

    def use_caches(self, state: CacheState) -> None:
        """Do nothing: the state results from the order of restores, flushes and dispatches."""

    def flush(self) -> None:
        """Overwrite the caches by filling a buffer that is larger than them.

        Raises:
            ReplayError: Memory is insufficient, or the runtime cannot fill memory.
        """
        if self._flushed is None:
            size = self._flushed_bytes()
            self._flushed = (self._memory.allocate_device(size, 0), size // _WORD)
        address, words = self._flushed
        self._fills += 1
        self._library.call("hsa_amd_memory_fill", address, self._fills & 0xFFFF_FFFF, words, doing="overwriting the caches")

    def clocks(self) -> Mapping[str, float]:
        """Return the clocks that the driver reports."""
        info = "hsa_agent_get_info"
        bdf, domain = (self._library.word(info, self._gpu.handle, name) for name in (hsa.AGENT_BDF, hsa.AGENT_PCI_DOMAIN))
        return read_clocks(domain or 0, bdf) if bdf is not None else {}

    def _flushed_bytes(self) -> int:
        """Return twice the size of the largest cache that the runtime reports."""
        sizes = (ctypes.c_uint32 * _CACHE_LEVELS)()
        self._library.status("hsa_agent_get_info", self._gpu.handle, hsa.AGENT_CACHE_SIZES, ctypes.byref(sizes))
        return max(_SMALLEST_FLUSHED_BYTES, 2 * max(int(size) for size in sizes))

    def memory(self) -> Iterator[tuple[int, NDArray[np.uint8], NDArray[np.intp] | None]]:
        """Yield every region, copied from the device."""
        for region in self._capture.regions:
            yield region.base, self._memory.download(region.base, region.size), None

    def variables(self) -> Mapping[str, bytes]:
        """Return the module variables, copied from the device."""
        return {name: self._memory.download(at, len(content)).tobytes() for name, (at, content) in self._code.variables.items()}

    def read(self, address: int, nbytes: int) -> bytes:
        """Return device memory."""
        return self._memory.download(address, nbytes).tobytes()

    def counters(self) -> Mapping[str, float]:
        """Return no counters: replays on a GPU are not profiled."""
        return {}

    def close(self) -> None:
        """Release queues, code objects and memory, and shut the runtime down."""
        self._queue.close()
        for executable in self._loaded.values():
            self._library.status("hsa_executable_destroy", executable.handle)
        self._memory.close()
        self._library.status("hsa_shut_down")

    @property
    def _code(self) -> _Executable:
        if self._current is None:
            raise ReplayError("no code object is loaded")
        return self._current

    def _load(self, code_object: CodeObject, kernel: KernelMetadata, geometry: ReplayGeometry) -> _Executable:
        library, content = self._library, code_object.data
        reader, executable, symbol = c_uint64(), c_uint64(), c_uint64()
        library.call(
            "hsa_code_object_reader_create_from_memory", content, len(content), out(reader), doing="reading the code object"
        )
        library.call("hsa_executable_create_alt", self._gpu.profile, 0, None, out(executable), doing="creating an executable")
        library.call(
            "hsa_executable_load_agent_code_object", executable.value, self._gpu.handle, reader.value, None, None,
            doing=f"loading the code object for {code_object.target_id} on {', '.join(self._gpu.isas) or self._gpu.name}",
        )  # fmt: skip
        library.call("hsa_executable_freeze", executable.value, None, doing="freezing the executable")
        gpu = c_uint64(self._gpu.handle)
        library.call(
            "hsa_executable_get_symbol_by_name", executable.value, f"{kernel.symbol}.kd".encode(), out(gpu), out(symbol),
            doing=f"finding kernel {kernel.symbol}",
        )  # fmt: skip
        kernel_object = library.word("hsa_executable_symbol_get_info", symbol.value, hsa.SYMBOL_KERNEL_OBJECT, bits=64) or 0
        services = {"hidden_queue_ptr": self._queue.address, **self._services.arguments(code_object, kernel)}
        kernarg = replay_kernarg(self._capture, kernel, services, geometry)
        self._notes.update(dict.fromkeys(kernarg.notes))
        captured = geometry.packet
        packet = DispatchPacket(
            setup=captured.setup,
            workgroup=captured.workgroup_size,
            grid=captured.grid_size,
            scratch_bytes=max(captured.private_segment_size if self._is_captured(code_object) else 0, kernel.scratch_bytes),
            lds_bytes=kernel.lds_bytes + geometry.dynamic_lds_bytes,
            kernel_object=kernel_object,
            kernarg_address=self._kernarg_address(len(kernarg.content)),
        )
        variables = dict(self._variables(code_object, kernel_object - kernel.descriptor_address))
        same = self._is_captured(code_object) and geometry == ReplayGeometry.captured(self._capture)
        return _Executable(executable.value, content, packet, kernarg.content, variables, same)

    def _is_captured(self, code_object: CodeObject) -> bool:
        return code_object.sha256 == self._capture.code_object.sha256

    def _kernarg_address(self, nbytes: int) -> int:
        """Return the captured address if its memory was captured and the segment fits, else that of similar new memory."""
        address = self._capture.dispatch.packet.kernarg_address
        region = self._capture.memory.region_at(address)
        if region is not None and region.file is not None and nbytes <= len(self._capture.kernarg):
            return address
        size = max(nbytes, _SMALLEST_KERNARG_BYTES)
        kernarg = self._capture.dispatch.kernarg
        if kernarg is not None and kernarg.location == "gpu":
            return self._memory.allocate_device(size, kernarg.pool_flags)
        return self._memory.allocate_host(size, hsa.POOL_KERNARG)

    def _variables(self, code_object: CodeObject, load_delta: int) -> Iterator[tuple[str, tuple[int, bytes]]]:
        """Yield address and content of each variable; uses the symbol table, since the runtime finds no local symbols."""
        symbols = parse_elf(code_object.data).symbols
        part = self._capture.dispatch.code_object
        for variable in self._capture.dispatch.described_variables:
            symbol = symbols.get(variable.name)
            if symbol is None or symbol.size != variable.size:
                self._notes[f"module variable {variable.name} was not restored: it is not in this code object"] = None
                continue
            content = self._capture.variables[variable.offset : variable.offset + variable.size]
            words = np.frombuffer(content[: len(content) // 8 * 8], np.uint64)
            if (words - np.uint64(part.load_base) < part.load_size).any():
                self._notes[f"module variable {variable.name} was not restored: it contains code addresses"] = None
                continue
            yield variable.name, (symbol.address + load_delta, content)

    def _restore_small(self) -> int:
        """Restore arguments and variables; return the number of bytes copied."""
        code = self._code
        small = [(code.packet.kernarg_address, code.kernarg), *code.variables.values()]
        for address, content in small:
            if content:
                self._memory.upload(address, np.frombuffer(content, np.uint8))
        return sum(len(content) for _, content in small)


def _notes(capture: Capture) -> Iterator[str]:
    yield from capture.dispatch.warnings
    for region in capture.memory.regions:
        if region.error is not None:
            yield f"region {region.base:#x} of {region.size:,} bytes was not captured: {region.error}"
    host = [region for region in capture.regions if region.location == "cpu" and not region.contains_kernarg]
    if host:
        yield f"host memory ({len(host)} of the regions) is in GPU memory in a replay: equal contents, different latency"
    count = capture.dispatch.code_pointers.count
    if count:
        yield f"{count} pointers in captured memory refer to code, which is at another address in a replay"


def _rocm_version() -> str | None:
    from rocm_perf_lab.device.machine import Machine, rocm_version

    return next((version for root in Machine().rocm_roots() if (version := rocm_version(root))), None)
