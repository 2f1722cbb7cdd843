"""Exit codes: 0 success, 1 the answer is no, 2 bad input or environment, 3 internal error, 128 + signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.cli.exit_codes import exit_code_of
from rocm_perf_lab.core.errors import LabError, NegativeResult
from rocm_perf_lab.jobs.lab import Lab

COMMAND = Path(sys.executable).with_name("rocm-perf")


def raising(error: BaseException) -> int:
    def action() -> None:
        raise error

    return exit_code_of(action)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NegativeResult("a check found a defect"), 1),
        (LabError("no such file"), 2),
        (OSError(28, "No space left on device"), 2),
        (PermissionError(13, "Permission denied"), 3),
        (KeyError("name"), 3),
        (RuntimeError(), 3),
        (KeyboardInterrupt(), 130),
        (SystemExit(), 0),
        (SystemExit(4), 4),
        (SystemExit("a message"), 2),
    ],
)
def test_an_exception_has_an_exit_code(error: BaseException, code: int) -> None:
    assert raising(error) == code


def test_a_full_disk_during_a_run_names_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Lab) -> float:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Lab, "run", fail)

    code = run_lab(["job=profile", "kernel=vector_add", "device=emulator", f"hydra.run.dir={tmp_path / 'run'}"])

    shown = capsys.readouterr()
    assert code == 2
    assert shown.err.splitlines()[:2] == [
        "error: cannot write the run's directory: No space left on device",
        f"   at: {tmp_path / 'run'}",
    ]
    assert "Error executing job" not in shown.out + shown.err


def test_a_successful_command_exits_with_0() -> None:
    assert exit_code_of(lambda: None) == 0


def test_sigterm_exits_with_143(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(lambda: os.kill(os.getpid(), signal.SIGTERM)) == 143
    assert capsys.readouterr().err == "terminated by signal 15; completed work is kept\n"


def test_an_internal_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    raising(ValueError("two\nlines"))

    assert capsys.readouterr().err == "internal error: ValueError: two lines, run with --debug for the traceback\n"


@pytest.mark.parametrize(("error", "code"), [(ValueError("text"), 3), (LabError("text"), 2)])
def test_debug_adds_the_traceback_and_keeps_the_exit_code(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def action() -> None:
        raise error

    assert exit_code_of(action, debug=True) == code
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "in action" in said
    assert said.splitlines()[-1].endswith("error: text" if code == 2 else "error: ValueError: text")


def test_an_error_has_aligned_labels(capsys: pytest.CaptureFixture[str]) -> None:
    raising(LabError("[what] failed", where="first place\nsecond place", hint="do this"))

    assert capsys.readouterr().err.splitlines() == [
        "error: [what] failed",
        "   at: first place",
        "       second place",
        " hint: do this",
    ]


def test_a_job_of_hydra_that_fails_unexpectedly_exits_with_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_job.py").write_text("class Broken:\n    def run(self, lab):\n        raise KeyError('missing')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    assert run_lab(["job._target_=broken_job.Broken", "tracking=none"]) == 3
    assert capsys.readouterr().err.splitlines()[-1].startswith("internal error: KeyError: 'missing'")


def test_a_closed_pipe_is_no_internal_error() -> None:
    script = f"{COMMAND} metrics list --json | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}"

    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)

    assert run.stderr == ""
    assert run.stdout.strip() in ("0", "141")


def test_the_module_prints_the_version_of_this_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_lab(["--version"]) == 0
    assert capsys.readouterr().out == "rocm-perf-lab 0.1.0\n"
