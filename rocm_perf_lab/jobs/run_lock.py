"""Lock of a run's directory: `hold_run_directory(directory) -> RunLock`.

The lock is a flock(2) lock on a file in the directory. The operating system releases it when the process ends for any reason, so
no stale lock remains. The file is kept; it identifies the last holder.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from rocm_perf_lab.core.errors import LabError

LOCK_FILE = ".lock"


class RunDirectoryInUse(LabError):
    """Run directory that another process uses."""


@dataclass
class RunLock:
    """Held lock of one directory; `handle` is None if this process already holds it, or the file system has no locks."""

    directory: Path
    handle: int | None

    def release(self) -> None:
        """Release the lock; further calls have no effect."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


def hold_run_directory(directory: Path) -> RunLock:
    """Lock a directory until :meth:`RunLock.release` or the end of this process.

    Args:
        directory: Directory of the run; it is created if it does not exist.

    Raises:
        RunDirectoryInUse: Another process holds the lock; the message identifies it.
        OSError: The directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(handle)
        os.close(handle)
        if holder.get("pid") == os.getpid():
            return RunLock(directory, None)
        raise RunDirectoryInUse(
            f"another process is working in this directory: {_named(holder)}",
            where=str(directory),
            hint="wait until it ends, or choose another directory",
        ) from None
    except OSError:  # The file system does not support locks.
        os.close(handle)
        return RunLock(directory, None)
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "command": command}).encode(), 0)
    return RunLock(directory, handle)


def _holder(handle: int) -> dict[str, object]:
    try:
        content = json.loads(os.pread(handle, 1 << 16, 0))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _named(holder: dict[str, object]) -> str:
    if "pid" not in holder:
        return "it has not recorded its process id yet"
    host = f" on {holder['host']}" if holder.get("host") != os.uname().nodename else ""
    return f"process {holder['pid']}{host} ({holder.get('command', 'unknown command')})"
