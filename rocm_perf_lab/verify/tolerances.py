"""Allowed error of each output element, derived from the condition of the computation.

The bound of element `i` is

    allowed_i = factor * scale_i + step_i + offset_i

- `scale_i = C * u * sqrt(sum_k e_ik^2)`: rounding errors of a right evaluation in f32 (f64 if the buffers are f64), with
  `u = 2^-24` and `C = 2.5`. `e_ik` is the change of the element when the operations of group `k` of the reference are
  perturbed (:mod:`rocm_perf_lab.verify.rounding`): one rounding for additions and products, two to four for other functions,
  `growth(n)` roundings of the largest partial sum for a sum of `n` terms. Further groups contain the inputs, so that rearranged
  formulas are allowed as far as the result depends on its inputs.
- `step_i`: one unit in the last place of outputs with at most 16 bits, and the smallest normal f32 of computed outputs.
- `offset_i`: error of the unmodified kernel and of the expected value at this element.
- `factor`: 1, or twice the largest error of the unmodified kernel in units of `scale`, if that is larger: a kernel with
  intermediate results in f16 allows the same in a rewrite.

A kernel without a reference is run with perturbed inputs instead; the terms per sum are unknown there, and the longest axis of
an input is used.

Sources: Higham and Mary, "A new approach to probabilistic rounding error analysis" (SIAM J. Sci. Comput. 41, 2019) for the
growth of sums; Parker, "Monte Carlo arithmetic" (1997) for the perturbation; the OpenCL C specification, "Relative error as
ULPs", for elementary functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from math import sqrt
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.verify.outputs import allowed_errors
from rocm_perf_lab.verify.reference import reference_values
from rocm_perf_lab.verify.rounding import (
    SMALLEST_NORMAL,
    UNIT_ROUNDOFF,
    PerturbedArray,
    RoundingModel,
    TrackedNumpy,
    growth,
    growth_of_equal,
)

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.languages.spec import Tolerance

SAFETY = 2.5
"""`C`: about six standard deviations of the error of a sum, because one rounding has at most 0.42 of `u` as its deviation."""
_SEED = 20_261_122
_GROUPS = 8
_GROUPS_OF_LARGE = 4
_LARGE_ELEMENTS = 1 << 12
_F64_ROUNDOFF = 2.0**-53
_OBSERVED = 2.0
"""Error of a rewrite relative to the largest error of the unmodified kernel."""
_SUPPORTED = 16.0
"""Error of an unmodified kernel relative to `scale` that needs no declared tolerance."""
_LOW_PRECISION = 8.0
"""Most roundings to f16 or bf16 have a smaller effect on a result than the error bound of f32 at the same operations."""
_BOTH = 2.0
"""The unmodified kernel without a reference, or a reference in f64 for a kernel in f64, have an error like a rewrite."""
_FEWEST_FOR_MEDIAN = 4
_FEWEST_FOR_MEAN = 8
_MOST_RAISED = 16.0
_MOST_INPUT_GROUPS = 3
_INPUT_REPEATS = 3
_INPUT_REPEATS_OF_LARGE = 2
"""Evaluations per group of inputs: errors of the elements of one input may cancel, like those of terms of equal size."""
_INPUT_WEIGHT = 2.0
"""Evaluations per group of inputs that count; more make the estimate of the error better, not larger."""
_DESCRIBED = 0.9
"""Share of elements that agree with a reference which describes the inputs."""
PERTURBED_RUNS = 2
"""Runs of a kernel without a reference with perturbed inputs."""
_INPUT_STEPS = 8.0
"""Perturbation of inputs of a kernel without a reference, in unit roundoffs of f32."""


@dataclass(frozen=True)
class OutputBound:
    """Parts of the error bound of one output; arrays in its shape. See the module.

    Args:
        scale: Errors of an evaluation with accumulation in f32 or f64.
        step: Unit in the last place of an output with at most 16 bits, and the smallest normal f32 unless values are copied.
        offset: Error of the unmodified kernel and of the expected value.
        ratio: Largest error of the unmodified kernel in units of `scale`; 0 if unknown.
        limit: Largest factor.
        exact: Values of the reference in float64; None without a reference.
        roundoff: Unit roundoff of accumulation.
    """

    scale: NDArray[np.float64]
    step: NDArray[np.float64]
    offset: NDArray[np.float64]
    ratio: float = 0.0
    limit: float = _SUPPORTED
    exact: NDArray[np.float64] | None = None
    roundoff: float = UNIT_ROUNDOFF

    def allowed(self, factor: float = 1.0) -> NDArray[np.float64]:
        """Return the allowed absolute error of each element.

        Args:
            factor: Factor of `scale` from other trials of the kernel; see :func:`shared_factors`.
        """
        own = min(max(1.0, factor, _OBSERVED * self.ratio), self.limit)
        allowed: NDArray[np.float64] = own * self.scale + self.step + self.offset
        return allowed

    def undefined(self, output: NDArray[Any]) -> NDArray[np.bool_]:
        """Return the finite elements of an output for which the reference is infinite or NaN."""
        if self.exact is None or output.dtype.kind in "biu":
            return np.zeros(output.shape, np.bool_)
        return np.isfinite(_float(output)) & ~np.isfinite(self.exact)

    def completed(self, other: OutputBound, output: NDArray[Any]) -> OutputBound:
        """Return this bound, with the errors of another one where :meth:`undefined`.

        The other bound is from runs of the kernel and does not know the terms of sums: it is raised by the median ratio of both
        where the reference is defined.
        """
        undefined = self.undefined(output)
        both = ~undefined & (self.scale > 0) & (other.scale > 0)
        raised = max(1.0, float(np.median(self.scale[both] / other.scale[both]))) if both.any() else 1.0
        return replace(
            self,
            scale=np.where(undefined, raised * other.scale, self.scale),
            step=np.where(undefined, other.step, self.step),
        )


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
    if first.operations or untracked:  # copies, comparisons and integers are exact
        for model in _perturbations(launch, first, both_signs=discrete):
            perturbed = _evaluated(description, launch, model)
            assert perturbed is not None
            for name, value in perturbed.items():
                changes[name].add(value, arrays[name].dtype)
    unit, limit = _precision(launch)
    bounds = {
        name: _bound(changes[name], arrays[name].dtype, unit, limit, is_exact=not first.operations and name not in untracked)
        for name in exact
    }
    return bounds | _widened({n: bounds[n] for n in untracked}, launch, exact, runs)


def _untracked(exact: Mapping[str, NDArray[Any]], launch: Launch, model: RoundingModel) -> set[str]:
    """Return the outputs whose operations are not all known: they are no copies, and no tracked array or one of scalars."""
    names = {n for n, v in exact.items() if v.dtype.kind == "f" and (model.is_incomplete or not isinstance(v, PerturbedArray))}
    if not names or model.operations:
        return names if model.is_incomplete else set()
    inputs = [_float(a.data).reshape(-1) for a in launch.arguments if isinstance(a, BufferValue) and a.is_set]
    known = np.unique(np.concatenate([np.zeros(1), *inputs]))
    return {n for n in names if not np.isin(_float(exact[n]), known).all()}


def _runs_of_reference(description: KernelDescription, launch: Launch) -> list[dict[str, NDArray[Any]]]:
    """Return the values of the reference for perturbed inputs; outputs that only choose between constants stay the same."""
    launches = [perturbed_launch(launch, number) for number in range(PERTURBED_RUNS)]
    with np.errstate(all="ignore"):
        return [reference_values(description, other) or {} for other in launches]


def _widened(
    bounds: Mapping[str, OutputBound],
    launch: Launch,
    exact: Mapping[str, NDArray[Any]],
    runs: Sequence[Mapping[str, NDArray[Any]]],
) -> dict[str, OutputBound]:
    """Return bounds, at least as large as those of a kernel without a reference."""
    of_runs = bounds_of_runs(launch, {name: _float(exact[name]) for name in bounds}, runs)
    return {name: replace(bound, scale=np.maximum(bound.scale, of_runs[name].scale)) for name, bound in bounds.items()}


def bounds_of_reference(
    description: KernelDescription, launch: Launch, outputs: Mapping[str, NDArray[Any]]
) -> dict[str, OutputBound]:
    """Return the error bounds of inputs for which the outputs of the unmodified kernel are expected.

    Args:
        description: Kernel, with the params of the launch.
        launch: Inputs, which the reference need not define.
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


