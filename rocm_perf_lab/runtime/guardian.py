"""Process between `rocm-perf run` and the application that reliably ends all of the application's processes.

Processes whose parent has ended become children of the guardian. It forwards signals, ends remaining processes when the
application has ended, and ends everything and removes the session when `rocm-perf run` itself was killed.

With a controlling terminal all processes share the terminal's foreground process group: the application can read from the
terminal, and Ctrl-C reaches it directly. Without one the application has its own process group.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_PARENT_ENDED = signal.SIGRTMIN + 5
_ORDERS = {signal.SIGRTMIN + 6 + index: number for index, number in enumerate(FORWARDED)}
"""Real-time signals with which the parent requests a signal to the application. They are queued; an ordinary signal would be
lost if the guardian has not yet handled its copy of a signal to its process group."""
SENT_BY_KERNEL = 0x80
"""`si_code` of signals from the terminal."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SECOND_INTERRUPT_S = 3.0
_END_GRACE_S = 10.0
"""Seconds for the application to end after SIGTERM or SIGHUP."""
_CHILD_GRACE_S, _TERM_GRACE_S, _KILL_GRACE_S = 1.0, 2.0, 10.0
"""Seconds for other processes to end without a signal, after SIGTERM, and after SIGKILL."""
_POLL_S = 0.02
_KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True)
class ApplicationEnd:
    """End of an application."""

    kind: Literal["exit", "signal", "error"]
    number: int
    """Exit code, signal, or errno of the start that failed."""
    terminated: int = 0
    """Number of processes that outlived the application and were terminated."""

    @property
    def exit_code(self) -> int:
        """Exit code of a shell: 128 + the number of a signal."""
        return 128 + self.number if self.kind == "signal" else self.number

    def text(self) -> str:
        """Return a line for :meth:`parsed`."""
        return f"{self.kind} {self.number} {self.terminated}"

    @classmethod
    def parsed(cls, text: str) -> ApplicationEnd | None:
        """Return the end that a line describes, or None if the line is incomplete."""
        kind, *numbers = text.split() or [""]
        if len(numbers) != 2:
            return None
        for known in ("exit", "signal", "error"):
            if kind == known:
                return cls(known, int(numbers[0]), int(numbers[1]))
        return None


@dataclass(frozen=True)
class ApplicationStart:
    """Command line, environment and signal mask of the application."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    signal_mask: frozenset[signal.Signals]
    """Signals that were blocked when this process started."""
    shares_group: bool
    """Whether the application stays in the process group of this process."""


class Guardian:
    """Running guardian process, which must be created before any thread is started.

    Args:
        start: How to start the application.
        watched: Signals to forward; all of them are blocked in this process.
        when_orphaned: Removes the session; called in the guardian if this process was killed.
    """

    def __init__(self, start: ApplicationStart, watched: frozenset[signal.Signals], when_orphaned: Callable[[], None]) -> None:
        adopt_orphans()
        parent = os.getpid()
        go, self._go = os.pipe()
        self._report, report = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._go)
            os.close(self._report)
            _GuardianProcess(start, watched, parent, report).run(go, when_orphaned)
        os.close(go)
        os.close(report)

    def start(self) -> None:
        """Start the application."""
        os.write(self._go, b"g")

    def forward(self, number: int) -> None:
        """Send a signal to the application."""
        order = next(order for order, forwarded in _ORDERS.items() if forwarded == number)
        with suppress(ProcessLookupError):
            os.kill(self.pid, order)

    def has_ended(self) -> bool:
        """Return whether the guardian, and so the application, has ended."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def close(self) -> ApplicationEnd:
        """Wait for the guardian, and return the end of the application.

        An application that was not started is cancelled. If the guardian was killed, all processes are killed here.
        """
        os.close(self._go)
        os.waitpid(self.pid, 0)
        self.pid = 0
        with os.fdopen(self._report) as report:
            end = ApplicationEnd.parsed(report.read())
        return end or ApplicationEnd("exit", _KILLED, end_children(0.0, 0.0))

    def cancel(self) -> None:
        """Kill the processes of the application if the guardian still runs."""
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, _PARENT_ENDED)
            self.close()


