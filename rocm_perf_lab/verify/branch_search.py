"""Search for shapes and input values that reach branches which no trial took.

Proposals come from several sources in turn, cheap ones first: operands of comparisons, solved for the size that they depend on;
constants of the kernel and their neighbours; pairs of constants for two sizes; sums, products and multiples of constants;
input values; and mutations of points that reached something new. The search is deterministic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import chain, islice, product, zip_longest
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.probes import Outcome
from rocm_perf_lab.verify.branch_constants import Constants, find_constants
from rocm_perf_lab.verify.branches import open_conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rocm_perf_lab.emulator.branch_coverage import BranchCoverage

_ROUND = 12
"""Points that are tried before the proposals are renewed."""
_MOST_CONSTANTS = 24
_MOST_PAIRED = 10
_MOST_EXTENDED = 4
_MOST_DIVISORS = 6
_MOST_FACTORS = 3
_LARGEST_FACTOR = 1024
_SPARSE = 61
"""Distance of planted values of which the other elements are random: an odd number, so that they meet every lane."""
_LARGEST_SIZE = 1 << 31


@dataclass(frozen=True)
class SearchPoint:
    """Shape and input values of a trial.

    Args:
        params: All sizes, sorted by name.
        scalars: Values of other scalars that differ from the described ones, sorted by name.
        values: Values that the elements of inputs have in turn; None keeps a random one. Empty for random inputs.
    """

    params: tuple[tuple[str, int], ...]
    values: tuple[float | None, ...] = ()
    scalars: tuple[tuple[str, int | float], ...] = ()


@dataclass(frozen=True)
class SearchSpace:
    """What a search may change.

    Args:
        given: Described values of the sizes.
        small: Small values of the sizes that the unmodified kernel supports.
        scalars: Described values of scalars that are no sizes.
        has_values: Inputs with random values exist.
        valid: Returns the nearest sizes that the kernel supports, or None if the shape is too large.
        source: Text of the source.
        seed: Seed of mutations.
    """

    given: Mapping[str, int]
    small: Mapping[str, int]
    scalars: Mapping[str, int | float]
    has_values: bool
    valid: Callable[[Mapping[str, int]], Mapping[str, int] | None]
    source: str
    seed: int


@dataclass
class BranchSearch:
    """Proposes points, and learns from the coverage that they reached.

    Args:
        space: What may be changed.
        coverage: Coverage of the trials so far.
        recorded: Sizes of the trial in which the operands of comparisons in `coverage` were recorded.
    """

    space: SearchSpace
    coverage: BranchCoverage
    recorded: Mapping[str, int]
    _tried: set[SearchPoint] = field(default_factory=set)
    _useful: list[SearchPoint] = field(default_factory=list)
    _places: dict[int, tuple[tuple[int, int], Mapping[str, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._remember(self.coverage, self.recorded)

    @property
    def is_finished(self) -> bool:
        """Whether every condition of executed code has had both outcomes."""
        return not open_conditions(self.coverage)

    def points(self) -> Iterator[SearchPoint]:
        """Yield points to try until all branches are covered or the proposals end; call :meth:`learn` after each.

        Proposals are renewed after some points, or as soon as one reached something new.
        """
        for number in range(1 << 20):
            before = len(self._useful)
            found = False
            for point in islice(self._proposals(number), _ROUND):
                found = True
                self._tried.add(point)
                yield point
                if len(self._useful) != before:
                    break
            if not found or self.is_finished:
                return

    def gains(self, covered: BranchCoverage) -> bool:
        """Return whether a launch reached code or an outcome that was not covered."""
        known = self.coverage.outcomes
        new = any(outcome & ~known.get(address, Outcome.NONE) for address, outcome in covered.outcomes.items())
        return new or not covered.executed <= self.coverage.executed

    def learn(self, point: SearchPoint, covered: BranchCoverage, *, counts: bool) -> None:
        """Take note of a launch.

        Args:
            point: Point of the launch.
            covered: Coverage of the launch.
            counts: The trial was compared with the unmodified kernel, so its branches are covered.
        """
        self._remember(covered, {**self.space.given, **dict(point.params)})
        if self.gains(covered):
            self._useful.append(point)
        if counts:
            self.coverage = self.coverage.merged(covered)

    def _remember(self, covered: BranchCoverage, params: Mapping[str, int]) -> None:
        self._places.update({address: (operands, dict(params)) for address, operands in covered.operands.items()})

    def _proposals(self, number: int) -> Iterator[SearchPoint]:
        """Yield untried points, from all sources in turn."""
        constants = find_constants(self.coverage.program, open_conditions(self.coverage), self.space.source)
        solved = chain(self._solved_scalars(), self._shaped(self._solved()))
        sources = [self._shaped(shapes) for shapes in self._constant_shapes(constants)] if self.space.given else []
        if self.space.has_values:
            sources += [self._planted(constants), self._patterns(constants, number)]
        sources += [self._scalars(constants), self._extended(constants), self._mutated(constants, number)]
        seen: set[SearchPoint] = set()
        for point in chain(islice(solved, _ROUND // 2), chain.from_iterable(zip_longest(solved, *sources))):
            if point is not None and point not in self._tried and point not in seen:
                seen.add(point)
                yield point

    def _shaped(self, shapes: Iterable[Mapping[str, int]]) -> Iterator[SearchPoint]:
        """Yield valid shapes as points that have not been tried."""
        for shape in shapes:
            if not all(0 < value < _LARGEST_SIZE for value in shape.values()):
                continue
            if SearchPoint(tuple(sorted(shape.items()))) not in self._tried:
                valid = self.space.valid(shape)
                if valid is not None:
                    yield SearchPoint(tuple(sorted(valid.items())))

    def _with(self, **sizes: int) -> Iterator[Mapping[str, int]]:
        """Yield a shape with the other sizes small, then with those described."""
        yield {**self.space.small, **sizes}
        yield {**self.space.given, **sizes}

    # shapes from operands of comparisons

    def _solved(self) -> Iterator[Mapping[str, int]]:
        """Yield shapes for which a comparison that lacks an outcome should turn out differently."""
        for address in self._undecided_comparisons():
            operands, params = self._places[address]
            first, second = (_signed(operand) for operand in operands)
            for now, wanted in ((first, second), (second, first)):
                for target in (wanted, wanted + 1, wanted - 1):
                    yield from self._reaching(now, target, params)

    def _solved_scalars(self) -> Iterator[SearchPoint]:
        """Yield the values of scalars for which a comparison of one with another number should turn out differently."""
        for address in self._undecided_comparisons():
            operands, params = self._places[address]
            first, second = (_signed(operand) for operand in operands)
            shape = tuple(sorted((name, params[name]) for name in self.space.given))
            for now, wanted in ((first, second), (second, first)):
                for name, given in self.space.scalars.items():
                    if isinstance(given, int) and given == now:
                        for target in (wanted, wanted + 1, wanted - 1):
                            yield SearchPoint(shape, scalars=((name, target),))

    def _undecided_comparisons(self) -> list[int]:
        """Return the scalar comparisons of executed code with one outcome so far, those next to open conditions first."""
        near = {c.instruction.address for c in open_conditions(self.coverage)}
        first: list[int] = []
        others: list[int] = []
        for block in self.coverage.program.blocks:
            addresses = [i.address for i in block.instructions]
            undecided = [
                a for a in addresses if a in self._places and self.coverage.outcomes.get(a, Outcome.NONE) is not Outcome.BOTH
            ]
            (first if near.intersection(addresses) else others).extend(undecided)
        return first + others

    def _reaching(self, now: int, target: int, params: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
        """Yield shapes in which an operand that is `now` would become `target`, if it is proportional to one or two sizes."""
        if now <= 0 or target <= 0:
            return
        names = list(self.space.given)
        for name in sorted(names, key=lambda n: params[n] != now):
            value = params[name]
            if value == now:
                yield from self._with(**{name: target})
            yield {**params, name: target * value // now}
            yield {**params, name: -(-target * value // now)}
        for one, other in ((a, b) for a in names for b in names if a != b):
            if params[one] * params[other] == now:
                for divisor in islice((d for d in range(1, math.isqrt(target) + 1) if target % d == 0), _MOST_DIVISORS):
                    yield {**params, one: target // divisor, other: divisor}
                    yield {**params, one: divisor, other: target // divisor}

    # shapes from constants

    def _constant_shapes(self, constants: Constants) -> tuple[Iterator[Mapping[str, int]], ...]:
        return self._singles(constants), self._pairs(constants), self._quotients(constants), self._derived(constants)

    def _singles(self, constants: Constants) -> Iterator[Mapping[str, int]]:
        for constant in constants.integers[:_MOST_CONSTANTS]:
            for name in self.space.given:
                for value in (constant, constant + 1, constant - 1):
                    yield from self._with(**{name: value})

    def _pairs(self, constants: Constants) -> Iterator[Mapping[str, int]]:
        """Yield shapes of which two sizes are constants, which a combined condition may require."""
        names = list(self.space.given)
        numbers = list(dict.fromkeys([*constants.compared, *constants.integers]))[:_MOST_PAIRED]
        ordered = sorted(product(range(len(numbers)), repeat=2), key=lambda pair: (max(pair), pair))
        for a, b in ordered:
            for n, one in enumerate(names):
                for other in names[n + 1 :]:
                    yield {**self.space.small, one: numbers[a], other: numbers[b]}
                    yield {**self.space.small, one: numbers[a] + 1, other: numbers[b] + 1}

    def _derived(self, constants: Constants) -> Iterator[Mapping[str, int]]:
        """Yield shapes with sums, products and multiples of constants."""
        numbers = constants.integers[:_MOST_PAIRED]
        for a, b in sorted(product(range(len(numbers)), repeat=2), key=lambda pair: (sum(pair), pair)):
            one, other = numbers[a], numbers[b]
            values = (one + other, one * other, one * other + 1, one * other - 1, 3 * one + other, one // other, one // other + 1)
            for value in dict.fromkeys(v for v in values if v > 0):
                for name in self.space.given:
                    yield {**self.space.small, name: value}

    def _quotients(self, constants: Constants) -> Iterator[Mapping[str, int]]:
        """Yield shapes of which the product of all sizes, or of one and a compiled number, passes a constant."""
        numbers = [n for n in constants.integers if n > _LARGEST_FACTOR][:_MOST_PAIRED]
        factors = [n for n in constants.integers if 1 < n <= _LARGEST_FACTOR][:_MOST_FACTORS]
        for number in numbers:
            for name in self.space.given:
                rest = math.prod(v for n, v in self.space.small.items() if n != name)
                yield {**self.space.small, name: number // rest + 1}
                for factor in factors:
                    yield {**self.space.small, name: number // factor + 1}

    # input values

    def _planted(self, constants: Constants) -> Iterator[SearchPoint]:
        """Yield one value or its neighbours in all elements, or between random ones."""
        shape = tuple(sorted(self.space.small.items()))
        for value in constants.floats[:_MOST_CONSTANTS]:
            beyond = float(np.nextafter(np.float32(value), np.float32(np.copysign(np.inf, value))))
            for planted in dict.fromkeys((value, 2 * value, beyond, -value, -2 * value)):
                if math.isfinite(planted):
                    yield SearchPoint(shape, (planted, *[None] * (_SPARSE - 1)))
                    yield SearchPoint(shape, (planted,))

    def _patterns(self, constants: Constants, number: int) -> Iterator[SearchPoint]:
        """Yield patterns of several values, for conditions on more than one element."""
        rng = np.random.default_rng([self.space.seed, number, 1])
        shape = tuple(sorted(self.space.small.items()))
        numbers = constants.floats[:_MOST_PAIRED]
        for _ in range(_ROUND if numbers else 0):
            chosen = rng.integers(0, len(numbers), int(rng.integers(2, 6)))
            scales = rng.choice([1.0, 1.0, 1.0, 2.0], len(chosen))
            pattern = [float(numbers[n] * s) for n, s in zip(chosen.tolist(), scales.tolist(), strict=True)]
            if all(map(math.isfinite, pattern)):
                yield SearchPoint(shape, tuple(pattern))
                yield SearchPoint(shape, (*pattern, *[None] * (_SPARSE - len(pattern))))

    def _scalars(self, constants: Constants) -> Iterator[SearchPoint]:
        """Yield constants and their neighbours as values of scalars."""
        shape = tuple(sorted(self.space.small.items()))
        reals = [v for n in constants.floats[:_MOST_CONSTANTS] for v in (n, 2 * n, n / 2, -n)]
        whole = [v for n in constants.integers[:_MOST_CONSTANTS] for v in (n, n + 1, n - 1, -n)]
        columns = ([(n, v) for v in (reals if isinstance(given, float) else whole)] for n, given in self.space.scalars.items())
        for chosen in chain.from_iterable(zip_longest(*columns)):
            if chosen is not None:
                yield SearchPoint(shape, scalars=(chosen,))

    # points that reached something new, for conditions on several sizes, scalars and values

    def _extended(self, constants: Constants) -> Iterator[SearchPoint]:
        """Yield useful points with a constant, or the next number, as one of their sizes or scalars."""
        for number, point in product(constants.compared[:_MOST_PAIRED], reversed(self._useful[-_MOST_EXTENDED:])):
            for value in (number + 1, number, number - 1):
                for name in self.space.given:
                    for changed in self._shaped([{**dict(point.params), name: value}]):
                        yield replace(point, params=changed.params)
                for name, given in self.space.scalars.items():
                    if isinstance(given, int):
                        yield replace(point, scalars=tuple(sorted({**dict(point.scalars), name: value}.items())))

    def _mutated(self, constants: Constants, number: int) -> Iterator[SearchPoint]:
        """Yield useful points with another size, or with sizes and values of two of them."""
        rng = np.random.default_rng([self.space.seed, number, 2])
        base = self._useful or [SearchPoint(tuple(sorted(self.space.small.items())))]
        names = list(self.space.given)
        for _ in range(4 * _ROUND if names else 0):
            one, other = (base[int(rng.integers(0, len(base)))] for _ in range(2))
            sizes = {n: dict(one.params if rng.random() < 0.5 else other.params).get(n, self.space.small[n]) for n in names}
            values = one.values if rng.random() < 0.5 else other.values
            name = names[int(rng.integers(0, len(names)))]
            kind = int(rng.integers(0, 6))
            if kind == 0 and constants.integers:
                chosen = min(len(constants.integers), _MOST_CONSTANTS)
                sizes[name] = constants.integers[int(rng.integers(0, chosen))] + int(rng.integers(-1, 2))
            elif kind == 1:
                sizes[name] += int(rng.integers(-8, 9))
            elif kind == 2:
                sizes[name] = int(rng.integers(1, 2 * self.space.given[name] + 2))
            for point in self._shaped([sizes]):
                yield replace(point, values=values, scalars=tuple(sorted({**dict(one.scalars), **dict(other.scalars)}.items())))


def _signed(operand: int) -> int:
    """Return an operand of 32 bits, or of 64 bits, as a signed number."""
    if operand < 1 << 32:
        return operand - (1 << 32) if operand >= 1 << 31 else operand
    return operand - (1 << 64) if operand >= 1 << 63 else operand
