"""HIP programs on AMD's own runtime: each check of each program passes on the emulated GPU."""

from functools import cache

import pytest

from tests.builders.rocm_programs import CheckResults, RocmPrograms, checks_of

pytestmark = pytest.mark.slow

_GPUS = {"memory": (), "execution": (), "graph_memory": (), "processes": (), "peers": ("--gpus", "2")}
_CHECKS = [(program, check) for program in _GPUS for check in checks_of(program)]


@cache
def _results(programs: RocmPrograms, program: str, *checks: str) -> CheckResults:
    return CheckResults.of(programs.run([programs.compile(program), *checks], _GPUS[program]))


@pytest.mark.parametrize(("program", "check"), _CHECKS)
def test_check_of_a_hip_program_passes(rocm_programs: RocmPrograms, program: str, check: str) -> None:
    # A child of a process that has used the device cannot use it: HIP keeps its state over fork().
    checks = (check,) if program == "processes" else ()
    _results(rocm_programs, program, *checks).require(check)


def test_device_printf_arrives_on_standard_output(rocm_programs: RocmPrograms) -> None:
    output = _results(rocm_programs, "execution").process.stdout
    assert output.count("device says 5.2 hello 0.25\n") == 2


def test_workgroups_meet_through_global_wave_sync(rocm_programs: RocmPrograms) -> None:
    program = rocm_programs.compile("execution")
    CheckResults.of(rocm_programs.run([program, "cooperative"], ["--target", "mi250x"])).require("cooperative")


def test_two_processes_at_once(rocm_programs: RocmPrograms) -> None:
    program = rocm_programs.compile("memory")
    both = f"{program} managed symbols & {program} managed symbols; first=$?; wait $! && exit $first"
    process = rocm_programs.run(["/bin/sh", "-c", both])
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("PASS symbols") == 2
