"""Run a command under rocprofv3: `Rocprofv3.find().run(options, command, directory, ...) -> ProfiledRun`.

The command keeps its arguments and environment. It runs in its own process group, which is ended at a timeout, and its output
goes to a log of limited size. Error messages are matched loosely because they differ between ROCm releases.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING, BinaryIO, Self

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.process_group import end_group, how_it_ended

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PROGRAM = "rocprofv3"
_LOG_BYTES = 16 << 20
_TAIL_BYTES = 16 << 10
_SHOWN_LINES = 12
_GRACE_S = 5.0
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_FAILURES: tuple[tuple[str, str | None, str], ...] = (
    (
        r"trace-decoder library path not found|Error loading decoder|Decoder library not found",
        "rocprofv3 cannot decode thread traces: the library rocprof-trace-decoder is missing or does not load",
        (
            "install rocprof-trace-decoder (included in ROCm 7.13 and later) into ROCm's lib directory, or set "
            "ROCPROF_ATT_LIBRARY_PATH to its directory; without the library, use passes=default"
        ),
    ),
    (
        r"Request exceeds the capabilities of the hardware|Could not construct profile cfg",
        "the hardware cannot collect these counters in one pass",
        "collect fewer counters in one pass",
    ),
    (
        r"CAP_PERFMON\) is not set|SYS_PERFMON|permission denied.*(perf|counter|profil)|(perf|counter|profil).*permission denied",
        "this user is not allowed to read counters",
        "join the groups render and video, and allow counters: sysctl kernel.perf_event_paranoid=2",
    ),
    (r"has a profiler attached", None, "end the other profiler on this GPU"),
    (r"hipErrorNoDevice|no ROCm-capable device|HSA_STATUS_ERROR_OUT_OF_RESOURCES", None, "check the GPU with rocm-perf doctor"),
)
_WARNINGS = re.compile(
    r"Unable to find all counters.*|.*could not be locked for profiling.*|.*data lost.*|.*stitch incomplete.*", re.IGNORECASE
)


class ProfilerError(LabError):
    """rocprofv3 is missing, failed, hung, or wrote no files."""


@dataclass(frozen=True)
class ProfiledRun:
    """Files and duration of one run: a database, and a JSON document if requested, per process that used a GPU."""

    databases: tuple[Path, ...]
    warnings: tuple[str, ...]
    seconds: float
    documents: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Rocprofv3:
    """rocprofv3 on PATH. `version` is the version of the SDK: ROCm 7.1 contains 1.1.0."""

    path: str
    version: str

    @classmethod
    def find(cls, executables: str | None = None) -> Rocprofv3:
        """Find rocprofv3 and query its version.

        Args:
            executables: Directories to search, in the format of PATH, which is the default.

        Raises:
            ProfilerError: rocprofv3 is not there or does not run.
        """
        path = shutil.which(PROGRAM, path=executables)
        if path is None:
            raise ProfilerError(
                f"{PROGRAM} is not on PATH",
                hint="install ROCm (it is in <rocm>/bin), or profile a described kernel on the emulator: kernel=NAME",
            )
        try:
            answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProfilerError(f"{PROGRAM} does not run: {error}", where=path, hint="reinstall rocprofiler-sdk") from error
        found = _VERSION.search(answer.stdout)
        return cls(path, found[0] if found else "unknown")

    @property
    def has_kernel_replay(self) -> bool:
        """True if it can replay one dispatch for every group of counters (SDK 1.4.1, ROCm 10.0.1)."""
        return self._numbers >= (1, 4, 1)

    @property
    def _numbers(self) -> tuple[int, ...]:
        found = _VERSION.fullmatch(self.version)
        return tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)

    def run(
        self,
        options: Sequence[str],
        command: Sequence[str],
        directory: Path,
        *,
        timeout_s: float,
        log: Path | None = None,
        formats: Sequence[str] = ("rocpd",),
    ) -> ProfiledRun:
        """Run a command under the profiler.

        Args:
            options: Options of rocprofv3 for counters and traces.
            command: Program and arguments.
            directory: Directory for the files of the profiler; it must not exist.
            timeout_s: Time limit in seconds; then the process group is ended.
            log: File for the output; with None only its end is kept, for error messages.
            formats: File formats, by the names of rocprofv3.

        Raises:
            ProfilerError: The command or the profiler fails, or the time limit is exceeded.
        """
        directory.parent.mkdir(parents=True, exist_ok=True)
        profiled = [self.path, *options, "-f", *formats, "-d", str(directory), "-o", "run", "--", *command]
        start = time.monotonic()
        code, tail = run_logged(profiled, log, timeout_s)
        seconds = time.monotonic() - start
        if code is None:
            raise ProfilerError(
                f"the profiled run took more than {timeout_s:g} s and was stopped",
                where=_shown(command),
                hint="increase the timeout, or check for a hanging kernel (too many counters in one pass can also hang a run)",
            )
        if code != 0:
            raise _failure(code, tail, command, log)
        warnings = tuple(dict.fromkeys(match[0].strip() for match in _WARNINGS.finditer(tail)))
        databases, documents = (tuple(sorted(directory.rglob(f"*_results.{ending}"))) for ending in ("db", "json"))
        return ProfiledRun(databases, warnings, seconds, documents)


def run_logged(command: Sequence[str], log: Path | None, timeout_s: float) -> tuple[int | None, str]:
    """Run a command; return its exit code, or None at a timeout, and the end of its output."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    except OSError as error:
        raise ProfilerError(f"{command[0]} does not run: {error.strerror}", where=_shown(command)) from error
    assert process.stdout is not None
    tail: deque[bytes] = deque()
    reader = threading.Thread(target=_drain, args=(process.stdout, log, tail), daemon=True)
    reader.start()
    # `Popen.wait` with a timeout polls every 50 ms; without a timeout it returns immediately at the end.
    waiter = threading.Thread(target=process.wait, daemon=True)
    waiter.start()
    code: int | None = None
    try:
        waiter.join(min(timeout_s, threading.TIMEOUT_MAX))
        code = process.returncode
    finally:
        if code is None:
            end_group(process)
    reader.join(_GRACE_S)
    return code, b"".join(tail)[-_TAIL_BYTES:].decode(errors="replace")


