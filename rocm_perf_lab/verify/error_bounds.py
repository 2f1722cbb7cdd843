"""Allowed error of each output element, derived from the conditioning of the computation.

The bound of element `i` is

    allowed_i = factor * scale_i + step_i + offset_i

- `scale_i = C * u * sqrt(sum_k e_ik^2)`: rounding errors of a correct evaluation in f32 (f64 if the buffers are f64), with
  `u = 2^-24` and `C = 2.5`. `e_ik` is the change of the element when the operations of group `k` of the reference are
  perturbed (:mod:`rocm_perf_lab.verify.rounding`): one rounding for additions and products, two to four for other functions,
  `growth(n)` roundings of the largest partial sum for a sum of `n` terms. Further groups contain the inputs, so that rearranged
  formulas are allowed to the extent that the result depends on its inputs.
- `step_i`: one unit in the last place of outputs with at most 16 bits, and the smallest normal f32 of computed outputs.
- `offset_i`: error of the unmodified kernel and of the expected value of this element.
- `factor`: 1, or twice the largest error of the unmodified kernel in units of `scale`, if that is larger: a kernel with
  intermediate results in f16 allows the same in a rewrite.

Sources: Higham and Mary, "A new approach to probabilistic rounding error analysis" (SIAM J. Sci. Comput. 41, 2019) for the
growth of sums; Parker, "Monte Carlo arithmetic" (1997) for the perturbation; the OpenCL C specification, "Relative error as
ULPs", for elementary functions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.verify.rounding import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch

SAFETY = 2.5
"""`C`: about six standard deviations of the error of a sum, because one rounding has a standard deviation of at most 0.42 `u`."""
PERTURBATION_SEED = 20_261_122
_F64_ROUNDOFF = 2.0**-53
_OBSERVED = 2.0
"""Allowed error of a rewrite relative to the largest error of the unmodified kernel."""
LARGEST_FACTOR = 16.0
"""Largest error of an unmodified kernel, relative to `scale`, without a declared tolerance."""
_LOW_PRECISION = 8.0
"""Most roundings to f16 or bf16 have a smaller effect on a result than the error bound of f32 at the same operations."""
BOTH_SIDES = 2.0
"""Without a reference, or with an f64 reference for an f64 kernel, expected values have errors as large as those of a rewrite."""


@dataclass(frozen=True)
class OutputBound:
    """Parts of the error bound of one output; arrays have the shape of the output. See the module.

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
    limit: float = LARGEST_FACTOR
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
        """Return a mask of the finite elements of an output for which the reference is infinite or NaN."""
        if self.exact is None or output.dtype.kind in "biu":
            return np.zeros(output.shape, np.bool_)
        return np.isfinite(float_values(output)) & ~np.isfinite(self.exact)

    def completed(self, other: OutputBound, output: NDArray[Any]) -> OutputBound:
        """Return this bound, with the errors of another bound for elements that are :meth:`undefined`.

        The other bound is from runs of the kernel, without the number of terms of sums. It is therefore scaled by the median
        ratio of both bounds over the elements with a defined reference.
        """
        undefined = self.undefined(output)
        both = ~undefined & (self.scale > 0) & (other.scale > 0)
        raised = max(1.0, float(np.median(self.scale[both] / other.scale[both]))) if both.any() else 1.0
        return replace(
            self,
            scale=np.where(undefined, raised * other.scale, self.scale),
            step=np.where(undefined, other.step, self.step),
        )


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


def _observed(bound: OutputBound, expected: NDArray[Any], output: NDArray[Any]) -> OutputBound:
    values = bound.exact
    if values is None or output.dtype.kind in "biu":
        return bound
    error = absolute_difference(float_values(output), values)
    with np.errstate(over="ignore", invalid="ignore"):
        is_reference = np.array_equal(float_values(expected), float_values(values.astype(expected.dtype)), equal_nan=True)
    if not is_reference:  # Elements for which the reference is not valid, for example because an intermediate result overflows.
        error = np.where(error <= bound.limit * bound.scale + bound.step, error, 0.0)
        relative = 2 * SAFETY * bound.roundoff * np.nan_to_num(np.abs(float_values(expected)), posinf=0.0, neginf=0.0)
        return replace(bound, scale=np.maximum(bound.scale, relative) if bound.scale.any() else bound.scale, offset=error)
    offset = np.maximum(bound.offset, error)
    excess = (error - bound.step) / np.where(bound.scale > 0, bound.scale, np.inf)
    ratio = float(max(0.0, excess.max(initial=0.0)))
    return replace(bound, offset=offset, ratio=ratio, limit=max(bound.limit, _OBSERVED * ratio))


def accumulation_precision(launch: Launch) -> tuple[float, float]:
    """Return the unit roundoff of accumulation relative to f32, and the largest `factor` of an unmodified kernel."""
    bits = [mantissa_bits(a.data.dtype) for a in launch.arguments if isinstance(a, BufferValue) and is_float(a.data)]
    unit = BOTH_SIDES * _F64_ROUNDOFF / UNIT_ROUNDOFF if max(bits, default=0) > 23 else 1.0
    lowest = min(bits, default=23)
    return unit, max(LARGEST_FACTOR, 2.0 ** -(lowest + 1) / (UNIT_ROUNDOFF * unit) / _LOW_PRECISION)


def mantissa_bits(dtype: np.dtype[Any]) -> int:
    """Return the number of explicit significand bits of a floating-point type."""
    return int(ml_dtypes.finfo(dtype).nmant)  # type: ignore[no-untyped-call]


def unit_in_last_place(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the unit in the last place of each element for floats with at most 16 bits, otherwise 0."""
    magnitude = np.abs(float_values(values))
    if not is_float(values) or values.dtype.itemsize > 2:
        return np.zeros(magnitude.shape)
    info = ml_dtypes.finfo(values.dtype)  # type: ignore[no-untyped-call]
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.where(np.isfinite(magnitude), np.maximum(magnitude, float(info.smallest_normal)), 1.0)))
    step: NDArray[np.float64] = np.exp2(exponent - int(info.nmant))
    return step


def float_inputs(launch: Launch) -> list[NDArray[Any]]:
    """Return the floating-point inputs of a launch."""
    return [a.data for a in launch.arguments if isinstance(a, BufferValue) and a.is_set and is_float(a.data)]


def is_float(values: NDArray[Any]) -> bool:
    """Return whether an array has a floating-point type, including 8-bit types and bf16."""
    return values.dtype.kind == "f" or values.dtype.name.startswith(("bfloat", "float"))


def float_values(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return an array in float64."""
    with np.errstate(invalid="ignore"):  # Uninitialised memory may contain a signalling NaN.
        return np.asarray(values).astype(np.float64)


def absolute_difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the absolute difference of each element; 0 unless both are finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(one - other)
    return np.where(np.isfinite(one) & np.isfinite(other), difference, 0.0)
