"""Programs with planted defects, and correct ones that look like them: `python -m benchmarks.checks [--resume] [--minutes N]`.

All checks of `rocm-perf run` are on. A run that ended early, or after N minutes, continues with `--resume`.

Lines with a defect are marked with the kinds of findings that count: `// DEFECT lds_race`, `// DEFECT misaligned|out_of_bounds`.
A first line `// OPTIONS --gpus 2` has options of `rocm-perf run`. Programs in `applications` and `styles` were written and marked
before the checks saw them; `first_run.json` there has the figures of that run.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import REPOSITORY, Figure, Publisher
from benchmarks.suites.results import FAILED, PASSED, ResultFile, SuiteTestResult
from rocm_perf_lab.core.resources import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

CORPUS = REPOSITORY / "tests" / "runtime" / "checks"
UNSEEN = CORPUS / "applications"
STYLES = CORPUS / "styles"
DIRECTORIES = {
    CORPUS: "programs written with the checks",
    UNSEEN: "programs written before the checks saw them",
    STYLES: "programs in other styles, written after the rules were frozen",
}
"""Directories of programs with their titles."""
KINDS = ("defective", "correct")
FIRST_RUN = "first_run.json"
_MARK = re.compile(r"// DEFECT ([\w|]+)")
_OPTIONS = re.compile(r"// OPTIONS (.+)\n")
_TIMEOUT_S = 300


@dataclass(frozen=True)
class CheckedProgram:
    """Result of one program.

    Args:
        source: Its file.
        exit_code: Of `rocm-perf run --check all --json`.
        output: Of the program, and messages.
        expected: Findings of a kind and a line that are marked.
        others: Findings that are not marked.
    """

    source: Path
    exit_code: int
    output: str
    expected: tuple[Mapping[str, Any], ...] = ()
    others: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_found(self) -> bool:
        """Whether the planted defect, and nothing else, was found."""
        return bool(self.expected) and not self.others and self.exit_code == 1

    @property
    def is_clean(self) -> bool:
        """Whether a correct program ended with its result and without a finding."""
        return self.exit_code == 0 and "right\n" in self.output and not self.expected and not self.others


def marks_of(source: Path) -> dict[int, frozenset[str]]:
    """Return the kinds of findings that count, by line."""
    lines = source.read_text(encoding="utf-8").splitlines()
    return {number: frozenset(mark[1].split("|")) for number, line in enumerate(lines, 1) if (mark := _MARK.search(line))}


def check_program(source: Path, *, runtime: str = "lab") -> CheckedProgram:
    """Compile and run a program under all checks, and compare the findings with its marks."""
    rocm_perf = str(Path(sys.executable).with_name("rocm-perf"))
    options = _OPTIONS.match(source.read_text(encoding="utf-8"))
    command = [rocm_perf, "run", "--runtime", runtime, "--check", "all", "--json"]
    command += [*shlex.split(options[1] if options else ""), source.name]
    try:
        done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return CheckedProgram(source, -1, "time limit")
    try:
        findings = json.loads(done.stdout)["findings"]
    except json.JSONDecodeError:
        return CheckedProgram(source, -1, done.stderr)
    marks = marks_of(source)
    expected = tuple(finding for finding in findings if _is_marked(finding, source, marks))
    others = tuple(finding for finding in findings if finding not in expected)
    return CheckedProgram(source, done.returncode, done.stderr, expected, others)


def _is_marked(finding: Mapping[str, Any], source: Path, marks: Mapping[int, frozenset[str]]) -> bool:
    text = " ".join(str(finding[key]) for key in ("source", "call_site", "message"))
    lines = {int(number) for number in re.findall(rf"\b{re.escape(source.name)}:(\d+)", text)}
    return any(finding["kind"] in marks.get(line, ()) for line in lines)


def main(arguments: list[str] | None = None) -> None:
    """Run all programs, print and write the table; exit code 1 if a result is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.checks", description="Programs with planted defects under all checks."
    )
    parser.add_argument("--resume", action="store_true", help="continue with the programs that have no result")
    parser.add_argument("--minutes", type=float, help="time after which no program begins (default: no limit)")
    publisher = Publisher("checks", parser, arguments)
    options = publisher.options
    sources = [source for directory in DIRECTORIES for kind in KINDS for source in sorted((directory / kind).glob("*.hip"))]
    file = ResultFile(cache_dir() / "suites" / "checks.jsonl", is_resumed=options.resume)
    end = time.monotonic() + 60 * options.minutes if options.minutes is not None else None
    for result in _results(sources, {result.name for result in file.read()}, end):
        file.append([result])
        print(f"{result.name}: {result.status}{result.reason and ', '}{result.reason}", file=sys.stderr, flush=True)
    results = file.read()
    if len(results) < len(sources):
        print(f"{len(sources) - len(results)} programs are left; continue with --resume", file=sys.stderr)
        sys.exit(1)
    publisher.publish_figures("checks", _figures(results))
    sys.exit(any(result.status != PASSED for result in results))


def _results(sources: Iterable[Path], known: set[str], end: float | None) -> Iterator[SuiteTestResult]:
    for source in sources:
        name = source.relative_to(CORPUS).as_posix()
        if name in known or (end is not None and time.monotonic() >= end):
            continue
        begun = time.monotonic()
        one = check_program(source)
        is_right = one.is_found if source.parent.name == "defective" else one.is_clean
        reason = "" if is_right else f"exit code {one.exit_code}, marked: {one.expected}, not marked: {one.others}"
        yield SuiteTestResult(name, PASSED if is_right else FAILED, round(time.monotonic() - begun, 1), reason)


def _figures(results: Sequence[SuiteTestResult]) -> list[Figure]:
    figures = []
    for directory, title in DIRECTORIES.items():
        parts = directory.relative_to(CORPUS).parts
        passed = {
            kind: [result.status == PASSED for result in results if result.name.split("/")[:-1] == [*parts, kind]]
            for kind in KINDS
        }
        found, clean = passed["defective"], passed["correct"]
        key = parts[0] if parts else "development"
        figures.append(Figure(f"{key}_found", f"{title}: defects found", f"{sum(found)} of {len(found)}", "all"))
        figures.append(
            Figure(f"{key}_clean", f"{title}: correct programs without finding", f"{sum(clean)} of {len(clean)}", "all")
        )
        if (directory / FIRST_RUN).exists():
            first = json.loads((directory / FIRST_RUN).read_text(encoding="utf-8"))
            value = f"{first['found']} of {first['defective']} found, {first['false']} false"
            figures.append(Figure(f"{key}_first_run", f"{title}: first run, commit {first['commit']}", value))
    return figures


if __name__ == "__main__":
    main()
