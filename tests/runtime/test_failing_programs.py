"""HIP programs that go wrong: AMD's runtime reports what it reports on a GPU, and no process is left behind."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.builders.processes import comes_true
from tests.builders.rocm_programs import RocmPrograms

pytestmark = pytest.mark.slow

_MEMORY_FAULT = "Memory access fault by GPU node-1"


def _processes_of(program: Path) -> list[int]:
    """Return the processes that execute a program."""
    found = []
    for link in Path("/proc").glob("[0-9]*/exe"):
        try:
            if link.readlink().name == program.name:
                found.append(int(link.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("access", ["store", "load", "null", "freed"])
def test_access_outside_of_memory_is_a_memory_fault(rocm_programs: RocmPrograms, access: str) -> None:
    process = rocm_programs.run([rocm_programs.compile("faults"), access])
    assert process.returncode == 128 + signal.SIGABRT
    assert _MEMORY_FAULT in process.stderr
    assert "store" in process.stderr.split(_MEMORY_FAULT)[0] or "load" in process.stderr.split(_MEMORY_FAULT)[0], (
        "our own message, with the instruction, comes first"
    )


@pytest.mark.parametrize("access", ["read_only", "protected"])
def test_store_to_memory_that_the_host_cannot_write_is_a_memory_fault(rocm_programs: RocmPrograms, access: str) -> None:
    process = rocm_programs.run([rocm_programs.compile("faults"), access], ["--xnack"])
    assert process.returncode == 128 + signal.SIGABRT
    assert _MEMORY_FAULT in process.stderr
    assert "of memory at" in process.stderr and "that the application may only read" in process.stderr.split(_MEMORY_FAULT)[0]
    assert "Write access to a read-only page" in process.stderr


def test_store_to_memory_that_the_host_made_writable_is_none(rocm_programs: RocmPrograms) -> None:
    process = rocm_programs.run([rocm_programs.compile("faults"), "writable"], ["--xnack"])
    assert (process.returncode, process.stdout) == (0, "status hipSuccess\n")


def test_memory_of_another_gpu_without_peer_access_is_a_memory_fault(rocm_programs: RocmPrograms) -> None:
    process = rocm_programs.run([rocm_programs.compile("faults"), "peer"], ["--gpus", "2"])
    assert process.returncode == 128 + signal.SIGABRT
    assert "Memory access fault by GPU node-2" in process.stderr


@pytest.mark.parametrize(
    ("cause", "status"), [("illegal", "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION"), ("trap", "HSA_STATUS_ERROR_EXCEPTION")]
)
def test_error_of_a_queue_is_reported_by_the_runtime(rocm_programs: RocmPrograms, cause: str, status: str) -> None:
    process = rocm_programs.run([rocm_programs.compile("faults"), cause])
    assert process.returncode == 128 + signal.SIGABRT
    assert status in process.stderr


def test_failing_assertion_is_printed_and_aborts(rocm_programs: RocmPrograms) -> None:
    process = rocm_programs.run([rocm_programs.compile("faults"), "assert"])
    assert process.returncode == 128 + signal.SIGABRT
    assert (process.stdout + process.stderr).count("Device-side assertion `n == 3' failed.") == 64


def test_assertion_that_holds_changes_nothing(rocm_programs: RocmPrograms) -> None:
    process = rocm_programs.run([rocm_programs.compile("faults"), "assert_holds"])
    assert (process.returncode, process.stdout) == (0, "status hipSuccess\n")


def test_kernel_that_never_ends_is_stopped_at_the_limit_of_time(rocm_programs: RocmPrograms) -> None:
    program = rocm_programs.compile("faults")
    process = rocm_programs.run([program, "endless"], ["--max-seconds", "2"])
    assert process.returncode == 128 + signal.SIGABRT
    assert "max_seconds = 2" in process.stderr and "HW Exception by GPU node-1" in process.stderr
    assert comes_true(lambda: not _processes_of(program), patience_s=60)


def test_kernel_that_never_ends_is_stopped_at_the_limit_of_instructions(rocm_programs: RocmPrograms) -> None:
    process = rocm_programs.run([rocm_programs.compile("faults"), "endless"], ["--max-instructions", "1000000"])
    assert process.returncode == 128 + signal.SIGABRT
    assert "1,000,000 wave instructions" in process.stderr and "HW Exception by GPU node-1" in process.stderr


# exit() is not among them: HIP's own clean-up waits for the kernel, on a GPU as well.
@pytest.mark.parametrize(
    ("end", "code"),
    [("_exit", 4), ("abort", 128 + signal.SIGABRT), ("kill", 128 + signal.SIGKILL), ("segfault", 128 + signal.SIGSEGV)],
)
def test_process_may_end_while_a_kernel_runs(rocm_programs: RocmPrograms, end: str, code: int) -> None:
    program = rocm_programs.compile("faults")
    process = rocm_programs.run([program, end])
    assert process.returncode == code
    assert process.stdout == "spinning\n"
    assert comes_true(lambda: not _processes_of(program), patience_s=60)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_behind_when_rocm_perf_is_interrupted(rocm_programs: RocmPrograms, sent: signal.Signals) -> None:
    program = rocm_programs.compile("faults")
    # The parent of the first process ends at once; that process is ended as well.
    command = rocm_programs.command(["/bin/sh", "-c", f"({program} endless &); exec {program} endless"])
    # Shells start background jobs, such as this test may be part of, with SIGINT ignored.
    with subprocess.Popen(
        command,
        cwd=program.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as running:
        try:
            assert comes_true(lambda: len(_processes_of(program)) >= 2, patience_s=60)
            running.send_signal(sent)
            assert running.wait(timeout=60) != 0
        finally:
            running.kill()
    assert comes_true(lambda: not _processes_of(program), patience_s=60)
