"""Processes of `rocm-perf run`: exit codes, signals, children, and what remains after each end. ROCm is not needed."""

from __future__ import annotations

import os
import platform
import pty
import select
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.core.resources import cache_dir
from rocm_perf_lab.runtime.driver_build import build_driver
from rocm_perf_lab.runtime.hip_build import build_hip_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROCM_PERF = str(Path(sys.executable).with_name("rocm-perf"))
SECONDS = 60.0
COUNTS_INTERRUPTS = """
import signal, sys, time
count = 0
def interrupted(*_):
    global count
    count += 1
    print("interrupt", count, flush=True)
signal.signal(signal.SIGINT, interrupted)
print("ready", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.05)
"""
ENDS_AFTER_SIGTERM = """
import signal, sys, time
def terminated(*_):
    print("terminated", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, terminated)
print("ready", flush=True)
time.sleep(60)
"""
DEEP_TREE = """
import os, sys, time
for level in range(6):
    if os.fork():
        break
    os.setsid()
    os.closerange(0, 1)
else:
    level = 6
if level == 0:
    while len(os.listdir(sys.argv[1])) < 6:
        time.sleep(0.01)
    print("ready", flush=True)
    if sys.argv[2] == "exit":
        sys.exit(3)
else:
    open(f"{sys.argv[1]}/{level}", "w").close()
time.sleep(60)
"""


def interruptible() -> None:
    """Undo what a shell does for background commands, such as these tests may be."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True)
class Runs:
    """Starts `rocm-perf run` with a separate directory for sessions."""

    sessions: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "ROCM_PERF_LAB_SESSIONS": str(self.sessions), "ROCM_PERF_LAB_CACHE": str(cache_dir())}

    def command(self, command: Sequence[str], *options: str) -> list[str]:
        return [ROCM_PERF, "run", *options, "--", *command]

    def run(self, command: Sequence[str], *options: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(command, *options),
            input=text,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            start_new_session=True,
        )

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """Start an application, and wait for its first line, `ready`."""
        process = subprocess.Popen(
            self.command(command),
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=interruptible,  # noqa: PLW1509  # there is one thread
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def directories(self) -> list[Path]:
        return sorted(self.sessions.glob("run-*"))

    def processes(self) -> dict[int, int]:
        """Parents of the processes with a session of these runs in their environment, by process."""
        found = {}
        marker = f"{self.sessions}/".encode()
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if marker in (directory / "environ").read_bytes():
                    state, parent = (directory / "stat").read_bytes().rpartition(b")")[2].split()[:2]
                    if state != b"Z":
                        found[int(directory.name)] = int(parent)
            except OSError:
                continue
        return found


@pytest.fixture(scope="module", autouse=True)
def _built_libraries() -> None:
    """Build what applications are given, so that no line about it is on standard error."""
    build_driver()
    build_hip_runtime()


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    directory = tmp_path / "s"
    directory.mkdir(mode=0o700)
    return Runs(directory)


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SECONDS / 2
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def guardian_of(process: subprocess.Popen[str]) -> int:
    """The child of `rocm-perf run` that is the parent of the application."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    with_children = [int(c) for c in children if Path(f"/proc/{c}/task/{c}/children").read_text().strip()]
    assert len(with_children) == 1
    return with_children[0]


def application_of(process: subprocess.Popen[str]) -> int:
    guardian = guardian_of(process)
    return int(Path(f"/proc/{guardian}/task/{guardian}/children").read_text().split()[0])


def test_streams_and_exit_code_are_those_of_the_application(runs: Runs) -> None:
    ended = runs.run(["sh", "-c", "cat; echo error >&2; exit 7"], text="input\n")

    assert (ended.returncode, ended.stdout) == (7, "input\n")
    assert ended.stderr.startswith("error\n")
    assert runs.directories() == []


def test_verbose_describes_the_machine_on_standard_error(runs: Runs) -> None:
    ended = runs.run(["true"], "--verbose", "--target", "mi250x", "--gpus", "2", "--threads", "3")

    assert (ended.returncode, ended.stdout) == (0, "")
    assert "emulating 2 x AMD Instinct MI250X" in ended.stderr
    assert "(gfx90a) with 3 threads" in ended.stderr


