"""Rounding errors of a NumPy reference, by perturbing the result of each of its operations.

A :class:`PerturbedArray` is a NumPy array that reports its operations to a :class:`RoundingModel`. The model adds an error of
random sign to the results of one group of operations at a time. The squared changes of an output, summed over all groups, are
its error variance: Monte Carlo arithmetic (Parker 1997) with one group of operations per evaluation, so that few evaluations
suffice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.verify.contraction import Contraction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

UNIT_ROUNDOFF = 2.0**-24
"""Unit roundoff of f32, the precision in which kernels accumulate f16, bf16 and f32."""
SMALLEST_NORMAL = 2.0**-126
"""Smallest normal f32; hardware functions may flush smaller results to zero."""
_CHAIN = 8192
_PARTIAL_SUMS = 1024
_CHAIN_OF_EQUAL = 2048
_EQUAL = 1e-9
"""Relative variance below which terms are equal."""
_EQUAL_GROWTH = 0.2
_SPREAD = 2.0
"""Bound of partial sums of terms with random signs in any order, relative to the root of the sum of squares."""
_PREFIX_ELEMENTS = 1 << 22
"""Number of elements above which the largest partial sum of a reduction is not computed."""
_EXACT = frozenset({
    "absolute", "fabs", "negative", "positive", "conjugate", "maximum", "minimum", "fmax", "fmin", "copysign", "sign", "floor",
    "ceil", "trunc", "rint", "ldexp", "nextafter", "heaviside", "signbit", "isfinite", "isinf", "isnan", "greater", "less",
    "greater_equal", "less_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_not", "logical_xor",
})  # fmt: skip
_DISCONTINUOUS = frozenset({
    "sign", "floor", "ceil", "trunc", "rint", "heaviside", "signbit", "greater", "greater_equal", "less", "less_equal", "equal",
    "not_equal", "floor_divide", "remainder", "fmod", "mod", "argmax", "argmin", "argsort", "sort", "searchsorted", "digitize",
    "histogram", "bincount", "round", "around", "fix", "partition",
})  # fmt: skip
_ROUNDINGS = {
    "add": 1.0, "subtract": 1.0, "multiply": 1.0, "square": 1.0, "divide": 2.0, "reciprocal": 2.0, "sqrt": 2.0, "exp": 2.5,
    "exp2": 2.5, "log": 2.5, "log2": 2.5, "log10": 2.5,
}  # fmt: skip
"""Roundings of one operation; with :data:`~rocm_perf_lab.verify.error_bounds.SAFETY`, 2.5 ulp of a division and 3 of `exp` as in
the OpenCL C specification."""
_OTHER_ROUNDINGS = 4.0
"""Trigonometric and hyperbolic functions, and powers: 5 ulp."""
_MULTILINEAR = frozenset({"dot", "inner", "vdot", "tensordot", "outer", "convolve", "correlate", "kron"})
_RELATIVE = frozenset({"norm", "trapezoid", "logaddexp", "average", "cov", "corrcoef", "nansum", "nanmean", "nanvar", "nanstd"})


def growth(terms: float | NDArray[Any]) -> NDArray[np.float64]:
    """Return the standard deviation of the rounding error of a sum, in unit roundoffs of its largest partial sum.

    The errors of `n` additions are independent (Higham and Mary 2019), and the partial sums of positive numbers grow linearly:
    sqrt(n / 3) for a sum in one chain. More than 8,192 terms are added by several chains, whose results (at most 1,024) are
    added in any order. A tree has a smaller error.
    """
    count = np.maximum(np.asarray(terms, np.float64), 1.0)
    one_chain = np.maximum(1.0, count / 3)
    result: NDArray[np.float64] = np.sqrt(np.where(count <= _CHAIN, one_chain, _CHAIN**2 / (3 * count) + _PARTIAL_SUMS / 3))
    return result


def growth_of_equal(terms: float | NDArray[Any]) -> NDArray[np.float64]:
    """Return the growth for errors of additions with equal signs: at most n / 2 roundings in one chain.

    This happens if the terms are equal, or if they have few bits.
    """
    count = np.asarray(terms, np.float64)
    result: NDArray[np.float64] = np.maximum(growth(count), np.minimum(count, _CHAIN_OF_EQUAL) * _EQUAL_GROWTH)
    return result


@dataclass
class RoundingModel:
    """Errors that are added to the results of operations.

    Args:
        amplitude: Relative error of one rounding.
        seed: Seed of the signs.
        groups: Number of groups of operations; operation `i` is in group `i % groups`.
        active: Group whose results are perturbed; -1 for none.
        sign: Factor of all errors, 1 or -1.
        has_coarse_inputs: Whether inputs have at most 16 bits. Errors of additions of such terms may have equal signs.
        operations: Number of operations that can be perturbed.
        is_discontinuous: Whether an operation such as a comparison or rounding was evaluated.
        is_incomplete: Whether elements were extracted as scalars, whose operations are unknown.
    """

    amplitude: float
    seed: int
    groups: int = 1
    active: int = -1
    sign: float = 1.0
    has_coarse_inputs: bool = False
    operations: int = 0
    is_discontinuous: bool = False
    is_incomplete: bool = False

    def wrap(self, array: NDArray[Any]) -> PerturbedArray:
        """Return a view of an array whose operations are perturbed."""
        wrapped = np.asarray(array).view(PerturbedArray)
        wrapped.model = self
        return wrapped

    def perturb(self, values: NDArray[Any], scale: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return the results of an operation with added errors.

        Args:
            values: Exact results.
            scale: Returns the absolute size of the error of each result in roundings.
        """
        number = self.operations
        self.operations += 1
        if number % self.groups != self.active:
            return values
        signs = np.random.default_rng([self.seed, number]).integers(0, 2, values.shape, np.int8) * np.int8(2) - np.int8(1)
        with np.errstate(all="ignore"):
            error = np.abs(scale()) * self.amplitude
            error += SMALLEST_NORMAL
            error = error * (signs * self.sign)
            if not values.all():
                error = np.where(values == 0, error * (np.abs(error) > 2 * SMALLEST_NORMAL), error)
            if not np.isfinite(np.sum(error)):
                error = np.where(np.isfinite(values) & np.isfinite(error), error, 0.0)
            result: NDArray[Any] = values + error
            return result