def bounds_of_runs(
    launch: Launch, outputs: Mapping[str, NDArray[Any]], perturbed: Sequence[Mapping[str, NDArray[Any]]]
) -> dict[str, OutputBound]:
    """Return the error bounds of a kernel without a reference, from its outputs for perturbed inputs.

    Args:
        launch: Inputs of the unperturbed run.
        outputs: Outputs of the unmodified kernel.
        perturbed: Outputs for launches of :func:`perturbed_launch`.
    """
    sums = [max(data.shape) for data in _float_inputs(launch) if data.ndim]
    terms = float(max(sums, default=1))
    unit, limit = _precision(launch)
    grown = growth_of_equal if any(_is_coarse(a) for a in _float_inputs(launch)) else growth
    bounds = {}
    for name, output in outputs.items():
        values = _float(output)
        change = np.zeros(values.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            for other in perturbed:
                change = np.maximum(change, np.nan_to_num(np.abs(_float(other[name]) - values), nan=0.0, posinf=0.0))
        step = _step(output)
        if output.dtype.kind in "biu":
            bounds[name] = OutputBound(change, step, np.zeros(values.shape))
            continue
        response = np.maximum(_smoothed(change) / _input_change(launch), np.nan_to_num(np.abs(values), posinf=0.0, neginf=0.0))
        scale = _BOTH * SAFETY * UNIT_ROUNDOFF * unit * grown(terms) * response
        bounds[name] = OutputBound(scale + SMALLEST_NORMAL, step, np.zeros(values.shape), limit=limit)
    return bounds


def perturbed_launch(launch: Launch, number: int) -> Launch:
    """Return a launch whose floating-point inputs differ by a few units in the last place, with random signs."""
    arguments = tuple(
        replace(a, data=_nudged(a.data, np.random.default_rng([_SEED, number, index]), _input_change(launch)))
        if isinstance(a, BufferValue) and a.is_set and _is_float(a.data)
        else a
        for index, a in enumerate(launch.arguments)
    )
    return replace(launch, arguments=arguments)


def observed_bounds(
    bounds: Mapping[str, OutputBound], expected: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]
) -> dict[str, OutputBound]:
    """Return bounds that contain the error of the unmodified kernel.

    Args:
        bounds: Bounds of :func:`output_bounds` or :func:`bounds_of_runs`.
        expected: Values that a rewrite is compared with.
        outputs: Outputs of the unmodified kernel.
    """
    return {name: _observed(bound, expected[name], outputs[name]) for name, bound in bounds.items()}


