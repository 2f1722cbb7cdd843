"""Test suites on the emulated GPU: `python -m benchmarks.rocm_suites [--suite NAME]... [--all] [--minutes N] [--resume]`.

Suites are defined in `benchmarks/suites/suites.yaml`. By default, each suite runs for some minutes with tests that are spread
over its programs; `--all` runs every test. `--resume --retry` also repeats tests that did not pass. The results are written after
each suite. Needs `make rocm-root`, and for the suites with AMD's test programs `make rocm-root-tests`.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import signal
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Publisher
from benchmarks.suites.catalogue import Suite, load_suites
from benchmarks.suites.results import FAILED, OVER_LIMIT, PASSED, SKIPPED, ResultFile
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import locked
from rocm_perf_lab.core.resources import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from benchmarks.suites.catalogue import Batch
    from benchmarks.suites.results import SuiteTestResult

_COLUMNS = ("suite", "GPU", "tests run", "passed", "skipped by the suite", "failed", "over the time limit", "time")

_LONGEST_TEST_S = 1800.0
"""Limit of a test with `--all`: the generators of MT19937 execute 35 billion instructions before the first number."""


def main(arguments: list[str] | None = None) -> None:
    """Run suites, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rocm_suites", description=(__doc__ or "").partition("\n")[0])
    suites = {suite.name: suite for suite in load_suites()}
    parser.add_argument("--suite", action="append", choices=list(suites), metavar="NAME", help=f"one of: {', '.join(suites)}")
    parser.add_argument("--all", action="store_true", help="every test, without a limit for a suite")
    parser.add_argument("--minutes", type=float, help="time of each suite, instead of that in suites.yaml; 0: only count results")
    parser.add_argument("--resume", action="store_true", help="continue with the tests that have no result")
    parser.add_argument("--retry", action="store_true", help="with --resume: also the tests that did not pass")
    publisher = Publisher("rocm_suites", parser, arguments)
    options = publisher.options
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, end_with_children)
    for name in options.suite or suites:
        minutes = suites[name].minutes if options.minutes is None else options.minutes
        seconds = None if options.all else 60 * minutes
        try:
            result = run_suite(suites[name], seconds, is_resumed=options.resume, retries=options.retry)
        except LabError as error:
            print(f"{name}: " + "\n".join(error.lines()), file=sys.stderr)
            continue
        with locked(cache_dir() / "suites" / "results.lock"):  # rows that another process wrote meanwhile are kept
            data = {**stored(options.json), name: result}
            ordered = {key: data[key] for key in suites if key in data and data[key]["run"]}
            rows = {key: row(key, one) for key, one in ordered.items()}
            publisher.publish("test suites on the emulated GPU", _COLUMNS, rows, ordered)


def run_suite(suite: Suite, seconds: float | None, *, is_resumed: bool, retries: bool = False) -> dict[str, Any]:
    """Run tests of a suite until its time limit, and return its summary with earlier results.

    Args:
        suite: Suite.
        seconds: Time after which no process begins; None: all tests are run.
        is_resumed: Whether to keep the results of earlier runs.
        retries: Whether to run tests again that did not pass.

    Raises:
        LabError: A program of the suite is missing, or another process runs the suite.
    """
    path = cache_dir() / "suites" / f"{suite.name.replace(' ', '-')}.jsonl"
    with _only_run(suite.name, path.with_suffix(".lock")):
        file = ResultFile(path, is_resumed=is_resumed)
        again = {one.name for one in file.read() if retries and one.status in (FAILED, OVER_LIMIT)}
        done = frozenset(one.name for one in file.read()) - again
        ended = file.ended() - {name.partition(":")[0] for name in again}
        begun = time.monotonic()
        if seconds is None:
            suite = replace(suite, limit_s=max(suite.limit_s, _LONGEST_TEST_S))
        for batch in suite.batches(done, ended):
            if seconds is not None and time.monotonic() - begun >= seconds:
                break
            _run_batch(suite.name, batch, file)
        return summary(suite.target, file.read())


def _run_batch(suite: str, batch: Batch, file: ResultFile) -> None:
    """Run a process and store its results."""
    if batch.program:
        file.begin(batch.program)
    for result in batch.results:
        file.append([result])
        if result.status in (FAILED, OVER_LIMIT):
            print(f"{suite}: {result.name} {result.status}: {result.reason}", file=sys.stderr, flush=True)
    if batch.program:
        file.end(batch.program)


@contextmanager
def _only_run(suite: str, path: Path) -> Iterator[None]:
    """Reject a second concurrent run of a suite, because both would write the same results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another process runs the suite {suite}", where=str(path), hint="wait for its end") from None
        yield


def summary(target: str, results: Sequence[SuiteTestResult]) -> dict[str, Any]:
    """Return the counts, the time of the tests and the tests that did not pass."""
    counts = Counter(result.status for result in results)
    return {
        "target": target,
        "run": len(results),
        **{status: counts[status] for status in (PASSED, SKIPPED, FAILED, OVER_LIMIT)},
        "seconds": round(sum(result.seconds for result in results), 1),
        "not_passed": [asdict(result) for result in results if result.status in (FAILED, OVER_LIMIT)],
    }


def row(name: str, suite: dict[str, Any]) -> tuple[str, ...]:
    """Return a row of the table; the reasons of failures are in the JSON document."""
    failed = f"{sum(one['status'] == FAILED for one in suite['not_passed']):,}"
    numbers = [f"{suite[status]:,}" for status in (PASSED, SKIPPED)]
    minutes = f"{suite['seconds'] / 60:.1f} min"
    return name, suite["target"], f"{suite['run']:,}", *numbers, failed, f"{suite[OVER_LIMIT]:,}", minutes


def stored(path: Path) -> dict[str, Any]:
    """Return the summaries by suite in a file of results."""
    return dict(json.loads(path.read_text(encoding="utf-8"))["data"]) if path.exists() else {}


def end_with_children(number: int, frame: FrameType | None) -> None:
    """End this process with an exception, which also ends the test program."""
    del frame
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