def test_an_application_sees_the_emulated_machine(runs: Runs) -> None:
    program = """
import os, pathlib
os.close(os.open("/dev/kfd", os.O_RDWR))
nodes = pathlib.Path("/sys/class/kfd/kfd/topology/nodes")
print(sorted(path.name for path in nodes.iterdir()))
print([line for line in (nodes / "2" / "properties").read_text().splitlines() if line.startswith("simd_count")])
print(os.path.exists("/dev/dri/renderD129"), pathlib.Path("/sys/module/amdgpu/initstate").read_text().strip())
"""
    ended = runs.run(python(program), "--gpus", "2")

    assert ended.stdout == "['0', '1', '2']\n['simd_count 1216']\nTrue live\n"
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_application_that_opens_no_gpu_is_reported(runs: Runs) -> None:
    assert "did not open /dev/kfd" in runs.run(["true"]).stderr


def static_program() -> bytes:
    """A statically linked program for x86-64 that ends with exit code 4."""
    code = bytes.fromhex("bf04000000 b83c000000 0f05")  # mov edi, 4; mov eax, 60; syscall
    base, header, segment = 0x400000, 64, 56
    size = header + segment + len(code)
    elf = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, base + header + segment, header, 0, 0, header, segment, 1, 0, 0, 0
    )
    return elf + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000) + code


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the program is for x86-64")
def test_a_static_program_is_reported(runs: Runs, tmp_path: Path) -> None:
    program = tmp_path / "p"
    program.write_bytes(static_program())
    program.chmod(0o755)

    ended = runs.run([str(program)])

    assert ended.returncode == 4
    assert "did not load the driver" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_a_signal_that_ends_the_application_becomes_the_exit_code(runs: Runs, number: signal.Signals) -> None:
    assert runs.run(["sh", "-c", f"kill -{int(number)} $$"]).returncode == 128 + number
    assert runs.directories() == []


def test_sigterm_reaches_the_application(runs: Runs) -> None:
    process = runs.start(python(ENDS_AFTER_SIGTERM))

    process.terminate()
    rest, _ = process.communicate(timeout=SECONDS)

    assert (process.returncode, rest) == (5, "terminated\n")
    assert (runs.directories(), runs.processes()) == ([], {})


def test_an_interrupt_without_terminal_reaches_the_application_once_and_a_second_one_kills(runs: Runs) -> None:
    process = runs.start(python(COUNTS_INTERRUPTS))
    assert process.stdout is not None

    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "interrupt 1\n"
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=SECONDS)

    assert (process.returncode, rest) == (137, "")
    assert (runs.directories(), runs.processes()) == ([], {})


def test_the_terminal_belongs_to_the_application(runs: Runs) -> None:
    """Typed text is read, Ctrl-C arrives once, and a second one kills."""
    pid, terminal = pty.fork()
    if pid == 0:
        interruptible()
        program = COUNTS_INTERRUPTS.replace('print("ready"', 'print("read", input(), flush=True); print("ready"')
        os.execve(ROCM_PERF, runs.command(python(program)), runs.environment)
    os.write(terminal, b"typed\n")
    seen = read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    seen += read_until(terminal, b"interrupt 1")
    time.sleep(0.5)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(pid, 0)

    assert b"read typed" in seen
    assert os.WEXITSTATUS(status) == 137
    assert b"interrupt 2" not in seen
    assert (runs.directories(), runs.processes()) == ([], {})


def read_until(terminal: int, text: bytes) -> bytes:
    seen = b""
    deadline = time.monotonic() + SECONDS
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, seen
        seen += os.read(terminal, 4096)
    return seen


def test_children_that_outlive_the_application_are_ended(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "levels").mkdir()

    ended = runs.run(python(DEEP_TREE, str(tmp_path / "levels"), "exit"))

    assert (ended.returncode, ended.stdout) == (3, "ready\n")
    assert "terminated 6 processes that outlived the application" in ended.stderr
    assert (runs.directories(), runs.processes()) == ([], {})


def test_a_child_that_ends_soon_is_not_disturbed(runs: Runs, tmp_path: Path) -> None:
    ended = runs.run(["sh", "-c", f"(sleep 0.3; echo written > {tmp_path}/file) & exit 0"])

    assert (tmp_path / "file").read_text() == "written\n"
    assert "outlived" not in ended.stderr


