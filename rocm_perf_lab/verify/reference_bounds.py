"""Error bounds of outputs from perturbed evaluations of the reference: `output_bounds(description, launch)`.

See :mod:`rocm_perf_lab.verify.error_bounds` for the parts of a bound.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.verify.error_bounds import (
    PERTURBATION_SEED,
    SAFETY,
    OutputBound,
    absolute_difference,
    accumulation_precision,
    float_inputs,
    float_values,
    observed_bounds,
    unit_in_last_place,
)
from rocm_perf_lab.verify.reference import reference_values
from rocm_perf_lab.verify.rounding import SMALLEST_NORMAL, UNIT_ROUNDOFF, PerturbedArray, RoundingModel, TrackedNumpy
from rocm_perf_lab.verify.run_bounds import PERTURBED_RUNS, bounds_of_runs, perturbed_launch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription

_GROUPS = 8
_GROUPS_OF_LARGE = 4
_LARGE_ELEMENTS = 1 << 12
_FEWEST_FOR_MEDIAN = 4
_MOST_RAISED = 16.0
_MOST_INPUT_GROUPS = 3
_INPUT_REPEATS = 3
_INPUT_REPEATS_OF_LARGE = 2
"""Evaluations per group of inputs, because errors of the elements of one input may cancel, like those of equal terms."""
_INPUT_WEIGHT = 2.0
"""Weight of a group of inputs in evaluations, whatever their number: more evaluations improve the estimate, not increase it."""
_DESCRIBED = 0.9
"""Fraction of elements that must agree with a reference for it to describe the inputs."""


def output_bounds(description: KernelDescription, launch: Launch) -> dict[str, OutputBound] | None:
    """Return the error bounds of the outputs of a reference, before any output is observed.

    Args:
        description: Kernel, with the params of the launch.
        launch: Inputs and shapes of outputs; with equal launches, bounds are equal.

    Returns:
        Bounds by output name, relative to the reference as rounded to the output type; None if the output of the unmodified
        kernel is the reference (see :func:`bounds_of_runs`).

    Raises:
        KernelReferenceError: The reference cannot be evaluated.
    """
    first = _model(launch)
    exact = _evaluated(description, launch, first)
    if exact is None:
        return None
    changes = {name: _Changes.of(value) for name, value in exact.items()}
    arrays = {a.name: a.data for a in launch.arguments if isinstance(a, BufferValue)}
    discrete = first.is_discontinuous or any(arrays[name].dtype.kind in "biu" for name in exact)
    suspects = _untracked(exact, launch, first)
    runs = _runs_of_reference(description, launch) if suspects else []
    untracked = {n for n in suspects if any(not np.array_equal(run[n], exact[n], equal_nan=True) for run in runs)}
    if first.operations or untracked:  # Copies, comparisons and integers are exact.
        for model in _perturbations(launch, first, both_signs=discrete):
            perturbed = _evaluated(description, launch, model)
            assert perturbed is not None
            for name, value in perturbed.items():
                changes[name].add(value, arrays[name].dtype)
    unit, limit = accumulation_precision(launch)
    bounds = {
        name: _bound(changes[name], arrays[name].dtype, unit, limit, is_exact=not first.operations and name not in untracked)
        for name in exact
    }
    return bounds | _widened({n: bounds[n] for n in untracked}, launch, exact, runs)


def _untracked(exact: Mapping[str, NDArray[Any]], launch: Launch, model: RoundingModel) -> set[str]:
    """Return the outputs with unknown operations: neither copies nor tracked arrays, or computed from scalars."""
    names = {n for n, v in exact.items() if v.dtype.kind == "f" and (model.is_incomplete or not isinstance(v, PerturbedArray))}
    if not names or model.operations:
        return names if model.is_incomplete else set()
    inputs = [float_values(a.data).reshape(-1) for a in launch.arguments if isinstance(a, BufferValue) and a.is_set]
    known = np.unique(np.concatenate([np.zeros(1), *inputs]))
    return {n for n in names if not np.isin(float_values(exact[n]), known).all()}


def _runs_of_reference(description: KernelDescription, launch: Launch) -> list[dict[str, NDArray[Any]]]:
    """Return the values of the reference for perturbed inputs; outputs that only select between constants do not change."""
    launches = [perturbed_launch(launch, number) for number in range(PERTURBED_RUNS)]
    with np.errstate(all="ignore"):
        return [reference_values(description, other) or {} for other in launches]


def _widened(
    bounds: Mapping[str, OutputBound],
    launch: Launch,
    exact: Mapping[str, NDArray[Any]],
    runs: Sequence[Mapping[str, NDArray[Any]]],
) -> dict[str, OutputBound]:
    """Return bounds that are at least as large as those of a kernel without a reference."""
    of_runs = bounds_of_runs(launch, {name: float_values(exact[name]) for name in bounds}, runs)
    return {name: replace(bound, scale=np.maximum(bound.scale, of_runs[name].scale)) for name, bound in bounds.items()}


def bounds_of_reference(
    description: KernelDescription, launch: Launch, outputs: Mapping[str, NDArray[Any]]
) -> dict[str, OutputBound]:
    """Return the error bounds of inputs for which the outputs of the unmodified kernel are the expected ones.

    Args:
        description: Kernel, with the params of the launch.
        launch: Inputs, for which the reference may be undefined.
        outputs: Outputs of the unmodified kernel.

    Returns:
        Bounds relative to the outputs, without outputs that the reference does not describe: it cannot be evaluated, or most
        elements differ because it ignores a scalar or the initial content.
    """
    try:
        bounds = output_bounds(description, launch) or {}
    except LabError:
        return {}
    return observed_bounds({n: b for n, b in bounds.items() if _describes(b, outputs[n])}, outputs, outputs)


class _Changes:
    """Changes of one output in perturbed evaluations."""

    def __init__(self, exact: NDArray[np.float64], squares: NDArray[np.float64], largest: NDArray[np.float64]) -> None:
        self.exact, self.squares, self.largest = exact, squares, largest

    @classmethod
    def of(cls, exact: NDArray[Any]) -> _Changes:
        values = float_values(exact)
        return cls(values, np.zeros(values.shape), np.zeros(values.shape))

    def add(self, perturbed: NDArray[Any], dtype: np.dtype[Any]) -> None:
        """Add an evaluation; an integer counts as changed or unchanged, whatever the difference."""
        with np.errstate(invalid="ignore", over="ignore"):
            one, other = self.exact, float_values(perturbed)
            if dtype.kind in "biu":
                one, other = np.trunc(one), np.trunc(other)
            change = np.where(np.isfinite(one) & np.isfinite(other), np.abs(other - one), 0.0)
        self.squares += np.square(change)
        self.largest = np.maximum(self.largest, change)


def _model(launch: Launch, **changes: Any) -> RoundingModel:
    coarse = any(data.dtype.itemsize <= 2 for data in float_inputs(launch))
    return RoundingModel(SAFETY * UNIT_ROUNDOFF, PERTURBATION_SEED, has_coarse_inputs=coarse, **changes)


def _perturbations(launch: Launch, first: RoundingModel, *, both_signs: bool) -> list[RoundingModel]:
    """Return one model per group of operations; the last groups contain the inputs."""
    most = _GROUPS_OF_LARGE if _is_large(launch) else _GROUPS
    groups = max(1, min(first.operations, most))
    signs = (1.0, -1.0) if both_signs else (1.0,)
    last = groups + _input_groups(launch) * _input_repeats(launch)
    return [_model(launch, groups=groups, active=group, sign=sign) for group in range(last) for sign in signs]


def _is_large(launch: Launch) -> bool:
    return sum(a.data.size for a in launch.arguments if isinstance(a, BufferValue)) > _LARGE_ELEMENTS


def _input_repeats(launch: Launch) -> int:
    return _INPUT_REPEATS_OF_LARGE if _is_large(launch) else _INPUT_REPEATS


def _input_groups(launch: Launch) -> int:
    """Return the number of groups of inputs: errors of two inputs in one group may cancel."""
    return max(1, min(len(float_inputs(launch)), _MOST_INPUT_GROUPS))


def _evaluated(description: KernelDescription, launch: Launch, model: RoundingModel) -> dict[str, NDArray[Any]] | None:
    numbers = count()
    groups = _input_groups(launch)
    size = model.sign * model.amplitude * sqrt(_INPUT_WEIGHT / _input_repeats(launch))
    rng = np.random.default_rng([model.seed, model.groups, max(model.active, 0)])
    unset = {a.name for a in launch.arguments if isinstance(a, BufferValue) and not a.is_set}

    def changed(name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or name in unset:
            return value
        if next(numbers) % groups == (model.active - model.groups) % groups and model.active >= model.groups:
            signs = rng.integers(0, 2, value.shape, np.int8) * np.int8(2) - np.int8(1)
            value = value * (1 + signs * size)
        return model.wrap(value)

    with np.errstate(all="ignore"):
        return reference_values(description, launch, changed, TrackedNumpy(model).replace_in)


def _bound(changes: _Changes, dtype: np.dtype[Any], unit: float, limit: float, *, is_exact: bool) -> OutputBound:
    zeros = np.zeros(changes.exact.shape)
    if dtype.kind in "biu":
        return OutputBound(changes.largest, zeros, zeros, limit=1.0, exact=changes.exact)
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = changes.exact.astype(dtype)
    offset = absolute_difference(float_values(rounded), changes.exact)
    if is_exact and not changes.squares.any():
        return OutputBound(zeros, unit_in_last_place(rounded) * (offset > 0), offset, limit=1.0, exact=changes.exact)
    scale = _typical(np.sqrt(changes.squares), changes.exact) * unit
    roundoff = UNIT_ROUNDOFF * unit
    step = unit_in_last_place(rounded) + SMALLEST_NORMAL  # Hardware functions may flush smaller results to zero.
    return OutputBound(scale, step, offset, limit=limit, exact=changes.exact, roundoff=roundoff)


def _describes(bound: OutputBound, output: NDArray[Any]) -> bool:
    """Return whether most finite elements agree with the reference of a bound."""
    if bound.exact is None:
        return False
    values = float_values(output)
    finite = np.isfinite(values) & np.isfinite(bound.exact)
    near = absolute_difference(values, bound.exact) <= bound.allowed(bound.limit)
    return bool(np.count_nonzero(near & finite) >= _DESCRIBED * np.count_nonzero(finite))


def _typical(scale: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return errors, raised to at least the typical error, because random perturbations may cancel in single elements.

    The typical error is a median along an axis, or of all elements, of the absolute or relative errors: the one from which the
    errors differ least. Errors of a row are therefore not raised to those of different rows. Values without any error remain
    exact.
    """
    size = np.nan_to_num(np.abs(values), posinf=0.0, neginf=0.0)
    relative = np.divide(scale, size, out=np.zeros(scale.shape), where=size > 0)
    axes = [axis for axis in range(scale.ndim) if scale.shape[axis] >= _FEWEST_FOR_MEDIAN]
    whole = [None] if scale.ndim > 1 and scale.size >= _FEWEST_FOR_MEDIAN else []
    best, least = scale, np.inf
    for axis in (*axes, *whole):
        length = scale.size if axis is None else scale.shape[axis]
        for typical in (np.broadcast_to(_median(scale, axis), scale.shape), _median(relative, axis) * size):
            known = (scale > 0) & (typical > 0)
            if not known.any():
                continue
            spread = float(np.mean(np.abs(np.log(scale[known] / typical[known])))) * (1 + 2 / length)
            best, least = (typical, spread) if spread < least else (best, least)
    raised: NDArray[np.float64] = np.where(scale > 0, np.clip(best, scale, _MOST_RAISED * scale), scale)
    return raised


def _median(values: NDArray[np.float64], axis: int | None) -> NDArray[np.float64]:
    """Return the lower median of the positive values along an axis, which keeps length 1, or of all elements.

    Zeros are ignored: an element without an error, or with an undefined value, does not characterise the others. The median is
    0 if all values are zero.
    """
    if axis is None:
        return _median(values.reshape(-1), 0)
    if (values > 0).all():
        middle = (values.shape[axis] - 1) // 2
        return np.take(np.partition(values, middle, axis=axis), [middle], axis=axis)
    counts = np.count_nonzero(values > 0, axis=axis, keepdims=True)
    ordered = np.sort(np.where(values > 0, values, np.inf), axis=axis)
    found: NDArray[np.float64] = np.take_along_axis(ordered, np.maximum(counts - 1, 0) // 2, axis=axis)
    return np.where(counts > 0, found, 0.0)
