"""One group of lanes per row, for kernels in which one work-item processes a whole row.

Such a kernel has few work-items, and neighbouring ones read addresses that are a row apart. The transform assigns each row to a
group of 8 to 1024 work-items. Loops with independent iterations are distributed over the lanes of the group, and accumulated
values are combined by shuffles, and through LDS if the group is larger than a wavefront. All other code is executed by all lanes,
and stored by the first one. The launch is enlarged accordingly. The order of floating-point sums changes.
"""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import ExpressionError, evaluate_integer
from rocm_perf_lab.languages.source_launch import LaunchDescriptor, launch_descriptor
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.syntax_nodes import line_of, text_of
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.lane_reductions import WAVE, group_function
from rocm_perf_lab.optimize.transforms.launch_edits import with_launch
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.rewriting import (
    Edit,
    apply,
    statements_with_pragma,
    top_level,
)
from rocm_perf_lab.optimize.transforms.row_code import distributed, kept_accesses, with_extremes
from rocm_perf_lab.optimize.transforms.row_plans import LANE, GroupVariant, RowPlan, collect, has_pairs, hazard
from rocm_perf_lab.optimize.transforms.row_scans import scan_lines
from rocm_perf_lab.optimize.transforms.thread_indices import (
    LaunchSizes,
    builtin_uses,
    early_return,
    guarded,
    hidden_index,
    statements,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.thread_indices import GlobalIndex

_BLOCK = 256
_MOST_GROUPS = 65536
"""Maximum number of workgroups along x, because an axis of a launch has less than 2^32 work-items."""
_LEAST_OF_ATOMICS = ("atomic", "__shared__", "__sync", "volatile", "->")


class RowGroups:
    """Assigns each row to a group of lanes.

    Args:
        kernel: Description with a one-dimensional launch.
        lanes: Sizes of groups, powers of two from 8 to 1024.
        kept: Elements of a row that each lane keeps in registers, if several loops read them; 0 reads them again.

    Raises:
        LabError: A size is invalid.
    """

    name = "row groups"

    def __init__(self, *, kernel: KernelDescription, lanes: Sequence[int] = (256, 64, 16), kept: Sequence[int] = (8, 0)) -> None:
        if any(count not in (8, 16, 32, 64, 128, 256, 512, 1024) for count in lanes):
            raise LabError(
                f"lanes must be powers of two from 8 to 1024, not {list(lanes)}",
                where="optimizer.transforms: lanes",
                hint="for example lanes: [64]",
            )
        self._kernel = kernel
        self._variants = [GroupVariant(count, keep) for keep in kept for count in lanes]

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per size of the groups."""
        single = _by_one_work_item(unit)
        if single is not None and (self._kernel.grid and LaunchSizes(self._kernel).block != (1, 1, 1)):
            other = copy(self)
            other._kernel = self._kernel.model_copy(update={"block": (1,)})
            return other.propose(single)
        plan = self._plan(unit)
        if isinstance(plan, str):
            return ()
        rewrites = []
        for variant in self._variants:
            kept = kept_accesses(unit, plan) if variant.kept else {}
            if (variant.kept and not kept) or (variant.lanes > WAVE and (plan.scans or plan.tops or has_pairs(plan))):
                continue
            if not plan.is_bounded and plan.row is not None and (self._items() * variant.lanes) % _block(plan, variant):
                continue  # More work-items than described.
            text = self._rewritten(unit, plan, variant, kept)
            keeping = f", {variant.kept} elements per lane in registers" if kept else ""
            rewrites.append(Rewrite(f"{variant.lanes} lanes per row{keeping}", text))
        return tuple(rewrites)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the reason why the kernel is not rewritten."""
        plan = self._plan(unit)
        return (Rejection(line_of(unit.kernel), plan),) if isinstance(plan, str) else ()

    def _plan(self, unit: SourceUnit) -> RowPlan | str:
        sizes = LaunchSizes(self._kernel)
        block = sizes.block
        if launch_descriptor(unit.content.decode(errors="replace")) is not None:
            return "its launch is already rewritten"
        body = unit.kernel.child_by_field_name("body")
        if block is None or body is None or block[1:] != (1, 1) or not self._kernel.grid or self._kernel.cooperative:
            return "its launch does not have one axis"
        row = sizes.global_indices(unit).get("x")
        if row is None and block != (1, 1, 1):
            return "no variable is the global index of the work-item"
        if row is not None and len(self._kernel.grid) != 1:
            return "its launch does not have one axis"
        of_group = {"blockIdx.x", "blockIdx.y", "blockIdx.z"} if row is None else set()
        others = builtin_uses(unit.kernel, without=() if row is None else (row.node,)) - of_group
        if others or (hidden := hidden_index(unit)) is not None:
            return f"uses {sorted(others)[0] if others else hidden}"
        text = text_of(unit.kernel)
        found = next((word for word in _LEAST_OF_ATOMICS if word in text), None) or impure_call(unit, body)
        if found is not None:
            return f"uses {found}"
        plan = RowPlan(row)
        if row is not None:
            tested = guarded(statements(body), {row.name})
            plan.is_bounded = tested is not None and sizes.covers(unit, {"x": tested.bounds[row.name]})
        obstacle = collect(unit, body, plan) or (None if plan.loops or plan.scans or plan.tops else "no loop can be distributed")
        return obstacle or hazard(unit.kernel, plan) or plan

    def _rewritten(self, unit: SourceUnit, plan: RowPlan, variant: GroupVariant, kept: dict[str, str]) -> str:
        lanes, block = variant.lanes, _block(plan, variant)
        body = unit.kernel.child_by_field_name("body")
        assert body is not None
        edits = [] if plan.row is None else [_row_edit(plan.row, lanes, block)]
        lane = f"threadIdx.x % {lanes}" if block != lanes else "threadIdx.x"
        start = body.start_byte + 1
        edits.append(Edit(start, start, f"\n  const int {LANE} = {lane};"))
        edits += [Edit(node.start_byte, node.start_byte, f"{{ if ({LANE} == 0) ") for node in plan.single]
        edits += [Edit(node.end_byte, node.end_byte, " }") for node in plan.single]
        for number, loop in enumerate(plan.loops):
            edits += distributed(unit, loop, variant, kept, is_first=number == 0)
        for scan in plan.scans:
            start, _ = statements_with_pragma(unit, scan.loop.node)
            edits.append(Edit(start, scan.loop.node.end_byte, "\n".join(["{", *scan_lines(scan, lanes, LANE), "}"])))
        edits += [with_extremes(unit, top, lanes) for top in plan.tops]
        outermost = top_level(unit.kernel)
        helpers = "".join(group_function(operation, lanes) for operation in plan.operations())
        edits.append(Edit(outermost.start_byte, outermost.start_byte, helpers))
        descriptor = LaunchDescriptor(grid=None, block=(block,))
        if plan.row is not None and not plan.is_bounded:
            items = self._items() * lanes // block
            descriptor = LaunchDescriptor(grid=(f"({self._kernel.grid[0]}) * {items}",), block=(block,))
        elif plan.row is not None:
            groups = self._grid(lanes, block)
            grid = (f"min({groups}, {_MOST_GROUPS})", f"ceil_div({groups}, {_MOST_GROUPS})")
            descriptor = LaunchDescriptor(grid=grid, block=(block,))
        return with_launch(unit, descriptor, edits)

    def _items(self) -> int:
        return (LaunchSizes(self._kernel).block or (1, 1, 1))[0]

    def _grid(self, lanes: int, block: int) -> str:
        """Return the workgroups for all rows, in terms of the params."""
        (grid,), (old, *_) = self._kernel.grid, LaunchSizes(self._kernel).block or (1,)
        match = re.fullmatch(r"ceil_div\((?P<rows>[^(),]+), *(?P<block>\w+)\)", str(grid))
        if match is not None:
            try:
                if evaluate_integer(match["block"], self._kernel.params, where="kernel.grid") == old:
                    rows = match["rows"].strip()
                    rows = rows if re.fullmatch(r"\w+", rows) else f"({rows})"
                    return rows if lanes == block else f"ceil_div({rows}, {block // lanes})"
            except ExpressionError:
                pass
        return f"({grid}) * {old}" if lanes == block else f"ceil_div(({grid}) * {old}, {block // lanes})"


def _block(plan: RowPlan, variant: GroupVariant) -> int:
    """Return the size of a workgroup."""
    return variant.lanes if plan.row is None else max(variant.lanes, _BLOCK)


def _row_edit(row: GlobalIndex, lanes: int, block: int) -> Edit:
    """Return the edit that gives all work-items of a group the same row."""
    wide = row.cast
    group = f"({wide}blockIdx.x + {wide}blockIdx.y * {_MOST_GROUPS})"
    rows = f"{group} * {block // lanes} + threadIdx.x / {lanes}" if block != lanes else group
    return Edit(row.node.start_byte, row.node.end_byte, rows)


def _by_one_work_item(unit: SourceUnit) -> SourceUnit | None:
    """Return a kernel without the test that only the first work-item of a workgroup passes; None for kernels without it."""
    body = unit.kernel.child_by_field_name("body")
    nodes = statements(body) if body is not None else []
    tests = [
        node for node in nodes if node.type == "if_statement" and "threadIdx" in text_of(node.child_by_field_name("condition"))
    ]
    condition = tests[0].child_by_field_name("condition") if len(tests) == 1 else None
    if condition is None or tests[0].child_by_field_name("alternative") is not None:
        return None
    place, is_return = nodes.index(tests[0]), early_return(tests[0]) is not None
    sign = "!=" if is_return else "=="
    bare = re.sub(r"[\s()]", "", text_of(condition))
    is_first = bare in (f"threadIdx.x{sign}0", f"0{sign}threadIdx.x", "threadIdx.x>0" if is_return else "!threadIdx.x")
    is_rest = is_return or (place == len(nodes) - 1 and all(node.type == "declaration" for node in nodes[:place]))
    if not is_first or not is_rest or builtin_uses(unit.kernel, without=(condition,)) & {"threadIdx.x", "blockDim.x"}:
        return None
    if is_return and any(node.type != "declaration" for node in nodes[:place]):
        return None
    edit = Edit(condition.start_byte, condition.end_byte, "(false)" if is_return else "(true)")
    return parse_source(apply(unit.content, [edit]).encode(), unit.entry)
