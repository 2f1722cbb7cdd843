"""Execution of an application on emulated GPUs: session, translation service and the application's processes."""

from __future__ import annotations

import math
import os
import signal
import sys
import termios
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.core.slow_work import slow_work
from rocm_perf_lab.runtime.device_files import device_files
from rocm_perf_lab.runtime.driver_build import build_driver
from rocm_perf_lab.runtime.guardian import FORWARDED, SENT_BY_KERNEL, ApplicationStart, Guardian
from rocm_perf_lab.runtime.rocm_root import enter_root
from rocm_perf_lab.runtime.service import TranslationService
from rocm_perf_lab.runtime.session import open_session
from rocm_perf_lab.runtime.topology import HostFacts, topology
from rocm_perf_lab.runtime.totals import DispatchTotals, read_totals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rocm_perf_lab.runtime.application_database import WrittenDatabases
    from rocm_perf_lab.runtime.emulated_gpus import TopologyGpu
    from rocm_perf_lab.runtime.findings import ApplicationFinding
    from rocm_perf_lab.runtime.guardian import ApplicationEnd
    from rocm_perf_lab.runtime.recorder import DispatchRecorder
    from rocm_perf_lab.runtime.session import Session

_XNACK_VARIABLE = "HSA_XNACK"
_LONGEST_WAIT_S = 3600.0
_POLL_S = 0.1
LOADED_FILE, USED_FILE = "loaded", "used"
"""Files that the driver creates in the session: when it is loaded into a process, and when a process opens /dev/kfd."""


@dataclass(frozen=True)
class DriverOptions:
    """Options of the emulated driver."""

    threads: int
    """Threads per dispatch."""
    any_order: bool = False
    """Whether kernels whose results depend on the order of workgroups also use several threads."""
    max_instructions: int = 0
    """Limit of wave instructions per dispatch; 0: no limit."""
    max_seconds: int = 0
    """Limit of wall-clock time per dispatch in seconds; 0: no limit."""
    heartbeat_seconds: int = 0
    """Seconds after which a running dispatch is reported; 0: never."""
    trace: int = 0
    """Verbosity of the driver's log on standard error: 0 to 3."""
    checks: int = 0
    """Bits of :data:`~rocm_perf_lab.runtime.findings.CHECKS`."""

    def settings(self) -> dict[str, int | str]:
        """Return the settings of the driver library."""
        return {
            "threads": self.threads,
            "any_order": int(self.any_order),
            "max_instructions": self.max_instructions,
            "max_seconds": self.max_seconds,
            "heartbeat_seconds": self.heartbeat_seconds,
            "trace": self.trace,
            "checks": self.checks,
        }


@dataclass(frozen=True)
class ApplicationRun:
    """Application to run on emulated GPUs."""

    command: tuple[str, ...]
    gpus: tuple[TopologyGpu, ...]
    options: DriverOptions
    root: Path | None = None
    """ROCm directory tree that becomes the application's root directory."""
    xnack: bool = False
    recorder: DispatchRecorder | None = None
    """Profile of the dispatches."""
    timeout_s: float = math.inf
    """Seconds after which the application is stopped."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the application, in addition to those of this process."""
    shared: tuple[Path, ...] = ()
    """Directories to mount in the root directory, in addition to the working directory and this Python."""
    shall_end: Callable[[], bool] | None = None
    """Called about ten times per second; the application is stopped when it returns true."""


@dataclass(frozen=True)
class ApplicationResult:
    """End of an application, and whether the emulated driver was used."""

    end: ApplicationEnd
    loaded_driver: bool
    used_gpu: bool
    written: WrittenDatabases | None = None
    """Databases written by the recorder."""
    timed_out: bool = False
    totals: DispatchTotals = field(default_factory=DispatchTotals)
    """Work of the emulated GPUs."""
    wall_s: float = 0.0
    """Wall-clock time from start to end on this machine."""
    findings: tuple[ApplicationFinding, ...] = ()
    """Of the checks."""
    translations: int = 0
    """Number of kernels that were translated, because they were not in the cache."""


