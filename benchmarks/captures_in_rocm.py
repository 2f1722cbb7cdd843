"""Figures of captures inside AMD's runtime on the emulated driver, for `benchmarks.replay`.

They need the directory tree of `make rocm-root`. The emulated GPU runs on the processor, in the process of the application.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.disk import GIB, MIB, disk_bytes_per_s, flush_files
from benchmarks.figures import Figure
from benchmarks.process_memory import PeakMemory
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.replay.application_run import tool_environment
from rocm_perf_lab.replay.capture_request import CaptureRequest
from rocm_perf_lab.replay.emulated_machine import EmulatedMachine
from rocm_perf_lab.replay.reader import capture_problems
from rocm_perf_lab.replay.tool_build import build_tool
from rocm_perf_lab.runtime.rocm_root import enter_root, is_complete, rocm_root_dir
from rocm_perf_lab.statistics.bootstrap import median_interval
from rocm_perf_lab.target.catalog import load_target
from tests.builders.rocm_programs import RocmPrograms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_PROGRAM = "small_dispatches"
_WAITING = "never dispatched"
"""Name of a kernel that is never dispatched, so that the tool waits until the end."""


def rocm_programs() -> RocmPrograms | None:
    """Return programs inside the ROCm root; None if this user cannot enter a root."""
    root = rocm_root_dir()
    if not is_complete(root):
        return None
    try:
        enter_root(root, ["true"], shared=[], working_directory=Path("/"), environment={})
    except LabError:
        return None
    return RocmPrograms(root)


def interference(programs: RocmPrograms, dispatches: int, pairs: int) -> Iterator[Figure]:
    """Measure applications with and without the tool, in pairs of runs in random order.

    The waiting tool captures no dispatch. The time of an application with empty kernels is that of launching on the
    processor, that of the other one is the time of its kernels. After a capture, before the measured dispatches, the tool
    forwards all calls.
    """
    described = f"{dispatches:,} small dispatches in ROCm on the emulated GPU"
    cases = (
        ("interference_launches", "launches", _WAITING, "with an empty kernel", "that the waiting tool adds", "< 1 %"),
        (
            "interference_kernels",
            "kernels",
            _WAITING,
            "longer than a launch",
            "that the waiting tool adds",
            "< 1 %",
        ),
        ("interference_after", "launches", "increment", "with an empty kernel", "that the tool adds after its capture", ""),
    )
    for key, mode, kernel, applications, added, goal in cases:
        plain, watched = _paired_runs(programs, mode, kernel, dispatches, pairs)
        added_percent = 100 * (watched[:, 0] / plain[:, 0] - 1)
        wall_us, processor_us = np.median(watched - plain, axis=0) / dispatches * 1e6
        interval = median_interval(added_percent)
        band = f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval is not None else ""
        each_us, launch_us = np.median(plain, axis=0) / dispatches * 1e6
        yield Figure(
            key,
            f"{described}, {applications}, {each_us:.1f} us each, {launch_us:.2f} us of processor time: time {added}, median of "
            f"{pairs} pairs",
            f"{np.median(added_percent):.2f} %{band}: {wall_us:.2f} us per dispatch, {processor_us:.2f} us of processor time",
            goal,
        )


def _paired_runs(programs: RocmPrograms, mode: str, kernel: str, dispatches: int, pairs: int) -> tuple[Floats, Floats]:
    """Return seconds without and with the tool, shape (pairs, 2): wall-clock time, and processor time of the launching thread."""
    program, tool = programs.compile(_PROGRAM, Path(__file__).parent), build_tool()
    machine = EmulatedMachine(load_target("mi300x"), programs.root)
    random = np.random.default_rng(1)
    times = np.empty((2, pairs, 2))
    for pair in range(-1, pairs):  # the first pair fills the caches
        for is_watched in random.permutation(2):
            with tempfile.TemporaryDirectory(prefix="rpl-") as scratch:
                work = Path(scratch).resolve()
                command = (str(program), str(work / "seconds"), mode, str(dispatches))
                variables = tool_environment(CaptureRequest(command, kernel, work / "capture"), tool, work, {})
                exit_code = machine.run(command, variables if is_watched else {}, [work, tool.parent, program.parent], None)
                loaded = [marker.read_text().strip() for marker in work.glob("loaded-*")]
                captured = len(list(work.glob("capture-*/manifest.json")))
                if exit_code != 0 or loaded != ["ok"] * int(is_watched) or captured != int(is_watched and kernel != _WAITING):
                    raise RuntimeError(f"exit code {exit_code}, the tool: {loaded or 'not loaded'}, captures: {captured}")
                if pair >= 0:
                    times[is_watched, pair] = [float(line) for line in (work / "seconds").read_text().split()]
    return times[0], times[1]


def capture_of_memory(programs: RocmPrograms, mebibytes: int, directory: Path | None) -> Iterator[Figure]:
    """Measure capture and verification of half-random memory, and the memory of the launcher.

    The capture takes from the dispatch until the packed capture is on disk, and contains the end of the application.
    """
    program = programs.compile(_PROGRAM, Path(__file__).parent)
    nbytes = mebibytes * MIB
    size = f"{nbytes / GIB:.3g} GiB"
    build_tool()
    with tempfile.TemporaryDirectory(prefix="rpl-", dir=directory) as scratch:
        work = Path(scratch).resolve()
        rate = disk_bytes_per_s(work / "disk", nbytes)
        options = ["--root", str(programs.root), "--kernel", "increment", "--output", "capture", "--tracking", "none"]
        command = [str(Path(sys.executable).with_name("rocm-perf")), "replay", "capture", *options]
        command += ["--", str(program), "seconds", "memory", str(mebibytes)]
        with (
            (work / "log").open("w+") as log,
            subprocess.Popen(command, cwd=work, stdout=log, stderr=log) as launcher,
            PeakMemory(launcher.pid, "VmHWM") as memory,
        ):
            launcher.wait()
        if launcher.returncode != 0:
            raise RuntimeError((work / "log").read_text())
        flush_files(work / "capture")
        seconds = time.monotonic() - float((work / "seconds").read_text())
        stored = sum(path.stat().st_size for path in (work / "capture").rglob("*") if path.is_file())
        start = time.perf_counter()
        problems = capture_problems(work / "capture")
        verify_s = time.perf_counter() - start
        if problems:
            raise RuntimeError("\n".join(problems))
    speed = nbytes / seconds
    yield Figure("rocm_disk", f"sequential write of {size} to the disk", f"{rate / MIB:,.0f} MiB/s")
    yield Figure(
        "rocm_capture",
        f"capture of {size} of half-random memory in ROCm on the emulated GPU, until it is packed and on disk",
        f"{speed / MIB:,.0f} MiB/s, {speed / rate:.2f} of the disk",
        ">= 0.7",
    )
    yield Figure("rocm_stored", "its size on disk", f"{stored / nbytes:.2f} of the memory")
    yield Figure("rocm_launcher", "largest memory of the launcher", f"{memory.largest / MIB:,.0f} MiB", "< 300 MiB")
    yield Figure("rocm_verify", "verification of the capture", f"{nbytes / verify_s / MIB:,.0f} MiB/s of captured memory")
