"""Results that are NaN because of inputs on which they do not depend: `unrelated_elements(...)`.

The product of an infinite weight and a zero of the padding is NaN. A rewrite that omits such products is correct.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.verify.comparison import same_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rocm_perf_lab.device.protocol import Launch

    Evaluated = Callable[[Launch], Mapping[str, NDArray[Any]]]

_FAR = 64.0
"""Magnitude of replaced elements relative to the largest one, so that they also determine maxima and minima."""
_SMALL = 256
_MOST_ALONE = 8
"""Maximum number of elements that are replaced one by one; in larger buffers, all are replaced at once."""
_MOST_CAUSES = 32
_MOST_GROUPS = 32


@dataclass(frozen=True)
class _Cause:
    """Non-finite elements of one input."""

    name: str
    places: NDArray[np.bool_]


def unrelated_elements(
    expected: Mapping[str, NDArray[Any]], changed: Launch, finite: Launch, evaluated: Evaluated, evaluated_finite: Evaluated
) -> dict[str, NDArray[np.bool_]]:
    """Return the NaN elements of outputs that would not be NaN if only inputs on which they depend were non-finite.

    An input without any effect on an output is not treated as the cause of its NaN: it may be multiplied by a zero input.

    Args:
        expected: Outputs with the inputs of `changed`.
        changed: Launch with non-finite inputs.
        finite: Launch with finite, non-zero inputs.
        evaluated: Returns the outputs for inputs like those of `changed`.
        evaluated_finite: The same for inputs like those of `finite`, which may have other scalars.

    Returns:
        Mask in the shape of the output, for each output with such elements.
    """
    undefined = {name: np.isnan(values.astype(np.float64)) for name, values in expected.items() if values.dtype.kind not in "biu"}
    undefined = {name: where for name, where in undefined.items() if where.any()}
    causes = list(_causes(changed, finite))
    if not undefined or not causes or len(causes) > _MOST_CAUSES:
        return {}
    outputs = evaluated_finite(finite)
    unaffected = {name: np.zeros(where.shape, np.int64) for name, where in undefined.items() if name in outputs}
    for number, cause in enumerate(causes):
        moved = {name: np.zeros(where.shape, np.bool_) for name, where in undefined.items()}
        for value in (_FAR, -_FAR):
            other = evaluated_finite(_moved(finite, cause, value))
            moved = {name: moved[name] | ~same_bytes(outputs[name], other[name]) for name in unaffected}
        for name, differs in moved.items():
            unaffected[name] |= np.where(differs, 0, 1 << number) if differs.any() else 0
    groups = sorted({int(g) for name, sets in unaffected.items() for g in np.unique(sets[undefined[name]])} - {0})
    found = {name: np.zeros(sets.shape, np.bool_) for name, sets in unaffected.items()}
    for group in groups[:_MOST_GROUPS]:
        left = evaluated(_restored(changed, finite, [c for number, c in enumerate(causes) if group >> number & 1]))
        for name, sets in unaffected.items():
            found[name] |= undefined[name] & (sets == group) & ~np.isnan(left[name].astype(np.float64))
    return {name: where for name, where in found.items() if where.any()}


def _causes(changed: Launch, finite: Launch) -> Iterator[_Cause]:
    known = _contents(finite)
    for argument in changed.arguments:
        if not isinstance(argument, BufferValue) or not argument.is_set or argument.data.dtype.kind in "biu":
            continue
        places = ~np.isfinite(argument.data.astype(np.float64)) & np.isfinite(known[argument.name].astype(np.float64))
        where = np.flatnonzero(places)
        if places.size <= _SMALL and where.size <= _MOST_ALONE:
            numbers = np.arange(places.size).reshape(places.shape)
            yield from (_Cause(argument.name, numbers == place) for place in where)
        elif where.size:
            yield _Cause(argument.name, places)


def _moved(finite: Launch, cause: _Cause, factor: float) -> Launch:
    """Return a launch in which the elements of a cause have another finite value."""
    data = _contents(finite)[cause.name]
    value = factor * float(np.max(np.abs(data.astype(np.float64)), initial=1.0))
    return _with_data(finite, cause.name, np.where(cause.places, np.array(value).astype(data.dtype), data))


def _restored(changed: Launch, finite: Launch, causes: Sequence[_Cause]) -> Launch:
    """Return a launch in which the elements of causes are finite."""
    known = _contents(finite)
    for cause in causes:
        data = _contents(changed)[cause.name]
        changed = _with_data(changed, cause.name, np.where(cause.places, known[cause.name], data))
    return changed


def _contents(launch: Launch) -> dict[str, NDArray[Any]]:
    return {a.name: a.data for a in launch.arguments if isinstance(a, BufferValue)}


def _with_data(launch: Launch, name: str, data: NDArray[Any]) -> Launch:
    arguments = (replace(a, data=data) if isinstance(a, BufferValue) and a.name == name else a for a in launch.arguments)
    return replace(launch, arguments=tuple(arguments))
