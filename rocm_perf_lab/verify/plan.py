"""Selection and recording of the trials of a kernel: its supported sizes and inputs, then shapes with distributions of inputs.

A trial is selected if the unmodified kernel supports it. Limits are counted in trials and instructions, not in seconds, so that
the same seed selects the same trials.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations, cycle
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.faults import BarrierDeadlock, InstructionBudgetExceeded
from rocm_perf_lab.languages.arguments import BufferArgument
from rocm_perf_lab.verify.baseline import Refusals
from rocm_perf_lab.verify.branch_constants import floats_of, rounds_to_nearest
from rocm_perf_lab.verify.inputs import REVEALING, InputKind, is_accumulated, next_to, possible_inputs
from rocm_perf_lab.verify.shapes import Cost, Shape, ShapePlan, elements, workgroups
from rocm_perf_lab.verify.sizes import SizeRule, Sizes, constants_of, declared_sizes, tiles_of
from rocm_perf_lab.verify.trial_runs import DEFAULT_BUDGET
from rocm_perf_lab.verify.trials import in_place_pairs, next_scalars, scalar_choices, scalar_values, trial_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.verify.baseline import BaselineRecorder
    from rocm_perf_lab.verify.comparison import BaselineTrial
    from rocm_perf_lab.verify.policy import TrialPolicy
    from rocm_perf_lab.verify.trials import Trial

_BASES = (64, 128, 256)
_UNITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_PROBE = 48
_MOST_ELEMENTS = 1 << 18
_MOST_PROBED = 1 << 19
_MOST_ALLOCATED = 1 << 26
_BEYOND_16_BITS = (1 << 16) + 1
_SHARE_OF_REPEATING = 4
_SHARE_OF_ROWS = 8
"""Divisor of the instructions of all trials: budget of all long rows with special inputs."""
_WITH_SCALARS = ("special", "denormal")
"""Inputs to combine with each choice of scalars, for zero times infinity, and subnormal times a large number."""
_SHARE = 16
"""Divisor of the instructions of all trials: budget of one shape next to a number in a rewrite."""
_SMALL_SHARE = 64
"""Divisor of the instructions of all trials: budget of one other shape, except large ones and those around tiles."""
_SHARE_OF_TILES = 256
_FEW_ELEMENTS = 256
"""Minimum number of elements of shapes for repeated dispatches and special values; smaller shapes are mostly edge cases."""
_REPEATED = 3
_SPECIAL_FACTORS = ((1, 3), (2, 0), (1, 17), (4, 5), (8, 1), (16, 7))
"""Sizes of special shapes: multiple of the first supported shape's sizes, and additional units."""
_SLOTS_OF_RANDOM = 2
"""Cycle of shapes: one has random inputs, the others have the distributions in turn."""
_MOST_BYTES = 512 << 20
_FRACTIONS = 64
"""Scalars and floating-point literals that are multiples of 1 / 64 keep ties exact."""
_LEAST_SCALE = 3.0
_USUAL_SCALE = 127.0
"""Largest integer of quantised values: a number in the source; default: the largest of 8 bits."""
_MOST_PLANTED = 8
"""Maximum number of a rewrite's floating-point numbers that are planted in inputs."""
_TIMES_OF_BASE = 2
_LEAST_SHAPES = 100
_RANDOM = InputKind("random")
_MEASURED_SIZES = 3
_MOST_REVEALING = ("special", "large", "zeros")
"""Distributions to try if only few trials are affordable."""
_TIMES_OF_LARGE = 2
"""Budget of one large shape as a multiple of the instructions of all trials."""


