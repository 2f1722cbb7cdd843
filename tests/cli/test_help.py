"""Help texts fit a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from rocm_perf_lab.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator


def commands(command: click.Command = main, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from commands(below, (*words, name))


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_help_fits_eighty_columns_and_is_not_cut_short(words: tuple[str, ...]) -> None:
    answer = CliRunner(env={"COLUMNS": "80"}).invoke(main, [*words, "--help"])

    assert answer.exit_code == 0
    assert [line for line in answer.output.splitlines() if len(line) > 80] == []
    listed = answer.output.partition("Commands:")[2]
    assert "..." not in listed


def test_a_misspelt_option_of_profile_is_not_taken_for_an_application() -> None:
    misspelt = CliRunner().invoke(main, ["profile", "--run", "3", "./app"])
    foreign = CliRunner().invoke(main, ["profile", "--batch-size", "3", "./app"])

    assert (misspelt.exit_code, foreign.exit_code) == (2, 2)
    assert "there is no option --run" in misspelt.stderr
    assert "did you mean --runs?" in misspelt.stderr
    assert "before its options" in foreign.stderr


def test_an_unwritable_directory_for_schemas_is_reported() -> None:
    answer = CliRunner().invoke(main, ["schemas", "/dev/null/x"])

    assert answer.exit_code == 2
    assert "cannot write the schemas" in answer.stderr
