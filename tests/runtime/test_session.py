"""Directories of sessions: private, short enough for a socket, and removed."""

from __future__ import annotations

import socket
import stat
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.runtime.session import SessionError, open_session, sessions_dir
from rocm_perf_lab.runtime.topology import FileTree

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    directory = tmp_path / "s"
    directory.mkdir(mode=0o700)
    return directory


def test_a_session_is_private_and_removed_after_an_error(parent: Path) -> None:
    def fail_inside() -> None:
        with open_session(parent) as session:
            assert stat.S_IMODE(session.directory.stat().st_mode) == 0o700
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail_inside()

    assert list(parent.glob("run-*")) == []


def test_settings_files_and_links_are_written(parent: Path) -> None:
    tree = FileTree({"sys/devices/gpu/device": "0x74a1\n"}, {"sys/class/gpu0": "../devices/gpu"})
    with open_session(parent) as session:
        session.write({"gpu_count": 1, "gpu.0.name": "AMD Instinct MI300X"}, [tree])

        assert (session.directory / "settings").read_text() == "gpu_count 1\ngpu.0.name AMD Instinct MI300X\n"
        assert (session.system / "class" / "gpu0" / "device").read_text() == "0x74a1\n"


def test_the_driver_comes_before_other_preloaded_libraries(parent: Path) -> None:
    with open_session(parent) as session:
        alone = session.variables(parent / "driver.so", {})
        other = session.variables(parent / "driver.so", {"LD_PRELOAD": "/lib/malloc.so"})

        assert alone == {"LD_PRELOAD": f"{parent}/driver.so", "RPL_SESSION": str(session.directory)}
        assert other["LD_PRELOAD"] == f"{parent}/driver.so:/lib/malloc.so"


def test_open_sessions_are_kept_and_leftovers_removed(parent: Path) -> None:
    leftover = parent / "run-000000000000"
    leftover.mkdir()
    (leftover / "settings").write_text("")
    with open_session(parent) as first, open_session(parent) as second:
        assert first.directory.is_dir()
        assert sorted(parent.glob("run-*")) == sorted([first.directory, second.directory])


def test_a_socket_fits_in_every_accepted_directory(tmp_path: Path) -> None:
    room = 107 - len(str(tmp_path)) - len("/") - len("/run-000000000000/service.sock")
    fitting, too_long = tmp_path / ("x" * room), tmp_path / ("x" * (room + 1))

    with open_session(fitting) as session, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(session.socket))
    with pytest.raises(SessionError, match="too long"), open_session(too_long):
        pass


def test_the_default_avoids_unusable_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "rocm-perf-lab").mkdir()
    (shared / "rocm-perf-lab").chmod(0o777)
    monkeypatch.delenv("ROCM_PERF_LAB_SESSIONS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(shared))

    assert not sessions_dir().is_relative_to(shared)


def test_the_runtime_directory_of_the_user_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCM_PERF_LAB_SESSIONS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    assert sessions_dir() == tmp_path / "rocm-perf-lab"


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("ROCM_PERF_LAB_SESSIONS", str(tmp_path))

    with pytest.raises(SessionError, match="other users can write"):
        sessions_dir()
