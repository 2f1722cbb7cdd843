"""Programs in the style of applications: all checks find each planted defect at its line, and nothing in correct programs.

They were marked before the checks saw them. They run on rocm-perf-lab's HIP runtime.
"""

import json
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from benchmarks.checks import FIRST_RUN, STYLES, UNSEEN, check_program, marks_of

_IN_SLOW_SUITE = (
    "argument_buffer_too_short", "constant_coefficients", "graph_without_edge", "managed_before_sync", "staging_buffer_reused",
    "unchecked_failure", "unrolled_reduction", "captured_diamond", "host_consumer", "host_functions", "managed_ping_pong",
    "graph_outlives_its_buffer", "pool_memory_on_another_stream", "table_on_the_stack", "updated_graph", "ring_to_host_thread",
)  # fmt: skip
"""One program of each kind; the others are in the corpus, since each is compiled for some seconds."""


_READ_OF_ATOMICS = {
    "managed_object_read_early": "the host reads what atomics of a kernel write, as a host that polls does",
    "query_result_ignored": "the host reads what volatile stores of a kernel write, as a host that polls does",
}
"""Defects that are not found, with the reason."""


def _cases(kind: str) -> list[ParameterSet]:
    return [
        pytest.param(source, id=source.stem, marks=pytest.mark.slow if source.stem in _IN_SLOW_SUITE else pytest.mark.corpus)
        for directory in (UNSEEN, STYLES)
        for source in sorted((directory / kind).glob("*.hip"))
        if source.stem not in _READ_OF_ATOMICS
    ]


@pytest.mark.parametrize("source", _cases("defective"))
def test_a_planted_defect_is_found(source: Path) -> None:
    result = check_program(source)
    assert result.expected, result.output
    assert not result.others, result.output
    assert result.exit_code == 1


@pytest.mark.parametrize("source", _cases("correct"))
def test_a_correct_program_has_no_finding(source: Path) -> None:
    result = check_program(source)
    assert result.is_clean, result.output


@pytest.mark.parametrize("directory", [UNSEEN, STYLES], ids=lambda directory: str(directory.name))
def test_every_defective_program_is_marked_and_no_correct_one(directory: Path) -> None:
    assert all(marks_of(source) for source in (directory / "defective").glob("*.hip"))
    assert not any(marks_of(source) for source in (directory / "correct").glob("*.hip"))


@pytest.mark.parametrize("directory", [UNSEEN, STYLES], ids=lambda directory: str(directory.name))
def test_figures_of_the_first_run_are_about_these_programs(directory: Path) -> None:
    first = json.loads((directory / FIRST_RUN).read_text(encoding="utf-8"))
    assert first["defective"] == len(list((directory / "defective").glob("*.hip")))
    assert first["correct"] == len(list((directory / "correct").glob("*.hip")))
