"""Error bounds: right rewrites with other roundings are within them, wrong rewrites are not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.data_types import DTYPES
from rocm_perf_lab.verify.error_bounds import observed_bounds, shared_factors
from rocm_perf_lab.verify.outputs import verify_outputs
from rocm_perf_lab.verify.reference import expected_outputs
from rocm_perf_lab.verify.reference_bounds import output_bounds
from tests.builders.descriptions import describe, launch_of
from tests.verify.further_rewrites import FURTHER_COMPUTATIONS
from tests.verify.rewrites import COMPUTATIONS, Computation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.verify.error_bounds import OutputBound

    Recorded = tuple[str, dict[str, NDArray[Any]], Mapping[str, NDArray[Any]], Mapping[str, OutputBound]]

ALL = {**COMPUTATIONS, **FURTHER_COMPUTATIONS}
RIGHT = [(name, rewrite) for name, computation in ALL.items() for rewrite in computation.right]
WRONG = [(name, rewrite) for name, computation in ALL.items() for rewrite in computation.wrong]


def drawn(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return random numbers of a distribution."""
    values = rng.normal(size=shape)
    match kind:
        case "offset":
            return 30 + values
        case "positive":
            return np.abs(values) + 0.1
        case "large":
            return values * 64
        case "small":
            return values * 2.0**-8
        case "constant":
            return np.full(shape, rng.uniform(0.1, 3))
        case "near one":
            return 1 + 0.01 * values
        case _:
            return values


def trial(computation: Computation, shapes: Mapping[str, tuple[int, ...]], kind: str) -> tuple[KernelDescription, Launch]:
    arguments = [
        {"name": name, "kind": "buffer", "dtype": dtype, "shape": list(shapes[name]), "init": {"kind": "normal", "seed": 1}}
        for name, dtype in computation.inputs.items()
    ]
    arguments.append(
        {"name": "out", "kind": "buffer", "dtype": computation.output, "shape": list(shapes["out"]), "access": "out"}
    )
    description = describe(
        arguments=arguments, reference={"out": computation.reference}, params={}, defines={}, grid=[1], block=[64]
    )
    launch = launch_of(description)
    rng = np.random.default_rng([len(kind), *shapes["out"]])
    changed = tuple(
        replace(a, data=drawn(kind, a.data.shape, rng).astype(a.data.dtype)) if isinstance(a, BufferValue) and a.is_set else a
        for a in launch.arguments
    )
    return description, replace(launch, arguments=changed)


@cache
def recorded(name: str) -> tuple[list[Recorded], Mapping[str, float]]:
    """Return the trials of a computation with the bounds that its baseline gives."""
    computation = ALL[name]
    trials: list[Recorded] = []
    for kind in computation.kinds:
        for shapes in computation.shapes:
            description, launch = trial(computation, shapes, kind)
            inputs = {a.name: a.data for a in launch.arguments if isinstance(a, BufferValue) and a.is_set}
            expected = expected_outputs(description, launch)
            bounds = output_bounds(description, launch)
            assert expected is not None and bounds is not None
            output = {"out": computation.baseline(**inputs)}
            assert output["out"].dtype == DTYPES[computation.output]
            trials.append((f"{kind} {shapes}", inputs, expected, observed_bounds(bounds, expected, output)))
    return trials, shared_factors([bounds for *_, bounds in trials])


def failures(name: str, rewrite: Any) -> list[str]:
    """Return the trials that a rewrite fails."""
    trials, factors = recorded(name)
    failed = []
    for label, inputs, expected, bounds in trials:
        with np.errstate(all="ignore"):
            output = {"out": np.asarray(rewrite(**inputs)).astype(expected["out"].dtype)}
        result = verify_outputs(output, expected, {"out": bounds["out"].allowed(factors["out"])})
        if not result.passed:
            failed.append(f"{label}: {result}")
    return failed


@pytest.mark.parametrize(("name", "rewrite"), RIGHT, ids=[" ".join(r) for r in RIGHT])
def test_a_right_rewrite_is_within_the_bound_in_every_trial(name: str, rewrite: str) -> None:
    assert failures(name, ALL[name].right[rewrite]) == []


@pytest.mark.parametrize(("name", "rewrite"), WRONG, ids=[" ".join(w) for w in WRONG])
def test_a_wrong_rewrite_exceeds_the_bound_in_a_trial(name: str, rewrite: str) -> None:
    assert failures(name, ALL[name].wrong[rewrite])
