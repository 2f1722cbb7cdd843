"""Execution of a function in a forked process with resource limits, without network access, in a separate PID namespace.

If the kernel permits user namespaces, the child does not see other processes and their command lines; a seccomp filter rejects
sockets. The child inherits the prepared state, its changes to memory are not visible to the parent, and it ends with the parent.
Only the device code of a proposal is executed, on the emulator; an endless kernel, exhausted memory or a crash rejects one
proposal and does not end the run.
"""

from __future__ import annotations

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
from rocm_perf_lab.toolchain.sandbox_child import (
    end_with_parent,
    enter_namespaces,
    fork_inside,
    mount_own_processes,
    refuse_calls,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.toolchain.sandbox import SandboxLimits

_Result = TypeVar("_Result")
_PIPE_BYTES = 1 << 20


class IsolationError(LabError):
    """The process exceeded a limit or crashed."""


@dataclass(frozen=True)
class _Outcome:
    """Outcome of an action: a value, a LabError, or the traceback of an internal error."""

    value: Any = None
    error: tuple[type[LabError], str, str | None, str | None] | None = None
    defect: str | None = None


def run_isolated(action: Callable[[], _Result], limits: SandboxLimits) -> _Result:
    """Run an action in another process.

    Args:
        action: Action; its result must be picklable.
        limits: Limits of wall-clock time, of additional memory, and of the size of each file.

    Returns:
        Result of the action.

    Raises:
        IsolationError: The process exceeded a limit or crashed.
        LabError: The action raised it.
        RuntimeError: The action raised any other exception.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run_child(action, limits, writer)
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
            hint="raise optimizer.isolation.run_timeout_s if the kernel is slow",
        )
    if not content:
        raise IsolationError(f"the run ended without a result: {_end(status)}", hint="the emulator crashed on this kernel")
    result: _Result = _result(pickle.loads(content))
    return result


def _ended(child: int, *, kill: bool) -> int:
    """Wait for the child, after killing it if requested, and return its exit status."""
    if kill:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return status


def _result(outcome: _Outcome) -> Any:
    if outcome.defect is not None:
        raise RuntimeError(outcome.defect)
    if outcome.error is not None:
        kind, what, where, hint = outcome.error
        error = kind.__new__(kind)
        LabError.__init__(error, what, where=where, hint=hint)
        raise error
    return outcome.value


def _read_all(reader: int, deadline: float) -> bytes | None:
    """Read until the other end is closed; return None after the deadline."""
    pieces: list[bytes] = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        piece = os.read(reader, _PIPE_BYTES)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def _run_child(action: Callable[[], Any], limits: SandboxLimits, writer: int) -> NoReturn:
    """Run the action in the child process and exit."""
    code = 1
    try:
        _apply_limits(limits)
        content = pickle.dumps(_outcome_of(action))
        with os.fdopen(writer, "wb") as sink:
            sink.write(content)
        code = 0
    finally:
        os._exit(code)


def _outcome_of(action: Callable[[], Any]) -> _Outcome:
    try:
        return _Outcome(value=action())
    except LabError as error:
        return _Outcome(error=(type(error), error.what, error.where, error.hint))
    except MemoryError:
        return _Outcome(error=(IsolationError, "the run exceeded optimizer.isolation.memory_mb", None, None))
    except Exception:  # noqa: BLE001 - raised again in the parent
        return _Outcome(defect=traceback.format_exc())


def _apply_limits(limits: SandboxLimits) -> None:
    os.setsid()
    end_with_parent()
    used = _address_space_bytes()
    for number, value in (
        (resource.RLIMIT_AS, used + limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(number)
        allowed = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(number, (allowed, allowed))
    _, numbered = enter_namespaces()
    if numbered:
        fork_inside()
        mount_own_processes()
    refuse_calls()


def _address_space_bytes() -> int:
    """Return the size of this process's address space in bytes (proc(5)), which is added to the limit."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - Path would import more
        return int(file.read().split()[0]) * resource.getpagesize()


def _end(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.WEXITSTATUS(status)}"
