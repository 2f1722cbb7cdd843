"""Trials with buffers beyond 2^31 elements and 4 GiB, which detect indices and byte offsets that are too narrow.

Only selected workgroups run: the first, the last, those around limits of integers, and random ones. A rewrite may assign work to
workgroups differently. To compare an element that only one kernel wrote, the workgroup of the other kernel that writes it is run,
if the first elements of the known workgroups are linear in the workgroup ids.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.emulator.build import load_runtime
from rocm_perf_lab.emulator.faults import BarrierDeadlock, InstructionBudgetExceeded
from rocm_perf_lab.emulator.translation import KernelTranslator
from rocm_perf_lab.languages.source_launch import with_source_launch
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.verify.element_differences import ElementDifference, element_differences
from rocm_perf_lab.verify.large_shapes import large_shapes
from rocm_perf_lab.verify.recorded_shape import RecordedShape
from rocm_perf_lab.verify.sparse_pages import PageContents
from rocm_perf_lab.verify.sparse_run import AddressArena, SparseSession, sparse_launch
from rocm_perf_lab.verify.workgroup_map import WorkgroupMap
from rocm_perf_lab.verify.workgroup_writes import (
    FEWEST_WORKGROUPS,
    FIRST_OF_PAIRS,
    LOCATED,
    WRAPPED_BITS,
    corresponding_workgroups,
    is_idle,
    repeated_write,
    unwritten_output,
    wrapped_pairs,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.verify.large_shapes import LargeShape
    from rocm_perf_lab.verify.sparse_run import SparseLaunch

    Compile = Callable[[KernelDescription, Path], BuildResult]

_LIMITS = (1 << 24, 1 << 31, 1 << 32)
_RANDOM_WORKGROUPS = 8
_WORKGROUP_BUDGET = 400_000
_SHAPE_BUDGET = 4_000_000
_BUDGET_FACTOR = 50
_MOST_PAGES = 1 << 18
_SHAPES_OF_GOAL = {"wide": 2, "elements": 2, "int": 1, "edge": 1, "bytes": 2, "middle": 2}
_NEARLY_AS_LONG = frozenset({"elements", "int", "bytes"})
"""Goals that are skipped if a workgroup of the largest shape exceeds its budget: their loops are nearly as long."""
_ROUNDS = 2


class NotDecided(LabError):
    """Large shape with which a rewrite cannot be checked."""


@dataclass(frozen=True)
class LargeResult:
    """Result of a rewrite: `reason` is the defect, or None; `notes` list shapes that could not be checked."""

    reason: str | None = None
    notes: tuple[str, ...] = ()


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
    _recorded: list[RecordedShape] = field(default_factory=list)
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

    def _record(self, shape: LargeShape, name: str, source: Path) -> RecordedShape:
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
        return RecordedShape(shape, name, launch, contents, chosen, written, session.final, owed, writes, grid, budget)

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
            if spent > _SHAPE_BUDGET and len(ran) < min(FEWEST_WORKGROUPS, len(workgroups)):
                raise NotDecided(f"{len(ran)} workgroups execute more than {_SHAPE_BUDGET:,} instructions")
            if spent > _SHAPE_BUDGET:
                break
        return tuple(sorted(ran))

    def _chosen(self, launch: SparseLaunch, grid: WorkgroupMap, name: str) -> tuple[int, ...]:
        """Return the workgroups to run in order of importance: ends, random ones (half in the last quarter), integer limits."""
        total = launch.workgroups
        found = [*grid.origin(), 2, 3, total - 2, total - 1]
        random = np.random.default_rng([self.seed, *name.encode()])
        start = int(random.integers(0, min(total, FIRST_OF_PAIRS)))
        found += random.integers(total * 3 // 4, total, _RANDOM_WORKGROUPS // 2).tolist()
        found += random.integers(0, total, _RANDOM_WORKGROUPS // 2).tolist()
        for buffer in launch.buffers.values():
            count, size = prod(buffer.shape), buffer.dtype.itemsize
            for limit in sorted({n for edge in _LIMITS for n in (edge, edge // size, edge // size // 2) if n < count}):
                located = grid.workgroup_of(buffer.argument.name, limit)
                nearest = located if located is not None else limit * total // count
                found += [nearest - 1, nearest, nearest + 1]
        found += [start, *(start + (1 << bit) for bit in WRAPPED_BITS)]
        return tuple(dict.fromkeys(workgroup for workgroup in found if 0 <= workgroup < total))

    def _failure(self, recorded: RecordedShape, source: Path) -> str | None:
        """Return the defect of a rewrite with a shape, or None.

        Raises:
            NotDecided: The rewrite cannot be compared.
        """
        try:
            launch = self._launch(recorded.shape, source)
            with self._session(launch, recorded.contents, recorded.budget) as session:
                grid = WorkgroupMap(launch.geometry.grid, session)
                is_same = launch.geometry == recorded.launch.geometry
                for workgroup in (
                    recorded.workgroups if is_same else corresponding_workgroups(recorded, session, grid, launch.workgroups)
                ):
                    session.run(workgroup)
                return self._compared(recorded, session, grid, is_same_launch=is_same)
        except (InstructionBudgetExceeded, BarrierDeadlock) as error:
            raise NotDecided("the rewrite executes many more instructions per workgroup") from error
        except NotDecided:
            raise
        except LabError as error:
            return str(error)

    def _compared(
        self, recorded: RecordedShape, session: SparseSession, grid: WorkgroupMap, *, is_same_launch: bool
    ) -> str | None:
        for name, buffer in recorded.launch.buffers.items():
            if buffer.argument.access == "in" and any(place[0] == name for place in session.written_pages()):
                return f"input {name!r} is written"
        absent = unwritten_output(recorded, session)
        if absent is not None:
            return absent
        repeated = repeated_write(recorded, session, grid, wrapped_pairs(recorded, session, grid, is_same_launch=is_same_launch))
        if repeated is not None:
            return repeated
        for _ in range(_ROUNDS):
            differences = element_differences(self.description, recorded, session)
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
        wrong = next((d for d in element_differences(self.description, recorded, session) if d.by_both), None)
        if wrong is None and not is_same_launch:
            self._require_common(recorded, session)
        return None if wrong is None else str(wrong)

    def _require_common(self, recorded: RecordedShape, session: SparseSession) -> None:
        """Raise NotDecided if no element of an output was written by both kernels, so that nothing was compared."""
        ours = session.written_pages()
        for name in sorted({buffer for buffer, _ in recorded.owed}):
            known = [(recorded.written[place], ours[place]) for place in recorded.written if place[0] == name and place in ours]
            if not any(one.meets(other) for one, other in known):
                raise NotDecided(f"the chosen workgroups of both kernels write no common element of {name}")

    def _run_missing(
        self,
        recorded: RecordedShape,
        session: SparseSession,
        grid: WorkgroupMap,
        missing: list[ElementDifference],
        *,
        is_same_launch: bool,
    ) -> str | None:
        """Run the workgroups of a rewrite that should write elements that only the unmodified kernel wrote so far.

        With a different launch, a rewrite may write tiles that are interleaved in memory.
        """
        for difference in missing[:LOCATED]:
            name, element = difference.buffer, difference.element
            workgroup = grid.workgroup_of(name, element)
            if workgroup is None and is_idle(recorded, session, name):
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

    def _run_baseline(self, recorded: RecordedShape, unknown: list[ElementDifference]) -> None:
        """Run the workgroups of the unmodified kernel that write elements that only the rewrite wrote so far."""
        guesses = {recorded.map.workgroup_of(d.buffer, d.element) for d in unknown[:LOCATED]}
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


def _kind_of(error: LabError) -> str:
    return error.what if isinstance(error, NotDecided) else type(error).__name__
