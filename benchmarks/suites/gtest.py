"""Test programs that use GoogleTest: lists their tests, runs them in batches and reads the results.

The status of a test is read from the output while the program runs, so that a test that ends the program or exceeds its limit
affects only its own result. The reasons for failures are read from the program's JSON report, if it exists.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from dataclasses import dataclass, field, replace
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.suites.results import FAILED, OVER_LIMIT, PASSED, SKIPPED, SuiteTestResult
from benchmarks.suites.watching import WatchedProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_STATUS = re.compile(r"^\[ *(RUN|OK|FAILED|SKIPPED) *\] ([^\s,]+)(?:,.*?)?(?: \((\d+) ms\))?$")
_GOLDEN = 0.618
_KEPT_LINES = 8
_LISTING_LIMIT_S = 300.0
_STATUSES = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}


@dataclass(frozen=True)
class GtestProgram:
    """A test program.

    Args:
        path: Program, inside the ROCm root.
        command: Returns the command line that runs a program with arguments on the emulated GPU.
        listing: Returns the command line that runs it without a GPU, to list its tests.
        limit_s: Wall-clock limit of one test in seconds.
        filter: Filter of GoogleTest for the tests that belong to the suite.
        arguments: First arguments of the program.
        variables: Environment variables of the program.
    """

    path: str
    command: Callable[[Sequence[str]], list[str]]
    listing: Callable[[Sequence[str]], list[str]]
    limit_s: float
    filter: str = "*"
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the program, the first part of the names of its tests."""
        return Path(self.path).name

    def tests(self) -> list[str]:
        """Return the names of the enabled tests in an order that spreads them over the program."""
        listing = [self.path, *self.arguments, "--gtest_list_tests", f"--gtest_filter={self.filter}"]
        for command in (self.listing(listing), self.command(listing)):  # Some programs need a GPU to list tests.
            process = WatchedProcess(command, Path("/"), _LISTING_LIMIT_S, lambda line: False)
            tests = [test for test in listed_tests(process.lines()) if "DISABLED_" not in test]
            if tests:
                return spread(tests)
        return []

    def run(self, tests: Sequence[str]) -> Iterator[SuiteTestResult]:
        """Run tests of the program; after a test that ends it or is stopped, the others run in a new process."""
        left = list(tests)
        while left:
            results = self._run_process(left)
            yield from results
            finished = {result.name.partition(":")[2] for result in results}
            left = [test for test in left if test not in finished]

    def _run_process(self, tests: Sequence[str]) -> list[SuiteTestResult]:
        """Return the results of one process: at least one, with that of the test during which the process ended."""
        with tempfile.TemporaryDirectory(prefix="rocm-suites-") as directory:
            report = Path(directory, "report.json")
            # Not in a file of flags: programs that read their own arguments (rocblas-test) ignore it and run all tests.
            flags = [f"--gtest_filter={':'.join(tests)}", f"--gtest_output=json:{report}"]
            command = self.command([self.path, *self.arguments, *flags])
            process = WatchedProcess(command, Path(directory), self.limit_s, is_status_line, self.variables)
            begun = time.monotonic()
            results, running, tail = read_statuses(process.lines())
            reasons = failure_reasons(report.read_text(encoding="utf-8")) if report.exists() else {}
        results = [replace(one, reason=reasons.get(one.name, one.reason)[:300]) for one in results]
        if running or not results:
            seconds = self.limit_s if process.was_ended else time.monotonic() - begun
            reason = [f"no result after {self.limit_s:.0f} s"] if process.was_ended else [f"exit code {process.exit_code}", *tail]
            status = OVER_LIMIT if process.was_ended else FAILED
            results.append(SuiteTestResult.failure(running or tests[0], seconds, reason, status))
        return [replace(one, name=f"{self.name}:{one.name}") for one in results]


def listed_tests(lines: Iterable[str]) -> Iterator[str]:
    """Yield the full names of the tests in the output of `--gtest_list_tests`."""
    suite = ""
    for line in lines:
        name = line.partition("#")[0].rstrip()
        if name.endswith(".") and not name.startswith(" ") and " " not in name:
            suite = name
        elif suite and re.fullmatch(r"  \S+", name):
            yield suite + name.strip()


def is_status_line(line: str) -> bool:
    """Return whether a line reports the begin or the end of a test."""
    return _STATUS.match(line) is not None


def read_statuses(lines: Iterable[str]) -> tuple[list[SuiteTestResult], str, list[str]]:
    """Read the output of a test program.

    Returns:
        Results of the tests that ended, the test that was running at the end of the output or an empty string, and last lines.
    """
    results: list[SuiteTestResult] = []
    running, printed = "", list[str]()
    for line in lines:
        match = _STATUS.match(line)
        if match is None:
            printed.append(line)
        elif match[1] == "RUN":
            running, printed = match[2], []
        elif match[2] == running:
            status, seconds = _STATUSES[match[1]], int(match[3] or 0) / 1000
            reason = printed[:_KEPT_LINES] if status != PASSED else []
            results.append(SuiteTestResult.failure(running, seconds, reason, status))
            running = ""
    return results, running, printed[-_KEPT_LINES:]


def failure_reasons(report: str) -> dict[str, str]:
    """Return the first failure of each failed test in a JSON report of GoogleTest."""
    return {
        f"{suite['name']}.{test['name']}": " ".join(test["failures"][0]["failure"].split())
        for suite in json.loads(report)["testsuites"]
        for test in suite["testsuite"]
        if test.get("failures")
    }


def spread(names: Sequence[str]) -> list[str]:
    """Return the names in an order of which every prefix is spread evenly over them."""
    count = len(names)
    step = max(1, round(count * _GOLDEN))
    while gcd(step, count) > 1:
        step += 1
    return [names[index * step % count] for index in range(count)]
