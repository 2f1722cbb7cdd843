"""Time sources for a command: kernels under a profiler, a time that the program prints, or wall-clock time.

`meaning` describes the times, so that wall-clock time is not mistaken for kernel time.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.profiling.selection import ProfileError, rank_kernels, select_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocm_perf_lab.profiling.application import ApplicationProfiler

_NS_PER_MS = 1e6
_NOTE = "rocm-perf: "
"""Begin of a line of `rocm-perf run`, which a command may be run with."""
_TAIL_BYTES = 1 << 20
_SLICE_S = 0.25
_SUSPENDED_S = 1.0
"""Delay of a wait of `_SLICE_S` from which this process counts as suspended meanwhile."""
_MOST_SUSPENDED = 5
_SHORTEST_MS, _LONGEST_MS = 1e-12, 1e12
"""Range of valid printed times; excludes 0, negative numbers, NaN, infinity, and sentinels like 1e38."""
ENDED_FROM_OUTSIDE = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT})
"""Signals that end a process from outside: by the user, a scheduler, or the kernel if memory runs out."""
UNITS_IN_MS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6}


class CommandFailed(LabError):
    """Command that failed, or whose time cannot be read."""


class CommandKilled(CommandFailed):
    """Command that was ended from outside."""


class Clock(Protocol):
    """Interface of a time source for commands."""

    @property
    def meaning(self) -> str:
        """Description of the times."""
        ...

    @property
    def time_kind(self) -> str:
        """`measured`, or `emulated` if the recorded times are."""
        ...

    def times_ms(self, arguments: Sequence[str], runs: int, limit_s: float | None = None) -> tuple[float, ...]:
        """Run the command `runs` times, and return its times in ms.

        Args:
            arguments: The command line.
            runs: Number of runs.
            limit_s: Time limit of one run, if that is below the one of the clock.

        Raises:
            CommandFailed: The command fails, exceeds the time limit, or reports no time.
        """
        ...


def _ignore(_output: str) -> None:
    """Ignore the output of a run."""


@dataclass(frozen=True)
class WallClock:
    """Wall-clock time of the process; `heard` receives the output of each run."""

    timeout_s: float
    reason: str = "chosen"
    time_kind: str = "measured"
    heard: Callable[[str], None] = _ignore

    @property
    def meaning(self) -> str:
        """See :class:`Clock`."""
        return f"wall-clock time of the whole process ({self.reason}); no kernel is timed"

    def times_ms(self, arguments: Sequence[str], runs: int, limit_s: float | None = None) -> tuple[float, ...]:
        """See :class:`Clock`."""
        return tuple(self._time_ms(arguments, _shorter(self.timeout_s, limit_s)) for _ in range(runs))

    def _time_ms(self, arguments: Sequence[str], limit_s: float) -> float:
        output, seconds = run_command(arguments, limit_s)
        self.heard(output)
        return seconds * UNITS_IN_MS["s"]


@dataclass(frozen=True)
class PrintedTime:
    """Time that the program prints; the last match counts.

    Args:
        pattern: Regular expression whose group is the time.
        unit: Unit of the printed number: s, ms, us or ns.
        timeout_s: Time limit of one run.
        time_kind: `emulated` if the command runs on an emulated GPU.
        plain: Returns the command line that runs a command on the device.
        heard: Receives the output of each run.
    """

    pattern: re.Pattern[str]
    unit: str
    timeout_s: float
    time_kind: str = "measured"
    plain: Callable[[Sequence[str]], Sequence[str]] = tuple
    heard: Callable[[str], None] = _ignore

    @property
    def meaning(self) -> str:
        """See :class:`Clock`."""
        return f"time that the command prints, in {self.unit} ({self.pattern.pattern})"

    def times_ms(self, arguments: Sequence[str], runs: int, limit_s: float | None = None) -> tuple[float, ...]:
        """See :class:`Clock`."""
        return tuple(self._time_ms(arguments, _shorter(self.timeout_s, limit_s)) for _ in range(runs))

    def _time_ms(self, arguments: Sequence[str], limit_s: float) -> float:
        output, _ = run_command(self.plain(arguments), limit_s)
        found = self.pattern.findall(output)
        if not found:
            raise CommandFailed(f"no line of its output matches {self.pattern.pattern!r}", where=shlex.join(arguments))
        try:
            value = float(found[-1])
        except ValueError as error:
            raise CommandFailed(f"prints {found[-1]!r}, which is not a time", where=shlex.join(arguments)) from error
        if not _SHORTEST_MS <= value * UNITS_IN_MS[self.unit] <= _LONGEST_MS:
            raise CommandFailed(f"prints a time of {value:g} {self.unit}", where=shlex.join(arguments))
        self.heard(output)
        return value * UNITS_IN_MS[self.unit]


def printed_time(pattern: str, unit: str, timeout_s: float) -> PrintedTime:
    """Return the time source for a pattern.

    Raises:
        LabError: The pattern is not a regular expression with one group.
    """
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise LabError(f"invalid regular expression {pattern!r}: {error}", where="--time-regex") from error
    if compiled.groups != 1:
        raise LabError(
            f"{pattern!r} has {compiled.groups} groups",
            where="--time-regex",
            hint=r"write one group for the time: 'time: ([\d.]+) ms'",
        )
    return PrintedTime(compiled, unit, timeout_s)


@dataclass
class ProfiledTime:
    """Dispatches of one kernel under a profiler: the one that matches a pattern, or the one with the largest exposed time."""

    profiler: ApplicationProfiler
    timeout_s: float
    kernel: re.Pattern[str] | None = None
    helper_patterns: tuple[str, ...] = ()
    time_kind: str = "measured"

    @property
    def meaning(self) -> str:
        """See :class:`Clock`."""
        which = f"matching {self.kernel.pattern!r}" if self.kernel is not None else "with the largest exposed time"
        return f"dispatches of the kernel {which}, {self.profiler.how}"

    def times_ms(self, arguments: Sequence[str], runs: int, limit_s: float | None = None) -> tuple[float, ...]:
        """See :class:`Clock`."""
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
            limit_s = _shorter(self.timeout_s, limit_s)
            application = self.profiler.passes(arguments, Path(directory), limit_s, lambda _: None)
            try:
                traces, _ = application.times(runs)
                times: list[float] = []
                for trace in traces:
                    ranked = rank_kernels(trace, self.helper_patterns)
                    if self.kernel is not None:
                        ranked = tuple(k for k in ranked if self.kernel.search(k.name) or self.kernel.search(k.mangled_name))
                        if not ranked:
                            raise ProfileError(f"no kernel matches {self.kernel.pattern!r}", where=shlex.join(arguments))
                    kernel = select_kernel(trace, ranked)
                    times += [float(ns) / _NS_PER_MS for ns in trace.dispatches.duration_ns[kernel.dispatches]]
                    if trace.provenance.emulated:
                        self.time_kind = "emulated"
            except LabError as error:
                raise CommandFailed(error.what, where=error.where, hint=error.hint) from error
        return tuple(times)


def _shorter(timeout_s: float, limit_s: float | None) -> float:
    return timeout_s if limit_s is None else min(timeout_s, limit_s)


def run_command(arguments: Sequence[str], timeout_s: float) -> tuple[str, float]:
    """Run a command, and return the last megabyte of its output and its time in seconds.

    The whole process group is killed when the command ends, exceeds the time limit, or is interrupted. If this process is
    suspended meanwhile (Ctrl-Z), the time has no meaning, and the command is run again.

    Raises:
        CommandFailed: The command cannot be started, exceeds the time limit, or does not end with exit code 0.
    """
    for _ in range(_MOST_SUSPENDED):
        with suppress(_Suspended):
            return _run_once(arguments, timeout_s)
    raise CommandKilled("this process is suspended again and again", where=shlex.join(arguments))


class _Suspended(Exception):
    """This process was suspended while a command ran."""


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Wait for the end of a process, without the delay of up to 50 ms of :meth:`subprocess.Popen.wait`.

    Raises:
        TimeoutExpired: The process has not ended after some seconds.
        _Suspended: This process did not run for a while.
    """
    ended = select.poll()
    handle = os.pidfd_open(process.pid)
    try:
        ended.register(handle, select.POLLIN)
        limit = time.monotonic() + timeout_s
        while True:
            before = time.monotonic()
            found = ended.poll(max(0.0, min(limit - before, _SLICE_S)) * 1000)
            now = time.monotonic()
            if now - before > _SLICE_S + _SUSPENDED_S:
                raise _Suspended
            if found:
                return process.wait()
            if now >= limit:
                raise subprocess.TimeoutExpired(process.args, timeout_s)
    finally:
        os.close(handle)


def is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state == "T"


def _run_once(arguments: Sequence[str], timeout_s: float) -> tuple[str, float]:
    with tempfile.TemporaryFile() as sink:
        start = time.perf_counter()
        try:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            raise CommandFailed(f"does not start: {error.strerror}", where=shlex.join(arguments)) from error
        try:
            code = _wait(process, timeout_s)
            seconds = time.perf_counter() - start
        except subprocess.TimeoutExpired as error:
            if is_stopped(process.pid):
                raise CommandKilled("was stopped by another process", where=shlex.join(arguments)) from error
            raise CommandFailed(
                f"takes more than {timeout_s:.4g} s", where=shlex.join(arguments), hint="raise --timeout, or autotune.cutoff"
            ) from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        sink.seek(max(0, sink.seek(0, os.SEEK_END) - _TAIL_BYTES))
        output = sink.read().decode(errors="replace")
    if code != 0:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        last = next((line for line in reversed(lines) if not line.startswith(_NOTE)), lines[-1] if lines else "no output")
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        kind = CommandKilled if -code in ENDED_FROM_OUTSIDE else CommandFailed
        raise kind(f"{ended}: {last[:300]}", where=shlex.join(arguments))
    return output, seconds
