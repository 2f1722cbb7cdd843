"""Suites of `suites.yaml`: programs to run and their tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.suites.gtest import GtestProgram, spread
from benchmarks.suites.output_lines import LineProgram, TotalsProgram
from benchmarks.suites.rocblas_data import write_part
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.runtime.rocm_root import enter_root, rocm_root_dir
from tests.builders.rocm_programs import SOURCES, RocmPrograms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.suites.results import SuiteTestResult

_BATCH = 8
"""Tests of one process."""
_TESTS_DIRECTORY = "usr/libexec/rocm"
_DATA_DIRECTORY = "var/lib/rocm-perf-lab"
_CATEGORY, _MOST_OF_GROUP = "quick", 3
"""Tests of rocBLAS: their category, and the largest number in each group of each function."""


@dataclass(frozen=True)
class Batch:
    """Results of one process in order of completion; `program` is its name if it runs as a whole, else empty."""

    results: Iterator[SuiteTestResult]
    program: str = ""


@dataclass(frozen=True)
class Suite:
    """A suite; the fields are explained in `suites.yaml`."""

    name: str
    target: str
    minutes: float
    limit_s: float
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    script: str = ""
    pytest: str = ""
    gtest: str = ""
    totals: str = ""
    longest: tuple[str, ...] = ()
    filter: str = "*"
    options: tuple[str, ...] = ()
    data: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    def batches(self, done: frozenset[str], ended: frozenset[str]) -> Iterator[Batch]:
        """Yield the results of each process in turn.

        Args:
            done: Tests to omit, of programs whose tests can be chosen.
            ended: Programs to omit, of the others.

        Raises:
            LabError: The ROCm root lacks a program of the suite.
        """
        if self.gtest:
            yield from (Batch(results) for results in self._gtest_batches(done))
        else:
            yield from (Batch(one.run(), one.name) for one in self._line_programs() if one.name not in ended)
            yield from (Batch(one.run(), one.name) for one in self._total_programs() if one.name not in ended)

    def size(self) -> int | None:
        """Return the number of tests, or None if it is only known after a run."""
        return sum(len(one.tests()) for one in self._gtest_programs()) if self.gtest else None

    def _gtest_batches(self, done: frozenset[str]) -> Iterator[Iterator[SuiteTestResult]]:
        """Alternate between the programs, so that an interrupted run contains tests of all."""
        waiting = deque(self._batches_of(one, done) for one in self._gtest_programs())
        while waiting:
            batch = next(waiting[0], None)
            if batch is None:
                waiting.popleft()
            else:
                yield batch
                waiting.rotate(-1)

    def _batches_of(self, program: GtestProgram, done: frozenset[str]) -> Iterator[Iterator[SuiteTestResult]]:
        left = [test for test in program.tests() if f"{program.name}:{test}" not in done]
        for first in range(0, len(left), _BATCH):
            yield program.run(left[first : first + _BATCH])

    def _gtest_programs(self) -> list[GtestProgram]:
        root = rocm_root_dir()
        found = self._packaged(self.gtest)
        programs = RocmPrograms(root)

        def command(arguments: Sequence[str]) -> list[str]:
            return programs.command(arguments, self._run_options())

        def listing(arguments: Sequence[str]) -> list[str]:
            return enter_root(root, arguments, shared=[], working_directory=Path("/"), environment={})

        arguments = self._data_arguments(root)
        return [
            GtestProgram(f"/{path.relative_to(root)}", command, listing, self.limit_s, self.filter, arguments, self.variables)
            for path in found
        ]

    def _data_arguments(self, root: Path) -> tuple[str, ...]:
        """Write the part of the test data that the suite uses, and return the arguments that name it."""
        if not self.data:
            return ()
        part = root / _DATA_DIRECTORY / Path(self.data).name
        write_part(root / self.data, part, _CATEGORY, _MOST_OF_GROUP)
        return "--data", f"/{part.relative_to(root)}"

    def _packaged(self, pattern: str) -> list[Path]:
        """Return the test programs of the packages."""
        root = rocm_root_dir()
        found = sorted((root / _TESTS_DIRECTORY).glob(pattern))
        if not found:
            raise LabError(
                f"{root} has no test programs of the suite {self.name}",
                hint=f"python -m rocm_perf_lab.runtime.rocm_packages {' '.join(self.packages)}",
            )
        for link, target in self.links.items():
            if not os.path.lexists(root / link):
                (root / link).parent.mkdir(parents=True, exist_ok=True)
                (root / link).symlink_to(target)
        return found

    def _total_programs(self) -> list[TotalsProgram]:
        root = rocm_root_dir()
        found = spread([str(path.relative_to(root)) for path in self._packaged(self.totals)]) if self.totals else []
        found.sort(key=lambda name: Path(name).name in self.longest)
        programs = RocmPrograms(root)
        return [
            TotalsProgram(Path(name).name, programs.command([f"/{name}"], self._run_options()), self.limit_s) for name in found
        ]

    def _line_programs(self) -> Iterator[LineProgram]:
        programs = RocmPrograms(rocm_root_dir())
        for name in self.programs:
            executable = programs.compile(name)
            yield LineProgram(name, programs.command([executable], self._run_options()), executable.parent, self.limit_s)
        if self.script:
            command = programs.command(["python3", self.script], self._run_options())
            yield LineProgram(Path(self.script).stem, command, SOURCES, self.limit_s)
        if self.pytest:
            directory = _tests_of(self.pytest, programs)
            for file in sorted(directory.glob("test_*.py")):
                command = programs.command(
                    ["python3", "-m", "pytest", "-v", "-p", "no:cacheprovider", file.name], self._run_options()
                )
                yield LineProgram(file.stem, command, directory, self.limit_s)

    def _run_options(self) -> list[str]:
        return ["--target", self.target, *self.options]


def load_suites() -> list[Suite]:
    """Return all suites."""
    rows = yaml.safe_load(Path(__file__).with_name("suites.yaml").read_text(encoding="utf-8"))
    return [Suite(name=name, **_arguments(row)) for name, row in rows.items()]


def _arguments(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def _tests_of(package: str, programs: RocmPrograms) -> Path:
    """Return the directory `test` of the source distribution of the package's version in the ROCm root; download it once."""
    query = f"import importlib.metadata as m; print(m.version({package!r}))"
    command = programs.command(["python3", "-c", query])
    version = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True).stdout.strip()
    place = cache_dir() / "suites" / f"{package}-{version}"
    if not (place / "test").is_dir():
        # pip also asks the build system for the metadata, so only this package, not the build system, comes without a wheel.
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"--no-binary={package}"]
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run([*download, f"--dest={place}", f"{package}=={version}"], check=False, capture_output=True)
        archives = list(place.glob("*.tar.gz"))
        if not archives:
            raise LabError(f"the source distribution of {package} {version} cannot be had", hint="check the network")
        with tarfile.open(archives[0]) as archive:
            archive.extractall(place, filter="data")
        (unpacked,) = place.glob("*/test")
        unpacked.rename(place / "test")
    return place / "test"
