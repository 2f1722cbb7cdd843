"""Arithmetic of the benchmark of applications, with times that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.applications.__main__ import summary, times
from benchmarks.applications.measures import ApplicationMeasurement, Run, built_in
from benchmarks.applications.overhead import Overhead, geometric_mean_and_worst
from benchmarks.applications.programs import SOURCES, Program


def run(seconds: float = 1.0, *, exit_code: int = 0, output: str = "right") -> Run:
    return Run(exit_code, output, "", seconds)


def measurement() -> ApplicationMeasurement:
    return ApplicationMeasurement(Program(SOURCES / "fft.hip"), "right", None, run(), run(), run(), 0)


def overhead(plain: float, checked: float, profiled: float) -> Overhead:
    return Overhead("kernel", run(plain), run(checked), run(profiled))


def test_the_mean_of_factors_is_geometric() -> None:
    mean, worst = geometric_mean_and_worst([overhead(2, 4, 2), overhead(1, 8, 1)], lambda one: one.check_factor)

    assert (mean, worst) == pytest.approx((4.0, 8.0))


def test_the_summary_states_mean_and_worst_and_what_was_built_again() -> None:
    built = replace(measurement(), built_again=3)

    figures = [*summary([measurement(), built]), *times([overhead(2, 4, 3), overhead(1, 8, 1.5)], 0.444)]

    assert {one.key: one.value for one in figures} == {
        "passed": "2 of 2",
        "built": "3",
        "checks": "4.0 x (8.0 x)",
        "profile": "1.5 x (1.5 x)",
        "start_up": "0.44 s",
    }


@pytest.mark.parametrize(
    "failed",
    [
        replace(measurement(), checked=run(exit_code=1)),
        replace(measurement(), profiled=run(output="other")),
        replace(measurement(), expected="other"),
        replace(measurement(), rocm=run(exit_code=139)),
    ],
)
def test_a_program_passes_only_if_every_run_does(failed: ApplicationMeasurement) -> None:
    assert measurement().passed
    assert not failed.passed


def test_what_a_run_builds_is_read_from_its_document() -> None:
    assert built_in('{"compiled_parts": 2, "translated_kernels": 3}') == 5
