"""Processes that run jobs of the translation service, started on demand and ended when idle.

The service remains small and responsive; a crash of the decoder or the compiler ends one process, not the service.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from typing import Self

IDLE_SECONDS = 20.0
"""Seconds after which an idle process ends."""
_MOST_PROCESSES = 4
_END_SECONDS = 5.0
Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")


class JobProcessError(LabError):
    """Process that ended during a job."""


class ProcessJob(Protocol[Result_co]):
    """Job without shared state. The job and its result can be pickled."""

    def run(self) -> Result_co:
        """Do the work.

        Raises:
            LabError: It is not possible.
        """
        ...


class JobProcesses:
    """Processes that run jobs, at most one for each processor; a context manager that ends them."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(max(1, min(_MOST_PROCESSES, os.cpu_count() or 1)))
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._all: list[_Process] = []
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes; running jobs fail."""
        with self._lock:
            self._closed = True
            processes, self._all, self._idle = self._all, [], []
        for process in processes:
            process.end()

    def run(self, job: ProcessJob[Result]) -> Result:
        """Run a job and wait for its result; thread-safe.

        Raises:
            LabError: The job reported an error, or its process ended.
        """
        with self._free:
            kept = self._take()
            if kept is not None:
                try:
                    return self._run_in(kept, job)
                except _ProcessGone:
                    pass  # The idle process has ended.
            try:
                return self._run_in(self._start(), job)
            except _ProcessGone as error:
                raise JobProcessError(
                    "a process that translates kernels ended unexpectedly",
                    hint="See its message above. If memory is insufficient, run fewer processes at the same time.",
                ) from error

    def _run_in(self, process: _Process, job: ProcessJob[Result]) -> Result:
        try:
            result = process.run(job)
        except (EOFError, OSError) as error:
            with self._lock:
                self._all = [other for other in self._all if other is not process]
            process.end()
            raise _ProcessGone from error
        with self._lock:
            self._idle.append(process)
        if isinstance(result, LabError):
            raise result
        return cast("Result", result)

    def _take(self) -> _Process | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _start(self) -> _Process:
        with self._lock:
            if self._closed:
                raise JobProcessError("the translation service has ended")
            process = _Process()
            self._all.append(process)
            return process


class _ProcessGone(Exception):
    pass


class _Process:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        self._connection = Connection(ours.detach())

    def run(self, job: ProcessJob[object]) -> object:
        """Return the result, or the error as an object.

        Raises:
            EOFError: The process has ended.
            OSError: The process has ended.
        """
        self._connection.send(job)
        kind, content = self._connection.recv()
        return LabError(content[0], where=content[1], hint=content[2]) if kind == "error" else content

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait(_END_SECONDS)


def serve(descriptor: int) -> None:
    """Run jobs until the connection is closed or there is no job for :data:`IDLE_SECONDS`.

    Args:
        descriptor: File descriptor of the connection.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The service ends this process.
    with Connection(descriptor) as connection:
        while connection.poll(IDLE_SECONDS):
            try:
                job: ProcessJob[object] = connection.recv()
            except EOFError:
                return
            try:
                answer: tuple[str, object] = ("result", job.run())
            except LabError as error:
                answer = ("error", (error.what, error.where, error.hint))
            connection.send(answer)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