@pytest.mark.parametrize("victim", ["run", "guardian", "application"])
def test_nothing_remains_after_a_kill(runs: Runs, tmp_path: Path, victim: str) -> None:
    (tmp_path / "levels").mkdir()
    process = runs.start(python(DEEP_TREE, str(tmp_path / "levels"), "wait"))
    assert len(runs.processes()) == 7
    victims = {"run": process.pid, "guardian": guardian_of(process), "application": application_of(process)}

    os.kill(victims[victim], signal.SIGKILL)
    process.communicate(timeout=SECONDS)

    assert process.returncode == (-signal.SIGKILL if victim == "run" else 137)
    assert eventually(lambda: runs.processes() == {})
    assert eventually(lambda: runs.directories() == [])


def test_nothing_remains_after_a_kill_while_children_are_being_ended(runs: Runs) -> None:
    process = runs.start(["sh", "-c", "trap '' TERM; sleep 50 & echo ready"])
    assert eventually(lambda: len(runs.processes()) == 1)

    process.kill()
    process.communicate(timeout=SECONDS)

    assert eventually(lambda: runs.processes() == {})
    assert eventually(lambda: runs.directories() == [])


def test_the_next_run_removes_the_session_of_a_killed_one(runs: Runs) -> None:
    process = runs.start(python(COUNTS_INTERRUPTS))
    guardian = guardian_of(process)
    os.kill(process.pid, signal.SIGSTOP)  # else it would remove the session itself
    os.kill(guardian, signal.SIGKILL)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=SECONDS)
    assert len(runs.directories()) == 1

    seen = runs.run(["sh", "-c", "ls -d $(dirname $RPL_SESSION)/run-* | wc -l"])

    assert seen.stdout == "1\n"
    assert runs.directories() == []


def test_two_runs_at_once_have_separate_sessions(runs: Runs) -> None:
    first = runs.start(python(ENDS_AFTER_SIGTERM))
    second = runs.start(python(ENDS_AFTER_SIGTERM))

    directories = runs.directories()
    first.terminate()
    first.communicate(timeout=SECONDS)

    assert len(directories) == 2
    assert len(runs.directories()) == 1
    second.terminate()
    second.communicate(timeout=SECONDS)
    assert (first.returncode, second.returncode) == (5, 5)


def test_a_program_that_cannot_be_executed_is_an_error(runs: Runs, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF broken")
    program.chmod(0o755)

    ended = runs.run([str(program)])

    assert ended.returncode == 2
    assert "error: the file is not a program" in ended.stderr
    assert (ended.stdout, runs.directories()) == ("", [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such/program"], "does not exist"),
        (["--target", "mi999", "--", "true"], "unknown target"),
        (["--gpus", "17", "--", "true"], "17 is not in the range"),
        (["--root", "/no/such/root", "--", "true"], "does not exist"),
        ([], "Missing argument"),
    ],
)
def test_bad_input_is_one_error(runs: Runs, arguments: list[str], message: str) -> None:
    ended = subprocess.run([ROCM_PERF, "run", *arguments], env=runs.environment, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr


def test_a_user_without_home_directory_can_run_applications(runs: Runs) -> None:
    ended = runs.run(["sh", "-c", "echo $LD_PRELOAD"], HOME="/dev/null", XDG_RUNTIME_DIR="/dev/null/run")

    assert ended.returncode == 0
    assert ended.stdout.endswith(".so\n")


def test_a_session_directory_with_a_long_path_is_refused(runs: Runs, tmp_path: Path) -> None:
    ended = runs.run(["true"], ROCM_PERF_LAB_SESSIONS=str(tmp_path / ("x" * 90)))

    assert ended.returncode == 2
    assert "too long for a socket" in ended.stderr


def test_a_preloaded_library_is_kept(runs: Runs) -> None:
    ended = runs.run(["sh", "-c", "echo $LD_PRELOAD"], LD_PRELOAD="libc.so.6")

    assert ended.stdout.endswith(".so:libc.so.6\n")


def test_shared_memory_of_the_runtime_is_removed_and_that_of_the_application_kept(runs: Runs) -> None:
    names = (f"hip_event-test-{os.getpid()}", f"application-test-{os.getpid()}")
    program = f"""
import ctypes, os
for name in {names!r}:
    assert ctypes.CDLL(None).shm_open(b"/" + name.encode(), os.O_CREAT | os.O_RDWR, 0o600) >= 0
os.kill(os.getpid(), 9)
"""
    try:
        ended = runs.run(python(program))
        kept = [name for name in names if Path("/dev/shm", name).exists()]
    finally:
        Path("/dev/shm", names[1]).unlink(missing_ok=True)

    assert ended.returncode == 137
    assert kept == [names[1]]
