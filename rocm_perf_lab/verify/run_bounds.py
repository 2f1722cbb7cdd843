"""Error bounds of a kernel without a reference, from its outputs for perturbed inputs: `bounds_of_runs(...)`.

The terms per sum are unknown, so the longest axis of an input is used. See :mod:`rocm_perf_lab.verify.error_bounds` for the parts
of a bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.verify.error_bounds import (
    BOTH_SIDES,
    PERTURBATION_SEED,
    SAFETY,
    OutputBound,
    accumulation_precision,
    float_inputs,
    float_values,
    is_float,
    mantissa_bits,
    unit_in_last_place,
)
from rocm_perf_lab.verify.rounding import SMALLEST_NORMAL, UNIT_ROUNDOFF, growth, growth_of_equal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch

_FEWEST_FOR_MEAN = 8
PERTURBED_RUNS = 2
"""Number of runs with perturbed inputs of a kernel without a reference."""
_INPUT_STEPS = 8.0
"""Perturbation of the inputs in unit roundoffs of f32."""


def bounds_of_runs(
    launch: Launch, outputs: Mapping[str, NDArray[Any]], perturbed: Sequence[Mapping[str, NDArray[Any]]]
) -> dict[str, OutputBound]:
    """Return the error bounds of a kernel without a reference, from its outputs for perturbed inputs.

    Args:
        launch: Inputs of the unperturbed run.
        outputs: Outputs of the unmodified kernel.
        perturbed: Outputs for launches of :func:`perturbed_launch`.
    """
    sums = [max(data.shape) for data in float_inputs(launch) if data.ndim]
    terms = float(max(sums, default=1))
    unit, limit = accumulation_precision(launch)
    grown = growth_of_equal if any(_is_coarse(a) for a in float_inputs(launch)) else growth
    bounds = {}
    for name, output in outputs.items():
        values = float_values(output)
        change = np.zeros(values.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            for other in perturbed:
                change = np.maximum(change, np.nan_to_num(np.abs(float_values(other[name]) - values), nan=0.0, posinf=0.0))
        step = unit_in_last_place(output)
        if output.dtype.kind in "biu":
            bounds[name] = OutputBound(change, step, np.zeros(values.shape))
            continue
        response = np.maximum(_smoothed(change) / _input_change(launch), np.nan_to_num(np.abs(values), posinf=0.0, neginf=0.0))
        scale = BOTH_SIDES * SAFETY * UNIT_ROUNDOFF * unit * grown(terms) * response
        bounds[name] = OutputBound(scale + SMALLEST_NORMAL, step, np.zeros(values.shape), limit=limit)
    return bounds


def perturbed_launch(launch: Launch, number: int) -> Launch:
    """Return a launch whose floating-point inputs differ by a few units in the last place, with random signs."""
    arguments = tuple(
        replace(a, data=_nudged(a.data, np.random.default_rng([PERTURBATION_SEED, number, index]), _input_change(launch)))
        if isinstance(a, BufferValue) and a.is_set and is_float(a.data)
        else a
        for index, a in enumerate(launch.arguments)
    )
    return replace(launch, arguments=arguments)


def _input_change(launch: Launch) -> float:
    """Return the relative change of perturbed inputs: at least half a unit in the last place of their least precise type."""
    inputs = [a.data.dtype for a in launch.arguments if isinstance(a, BufferValue) and a.is_set and is_float(a.data)]
    lowest = min((mantissa_bits(dtype) for dtype in inputs), default=23)
    return max(_INPUT_STEPS * UNIT_ROUNDOFF, 2.0**-lowest)


def _nudged(data: NDArray[Any], rng: np.random.Generator, change: float) -> NDArray[Any]:
    signs = rng.integers(0, 2, data.shape, np.int8).astype(np.float64) * 2 - 1
    with np.errstate(all="ignore"):
        return (float_values(data) * (1 + change * signs)).astype(data.dtype)


def _smoothed(change: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return changes, raised to the root mean square along the axis with the smallest one, because two runs are few samples.

    Short axes, which also have few samples, and elements without a change, such as undefined ones, are ignored.
    """
    if not change.size or not change.ndim:
        return change
    axes = tuple(axis for axis in range(change.ndim) if change.shape[axis] >= _FEWEST_FOR_MEAN)
    means = [np.broadcast_to(_root_mean_square(change, axis), change.shape) for axis in (axes or (None,))]
    return np.maximum(change, np.minimum.reduce(means))


def _root_mean_square(values: NDArray[np.float64], axis: int | None) -> NDArray[np.float64]:
    """Return the root mean square of the non-zero elements along an axis, which keeps length 1, or of all elements."""
    count = np.count_nonzero(values, axis=axis, keepdims=True)
    mean: NDArray[np.float64] = np.sqrt(np.square(values).sum(axis=axis, keepdims=True) / np.maximum(count, 1))
    return mean


def _is_coarse(values: NDArray[Any]) -> bool:
    """Return whether elements have few bits or are all equal, so that errors of sums may not cancel."""
    return values.dtype.itemsize <= 2 or (values.size > 1 and bool((values == values.reshape(-1)[0]).all()))
