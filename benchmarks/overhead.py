"""Overhead of `rocm-perf profile ./app` over rocprofv3: `python -m benchmarks.overhead`.

Profiler and application are stand-ins that return immediately: the profiler is a shell script that copies a prepared database.
Its time is measured in separate runs and subtracted.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.databases import generate_database
from benchmarks.figures import Figure, Publisher
from rocm_perf_lab.tracking.deferred import RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LIMIT_S = 0.5
_PROFILER = """#!/bin/sh
[ "$1" = --version ] && {{ echo "version: 1.1.0"; exit 0; }}
while [ "$1" != -d ]; do shift; done
mkdir -p "$2" && cp {database} "$2/run_results.db"
echo run >> {runs}
"""
_TRACKING_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Overhead:
    """Cost of one profile.

    Args:
        wall_s: Wall-clock time without that of the profiler.
        processor_s: Processor time of all processes, the profiler included.
        profiler_s: Wall-clock time of the profiler.
        runs: Number of profiler runs in one profile.
    """

    wall_s: float
    processor_s: float
    profiler_s: float
    runs: int


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the overhead."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=6, help="number of profiles; the fastest counts")
    publisher = Publisher("overhead", parser, arguments)
    with tempfile.TemporaryDirectory() as directory:
        found = measure(Path(directory), repeat=publisher.options.repeat)
    publisher.publish_figures(
        "overhead of a profile over rocprofv3",
        [
            Figure(
                "wall",
                f"`rocm-perf profile ./app`, added to {found.runs} profiler runs",
                f"{found.wall_s:.2f} s",
                f"< {LIMIT_S:g} s",
            ),
            Figure("processor", "processor time of the profile, profiler included", f"{found.processor_s:.2f} s"),
        ],
        asdict(found),
    )


def measure(directory: Path, *, repeat: int) -> Overhead:
    """Measure the fastest of `repeat` profiles, after one that fills the caches."""
    database, runs, programs = directory / "ready.db", directory / "runs", directory / "bin"
    generate_database(database, dispatches=200, queues=1)
    programs.mkdir()
    _write_program(programs / "rocprofv3", _PROFILER.format(database=database, runs=runs))
    _write_program(directory / "app", "#!/bin/sh\nexit 0\n")
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "MLFLOW_TRACKING_URI": f"sqlite:///{directory / 'runs.db'}",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the first run compiles to bytecode, as an installation does

    def run(command: Sequence[str]) -> None:
        subprocess.run(command, cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL)

    def time_alone(command: Sequence[str]) -> tuple[float, float]:
        deadline = time.monotonic() + _TRACKING_TIMEOUT_S
        while (directory / "out" / RECORD).exists() and time.monotonic() < deadline:
            time.sleep(0.05)  # MLflow still logs the previous profile
        return _times(lambda: run(command))

    profile = [
        sys.executable,
        "-c",
        "from rocm_perf_lab.cli import main; main()",
        "profile",
        "./app",
        "--quiet",
        "--output",
        "out",
    ]
    run(profile)
    count = len(runs.read_text().splitlines())
    profiles = [time_alone(profile) for _ in range(repeat)]
    profiler = [time_alone(["rocprofv3", "-d", str(directory / "alone"), "--", "./app"]) for _ in range(repeat)]
    per_run = min(wall for wall, _ in profiler)
    wall, processor = min(profiles)
    return Overhead(wall - count * per_run, processor, count * per_run, count)


def _times(action: Callable[[], None]) -> tuple[float, float]:
    """Return wall-clock and processor seconds of the child processes that an action runs."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


if __name__ == "__main__":
    main()
