"""Emulator of the stand-in HSA runtime: `python server.py SOCKET` starts one child process per connection.

A client sends its device memory (a memfd) once, then one line per request: the request and the memory's table, separated by
`;`. The child maps the same bytes at the same addresses, so that pointers of the client are valid in kernels.

    load FILE SIZE IMAGE    -> NUMBER;kernel NAME OFFSET KERNARG GROUP SCRATCH;variable NAME OFFSET SIZE;...
    run NUMBER PACKET NAME  -> ok | hang | fault ADDRESS | error message
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import signal
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.geometry import Geometry
from rocm_perf_lab.emulator.faults import InstructionBudgetExceeded, MemoryFault
from rocm_perf_lab.emulator.loader import ALLOCATION_NAME, LoadedCodeObject
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.memory import Allocation, DeviceMemory
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.elf import read_code_object

if TYPE_CHECKING:
    from rocm_perf_lab.emulator.build import Runtime

MAX_INSTRUCTIONS = 300_000_000
_MAP_FIXED_NOREPLACE = 0x100000
_PACKET = struct.Struct("<HHHHHHIIIIIQQQQ")
_OBJECT = 1  # STT_OBJECT
_ADDRESS = re.compile(r"at (0x[0-9a-f]+)")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class SharedMemory(DeviceMemory):
    """Device memory that is shared with the client."""

    def __init__(self, runtime: Runtime, file: int) -> None:
        super().__init__(runtime)
        self._file = file
        self._shared: dict[tuple[int, int, int], Allocation] = {}

    def follow(self, table: set[tuple[int, int, int]]) -> None:
        """Map new and unmap removed allocations; entries are (address, size, offset in the file)."""
        for gone in set(self._shared) - table:
            self._allocations.remove(self._shared[gone])
            self._adopted.discard(self._shared.pop(gone))
            _libc.munmap(gone[0], gone[1])
        for address, size, offset in sorted(table - set(self._shared)):
            protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED_NOREPLACE
            if _libc.mmap(address, size, protection, flags, self._file, offset) != address:
                raise LabError(f"address {address:#x} is in use in the emulator")
            self._shared[address, size, offset] = self.adopt(f"{address:#x}", size, address)

    def allocate(self, name: str, nbytes: int, address: int | None = None) -> Allocation:
        """Allocate memory; code objects are placed at the address that the client requests."""
        if name == ALLOCATION_NAME and address is not None:
            return next(a for a in self._allocations if a.address == address and a.nbytes >= nbytes)
        return super().allocate(name, nbytes, address)


class Client:
    """One connected process."""

    def __init__(self, memory_file: int) -> None:
        self._machine = EmulatedGpu(load_target("mi300x"), max_instructions=MAX_INSTRUCTIONS)
        self._memory = SharedMemory(self._machine.memory.runtime, memory_file)
        self._machine.memory = self._memory
        self._loaded: list[LoadedCodeObject] = []

    def answer(self, line: str) -> str:
        """Execute one request and return the answer."""
        request, *rows = line.split(";")
        try:
            self._memory.follow({(int(a), int(s), int(o)) for a, s, o in (row.split() for row in rows)})
            words = request.split(" ", 3)
            if words[0] == "load":
                return self._load(*map(int, words[1:]))
            return self._run(int(words[1]), int(words[2]), words[3].removesuffix(".kd"))
        except InstructionBudgetExceeded:
            return "hang"
        except MemoryFault as error:
            found = _ADDRESS.search(error.what)
            return f"fault {int(found[1], 16)}" if found else " ".join(error.lines())
        except LabError as error:
            return " ".join(error.lines())

    def _load(self, file: int, size: int, image: int) -> str:
        code_object = read_code_object(ctypes.string_at(file, size))
        loaded = self._machine.load(code_object, image)
        self._loaded.append(loaded)
        items = [str(len(self._loaded) - 1)]
        for kernel in code_object.kernels:
            sizes = f"{kernel.kernarg_bytes} {kernel.lds_bytes} {kernel.scratch_bytes}"
            items.append(f"kernel {kernel.symbol}.kd {kernel.descriptor_address} {sizes}")
        variables = [s for s in loaded.elf.symbols.values() if s.kind == _OBJECT and not s.name.endswith(".kd") and s.size]
        items += [f"variable {s.name} {s.address} {s.size}" for s in variables]
        return ";".join(items)

    def _run(self, number: int, packet_address: int, symbol: str) -> str:
        loaded = self._loaded[number]
        kernel = loaded.kernel(symbol)
        packet = _PACKET.unpack(ctypes.string_at(packet_address, _PACKET.size))
        block, work_items = packet[2:5], packet[6:9]
        scratch_bytes, lds_bytes, _, kernarg_address = packet[9:13]
        geometry = Geometry.of_work_items(work_items, block, lds_bytes - kernel.lds_bytes)
        kernarg = ctypes.string_at(kernarg_address, kernel.kernarg_bytes) if kernel.kernarg_bytes else b""
        with self._machine.prepare(
            loaded, symbol, geometry, kernarg, kernarg_address=kernarg_address, scratch_bytes=scratch_bytes
        ) as prepared:
            prepared.run()
        return "ok"


def serve(path: Path) -> None:
    """Accept connections until the process is killed; `path` exists as soon as it listens."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _serve_one(connection)
                os._exit(0)
            connection.close()


def _serve_one(connection: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a compiler waits for processes that it starts
    _, files, _, _ = socket.recv_fds(connection, 1, 1)
    client = Client(files[0])
    with suppress(BrokenPipeError, ConnectionResetError), connection.makefile("rw") as stream:
        for line in stream:
            stream.write(client.answer(line.rstrip("\n")).replace("\n", " ") + "\n")
            stream.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
