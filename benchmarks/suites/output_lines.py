"""Programs of the repository that print PASS or FAIL for each check, and pytest's output by test."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.suites.results import FAILED, OVER_LIMIT, PASSED, SKIPPED, SuiteTestResult
from benchmarks.suites.watching import WatchedProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHECK = re.compile(r"^(?P<status>PASS|FAIL) (?P<name>[^\s:]+):? ?(?P<reason>.*)$")
_PYTEST = re.compile(r"^(?P<name>\S+::\S.*?) (?P<status>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?P<reason>.*)$")
_TOTALS = re.compile(r"^Totals: 0 failures, \d+ known failures, 0 errors, and (\d+) passes")
_STATUSES = {
    "PASS": PASSED,
    "PASSED": PASSED,
    "XPASS": PASSED,
    "XFAIL": PASSED,
    "FAIL": FAILED,
    "FAILED": FAILED,
    "ERROR": FAILED,
    "SKIPPED": SKIPPED,
}
_KEPT_LINES = 8


@dataclass(frozen=True)
class LineProgram:
    """A command that prints one line per test.

    Args:
        name: First part of the names of its tests.
        command: Command line.
        directory: Working directory.
        limit_s: Wall-clock limit of one test in seconds.
    """

    name: str
    command: Sequence[str]
    directory: Path
    limit_s: float

    def run(self) -> Iterator[SuiteTestResult]:
        """Yield the result of each test; a process that fails or is stopped is a failed test with its name."""
        process = WatchedProcess(self.command, self.directory, self.limit_s, lambda line: _result(line) is not None)
        begun, tail, failures = time.monotonic(), list[str](), 0
        for line in process.lines():
            match = _result(line)
            if match is None:
                tail = [*tail, line][-_KEPT_LINES:]
                continue
            status, seconds = _STATUSES[match["status"]], time.monotonic() - begun
            failures += status == FAILED
            reason = [match["reason"]] if status != PASSED else []
            yield SuiteTestResult.failure(f"{self.name}:{match['name']}", seconds, reason, status)
            begun = time.monotonic()
        seconds = time.monotonic() - begun
        if process.was_ended:
            reason = [f"no result after {self.limit_s:.0f} s"]
            yield SuiteTestResult.failure(f"{self.name}:after the last result", seconds, reason, OVER_LIMIT)
        elif process.exit_code and not failures:
            yield SuiteTestResult.failure(f"{self.name}:process", seconds, [f"exit code {process.exit_code}", *tail])


@dataclass(frozen=True)
class TotalsProgram:
    """Test program that prints totals at its end; it counts as one test.

    Args:
        name: Name of the test.
        command: Command line.
        limit_s: Wall-clock limit of the program in seconds.
    """

    name: str
    command: Sequence[str]
    limit_s: float

    def run(self) -> Iterator[SuiteTestResult]:
        """Yield the result; known failures of the program do not count as failures."""
        process = WatchedProcess(self.command, Path("/"), self.limit_s, lambda line: False)
        begun, tail, passes = time.monotonic(), list[str](), 0
        for line in process.lines():
            tail = [*tail, line][-_KEPT_LINES:]
            totals = _TOTALS.match(line)
            passes = int(totals[1]) if totals else passes
        seconds = time.monotonic() - begun
        if process.was_ended:
            yield SuiteTestResult.failure(self.name, seconds, [f"no result after {self.limit_s:.0f} s"], OVER_LIMIT)
        elif process.exit_code or not passes:
            yield SuiteTestResult.failure(self.name, seconds, [f"exit code {process.exit_code}", *tail])
        else:
            yield SuiteTestResult(self.name, PASSED, round(seconds, 2))


def _result(line: str) -> re.Match[str] | None:
    return _CHECK.match(line) or _PYTEST.match(line)
