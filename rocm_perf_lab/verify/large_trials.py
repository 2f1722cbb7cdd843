"""Trials with buffers beyond 2^31 elements and 4 GiB, which detect indices and byte offsets that are too narrow.

Only selected workgroups run: the first, the last, those around limits of integers, and random ones. A rewrite may assign work to
workgroups differently. To compare an element that only one kernel wrote, the workgroup of the other kernel that writes it is run,
if the first elements of the known workgroups are linear in the workgroup ids.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.faults import BarrierDeadlock, InstructionBudgetExceeded
from rocm_perf_lab.emulator.memory import PAGE_BYTES
from rocm_perf_lab.emulator.translation import KernelTranslator
from rocm_perf_lab.languages.source_launch import with_source_launch
from rocm_perf_lab.languages.spec import Tolerance
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.verify.large_shapes import large_shapes
from rocm_perf_lab.verify.outputs import default_tolerance
from rocm_perf_lab.verify.rounding import UNIT_ROUNDOFF, growth_of_equal
from rocm_perf_lab.verify.sparse_pages import PageContents
from rocm_perf_lab.verify.sparse_run import AddressArena, SparseSession, sparse_launch
from rocm_perf_lab.verify.workgroup_map import WorkgroupMap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.large_shapes import LargeShape
    from rocm_perf_lab.verify.sparse_pages import ChangedBytes, FinalPages, Place, SparseBuffer
    from rocm_perf_lab.verify.sparse_run import SparseLaunch

    Compile = Callable[[KernelDescription, Path], BuildResult]

_LIMITS = (1 << 24, 1 << 31, 1 << 32)
_RANDOM_WORKGROUPS = 8
_FIRST_OF_PAIRS = 200
_WRAPPED_BITS = (8, *range(15, 32))
"""Exponents of distances: workgroups 2^n apart write the same elements if an id or an index wraps around."""
_WORKGROUP_BUDGET = 400_000
_SHAPE_BUDGET = 4_000_000
_BUDGET_FACTOR = 50
_FEWEST_WORKGROUPS = 16
_MOST_PAGES = 1 << 18
_SHAPES_OF_GOAL = {"wide": 2, "elements": 2, "int": 1, "edge": 1, "bytes": 2, "middle": 2}
_NEARLY_AS_LONG = frozenset({"elements", "int", "bytes"})
"""Goals that are skipped if a workgroup of the largest shape exceeds its budget: their loops are nearly as long."""
_LOCATED = 12
_ROUNDS = 2
_TOLERANCE_FACTOR = 4
"""Factor of the tolerance; wrong indices lead to much larger differences."""
_REORDERED = 8.0
"""Allowed error of a reordered sum in typical errors; one wrong summand of a million causes a larger difference."""


class NotDecided(LabError):
    """Large shape with which a rewrite cannot be checked."""


@dataclass(frozen=True)
class LargeResult:
    """Result of a rewrite: `reason` is the defect, or None; `notes` list shapes that could not be checked."""

    reason: str | None = None
    notes: tuple[str, ...] = ()


@dataclass
class _RecordedShape:
    """Shape with the workgroups of the unmodified kernel, their changes, and the final content of changed pages.

    `owed` are the changes of the selected workgroups; `written` and `final` may also contain those of other workgroups.
    """

    shape: LargeShape
    name: str
    launch: SparseLaunch
    contents: PageContents
    workgroups: tuple[int, ...]
    written: dict[Place, ChangedBytes]
    final: FinalPages
    owed: Mapping[Place, ChangedBytes]
    writes: Mapping[int, Mapping[Place, ChangedBytes]]
    map: WorkgroupMap
    budget: int

    def is_reducing(self, name: str) -> bool:
        """Return whether an input has an axis that the output lacks, so that the output's elements may be sums over it."""
        output = {str(axis) for axis in self.launch.buffers[name].argument.shape}
        inputs = [b.argument for b in self.launch.buffers.values() if b.argument.access != "out"]
        return any(str(axis) not in output for argument in inputs for axis in argument.shape)


