"""`rocm-perf run --check`: each planted defect of a kernel is found at its line, and correct programs have no findings."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.runtime.findings import CHECKS, parse_run_checks
from tests.builders.program_cases import program_cases
from tests.builders.rocm_programs import RocmPrograms

_CHECKS = Path(__file__).parent / "checks"
_DEFECTIVE = sorted((_CHECKS / "defective").glob("*.hip"))
_CORRECT = sorted((_CHECKS / "correct").glob("*.hip"))
_MARK = re.compile(r"// DEFECT (\w+)$")
_DEVICE_CHECKS = "races,bounds,uninitialised,barriers,misaligned"

_IN_SLOW_SUITE = (
    "counter_without_look", "divergent_barrier", "flag_without_fence", "lds_past_end", "uninitialised_tail", "use_after_free",
    "last_workgroup_resets", "look_back_scan", "printf_and_heap", "reused_memory", "spin_lock", "struct_padding",
)  # fmt: skip
"""One program of each kind."""


def _checked(programs: RocmPrograms, source: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = programs.compile_file(source, _CHECKS / "program.h", _CHECKS)
    return programs.run([program], ["--check", _DEVICE_CHECKS, *options])


@pytest.mark.parametrize("source", program_cases(_DEFECTIVE, _IN_SLOW_SUITE))
def test_a_planted_defect_is_found_at_its_line(rocm_programs: RocmPrograms, source: Path) -> None:
    marks = {
        (mark[1], number)
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), start=1)
        if (mark := _MARK.search(line))
    }
    process = _checked(rocm_programs, source, "--json")
    assert process.returncode == 1, process.stderr
    findings = json.loads(process.stdout)["findings"]
    found = {(one["kind"], int(one["source"].rpartition(":")[2])) for one in findings}
    assert found, process.stderr
    assert found <= marks, process.stderr
    assert {kind for kind, _ in found} == {kind for kind, _ in marks}


@pytest.mark.parametrize("source", program_cases(_CORRECT, _IN_SLOW_SUITE))
def test_a_correct_program_has_no_findings(rocm_programs: RocmPrograms, source: Path) -> None:
    process = _checked(rocm_programs, source)
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.endswith("right\n")


def test_names_of_checks() -> None:
    assert parse_run_checks("none") == 0
    assert parse_run_checks("all") == sum(CHECKS.values())
    assert parse_run_checks("races, bounds") == CHECKS["races"] | CHECKS["bounds"]


def test_an_unknown_check_names_those_that_exist() -> None:
    with pytest.raises(LabError) as error:
        parse_run_checks("race")
    assert "races" in (error.value.hint or "")
