"""The composition cache follows changes of the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.config.composition_cache import Composition

if TYPE_CHECKING:
    from pathlib import Path

OVERRIDES = ("job=application",)


@pytest.fixture(autouse=True)
def _own_cache_and_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_PERF_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def test_an_entry_is_found_for_the_same_overrides_only() -> None:
    Composition(OVERRIDES).remember({"runs": 3})

    assert Composition(OVERRIDES).recall() == {"runs": 3}
    assert Composition((*OVERRIDES, "passes=deep")).recall() is None


def test_a_new_or_changed_file_is_another_composition(tmp_path: Path) -> None:
    Composition(OVERRIDES).remember({"runs": 3})
    option = tmp_path / "conf" / "passes" / "mine.yaml"
    option.parent.mkdir(parents=True)
    option.write_text("runs: 1\n")
    assert Composition(OVERRIDES).recall() is None

    Composition(OVERRIDES).remember({"runs": 1})
    option.write_text("runs: 2\n")
    assert Composition(OVERRIDES).recall() is None


def test_files_that_read_the_environment_are_not_cached(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "mine.yaml").write_text("runs: ${oc.env:RUNS}\n")

    Composition(OVERRIDES).remember({"runs": 3})

    assert Composition(OVERRIDES).recall() is None


def test_a_damaged_entry_is_composed_again(tmp_path: Path) -> None:
    Composition(OVERRIDES).remember({"runs": 3})
    (entry,) = (tmp_path / "cache" / "compositions").iterdir()
    entry.write_bytes(entry.read_bytes()[:-2] + b"9}")

    assert Composition(OVERRIDES).recall() is None