def shared_factors(trials: Sequence[Mapping[str, OutputBound]]) -> dict[str, float]:
    """Return the factor of each output for all trials: twice the median ratio, but at least 1."""
    names = {name for bounds in trials for name in bounds}
    ratios = {n: [b[n].ratio for b in trials if n in b and b[n].scale.size and b[n].scale.any()] for n in sorted(names)}
    return {name: max(1.0, _OBSERVED * float(np.median(values))) if values else 1.0 for name, values in ratios.items()}


def applied_tolerances(
    declared: Mapping[str, Tolerance], derived: Mapping[str, NDArray[np.float64]], expected: Mapping[str, NDArray[Any]]
) -> dict[str, Tolerance | NDArray[np.float64]]:
    """Return the tolerance of each output: the declared one if it has a note, otherwise the tighter one for each element.

    Args:
        declared: Tolerances that apply: those with a note, and those that the unmodified kernel keeps.
        derived: Allowed absolute errors of :meth:`OutputBound.allowed`.
        expected: Expected outputs.
    """
    applied: dict[str, Tolerance | NDArray[np.float64]] = {}
    for name, values in expected.items():
        given, bound = declared.get(name), derived.get(name)
        if given is not None and (given.note is not None or bound is None):
            applied[name] = given
        elif bound is not None:
            applied[name] = bound if given is None else np.fmin(bound, allowed_errors(values, given))
    return applied


def tolerance_notes(
    declared: Mapping[str, Tolerance],
    kept: Container[str],
    derived: Mapping[str, NDArray[np.float64]],
    expected: Mapping[str, NDArray[Any]],
) -> list[str]:
    """Return one line for each declared tolerance that has a note, or that the derived bound replaces.

    Args:
        declared: Tolerances of the kernel description.
        kept: Outputs whose tolerance the unmodified kernel keeps in all trials, with a margin.
        derived: Allowed absolute errors of :meth:`OutputBound.allowed`.
        expected: Expected outputs.
    """
    lines = []
    for name, given in declared.items():
        text = f"tolerance of {name} (rtol {given.rtol:g}, atol {given.atol:g})"
        if given.note is not None:
            lines.append(f"{text}: {given.note}")
        elif name not in kept:
            lines.append(
                f"{text} is about as large as the errors of the unmodified kernel, or smaller; the derived error bound applies; "
                f"add a note to keep it"
            )
        elif name in derived and (looser := _looser(allowed_errors(expected[name], given), derived[name])):
            lines.append(
                f"{text} is looser than the derived error bound in {looser}, where the bound applies; add a note to keep it"
            )
    return lines


