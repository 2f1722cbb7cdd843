"""Shapes in which several sizes are at multiples of tiles at the same time: :class:`TileShapes`.

Code for inner tiles often has no bounds checks. A wrong limit of such code is visible only if one size is a multiple of the
tile, or differs from one by the width of a halo, and every other size has inner tiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from rocm_perf_lab.core.expressions import evaluate_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.verify.sizes import SizeRule

Tile = Literal["own", "double", "largest"]
_LARGEST_ALONE = 1024
_LARGEST = 64
"""Largest tile if one size is tiled, and if several sizes are tiled."""
_SMALLEST = 8
_HALO_ALONE = 8
_HALO = 4
"""Largest distance from a multiple of a tile."""
_PROBED = 4096
_LOOP_TILES = (16, 64)
_MOST_FURTHER = 2
_MOST_FURTHER_ROWS = 4
_TURNS: tuple[Tile, ...] = ("own", "largest", "double")


@dataclass(frozen=True)
class TiledSizes:
    """Sizes of a kernel by their use.

    Args:
        tiles: Tile of each tiled size.
        loops: Sizes on which the grid does not depend, if others are tiled.
        slices: Sizes with at least one workgroup for each step.
    """

    tiles: Mapping[str, int]
    loops: tuple[str, ...]
    slices: tuple[str, ...]


def tiled_sizes(
    description: KernelDescription, rules: Mapping[str, SizeRule], grid: Callable[[Mapping[str, int]], Sequence[int]]
) -> TiledSizes:
    """Return the use of each size, derived from the grid.

    Args:
        description: Kernel.
        rules: Sizes that vary.
        grid: Returns the workgroups per axis for values of some sizes; the others have their described values.
    """
    tiles: dict[str, int] = {}
    loops, slices = [], []
    for name, rule in rules.items():
        value = rule.nearest(_PROBED)
        axes = zip(grid({name: rule.nearest(1)}), grid({name: value}), strict=False)
        own = [value * few // count for few, count in axes if count > few]
        if not own:
            loops.append(name)
        elif 1 < min(own) <= _PROBED // 2:
            tiles[name] = min(own)
        else:
            slices.append(name)
    if tiles:
        return TiledSizes(tiles, tuple(loops), tuple(slices))
    block = prod(evaluate_integer(e, description.params, where="kernel.block") for e in description.block)
    tile = max(min(block, _LARGEST_ALONE), _SMALLEST) if len(loops) == 1 else _LOOP_TILES[0]
    return TiledSizes(dict.fromkeys(loops, tile), (), tuple(slices))


class TileShapes:
    """Draws values of sizes around multiples of tiles, so that each pair of sizes has each pair of distances from -1 to 1.

    Args:
        sizes: Sizes by their use.
        rules: Values that the kernel supports.
        seed: Seed of the values.
        fits: Returns whether values are affordable.
    """

    def __init__(
        self, sizes: TiledSizes, rules: Mapping[str, SizeRule], seed: int, fits: Callable[[Mapping[str, int]], bool]
    ) -> None:
        self._sizes = sizes
        self._rules = rules
        self._seed = seed
        self._fits = fits

    def all(self) -> Iterator[dict[str, int]]:
        """Draw values for tiles of the grid, their double, and larger powers of two."""
        rng = np.random.default_rng([self._seed, 6])
        for number, (distances, turn) in enumerate(self._rows()):
            found = self._affordable(distances, turn, rng, small=number % 2 == 0)
            if found is not None:
                yield found

    def around(self, tiles: Iterable[int]) -> Iterator[dict[str, int]]:
        """Draw values around multiples of other tiles, such as numbers in a source; powers of two up to 64 are omitted."""
        alone = len(self._sizes.tiles) == 1
        top = _LARGEST_ALONE if alone else 4 * _LARGEST
        chosen = sorted(t for t in set(tiles) if _SMALLEST <= t <= top and _LARGEST % t)
        for tile in chosen[-_MOST_FURTHER:]:
            rng = np.random.default_rng([self._seed, 7, tile])
            for row in range(3 if alone else _MOST_FURTHER_ROWS):
                distances = [
                    0 if row == _MOST_FURTHER_ROWS - 1 else (row + place) % 3 - 1 for place in range(len(self._sizes.tiles))
                ]
                own = dict.fromkeys(self._sizes.tiles, tile)
                for counts in ((2, 3, 4), (2,)):
                    values = {**self._values(own, distances, counts, rng), **self._others(rng, small=True)}
                    if self._fits(values):
                        yield values
                        break

    def _rows(self) -> Iterator[tuple[list[int], Tile]]:
        """Return distances from multiples of tiles, one per tiled size, and the choice of the tile."""
        count = len(self._sizes.tiles)
        if not count:
            return
        signs = (0, -1, 1)
        for a in range(3):
            for b in range(3 if count > 1 else 1):
                columns = (a, b, (a + b) % 3)
                yield [signs[columns[place % 3]] for place in range(count)], _TURNS[(a + 2 * b) % 3]
        halo = _HALO if count > 1 else _HALO_ALONE
        further = [sign * distance for distance in range(2, halo + 1) for sign in (1, -1)]
        for row in range(len(further)):
            yield [further[(row + 3 * place) % len(further)] for place in range(count)], _TURNS[row // 2 % 2]

    def _affordable(
        self, distances: Sequence[int], turn: Tile, rng: np.random.Generator, *, small: bool
    ) -> dict[str, int] | None:
        """Return the largest affordable values: other sizes are reduced before tiles."""
        others = [self._others(rng, small=small), self._others(rng, small=True)]
        tiles = self._sizes.tiles
        largest = _LARGEST_ALONE if len(tiles) == 1 else _LARGEST
        multiples = {"own": [1], "double": [2, 1], "largest": [0, 1]}[turn]
        for multiple in multiples:
            for step in (1, 2, 4, 8) if not multiple else (1,):
                limit = largest // step
                own = {n: t * (multiple or max(limit // t, 1)) for n, t in tiles.items()}
                for counts in ((2, 3, 4) if not multiple else (3, 4, 5), (3,), (2,)):
                    values = self._values(own, distances, counts, rng)
                    for more in others:
                        if self._fits({**values, **more}):
                            return {**values, **more}
        return None

    def _values(
        self, tiles: Mapping[str, int], distances: Sequence[int], counts: Sequence[int], rng: np.random.Generator
    ) -> dict[str, int]:
        values = {}
        for (name, tile), distance in zip(tiles.items(), distances, strict=True):
            rule = self._rules[name]
            values[name] = rule.nearest(tile * int(rng.choice(counts)) + distance * rule.unit)
        return values

    def _others(self, rng: np.random.Generator, *, small: bool) -> dict[str, int]:
        values = {}
        for name in self._sizes.slices:
            values[name] = self._rules[name].nearest(int(rng.integers(1, 4)) * self._rules[name].unit)
        for name in self._sizes.loops:
            rule = self._rules[name]
            tiled = int(rng.choice(_LOOP_TILES)) * int(rng.integers(2, 5)) + int(rng.integers(-1, 2)) * rule.unit
            few = int(rng.integers(1, 4)) * rule.unit
            values[name] = rule.nearest(few if small else tiled)
        return values
