"""Translation service of `rocm-perf run`: answers the emulated drivers in the application's processes.

`with TranslationService(socket, targets): ...` listens on a private Unix socket. Each connection has a thread. Cached kernels
are answered in milliseconds; others are translated by separate processes.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.runtime.job_processes import JobProcesses
from rocm_perf_lab.runtime.kernel_store import KernelStore, ServedKernel
from rocm_perf_lab.runtime.messages import (
    NOT_IN_FILE,
    PROTOCOL,
    CheckFacts,
    FaultReport,
    Hello,
    HotBlocks,
    KernelQuery,
    MessageError,
    MessageHeader,
    MessageKind,
    message,
    parse,
    parse_ranges,
    parse_words,
    texts,
)
from rocm_perf_lab.runtime.translation_jobs import FaultJob

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Self

    from rocm_perf_lab.target.model import Target

_CREDENTIALS = struct.Struct("iII")
_LARGEST_MESSAGE_BYTES = 4 << 30
_NUMBER = struct.Struct("<I")
_DURATION_BYTES = 24
_BACKLOG = 128
_END_SECONDS = 5.0
_CHUNK_BYTES = 1 << 20


class Estimator(Protocol):
    """Estimates the duration of a dispatch."""

    def __call__(self, kernel: ServedKernel, content: bytes, processes: JobProcesses) -> bytes:
        """Return `struct rpl_duration` for a message about a dispatch (`struct rpl_dispatch_record` with its variable parts).

        Args:
            kernel: The kernel.
            content: The message.
            processes: Processes for the work.

        Raises:
            LabError: The message is damaged.
        """
        ...


class TranslationService:
    """Server for the drivers of one session; a context manager that stops it on exit.

    Args:
        path: Socket.
        targets: The emulated GPUs in the order of their indices.
        estimator: Estimates durations of dispatches; without it there are none.
        directory: Directory of native code; the user's cache by default.
    """

    def __init__(
        self, path: Path, targets: Sequence[Target], estimator: Estimator | None = None, directory: Path | None = None
    ) -> None:
        self._path = path
        self._targets = tuple(targets)
        self._estimator = estimator
        self._processes = JobProcesses()
        self.store = KernelStore(directory or cache_dir() / "native", self._processes)
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener: socket.socket | None = None

    def __enter__(self) -> Self:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._path))
        self._path.chmod(0o600)
        listener.listen(_BACKLOG)
        self._listener = listener
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections, threads and processes, and remove the socket."""
        listener, self._listener = self._listener, None
        if listener is None:
            return
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        with self._lock:
            connections, threads = tuple(self._connections), tuple(self._threads)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._processes.close()
        for thread in threads:
            thread.join(_END_SECONDS)
        self._path.unlink(missing_ok=True)

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="translation service", daemon=True)
        with self._lock:
            self._threads = [*(t for t in self._threads if t.is_alive()), thread]
            thread.start()

    def _accept(self) -> None:
        listener = self._listener
        _import_readers_of_code()
        while listener is not None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # closed
            if _is_of_this_user(connection):
                with self._lock:
                    self._connections.add(connection)
                self._start(_Conversation(connection, self._answer, self._forget).run)
            else:
                connection.close()

    def _forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)

    def _answer(self, peer: _Peer, kind: int, content: bytes) -> bytes:
        """Return the answer to a request; errors become a refusal."""
        try:
            match kind:
                case MessageKind.KERNEL:
                    return self._kernel(peer, content)
                case MessageKind.HOT:
                    return self._hot(content)
                case MessageKind.FAULT_TEXT:
                    return self._fault_text(content)
                case MessageKind.RECORD:
                    return self._duration(content)
                case MessageKind.CHECK_FACTS:
                    return self._check_facts(content)
                case MessageKind.HIP_CODE:
                    from rocm_perf_lab.runtime.hip_code import answer_hip_code

                    return message(MessageKind.HIP_CODE_IS, *answer_hip_code(content))
                case MessageKind.HIP_COMPILE:
                    from rocm_perf_lab.runtime.hip_compilation import answer_hip_compilation  # loads the toolchain

                    return message(MessageKind.HIP_COMPILED, *answer_hip_compilation(content))
            raise MessageError(f"a driver sent a message of unknown kind {kind}", hint="Run the same version of rocm-perf-lab.")
        except LabError as error:
            return message(MessageKind.REFUSED, texts(_text_of(error)))
        except OSError as error:
            reason = LabError(f"the translation service failed: {error}", hint="Check the space on the disk of the cache.")
            return message(MessageKind.REFUSED, texts(_text_of(reason)))
        except Exception as error:  # noqa: BLE001  # boundary of the service: an internal error becomes one error of the application
            what = f"internal error in the translation service: {type(error).__name__}: {' '.join(str(error).split())}"
            return message(MessageKind.REFUSED, texts(_text_of(LabError(what, hint="Report it with the kernel."))))

    def _kernel(self, peer: _Peer, content: bytes) -> bytes:
        query, file = parse(KernelQuery, content)
        if query.gpu >= len(self._targets) or query.elf_bytes != len(file):
            raise MessageError(f"a driver asked for a kernel of GPU {query.gpu} with a file of {len(file)} bytes")
        from rocm_perf_lab.runtime.code_image import DeviceBlock, find_code

        block = DeviceBlock(query.image, query.image_bytes, peer.reader(query.image_offset, query.image))
        image = find_code(block, query.object, file)
        kernel = self.store.translated(image, self._targets[query.gpu].architecture)
        answer = kernel.facts.answer(kernel.number, image.load_address)
        return message(MessageKind.KERNEL_IS, answer, texts(str(self.store.library(kernel)), kernel.facts.name))

    def _hot(self, content: bytes) -> bytes:
        """Optimise frequently executed blocks; the driver requests this in a separate thread."""
        import numpy as np

        from rocm_perf_lab.emulator.hot_blocks import blocks_to_optimise

        hot, rest = parse(HotBlocks, content)
        kernel = self.store.kernel(hot.id)
        facts = kernel.facts
        if hot.block_count != len(facts.lengths):
            raise MessageError(f"a driver counted {hot.block_count} blocks of kernel {facts.name}")
        counts = np.array(parse_words(rest, hot.block_count), dtype=np.uint64)
        chosen = blocks_to_optimise(counts, facts.lengths, frozenset(facts.optimised))
        if chosen is None:
            return message(MessageKind.CODE_IS, texts(""))
        return message(MessageKind.CODE_IS, texts(str(self.store.library(self.store.optimised(kernel, chosen)))))

    def _fault_text(self, content: bytes) -> bytes:
        from rocm_perf_lab.emulator.structures import FaultRecord

        report, rest = parse(FaultReport, content)
        kernel, size = self.store.kernel(report.id), ctypes.sizeof(FaultRecord)
        job = FaultJob(
            kernel.image,
            kernel.architecture,
            rest[:size],
            report.max_instructions,
            parse_ranges(rest[size:]),
            kernel.facts.unsupported,
            bool(report.is_in_host_memory),
        )
        geometry = f"grid {_triple(report.grid)}, block {_triple(report.block)}"
        text = f"{self._processes.run(job)}\n   in: dispatch {report.dispatch} of queue {report.queue}, {geometry}"
        return message(MessageKind.TEXT_IS, texts(_lines(text)))

    def _check_facts(self, content: bytes) -> bytes:
        if len(content) != _NUMBER.size:
            raise MessageError("a driver requested the facts of an empty list of kernels")
        kernel = self.store.kernel(_NUMBER.unpack(content)[0])
        traits = bytes.fromhex(kernel.facts.traits)
        return message(MessageKind.CHECK_FACTS_ARE, CheckFacts(len(traits), kernel.facts.has_unseen_releases), traits)

    def _duration(self, content: bytes) -> bytes:
        if len(content) < _NUMBER.size:
            raise MessageError("the message about a dispatch is empty")
        kernel = self.store.kernel(_NUMBER.unpack_from(content)[0])
        answer = self._estimator(kernel, content, self._processes) if self._estimator is not None else bytes(_DURATION_BYTES)
        return message(MessageKind.DURATION_IS, answer)