def _drain(pipe: BinaryIO, log: Path | None, tail: deque[bytes]) -> None:
    kept = 0
    with _BoundedLog(log) as sink:
        while chunk := pipe.read1(1 << 16):  # type: ignore[attr-defined]
            sink.write(chunk)
            tail.append(chunk)
            kept += len(chunk)
            while kept - len(tail[0]) > _TAIL_BYTES:
                kept -= len(tail.popleft())


class _BoundedLog:
    """Log of the beginning of an output, with the size of the rest. A full disk ends the log but not the run."""

    def __init__(self, path: Path | None) -> None:
        self._seen = 0
        self._sink: FileIO | None = None
        if path is not None:
            with suppress(OSError):
                self._sink = FileIO(path, "wb")

    def write(self, chunk: bytes) -> None:
        """Write as much of a chunk as the limit allows."""
        self._keep(chunk[: max(_LOG_BYTES - self._seen, 0)])
        self._seen += len(chunk)

    def _keep(self, chunk: bytes) -> None:
        if self._sink is not None and chunk:
            try:
                self._sink.write(chunk)
            except OSError:
                self._sink.close()
                self._sink = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._seen > _LOG_BYTES:
            self._keep(f"\n[{self._seen - _LOG_BYTES:,} more bytes were not kept]\n".encode())
        if self._sink is not None:
            self._sink.close()


def _failure(code: int, tail: str, command: Sequence[str], log: Path | None) -> ProfilerError:
    lines = [line for line in tail.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith("Fatal error:")]
    shown = "\n".join(f"  {line}" for line in (fatal or lines[-_SHOWN_LINES:]))
    known = next(((what, hint) for pattern, what, hint in _FAILURES if re.search(pattern, tail, re.IGNORECASE)), (None, None))
    program = PROGRAM if fatal else f"the command under {PROGRAM}"
    output = f":\n{shown}" if shown else " without any output"
    what, hint = known
    return ProfilerError(
        f"{what or f'{program} {how_it_ended(code)}'}{output}",
        where=_shown(command) + (f"; its output is in {log}" if log else ""),
        hint=hint or "run the command without the profiler first",
    )


def _shown(command: Sequence[str]) -> str:
    import shlex

    return shlex.join(command)[:500]
