"""What the lab adds to rocprofv3: `rocm-perf profile ./app` with a profiler and an application that return at once.

The profiler is a shell script that copies a database made before. Its own share is measured by the same runs without the
lab, and taken off.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.profiling import generate
from rocm_perf_lab.tracking.deferred import RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_PROFILER = """#!/bin/sh
[ "$1" = --version ] && {{ echo "version: 1.1.0"; exit 0; }}
while [ "$1" != -d ]; do shift; done
mkdir -p "$2" && cp {database} "$2/run_results.db"
echo run >> {runs}
"""


_PATIENCE_S = 20.0


@dataclass(frozen=True)
class Overhead:
    """Seconds of one profile, without the profiler's. `processor_s` is of all its processes."""

    wall_s: float
    processor_s: float
    profiler_s: float
    runs: int


def measure(directory: Path, *, repeat: int) -> Overhead:
    """The fastest of `repeat` profiles, after one that fills the caches."""
    database, runs, programs = directory / "ready.db", directory / "runs", directory / "bin"
    generate(database, dispatches=200, queues=1)
    programs.mkdir()
    _program(programs / "rocprofv3", _PROFILER.format(database=database, runs=runs))
    _program(directory / "app", "#!/bin/sh\nexit 0\n")
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "MLFLOW_TRACKING_URI": f"sqlite:///{directory / 'runs.db'}",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the first run compiles the lab's modules, as an installation does

    def run(words: Sequence[str]) -> None:
        subprocess.run(words, cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL)

    def run_alone(words: Sequence[str]) -> tuple[float, float]:
        patience = time.monotonic() + _PATIENCE_S
        while (directory / "out" / RECORD).exists() and time.monotonic() < patience:
            time.sleep(0.05)  # MLflow logs the profile before
        return _spent(lambda: run(words))

    lab = [sys.executable, "-c", "from rocm_perf_lab.cli import main; main()", "profile", "./app", "--quiet", "--output", "out"]
    run(lab)
    count = len(runs.read_text().splitlines())
    whole = [run_alone(lab) for _ in range(repeat)]
    profiler = [run_alone(["rocprofv3", "-d", str(directory / "alone"), "--", "./app"]) for _ in range(repeat)]
    per_run = min(wall for wall, _ in profiler)
    wall, processor = min(whole)
    return Overhead(wall - count * per_run, processor, count * per_run, count)


def _spent(action: Callable[[], None]) -> tuple[float, float]:
    """Wall and processor seconds of the processes that an action waits for."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    action()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
