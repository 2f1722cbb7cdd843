"""Counter values of instances (XCC, shader engine, channel) put together, one value per dispatch and counter.

A basic counter counts in every instance: its instances add up. A derived counter named `_max`, `_min` or `_avr` already
is a reduction; where it comes in several rows they are reduced in the same way. What cannot be gets a note and is never
replaced by a zero: a value that is infinite or no number is left out, and so is a sum that would hide a negative instance;
a negative total stays, and no metric takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.trace import CounterValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def per_dispatch(
    names: Sequence[str], name: NDArray[np.int64], dispatch: NDArray[np.int64], value: NDArray[np.float64]
) -> tuple[dict[str, CounterValues], tuple[str, ...]]:
    """Values by counter, and notes.

    Args:
        names: Of the counters.
        name: Position in `names`, per row.
        dispatch: Position of the dispatch, per row.
        value: Of one instance, per row; not a number where there is none.
    """
    counters, notes = {}, []
    order = np.argsort(name, kind="stable")
    bounds = np.searchsorted(name[order], np.arange(len(names) + 1))
    for index, counter in sorted(enumerate(names), key=lambda item: item[1]):
        rows = order[bounds[index] : bounds[index + 1]]
        if len(rows) == 0:
            continue
        dispatches, reduced, has_negative = _reduce(counter, dispatch[rows], value[rows])
        good = np.isfinite(reduced) & ~(has_negative & (reduced >= 0))
        if spoilt := int(len(good) - good.sum()):
            notes.append(f"{counter}: {spoilt} dispatches have a value that is no number; left out")
        if negative := int(np.count_nonzero(has_negative & good)):
            notes.append(f"{counter}: {negative} dispatches have a negative count, which cannot be")
        if good.any():
            counters[counter] = CounterValues(dispatches[good], reduced[good])
    return counters, tuple(notes)


def _reduce(
    counter: str, dispatch: NDArray[np.int64], value: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Dispatches, their values, and whether an instance of them is negative."""
    order = np.argsort(dispatch, kind="stable")
    dispatch, value = dispatch[order], value[order]
    first = np.flatnonzero(np.diff(dispatch, prepend=-1))
    reduction = counter.rpartition("_")[2].lower()
    if reduction == "max":
        reduced = np.maximum.reduceat(value, first)
    elif reduction == "min":
        reduced = np.minimum.reduceat(value, first)
    else:
        reduced = np.add.reduceat(value, first)
        if reduction in ("avr", "avg"):
            reduced = reduced / np.diff(first, append=len(value))
    return dispatch[first], reduced, np.logical_or.reduceat(value < 0, first)