def supported_tolerances(
    description: KernelDescription, bounds: Mapping[str, OutputBound], expected: Mapping[str, NDArray[Any]]
) -> dict[str, Tolerance | NDArray[np.float64]]:
    """Return the tolerances of a kernel whose precision is unknown: its bounds have the largest factor.

    The largest factor allows intermediate results in the least precise floating-point type of the buffers.

    Args:
        description: Kernel, with declared tolerances.
        bounds: Bounds of :func:`output_bounds`.
        expected: Expected outputs.
    """
    derived = {name: bound.allowed(bound.limit) for name, bound in bounds.items()}
    return applied_tolerances(description.tolerance, derived, expected)


def kernel_tolerances(
    description: KernelDescription, launch: Launch, expected: Mapping[str, NDArray[Any]]
) -> dict[str, Tolerance | NDArray[np.float64]]:
    """Return the tolerances of the outputs of one launch, without an unmodified kernel to compare with.

    Args:
        description: Kernel, with the params of the launch.
        launch: Inputs.
        expected: Expected outputs.

    Raises:
        KernelReferenceError: The reference cannot be evaluated.
    """
    return supported_tolerances(description, output_bounds(description, launch) or {}, expected)


class _Changes:
    """Changes of one output in perturbed evaluations."""

    def __init__(self, exact: NDArray[np.float64], squares: NDArray[np.float64], largest: NDArray[np.float64]) -> None:
        self.exact, self.squares, self.largest = exact, squares, largest

    @classmethod
    def of(cls, exact: NDArray[Any]) -> _Changes:
        values = _float(exact)
        return cls(values, np.zeros(values.shape), np.zeros(values.shape))

    def add(self, perturbed: NDArray[Any], dtype: np.dtype[Any]) -> None:
        """Add an evaluation; integers change as a whole or not at all."""
        with np.errstate(invalid="ignore", over="ignore"):
            one, other = self.exact, _float(perturbed)
            if dtype.kind in "biu":
                one, other = np.trunc(one), np.trunc(other)
            change = np.where(np.isfinite(one) & np.isfinite(other), np.abs(other - one), 0.0)
        self.squares += np.square(change)
        self.largest = np.maximum(self.largest, change)


def _model(launch: Launch, **changes: Any) -> RoundingModel:
    coarse = any(data.dtype.itemsize <= 2 for data in _float_inputs(launch))
    return RoundingModel(SAFETY * UNIT_ROUNDOFF, _SEED, has_coarse_inputs=coarse, **changes)


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
    return max(1, min(len(_float_inputs(launch)), _MOST_INPUT_GROUPS))


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
    offset = _difference(_float(rounded), changes.exact)
    if is_exact and not changes.squares.any():
        return OutputBound(zeros, _step(rounded) * (offset > 0), offset, limit=1.0, exact=changes.exact)
    scale = _typical(np.sqrt(changes.squares), changes.exact) * unit
    roundoff = UNIT_ROUNDOFF * unit
    step = _step(rounded) + SMALLEST_NORMAL  # hardware functions may flush a smaller result to zero
    return OutputBound(scale, step, offset, limit=limit, exact=changes.exact, roundoff=roundoff)


def _observed(bound: OutputBound, expected: NDArray[Any], output: NDArray[Any]) -> OutputBound:
    values = bound.exact
    if values is None or output.dtype.kind in "biu":
        return bound
    error = _difference(_float(output), values)
    with np.errstate(over="ignore", invalid="ignore"):
        is_reference = np.array_equal(_float(expected), _float(values.astype(expected.dtype)), equal_nan=True)
    if not is_reference:  # elements outside the validity of the reference, such as overflow in an intermediate result
        error = np.where(error <= bound.limit * bound.scale + bound.step, error, 0.0)
        relative = 2 * SAFETY * bound.roundoff * np.nan_to_num(np.abs(_float(expected)), posinf=0.0, neginf=0.0)
        return replace(bound, scale=np.maximum(bound.scale, relative) if bound.scale.any() else bound.scale, offset=error)
    offset = np.maximum(bound.offset, error)
    excess = (error - bound.step) / np.where(bound.scale > 0, bound.scale, np.inf)
    ratio = float(max(0.0, excess.max(initial=0.0)))
    return replace(bound, offset=offset, ratio=ratio, limit=max(bound.limit, _OBSERVED * ratio))


def _describes(bound: OutputBound, output: NDArray[Any]) -> bool:
    """Return whether most finite elements agree with the reference of a bound."""
    if bound.exact is None:
        return False
    values = _float(output)
    finite = np.isfinite(values) & np.isfinite(bound.exact)
    near = _difference(values, bound.exact) <= bound.allowed(bound.limit)
    return bool(np.count_nonzero(near & finite) >= _DESCRIBED * np.count_nonzero(finite))


