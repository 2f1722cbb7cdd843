"""Command line of `rocm-perf run`: sources and their options, `--`, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from rocm_perf_lab.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["run", *words])


def test_options_may_follow_sources(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.hip")

    found = run(missing, "--target", "nowhere", "--", "--target")

    assert found.exit_code == 2
    assert "nowhere" in found.output


def test_arguments_of_a_program_from_sources_follow_two_hyphens() -> None:
    found = run("main.hip", "4096")

    assert found.exit_code == 2
    assert "arguments of the program follow --: rocm-perf run main.hip -- 4096" in found.output


def test_a_missing_source_is_one_error(tmp_path: Path) -> None:
    found = run(str(tmp_path / "missing.hip"), "--", "4096")

    assert found.exit_code == 2
    assert found.output.count("error:") == 1
    assert "the source file does not exist" in found.output


@pytest.mark.parametrize("words", [("--build-args", "-O3", "--", "true"), ("--build-args", "-c", "main.hip")])
def test_build_arguments_without_use_are_refused(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.hip").write_text("int main() {}\n")

    found = run(*words)

    assert found.exit_code == 2
    assert "--build-args" in found.output
