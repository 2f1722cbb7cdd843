"""Loops split over several work-items, for kernels with few work-items whose neighbours access neighbouring elements.

    for (int r = 0; r < rows; ++r) sum += x[r * cols + column];

A second axis of the workgroup indexes the parts. Each part executes every nth iteration, and accumulated values are combined
through LDS. All other code is executed by all parts, and stored by the first one. The order of additions changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.languages.source_launch import LaunchDescriptor, launch_descriptor
from rocm_perf_lab.optimize.syntax_nodes import ancestors, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.access_positions import AccessPositions, is_access
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.lane_reductions import WAVE, split_function
from rocm_perf_lab.optimize.transforms.launch_edits import with_launch
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.rewriting import Edit, assigned_names, counted_loop, initialiser, top_level
from rocm_perf_lab.optimize.transforms.row_code import distributed
from rocm_perf_lab.optimize.transforms.row_plans import LANE, GroupVariant, RowPlan, collect, has_pairs, hazard
from rocm_perf_lab.optimize.transforms.thread_indices import (
    LaunchSizes,
    builtin_uses,
    covering,
    guarded,
    hidden_index,
    statements,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_INSIDE = "rpl_inside"
_MOST_ITEMS = 1024
_LOOPS = ("for_statement", "while_statement", "do_statement")
_UNSUPPORTED = ("atomic", "__shared__", "__sync", "volatile", "->")


@dataclass(frozen=True)
class _Split:
    """Kernel whose loops can be split.

    Args:
        plan: Loops and stores. Its row is the index of the work-item, if that has a bound.
        bound: Limit of the index.
        items: Work-items along x of the described workgroup.
        test: Condition that tests the index.
    """

    plan: RowPlan
    bound: str
    items: int
    test: Node | None


class SplitLoops:
    """Splits the independent loops of a kernel.

    Args:
        kernel: Description with a one-dimensional workgroup.
        shapes: Work-items along x and parts along y; the first number is ignored for kernels whose index has no bound.

    Raises:
        LabError: A shape has more than 1024 work-items.
    """

    name = "split loops"

    def __init__(self, *, kernel: KernelDescription, shapes: Sequence[Sequence[int]] = ((64, 16), (16, 64), (64, 4))) -> None:
        for shape in shapes:
            if len(shape) != 2 or min(shape) < 1 or shape[0] * shape[1] > _MOST_ITEMS or shape[1] & (shape[1] - 1):
                raise LabError(
                    f"invalid shape {list(shape)}", where="optimizer.transforms: shapes", hint="for example shapes: [[64, 16]]"
                )
        self._kernel = kernel
        self._shapes = [(shape[0], shape[1]) for shape in shapes]

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per shape."""
        found = self._split(unit)
        if isinstance(found, str):
            return ()
        shapes = self._shapes
        if found.plan.row is None:
            parts = dict.fromkeys(min(parts, _MOST_ITEMS // found.items) for _, parts in self._shapes)
            shapes = [(found.items, count) for count in parts if count > 1]
        return tuple(
            Rewrite(f"loops split into {parts} parts, {items} work-items each", self._rewritten(unit, found, items, parts))
            for items, parts in shapes
        )

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the reason why the kernel is not rewritten."""
        found = self._split(unit)
        return (Rejection(line_of(unit.kernel), found),) if isinstance(found, str) else ()

    def _split(self, unit: SourceUnit) -> _Split | str:
        sizes = LaunchSizes(self._kernel)
        block, body = sizes.block, unit.kernel.child_by_field_name("body")
        if launch_descriptor(unit.content.decode(errors="replace")) is not None:
            return "its launch is already rewritten"
        if block is None or body is None or block[1:] != (1, 1) or not self._kernel.grid or self._kernel.cooperative:
            return "its workgroup does not have one axis"
        row = sizes.global_indices(unit).get("x")
        tested = guarded(statements(body), {row.name}) if row is not None else None
        if row is None or tested is None or not sizes.covers(unit, {"x": tested.bounds[row.name]}):
            row = tested = None
        uses = builtin_uses(unit.kernel, without=() if row is None else (row.node,))
        allowed = {"blockIdx.y", "blockIdx.z", "gridDim.y", "gridDim.z"}
        allowed |= {"blockIdx.x", "gridDim.x", "threadIdx.x", "blockDim.x"} if row is None else set()
        collective = row is None and block[0] % WAVE == 0
        text = text_of(unit.kernel)
        used = (
            hidden_index(unit)
            or next(iter(sorted(uses - allowed)), None)
            or next((word for word in _UNSUPPORTED if word in text), None)
            or impure_call(unit, body, collective=collective)
        )
        if used is not None:
            return f"uses {used}"
        plan = RowPlan(row, is_bounded=row is not None)
        nonzero = {tested.bounds[row.name]} if row is not None and tested is not None else set()  # An index is smaller.
        obstacle = collect(unit, body, plan, collective=collective, nonzero=nonzero) or hazard(unit.kernel, plan)
        if obstacle is not None:
            return obstacle
        if not plan.loops or plan.scans or plan.tops or has_pairs(plan):
            return "has no loop that only accumulates or stores"
        if row is not None and not _has_contiguous_access(unit.kernel, plan, row.name):
            return "its neighbours do not access neighbouring elements"
        varying = {"threadIdx"} if row is None else {row.name}
        test = _test(unit.kernel, row.name) if row is not None else None
        bound = tested.bounds[row.name] if tested is not None and row is not None else ""
        others = tested.others if tested is not None else []
        if row is not None and (bound not in sizes.scalars(unit) and not bound.isdigit() and unit.macro_value(bound) is None):
            return f"its limit {bound} is no parameter"
        if not all(_is_uniform(unit.kernel, text, varying) for text in others):
            return "returns early for other reasons"
        return _divergence(unit.kernel, plan, test, varying) or _Split(plan, bound, block[0], test)

    def _rewritten(self, unit: SourceUnit, found: _Split, items: int, parts: int) -> str:
        plan, body = found.plan, unit.kernel.child_by_field_name("body")
        assert body is not None
        lines, condition = [f"const int {LANE} = threadIdx.y;"], ""
        edits: list[Edit] = []
        grid = [str(size) for size in self._kernel.grid]
        if plan.row is not None:
            condition = _INSIDE
            lines.append(f"const bool {_INSIDE} = (long long)blockIdx.x * {items} + threadIdx.x < (long long)({found.bound});")
            index = f"{_INSIDE} ? {plan.row.cast}blockIdx.x * {items} + threadIdx.x : 0"
            edits.append(Edit(plan.row.node.start_byte, plan.row.node.end_byte, index))
            if found.test is not None:
                uniform = _uniform_test(text_of(found.test), plan.row.name, found.bound)
                edits.append(Edit(found.test.start_byte, found.test.end_byte, uniform))
            grid[0] = covering(self._kernel, grid[0], found.items, items)
        start = body.start_byte + 1
        edits.append(Edit(start, start, "\n  " + "\n  ".join(lines)))
        first = f"{LANE} == 0" + (f" && {condition}" if condition else "")
        edits += [Edit(node.start_byte, node.start_byte, f"{{ if ({first}) ") for node in plan.single]
        edits += [Edit(node.end_byte, node.end_byte, " }") for node in plan.single]
        for loop in plan.loops:
            variant = GroupVariant(parts, 0)
            edits += distributed(unit, loop, variant, {}, is_first=False, condition=condition, prefix="rpl_split_")
        outermost = top_level(unit.kernel)
        helpers = "".join(split_function(operation, parts, items) for operation in plan.operations())
        edits.append(Edit(outermost.start_byte, outermost.start_byte, helpers))
        return with_launch(unit, LaunchDescriptor(grid=tuple(grid), block=(items, parts)), edits)


def _has_contiguous_access(kernel: Node, plan: RowPlan, name: str) -> bool:
    """Return whether an access in a split loop is contiguous along an index."""
    positions = AccessPositions(kernel, {name})
    for node in (n for found in plan.loops for n in walk(found.loop.body) if is_access(n)):
        places = positions.terms(node)
        if places is not None and positions.is_contiguous(places, name):
            return True
    return False


def _test(kernel: Node, name: str) -> Node | None:
    """Return the condition of the first `if` statement that limits an index."""
    conditions = (node.child_by_field_name("condition") for node in walk(kernel) if node.type == "if_statement")
    limiting = re.compile(rf"(?<![\w.]){re.escape(name)}\s*(?:>=|<)")
    return next((node for node in conditions if node is not None and limiting.search(text_of(node))), None)


def _uniform_test(text: str, name: str, bound: str) -> str:
    """Return a condition in which the test of an index is replaced by one that all work-items pass if there are any elements."""
    outside = rf"(?<![\w.]){re.escape(name)}\s*>=\s*{re.escape(bound)}\b"
    inside = rf"(?<![\w.]){re.escape(name)}\s*<\s*{re.escape(bound)}\b"
    return re.sub(inside, f"{bound} > 0", re.sub(outside, f"{bound} <= 0", text))


def _divergence(kernel: Node, plan: RowPlan, test: Node | None, varying: set[str]) -> str | None:
    """Return the reason why not all work-items may reach the barriers of a reduction, or None."""
    for node in walk(kernel):
        if node.type != "return_statement":
            continue
        conditions = [p.child_by_field_name("condition") for p in ancestors(node) if p.type in ("if_statement", *_LOOPS)]
        if any((test is None or c != test) and not _is_uniform(kernel, text_of(c), varying) for c in conditions):
            return "some work-items return early"
    for loop in (found.loop for found in plan.loops if found.reductions):
        for parent in ancestors(loop.node):
            if parent.type == "function_definition":
                break
            if parent.type == "compound_statement":
                continue
            if parent.type == "if_statement" and parent.child_by_field_name("condition") == test:
                continue
            outer = counted_loop(parent)
            limits = f"{outer.start_text} {outer.end_text} {outer.step_text}" if outer is not None else "["
            jumps = [n for n in walk(parent) if n.type in ("break_statement", "continue_statement")]
            if jumps or not _is_uniform(kernel, limits, varying):
                return "only some work-items may reach a reduction"
    return None


def _is_uniform(kernel: Node, text: str, varying: set[str], *, depth: int = 6) -> bool:
    """Return whether an expression is known to have one value for all work-items of a workgroup."""
    body = kernel.child_by_field_name("body") or kernel
    if "[" in text or "->" in text or "(*" in text or depth == 0:
        return False
    for name in set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)):
        value = initialiser(kernel, name)
        if name in varying or (value is None and name in assigned_names(body)):
            return False
        if value is not None and not _is_uniform(kernel, text_of(value), varying, depth=depth - 1):
            return False
    return True