@dataclass
class LargeTrials:
    """Records an unmodified kernel with large buffers, then checks rewrites of it.

    Args:
        description: Kernel.
        compile_source: Compiles a source for a description.
        target: GPU.
        seed: Seed of contents and of the selection of workgroups.
        growing: Sizes that the unmodified kernel supports above the described values; None for all.
    """

    description: KernelDescription
    compile_source: Compile
    target: Target
    seed: int
    growing: frozenset[str] | None = None
    _recorded: list[_RecordedShape] = field(default_factory=list)
    _arenas: tuple[AddressArena, AddressArena] = field(default_factory=lambda: (AddressArena(), AddressArena()))
    _translators: dict[tuple[str, bool], KernelTranslator] = field(default_factory=dict)
    _baseline: Path | None = None

    @property
    def shapes(self) -> tuple[str, ...]:
        """Names of the shapes with which rewrites are checked."""
        return tuple(recorded.name for recorded in self._recorded)

    def close(self) -> None:
        """Release the reserved addresses."""
        for arena in self._arenas:
            arena.close()

    def record_baseline(self, source: Path) -> tuple[str, ...]:
        """Run the unmodified kernel; return notes on shapes that cannot be checked."""
        self._baseline = source
        undecided: dict[str, list[str]] = {}
        too_long: set[tuple[str, tuple[str, ...]]] = set()
        for shape in large_shapes(self.description, self.growing):
            if not self._is_wanted(shape) or (shape.goal in _NEARLY_AS_LONG and (shape.buffer, shape.grown) in too_long):
                continue
            name = f"large shape ({shape.name(self.description)})"
            try:
                self._recorded.append(self._record(shape, name, source))
            except LabError as error:
                undecided.setdefault(_kind_of(error), []).append(f"{name}: {error.what}")
                if isinstance(error, InstructionBudgetExceeded | BarrierDeadlock):
                    too_long.add((shape.buffer, shape.grown))
        return tuple(f"not decided for {len(found)} large shapes, such as the {found[0]}" for found in undecided.values())

    def check(self, source: Path) -> LargeResult:
        """Run workgroups of a rewrite and compare the results."""
        notes: list[str] = []
        baseline = {recorded.launch.launch.code_object.sha256 for recorded in self._recorded}
        self._translators = {key: value for key, value in self._translators.items() if key[0] in baseline}
        for recorded in self._recorded:
            try:
                private = replace(recorded, written=dict(recorded.written), final=recorded.final.copy())
                reason = self._failure(private, source)
            except NotDecided as error:
                notes.append(f"not decided: {recorded.name}: {error.what}")
                continue
            if reason is not None:
                return LargeResult(f"{reason} [{recorded.name}]", tuple(notes))
        return LargeResult(None, tuple(notes))

    def _is_wanted(self, shape: LargeShape) -> bool:
        """Return whether a shape adds to the recorded ones: just below 2^31 elements is redundant if one beyond is recorded."""
        known = [recorded.shape for recorded in self._recorded]
        if shape.goal == "int" and any(k.goal in ("wide", "elements") and k.grown == shape.grown for k in known):
            return False
        return sum(k.goal == shape.goal for k in known) < _SHAPES_OF_GOAL[shape.goal]

    def _launch(self, shape: LargeShape, source: Path) -> SparseLaunch:
        own = with_source_launch(self.description, source)
        described = own.model_copy(update={"params": dict(shape.params)})
        build = self.compile_source(described, source)
        return sparse_launch(described, build, find_kernel(build.code_object, self.description.entry).symbol)

    def _session(self, launch: SparseLaunch, contents: PageContents, budget: int, *, second: bool = False) -> SparseSession:
        """Return a session; a second concurrent session has its code at different addresses."""
        key = (launch.launch.code_object.sha256, second)
        if key not in self._translators:
            self._translators[key] = KernelTranslator(load_runtime())
        return SparseSession(self.target, launch, self._arenas[second], contents, budget, self._translators[key])

    def _record(self, shape: LargeShape, name: str, source: Path) -> _RecordedShape:
        launch = self._launch(shape, source)
        contents = PageContents(launch.buffers, shape.params, self.seed)
        self._arenas[1].addresses([buffer.nbytes for buffer in launch.buffers.values()])
        with self._session(launch, contents, _WORKGROUP_BUDGET) as session:
            grid = WorkgroupMap(launch.geometry.grid, session)
            for workgroup in grid.origin():
                session.run(workgroup)
            chosen = self._run_chosen(session, self._chosen(launch, grid, name))
            written = session.written_pages()
            if session.is_overlapping:  # They add to one result, which is incomplete after some of them.
                raise NotDecided("several workgroups write the same elements")
            longest = max(session.instructions.values())
        if not written:
            raise NotDecided("the selected workgroups write nothing")
        budget = max(_WORKGROUP_BUDGET, _BUDGET_FACTOR * longest)
        owed, writes = dict(written), session.writes
        return _RecordedShape(shape, name, launch, contents, chosen, written, session.final, owed, writes, grid, budget)

    def _run_chosen(self, session: SparseSession, workgroups: tuple[int, ...]) -> tuple[int, ...]:
        """Run workgroups in order of importance until the budget is exhausted, and return those that ran, sorted.

        Raises:
            NotDecided: The budget is too small for the most important workgroups.
        """
        spent, ran = 0, list[int]()
        for workgroup in workgroups:
            session.run(workgroup)
            ran.append(workgroup)
            spent += session.instructions[workgroup]
            if session.accessed_pages > _MOST_PAGES:
                raise NotDecided(f"{len(ran)} workgroups access more than {_MOST_PAGES:,} pages")
            if spent > _SHAPE_BUDGET and len(ran) < min(_FEWEST_WORKGROUPS, len(workgroups)):
                raise NotDecided(f"{len(ran)} workgroups execute more than {_SHAPE_BUDGET:,} instructions")
            if spent > _SHAPE_BUDGET:
                break
        return tuple(sorted(ran))

    def _chosen(self, launch: SparseLaunch, grid: WorkgroupMap, name: str) -> tuple[int, ...]:
        """Return the workgroups to run in order of importance: ends, random ones (half in the last quarter), integer limits."""
        total = launch.workgroups
        found = [*grid.origin(), 2, 3, total - 2, total - 1]
        random = np.random.default_rng([self.seed, *name.encode()])
        start = int(random.integers(0, min(total, _FIRST_OF_PAIRS)))
        found += random.integers(total * 3 // 4, total, _RANDOM_WORKGROUPS // 2).tolist()
        found += random.integers(0, total, _RANDOM_WORKGROUPS // 2).tolist()
        for buffer in launch.buffers.values():
            count, size = prod(buffer.shape), buffer.dtype.itemsize
            for limit in sorted({n for edge in _LIMITS for n in (edge, edge // size, edge // size // 2) if n < count}):
                located = grid.workgroup_of(buffer.argument.name, limit)
                nearest = located if located is not None else limit * total // count
                found += [nearest - 1, nearest, nearest + 1]
        found += [start, *(start + (1 << bit) for bit in _WRAPPED_BITS)]
        return tuple(dict.fromkeys(workgroup for workgroup in found if 0 <= workgroup < total))

    def _failure(self, recorded: _RecordedShape, source: Path) -> str | None:
        """Return the defect of a rewrite with a shape, or None.

        Raises:
            NotDecided: The rewrite cannot be compared.
        """
        try:
            launch = self._launch(recorded.shape, source)
            with self._session(launch, recorded.contents, recorded.budget) as session:
                grid = WorkgroupMap(launch.geometry.grid, session)
                is_same = launch.geometry == recorded.launch.geometry
                for workgroup in recorded.workgroups if is_same else _own_workgroups(recorded, session, grid, launch.workgroups):
                    session.run(workgroup)
                return self._compared(recorded, session, grid, is_same_launch=is_same)
        except (InstructionBudgetExceeded, BarrierDeadlock) as error:
            raise NotDecided("the rewrite executes many more instructions per workgroup") from error
        except NotDecided:
            raise
        except LabError as error:
            return str(error)

    def _compared(
        self, recorded: _RecordedShape, session: SparseSession, grid: WorkgroupMap, *, is_same_launch: bool
    ) -> str | None:
        for name, buffer in recorded.launch.buffers.items():
            if buffer.argument.access == "in" and any(place[0] == name for place in session.written_pages()):
                return f"input {name!r} is written"
        absent = _unwritten(recorded, session)
        if absent is not None:
            return absent
        repeated = _repeated(recorded, session, grid, _pairs(recorded, session, grid, is_same_launch=is_same_launch))
        if repeated is not None:
            return repeated
        for _ in range(_ROUNDS):
            differences = self._differences(recorded, session)
            wrong = next((d for d in differences if d.by_both), None)
            if wrong is not None:
                return str(wrong)
            missing = [d for d in differences if d.by_baseline]
            absent = self._run_missing(recorded, session, grid, missing, is_same_launch=is_same_launch)
            if absent is not None:
                return absent
            self._run_baseline(recorded, [d for d in differences if not d.by_baseline])
            if not differences:
                return None
        wrong = next((d for d in self._differences(recorded, session) if d.by_both), None)
        if wrong is None and not is_same_launch:
            self._require_common(recorded, session)
        return None if wrong is None else str(wrong)

    def _require_common(self, recorded: _RecordedShape, session: SparseSession) -> None:
        """Raise NotDecided if no element of an output was written by both kernels, so that nothing was compared."""
        ours = session.written_pages()
        for name in sorted({buffer for buffer, _ in recorded.owed}):
            known = [(recorded.written[place], ours[place]) for place in recorded.written if place[0] == name and place in ours]
            if not any(one.meets(other) for one, other in known):
                raise NotDecided(f"the chosen workgroups of both kernels write no common element of {name}")

    def _run_missing(
        self,
        recorded: _RecordedShape,
        session: SparseSession,
        grid: WorkgroupMap,
        missing: list[_Difference],
        *,
        is_same_launch: bool,
    ) -> str | None:
        """Run the workgroups of a rewrite that should write elements that only the unmodified kernel wrote so far.

        With a different launch, a rewrite may write tiles that are interleaved in memory.
        """
        for difference in missing[:_LOCATED]:
            name, element = difference.buffer, difference.element
            workgroup = grid.workgroup_of(name, element)
            if workgroup is None and _is_idle(recorded, session, name):
                return f"{difference.label} is not written: no workgroup but the first writes {name}"
            if workgroup is None:
                continue
            writers = () if is_same_launch else grid.writers(name, element)
            for number in (workgroup, *writers):
                session.run(number)
            place, byte = difference.place
            changed = session.written_pages().get(place)
            if changed is not None and changed.has_any(byte, byte + difference.size):
                continue
            is_tile = bool(writers) and all(grid.is_linear(name, number) for number in writers)
            if is_tile if not is_same_launch else grid.is_certain(name, element):
                return f"{difference.label} is not written"
        return None

    def _run_baseline(self, recorded: _RecordedShape, unknown: list[_Difference]) -> None:
        """Run the workgroups of the unmodified kernel that write elements that only the rewrite wrote so far."""
        guesses = {recorded.map.workgroup_of(d.buffer, d.element) for d in unknown[:_LOCATED]}
        workgroups = sorted(g for g in guesses if g is not None and g not in recorded.workgroups)
        if not workgroups or self._baseline is None:
            return
        with self._session(recorded.launch, recorded.contents, recorded.budget, second=True) as session:
            with suppress(LabError):  # The workgroups are guessed; the selected ones ran without an error.
                for workgroup in workgroups:
                    session.run(workgroup)
            for place, changed in session.written_pages().items():
                recorded.final.add(place, changed, session.final.page(place))
                known = recorded.written.get(place)
                recorded.written[place] = changed.with_all(known)

    def _differences(self, recorded: _RecordedShape, session: SparseSession) -> list[_Difference]:
        """Return the first different element of each page and type of difference, by page."""
        ours = session.written_pages()
        found: list[_Difference] = []
        for place in sorted({*recorded.written, *ours}):
            left, expected = session.final.page(place), recorded.final.page(place)
            if np.array_equal(left, expected):
                continue
            buffer = recorded.launch.buffers[place[0]]
            size = buffer.dtype.itemsize
            got, want = left.view(buffer.dtype), expected.view(buffer.dtype)
            by_baseline, by_rewrite, owed = (
                _changed_elements(changes.get(place), size) for changes in (recorded.written, ours, recorded.owed)
            )
            close = _close(got, want, self._tolerance(recorded, place[0], want, by_baseline))
            wrong = ~close & (by_baseline | by_rewrite)
            kinds = {
                (True, True): by_baseline & by_rewrite,
                (True, False): owed & ~by_rewrite,
                (False, True): by_rewrite & ~by_baseline,
            }
            for kind, elements in kinds.items():
                of_kind = np.flatnonzero(wrong & elements)
                if of_kind.size:
                    first = int(of_kind[0])
                    element = place[1] * (PAGE_BYTES // size) + first
                    found.append(_Difference(place[0], element, buffer.shape, size, *kind, got[first], want[first]))
        return found

    def _tolerance(self, recorded: _RecordedShape, name: str, values: NDArray[Any], written: NDArray[np.bool_]) -> Tolerance:
        """Return the tolerance of a page: reordered sums of long rows differ more than those of the described shape."""
        given = self.description.tolerance.get(name) or default_tolerance(values)
        reordered = 0.0
        terms = max((max(b.shape) for b in recorded.launch.buffers.values() if b.argument.access == "in"), default=1)
        if (given.rtol or given.atol) and values.dtype.kind not in "biu" and recorded.is_reducing(name):
            known = np.abs(values[written].astype(np.float64))
            known = known[np.isfinite(known)]
            size = float(np.sqrt(np.mean(np.square(known)))) if known.size else 0.0
            reordered = _REORDERED * UNIT_ROUNDOFF * float(growth_of_equal(terms)) * size
        return Tolerance(rtol=given.rtol * _TOLERANCE_FACTOR, atol=given.atol * _TOLERANCE_FACTOR + reordered, note=given.note)


@dataclass(frozen=True)
class _Difference:
    """Element with different values after the rewrite and the unmodified kernel, and which of them wrote it."""

    buffer: str
    element: int
    shape: tuple[int, ...]
    size: int
    by_baseline: bool
    by_rewrite: bool
    got: Any
    want: Any

    @property
    def by_both(self) -> bool:
        """True if both kernels wrote the element."""
        return self.by_baseline and self.by_rewrite

    @property
    def place(self) -> tuple[Place, int]:
        """Buffer and page, and the offset in the page in bytes."""
        page, byte = divmod(self.element * self.size, PAGE_BYTES)
        return (self.buffer, page), byte

    @property
    def label(self) -> str:
        """Buffer and index of the element."""
        index = ", ".join(str(int(i)) for i in np.unravel_index(self.element, self.shape))
        return f"{self.buffer}[{index}]"

    def __str__(self) -> str:
        return f"{self.label}: {float(self.got):.9g} instead of {float(self.want):.9g}"


def _pairs(
    recorded: _RecordedShape, session: SparseSession, grid: WorkgroupMap, *, is_same_launch: bool
) -> list[tuple[int, int]]:
    """Return workgroups of a rewrite that write the same elements if an id or an index wraps around.

    With a different launch, workgroups cannot be matched with those of the unmodified kernel: only one has partners at all
    distances.
    """
    if is_same_launch:
        pairs = [(one, one + (1 << bit)) for one in recorded.workgroups for bit in _WRAPPED_BITS]
        pairs = [(one, other) for one, other in pairs if other in recorded.writes]
        located = list(recorded.workgroups)
    else:
        located = sorted(session.writes)
        total, start = prod(grid.grid), min(located[len(located) // 4], _FIRST_OF_PAIRS)
        pairs = [(start, start + (1 << bit)) for bit in _WRAPPED_BITS if start + (1 << bit) < total]
    misplaced = []
    for name in recorded.launch.buffers:
        for workgroup in located:
            elements = session.elements_of(workgroup, name)
            owner = grid.workgroup_of(name, elements[0]) if elements is not None else None
            if owner is not None and abs(owner - workgroup) > 1:
                misplaced.append((owner, workgroup))
    return [*pairs, *misplaced[:_LOCATED]]


def _repeated(recorded: _RecordedShape, session: SparseSession, grid: WorkgroupMap, pairs: list[tuple[int, int]]) -> str | None:
    """Return the defect of a rewrite in which distant workgroups write the same elements, so that others remain unwritten.

    The ends of buffers are ignored, because surplus workgroups may repeat the work of the last one.
    """
    for one, other in pairs:
        for workgroup in (one, other):
            session.run(workgroup)
        for name, buffer in recorded.launch.buffers.items():
            shared = session.shared_element(one, other, name)
            if shared is not None and 0 < shared < prod(buffer.shape) - 1 and not _is_at_the_end(session, other, name, buffer):
                index = ", ".join(str(int(i)) for i in np.unravel_index(shared, buffer.shape))
                return f"workgroups {one:,} and {other:,} both write {name}[{index}]"
    return None


def _own_workgroups(recorded: _RecordedShape, session: SparseSession, grid: WorkgroupMap, total: int) -> list[int]:
    """Return the workgroups of a rewrite with a different launch that write the same elements as the unmodified kernel."""
    for workgroup in grid.origin():
        session.run(workgroup)
    found: list[int] = []
    for name in recorded.launch.buffers:
        for workgroup in recorded.workgroups:
            elements = recorded.map.session.elements_of(workgroup, name)
            for element in elements if elements is not None else ():
                located = (grid.workgroup_of(name, element), *grid.writers(name, element))
                found += [number for number in located if number is not None and number < total]
    return sorted({*found, 0, total - 1})


def _unwritten(recorded: _RecordedShape, session: SparseSession) -> str | None:
    """Return the defect of a rewrite that changes nothing in an output, in any workgroup from the first to the last that ran."""
    owed, found = ({buffer for buffer, _ in places} for places in (recorded.owed, session.written_pages()))
    missing = sorted(owed - found)
    return f"none of {len(session.writes):,} workgroups writes {missing[0]}" if missing else None


def _is_idle(recorded: _RecordedShape, session: SparseSession, name: str) -> bool:
    """Return whether only the first workgroup that ran changes an output that many workgroups of the unmodified kernel change."""
    by_rewrite, by_baseline = (
        {workgroup for workgroup, places in writes.items() if any(buffer == name for buffer, _ in places)}
        for writes in (session.writes, recorded.writes)
    )
    return by_rewrite == {0} and len(by_baseline) >= _FEWEST_WORKGROUPS


def _kind_of(error: LabError) -> str:
    return error.what if isinstance(error, NotDecided) else type(error).__name__


def _is_at_the_end(session: SparseSession, workgroup: int, name: str, buffer: SparseBuffer) -> bool:
    """Return whether a workgroup writes the first or the last element of a buffer."""
    elements = session.elements_of(workgroup, name)
    return elements is not None and (elements[0] == 0 or elements[1] == prod(buffer.shape) - 1)


def _changed_elements(changed: ChangedBytes | None, size: int) -> NDArray[np.bool_]:
    """Return a mask of the elements of a page, of `size` bytes each, that have a changed byte."""
    if changed is None:
        return np.zeros(PAGE_BYTES // size, np.bool_)
    elements: NDArray[np.bool_] = changed.mask.view(np.dtype(f"u{size}")) != 0
    return elements


def _close(got: NDArray[Any], want: NDArray[Any], tolerance: Tolerance) -> NDArray[np.bool_]:
    with np.errstate(all="ignore"):
        a, b = got.astype(np.float64), want.astype(np.float64)
        near = np.abs(a - b) <= tolerance.atol + tolerance.rtol * np.abs(b)
        exact: NDArray[np.bool_] = (got == want) | (np.isnan(a) & np.isnan(b))
    return exact | near if want.dtype.kind not in "biu" else got == want
