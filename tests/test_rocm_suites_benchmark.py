"""`python -m benchmarks.rocm_suites`: how it reads and limits test programs."""

from __future__ import annotations

import fcntl
import json
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.rocm_suites import row, run_suite, stored, summary
from benchmarks.suites.catalogue import Batch, Suite, load_suites
from benchmarks.suites.gtest import GtestProgram, failure_reasons, listed_tests, read_statuses, spread
from benchmarks.suites.output_lines import LineProgram, TotalsProgram
from benchmarks.suites.results import FAILED, OVER_LIMIT, PASSED, SKIPPED, ResultFile, SuiteTestResult
from benchmarks.suites.rocblas_data import write_part
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TESTS = ("Scan/0.Sum", "Scan/0.Crash", "Sort.Wrong", "Sort.Endless", "Sort.Last")
PROGRAM = f"""#!{sys.executable}
import json, os, sys, time
flags = dict(argument.split("=", 1) for argument in sys.argv[1:])
names = flags["--gtest_filter"].split(":")
report = {{"testsuites": []}}
for name in names:
    print(f"[ RUN      ] {{name}}", flush=True)
    if name.endswith("Crash"): os._exit(3)
    if name.endswith("Endless"): time.sleep(600)
    if name.endswith("Wrong"):
        print("3 is not 4")
        print(f"[  FAILED  ] {{name}}, where TypeParam = int (2 ms)", flush=True)
    else:
        print(f"[       OK ] {{name}} (1500 ms)", flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> GtestProgram:
    """Test program with a test that crashes, one that fails and one that does not end."""
    path = tmp_path / "test_scan"
    path.write_text(PROGRAM)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def command(arguments: Sequence[str]) -> list[str]:
        return list(arguments)

    return GtestProgram(str(path), command, command, limit_s=2)


def test_a_test_that_crashes_or_hangs_costs_only_its_own_result(program: GtestProgram) -> None:
    results = {result.name.partition(":")[2]: result for result in program.run(TESTS)}

    assert {name: result.status for name, result in results.items()} == {
        "Scan/0.Sum": PASSED,
        "Scan/0.Crash": FAILED,
        "Sort.Wrong": FAILED,
        "Sort.Endless": OVER_LIMIT,
        "Sort.Last": PASSED,
    }
    assert results["Scan/0.Sum"].seconds == 1.5
    assert results["Scan/0.Crash"].reason == "exit code 3"
    assert results["Sort.Wrong"].reason == "3 is not 4"
    assert results["Sort.Endless"].reason == "no result after 2 s"


def test_names_of_tests_are_read_from_the_list() -> None:
    output = [
        "Running main() from gtest_main.cc",
        "Scan/0.  # TypeParam = int",
        "  Sum",
        "  Max  # GetParam() = 3",
        "Sort.",
        "  Keys",
    ]

    assert list(listed_tests(output)) == ["Scan/0.Sum", "Scan/0.Max", "Sort.Keys"]


def test_every_beginning_of_the_order_is_spread_over_the_tests() -> None:
    names = [str(number) for number in range(100)]

    order = spread(names)

    assert sorted(order, key=int) == names
    assert {int(name) // 25 for name in order[:5]} == {0, 1, 2, 3}


def test_skipped_tests_and_the_running_test_are_recognised() -> None:
    lines = ["[ RUN      ] A.b", "needs two GPUs", "[  SKIPPED ] A.b (0 ms)", "[ RUN      ] A.c", "Memory access fault"]

    results, running, last = read_statuses(lines)

    assert [(one.name, one.status, one.reason) for one in results] == [("A.b", SKIPPED, "needs two GPUs")]
    assert (running, last) == ("A.c", ["Memory access fault"])


def test_reasons_are_those_of_the_json_report() -> None:
    tests = [{"name": "b", "failures": [{"failure": "x.cpp:3\nExpected\n  4"}]}, {"name": "c"}]

    assert failure_reasons(json.dumps({"testsuites": [{"name": "A", "testsuite": tests}]})) == {"A.b": "x.cpp:3 Expected 4"}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo PASS one '(0.1 s)'; echo noise; echo FAIL two: 3 is not 4", [("p:one", PASSED), ("p:two", FAILED)]),
        ("echo t.py::a PASSED; echo t.py::b SKIPPED", [("p:t.py::a", PASSED), ("p:t.py::b", SKIPPED)]),
        ("echo PASS one; exit 4", [("p:one", PASSED), ("p:process", FAILED)]),
        ("echo PASS one; exec sleep 600", [("p:one", PASSED), ("p:after the last result", OVER_LIMIT)]),
    ],
)  # fmt: skip
def test_lines_of_a_program_are_results(script: str, expected: list[tuple[str, str]]) -> None:
    program = LineProgram("p", ["/bin/sh", "-c", script], Path("/"), limit_s=1)

    assert [(one.name, one.status) for one in program.run()] == expected


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ("Totals: 0 failures, 1 known failures, 0 errors, and 9 passes.", PASSED),
        ("Totals: 1 failures, 0 known failures, 0 errors, and 8 passes.", FAILED),
        ("Segmentation fault", FAILED),
    ],
)
def test_totals_of_a_program_are_one_result(output: str, status: str) -> None:
    (result,) = TotalsProgram("p", ["echo", output], limit_s=10).run()

    assert result.status == status


def test_results_are_kept_for_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "suites" / "scan.jsonl"
    result = SuiteTestResult("p:a", PASSED, 1.0)
    ResultFile(path, is_resumed=False).append([result])
    path.write_text(path.read_text() + '{"name": "p:b", "sta')

    resumed = ResultFile(path, is_resumed=True)
    resumed.append([SuiteTestResult("p:c", FAILED, 1.0)])
    resumed.append([SuiteTestResult("p:c", PASSED, 2.0)])  # the last result of a test counts

    assert resumed.read() == [result, SuiteTestResult("p:c", PASSED, 2.0)]
    assert ResultFile(path, is_resumed=False).read() == []


@dataclass(frozen=True)
class TwoPrograms(Suite):
    """A suite of two programs with a test each, which notes the programs that begin."""

    begun: list[str] = field(default_factory=list)

    def batches(self, done: frozenset[str], ended: frozenset[str]) -> Iterator[Batch]:
        for name in ("scan", "sort"):
            if name not in ended:
                self.begun.append(name)
                yield Batch(iter([SuiteTestResult(f"{name}:a", PASSED, 1.0)]), name)


def test_a_program_that_was_interrupted_runs_again_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path))
    file = ResultFile(tmp_path / "suites" / "own.jsonl", is_resumed=False)
    file.append([SuiteTestResult("scan:a", PASSED, 1.0), SuiteTestResult("scan:removed since", FAILED, 1.0)])
    suite = TwoPrograms("own", "mi300x", minutes=1, limit_s=1)

    first = run_suite(suite, None, is_resumed=True)
    second = run_suite(suite, None, is_resumed=True)

    assert (first["run"], first["passed"], first["failed"]) == (2, 2, 0)
    assert second == first
    assert suite.begun == ["scan", "sort"]


def test_tests_that_did_not_pass_run_again_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path))
    file = ResultFile(tmp_path / "suites" / "own.jsonl", is_resumed=False)
    file.append([SuiteTestResult("scan:a", PASSED, 1.0), SuiteTestResult("sort:a", OVER_LIMIT, 9.0)])
    for program in ("scan", "sort"):
        file.end(program)
    suite = TwoPrograms("own", "mi300x", minutes=1, limit_s=1)

    result = run_suite(suite, None, is_resumed=True, retries=True)

    assert suite.begun == ["sort"]
    assert (result["run"], result["passed"], result["not_passed"]) == (2, 2, [])


def test_a_second_run_of_a_suite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path))
    suite = TwoPrograms("own", "mi300x", minutes=1, limit_s=1)
    (tmp_path / "suites").mkdir()

    with (tmp_path / "suites" / "own.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(LabError, match="another process runs the suite own"):
            run_suite(suite, None, is_resumed=False)


def test_the_end_of_the_benchmark_ends_the_test_program(tmp_path: Path) -> None:
    script = tmp_path / "scan"
    script.write_text("#!/bin/sh\necho PASS $$\nexec sleep 600\n")
    script.chmod(0o755)
    code = (
        "import signal\nfrom pathlib import Path\nfrom benchmarks.rocm_suites import end_with_children\n"
        "from benchmarks.suites.output_lines import LineProgram\n"
        "signal.signal(signal.SIGTERM, end_with_children)\n"
        f"for result in LineProgram('scan', ['{script}'], Path('/'), 600).run(): print(result.name, flush=True)\n"
    )
    benchmark = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert benchmark.stdout is not None
    program = int(benchmark.stdout.readline().removeprefix("scan:"))

    benchmark.terminate()

    assert benchmark.wait(30) == 128 + signal.SIGTERM
    assert not Path(f"/proc/{program}").exists()


def test_rows_of_other_processes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "rocm_suites.json"
    path.write_text(json.dumps({"data": {"hipCUB": {"run": 21}}}))

    assert stored(path) == {"hipCUB": {"run": 21}}
    assert stored(tmp_path / "absent.json") == {}


def test_a_row_counts_tests() -> None:
    results = [
        SuiteTestResult("p:a", PASSED, 60.0),
        SuiteTestResult("p:b", FAILED, 30.0, "3 is not 4"),
        SuiteTestResult("p:c", OVER_LIMIT, 120.0),
    ]

    cells = row("rocPRIM", summary("mi250x", results))

    assert cells == ("rocPRIM", "mi250x", "3", "1", "0", "1", "1", "3.5 min")


def test_a_part_of_the_data_has_records_of_every_group(tmp_path: Path) -> None:
    def record(function: str, group: str, category: str, number: int) -> bytes:
        return b"".join(name.encode().ljust(64, b"\0") for name in (function, group, category)) + bytes([number])

    head = b"rocBLAS\0" + bytes(range(193)) + b"ROCblas\0"
    small = [record("gemm", "gemm_small", "quick", number) for number in range(9)]
    nightly, axpy = record("gemm", "gemm_large", "nightly", 20), record("axpy", "blas1", "quick", 30)
    (tmp_path / "all.data").write_bytes(head + b"".join([*small, nightly, axpy]))

    write_part(tmp_path / "all.data", tmp_path / "part.data", "quick", 3)

    part = (tmp_path / "part.data").read_bytes()
    kept = [part[first : first + 193] for first in range(len(head), len(part), 193)]
    assert part.startswith(head)
    assert kept[-1] == axpy
    assert len(kept) == 4
    assert set(kept[:3]) < set(small)


def test_data_of_another_layout_are_refused(tmp_path: Path) -> None:
    (tmp_path / "all.data").write_bytes(b"rocBLAS\0" + bytes(200))

    with pytest.raises(LabError, match="layout"):
        write_part(tmp_path / "all.data", tmp_path / "part.data", "quick", 3)

    assert not (tmp_path / "part.data").exists()


def test_suites_name_existing_programs_of_the_tests() -> None:
    programs = Path(__file__).with_name("runtime") / "programs"
    suites = load_suites()

    assert {suite.target for suite in suites} == {"mi300x", "mi250x"}
    assert sum(suite.minutes for suite in suites) <= 26  # the last process of each suite ends later
    for suite in suites:
        assert all((programs / f"{name}.hip").is_file() for name in suite.programs)
        assert not suite.script or (programs / suite.script).is_file()