_CONSTRUCTORS = (
    "array", "asarray", "ascontiguousarray", "asfortranarray", "copy", "empty", "empty_like", "full", "full_like", "ones",
    "ones_like", "zeros", "zeros_like",
)  # fmt: skip
"""NumPy functions that return a plain array even for a :class:`PerturbedArray`, or without array arguments."""


class TrackedNumpy(ModuleType):
    """NumPy for a reference: new floating-point arrays also report their operations."""

    def __init__(self, model: RoundingModel) -> None:
        super().__init__("numpy")
        for name in _CONSTRUCTORS:
            setattr(self, name, partial(_constructed, model, getattr(np, name)))

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of NumPy."""
        return getattr(np, name)

    def replace_in(self, module: ModuleType) -> None:
        """Replace NumPy in the namespace of a module, under any name."""
        for name, value in list(vars(module).items()):
            if value is np:
                setattr(module, name, self)
            elif any(value is getattr(np, constructor) for constructor in _CONSTRUCTORS):
                setattr(module, name, getattr(self, value.__name__))


def _constructed(model: RoundingModel, function: Callable[..., NDArray[Any]], *args: Any, **kwargs: Any) -> NDArray[Any]:
    """Return the result of a constructor, with tracked operations if it has floating-point elements."""
    result = np.asarray(function(*args, **kwargs))
    source = args[0] if args else None
    if not isinstance(source, PerturbedArray):
        return model.wrap(result) if result.dtype.kind == "f" else result
    if result.dtype.kind != "f" or result.dtype.itemsize < source.dtype.itemsize:
        model.is_discontinuous = True
    if result.dtype.kind != "f":
        return result
    wrapped = model.wrap(result)
    wrapped.terms = source.terms
    return wrapped


class PerturbedArray(np.ndarray[Any, Any]):
    """Array whose operations have the errors of a model; each element is a sum of `terms` terms, if known."""

    model: RoundingModel | None = None
    terms: float = 1.0

    def __array_finalize__(self, source: NDArray[Any] | None) -> None:
        """Inherit the model and the terms of the array from which this one is derived."""
        self.model = getattr(source, "model", None)
        self.terms = getattr(source, "terms", 1.0)

    def __array_ufunc__(self, ufunc: np.ufunc, method: Any, *inputs: Any, **kwargs: Any) -> Any:
        """Evaluate an operation exactly, then add its errors."""
        model = _model_of([*inputs, *(kwargs.get("out") or ())])
        plain = [_plain(value) for value in inputs]
        out = kwargs.pop("out", None)
        if isinstance(kwargs.get("where"), PerturbedArray):
            kwargs["where"] = _plain(kwargs["where"])
        if method == "at":
            ufunc.at(*plain)
            return None
        result = getattr(ufunc, method)(*plain, **kwargs)
        if model is None:
            return result
        model.is_discontinuous |= ufunc.__name__ in _DISCONTINUOUS
        results = result if isinstance(result, tuple) else (result,)
        terms = [float(getattr(value, "terms", 1.0)) for value in inputs]
        finished = tuple(_finished(model, ufunc, method, plain, kwargs, value, terms) for value in results)
        if out is not None:
            for target, value in zip(out, finished, strict=True):
                _plain(target)[...] = _plain(value)
            return out[0] if len(out) == 1 else out
        return finished if isinstance(result, tuple) else finished[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Evaluate a NumPy function; products of arrays have the errors of their sums."""
        model = _model_of([*_flat(args), *_flat(kwargs.values())])
        if model is None:
            return func(*_stripped(args), **_stripped(kwargs))
        model.is_discontinuous |= func.__name__ in _DISCONTINUOUS
        plain = _stripped(args)
        contraction = Contraction.of(plain) if func.__name__ == "einsum" and not kwargs else None
        if contraction is not None and _have_equal_axes(contraction, plain[1:]):
            exact = func(*plain) if model.active < 0 else None  # as for plain arrays
            return _product(model, contraction, plain[1:], None if exact is None else np.asarray(exact, np.float64))
        if func.__name__ == "einsum" or func.__name__ in _MULTILINEAR:
            return _product(model, lambda *operands: func(*operands, **_stripped(kwargs)), args)
        result = super().__array_function__(func, types, args, kwargs)
        if func.__name__ in _RELATIVE and isinstance(result, np.ndarray | np.floating):
            values = np.asarray(result)
            terms = max((np.size(a) for a in _flat(args) if isinstance(a, np.ndarray)), default=1) / max(values.size, 1)
            return model.wrap(model.perturb(values, lambda: values * growth(terms)))
        is_float = isinstance(result, np.ndarray) and result.dtype.kind == "f"
        return model.wrap(result) if is_float and not isinstance(result, PerturbedArray) else result

    def __getitem__(self, key: Any) -> Any:
        """Return an element, whose operations are unknown, or an array."""
        result = super().__getitem__(key)
        if isinstance(result, np.generic):
            self._leave()
        return result

    def __iter__(self) -> Any:
        """Iterate over the first axis."""
        if self.ndim == 1:
            self._leave()
        return super().__iter__()

    def __float__(self) -> float:
        """Return the only element."""
        self._leave()
        return float(self.view(np.ndarray))

    def item(self, *args: Any) -> Any:
        """Return one element."""
        self._leave()
        return super().item(*args)

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        self._leave()
        return super().tolist()

    def _leave(self) -> None:
        if self.model is not None:
            self.model.is_incomplete = True

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Convert the elements; a conversion to a type of lower precision is discontinuous."""
        if self.model is not None and (np.dtype(dtype).kind != "f" or np.dtype(dtype).itemsize < self.dtype.itemsize):
            self.model.is_discontinuous = True
        return super().astype(dtype, *args, **kwargs)


def _finished(
    model: RoundingModel, ufunc: np.ufunc, method: str, plain: Sequence[Any], kwargs: Any, value: Any, terms: Sequence[float]
) -> Any:
    values = np.asarray(value)
    if values.dtype == object:  # a Python function applied to each element
        values = values.astype(np.float64)
    if values.dtype.kind != "f" or (ufunc.__name__ in _EXACT):
        return model.wrap(values) if values.dtype.kind == "f" else value
    values = values.astype(np.float64, copy=False)
    if ufunc.__name__ in ("matmul", "vecdot", "matvec", "vecmat"):
        return _product(model, ufunc, plain, values)
    if ufunc.__name__ in ("add", "subtract") and method == "__call__" and min(terms) > 1:
        return _joined(model, plain, values, terms)
    scale = _error_scale(model, ufunc.__name__, method, plain, kwargs, values)
    result = model.wrap(model.perturb(values, scale))
    if ufunc.__name__ == "add" and method == "reduce":
        result.terms = terms[0] * np.size(plain[0]) / max(values.size, 1)
    elif ufunc.__name__ in ("add", "subtract") and method == "__call__":
        result.terms = sum(terms) if max(terms) > 1 else 1.0
    return result


def _joined(model: RoundingModel, plain: Sequence[Any], values: NDArray[Any], terms: Sequence[float]) -> PerturbedArray:
    """Return the sum or difference of two sums; a kernel may add the terms of the smaller sum to the larger one, one by one."""
    count = min(terms)

    def scale() -> NDArray[Any]:
        size = np.sqrt(np.square(np.asarray(plain[0], np.float64)) + np.square(np.asarray(plain[1], np.float64)))
        error: NDArray[Any] = size * growth(3 * count)
        return error

    result = model.wrap(model.perturb(values, scale))
    result.terms = sum(terms)
    return result


def _error_scale(
    model: RoundingModel, name: str, method: str, plain: Sequence[Any], kwargs: Any, values: NDArray[Any]
) -> Callable[[], NDArray[Any]]:
    """Return the function that computes the size of errors of an elementwise operation, reduction or scan."""
    source = np.asarray(plain[0], np.float64) if method in ("reduce", "accumulate") else values
    axis = kwargs.get("axis", plain[1] if len(plain) > 1 and method != "__call__" else 0)

    def reduced() -> NDArray[Any]:
        terms = source.size / max(values.size, 1)
        if name != "add":
            relative: NDArray[Any] = values * growth(3 * terms)  # one error per factor
            return relative
        kept = {"axis": axis, "keepdims": bool(kwargs.get("keepdims", False))}
        size = np.abs(values)
        if source.size <= _PREFIX_ELEMENTS and source.size and (axis is None or np.ndim(axis) == 0):
            prefix = np.add.accumulate(source.reshape(-1) if axis is None else source, axis=axis or 0)
            size = np.maximum(size, np.abs(prefix).max(axis=axis or 0).reshape(size.shape))
        return _sum_error(model, size, values, np.add.reduce(np.square(source), **kept), terms)

    def scanned() -> NDArray[Any]:
        position = np.arange(1, source.shape[axis] + 1).reshape(
            [-1 if d == axis % source.ndim else 1 for d in range(source.ndim)]
        )
        if name != "add":
            return values * np.sqrt(position)
        top = np.maximum.accumulate(np.abs(values), axis=axis)
        return _sum_error(model, top, values, np.add.accumulate(np.square(source), axis=axis), position)

    if method == "reduce":
        return reduced
    if method == "accumulate":
        return scanned
    roundings = _ROUNDINGS.get(name, _OTHER_ROUNDINGS)
    return lambda: values * roundings


def _product(
    model: RoundingModel, function: Callable[..., Any], args: Sequence[Any], known: NDArray[np.float64] | None = None
) -> Any:
    """Return the results of a function that is linear in each array, such as a matrix product, with the errors of its sums.

    Args:
        model: Errors.
        function: Function of arrays.
        args: Its arguments.
        known: Exact results, if already computed.
    """
    plain = [_stripped(value) for value in args]
    values = np.asarray(function(*plain), np.float64) if known is None else known
    is_array = [isinstance(value, np.ndarray) for value in plain]
    if function is np.matmul:
        terms = float(plain[0].shape[-1])
    elif isinstance(function, Contraction):
        terms = float(function.terms(plain[0]))
    else:
        ones = function(*(np.ones_like(v) if array else v for v, array in zip(plain, is_array, strict=True)))
        terms = float(np.max(ones)) if np.size(ones) else 1.0

    def scale() -> NDArray[Any]:
        squares = function(*(np.square(v) if array else v for v, array in zip(plain, is_array, strict=True)))
        return _sum_error(model, np.abs(values), values, np.abs(squares), terms)

    result = model.wrap(model.perturb(values, scale))
    result.terms = max(terms, 1.0)
    return result


def _have_equal_axes(contraction: Contraction, arrays: Sequence[NDArray[Any]]) -> bool:
    """Return whether axes with equal labels have equal lengths; `einsum` broadcasts axes of length 1."""
    one, other = (dict(zip(n, a.shape, strict=True)) for n, a in zip((contraction.one, contraction.other), arrays, strict=True))
    return all(other.get(label, size) == size for label, size in one.items())


def _sum_error(
    model: RoundingModel, largest: NDArray[Any], total: NDArray[Any], squares: NDArray[Any], terms: Any
) -> NDArray[Any]:
    """Return the absolute size of the error of sums in roundings.

    Args:
        model: Model with the precision of the inputs.
        largest: Largest partial sum in one order.
        total: Sums.
        squares: Sums of squared terms; their root is the typical size of partial sums of terms with random signs.
        terms: Terms per sum.
    """
    count = np.asarray(terms, np.float64)
    size = np.sqrt(np.square(largest) + np.where(count > 1, _SPREAD**2 * squares, 0.0))
    are_equal = np.abs(count * squares - np.square(total)) <= _EQUAL * np.square(total)
    result: NDArray[Any] = size * np.where(are_equal | model.has_coarse_inputs, growth_of_equal(count), growth(count))
    return result


def _model_of(values: Sequence[Any]) -> RoundingModel | None:
    return next((v.model for v in values if isinstance(v, PerturbedArray) and v.model is not None), None)


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, PerturbedArray) else value


def _stripped(value: Any) -> Any:
    """Return nested sequences and mappings with plain arrays."""
    if isinstance(value, list | tuple):
        return type(value)(_stripped(item) for item in value)
    if isinstance(value, dict):
        return {key: _stripped(item) for key, item in value.items()}
    return _plain(value)


def _flat(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += _flat(value) if isinstance(value, list | tuple) else [value]
    return found
