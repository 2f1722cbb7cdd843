"""Tests of the cache directory: a home directory that is missing, unwritable or unknown, and directories of other users."""

import os
import tempfile
from pathlib import Path

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir, zig_environment


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory for temporary files; no variable names a cache directory."""
    for name in ("ROCM_PERF_LAB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def test_the_cache_is_below_the_home_directory(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert cache_dir() == tmp_path / "home" / ".cache" / "rocm-perf-lab"
    assert cache_dir().is_dir()


def test_a_variable_overrides_it(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path / "mine"))

    assert cache_dir() == tmp_path / "mine"
    assert (tmp_path / "mine").is_dir()


@pytest.mark.parametrize("home", ["/dev/null", "/proc"])
def test_without_a_home_directory_a_private_directory_is_used(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str
) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.chdir(tmp_path)

    path = cache_dir()

    assert path == temporary / f"rocm-perf-lab-{os.geteuid()}"
    assert path.stat().st_mode & 0o777 == 0o700
    assert cache_dir() == path
    assert [file.name for file in tmp_path.iterdir()] == ["temporary"]


def test_a_user_without_a_home_directory(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)

    assert cache_dir() == temporary / f"rocm-perf-lab-{os.geteuid()}"


@pytest.mark.parametrize("kind", ["link", "file", "writable by others"])
def test_a_directory_that_others_can_change_is_refused(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("HOME", "/dev/null")
    path = temporary / f"rocm-perf-lab-{os.geteuid()}"
    if kind == "link":
        path.symlink_to(tmp_path)
    elif kind == "file":
        path.write_text("")
    else:
        path.mkdir()
        path.chmod(0o777)

    with pytest.raises(LabError, match="set ROCM_PERF_LAB_CACHE"):
        cache_dir()


def test_an_impossible_directory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", "/dev/null/cache")

    with pytest.raises(LabError, match="cannot be created: Not a directory"):
        cache_dir()


def test_the_compiler_has_a_cache_without_a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path))
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)

    assert zig_environment() == {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(tmp_path / "zig")}

    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", "/elsewhere")
    assert zig_environment()["ZIG_GLOBAL_CACHE_DIR"] == "/elsewhere"
