"""Work directories of captures: what remains after launchers that ended, were interrupted or were killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.replay.capture_work import CaptureWork, leftovers, settle

LAUNCHER = """
import sys, time
from pathlib import Path
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.replay.capture_work import CaptureWork
with CaptureWork(Path(sys.argv[1]), several=False) as work:
    print(work.path, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path / "cache"))


def put_capture(work: Path, name: str, *, sealed: bool = True, variables: dict[str, str] | None = None) -> None:
    _, pid, _ = name.split("-")
    environment = {"pid": int(pid), "variables": variables or {}}
    dispatch = {"kernel": {"mangled_name": "_Z5scalePfi"}, "index": {"kernel": 3}, "environment": environment}
    (work / name).mkdir()
    (work / name / "dispatch.json").write_text(json.dumps(dispatch))
    if sealed:
        (work / name / "manifest.json").write_text("{}")


def test_only_sealed_captures_are_kept(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    put_capture(work, "capture-1-0", sealed=False)
    put_capture(work, "capture-2-0")

    assert settle(work, tmp_path / "output", several=False) == [tmp_path / "output"]
    assert (tmp_path / "output" / "manifest.json").exists()
    assert not work.exists()


@pytest.mark.parametrize("several", [True, False], ids=["several kernels", "one kernel"])
@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ({"RANK": "1", "LOCAL_RANK": "0"}, {"RANK": "0", "LOCAL_RANK": "0"}, ["rank1", "rank0"]),
        ({"SLURM_PROCID": "7", "LOCAL_RANK": "0"}, {"SLURM_PROCID": "12", "LOCAL_RANK": "0"}, ["rank7", "rank12"]),
        (
            {"PMI_RANK": "2", "SLURM_PROCID": "0"},
            {"PMI_RANK": "3", "SLURM_PROCID": "0"},
            ["rank2", "rank3"],
        ),
        ({"RANK": "4"}, {"RANK": "4"}, ["pid41", "pid42"]),
        ({"RANK": "../1"}, {"RANK": "1"}, ["pid41", "pid42"]),
        ({}, {}, ["pid41", "pid42"]),
    ],
)
def test_captures_of_several_processes_are_named_by_rank_or_process(
    tmp_path: Path, first: dict[str, str], second: dict[str, str], names: list[str], *, several: bool
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    put_capture(work, "capture-41-0", variables=first)
    put_capture(work, "capture-42-0", variables=second)

    moved = settle(work, tmp_path / "output", several=several)

    assert [path.name for path in moved] == [f"_Z5scalePfi-3-{name}" for name in names]


def test_captures_of_one_process_are_named_by_kernel_and_dispatch(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    put_capture(work, "capture-41-0", variables={"RANK": "1"})

    assert [path.name for path in settle(work, tmp_path / "output", several=True)] == ["_Z5scalePfi-3"]


@pytest.mark.parametrize("several", [False, True])
def test_captures_that_end_at_once_with_one_output_are_both_kept(tmp_path: Path, several: bool) -> None:
    moved = []
    for number in range(2):
        work = tmp_path / f"work{number}"
        work.mkdir()
        put_capture(work, "capture-1-0")
        moved += settle(work, tmp_path / "output", several=several)
        assert not work.exists()

    assert [path.relative_to(tmp_path).parts[0] for path in moved] == ["output", "output-1"]
    assert all((path / "manifest.json").exists() for path in moved)


def test_an_interrupted_launcher_keeps_the_sealed_capture(tmp_path: Path) -> None:
    def interrupted() -> None:
        with CaptureWork(tmp_path / "output", several=False, on_kept=kept.append) as work:
            places.append(work.path)
            put_capture(work.path, "capture-1-0")
            (tmp_path / "output").mkdir()  # of another capture
            raise KeyboardInterrupt

    places: list[Path] = []
    kept: list[Path] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert kept == [tmp_path / "output-1"]
    assert (tmp_path / "output-1" / "manifest.json").exists()
    assert not places[0].exists()
    assert leftovers() == []


@pytest.mark.parametrize("sealed", [True, False])
def test_the_guard_cleans_up_after_a_killed_launcher(tmp_path: Path, sealed: bool) -> None:
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path / "output")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        work = Path(launcher.stdout.readline().strip())
        put_capture(work, "capture-1-0", sealed=sealed)
        launcher.kill()

    deadline = time.monotonic() + 20
    while work.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not work.exists()
    assert (tmp_path / "output" / "manifest.json").exists() == sealed


def test_doctor_lists_and_removes_what_a_crash_of_the_machine_left(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from rocm_perf_lab.replay.capture_work import CaptureWork; "
    script += "print(CaptureWork(Path(sys.argv[1]), several=False).path)"  # no guard, and nothing removes it
    crashed = subprocess.run([sys.executable, "-c", script, tmp_path / "output"], capture_output=True, text=True, check=True)
    work = Path(crashed.stdout.strip())
    put_capture(work, "capture-1-0")
    doctor = [str(Path(sys.executable).with_name("rocm-perf")), "doctor"]
    environment = os.environ | {"COLUMNS": "300"}

    listed = subprocess.run(doctor, capture_output=True, text=True, check=False, env=environment)
    removed = subprocess.run([*doctor, "--remove-leftovers"], capture_output=True, text=True, check=False, env=environment)

    assert str(work) in listed.stdout
    assert f"removed  {work}" in removed.stdout
    assert not work.exists()
    assert (tmp_path / "output" / "manifest.json").exists()


def test_the_work_of_a_running_launcher_is_no_leftover(tmp_path: Path) -> None:
    with CaptureWork(tmp_path / "output", several=False):
        assert len(list((tmp_path / "cache" / "capture-work").iterdir())) == 1
        assert leftovers() == []


def test_an_output_that_cannot_be_created_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(LabError, match="the output cannot be created: ") as failure:
        CaptureWork(tmp_path / "file" / "output", several=False)

    assert failure.value.where == str(tmp_path / "file")
