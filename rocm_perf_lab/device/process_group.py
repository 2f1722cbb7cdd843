"""A user's command in a process group of its own, so that nothing of it is left when it is ended.

Also what is said of a command: that there is no such program, and how it ended.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

_GRACE_S = 5.0
_MORE_THAN_SIGNALS = 128
"""A shell adds the number of the signal to it."""


class CommandError(LabError):
    """A command that cannot be started."""


def check_program(command: Sequence[str]) -> None:
    """Look for the program before a profiler does, whose answer is a traceback.

    Raises:
        CommandError: It is not there, or is no program.
    """
    program = command[0]
    if shutil.which(program) is not None:
        return
    path = Path(program)
    if os.sep not in program:
        here = f"; write ./{program} for the one in this directory" if path.is_file() else ""
        raise CommandError(f"there is no program {program} on PATH", where=program, hint=f"check its name{here}")
    if path.is_dir():
        raise CommandError(f"{program} is a directory", where=program, hint="name the program in it")
    if path.exists():
        raise CommandError(
            f"{program} is not executable", where=program, hint=f"chmod +x {program}, or name its interpreter first"
        )
    raise CommandError(f"there is no program {program}", where=str(Path.cwd()), hint="check the path, or build it first")


def how_it_ended(code: int) -> str:
    """`ended with exit code 3`, or `was ended by SIGSEGV (segmentation fault)` of a negative or a shell's code."""
    number = -code if code < 0 else code - _MORE_THAN_SIGNALS if _MORE_THAN_SIGNALS < code < 2 * _MORE_THAN_SIGNALS else 0
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"ended with exit code {code}"
    described = signal.strsignal(number)
    by = f"signal {number}, {name}{f' ({described})' if described else ''}"
    return f"was ended by {by}" if code < 0 else f"ended with exit code {code}, a shell's for {by}"


def run_in_group(command: Sequence[str], timeout_s: float) -> int | None:
    """Its exit code with standard output thrown away; None where it took longer and was ended.

    Raises:
        OSError: It does not start.
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


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the group of a process that leads one: the command, and what that started."""
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
    return True
