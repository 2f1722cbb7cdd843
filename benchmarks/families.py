"""Synthetic search landscapes of known structure, generated from a number.

Each family isolates one difficulty of search. Even numbers are for development. Odd numbers are held out: they are evaluated
after a change to the sampler is decided. Times are not measured; their unit is an arbitrary ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.autotune.landscape import Landscape
from rocm_perf_lab.autotune.spaces.space import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocm_perf_lab.autotune.spaces.formula import Column

    Values = dict[str, tuple[bool | int | float | str, ...]]

PARTS = {"development": (0, 2), "held-out": (1, 3)}
"""Numbers of the landscapes of each part."""


def drawn_families(numbers: Iterable[int]) -> list[Landscape]:
    """Return every family, once per number."""
    return [drawn(family, number) for family in FAMILIES for number in numbers]


def drawn(family: str, number: int) -> Landscape:
    """Return one landscape; equal numbers return equal landscapes."""
    random = np.random.default_rng([number, *family.encode()])
    space, times = FAMILIES[family](random)
    return Landscape(f"{family}_{number}", space, times)


def _separable(random: np.random.Generator) -> tuple[Space, Column]:
    """Separable: the time is a product with one factor per parameter."""
    space = _grid(_ordinal(random, [8, 6, 6, 4, 4, 2]))
    return space, np.exp(_bowls(_unit(space), random))


def _valley(random: np.random.Generator) -> tuple[Space, Column]:
    """A long curved valley along a sum of all logarithms, as for tile sizes with a bounded product."""
    space = _grid(_ordinal(random, [8, 8, 6, 6, 3]))
    return space, np.exp(_bent(_unit(space), random))


def _rugged(random: np.random.Generator) -> tuple[Space, Column]:
    """Kauffman's NK model: the contribution of a parameter is random for every pair of values of two others."""
    space = _grid(_ordinal(random, [6, 6, 5, 5, 4, 2]))
    return space, np.exp(0.25 * _epistasis(space, random, others=2))


def _needle(random: np.random.Generator) -> tuple[Space, Column]:
    """Nearly flat, except for three parameters that reduce the time only together."""
    space = _grid(_ordinal(random, [8, 6, 5, 5, 4]))
    chosen = random.choice(5, 3, replace=False)
    codes = space.codes[:, chosen]
    off = np.abs(codes - codes[random.integers(len(space))]).sum(axis=1)
    return space, np.exp(0.1 * _bowls(_unit(space), random) - 0.6 * np.maximum(1 - off / 3, 0))


def _invalid(random: np.random.Generator) -> tuple[Space, Column]:
    """Nine of ten configurations fail, which the space does not show."""
    space = _grid(_ordinal(random, [8, 8, 6, 5, 4]))
    unit = _unit(space)
    need = [unit @ random.uniform(0, 1, 5) for _ in range(2)]
    keep = (need[0] < np.quantile(need[0], 0.3)) & (need[1] > np.quantile(need[1][need[0] < np.quantile(need[0], 0.3)], 0.67))
    return space, np.where(keep, np.exp(_bent(unit, random) + _bowls(unit, random)), np.inf)


def _constrained(random: np.random.Generator) -> tuple[Space, Column]:
    """One of ten combinations is valid, and the space contains only these."""
    space = _grid(_ordinal(random, [10, 8, 8, 6, 4, 2]))
    load = _unit(space) @ random.uniform(0.3, 1, 6)
    low, high = np.quantile(load, [0.2, 0.3])
    space = Space(space.values, space.codes[(load > low) & (load < high)])
    return space, np.exp(_bent(_unit(space), random) + _bowls(_unit(space), random))


def _noisy(random: np.random.Generator) -> tuple[Space, Column]:
    """Random noise of 10 % in every time."""
    space = _grid(_ordinal(random, [8, 8, 6, 4, 3]))
    return space, np.exp(_bent(_unit(space), random) + 0.1 * random.normal(size=len(space)))


def _plateau(random: np.random.Generator) -> tuple[Space, Column]:
    """Eight different times in total: most neighbours are equal."""
    space = _grid(_ordinal(random, [8, 8, 6, 4, 3]))
    logs = _bent(_unit(space), random) + _bowls(_unit(space), random)
    edges = logs.min() + np.ptp(logs) * np.linspace(0, 1, 8) ** 1.5
    return space, np.exp(edges[np.searchsorted(edges, logs, side="right") - 1])


def _deceptive(random: np.random.Generator) -> tuple[Space, Column]:
    """A wide basin, and a narrow one at a distance that is a third deeper."""
    space = _grid(_ordinal(random, [8, 8, 6, 5, 3]))
    unit = _unit(space)
    wide = random.uniform(0, 0.35, 5)
    narrow = 1 - random.uniform(0, 0.35, 5)
    to_wide, to_narrow = (((unit - centre) ** 2).sum(axis=1) for centre in (wide, narrow))
    return space, np.exp(1.2 * np.sqrt(to_wide) - 1.9 * np.exp(-to_narrow / 0.18))


def _categorical(random: np.random.Generator) -> tuple[Space, Column]:
    """Categorical parameters with separate effects and pairwise interactions."""
    counts = [7, 6, 5, 4, 4]
    space = _grid({f"choice_{i}": tuple(f"{i}{letter}" for letter in "abcdefg"[:count]) for i, count in enumerate(counts)})
    logs = sum(random.normal(0, 0.3, count)[space.codes[:, i]] for i, count in enumerate(counts))
    return space, np.exp(logs + 0.15 * _epistasis(space, random, others=1))


