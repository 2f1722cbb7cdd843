"""Runs an action on a proposal in a process of its own: with limits, without a network, and without a way back but its result.

The process is forked, so it has everything that was prepared, and nothing that it does to its memory reaches the others. It
cannot outlive the process that waits for it. Of a proposal's code only the GPU's part ever runs, on the emulator; what can
go wrong there (an endless kernel, memory, a crash of the emulator itself) costs one verdict.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.sandbox_child import leave_the_network

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.toolchain.sandbox import Limits

_Result = TypeVar("_Result")
_PR_SET_PDEATHSIG = 1
_PIECE = 1 << 20


class IsolationError(LabError):
    """The process did not end as it should: a limit, or a crash."""


@dataclass(frozen=True)
class _Told:
    """What comes back: a value, an error of the user, or the traceback of a defect."""

    value: Any = None
    error: tuple[type[LabError], str, str | None, str | None] | None = None
    defect: str | None = None


def run_isolated(action: Callable[[], _Result], limits: Limits) -> _Result:
    """Do it in another process.

    Args:
        action: What to do; its result has to be picklable.
        limits: By the clock, of additional memory, and of each file.

    Raises:
        IsolationError: It broke a limit or crashed.
        LabError: The action raised it.
        RuntimeError: A defect of the lab in the other process.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _become(action, limits, writer)
    os.close(writer)
    content: bytes | None = None
    try:
        content = _read_all(reader, time.monotonic() + limits.seconds)
    finally:
        os.close(reader)
        status = _ended(child, kill=content is None)
    if content is None:
        raise IsolationError(
            f"the run took more than {limits.seconds:g} s",
            hint="a faster kernel, or a larger optimizer.isolation.run_timeout_s",
        )
    if not content:
        raise IsolationError(f"the run ended without a result: {_end(status)}", hint="the kernel, or the emulator, crashed")
    result: _Result = _result(pickle.loads(content))
    return result


def _ended(child: int, *, kill: bool) -> int:
    """Its status. One that has told everything ends by itself."""
    if kill:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return status


def _result(told: _Told) -> Any:
    if told.defect is not None:
        raise RuntimeError(told.defect)
    if told.error is not None:
        kind, what, where, hint = told.error
        error = kind.__new__(kind)
        LabError.__init__(error, what, where=where, hint=hint)
        raise error
    return told.value


def _read_all(reader: int, deadline: float) -> bytes | None:
    """Until the other end is closed; None where that takes too long."""
    pieces: list[bytes] = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        piece = os.read(reader, _PIECE)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def _become(action: Callable[[], Any], limits: Limits, writer: int) -> NoReturn:
    """The other process: never returns to the code that forked it."""
    code = 1
    try:
        _give_up(limits)
        content = pickle.dumps(_told(action))
        with os.fdopen(writer, "wb") as sink:
            sink.write(content)
        code = 0
    finally:
        os._exit(code)


def _told(action: Callable[[], Any]) -> _Told:
    try:
        return _Told(value=action())
    except LabError as error:
        return _Told(error=(type(error), error.what, error.where, error.hint))
    except MemoryError:
        return _Told(error=(IsolationError, "the run needed more memory than optimizer.isolation.memory_mb allows", None, None))
    except Exception:  # noqa: BLE001 - it is raised again on the other side
        return _Told(defect=traceback.format_exc())


def _give_up(limits: Limits) -> None:
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    used = _address_space_bytes()
    for number, value in (
        (resource.RLIMIT_AS, used + limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(number)
        allowed = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(number, (allowed, allowed))
    leave_the_network()


def _address_space_bytes() -> int:
    """Of this process, proc(5): what was prepared before it was forked does not count against it."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - nothing else is needed of it
        return int(file.read().split()[0]) * resource.getpagesize()


def _end(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.WEXITSTATUS(status)}"