@dataclass
class TrialPlan:
    """Finds and records the trials of a kernel.

    Args:
        recorder: Runs the unmodified kernel.
        notes: One line for each type of trial that is omitted.
    """

    recorder: BaselineRecorder
    seed: int
    most_trials: int | None = None
    notes: list[str] = field(default_factory=list)
    _refused: Refusals = field(default_factory=Refusals)
    _sizes: Sizes = field(default_factory=Sizes)
    _base: BaselineTrial | None = None
    _kinds: list[InputKind] = field(default_factory=list)
    _builds: set[object] = field(default_factory=set)
    _added: dict[str, BaselineTrial | None] = field(default_factory=dict)
    _special: list[Shape] = field(default_factory=list)
    _cost: Cost = field(default_factory=lambda: Cost({}, {}, {}))
    _too_long: int = 0
    _left_out: int = 0

    @property
    def _description(self) -> KernelDescription:
        return self.recorder.description

    @property
    def _policy(self) -> TrialPolicy:
        return self.recorder.policy

    def run(self) -> list[BaselineTrial]:
        """Record all trials and return them in order of cost.

        Raises:
            LabError: The kernel has no output, or fails with the described shape and random inputs.
        """
        self._require_an_output()
        given = self._description.params
        own = self.recorder.record(self._trial(Shape(dict(given), "described")))
        self.recorder.own_findings = own.finding_kinds
        self._base = own
        self._find_sizes(own)
        self._find_cost()
        self._find_inputs()
        self._record_special()
        self._record_shapes()
        self.notes += self._refused.notes()
        if self._too_long or self._left_out:
            self.notes.append(f"{self._too_long + self._left_out} shapes omitted: they exceed the budget of trials")
        results = self.recorder.finished()
        self.notes += self.recorder.notes
        return results

    def _require_an_output(self) -> None:
        described = self._description
        if not any(isinstance(argument, BufferArgument) and argument.access != "in" for argument in described.arguments):
            raise LabError(
                f"kernel {described.name} has no output, so no rewrite could be compared with it",
                where=f"{described.directory / 'kernel.yaml'}, arguments",
                hint="declare the buffers that it writes with access: out or inout",
            )

    def for_constants(self, texts: Sequence[str]) -> Iterator[Trial]:
        """Return trials with sizes next to the integers in source texts, except those in the unmodified source."""
        floats = dict.fromkeys(value for text in texts for value in floats_of(text))
        own = set(floats_of(self._text()))
        values = [value for value in floats if value not in own][:_MOST_PLANTED]
        yield from self._planted(values)
        for scalars in next_scalars(self._description, values):
            yield trial_of(self._description, self._special[0].params, self.seed, shape=self._special[0].kind, scalars=scalars)
        known = self._constants()
        new = set[int]().union(*(constants_of(text) for text in texts)) - known
        if not new:
            return
        tried = {tuple(sorted(b.trial.params.items())) for b in self.recorder.recorded}
        plan = self._shape_plan(_SHARE)
        for shape in (*self._around(plan, new), *plan.limits(new, known, powers=False)):
            if tuple(sorted(shape.params.items())) not in tried:
                yield self._trial(shape)

    def _around(self, plan: ShapePlan, tiles: set[int]) -> Iterator[Shape]:
        return plan.tiled(plan.tiles(self._most(_SHARE_OF_TILES)).around(tiles))

    @property
    def sizes(self) -> Sizes:
        """Sizes and their supported values."""
        return self._sizes

    def added(self, trial: Trial, most: int | None = None) -> BaselineTrial | None:
        """Return the result of an additional trial, which is recorded once; None if the unmodified kernel does not support it.

        Args:
            trial: Trial.
            most: Limit of wave instructions per dispatch.
        """
        if trial.name not in self._added:
            self._added[trial.name] = self.recorder.further(trial, most or self._most(_SHARE))
        return self._added[trial.name]

    def _planted(self, values: Sequence[float]) -> Iterator[Trial]:
        """Return trials in which elements of inputs are equal or close to the values."""
        kind = InputKind("planted", values=next_to(values))
        if kind.values and possible_inputs(self._description):
            yield from (self._trial(shape, kind) for shape in self._special[:2])

    def _text(self) -> str:
        return self.recorder.source.read_text(encoding="utf-8", errors="replace")

    def _constants(self) -> set[int]:
        return constants_of(self._text()) | tiles_of(self._description)

    def _shape_plan(self, share: int = _SMALL_SHARE) -> ShapePlan:
        return ShapePlan(self._description, self._sizes, self.seed, self._cost, self._most(share))

    def _most(self, share: int) -> int:
        """Return the instruction budget of one shape; with a fixed grid, even the smallest shape may need many instructions."""
        assert self._base is not None
        return max(self._policy.instructions // share, _TIMES_OF_BASE * self._base.instructions)

    def _trial(self, shape: Shape, kind: InputKind = _RANDOM) -> Trial:
        return trial_of(self._description, shape.params, self.seed, kind, shape=shape.kind)

    def _attempt(self, trial: Trial, subject: str, most: int | None = None) -> BaselineTrial | None:
        """Record a trial; None if the kernel does not support it, or if it exceeds a budget."""
        if workgroups(self._description, trial.params) <= 0:
            return None  # The host does not launch empty grids.
        if elements(self._description, trial.params) > _MOST_ALLOCATED:
            return None
        if self.most_trials is not None and len(self.recorder.recorded) >= self.most_trials:
            self._left_out += 1
            return None
        key = self.recorder.executor.build_key(trial)
        if key not in self._builds and len(self._builds) >= self._policy.builds and trial.shape != "declared":
            self._left_out += 1
            return None
        if sum(b.nbytes for b in self.recorder.recorded) > _MOST_BYTES:
            self._left_out += 1
            return None
        try:
            recorded = self.recorder.record(trial, most=most or DEFAULT_BUDGET)
        except LabError as error:
            if most is not None and isinstance(error, InstructionBudgetExceeded | BarrierDeadlock):
                self._too_long += 1
            elif subject:
                self._refused.add(subject, trial, error)
            return None
        self._builds.add(key)
        return recorded

    def _find_sizes(self, own: BaselineTrial) -> None:
        """Find a small shape that the kernel supports, and the unit of each size."""
        sizes = declared_sizes(self._description)
        given = self._description.params
        attempts = [{n: min(rule.nearest(v), int(given[n])) for n, rule in sizes.rules.items()} for v in _BASES]
        values = {n: int(given[n]) for n in sizes.rules}
        for attempt in attempts if sizes.rules else ():
            params = sizes.params(given, attempt)
            if attempt == values or elements(self._description, params) > _MOST_ELEMENTS:
                continue
            base = self._attempt(self._trial(Shape(params, "residues")), "")
            if base is not None:
                self._base, values = base, attempt
                break
        rules = {}
        for name, rule in sizes.rules.items():
            found = self._supported(sizes, values, name)
            if found is None:
                self.notes.append(f"{name} is not varied: the unmodified kernel supports no other value of it")
                continue
            rules[name] = found
            if found.unit > rule.unit:
                self.notes.append(f"{name}: only multiples of {found.unit}, as the unmodified kernel fails with others")
            if found.most != rule.most:
                self.notes.append(f"{name}: at most {found.most}, as the unmodified kernel fails with larger values")
        self._sizes = Sizes(rules, {n: leader for n, leader in sizes.tied.items() if leader in rules})
        if any(given[n] != v for n, v in values.items() if n not in rules):
            self._base = own

    def _supported(self, sizes: Sizes, values: Mapping[str, int], name: str) -> SizeRule | None:
        """Return the supported values of one size with the others fixed, or None if it cannot be varied."""
        rule, given = sizes.rules[name], int(self._description.params[name])
        for middle in (_PROBE, given):
            for unit in (u for u in _UNITS if u % rule.unit == 0) if rule.unit <= max(_UNITS) else (rule.unit,):
                numbers = [
                    rule.nearest(unit * (max(middle // unit, 1) | 1)),
                    rule.nearest(unit * ((max(middle // unit, 1) | 1) + 2)),
                ]
                if all(self._supports(sizes, {**values, name: number}) for number in numbers):
                    least = rule.least if middle == _PROBE else max(rule.least, min(numbers[0], given))
                    return self._with_most(sizes, values, name, replace(rule, unit=unit, least=least))
        return None

    def _with_most(self, sizes: Sizes, values: Mapping[str, int], name: str, rule: SizeRule) -> SizeRule:
        """Return a rule with the largest supported value, if the kernel does not support twice the described one."""
        given = int(self._description.params[name])
        twice = {**values, name: rule.nearest(2 * given + 1)}
        if rule.most is not None or elements(self._description, sizes.params(self._description.params, twice)) > _MOST_PROBED:
            return rule
        if self._supports(sizes, twice):
            return rule
        ends = sorted({t for t in tiles_of(self._description) if given < t < 2 * given}, reverse=True)
        most = next((end for end in ends if self._supports(sizes, {**values, name: rule.nearest(end)})), given)
        return replace(rule, most=most)

    def _supports(self, sizes: Sizes, values: Mapping[str, int]) -> bool:
        shape = Shape(sizes.params(self._description.params, values), "residues")
        return self._attempt(self._trial(shape), "") is not None

    def _find_cost(self) -> None:
        """Measure the instructions for small and larger values of all sizes, to omit shapes that are too expensive."""
        assert self._base is not None
        params = self._base.trial.params
        high = {n: int(params[n]) for n in self._sizes.rules}
        names = sorted(high, key=lambda n: -int(self._description.params[n]))[:_MEASURED_SIZES]
        low = {n: self._sizes.rules[n].nearest(1) for n in names}
        names = [n for n in names if low[n] < high[n]] if self.most_trials is None else []
        corners: dict[frozenset[str], int] = {}
        for large in (frozenset(c) for count in range(len(names) + 1) for c in combinations(names, count)):
            values = {**high, **{n: low[n] for n in names if n not in large}}
            shape = Shape(self._sizes.params(self._description.params, values), "one")
            measured = self._base if len(large) == len(names) else self._attempt(self._trial(shape), "sizes of 1")
            corners[large] = measured.instructions if measured is not None else self._base.instructions
        self._cost = Cost({n: low[n] for n in names}, {n: high[n] for n in names}, corners)

    def _find_inputs(self) -> None:
        """Find the supported distributions of inputs with a small shape."""
        self._special = self._special_shapes()
        families = possible_inputs(self._description)
        if self.most_trials is not None:
            families = tuple(family for family in families if family[0].inputs in _MOST_REVEALING)
        for family in families:
            for number, kind in enumerate(family):
                subject = str(family[0]) if number == len(family) - 1 else ""
                if self._attempt(self._trial(self._special[0], kind), subject) is not None:
                    self._kinds.append(kind)
                    break

    def _special_shapes(self) -> list[Shape]:
        """Return a few small shapes for repeated dispatches and special inputs, with enough elements for all cases."""
        assert self._base is not None
        found: list[Shape] = []
        base = {n: int(self._base.trial.params[n]) for n in self._sizes.rules}
        for factor, more in _SPECIAL_FACTORS if base else ():
            values = {n: rule.nearest(base[n] * factor + more * rule.unit) for n, rule in self._sizes.rules.items()}
            shape = Shape(self._sizes.params(self._description.params, values), "residues")
            if elements(self._description, shape.params) < _FEW_ELEMENTS:
                continue
            if self._attempt(self._trial(shape), "", self._most(_SHARE)) is not None:
                found.append(shape)
            if len(found) == _REPEATED:
                break
        return found or [Shape(dict(self._base.trial.params), self._base.trial.shape)]

    def _record_special(self) -> None:
        """Record repeated dispatches, inputs as described, in-place outputs, accumulated outputs, and other scalars."""
        shapes = self._special
        for shape in shapes:
            repeated = trial_of(self._description, shape.params, self.seed, shape=shape.kind, rounds=_REPEATED)
            self._attempt(repeated, "dispatches in a row")
        self._record_in_place([Shape(dict(self._description.params), "described"), *shapes])
        for shape in shapes[:2]:
            if any(is_accumulated(argument) for argument in self._description.arguments):
                known = max(b.budget for b in self.recorder.recorded)  # The kernel may wait for a value forever.
                self._attempt(self._trial(shape, InputKind("content")), "outputs with initial content", known)
        self._attempt(self._trial(shapes[0], InputKind("described")), "inputs as described")
        for trial in self._planted(scalar_values(self._description)):
            self._attempt(trial, "")
        if any(kind.inputs == "exact" for kind in self._kinds):  # In a long sum, terms omitted only there are within its error.
            self._attempt(self._trial(Shape(dict(self._description.params), "described"), InputKind("exact")), "")
        self._record_ties()
        for number, scalars in enumerate(scalar_choices(self._description)):
            shape, most = shapes[number % len(shapes)], max(b.budget for b in self.recorder.recorded)
            trial = trial_of(self._description, shape.params, self.seed, shape=shape.kind, scalars=scalars)
            self._attempt(trial, f"other scalars ({scalars})", most)
            for kind in (k for k in self._kinds if k.inputs in _WITH_SCALARS):
                crossed = trial_of(self._description, shape.params, self.seed, kind, shape=shape.kind, scalars=scalars)
                self._attempt(crossed, "", most)

    def _record_ties(self) -> None:
        """Record exact ties for a kernel that rounds to integers, unless numbers in its source could make them inexact."""
        own = floats_of(self._text())
        numbers = [*own, *scalar_values(self._description)]
        if not rounds_to_nearest(self._text()) or any(number * _FRACTIONS % 1 for number in numbers):
            return
        largest = sorted({abs(n) for n in own if n % 1 == 0 and abs(n) >= _LEAST_SCALE}) or [_USUAL_SCALE]
        for value in largest[:_REPEATED] if self.most_trials is None and possible_inputs(self._description) else ():
            for shape in self._special[:2]:
                self._attempt(self._trial(shape, InputKind("halves", values=(value,))), "")

    def _record_in_place(self, shapes: Sequence[Shape]) -> None:
        """Record in-place outputs, unless any shape fails: a single workgroup may support them by chance."""
        for shape in shapes if self._policy.in_place else ():
            shared = trial_of(self._description, shape.params, self.seed, shape=shape.kind, in_place=True)
            if not in_place_pairs(self._description, shared):
                return
            if self._attempt(shared, "output in the place of an input") is None:
                self.recorder.recorded[:] = [b for b in self.recorder.recorded if not b.trial.in_place]
                return

    def _record_shapes(self) -> None:
        kinds = cycle(self._kinds or [_RANDOM])
        declared = [Shape({**self._description.params, **other}, "declared") for other in self._description.trials]
        self._spend(declared, kinds, DEFAULT_BUDGET)
        plan, count = self._shape_plan(), self._policy.shapes
        self._spend(plan.large(), cycle([_RANDOM]), self._policy.instructions * _TIMES_OF_LARGE)
        self._record_long_rows(plan)
        self._spend(plan.edges(), kinds, self._most(_SHARE))
        self._spend(plan.residues(count), kinds, self._most(_SHARE))
        if self.most_trials is None:
            tiled = plan.tiled(plan.tiles(self._most(_SHARE_OF_TILES)).all())
            self._spend((*tiled, *self._around(plan, tiles_of(self._description))), cycle([_RANDOM]), self._most(_SHARE))
        rest = [*plan.limits(self._constants()), *plan.long(count)]
        order = np.random.default_rng([self.seed, 9]).permutation(len(rest))
        spent = sum(b.instructions for b in self.recorder.recorded)
        assert self._base is not None
        limit = spent + max(self._policy.instructions // 2, _LEAST_SHAPES * self._base.instructions)
        self._spend([rest[i] for i in order], kinds, self._most(_SHARE), limit)

    def _record_long_rows(self, plan: ShapePlan) -> None:
        """Record long rows with special inputs, and more elements than counters of 8 and 16 bits can count.

        Inputs are equal or sorted: a counter of equal elements overflows, and a repeated step changes sums of different elements.
        """
        revealing = [kind for kind in self._kinds if kind.inputs in REVEALING] if self.most_trials is None else []
        most = self._policy.instructions / (_SHARE_OF_ROWS * max(len(revealing) * len(self._sizes.rules), 1))
        for shape in (Shape(dict(self._description.params), "described"), *plan.rows(most)) if revealing else ():
            for kind in revealing:
                self._attempt(self._trial(shape, kind), "", self._most(_SHARE))
        counted = [kind for kind in self._kinds if kind.inputs in ("constant", "ascending")] if self.most_trials is None else []
        for shape in plan.repeating(_BEYOND_16_BITS) if counted else ():
            for kind in counted:
                self._attempt(self._trial(shape, kind), "", self._policy.instructions // _SHARE_OF_REPEATING)

    def _spend(self, shapes: Iterable[Shape], kinds: Iterator[InputKind], most: int, limit: int | None = None) -> None:
        """Record shapes, each with the next kind of inputs, until a number of instructions is executed."""
        for number, shape in enumerate(shapes):
            if limit is not None and sum(b.instructions for b in self.recorder.recorded) > limit:
                self._left_out += 1
                continue
            kind = _RANDOM if number % _SLOTS_OF_RANDOM == 0 else next(kinds)
            if kind != _RANDOM and self._attempt(self._trial(shape, kind), "", most) is not None:
                continue
            self._attempt(self._trial(shape), _SUBJECTS[shape.kind], most)


_SUBJECTS = {
    "described": "described shape",
    "declared": "shapes of the description",
    "residues": "small shapes",
    "long": "shapes with a long size",
    "limits": "sizes next to limits",
    "tiles": "several sizes next to multiples of tiles",
    "large": "larger shapes",
    "one": "sizes of 1",
    "zero": "sizes of 0",
}
