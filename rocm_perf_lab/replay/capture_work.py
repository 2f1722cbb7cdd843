"""Work directory of a capture: the tool writes there, and only sealed captures are moved to the output.

`CaptureWork` is next to the output and hidden. Sealed captures are always moved, and the rest is removed: by the launcher, by the
guard process if the launcher is killed, or, after a crash of the machine, by `rocm-perf doctor --remove-leftovers`, which finds
the directories in a list in the cache. Launcher and guard lock their entry in the list.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import ValidationError

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.replay.packing import pack_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from types import TracebackType

_MANIFEST = "manifest.json"
_LONGEST_NAME = 60
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK", "LOCAL_RANK")
"""Environment variables with the rank of a process; the first one that is set is used."""


def sealed_captures(work: Path) -> list[Path]:
    """Return the complete captures in a work directory, in the order of processes and requests."""
    return [directory for directory in sorted(work.glob("capture-*")) if (directory / _MANIFEST).is_file()]


def settle(work: Path, output: Path, *, several: bool, packed: Callable[[Path], Path] | None = None) -> list[Path]:
    """Pack the sealed captures, move them to the output and remove the work directory; return the moved captures.

    Args:
        work: The work directory.
        output: Becomes the capture; with `several`, or if several processes captured a dispatch, a directory of captures named by
            kernel and dispatch, and by rank or process if there are several processes. A number is appended if another
            capture created the same name concurrently.
        several: Whether several captures were requested.
        packed: Returns the packed copy of a capture; by default, it is created now.
    """
    sealed = sealed_captures(work)
    packed = packed or partial(_packed, near=(work, output.parent))
    moved: list[Path] = []
    if several or len(sealed) > 1:
        output = _new_directory(output) if sealed else output
        for directory, name in zip(sealed, _names(sealed), strict=True):
            moved.append(move_to_free_place(packed(directory), output / name))
    else:
        moved.extend(move_to_free_place(packed(directory), output) for directory in sealed)
    shutil.rmtree(work, ignore_errors=True)
    return moved


def move_to_free_place(directory: Path, wanted: Path) -> Path:
    """Move a directory to a path, with a number appended if the path exists; return the new path."""
    for place in _places(wanted):
        try:
            return directory.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
    raise AssertionError


def _new_directory(wanted: Path) -> Path:
    for place in _places(wanted):
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
            return place
    raise AssertionError


def _places(wanted: Path) -> Iterator[Path]:
    """Yield a path, then the path with numbers appended, except existing ones; other processes may create them concurrently."""
    for number in itertools.count():
        place = wanted.with_name(f"{wanted.name}-{number}") if number else wanted
        if not os.path.lexists(place):
            yield place


def _packed(directory: Path, near: Sequence[Path]) -> Path:
    """Return the packed copy of a sealed capture, or the capture itself if the copy cannot be created."""
    target = directory.with_name(f"packed-{directory.name}")
    try:
        shutil.rmtree(target, ignore_errors=True)  # from a launcher that was killed
        pack_capture(directory, target, near=near)
    except (OSError, LabError, ValidationError):
        return directory
    return target


def _names(captures: list[Path]) -> list[str]:
    """Return names of captures: kernel and index of the dispatch, and for several processes, rank or process id."""
    documents = [json.loads((directory / "dispatch.json").read_bytes()) for directory in captures]
    ranks = {document["environment"]["pid"]: _rank(document["environment"]["variables"]) for document in documents}
    are_distinct = None not in ranks.values() and len(set(ranks.values())) == len(ranks)
    names = []
    for document in documents:
        kernel = re.sub(r"\W+", "_", document["kernel"]["mangled_name"])[:_LONGEST_NAME]
        pid = document["environment"]["pid"]
        process = "" if len(ranks) == 1 else f"-rank{ranks[pid]}" if are_distinct else f"-pid{pid}"
        names.append(f"{kernel}-{document['index']['kernel']}{process}")
    return names


def _rank(variables: Mapping[str, str]) -> str | None:
    return next((variables[name] for name in _RANKS if variables.get(name, "").isdecimal()), None)


class CaptureWork:
    """Context manager of a work directory; at its end the directory is removed, and sealed captures are kept.

    Args:
        output: Output of the capture; the directory is created next to it.
        several: Whether several captures are requested.
        on_kept: Called for each capture that was moved to the output, even if the launcher is interrupted.

    Raises:
        LabError: The directory cannot be created.
    """

    def __init__(self, output: Path, *, several: bool, on_kept: Callable[[Path], None] = lambda _: None) -> None:
        self._output, self._several, self._on_kept = output, several, on_kept
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            self.path = Path(tempfile.mkdtemp(prefix=f".{output.name}.capturing-", dir=output.parent)).resolve()
        except OSError as error:
            raise LabError(
                f"the output cannot be created: {error.strerror}",
                where=str(error.filename or output),
                hint="Choose another directory with --output.",
            ) from error
        self._entry = _entries() / f"{os.getpid()}-{self.path.name.rpartition('-')[2]}.json"
        self._guard: subprocess.Popen[bytes] | None = None
        self._packing = ThreadPoolExecutor(1)
        self._packed: dict[Path, Future[Path]] = {}
        self._order = json.dumps({"work": str(self.path), "output": str(output.resolve()), "several": several})
        self._lock = _locked_entry(self._entry, self._order)

    def __enter__(self) -> Self:
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "rocm_perf_lab.replay.capture_guard", self._order, str(self._entry)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(self._lock,),
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.path.exists():
            self.settle()
        if self._guard is not None and self._guard.stdin is not None:
            with suppress(BrokenPipeError):
                self._guard.stdin.write(b"done\n")
                self._guard.stdin.close()
            self._guard.wait()
        self._packing.shutdown()
        self._entry.unlink(missing_ok=True)
        os.close(self._lock)

    def kills(self, process: int, *, is_group: bool = True) -> None:
        """Register a process group, or one process, that the guard kills if this process is killed."""
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.write(f"{'group' if is_group else 'process'} {process}\n".encode())
            self._guard.stdin.flush()

    def pack(self, capture: Path) -> Future[Path]:
        """Start packing a sealed capture in the background, unless already started."""
        if capture not in self._packed:
            near = (self.path, self._output.parent)
            self._packed[capture] = self._packing.submit(_packed, capture, near)
        return self._packed[capture]

    def settle(self) -> list[Path]:
        """Move the sealed captures to the output and remove the directory; return the moved captures."""
        moved = settle(self.path, self._output, several=self._several, packed=lambda capture: self.pack(capture).result())
        for capture in moved:
            self._on_kept(capture)
        return moved


@dataclass(frozen=True)
class CaptureLeftover:
    """Work directory that its launcher did not remove; it may contain GPU memory of an application."""

    work: Path
    output: Path
    several: bool
    entry: Path

    def remove(self) -> list[Path]:
        """Remove the directory; return sealed captures, which are moved to the output, or next to it if the name is taken."""
        moved = settle(self.work, self.output, several=self.several)
        self.entry.unlink(missing_ok=True)
        return moved


def leftovers() -> list[CaptureLeftover]:
    """Return the work directories of launchers that were killed together with their guards."""
    found = []
    for entry in sorted(_entries().glob("*.json")):
        try:
            listed = json.loads(entry.read_bytes())
            work, output = Path(listed["work"]), Path(listed["output"])
            several = bool(listed["several"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if _is_locked(entry):
            continue
        if work.is_dir():
            found.append(CaptureLeftover(work, output, several, entry))
        else:
            entry.unlink(missing_ok=True)
    return found


def _locked_entry(entry: Path, text: str) -> int:
    """Create a locked entry; the lock is held until the last process with the returned file descriptor ends."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(entry, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # The file system does not support locks.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(descriptor, text.encode())
    return descriptor


def _is_locked(entry: Path) -> bool:
    """Return whether the launcher or the guard of an entry runs; true if the file system has no locks."""
    with entry.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _entries() -> Path:
    return cache_dir() / "capture-work"
