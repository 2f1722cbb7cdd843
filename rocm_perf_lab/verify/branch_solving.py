"""Sizes and scalars that change the outcome of a scalar comparison, solved from its operands in earlier trials.

An operand may equal a size or the workgroups on an axis of the grid, be proportional to one size, to a product of two or to the
square of one, or be linear in the sizes. Slopes of linear operands follow from trials that differ in one size.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from itertools import combinations, islice, permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_NEAR = (0, 1, -1)
"""Target differences of the operands."""
_MOST_OBSERVATIONS = 12
_MOST_DIVISORS = 6
_MOST_STEPS = 1 << 12
_MOST_CORRECTIONS = 6

Sizes = dict[str, int]


@dataclass
class ComparisonSolver:
    """Operands of scalar comparisons in trials, by the address of the comparison.

    Args:
        names: Names of the sizes.
        grid: Returns the workgroups per axis for sizes; None if the sizes cannot be launched.
    """

    names: tuple[str, ...]
    grid: Callable[[Mapping[str, int]], tuple[int, ...] | None] = lambda _: None
    _seen: dict[int, list[tuple[int, int, Sizes]]] = field(default_factory=dict)
    _scalars: dict[int, Mapping[str, int | float]] = field(default_factory=dict)

    def observe(
        self, address: int, operands: tuple[int, int], sizes: Mapping[str, int], scalars: Mapping[str, int | float]
    ) -> None:
        """Record the operands of a comparison in a trial with these sizes and other scalars."""
        known = self._seen.setdefault(address, [])
        known.append((_signed(operands[0]), _signed(operands[1]), dict(sizes)))
        self._scalars[address] = scalars
        del known[:-_MOST_OBSERVATIONS]

    def is_known(self, address: int) -> bool:
        """Return whether operands of a comparison are known."""
        return address in self._seen

    def shapes(self, address: int) -> Iterator[Sizes]:
        """Yield sizes for which the operands of a comparison are predicted to be equal, or to differ by one."""
        first, second, sizes = self._seen[address][-1]
        for now, wanted in ((first, second), (second, first)):
            for difference in _NEAR:
                yield from self._gridded(now, wanted + difference, sizes)
                yield from self._reaching(now, wanted + difference, sizes)
        yield from self._linear(address)

    def scalars(self, address: int) -> Iterator[tuple[Sizes, str, int | float]]:
        """Yield the sizes of a trial, a scalar, and its value for which the operands should be equal or differ by one."""
        first, second, sizes = self._seen[address][-1]
        for now, wanted in ((first, second), (second, first)):
            for name, value in self._scalars[address].items():
                if isinstance(value, int) and value == now:
                    for difference in _NEAR:
                        yield sizes, name, wanted + difference
                elif isinstance(value, float) and _bits(value) == now & 0xFFFFFFFF:
                    real = struct.unpack("<f", struct.pack("<I", wanted & 0xFFFFFFFF))[0]
                    if math.isfinite(real):
                        yield sizes, name, real

    def _gridded(self, now: int, target: int, sizes: Sizes) -> Iterator[Sizes]:
        """Yield sizes with `target` workgroups on an axis of the grid that currently has `now`."""
        for axis, count in enumerate(self.grid(sizes) or ()):
            for name in self.names if count == now > 0 and target > 0 else ():
                found = dict(sizes)
                for _ in range(_MOST_CORRECTIONS):
                    reached = (self.grid(found) or (0,) * (axis + 1))[axis]
                    if reached == target:
                        yield dict(found)
                    if reached <= 0 or reached == target:
                        break
                    found[name] = max(1, found[name] * target // reached)

    def _reaching(self, now: int, target: int, sizes: Sizes) -> Iterator[Sizes]:
        """Yield sizes that change an operand from `now` to `target`, if it is proportional to one size, two, or a square."""
        if now <= 0 or target <= 0:
            return
        for name in sorted(self.names, key=lambda n: sizes[n] != now):
            value = sizes[name]
            yield {**sizes, name: target * value // now}
            yield {**sizes, name: -(-target * value // now)}
            if value * value == now:
                yield {**sizes, name: math.isqrt(target)}
        for one, other in permutations(self.names, 2):
            if sizes[one] * sizes[other] == now:
                for divisor in islice(
                    (d for d in range(1, min(math.isqrt(target), _MOST_STEPS) + 1) if target % d == 0), _MOST_DIVISORS
                ):
                    yield {**sizes, one: target // divisor, other: divisor}

    def _linear(self, address: int) -> Iterator[Sizes]:
        """Yield neighbouring sizes to measure unknown slopes, then solutions for one size and for two."""
        first, second, sizes = self._seen[address][-1]
        slopes: dict[str, int] = {}
        for name in self.names:
            slope = self._slope(address, name)
            if slope is None:
                yield {**sizes, name: sizes[name] + 1}
            elif slope:
                slopes[name] = slope
        for difference in _NEAR:
            missing = difference - (first - second)
            for name, slope in slopes.items():
                if missing % slope == 0:
                    yield {**sizes, name: sizes[name] + missing // slope}
            for one, other in permutations(slopes, 2):
                limit = min(abs(slopes[other]), _MOST_STEPS)
                steps = (s for n in range(1, limit + 1) for s in (n, -n) if (missing - slopes[one] * s) % slopes[other] == 0)
                for step in islice(steps, 2):
                    rest = (missing - slopes[one] * step) // slopes[other]
                    yield {**sizes, one: sizes[one] + step, other: sizes[other] + rest}

    def _slope(self, address: int, name: str) -> int | None:
        """Return the change of the difference of the operands per unit of a size, from two trials that differ only in it."""
        known = self._seen[address][::-1]
        for (first, second, sizes), (one, other, others) in combinations(known, 2):
            step = sizes[name] - others[name]
            if step and {**others, name: sizes[name]} == sizes and ((first - second) - (one - other)) % step == 0:
                return ((first - second) - (one - other)) // step
        return None


def _bits(value: float) -> int:
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:  # not representable in 32 bits
        return -1


def _signed(operand: int) -> int:
    """Return a 32-bit or 64-bit operand as a signed number."""
    if operand < 1 << 32:
        return operand - (1 << 32) if operand >= 1 << 31 else operand
    return operand - (1 << 64) if operand >= 1 << 63 else operand
