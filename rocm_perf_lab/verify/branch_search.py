"""Search for shapes and input values that take the branches that were not taken by earlier trials.

Proposals come from several sources in turn, cheap ones first: operands of comparisons, solved for the size on which they depend;
constants of the kernel and their neighbours; pairs of constants for two sizes; sums, products and multiples of constants;
input values; and mutations of points that increased the coverage. The search is deterministic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise, permutations, product, zip_longest
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.emulator.probes import Outcome
from rocm_perf_lab.verify.branch_constants import Constants, find_constants
from rocm_perf_lab.verify.branch_solving import ComparisonSolver
from rocm_perf_lab.verify.branches import open_conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rocm_perf_lab.emulator.branch_coverage import BranchCoverage
    from rocm_perf_lab.emulator.program import BasicBlock

_ROUND = 12
"""Number of points that are tried before the proposals are renewed."""
_MOST_CONSTANTS = 24
_MOST_PAIRED = 10
_MOST_EXTENDED = 4
_MOST_BASES = 1
_FLOAT_WEIGHT = 3
_MOST_CROSSED = 16
_MOST_FACTORS = 3
_LARGEST_FACTOR = 1024
_SPARSE = 61
"""Distance of planted values among random elements; odd, so that they are processed by all lanes."""
_LARGEST_SIZE = 1 << 31
_PATIENCE = 48
_LONG_PATIENCE = 112


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
    """Sizes, scalars and inputs that a search may change.

    Args:
        given: Described values of the sizes.
        small: Small values of the sizes that the unmodified kernel supports.
        scalars: Described values of scalars that are not sizes.
        has_values: Whether inputs with random values exist.
        valid: Returns the nearest supported sizes, or None if the shape is too large.
        grid: Returns the workgroups per axis for sizes; None if the sizes cannot be launched.
        source: Text of the source.
        seed: Seed of mutations.
    """

    given: Mapping[str, int]
    small: Mapping[str, int]
    scalars: Mapping[str, int | float]
    has_values: bool
    valid: Callable[[Mapping[str, int]], Mapping[str, int] | None]
    grid: Callable[[Mapping[str, int]], tuple[int, ...] | None]
    source: str
    seed: int


def add_witnesses(
    witnesses: dict[tuple[int, Outcome], Mapping[str, int]], covered: BranchCoverage, sizes: Mapping[str, int]
) -> None:
    """Record the sizes of a trial for outcomes and blocks that it covered first."""
    for address, outcome in covered.outcomes.items():
        for bit in (Outcome.TRUE, Outcome.FALSE):
            if outcome & bit and (address, bit) not in witnesses:
                witnesses[address, bit] = sizes
    for address in covered.executed:
        witnesses.setdefault((address, Outcome.NONE), sizes)


@dataclass
class BranchSearch:
    """Proposes points, and learns from their coverage.

    Args:
        space: Sizes, scalars and inputs that may be changed.
        coverage: Coverage of the trials so far.
        recorded: Sizes of the trial from which the operands of comparisons in `coverage` are.
        witnesses: Sizes of the first trials that observed an outcome, by address; by the address of a block and no outcome, of
            those that executed it.
    """

    space: SearchSpace
    coverage: BranchCoverage
    recorded: Mapping[str, int]
    witnesses: dict[tuple[int, Outcome], Mapping[str, int]] = field(default_factory=dict)
    _tried: set[SearchPoint] = field(default_factory=set)
    _useful: list[SearchPoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._solver = ComparisonSolver(tuple(self.space.given), self.space.grid)
        self._remember(self.coverage, self.recorded, {})

    @property
    def is_finished(self) -> bool:
        """True if both outcomes of every condition in executed code were observed."""
        return not open_conditions(self.coverage)

    @property
    def patience(self) -> int | None:
        """Consecutive points without new coverage after which the search should end; None if an outcome of a branch is missing.

        Divisions and functions such as `expf` contain selections that no input reaches. Selections that compare integers, or may
        compare a scalar, may depend on more than one argument of the kernel, and are searched for longer.
        """
        opened = open_conditions(self.coverage)
        if any(condition.target is not None for condition in opened):
            return None
        has_real = any(isinstance(value, float) for value in self.space.scalars.values())
        of_inputs = all(c.instruction.mnemonic.startswith("V_CMP") and "_F" in c.instruction.mnemonic for c in opened)
        return _PATIENCE if of_inputs and not has_real else _LONG_PATIENCE

    @property
    def useful(self) -> int:
        """Number of points so far that increased the coverage."""
        return len(self._useful)

    def points(self) -> Iterator[SearchPoint]:
        """Yield points to try until all branches are covered or the proposals end; call :meth:`learn` after each.

        Proposals are renewed after some points, or as soon as one increases the coverage.
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
        """Record the coverage of a launch.

        Args:
            point: Point of the launch.
            covered: Coverage of the launch.
            counts: Whether the trial was compared with the unmodified kernel, so that its branches count as covered.
        """
        self._remember(covered, {**self.space.given, **dict(point.params)}, dict(point.scalars))
        if self.gains(covered):
            self._useful.append(point)
        if counts:
            self.coverage = self.coverage.merged(covered)

    def _remember(self, covered: BranchCoverage, sizes: Mapping[str, int], scalars: Mapping[str, int | float]) -> None:
        for address, operands in covered.operands.items():
            self._solver.observe(address, operands, sizes, {**self.space.scalars, **scalars})
        add_witnesses(self.witnesses, covered, sizes)

    def _proposals(self, number: int) -> Iterator[SearchPoint]:
        """Yield untried points, from all sources in turn."""
        constants = find_constants(self.coverage.program, open_conditions(self.coverage), self.space.source)
        solved = chain(self._solved_scalars(), self._shaped(self._solved()))
        shapes = (self._crossed(), *self._constant_shapes(constants)) if self.space.given else ()
        sources = [self._shaped(shape) for shape in shapes]
        values = [self._planted(constants), self._patterns(constants, number)] if self.space.has_values else []
        values.append(self._scalars(constants))
        sources += [*values * self._weight_of_values(), self._extended(constants), self._mutated(constants, number)]
        seen: set[SearchPoint] = set()
        for point in chain(islice(solved, _ROUND // 3), chain.from_iterable(zip_longest(solved, *sources))):
            if point is not None and point not in self._tried and point not in seen:
                seen.add(point)
                yield point

    def _shaped(self, shapes: Iterable[Mapping[str, int]]) -> Iterator[SearchPoint]:
        """Yield valid shapes as untried points."""
        for shape in shapes:
            if not all(0 < value < _LARGEST_SIZE for value in shape.values()):
                continue
            if SearchPoint(tuple(sorted(shape.items()))) not in self._tried:
                valid = self.space.valid(shape)
                if valid is not None:
                    yield SearchPoint(tuple(sorted(valid.items())))

    # shapes from operands of comparisons

    def _solved(self) -> Iterator[Mapping[str, int]]:
        """Yield shapes that are predicted to reach the missing outcome of a comparison, from all of them in turn."""
        columns = [self._solver.shapes(address) for address in self._undecided_comparisons()]
        yield from (shape for shape in chain.from_iterable(zip_longest(*columns)) if shape is not None)

    def _solved_scalars(self) -> Iterator[SearchPoint]:
        """Yield values of scalars that are predicted to change the outcome of a comparison with a scalar."""
        for address in self._undecided_comparisons():
            for sizes, name, value in self._solver.scalars(address):
                yield SearchPoint(tuple(sorted(sizes.items())), scalars=((name, value),))

    def _undecided_comparisons(self) -> list[int]:
        """Return the scalar comparisons in executed code with a missing outcome, those next to open conditions first."""
        near = {c.instruction.address for c in open_conditions(self.coverage)}
        first: list[int] = []
        others: list[int] = []
        for block in self.coverage.program.blocks:
            addresses = [i.address for i in block.instructions if self._solver.is_known(i.address)]
            undecided = [a for a in addresses if self.coverage.outcomes.get(a, Outcome.NONE) is not Outcome.BOTH]
            (first if any(i.address in near for i in block.instructions) else others).extend(undecided)
        return first + others

    def _open_blocks(self) -> list[BasicBlock]:
        """Return the blocks with a condition with a missing outcome."""
        near = {c.instruction.address for c in open_conditions(self.coverage)}
        return [b for b in self.coverage.program.blocks if any(i.address in near for i in b.instructions)]

    def _weight_of_values(self) -> int:
        """Return the number of value proposals per shape: more if open conditions compare floating-point numbers."""
        opened = (i.mnemonic for block in self._open_blocks() for i in block.instructions)
        return _FLOAT_WEIGHT if any(name.startswith("V_CMP") and "_F" in name for name in opened) else 1

    def _bases(self) -> list[tuple[tuple[str, int], ...]]:
        """Return the sizes of the first trials that executed blocks with open conditions, then small sizes."""
        reached = [self.witnesses.get((block.address, Outcome.NONE)) for block in self._open_blocks()]
        shapes = [*[sizes for sizes in reached if sizes is not None][:_MOST_BASES], self.space.small]
        return list(dict.fromkeys(tuple(sorted(shape.items())) for shape in shapes))

    def _crossed(self) -> Iterator[Mapping[str, int]]:
        """Yield sizes from two trials in which conditions of one block had different outcomes."""
        for block in self._open_blocks():
            keys = [(i.address, outcome) for i in block.instructions for outcome in (Outcome.TRUE, Outcome.FALSE)]
            found = (self.witnesses[key] for key in reversed(keys) if key in self.witnesses)
            shapes = list({tuple(sorted(shape.items())): shape for shape in found}.values())
            for one, other in islice(permutations(shapes, 2), _MOST_CROSSED):
                for name in self.space.given:
                    yield {**one, name: other[name]}

    # shapes from constants

    def _constant_shapes(self, constants: Constants) -> tuple[Iterator[Mapping[str, int]], ...]:
        return self._singles(constants), self._pairs(constants), self._quotients(constants), self._derived(constants)

    def _singles(self, constants: Constants) -> Iterator[Mapping[str, int]]:
        for constant in constants.integers[:_MOST_CONSTANTS]:
            for name in self.space.given:
                for value in (constant, constant + 1, constant - 1):
                    yield {**self.space.small, name: value}

    def _pairs(self, constants: Constants) -> Iterator[Mapping[str, int]]:
        """Yield shapes with constants as two of their sizes, which a combined condition may require."""
        names = list(self.space.given)
        numbers = list(dict.fromkeys([*constants.compared, *constants.integers]))[:_MOST_PAIRED]
        ordered = sorted(product(range(len(numbers)), repeat=2), key=lambda pair: (max(pair), pair))
        for a, b in ordered:
            for n, one in enumerate(names):
                for other in names[n + 1 :]:
                    yield {**self.space.small, one: numbers[a], other: numbers[b]}
                    yield {**self.space.small, one: numbers[a] + 1, other: numbers[b] + 1}
                    yield {**self.space.small, one: numbers[a], other: numbers[b] + 1}
                    yield {**self.space.small, one: numbers[a] + 1, other: numbers[b]}

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
        """Yield shapes in which the product of all sizes, or of one size and a compiled-in number, exceeds a constant."""
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
        """Yield one value, or its neighbours, in all elements or among random ones."""
        for value in _neighbours(constants.floats[:_MOST_CONSTANTS]):
            for shape in self._bases():
                yield SearchPoint(shape, (value, *[None] * (_SPARSE - 1)))
                yield SearchPoint(shape, (value,))

    def _patterns(self, constants: Constants, number: int) -> Iterator[SearchPoint]:
        """Yield patterns of several values, for conditions on more than one element."""
        rng = np.random.default_rng([self.space.seed, number, 1])
        bases = self._bases()
        numbers = constants.floats[:_MOST_PAIRED]
        for _ in range(_ROUND if numbers else 0):
            chosen = rng.integers(0, len(numbers), int(rng.integers(2, 6)))
            scales = rng.choice([1.0, 1.0, 1.0, 2.0], len(chosen))
            pattern = [float(numbers[n] * s) for n, s in zip(chosen.tolist(), scales.tolist(), strict=True)]
            shape = bases[int(rng.integers(0, len(bases)))]
            if all(map(math.isfinite, pattern)):
                yield SearchPoint(shape, tuple(pattern))
                yield SearchPoint(shape, (*pattern, *[None] * (_SPARSE - len(pattern))))

    def _scalars(self, constants: Constants) -> Iterator[SearchPoint]:
        """Yield constants and their neighbours as values of scalars."""
        bases = self._bases()
        reals = list(_neighbours(constants.floats[:_MOST_CONSTANTS]))
        whole = [v for n in constants.integers[:_MOST_CONSTANTS] for v in (n, n + 1, n - 1, -n)]
        columns = ([(n, v) for v in (reals if isinstance(given, float) else whole)] for n, given in self.space.scalars.items())
        for chosen in chain.from_iterable(zip_longest(*columns)):
            for shape in bases[:1] if chosen is not None else ():
                yield SearchPoint(shape, scalars=(chosen,))

    # points that increased the coverage, for conditions on several sizes, scalars and values

    def _extended(self, constants: Constants) -> Iterator[SearchPoint]:
        """Yield useful points in which one size or scalar is replaced by a constant or its neighbour."""
        for number, point in product(constants.compared[:_MOST_PAIRED], reversed(self._useful[-_MOST_EXTENDED:])):
            for value in (number + 1, number, number - 1):
                for name in self.space.given:
                    for changed in self._shaped([{**dict(point.params), name: value}]):
                        yield replace(point, params=changed.params)
                for name, given in self.space.scalars.items():
                    if isinstance(given, int):
                        yield replace(point, scalars=tuple(sorted({**dict(point.scalars), name: value}.items())))

    def _mutated(self, constants: Constants, number: int) -> Iterator[SearchPoint]:
        """Yield useful points with one size changed, or combined from the sizes and values of two."""
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


def _neighbours(numbers: Sequence[float]) -> Iterator[float]:
    """Yield numbers, their representable neighbours, doubles, halves and means of two, and the negatives of all of these."""
    means = [(a + b) / 2 for a, b in pairwise(numbers)]
    found: dict[float, None] = {}
    for number, mean in zip_longest(numbers, means):
        beyond, below = (float(np.nextafter(np.float32(number), np.float32(end))) for end in (np.inf, -np.inf))
        near = (number, 2 * number, beyond, below, *(() if mean is None else (mean,)), -number, number / 2, -2 * number)
        found |= dict.fromkeys(value for value in near if math.isfinite(value))
    yield from found