class _GuardianProcess:
    """The forked process."""

    def __init__(self, start: ApplicationStart, watched: frozenset[signal.Signals], parent: int, report: int) -> None:
        self._start = start
        self._watched = {*watched, signal.SIGCHLD, _PARENT_ENDED, *_ORDERS}
        self._parent = parent
        self._report = report
        self._application = 0
        self._last_interrupt: float | None = None
        self._deadline: float | None = None

    def run(self, go: int, when_orphaned: Callable[[], None]) -> NoReturn:
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
            adopt_orphans()
            _prctl(_PR_SET_PDEATHSIG, _PARENT_ENDED)
            if os.getppid() == self._parent and os.read(go, 1):
                end = self._supervise()
                if end is None:
                    end_children(0.0, 0.0)
                if end is None or self._is_orphaned():
                    when_orphaned()
                else:
                    os.write(self._report, end.text().encode())
        finally:
            os._exit(0)

    def _supervise(self) -> ApplicationEnd | None:
        """Run the application; return None if `rocm-perf run` was killed."""
        self._application, failed = _started(self._start)
        if failed:
            os.waitpid(self._application, 0)
            return ApplicationEnd("error", failed)
        while (status := self._ended()) is None:
            received = self._next_signal()
            if received is not None and received.si_signo == _PARENT_ENDED:
                return None
            if received is not None:
                self._handle(received)
            elif self._deadline is not None:
                os.kill(self._application, signal.SIGKILL)
        if os.WIFSIGNALED(status):
            return ApplicationEnd("signal", os.WTERMSIG(status), self._end_rest())
        return ApplicationEnd("exit", os.WEXITSTATUS(status), self._end_rest())

    def _ended(self) -> int | None:
        """Return the wait status of the application if it has ended; reap other processes."""
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == self._application:
                return status
            if pid == 0:
                return None

    def _next_signal(self) -> signal.struct_siginfo | None:
        if self._deadline is None:
            return signal.sigwaitinfo(self._watched)
        return signal.sigtimedwait(self._watched, max(0.0, self._deadline - time.monotonic()))

    def _handle(self, received: signal.struct_siginfo) -> None:
        number = _ORDERS.get(received.si_signo)
        by_terminal = number is None and received.si_code == SENT_BY_KERNEL and received.si_signo in FORWARDED
        if by_terminal:
            number = signal.Signals(received.si_signo)
        if number is None:
            return  # SIGCHLD, or a copy of a signal to the process group that the parent also forwards
        if number == signal.SIGINT and self._is_second_interrupt():
            _say("interrupted twice: the application is killed")
            os.kill(self._application, signal.SIGKILL)
            return
        if not by_terminal:
            self._send(number)
        if number in _ENDING and self._deadline is None:
            self._deadline = time.monotonic() + _END_GRACE_S

    def _is_second_interrupt(self) -> bool:
        before, self._last_interrupt = self._last_interrupt, time.monotonic()
        return before is not None and self._last_interrupt - before < _SECOND_INTERRUPT_S

    def _send(self, number: int) -> None:
        """Send SIGINT and SIGQUIT to the process group, like a terminal; other signals to the application's first process."""
        with suppress(ProcessLookupError):
            if number in (signal.SIGINT, signal.SIGQUIT) and not self._start.shares_group:
                os.killpg(self._application, number)
            else:
                os.kill(self._application, number)

    def _end_rest(self) -> int:
        """End the processes that outlive the application; return the number that had to be terminated."""
        return end_children(_CHILD_GRACE_S, _TERM_GRACE_S, until=self._is_orphaned)

    def _is_orphaned(self) -> bool:
        return os.getppid() != self._parent


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_children(grace_s: float, term_grace_s: float, until: Callable[[], bool] = lambda: False) -> int:
    """End all descendants of this process, which must have adopted orphans.

    Args:
        grace_s: Time for them to end by themselves.
        term_grace_s: Time after SIGTERM; SIGKILL follows.
        until: Ends both times early if true.

    Returns:
        Number of processes that did not end by themselves.
    """
    if not _wait_for_children(grace_s, until):
        return 0
    remaining = descendants()
    if term_grace_s:
        _signal_all(signal.SIGTERM)
        if not _wait_for_children(term_grace_s, until):
            return len(remaining)
    deadline = time.monotonic() + _KILL_GRACE_S
    while time.monotonic() < deadline:
        _signal_all(signal.SIGKILL)  # Repeated, because a process may have forked concurrently.
        if not _wait_for_children(_POLL_S, until):
            break
    return len(remaining)


def descendants() -> list[int]:
    """Return the descendants of this process, without zombies."""
    below: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # The process has ended.
            state, parent = stat.read_bytes().rpartition(b")")[2].split()[:2]  # A name may contain spaces.
            if state not in (b"Z", b"X"):
                below.setdefault(int(parent), []).append(int(stat.parent.name))
    found, pending = [], [os.getpid()]
    while pending:
        children = below.get(pending.pop(), [])
        found += children
        pending += children
    return found


def _signal_all(number: int) -> None:
    for pid in descendants():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _wait_for_children(seconds: float, until: Callable[[], bool]) -> bool:
    """Reap children until none is left or the time limit is reached; return whether children are left."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        if time.monotonic() >= deadline or until():
            return True
        time.sleep(_POLL_S)


def _started(start: ApplicationStart) -> tuple[int, int]:
    """Fork and execute the application; return its process ID, and 0 or the errno of the failure."""
    reader, writer = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        try:
            _execute(start)
        except OSError as error:
            os.write(writer, str(error.errno or errno.ENOEXEC).encode())
        finally:
            os._exit(127)
    os.close(writer)
    with os.fdopen(reader) as failure:
        text = failure.read()
    return pid, int(text or 0)


def _execute(start: ApplicationStart) -> NoReturn:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if not start.shares_group:
        os.setpgid(0, 0)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, start.signal_mask)
    os.execvpe(start.command[0], start.command, dict(start.environment))


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _say(text: str) -> None:
    with suppress(OSError):
        os.write(2, f"rocm-perf: {text}\n".encode())
