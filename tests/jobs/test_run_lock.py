"""Lock of a run's directory between processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.jobs.run_lock import LOCK_FILE, RunDirectoryInUse, hold_run_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD = (
    "import sys, time; from pathlib import Path; from rocm_perf_lab.jobs.run_lock import hold_run_directory; "
    "lock = hold_run_directory(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_and_told_the_first(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(
        RunDirectoryInUse, match=rf"another process is working in this directory: process {holder.pid} \(-c"
    ) as error:
        hold_run_directory(tmp_path)

    assert error.value.where == str(tmp_path)


def test_a_killed_process_leaves_no_lock(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    holder.kill()
    holder.wait()

    assert hold_run_directory(tmp_path).handle is not None
    assert json.loads((tmp_path / LOCK_FILE).read_text())["pid"] == os.getpid()


def test_the_same_process_may_enter_again_and_release(tmp_path: Path) -> None:
    first = hold_run_directory(tmp_path / "new")
    assert hold_run_directory(tmp_path / "new").handle is None

    first.release()

    assert hold_run_directory(tmp_path / "new").handle is not None


@pytest.mark.parametrize("command", ["verify", "optimize"])
def test_commands_end_with_code_2(command: str, holder: subprocess.Popen[str], tmp_path: Path) -> None:
    candidate = tmp_path / "c.hip"
    candidate.write_text("// none")
    words = [f"job={command}", "kernel=vector_add", f"hydra.run.dir={tmp_path}"]
    words += [f"job.candidates=[{candidate}]"] if command == "verify" else []

    ended = subprocess.run([sys.executable, "-m", "rocm_perf_lab", *words], capture_output=True, text=True, check=False)

    assert ended.returncode == 2, ended.stderr
    assert f"process {holder.pid}" in ended.stderr
