"""Driver's side of the translation service, in Python, and emulated launches of the code that it answers."""

from __future__ import annotations

import ctypes
import os
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.translation import TranslatedKernel
from rocm_perf_lab.runtime.messages import (
    PROTOCOL,
    Hello,
    HotBlocks,
    KernelAnswer,
    KernelQuery,
    MessageHeader,
    MessageKind,
    message,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

    from rocm_perf_lab.emulator.build import Runtime
    from rocm_perf_lab.emulator.loader import LoadedCodeObject
    from rocm_perf_lab.emulator.program import Program
    from rocm_perf_lab.emulator.structures import LaunchRecord
    from rocm_perf_lab.toolchain.code_object import KernelMetadata

PAGE = 4096


@dataclass(frozen=True)
class Answered:
    """Answer about a kernel."""

    fields: KernelAnswer
    library: str
    name: str


class ServiceClient:
    """Connection to a service; memory is a sparse file at address 0."""

    def __init__(self, path: Path, *, protocol: int = PROTOCOL) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(60)
        self._socket.connect(str(path))
        self.memory = os.memfd_create("device memory")
        content = message(MessageKind.HELLO, Hello(protocol=protocol, pid=os.getpid()), b"/usr/bin/app")
        socket.send_fds(self._socket, [content], [self.memory])
        self.greeting = self._receive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        os.close(self.memory)

    def ask(self, kind: int, *parts: bytes | ctypes.LittleEndianStructure) -> tuple[int, bytes]:
        """Send a request and return kind and content of the answer."""
        content = b"".join(map(bytes, parts))
        self._socket.sendall(bytes(MessageHeader(kind=kind, bytes=len(content))) + content)
        return self._receive()

    def write(self, offset: int, content: bytes) -> None:
        """Write to the memory file."""
        os.pwrite(self.memory, content, offset)

    def kernel(self, descriptor: int, image: int, size: int, offset: int, file: bytes = b"", gpu: int = 0) -> Answered:
        """Ask for a kernel, which has to be translated."""
        query = KernelQuery(object=descriptor, image=image, image_bytes=size, image_offset=offset, elf_bytes=len(file), gpu=gpu)
        kind, content = self.ask(MessageKind.KERNEL, query, file)
        assert kind == MessageKind.KERNEL_IS, content
        fields, rest = parse(KernelAnswer, content)
        library, name, end = rest.split(b"\0")
        assert end == b""
        return Answered(fields, library.decode(), name.decode())

    def hot(self, number: int, counts: Sequence[int]) -> str:
        """Report executions of blocks, and return the path of better code."""
        words = b"".join(count.to_bytes(8, "little") for count in counts)
        kind, content = self.ask(MessageKind.HOT, HotBlocks(id=number, block_count=len(counts)), words)
        assert kind == MessageKind.CODE_IS, content
        return content.rstrip(b"\0").decode()

    def _receive(self) -> tuple[int, bytes]:
        header = MessageHeader.from_buffer_copy(self._exactly(ctypes.sizeof(MessageHeader)))
        return header.kind, self._exactly(header.bytes)

    def _exactly(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            part = self._socket.recv(size - len(content))
            if not part:
                raise EOFError
            content += part
        return content


class LibraryCode:
    """Native code of a library in place of that of the emulator's own compiler."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self.address = int(ctypes.cast(self._library.kernel, ctypes.c_void_p).value or 0)

    @contextmanager
    def running(self, record: LaunchRecord, _: NDArray[np.generic]) -> Iterator[None]:
        """Let a launch use the code."""
        record.kernel = self.address
        yield


class LibraryTranslator:
    """Translator of the emulator that returns libraries; helpers are those of the runtime, in the global scope."""

    def __init__(self, program: Program, path: str) -> None:
        self.runtime: Runtime = load_runtime()
        self._global = ctypes.CDLL(str(self.runtime.path), mode=ctypes.RTLD_GLOBAL)
        self._translated = TranslatedKernel(program, LibraryCode(path))  # type: ignore[arg-type]

    def translate(self, _: LoadedCodeObject, __: KernelMetadata) -> TranslatedKernel:
        """Return the kernel."""
        return self._translated