class _Peer:
    """Peer of a connection: a process of the application, whose memory the service reads."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._file: int | None = None

    def keep(self, files: Sequence[int]) -> None:
        """Take ownership of the descriptor of the memory file."""
        for file in files:
            if self._file is None:
                self._file = file
            else:
                os.close(file)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def reader(self, offset: int, address: int) -> Callable[[int, int], bytes]:
        """Return a function that reads a block of memory.

        Args:
            offset: Place of the block in the memory file, or :data:`NOT_IN_FILE`.
            address: Its address in the process.
        """

        def read(start: int, size: int) -> bytes:
            if self._file is not None and offset != NOT_IN_FILE:
                return _read_file(self._file, offset + start, size)
            try:
                memory = os.open(f"/proc/{self._pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                raise LabError(
                    f"the memory of process {self._pid}, which has the code of a kernel, cannot be read: {error.strerror}",
                    hint="Allow processes to trace their children (CAP_SYS_PTRACE, or kernel.yama.ptrace_scope of at most 1).",
                ) from error
            try:
                return _read_file(memory, address + start, size)
            finally:
                os.close(memory)

        return read


class _Conversation:
    """Handler of one connection, which answers requests sequentially."""

    def __init__(
        self,
        connection: socket.socket,
        answer: Callable[[_Peer, int, bytes], bytes],
        forget: Callable[[socket.socket], None],
    ) -> None:
        self._connection = connection
        self._answer = answer
        self._forget = forget

    def run(self) -> None:
        """Answer requests until the peer closes the connection."""
        pid, *_ = _credentials(self._connection)
        peer = _Peer(pid)
        with ExitStack() as stack:
            stack.enter_context(self._connection)
            stack.callback(self._forget, self._connection)
            stack.callback(peer.close)
            with suppress(OSError, _ConnectionEnded):
                if self._greet(peer):
                    while True:
                        kind, content = self._request(peer)
                        self._connection.sendall(self._answer(peer, kind, content))

    def _greet(self, peer: _Peer) -> bool:
        """Receive the first message; return whether the versions fit."""
        kind, content = self._request(peer)
        if kind == MessageKind.HELLO and len(content) >= ctypes.sizeof(Hello):
            hello, _ = parse(Hello, content)
            if hello.protocol == PROTOCOL:
                self._connection.sendall(message(MessageKind.OK))
                return True
        error = MessageError(
            "the emulated driver in the application is from another version of rocm-perf-lab",
            hint="Start the application again.",
        )
        self._connection.sendall(message(MessageKind.REFUSED, texts(_text_of(error))))
        return False

    def _request(self, peer: _Peer) -> tuple[int, bytes]:
        header = MessageHeader.from_buffer_copy(self._receive(peer, ctypes.sizeof(MessageHeader)))
        if header.bytes > _LARGEST_MESSAGE_BYTES:
            raise _ConnectionEnded
        return header.kind, self._receive(peer, header.bytes)

    def _receive(self, peer: _Peer, size: int) -> bytes:
        content = bytearray()
        while len(content) < size:
            part, files, _, _ = socket.recv_fds(self._connection, min(size - len(content), _CHUNK_BYTES), 1)
            peer.keep(files)
            if not part:
                raise _ConnectionEnded
            content += part
        return bytes(content)


class _ConnectionEnded(Exception):
    pass


def _credentials(connection: socket.socket) -> tuple[int, int, int]:
    """Return process, user and group id of the peer."""
    content = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, group = _CREDENTIALS.unpack(content)
    return pid, user, group


def _is_of_this_user(connection: socket.socket) -> bool:
    return _credentials(connection)[1] == os.getuid()


def _read_file(file: int, start: int, size: int) -> bytes:
    """Return bytes of a file, fewer if they cannot be read."""
    content = b""
    while len(content) < size:
        try:
            part = os.pread(file, size - len(content), start + len(content))
        except (OSError, OverflowError):
            break
        if not part:
            break
        content += part
    return content


def _text_of(error: LabError) -> str:
    return _lines("\n".join(error.lines()))


def _lines(text: str) -> str:
    return f"rocm-perf: {text}\n"


def _triple(values: Sequence[int]) -> str:
    return " x ".join(map(str, values))


def _import_readers_of_code() -> None:
    """Import the modules for the first kernel while the application starts."""
    import rocm_perf_lab.runtime.code_image
    import rocm_perf_lab.runtime.hip_code  # noqa: F401
