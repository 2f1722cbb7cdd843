"""Counter values of all instances (XCC, shader engine, channel) combined to one value per dispatch and counter.

A basic counter counts in every instance, so its instances are summed. A derived counter named `_max`, `_min` or `_avr` already
is a reduction; several rows of it are reduced in the same way. Invalid values get a note and are never replaced by zero:
infinite values and NaN are ignored, and so is a sum that would hide a negative instance. A negative total stays, and no
metric uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.rocprof.trace import CounterValues

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


CHANNEL_TRAFFIC = ("TCC_REQ", "TCC_EA0_RDREQ", "TCC_EA_RDREQ", "TCC_EA0_WRREQ", "TCC_EA_WRREQ")
"""Counters of L2 channels whose imbalance costs time. The busiest and the mean channel are added as `_max` and `_avr`."""


def per_dispatch(
    names: Sequence[str],
    name: NDArray[np.int64],
    dispatch: NDArray[np.int64],
    value: NDArray[np.float64],
    *,
    rows_are_channels: bool = False,
) -> tuple[dict[str, CounterValues], tuple[str, ...]]:
    """Return values by counter, and notes.

    Args:
        names: Counter names.
        name: Position in `names`, per row.
        dispatch: Position of the dispatch, per row.
        value: Value of one instance, per row; NaN if missing.
        rows_are_channels: Each row of a counter of channels is one channel.
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
            notes.append(f"{counter}: {spoilt} dispatches have a value that is not a number; ignored")
        if negative := int(np.count_nonzero(has_negative & good)):
            notes.append(f"{counter}: {negative} dispatches have an impossible negative count")
        if good.any():
            counters[counter] = CounterValues(dispatches[good], reduced[good])
        if rows_are_channels and counter in CHANNEL_TRAFFIC and good.all():
            counters |= {key: found for key, found in _channels(counter, dispatch[rows], value[rows]).items() if key not in names}
    return counters, tuple(notes)


def channels_by_name(counters: Mapping[str, CounterValues]) -> dict[str, CounterValues]:
    """Return the busiest and the mean channel of counters that are named by channel: `TCC_REQ[0]`, `TCC_REQ[1]`, ..."""
    found: dict[str, CounterValues] = {}
    for counter in CHANNEL_TRAFFIC:
        count = sum(name.startswith(f"{counter}[") for name in counters)
        named = [counters.get(f"{counter}[{number}]") for number in range(count)]
        values = [one for one in named if one is not None]
        if len(values) == count > 1 and f"{counter}_max" not in counters:
            rows = (np.concatenate([one.dispatch for one in values]), np.concatenate([one.value for one in values]))
            found |= _channels(counter, *rows)
    return found


def _channels(counter: str, dispatch: NDArray[np.int64], value: NDArray[np.float64]) -> dict[str, CounterValues]:
    """Return the busiest and the mean channel; nothing if dispatches have one row, or unequal numbers of rows."""
    _, instances = np.unique(dispatch, return_counts=True)
    if not len(instances) or instances.min() != instances.max() or instances[0] == 1:
        return {}
    found = {}
    for suffix in ("max", "avr"):
        dispatches, reduced, _ = _reduce(f"{counter}_{suffix}", dispatch, value)
        found[f"{counter}_{suffix}"] = CounterValues(dispatches, reduced)
    return found


def _reduce(
    counter: str, dispatch: NDArray[np.int64], value: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return dispatches, their values, and whether any of their instances is negative."""
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
