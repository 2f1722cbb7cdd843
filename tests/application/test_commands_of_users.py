"""Commands as users have them: misspelt, crashing, ended from outside, run again into the same directory."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.cli.exit_codes import exit_code_of
from rocm_perf_lab.device.process_group import how_it_ended
from tests.builders.processes import PATIENCE_S, comes_true, ends

if TYPE_CHECKING:
    from tests.builders.workplace import Workplace

REPOSITORY = Path(__file__).parents[2]
FAST = ("--no-roofline", "--output", "run")


def _restore_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("word", "what", "hint"),
    [
        ("./nothing", "program ./nothing does not exist", "check the path"),
        ("no-such-program", "program no-such-program is not on PATH", "check its name"),
        ("notes.txt", "program notes.txt is not on PATH", "write ./notes.txt"),
        ("./notes.txt", "./notes.txt is not executable", "chmod +x ./notes.txt"),
        ("./bin", "./bin is a directory", "name a program in it"),
    ],
)
@pytest.mark.parametrize("without", [(), ("--no-rocprof",)], ids=["rocprofv3", "wall clock"])
def test_what_is_no_program_is_told_before_the_profiler_is_asked(
    workplace: Workplace, word: str, what: str, hint: str, without: tuple[str, ...]
) -> None:
    (workplace.directory / "notes.txt").write_text("no program")

    answer = workplace.rocm_perf("profile", *without, *FAST, word)

    assert answer.exit_code == 2
    assert what in answer.stderr
    assert hint in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (3, "ended with exit code 3"),
        (-11, "was terminated by signal 11, SIGSEGV (Segmentation fault)"),
        (139, "ended with exit code 139, which a shell returns for signal 11, SIGSEGV (Segmentation fault)"),
        (255, "ended with exit code 255"),
        (128, "ended with exit code 128"),
    ],
)
def test_how_a_command_ended_in_words(code: int, text: str) -> None:
    assert how_it_ended(code) == text


def test_a_permission_error_of_the_application_is_not_attributed_to_counters(workplace: Workplace) -> None:
    workplace.application('sys.exit("data.bin: Permission denied")')

    answer = workplace.rocm_perf("profile", *FAST, "./app")

    assert answer.exit_code == 2
    assert "ended with exit code 1" in answer.stderr
    assert "perf_event_paranoid" not in answer.stderr


def test_a_crash_is_named_by_its_signal(workplace: Workplace) -> None:
    workplace.application("import os; os.kill(os.getpid(), 11)")

    answer = workplace.rocm_perf("profile", "--no-rocprof", *FAST, "./app")

    assert answer.exit_code == 2
    assert "SIGSEGV" in answer.stderr


def test_results_of_an_earlier_run_in_the_directory_are_removed(workplace: Workplace) -> None:
    workplace.application('launch("vector_add", n=4096)')
    assert workplace.rocm_perf("profile", *FAST, "./app").exit_code == 0
    for name in ("notes.md", "roofline.png", "roofline.html", "att/code.json", ".rocpd_profile/counters_1/run_results.db"):
        path = workplace.directory / "run" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("of an earlier run, or by hand")

    again = workplace.rocm_perf("profile", *FAST, "./app")

    left = {path.name for path in (workplace.directory / "run").iterdir()}
    assert again.exit_code == 0
    assert {"profile.json", "notes.md"} <= left
    assert not {"att", "roofline.png", "roofline.html"} & left
    assert [path.name for path in (workplace.directory / "run" / ".rocpd_profile").iterdir() if path.is_dir()] == ["trace"]


def test_a_failed_run_leaves_no_profile_of_an_earlier_one(workplace: Workplace) -> None:
    workplace.application('launch("vector_add", n=4096)')
    assert workplace.rocm_perf("profile", *FAST, "./app").exit_code == 0
    workplace.application("sys.exit(3)")

    assert workplace.rocm_perf("profile", *FAST, "./app").exit_code == 2
    assert not (workplace.directory / "run" / "profile.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("without", [(), ("--no-rocprof",)], ids=["rocprofv3", "wall clock"])
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_terminates_the_application_and_its_children(
    workplace: Workplace, sign: signal.Signals, code: int, without: tuple[str, ...]
) -> None:
    workplace.application(
        'import subprocess; child = subprocess.Popen(["sleep", "300"]); open("child.part", "w").write(str(child.pid)); '
        'os.rename("child.part", "child"); child.wait()'
    )
    command = [sys.executable, "-c", "from rocm_perf_lab.cli import main; main()", "profile", *without, *FAST, "./app"]
    # Background jobs of a shell ignore SIGINT, and commands under nohup ignore SIGHUP; children inherit that.
    lab = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        preexec_fn=_restore_signals,  # noqa: PLW1509 - no threads here
    )
    child = workplace.directory / "child"
    assert comes_true(child.exists)

    lab.send_signal(sign)
    _, said = lab.communicate(timeout=PATIENCE_S)

    assert lab.returncode == code
    assert b"completed work is kept" in said
    assert b"Traceback" not in said
    assert ends(int(child.read_text()))
    assert not (workplace.directory / "run" / "profile.json").exists()


def test_a_full_disk_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "run/x")

    assert exit_code_of(fail) == 2
    assert "cannot write: No space left on device" in capsys.readouterr().err


def test_any_other_error_of_the_system_is_an_internal_error(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    assert exit_code_of(fail) == 3
    assert "internal error: OSError: [Errno 9] Bad file descriptor" in capsys.readouterr().err


READS = """
text = sys.stdin.read()
open("seen", "a").write(f"{text!r} ")
if "STAND_IN_DISPATCHES" in os.environ: launch("vector_add", n=4096)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "through"),
    [(("--runs", "2"), "pipe"), (("--no-rocprof", "--runs", "2"), "pipe"), (("--no-rocprof", "--runs", "2"), "file")],
    ids=["rocprofv3", "wall clock", "wall clock, file"],
)
def test_every_run_of_an_application_reads_the_same_input(workplace: Workplace, words: tuple[str, ...], through: str) -> None:
    workplace.application(READS)
    (workplace.directory / "input").write_text("skipped\n4096\n")
    lab = shlex.join([sys.executable, "-c", "from rocm_perf_lab.cli import main; main()", "profile", *words, *FAST, "./app"])
    feed = f"echo 4096 | (sleep 0.2; {lab})" if through == "pipe" else f"(read line; exec {lab}) < input"

    done = subprocess.run(
        ["bash", "-c", feed], env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert (workplace.directory / "seen").read_text() == "'4096\\n' '4096\\n' "


def test_an_idle_pipe_is_not_waited_for(workplace: Workplace) -> None:
    workplace.application("pass")
    command = [sys.executable, "-c", "from rocm_perf_lab.cli import main; main()", "profile", "--no-rocprof", *FAST, "./app"]
    lab = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, stdin=subprocess.PIPE)

    assert lab.wait(PATIENCE_S) == 0


def test_endless_input_is_rejected(workplace: Workplace) -> None:
    workplace.application("pass")
    lab = shlex.join(
        [sys.executable, "-c", "from rocm_perf_lab.cli import main; main()", "profile", "--no-rocprof", *FAST, "./app"]
    )

    done = subprocess.run(
        ["bash", "-c", f"yes | {lab}"],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "more than 256 MiB" in done.stderr