def _mixed(random: np.random.Generator) -> tuple[Space, Column]:
    """Boolean, categorical and numeric parameters; the effect of a number depends on a boolean."""
    values: Values = {
        "use_lds": (False, True),
        "order": ("rows", "columns", "tiled"),
        "unroll": (0, 1, 2, 4, 8),
        **_ordinal(random, [7, 6, 4]),
        "prefetch": (False, True),
    }
    space = _grid(values)
    unit = _unit(space)
    with_lds, without = _bent(unit, random), _bowls(unit, random) + random.uniform(0, 0.5)
    kind = random.normal(0, 0.3, (3, 2))[space.codes[:, 1], space.codes[:, 6]]
    return space, np.exp(np.where(space.codes[:, 0] == 1, with_lds, without) + kind)


def _line(random: np.random.Generator) -> tuple[Space, Column]:
    """One parameter of 300 values, with a dozen valleys."""
    space = _grid({"block": tuple(range(4, 1204, 4))})
    unit = _unit(space)[:, 0]
    waves = sum(random.uniform(0.02, 0.2) * np.sin(random.uniform(10, 80) * unit + random.uniform(0, 6)) for _ in range(3))
    return space, np.exp(2 * (unit - random.uniform(0.2, 0.8)) ** 2 + waves)


def _small(random: np.random.Generator) -> tuple[Space, Column]:
    """Sixty configurations, like a hand-written list."""
    space = _grid(_ordinal(random, [5, 4, 3]))
    return space, np.exp(_bent(_unit(space), random) + 0.1 * _epistasis(space, random, others=2))


def _huge(random: np.random.Generator) -> tuple[Space, Column]:
    """A million configurations."""
    space = _grid(_ordinal(random, [16, 10, 10, 8, 8, 5, 2]))
    return space, np.exp(_bent(_unit(space), random) + _bowls(_unit(space), random))


FAMILIES: dict[str, Callable[[np.random.Generator], tuple[Space, Column]]] = {
    "separable": _separable,
    "valley": _valley,
    "rugged": _rugged,
    "needle": _needle,
    "invalid": _invalid,
    "constrained": _constrained,
    "noisy": _noisy,
    "plateau": _plateau,
    "deceptive": _deceptive,
    "categorical": _categorical,
    "mixed": _mixed,
    "line": _line,
    "small": _small,
    "huge": _huge,
}


def _ordinal(random: np.random.Generator, counts: list[int]) -> Values:
    """Return numeric parameters: powers of two, consecutive numbers, or multiples of 16."""
    values: Values = {}
    for position, count in enumerate(counts):
        start = int(random.integers(0, 5))
        ladders = [
            tuple(2 ** (start + i) for i in range(count)),
            tuple(range(1, count + 1)),
            tuple(range(16, 16 * count + 1, 16)),
        ]
        values[f"parameter_{position}"] = ladders[int(random.integers(3))]
    return values


def _grid(values: Values) -> Space:
    counts = [len(column) for column in values.values()]
    codes = np.stack(np.meshgrid(*[np.arange(count) for count in counts], indexing="ij"), axis=-1).reshape(-1, len(counts))
    return Space(values, codes.astype(np.int32), combinations=len(codes))


def _unit(space: Space) -> Column:
    """Return the position of each value in its parameter, scaled to 0 to 1, (n_configurations, n_parameters)."""
    return np.asarray(space.codes / np.maximum([len(values) - 1 for values in space.values.values()], 1))


def _bowls(unit: Column, random: np.random.Generator) -> Column:
    """Return a sum of one bowl per parameter, some with weight 0."""
    columns = unit.shape[1]
    weights = random.exponential(1.0, columns) * (random.random(columns) < 0.8)
    return np.asarray(np.abs(unit - random.random(columns)) ** 1.5 @ weights)


def _bent(unit: Column, random: np.random.Generator) -> Column:
    """Return a steep bowl across a random direction, a shallow one along another, and a cliff on one side."""
    columns = unit.shape[1]
    across = unit @ random.uniform(0.2, 1, columns)
    along = unit @ random.normal(0, 0.5, columns)
    middle = np.quantile(across, random.uniform(0.3, 0.7)) + 0.3 * (along - along.mean()) ** 2
    cliff = np.where(across > np.quantile(across, 0.85), random.uniform(0.3, 1.5), 0)
    return np.asarray(4 * (across - middle) ** 2 + 0.7 * (along - np.quantile(along, random.uniform(0.2, 0.8))) ** 2 + cliff)


def _epistasis(space: Space, random: np.random.Generator, *, others: int) -> Column:
    """Return a random contribution of every parameter for every combination with `others` more parameters."""
    codes, counts = space.codes, [len(values) for values in space.values.values()]
    total = np.zeros(len(space))
    for position in range(len(counts)):
        rest = [i for i in range(len(counts)) if i != position]
        chosen = [position, *random.choice(rest, others, replace=False).tolist()]
        table = random.normal(size=[counts[i] for i in chosen])
        total += table[tuple(codes[:, i] for i in chosen)]
    return total
