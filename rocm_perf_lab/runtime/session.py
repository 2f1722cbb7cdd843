"""Session of `rocm-perf run`: a private directory that connects the driver in the application with this process.

It contains the settings of the driver, the files of the emulated machine, and the socket of the translation service. It is
removed at the end; the next session removes the directories of sessions that were killed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import locked
from rocm_perf_lab.core.resources import is_directory_of_user

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocm_perf_lab.runtime.topology import FileTree

PARENT_VARIABLE = "ROCM_PERF_LAB_SESSIONS"
SESSION_VARIABLE = "RPL_SESSION"
_MOST_SOCKET_PATH_BYTES = 107
"""`sun_path` of a Unix socket has 108 bytes, with a terminating zero."""
_SOCKET, _SETTINGS, _LOCK = "service.sock", "settings", "lock"
_SHARED = "shared"
"""Names of shared memory that AMD's libraries created; the driver lists them (shared_memory.c)."""
_SHARED_MEMORY = Path("/dev/shm")
_PREFIX = "run-"
_RANDOM_BYTES = 6


class SessionError(LabError):
    """Session without a private directory, because none can be created."""


@dataclass(frozen=True)
class Session:
    """Open session."""

    directory: Path

    @property
    def socket(self) -> Path:
        """Socket of the translation service."""
        return self.directory / _SOCKET

    @property
    def system(self) -> Path:
        """Directory with the files of the emulated machine: `sys/...`."""
        return self.directory / "sys"

    def write(self, settings: Mapping[str, int | str], trees: Sequence[FileTree]) -> None:
        """Write the settings of the driver and the files of the emulated machine.

        Raises:
            OSError: The directory cannot be written.
        """
        text = "".join(f"{name} {value}\n" for name, value in settings.items())
        (self.directory / _SETTINGS).write_text(text, encoding="utf-8")
        for tree in trees:
            for name, content in tree.files.items():
                path = self.directory / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
        for tree in trees:
            for name in tree.empty:
                (self.directory / name).mkdir(parents=True, exist_ok=True)
            for name, target in tree.links.items():
                link = self.directory / name
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(target)

    def remove(self) -> None:
        """Remove the directory, and shared memory of killed processes."""
        with suppress(OSError):
            for name in (self.directory / _SHARED).read_text(encoding="utf-8").splitlines():
                if "/" not in name:
                    (_SHARED_MEMORY / name).unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def variables(self, driver: Path, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that load the driver into an application.

        Args:
            driver: Library of the driver.
            environment: Variables of this process; libraries that it preloads already are kept.
        """
        preloaded = environment.get("LD_PRELOAD", "")
        return {"LD_PRELOAD": f"{driver}:{preloaded}".rstrip(":"), SESSION_VARIABLE: str(self.directory)}


@contextmanager
def open_session(parent: Path | None = None) -> Iterator[Session]:
    """Create the directory of a session, and remove it at the end of the block.

    Args:
        parent: Directory in which it is created; see :func:`sessions_dir` for the default.

    Raises:
        SessionError: There is no place for it.
    """
    parent = sessions_dir() if parent is None else _private(parent)
    with locked(parent / _LOCK):
        _remove_leftovers(parent)
        directory = parent / f"{_PREFIX}{os.urandom(_RANDOM_BYTES).hex()}"
        directory.mkdir(mode=0o700)
        lock = _lock_file(directory / _LOCK)
        fcntl.flock(lock, fcntl.LOCK_EX)
    session = Session(directory)
    try:
        yield session
    finally:
        session.remove()
        os.close(lock)


def is_in_session() -> bool:
    """Return whether this process runs under `rocm-perf run`, so that its GPUs are emulated."""
    return SESSION_VARIABLE in os.environ


def sessions_dir() -> Path:
    """Return the private directory for sessions, below `ROCM_PERF_LAB_SESSIONS` if that is set.

    The default is the first usable one of the user's runtime directory, the directory for temporary files, and /tmp.

    Raises:
        SessionError: None can be used, or paths of sockets in it are too long.
    """
    override = os.environ.get(PARENT_VARIABLE)
    if override:
        return _private(Path(override))
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    name = f"rocm-perf-lab-sessions-{os.geteuid()}"
    places = [Path(runtime) / "rocm-perf-lab"] if runtime else []
    places += [Path(directory) / name for directory in dict.fromkeys((tempfile.gettempdir(), "/tmp"))]
    errors = []
    for place in places:
        try:
            return _private(place)
        except SessionError as error:
            errors.append(error)
    raise errors[-1]


def _private(directory: Path) -> Path:
    """Return the absolute path of a directory that only this user can access; create it if necessary."""
    directory = directory.absolute()
    hint = f"set {PARENT_VARIABLE} to another directory"
    if len(os.fsencode(directory / f"{_PREFIX}{'0' * 2 * _RANDOM_BYTES}" / _SOCKET)) > _MOST_SOCKET_PATH_BYTES:
        raise SessionError("the path of the session directory is too long for a socket", where=str(directory), hint=hint)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError as error:
        raise SessionError(f"no session directory can be created: {error.strerror}", where=str(directory), hint=hint) from error
    if not is_directory_of_user(status):
        raise SessionError("other users can write the session directory", where=str(directory), hint=hint)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise SessionError("the session directory cannot be written", where=str(directory), hint=hint)
    return directory


def _lock_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _remove_leftovers(parent: Path) -> None:
    """Remove the directories whose sessions have ended: no process holds their lock."""
    for directory in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = _lock_file(directory / _LOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                Session(directory).remove()
            finally:
                os.close(lock)