def run_application(run: ApplicationRun) -> ApplicationResult:
    """Run an application to its end. Its standard input, output and error are those of this process.

    Raises:
        LabError: The driver cannot be built, there is no place for the session, or the root directory cannot be entered.
    """
    with slow_work("building the emulated driver (once)"):
        driver = build_driver()
    started = time.monotonic()
    with open_session() as session, _terminal_restored(), _signals_blocked() as (before, watched):
        session.write(_settings(run), [topology(run.gpus, _host()), device_files(run.gpus, _host().memory_bytes)])
        shares_group = _has_terminal()
        start = ApplicationStart(*_command(run, session, driver), before, shares_group)
        guardian = Guardian(start, watched, session.remove)
        service = TranslationService(
            session.socket,
            [gpu.target for gpu in run.gpus],
            None if run.recorder is None else run.recorder.clock,
        )
        try:
            with service:
                end, timed_out = _supervised(guardian, run, watched, shares_group=shares_group)
        except BaseException:
            guardian.cancel()
            raise
        loaded, used = (session.directory / LOADED_FILE).exists(), (session.directory / USED_FILE).exists()
        wall_s = time.monotonic() - started
        written = None if run.recorder is None else run.recorder.finish(session.directory, service.store.kernels)
        findings = _findings(run, session, service) if run.options.checks else ()
        totals = read_totals(session.directory)
        return ApplicationResult(end, loaded, used, written, timed_out, totals, wall_s, findings, service.store.translations)


def _findings(run: ApplicationRun, session: Session, service: TranslationService) -> tuple[ApplicationFinding, ...]:
    from rocm_perf_lab.runtime.call_sites import CallSites
    from rocm_perf_lab.runtime.findings import complete_findings

    return complete_findings(session.directory, service.store.kernels, CallSites(run.root))


def _supervised(
    guardian: Guardian, run: ApplicationRun, watched: frozenset[signal.Signals], *, shares_group: bool
) -> tuple[ApplicationEnd, bool]:
    """Start the application, and forward signals until it has ended; return its end, and whether it took too long."""
    guardian.start()
    deadline = time.monotonic() + run.timeout_s
    shall_end = run.shall_end
    timed_out = False
    while not guardian.has_ended():
        remaining = min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT_S if shall_end is None else _POLL_S)
        received = signal.sigtimedwait(watched | {signal.SIGCHLD}, remaining)
        if shall_end is not None and shall_end():
            shall_end = None
            guardian.forward(signal.SIGTERM)
        if received is None:
            if time.monotonic() >= deadline:
                timed_out, deadline = True, math.inf
                guardian.forward(signal.SIGTERM)
            continue
        by_terminal = received.si_code == SENT_BY_KERNEL and shares_group
        if received.si_signo != signal.SIGCHLD and not by_terminal:
            guardian.forward(received.si_signo)
    return guardian.close(), timed_out


def _settings(run: ApplicationRun) -> dict[str, int | str]:
    settings: dict[str, int | str] = {"gpu_count": len(run.gpus), **run.options.settings()}
    settings["records"] = int(run.recorder is not None)
    if run.recorder is not None:
        settings |= run.recorder.selection.settings()
    for gpu in run.gpus:
        settings |= {f"gpu.{gpu.index}.{name}": value for name, value in gpu.settings().items()}
    return settings


def _command(run: ApplicationRun, session: Session, driver: Path) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return the command line and the environment with which the application starts."""
    environment = dict(os.environ)
    variables = {**run.variables, **session.variables(driver, {**environment, **run.variables})}
    if run.xnack:
        variables[_XNACK_VARIABLE] = "1"
    if run.root is None:
        return run.command, environment | variables
    shared = [cache_dir(), driver.parent, session.directory, *run.shared, *_python_directories()]
    inside = enter_root(run.root, run.command, shared=shared, working_directory=Path.cwd(), environment=variables)
    return tuple(inside), environment


def _python_directories() -> Iterator[Path]:
    """Yield the directories of this Python and of this package, so that rocm-perf can run inside a root."""
    yield Path(sys.prefix)
    yield Path(sys.base_prefix)
    yield Path(__file__).parents[2]


def _host() -> HostFacts:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return HostFacts(cpus=os.cpu_count() or 1, memory_bytes=memory)


def _has_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


@contextmanager
def _signals_blocked() -> Iterator[tuple[frozenset[signal.Signals], frozenset[signal.Signals]]]:
    """Block the signals to forward, except ignored ones; yield the previous mask, and the blocked signals."""
    watched = frozenset(number for number in FORWARDED if signal.getsignal(number) is not signal.SIG_IGN)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched | {signal.SIGCHLD})
    try:
        yield frozenset(signal.Signals(number) for number in before), watched
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _terminal_restored() -> Iterator[None]:
    """Restore the terminal modes: a killed application may not have restored the echo."""
    try:
        modes = termios.tcgetattr(sys.__stdin__) if sys.__stdin__ else None
    except (termios.error, ValueError, OSError):
        modes = None
    try:
        yield
    finally:
        if modes is not None and os.tcgetpgrp(0) == os.getpgrp():
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, modes)


def check_root(root: Path) -> Path:
    """Return the absolute path of a directory tree with ROCm.

    Raises:
        LabError: It is not one.
    """
    root = root.absolute()
    if not (root / "usr").is_dir():
        raise LabError("this is not a ROCm directory tree", where=str(root), hint="set up one with make rocm-root")
    return root
