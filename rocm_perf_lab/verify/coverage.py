"""Coverage of a rewrite by its trials: branches that no trial took, and a search for trials that take them.

The search runs the rewrite alone. Only a trial that reaches something new is also run with the unmodified kernel and compared. It
counts as coverage only if the unmodified kernel supports it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.languages.arguments import BufferArgument, ScalarArgument, StructArgument
from rocm_perf_lab.verify.branch_search import BranchSearch, SearchPoint, SearchSpace
from rocm_perf_lab.verify.branches import UncoveredBranch, uncovered_branches
from rocm_perf_lab.verify.inputs import InputKind, is_random
from rocm_perf_lab.verify.shapes import elements, workgroups
from rocm_perf_lab.verify.trials import ScalarChoice, Trial, scalar_choices, trial_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rocm_perf_lab.emulator.branch_coverage import BranchCoverage
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.code_object import CodeObject
    from rocm_perf_lab.verify.shapes import Sizes

_MOST_ELEMENTS = 12 << 20
"""Elements of the buffers of one shape."""
_MOST_WORKGROUPS = 1 << 17
_CHEAP_ELEMENTS = 1 << 18
"""Shapes with more elements are tried last, and few of them."""
_ALL_ELEMENTS = 24 << 20
_MOST_LARGE = 6
_PROPOSALS = 8
"""Points per trial from which those with small shapes are taken."""
_FEW_ELEMENTS = 2000
_SMALL_SIZES = (133, 5, 3, 2)

Attempt = Callable[[Trial], "AttemptedTrial"]
"""Runs a trial of the rewrite."""


@dataclass(frozen=True)
class AttemptedTrial:
    """Result of a trial of the rewrite alone.

    Args:
        covered: Coverage; None if the rewrite failed, or has other code for this shape.
        failed: The rewrite failed, for example with an access out of bounds.
        compare: Compares the trial with the unmodified kernel: None if that does not support the trial, else whether it passed.
    """

    covered: BranchCoverage | None
    failed: bool
    compare: Callable[[], bool | None]


@dataclass
class CoverageRecorder:
    """Coverage of the trials of one rewrite so far.

    Args:
        code: SHA-256 of the code object for the described shape; other builds of the same source are not recorded.
    """

    code: str
    coverage: BranchCoverage | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    def add(self, covered: BranchCoverage | None, params: Mapping[str, Any]) -> None:
        """Add the coverage of a trial with these params."""
        if covered is None or covered.code != self.code:
            return
        self.coverage = covered if self.coverage is None else self.coverage.merged(covered)
        self.params = params


@dataclass(frozen=True)
class CoverageSearch:
    """Search for trials of one kernel.

    Args:
        description: Kernel.
        sizes: Sizes that the unmodified kernel supports.
        seed: Seed of the run.
        trials: Trials of the rewrite alone.
    """

    description: KernelDescription
    sizes: Sizes
    seed: int
    trials: int

    def run(self, recorder: CoverageRecorder, source: Path, attempt: Attempt) -> bool:
        """Try points until all branches are covered, a comparison fails or the trials are used up.

        Args:
            recorder: Coverage of earlier trials, to which that of supported ones is added.
            source: Source of the rewrite.
            attempt: Runs a trial of the rewrite.

        Returns:
            Whether all comparisons passed.
        """
        if recorder.coverage is None:
            return True
        search = BranchSearch(self._space(source), recorder.coverage, self._sizes_of(recorder.params))
        passed = all(self._passes(search, point, recorder.code, attempt) for point in self._chosen(search))
        recorder.coverage = search.coverage
        return passed

    def _chosen(self, search: BranchSearch) -> Iterator[SearchPoint]:
        """Yield points, those with large shapes last, within the limits of trials and elements."""
        if search.is_finished:
            return
        cheap = 0
        large: list[SearchPoint] = []
        for point in islice(search.points(), _PROPOSALS * self.trials):
            if elements(self.description, self.trial(point).params) > _CHEAP_ELEMENTS:
                large.append(point)
                continue
            cheap += 1
            yield point
            if cheap >= self.trials or search.is_finished:
                break
        left = _ALL_ELEMENTS
        for point in large[:_MOST_LARGE]:
            left -= elements(self.description, self.trial(point).params)
            if left < 0 or search.is_finished:
                return
            yield point

    def _passes(self, search: BranchSearch, point: SearchPoint, code: str, attempt: Attempt) -> bool:
        """Run a point, compare it if it reaches something new, and return whether it is not wrong."""
        attempted = attempt(self.trial(point))
        covered = attempted.covered if attempted.covered is not None and attempted.covered.code == code else None
        is_new = covered is not None and search.gains(covered)
        passed = attempted.compare() if is_new or attempted.failed else None
        if covered is not None:
            search.learn(point, covered, counts=passed is True)
        return passed is not False

    def trial(self, point: SearchPoint) -> Trial:
        """Return the trial of a point."""
        params = self.sizes.params(self.description.params, dict(point.params))
        kind = InputKind("planted", values=point.values) if point.values else InputKind("random")
        scalars = dict(point.scalars)
        choice = ScalarChoice(
            {name: value for name, value in scalars.items() if name in params},
            {name: value for name, value in scalars.items() if name not in params},
        )
        return trial_of(self.description, params, self.seed, kind, shape="searched", scalars=choice if scalars else None)

    def _space(self, source: Path) -> SearchSpace:
        given = self._sizes_of(self.description.params)
        buffers = [a for a in self.description.arguments if isinstance(a, BufferArgument)]
        return SearchSpace(
            given=given,
            small=self._small(given),
            scalars=self._scalars(),
            has_values=any(map(is_random, buffers)),
            valid=self._valid,
            source=source.read_text(errors="replace"),
            seed=self.seed,
        )

    def _scalars(self) -> dict[str, int | float]:
        """Return the described values of scalars that are no sizes: params, and numbers in arguments."""
        values: dict[str, int | float | str] = {}
        for argument in self.description.arguments:
            if isinstance(argument, ScalarArgument):
                values[argument.name] = argument.value
            elif isinstance(argument, StructArgument):
                values |= {f"{argument.name}.{n}": member.value for n, member in enumerate(argument.fields)}
        given = {**values, **self.description.params}
        found: dict[str, int | float] = {}
        for choice in scalar_choices(self.description):
            for name, other in {**choice.params, **choice.arguments}.items():
                value = given.get(name)
                number = value if isinstance(value, int | float) else other
                found.setdefault(name, float(number) if isinstance(other, float) else number)
        return found

    def _sizes_of(self, params: Mapping[str, Any]) -> dict[str, int]:
        return {name: int(params[name]) for name in self.sizes.rules}

    def _small(self, given: Mapping[str, int]) -> Mapping[str, int]:
        """Return small sizes, with enough elements for all lanes of some wavefronts."""
        if len(given) == 1:
            small = {name: min(value, _FEW_ELEMENTS) for name, value in given.items()}
        else:
            places = range(len(given) - 1, -1, -1)  # the last size is the longest: elements of a row are next to each other
            small = {n: min(v, _SMALL_SIZES[min(p, 3)]) for p, (n, v) in zip(places, given.items(), strict=True)}
        return self._valid(small) or dict(given)

    def _valid(self, shape: Mapping[str, int]) -> Mapping[str, int] | None:
        values = {name: rule.nearest(shape[name]) for name, rule in self.sizes.rules.items()}
        params = self.sizes.params(self.description.params, values)
        fits = elements(self.description, params) <= _MOST_ELEMENTS and workgroups(self.description, params) <= _MOST_WORKGROUPS
        return values if fits else None


def uncovered(recorder: CoverageRecorder, code_object: CodeObject, source: Path) -> tuple[UncoveredBranch, ...]:
    """Return the branches that no trial took; none if no trial was recorded.

    Args:
        recorder: Coverage of all trials.
        code_object: Code for the described shape.
        source: Source of the rewrite.
    """
    if recorder.coverage is None:
        return ()
    return uncovered_branches(recorder.coverage, code_object, source)
