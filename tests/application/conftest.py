"""A directory with a stand-in rocprofv3 on PATH, and an application to profile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.builders.workplace import Workplace

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def tracking_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One store for all runs: making one takes longer than using it."""
    return f"sqlite:///{tmp_path_factory.mktemp('tracking') / 'runs.db'}"


@pytest.fixture
def workplace(tmp_path: Path, tracking_store: str, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("ROCM_PERF_LAB_TRACKING", "foreground")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking_store)
    made = Workplace(tmp_path)
    made.profiler()
    return made
