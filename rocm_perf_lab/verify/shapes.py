"""Shapes of trials: values of the sizes of a kernel, drawn from a seed.

Sizes are params in shapes of buffers or in the grid on which the compiled code does not depend. Small shapes contain every
residue of every size; others have values next to powers of two, tiles and numbers in the sources, or one long size.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rocm_perf_lab.core.expressions import ExpressionError, evaluate_integer
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.verify.tile_shapes import TileShapes, tiled_sizes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rocm_perf_lab.languages.arguments import Expression
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.verify.sizes import Params, SizeRule, Sizes

ShapeKind = Literal["described", "declared", "residues", "long", "limits", "tiles", "large", "one", "zero", "searched"]
RESIDUES = 64
_MOST_ELEMENTS = 1 << 18
_LARGE_ELEMENTS = 1 << 23
_MOST_REPEATED = 1 << 25
_BEYOND_8_BITS = (1 << 8) + 4
_MOST_WORKGROUPS = 1 << 14
_FAR_ABOVE = 8
_LARGE_FACTOR = 16
_LONG_ROWS = ((4.0, 12), (4.0, 5), (2.0, 12), (2.0, 3), (1.0, 3))
"""Length of rows relative to the described one, and values of the other sizes."""
_FEW = 6
"""Other sizes are below this multiple of their unit while one size is long."""
_REPEATS = (1, 1, 2, 3)
_LARGE_RATIOS = (8.0, 4.0, 2.0, 1.125)
_MOST_CONSTANTS = 24
_HIGHEST_PRODUCT = 1 << 16


@dataclass(frozen=True)
class Shape:
    """Params of a trial, and the reason for their selection."""

    params: Params
    kind: ShapeKind


class ShapePlan:
    """Draws shapes.

    Args:
        description: Kernel.
        sizes: Sizes and their supported values.
        seed: Seed of the shapes.
        cost: Estimate of the unmodified kernel's wave instructions.
        most: Limit of wave instructions per shape.
    """

    def __init__(self, description: KernelDescription, sizes: Sizes, seed: int, cost: Cost, most: int) -> None:
        self._description = description
        self._given = dict(description.params)
        self._sizes = sizes
        self._seed = seed
        self._cost = cost
        self._most = most

    def residues(self, count: int) -> Iterator[Shape]:
        """Draw small shapes: each size takes every residue modulo `count`, or every multiple of its unit below 64."""
        rng = self._rng(0)
        columns = {name: self._column(rule, count, rng) for name, rule in self._sizes.rules.items()}
        for row in range(count if columns else 0):
            values = {name: column[row][0] for name, column in columns.items()}
            name = str(rng.choice(list(columns)))
            larger = {**values, name: columns[name][row][1]}
            yield self._shape(larger if row % 2 and self._fits(larger) else values, "residues")

    def long(self, count: int) -> Iterator[Shape]:
        """Draw shapes with one size up to eight times the described one, with all residues."""
        names = list(self._sizes.rules)
        each = max(count // max(len(names), 1), 24)
        for index, name in enumerate(names):
            rng, rule = self._rng(1, index), self._sizes.rules[name]
            period = max(RESIDUES // rule.unit, 8)
            places = rng.permutation(each) % period
            heights = (rng.permutation(each) + rng.random(each)) / each
            for place, height in zip(places, heights, strict=True):
                others = self._few(rng, name)
                top = self._top(name, others)
                value = int(RESIDUES * (max(top, RESIDUES) / RESIDUES) ** height)
                value = value // (rule.unit * period) * rule.unit * period + int(place) * rule.unit
                yield self._shape({**others, name: rule.nearest(max(value, rule.unit), period)}, "long")

    def limits(self, constants: Iterable[int], others: Iterable[int] = (), *, powers: bool = True) -> Iterator[Shape]:
        """Draw shapes with sizes next to and at constants, their double, and powers of two.

        Args:
            constants: Integers of a source.
            others: Additional integers, which are only used as factors in products with `constants`.
            powers: Also draw sizes next to powers of two.
        """
        known, others = sorted(set(constants)), set(others)
        factors = sorted({*known, *others})
        highest = max(self._highest(), _HIGHEST_PRODUCT) if others else self._highest()
        products = sorted({a * b for a in known for b in factors if RESIDUES < a * b <= highest} - set(known))
        chosen = [*known, *products][:_MOST_CONSTANTS]
        columns = {name: self._next_to(name, rule, chosen, powers) for name, rule in self._sizes.rules.items()}
        rows = max((len(column) for column in columns.values()), default=0)
        rng = self._rng(2, *known)
        orders = {name: rng.permutation(rows) for name in columns}
        for row in range(rows):
            picked = {n: c[int(orders[n][row]) % len(c)] for n, c in columns.items() if c}
            shapes = [picked] if self._fits(picked) else [{**self._few(rng, n), n: value} for n, value in picked.items()]
            for values in shapes:
                if self._fits(values):
                    yield self._shape(values, "limits")

    def tiles(self, most: float) -> TileShapes:
        """Return shapes around multiples of tiles with at most `most` wave instructions each."""
        rules = self._sizes.rules

        def params(values: Mapping[str, int]) -> Params:
            return self._sizes.params(self._given, values)

        sizes = tiled_sizes(self._description, rules, lambda values: grid_axes(self._description, params(values)) or ())
        return TileShapes(sizes, rules, self._seed, lambda v: self._fits(v) and self._cost.of(params(v)) <= most)

    def tiled(self, values: Iterable[Mapping[str, int]]) -> Iterator[Shape]:
        """Return one shape for each distinct combination of sizes."""
        for chosen in dict.fromkeys(tuple(sorted(v.items())) for v in values):
            yield self._shape(dict(chosen), "tiles")

    def large(self) -> Iterator[Shape]:
        """Draw one shape with all sizes larger than described, and one per size with only this size much larger."""
        rng = self._rng(3)
        for ratio in _LARGE_RATIOS:
            values = {n: self._above(n, ratio, rng) for n in self._sizes.rules}
            params = self._sizes.params(self._given, values)
            most = _LARGE_ELEMENTS if ratio == _LARGE_RATIOS[-1] else _MOST_ELEMENTS * 4
            if values and elements(self._description, params) <= most:
                yield Shape(params, "large")
                break
        for name in self._sizes.rules if len(self._sizes.rules) > 1 else ():
            values = {**self._few(rng, name), name: self._above(name, _FAR_ABOVE, rng)}
            if self._fits(values, _LARGE_FACTOR):
                yield self._shape(values, "large")

    def rows(self, most: float) -> Iterator[Shape]:
        """Return one shape per size in which it is several times the described one, and all others are small.

        Args:
            most: Limit of wave instructions per shape.
        """
        rng = self._rng(5)
        for name, rule in self._sizes.rules.items():
            for ratio, rows in _LONG_ROWS:
                others = {n: r.nearest(r.unit * rows) for n, r in self._sizes.rules.items() if n != name}
                long = {**others, name: rule.nearest(int(int(self._given[name]) * ratio) + int(rng.integers(1, RESIDUES)))}
                if self._fits(long) and self._cost.of(self._sizes.params(self._given, long)) <= most:
                    yield self._shape(long, "long")
                    break

    def repeating(self, times: int) -> Iterator[Shape]:
        """Return a shape with many elements per workgroup of a fixed grid, if the kernel has exactly one size.

        Each workgroup processes at least `times` elements, and so does each work-item, if affordable; otherwise more than an
        8-bit counter can count.
        """
        for name, rule in self._sizes.rules.items() if len(self._sizes.rules) == 1 else ():
            count = workgroups(self._description, self._sizes.params(self._given, {name: rule.nearest(1)}))
            block = prod(evaluate_integer(e, self._given, where="kernel.block") for e in self._description.block)
            for steps in (times, _BEYOND_8_BITS):
                shape = self._shape({name: rule.nearest(max(times, steps * block) * count)}, "long")
                is_fixed = workgroups(self._description, shape.params) == count
                if is_fixed and elements(self._description, shape.params) <= _MOST_REPEATED:
                    yield shape
                    break

    def edges(self) -> Iterator[Shape]:
        """Return shapes with one size of 1, with all sizes of 1, and with a size of 0."""
        rules = self._sizes.rules
        small = [n for n, rule in rules.items() if rule.unit == 1 and rule.least <= 1]
        rng = self._rng(4)
        for name in small:
            yield self._shape({**self._few(rng, name), name: 1}, "one")
        if len(small) > 1:
            yield self._shape({**self._few(rng, ""), **dict.fromkeys(small, 1)}, "one")
        for name in (n for n, rule in rules.items() if rule.zero):
            yield self._shape({**self._few(rng, name), name: 0}, "zero")

    def _column(self, rule: SizeRule, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
        """Return pairs of a small value and a larger one with the same residue."""
        period = max(RESIDUES // rule.unit, 8) if rule.unit > 1 else max(count, RESIDUES)
        column = []
        for place in rng.permutation(count):
            low = int(place) % period or period
            high = low + period * int(rng.choice(_REPEATS))
            column.append((rule.nearest(low * rule.unit, period), rule.nearest(high * rule.unit, period)))
        return column

    def _next_to(self, name: str, rule: SizeRule, constants: Sequence[int], powers: bool) -> list[int]:
        others = {n: r.nearest(r.unit) for n, r in self._sizes.rules.items() if n != name}
        top = self._top(name, others)
        centres = {c for c in constants if c <= top or self._fits({**others, name: c + rule.unit})}
        centres |= {1 << e for e in range(1, top.bit_length())} if powers else set[int]()
        wanted = {c + d for c in centres for d in (-rule.unit, 0, rule.unit)}
        wanted |= {2 * c + rule.unit for c in constants if 2 * c < top}
        return sorted({rule.nearest(value) for value in wanted if value > 0})

    def _few(self, rng: np.random.Generator, without: str) -> dict[str, int]:
        return {n: r.nearest(r.unit * int(rng.integers(1, _FEW))) for n, r in self._sizes.rules.items() if n != without}

    def _above(self, name: str, ratio: float, rng: np.random.Generator) -> int:
        value = int(int(self._given[name]) * ratio)
        return self._sizes.rules[name].nearest(value + int(rng.integers(1, RESIDUES)))

    def _highest(self) -> int:
        return max((int(self._given[n]) * _FAR_ABOVE for n in self._sizes.rules), default=0)

    def _top(self, name: str, others: Mapping[str, int]) -> int:
        """Return the largest affordable value of a size if the others are small."""
        top = int(self._given[name]) * _FAR_ABOVE
        while top > RESIDUES and not self._fits({**others, name: top}):
            top = top * 3 // 4
        return max(top, RESIDUES)

    def _fits(self, values: Mapping[str, int], factor: int = 1) -> bool:
        params = self._sizes.params(self._given, values)
        return (
            elements(self._description, params) <= _MOST_ELEMENTS * factor
            and workgroups(self._description, params) <= _MOST_WORKGROUPS
            and self._cost.of(params) <= self._most * factor
        )

    def _shape(self, values: Mapping[str, int], kind: ShapeKind) -> Shape:
        return Shape(self._sizes.params(self._given, values), kind)

    def _rng(self, *parts: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, *parts])


@dataclass(frozen=True)
class Cost:
    """Estimate of the unmodified kernel's wave instructions, multilinear between and beyond two measured values of each size.

    Args:
        low: Smaller measured value of each size.
        high: Larger measured value of each size.
        corners: Wave instructions by the set of sizes with their larger value.
    """

    low: Mapping[str, int]
    high: Mapping[str, int]
    corners: Mapping[frozenset[str], int]

    def of(self, params: Mapping[str, Any]) -> float:
        """Return the estimate for params."""
        shares = {n: (float(params[n]) - low) / (self.high[n] - low) for n, low in self.low.items()}
        total = sum(count * prod(s if n in large else 1 - s for n, s in shares.items()) for large, count in self.corners.items())
        return max(total, 0.0)


def elements(description: KernelDescription, params: Mapping[str, Any]) -> int:
    """Return the total number of elements of all buffers; a very large number if the params are invalid."""
    try:
        return sum(
            prod(evaluate_integer(expression, params, where="kernel.trials") for expression in argument.shape)
            for argument in description.arguments
            if isinstance(argument, BufferArgument)
        )
    except ExpressionError:
        return 1 << 62


def workgroups(description: KernelDescription, params: Mapping[str, Any]) -> int:
    """Return the number of workgroups; a very large number if the params are invalid."""
    axes = grid_axes(description, params)
    return prod(axes) if axes is not None else 1 << 62


def grid_axes(description: KernelDescription, params: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the workgroups per axis of the grid, or None if the params are invalid."""

    def sizes(expressions: Iterable[Expression]) -> list[int]:
        return [evaluate_integer(expression, params, where="kernel.grid") for expression in expressions]

    try:
        if description.grid:
            return tuple(sizes(description.grid))
        block = sizes(description.block) or [1]
        return tuple(-(-items // size) for items, size in zip(sizes(description.work_items), block, strict=False))
    except ExpressionError:
        return None
