"""HIP programs on rocm-perf-lab's own runtime: they pass the checks that AMD's runtime passes, and faults end them alike."""

import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from rocm_perf_lab.runtime.hip_build import LIBRARY_NAMES, build_hip_runtime
from tests.builders.rocm_programs import SOURCES, CheckResults, checks_of

pytestmark = pytest.mark.slow

_GPUS = {"memory": (), "execution": (), "graph_memory": (), "generic_nodes": (), "processes": (), "peers": ("--gpus", "2")}


def _run(program: str, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    rocm_perf = Path(sys.executable).with_name("rocm-perf")
    source = SOURCES / f"{program}.hip"
    command = [str(rocm_perf), "run", "--runtime", "lab", *options, str(source), "--", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@cache
def _results(program: str) -> CheckResults:
    return CheckResults.of(_run(program, options=_GPUS[program]))


@pytest.mark.parametrize("program", _GPUS)
def test_every_check_passes_without_rocm(program: str) -> None:
    results = _results(program)
    for check in checks_of(program):
        if check not in ("use", "open_memory", "open_event", "import_pool"):  # of the processes that the program starts
            results.require(check)


def test_device_printf_arrives_on_standard_output() -> None:
    assert _results("execution").process.stdout.count("device says 5.2 hello 0.25\n") == 2


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        ("store", "Memory access fault by GPU node-1"),
        ("illegal", "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"),
        ("trap", "HSA_STATUS_ERROR_EXCEPTION"),
        ("host_pointer", "in host memory, which the GPU cannot access"),
    ],
)
def test_a_kernel_that_fails_ends_the_program_as_in_amds_runtime(cause: str, message: str) -> None:
    process = _run("faults", cause)
    assert process.returncode == 128 + signal.SIGABRT
    assert message in process.stderr


def test_the_runtime_has_the_names_of_amds_libraries() -> None:
    directory = build_hip_runtime()
    assert {path.name for path in directory.iterdir()} == set(LIBRARY_NAMES)
    assert len({path.resolve() for path in directory.iterdir()}) == 1