def _precision(launch: Launch) -> tuple[float, float]:
    """Return the unit roundoff of accumulation relative to f32, and the largest factor of an unmodified kernel."""
    bits = [_mantissa_bits(a.data.dtype) for a in launch.arguments if isinstance(a, BufferValue) and _is_float(a.data)]
    unit = _BOTH * _F64_ROUNDOFF / UNIT_ROUNDOFF if max(bits, default=0) > 23 else 1.0
    lowest = min(bits, default=23)
    return unit, max(_SUPPORTED, 2.0 ** -(lowest + 1) / (UNIT_ROUNDOFF * unit) / _LOW_PRECISION)


def _mantissa_bits(dtype: np.dtype[Any]) -> int:
    return int(ml_dtypes.finfo(dtype).nmant)  # type: ignore[no-untyped-call]


def _step(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the unit in the last place of floats with at most 16 bits, otherwise 0."""
    magnitude = np.abs(_float(values))
    if not _is_float(values) or values.dtype.itemsize > 2:
        return np.zeros(magnitude.shape)
    info = ml_dtypes.finfo(values.dtype)  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.where(np.isfinite(magnitude), np.maximum(magnitude, float(info.smallest_normal)), 1.0)))
    step: NDArray[np.float64] = np.exp2(exponent - int(info.nmant))
    return step


def _input_change(launch: Launch) -> float:
    """Return the relative change of perturbed inputs: at least half a unit in the last place of their least precise type."""
    inputs = [a.data.dtype for a in launch.arguments if isinstance(a, BufferValue) and a.is_set and _is_float(a.data)]
    lowest = min((_mantissa_bits(dtype) for dtype in inputs), default=23)
    return max(_INPUT_STEPS * UNIT_ROUNDOFF, 2.0**-lowest)


def _nudged(data: NDArray[Any], rng: np.random.Generator, change: float) -> NDArray[Any]:
    signs = rng.integers(0, 2, data.shape, np.int8).astype(np.float64) * 2 - 1
    with np.errstate(all="ignore"):
        return (_float(data) * (1 + change * signs)).astype(data.dtype)


def _typical(scale: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return errors, raised to typical ones: the random signs of perturbations may cancel in single elements.

    Typical is a median along an axis, or of all elements, of the errors or of the relative errors: the one that the errors
    differ least from. So an output whose rows have different errors is not raised to those of other rows. Values without any
    error stay exact.
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
    """Return the lower median of the positive values along an axis, which stays with length 1, or of all elements.

    Zeros do not count: an element without an error, or whose value is undefined, says nothing about the others. The median of
    no element is 0.
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


def _smoothed(change: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return changes, raised to the root mean square along the axis where that is smallest: two runs are few samples.

    Short axes are few samples, too, and elements without a change, such as undefined ones, do not count.
    """
    if not change.size or not change.ndim:
        return change
    axes = tuple(axis for axis in range(change.ndim) if change.shape[axis] >= _FEWEST_FOR_MEAN)
    means = [np.broadcast_to(_root_mean_square(change, axis), change.shape) for axis in (axes or (None,))]
    return np.maximum(change, np.minimum.reduce(means))


def _root_mean_square(values: NDArray[np.float64], axis: int | None) -> NDArray[np.float64]:
    """Return the root mean square of the elements that are not 0 along an axis, which stays with length 1, or of all elements."""
    count = np.count_nonzero(values, axis=axis, keepdims=True)
    mean: NDArray[np.float64] = np.sqrt(np.square(values).sum(axis=axis, keepdims=True) / np.maximum(count, 1))
    return mean


def _float_inputs(launch: Launch) -> list[NDArray[Any]]:
    return [a.data for a in launch.arguments if isinstance(a, BufferValue) and a.is_set and _is_float(a.data)]


def _is_coarse(values: NDArray[Any]) -> bool:
    """Return whether elements have few bits or are all equal, so that errors of sums need not cancel."""
    return values.dtype.itemsize <= 2 or (values.size > 1 and bool((values == values.reshape(-1)[0]).all()))


def _looser(given: NDArray[np.float64], bound: NDArray[np.float64]) -> str | None:
    count = int(np.count_nonzero(given > bound))
    return f"{count:,} of {bound.size:,} elements" if count else None


def _is_float(values: NDArray[Any]) -> bool:
    return values.dtype.kind == "f" or values.dtype.name.startswith(("bfloat", "float"))


def _float(values: NDArray[Any]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # uninitialised memory may hold a signalling NaN
        return np.asarray(values).astype(np.float64)


def _difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(one - other)
    return np.where(np.isfinite(one) & np.isfinite(other), difference, 0.0)
