"""Stratified choice of the workgroups to trace, from exact counts of every workgroup.

Workgroups with similar counts form a stratum. Every stratum is represented by traced workgroups, and every workgroup of the
launch is assigned one of them, so that a launch cannot appear faster because its expensive workgroups were not traced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

WORKGROUP_COUNTS = np.dtype(
    [
        (name, np.uint64)
        for name in (
            "waves",
            "instructions",
            "load_bytes",
            "store_bytes",
            "atomic_operations",
            "lds_cycles",
            "span_bytes",
            "address_sum",
        )
    ]
)
"""struct rpl_workgroup_counts: wavefronts, wavefront instructions, bytes requested by vector loads and stores, lanes of atomics,
busy cycles of LDS, extent of vector accesses in bytes (at most 4096 each, so that strided accesses differ from contiguous
ones), and the sum of addresses, which detects workgroups that access other memory when they run again."""

_COMPARED = ("waves", "instructions", "load_bytes", "store_bytes", "atomic_operations", "lds_cycles", "span_bytes")
_WAVE_COST = 64
"""Instructions that cost as much as the launch of a wavefront, for weights."""
_NEGLIGIBLE_SPREAD = 0.01
"""Standard deviation of the logarithms of counts below which a stratum is not divided."""
_NEGLIGIBLE_SHARE = 0.02
_MUCH_HEAVIER = 1.1
_MANY_DISTINCT = 4096
_LOG_STEP = 1 / 32
"""Resolution of logarithms if there are more distinct counts than that."""
_ATTEMPTS = 8
_STRATA_PART = 0.5
"""Strata relative to the size of the sample, if there are more behaviours than it can hold."""


@dataclass(frozen=True)
class WorkgroupSample:
    """Traced workgroups and the assignment of all workgroups to them.

    Args:
        chosen: Linear ids of the traced workgroups, ascending.
        strata: (n_workgroups) -> stratum.
        representatives: (n_workgroups) -> index into `chosen` of the workgroup whose trace stands for this one; a traced
            workgroup has itself.
        scale: (n_workgroups) -> wavefront instructions divided by those of the representative.
    """

    chosen: tuple[int, ...]
    strata: Integers
    representatives: Integers
    scale: Floats


def strata_of(counts: NDArray[np.void], wanted: int) -> Integers:
    """Divide workgroups into strata for a sample of `wanted` workgroups.

    Every behaviour, a combination of counts, is a stratum if the sample is large enough; behaviours that differ negligibly are
    one. Otherwise those with the nearest counts are merged, and a part of the sample remains for further members of strata.

    Args:
        counts: (n_workgroups) of :data:`WORKGROUP_COUNTS`.
        wanted: Maximum number of workgroups in the sample, at least 1.

    Returns:
        (n_workgroups) -> stratum, numbered from 0.
    """
    behaviours = 1 if _is_uniform(counts) else len(_distinct_rows(_features(counts))[0])
    return stratify(counts, wanted if behaviours <= wanted else max(1, int(_STRATA_PART * wanted)))


def stratify(counts: NDArray[np.void], limit: int) -> Integers:
    """Divide workgroups into at most `limit` strata of similar counts.

    The stratum with the largest variance of logarithms, weighted by instructions, is divided until it is negligible. Workgroups
    with equal counts are in one stratum.

    Args:
        counts: (n_workgroups) of :data:`WORKGROUP_COUNTS`.
        limit: Maximum number of strata, at least 1.

    Returns:
        (n_workgroups) -> stratum, numbered from 0.
    """
    if _is_uniform(counts):
        return np.zeros(len(counts), np.int64)
    distinct, row_of = _distinct_rows(_features(counts))
    weights = _sums(row_of, _weights(counts))
    leaves = [np.arange(len(distinct))]
    costs = [_cost(distinct, weights)]
    negligible = _NEGLIGIBLE_SPREAD**2 * weights.sum()
    while len(leaves) < limit and max(costs) > negligible:
        number = int(np.argmax(costs))
        for part in _halves(distinct, weights, leaves.pop(number)):
            leaves.append(part)
            costs.append(_cost(distinct[part], weights[part]))
        costs.pop(number)
    stratum_of_row = np.empty(len(distinct), np.int64)
    for stratum, leaf in enumerate(sorted(leaves, key=lambda leaf: int(leaf.min()))):
        stratum_of_row[leaf] = stratum
    return stratum_of_row[row_of]


def choose_workgroups(
    counts: NDArray[np.void],
    strata: Integers,
    wanted: int,
    *,
    xcds: int,
    random: np.random.Generator,
    instructions: float = float("inf"),
) -> tuple[int, ...]:
    """Choose workgroups to trace at random: some of every stratum, in pairs of neighbours if possible, and the heaviest one.

    Args:
        counts: (n_workgroups) of :data:`WORKGROUP_COUNTS`.
        strata: (n_workgroups) -> stratum.
        wanted: Maximum number of workgroups, at least the number of strata.
        xcds: Workgroup i runs on XCD i modulo this, so that i and i + xcds are neighbours.
        random: Source of the choice.
        instructions: Approximate limit of wavefront instructions to trace; only the second and further workgroups of a stratum
            are omitted for it.

    Returns:
        Ascending linear ids.
    """
    if wanted >= len(counts) and counts["instructions"].sum() <= instructions:
        return tuple(range(len(counts)))
    weights = _weights(counts)
    heaviest = int(np.argmax(weights))
    sizes = np.bincount(strata)
    reserved = int(weights.min() < weights[heaviest] and wanted > len(sizes))
    lengths = _sums(strata, counts["instructions"].astype(np.float64)) / sizes
    shares = _shares(_sums(strata, weights), sizes, lengths, wanted - reserved, instructions)
    chosen: set[int] = set()
    for stratum, share in enumerate(shares):
        chosen |= _choose_from(np.flatnonzero(strata == stratum), int(share), xcds, random)
    if len(chosen) < wanted and weights[list(chosen)].max() < weights[heaviest]:
        chosen.add(heaviest)
    return tuple(sorted(chosen))


def is_represented(counts: NDArray[np.void], strata: Integers, chosen: Sequence[int]) -> bool:
    """Return whether a sample chosen before the counts were known is as good as one from strata.

    Args:
        counts: (n_workgroups) of :data:`WORKGROUP_COUNTS`.
        strata: (n_workgroups) -> stratum.
        chosen: Linear ids.

    Returns:
        True if strata without a chosen workgroup have a negligible share of the work, and no workgroup is much heavier than
        the heaviest chosen one.
    """
    if not chosen:
        return False
    ids, weights = np.asarray(chosen, np.int64), _weights(counts)
    outside = weights[~np.isin(strata, strata[ids])].sum()
    return bool(outside <= _NEGLIGIBLE_SHARE * weights.sum() and weights.max() <= _MUCH_HEAVIER * weights[ids].max())


def assign(
    counts: NDArray[np.void], strata: Integers, chosen: Sequence[int], *, xcds: int, random: np.random.Generator
) -> WorkgroupSample:
    """Assign every workgroup the traced workgroup nearest in counts, if possible of its stratum; equally near ones alternate.

    Args:
        counts: (n_workgroups) of :data:`WORKGROUP_COUNTS`.
        strata: (n_workgroups) -> stratum.
        chosen: Ascending linear ids of the traced workgroups, at least one.
        xcds: See :func:`choose_workgroups`. Adjacent workgroups of an XCD are assigned adjacent representatives.
        random: Source of the order in which equally near representatives alternate.
    """
    ids = np.asarray(chosen, np.int64)
    if _is_uniform(counts):
        representatives = _alternating(np.arange(len(counts)), np.arange(len(ids)), ids, xcds, random)
        representatives[ids] = np.arange(len(ids))
        return WorkgroupSample(tuple(ids.tolist()), strata, representatives, np.ones(len(counts)))
    features, row_of = _distinct_rows(np.column_stack([_features(counts), strata]))
    references = np.column_stack([_features(counts[ids]), strata[ids]])
    nearest = _nearest(features, references)
    sets, set_of_row = np.unique(nearest, axis=0, return_inverse=True)
    set_of = set_of_row.reshape(-1)[row_of]
    representatives = np.empty(len(counts), np.int64)
    for number, members in enumerate(sets):
        workgroups = np.flatnonzero(set_of == number)
        representatives[workgroups] = _alternating(workgroups, np.flatnonzero(members), ids, xcds, random)
    representatives[ids] = np.arange(len(ids))
    instructions = counts["instructions"].astype(np.float64)
    scale = instructions / np.maximum(instructions[ids][representatives], 1.0)
    return WorkgroupSample(tuple(int(n) for n in ids), strata, representatives, scale)


def _is_uniform(counts: NDArray[np.void]) -> bool:
    return all((counts[name] == counts[name][0]).all() for name in _COMPARED)


def _features(counts: NDArray[np.void]) -> Floats:
    """Return the logarithms of the compared counts, (n_workgroups, n_counts)."""
    logarithms: Floats = np.log1p(np.column_stack([counts[name] for name in _COMPARED]).astype(np.float64))
    if len(counts) > _MANY_DISTINCT and len(np.unique(counts["instructions"] + counts["span_bytes"])) > _MANY_DISTINCT:
        return np.round(logarithms / _LOG_STEP) * _LOG_STEP
    return logarithms


def _weights(counts: NDArray[np.void]) -> Floats:
    return np.asarray(counts["instructions"] + _WAVE_COST * counts["waves"], np.float64)


def _sums(group_of: Integers, values: Floats) -> Floats:
    return np.bincount(group_of, weights=values).astype(np.float64)


def _distinct_rows(rows: Floats) -> tuple[Floats, Integers]:
    """Return the distinct rows and the number of that row for each row."""
    digest = np.zeros(len(rows), np.uint64)
    for column in np.ascontiguousarray(rows.T):
        digest = (digest ^ column.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        digest ^= digest >> np.uint64(29)
    _, first, row_of = np.unique(digest, return_index=True, return_inverse=True)
    return rows[first], row_of.astype(np.int64)


def _cost(rows: Floats, weights: Floats) -> float:
    """Return the weighted sum of squared distances from the mean, over all columns."""
    mean = np.average(rows, axis=0, weights=weights)
    return float((weights[:, None] * (rows - mean) ** 2).sum())


def _halves(rows: Floats, weights: Floats, leaf: Integers) -> tuple[Integers, Integers]:
    """Divide rows along the column with the largest variance at the place that leaves the least."""
    inside, weight = rows[leaf], weights[leaf]
    mean = np.average(inside, axis=0, weights=weight)
    column = inside[:, int(np.argmax((weight[:, None] * (inside - mean) ** 2).sum(axis=0)))]
    order = np.argsort(column, kind="stable")
    values, mass = column[order], weight[order]
    below, total = np.cumsum(mass)[:-1], mass.sum()
    sums, whole = np.cumsum(mass * values)[:-1], (mass * values).sum()
    between = sums**2 / below + (whole - sums) ** 2 / (total - below)
    between[values[1:] == values[:-1]] = -np.inf
    cut = int(np.argmax(between)) + 1
    return leaf[order[:cut]], leaf[order[cut:]]


def _shares(weights: Floats, sizes: Integers, lengths: Floats, wanted: int, instructions: float) -> Integers:
    """Distribute `wanted` workgroups: one per stratum, heavy ones first, the others in proportion to weight (D'Hondt)."""
    shares = np.zeros(len(weights), np.int64)
    shares[np.argsort(-weights, kind="stable")[:wanted]] = 1
    while shares.sum() < wanted:
        left = instructions - float((shares * lengths).sum())
        gains = np.where((shares < sizes) & (lengths <= left), weights / (shares + 1), -1.0)
        if gains.max() < 0:
            break
        shares[int(np.argmax(gains))] += 1
    return shares


def _choose_from(members: Integers, share: int, xcds: int, random: np.random.Generator) -> set[int]:
    """Choose pairs of neighbours, and a single one if `share` is odd, from equal parts of the ascending `members`."""
    if share >= len(members):
        return set(members.tolist())
    chosen: set[int] = set()
    for part in np.array_split(members, max(1, -(-share // 2))):
        free = [n for n in part[random.integers(len(part), size=_ATTEMPTS)].tolist() if n not in chosen]
        first = next((n for n in free if _contains(members, n + xcds) and n + xcds not in chosen), free[0] if free else None)
        if first is None:
            continue
        chosen.add(first)
        if len(chosen) < share and _contains(members, first + xcds):
            chosen.add(first + xcds)
    if len(chosen) == share:
        return chosen
    others = np.setdiff1d(members, np.fromiter(chosen, np.int64))
    return chosen | set(random.permutation(others)[: share - len(chosen)].tolist())


def _contains(ascending: Integers, value: int) -> bool:
    place = int(np.searchsorted(ascending, value))
    return place < len(ascending) and int(ascending[place]) == value


def _nearest(rows: Floats, references: Floats) -> NDArray[np.bool_]:
    """Return (n_rows, n_references): True for the nearest references; the last column, the stratum, decides first."""
    result = np.empty((len(rows), len(references)), np.bool_)
    for start in range(0, len(rows), _MANY_DISTINCT):
        part = rows[start : start + _MANY_DISTINCT, None, :]
        distance = np.abs(part[..., :-1] - references[:, :-1]).sum(axis=-1)
        distance += np.where(part[..., -1] == references[:, -1], 0.0, 1e6)
        result[start : start + _MANY_DISTINCT] = distance <= distance.min(axis=1, keepdims=True) + 1e-9
    return result


def _alternating(workgroups: Integers, candidates: Integers, ids: Integers, xcds: int, random: np.random.Generator) -> Integers:
    """Return a candidate for each workgroup: runs of two neighbours of an XCD have a pair of neighbours, in random order."""
    units = _units(candidates, ids, xcds)
    blocks = -(-len(workgroups) // 2)
    rounds = -(-blocks // len(units))
    unit_of_block = random.permuted(np.tile(np.arange(len(units)), (rounds, 1)), axis=1).reshape(-1)[:blocks]
    order = np.lexsort((workgroups // xcds, workgroups % xcds))
    place = np.empty(len(workgroups), np.int64)
    place[order] = np.arange(len(workgroups))
    return cast("Integers", units[unit_of_block[place // 2], place % 2])


def _units(candidates: Integers, ids: Integers, xcds: int) -> Integers:
    """Return candidates as pairs of neighbours, twice, and those without one as pairs of themselves, once: (n_units, 2)."""
    left = {int(ids[c]): int(c) for c in candidates}
    units = []
    while left:
        first = min(left)
        index = left.pop(first)
        pair = (index, left.pop(first + xcds, index))
        units += [pair] if pair == (index, index) else [pair, pair]
    return np.array(units, np.int64)
