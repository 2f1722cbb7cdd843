"""Coverage of a rewrite by its trials: branches that were not taken, and a search for trials that take them.

The search runs only the rewrite. A trial that covers a new branch is also run with the unmodified kernel and compared; it counts
as coverage only if the unmodified kernel supports it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from rocm_perf_lab.languages.arguments import BufferArgument, ScalarArgument, StructArgument
from rocm_perf_lab.verify.branch_search import BranchSearch, SearchPoint, SearchSpace, add_witnesses
from rocm_perf_lab.verify.branches import uncovered_branches
from rocm_perf_lab.verify.inputs import InputKind, is_random
from rocm_perf_lab.verify.shapes import elements, grid_axes, workgroups
from rocm_perf_lab.verify.trials import ScalarChoice, scalar_choices, trial_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rocm_perf_lab.emulator.branch_coverage import BranchCoverage
    from rocm_perf_lab.emulator.probes import Outcome
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.toolchain.code_object import CodeObject
    from rocm_perf_lab.verify.branches import UncoveredBranch
    from rocm_perf_lab.verify.sizes import Sizes
    from rocm_perf_lab.verify.trials import Trial

_MOST_ELEMENTS = 12 << 20
"""Maximum number of elements of all buffers of one shape."""
_MOST_WORKGROUPS = 1 << 17
_CHEAP_ELEMENTS = 1 << 16
"""Shapes with more elements are tried last, and only a few of them."""
_ALL_ELEMENTS = 12 << 20
_MOST_LARGE = 3
_PROPOSALS = 8
"""Number of points per trial from which those with small shapes are selected."""
_FEW_ELEMENTS = 2000
_SMALL_SIZES = (133, 5, 3, 2)


@dataclass(frozen=True)
class AttemptedTrial:
    """Result of a trial of only the rewrite.

    Args:
        covered: Coverage; None if the rewrite failed.
        suspicious: The rewrite failed, or has a finding that the unmodified kernel does not have with its own shape.
    """

    covered: BranchCoverage | None
    suspicious: bool


class SearchedKernel(Protocol):
    """Rewrite whose trials are searched."""

    def attempt(self, trial: Trial) -> AttemptedTrial:
        """Run a trial of only the rewrite."""
        ...

    def compare(self, trial: Trial) -> bool | None:
        """Return whether the rewrite is correct in a trial; None if the unmodified kernel does not support the trial."""
        ...


@dataclass
class CoverageRecorder:
    """Coverage of the trials of one rewrite so far, by the SHA-256 of the code object."""

    _by_code: dict[str, tuple[BranchCoverage, Mapping[str, Any]]] = field(default_factory=dict)
    _witnesses: dict[str, dict[tuple[int, Outcome], Mapping[str, Any]]] = field(default_factory=dict)

    def add(self, covered: BranchCoverage | None, params: Mapping[str, Any]) -> None:
        """Add the coverage of a trial with these params."""
        if covered is not None:
            known = self._by_code.get(covered.code)
            add_witnesses(self._witnesses.setdefault(covered.code, {}), covered, params)
            self._by_code[covered.code] = (covered if known is None else known[0].merged(covered), params)

    def coverage(self, code: str) -> tuple[BranchCoverage, Mapping[str, Any]] | None:
        """Return the coverage of a code object and the params of its last trial; None without trials."""
        return self._by_code.get(code)

    def witnesses(self, code: str) -> Mapping[tuple[int, Outcome], Mapping[str, Any]]:
        """Return the params of the first trial that observed each outcome, or that executed each block."""
        return self._witnesses.get(code, {})


@dataclass(frozen=True)
class SearchResult:
    """Result of a search: whether all comparisons passed, and the branches that were not taken."""

    passed: bool
    uncovered: tuple[UncoveredBranch, ...]


@dataclass(frozen=True)
class CoverageSearch:
    """Search for trials of one kernel.

    Args:
        description: Kernel.
        sizes: Sizes that the unmodified kernel supports.
        seed: Seed of the run.
        trials: Maximum number of trials of the rewrite.
    """

    description: KernelDescription
    sizes: Sizes
    seed: int
    trials: int

    def run(self, code_object: CodeObject, recorder: CoverageRecorder, source: Path, kernel: SearchedKernel) -> SearchResult:
        """Try points until all branches are covered, a comparison fails, or the maximum number of trials is reached.

        Args:
            code_object: Code of the rewrite for the described shape. Other builds of the source are not searched.
            recorder: Coverage of earlier trials.
            source: Source of the rewrite.
            kernel: Runs and compares trials.
        """
        known = recorder.coverage(code_object.sha256)
        if known is None:
            return SearchResult(True, ())
        witnesses = recorder.witnesses(code_object.sha256)
        sizes: dict[tuple[int, Outcome], Mapping[str, int]] = {key: self._sizes_of(params) for key, params in witnesses.items()}
        search = BranchSearch(self._space(source), known[0], self._sizes_of(known[1]), sizes)
        passed = all(self._passes(search, point, kernel) for point in self._chosen(search))
        return SearchResult(passed, uncovered_branches(search.coverage, code_object, source))

    def _chosen(self, search: BranchSearch) -> Iterator[SearchPoint]:
        """Yield points within the limits of trials and elements, those with large shapes last."""
        if search.is_finished:
            return
        cheap = last = 0
        large: list[SearchPoint] = []
        for point in islice(search.points(), _PROPOSALS * self.trials):
            if elements(self.description, self.trial(point).params) > _CHEAP_ELEMENTS:
                large.append(point)
                continue
            cheap += 1
            useful = search.useful
            yield point
            last = cheap if search.useful != useful else last
            patience = search.patience
            if cheap >= self.trials or search.is_finished or (patience is not None and cheap - last >= patience):
                break
        left = _ALL_ELEMENTS
        for point in large[:_MOST_LARGE]:
            left -= elements(self.description, self.trial(point).params)
            if left < 0 or search.is_finished:
                return
            yield point

    def _passes(self, search: BranchSearch, point: SearchPoint, kernel: SearchedKernel) -> bool:
        """Run a point, compare it if it covers a new branch, and return False if the comparison fails."""
        trial = self.trial(point)
        attempted = kernel.attempt(trial)
        covered = attempted.covered if attempted.covered is not None and attempted.covered.code == search.coverage.code else None
        is_new = covered is not None and search.gains(covered)
        passed = kernel.compare(trial) if is_new or attempted.suspicious else None
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
            grid=lambda shape: grid_axes(self.description, self.sizes.params(self.description.params, shape)),
            source=source.read_text(errors="replace"),
            seed=self.seed,
        )

    def _scalars(self) -> dict[str, int | float]:
        """Return the described values of scalars that are not sizes: params, and numbers in arguments."""
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
            places = range(len(given) - 1, -1, -1)  # The last size is the longest, because the elements of a row are contiguous.
            small = {n: min(v, _SMALL_SIZES[min(p, 3)]) for p, (n, v) in zip(places, given.items(), strict=True)}
        return self._valid(small) or dict(given)

    def _valid(self, shape: Mapping[str, int]) -> Mapping[str, int] | None:
        values = {name: rule.nearest(shape[name]) for name, rule in self.sizes.rules.items()}
        params = self.sizes.params(self.description.params, values)
        fits = elements(self.description, params) <= _MOST_ELEMENTS and workgroups(self.description, params) <= _MOST_WORKGROUPS
        return values if fits else None
