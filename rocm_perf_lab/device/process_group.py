"""Run a command in its own process group, so that all of its processes end with it; describe how commands fail."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

_GRACE_S = 5.0
_MORE_THAN_SIGNALS = 128
"""Exit code of a shell for a signal, minus the number of the signal."""


class CommandError(LabError):
    """Command that cannot be started."""


def check_program(command: Sequence[str]) -> None:
    """Check that the program exists; a profiler would fail with a traceback.

    Raises:
        CommandError: The program does not exist or is not executable.
    """
    program = command[0]
    if shutil.which(program) is not None:
        return
    path = Path(program)
    if os.sep not in program:
        here = f"; write ./{program} for the file in this directory" if path.is_file() else ""
        raise CommandError(f"program {program} is not on PATH", where=program, hint=f"check its name{here}")
    if path.is_dir():
        raise CommandError(f"{program} is a directory", where=program, hint="name a program in it")
    if path.exists():
        raise CommandError(
            f"{program} is not executable", where=program, hint=f"run chmod +x {program}, or put its interpreter first"
        )
    raise CommandError(f"program {program} does not exist", where=str(Path.cwd()), hint="check the path, or build it first")


def how_it_ended(code: int) -> str:
    """Describe an exit code: `ended with exit code 3`, or the signal of a negative code or a code of a shell."""
    number = -code if code < 0 else code - _MORE_THAN_SIGNALS if _MORE_THAN_SIGNALS < code < 2 * _MORE_THAN_SIGNALS else 0
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"ended with exit code {code}"
    described = signal.strsignal(number)
    by = f"signal {number}, {name}{f' ({described})' if described else ''}"
    return f"was terminated by {by}" if code < 0 else f"ended with exit code {code}, which a shell returns for {by}"


def run_in_group(command: Sequence[str], timeout_s: float) -> int | None:
    """Run a command without its standard output.

    Returns:
        Its exit code, or None if it exceeded the timeout and was ended.

    Raises:
        OSError: The command cannot be started.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    code: int | None = None
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if code is None:
            end_group(process)
    return code


def captured_in_group(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[bytes]:
    """Run a command without standard input, and return its output.

    Its processes are ended after the timeout and after an interrupt, also those that keep its standard output open.

    Raises:
        OSError: The command cannot be started.
        subprocess.TimeoutExpired: It exceeded the timeout and was ended.
    """
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except BaseException:
            end_group(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End all remaining processes in the group that `process` leads."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline and _group_lives(process):
            time.sleep(0.02)
    process.poll()


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return not _only_zombies(process.pid)


def _only_zombies(group: int) -> bool:
    """Return whether all processes of a group have ended; PID 1 of some containers reaps them seconds later."""
    states = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process ended meanwhile
            state, _, of_group = stat.read_bytes().rpartition(b")")[2].split()[:3]  # a name may contain spaces
            if int(of_group) == group:
                states.append(state)
    return bool(states) and set(states) <= {b"Z", b"X"}
