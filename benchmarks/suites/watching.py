"""Output of a process, line by line, with a wall-clock limit between two signs of progress."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_CHUNK_BYTES = 1 << 16
_TIME_TO_END_S = 10.0


class WatchedProcess:
    """A command whose output is read while it runs.

    Args:
        command: Command line.
        directory: Working directory.
        limit_s: Seconds after a mark of progress after which the process is ended.
        is_progress: Whether a line of the output is a mark of progress.
        variables: Environment variables in addition to those of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: Path,
        limit_s: float,
        is_progress: Callable[[str], bool],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._command, self._directory = command, directory
        self._limit_s, self._is_progress = limit_s, is_progress
        self._environment = {**os.environ, **(variables or {})}
        self.was_ended = False
        self.exit_code: int | None = None

    def lines(self) -> Iterator[str]:
        """Yield standard output and standard error by line, until the process ends or exceeds its limit."""
        with subprocess.Popen(
            self._command,
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                yield from self._read(process)
            finally:
                if process.poll() is None:
                    _end(process)
            self.exit_code = process.returncode

    def _read(self, process: subprocess.Popen[bytes]) -> Iterator[str]:
        assert process.stdout is not None
        deadline, rest = time.monotonic() + self._limit_s, b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    self.was_ended = True
                    return
                data = os.read(process.stdout.fileno(), _CHUNK_BYTES)
                if not data:
                    break
                *whole, rest = (rest + data).split(b"\n")
                for line in (one.decode(errors="replace") for one in whole):
                    if self._is_progress(line):
                        deadline = time.monotonic() + self._limit_s
                    yield line
        if rest:
            yield rest.decode(errors="replace")
        process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all processes of its session."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_TIME_TO_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
