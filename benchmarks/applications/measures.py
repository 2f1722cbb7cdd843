"""Runs of one program: results, equal output, times, and the files that a second run compiles or translates."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.applications.programs import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

_TIMEOUT_S = 600
_EMPTY_PROGRAM = """#include <hip/hip_runtime.h>
int main() {
  int gpus = 0;
  return hipGetDeviceCount(&gpus) == hipSuccess && gpus == 1 ? 0 : 1;
}
"""


@dataclass(frozen=True)
class Run:
    """One process."""

    exit_code: int
    output: str
    errors: str
    seconds: float
    cpu_seconds: float = 0.0
    """Of the process and its children, on all cores."""

    @classmethod
    def of(cls, command: Sequence[str], directory: Path = Path("/")) -> Run:
        """Run a command to its end; one that does not end counts as killed by its time limit."""
        start, used = time.perf_counter(), _cpu_seconds()
        # Python modules are compiled once, as on the machine of a user.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        try:
            done = subprocess.run(
                command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            return cls(-1, "", f"no end after {_TIMEOUT_S} s", time.perf_counter() - start)
        return cls(done.returncode, done.stdout, done.stderr, time.perf_counter() - start, _cpu_seconds() - used)


@dataclass(frozen=True)
class ApplicationMeasurement:
    """Runs of one program.

    Args:
        program: The program.
        expected: Its output under AMD's runtime.
        rocm: Run under AMD's runtime; None without a ROCm root.
        lab: Run under the runtime of this package.
        checked: Run with `--check all`.
        profiled: Run with `--profile`.
        built_again: Parts of sources that another plain run compiled, and kernels that it translated.
    """

    program: Program
    expected: str
    rocm: Run | None
    lab: Run
    checked: Run
    profiled: Run
    built_again: int

    @property
    def _runs(self) -> list[Run]:
        return [run for run in (self.rocm, self.lab, self.checked, self.profiled) if run is not None]

    @property
    def equal_output(self) -> bool:
        """Whether all runs wrote the expected standard output."""
        return all(run.output == self.expected for run in self._runs)

    @property
    def passed(self) -> bool:
        """Whether every run ended with exit code 0, with equal output."""
        return self.equal_output and all(run.exit_code == 0 for run in self._runs)


def measure(program: Program, root: Path | None, recorded: str) -> ApplicationMeasurement:
    """Run a program under both runtimes, with checks and with profiling.

    Args:
        program: The program.
        root: ROCm root for AMD's runtime; None to leave it out.
        recorded: Output under AMD's runtime, which counts if that is left out.
    """
    rocm = None
    if root is not None:
        rocm = Run.of(program.rocm_command(root, program.rocm_executable(root)))
    lab = Run.of(program.lab_command())
    again = Run.of(program.lab_command(["--json"]))
    with tempfile.TemporaryDirectory(prefix="rpl-", ignore_cleanup_errors=True) as directory:
        checked = Run.of(program.lab_command(["--check", "all"]), Path(directory))
        profiled = Run.of(program.lab_command(["--profile"]), Path(directory))
    expected = recorded if rocm is None else rocm.output
    return ApplicationMeasurement(program, expected, rocm, lab, checked, profiled, built_in(again.output))


def built_in(document: str) -> int:
    """Return how many parts of sources a run compiled and how many kernels it translated, by its JSON document."""
    run = json.loads(document)
    return int(run["compiled_parts"]) + int(run["translated_kernels"])


def start_up_seconds(repetitions: int) -> float:
    """Return the wall-clock time of `rocm-perf run` for a program that only counts the GPUs, with warm caches."""
    with tempfile.TemporaryDirectory(prefix="rpl-", ignore_cleanup_errors=True) as directory:
        source = Path(directory) / "empty.hip"
        source.write_text(_EMPTY_PROGRAM, encoding="utf-8")
        run = fastest(Program(source).lab_command(), repetitions + 1, Path(directory))
    if run.exit_code != 0:
        raise RuntimeError(f"the empty program failed: {run.errors}")
    return run.seconds


def fastest(command: Sequence[str], repetitions: int, directory: Path) -> Run:
    """Return the fastest of several runs, of which the first may fill caches; a failure is kept."""
    return min((Run.of(command, directory) for _ in range(repetitions)), key=_order)


def _order(run: Run) -> tuple[bool, float]:
    return run.exit_code == 0, run.seconds  # a run that failed comes first


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
