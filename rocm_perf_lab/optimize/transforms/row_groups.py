"""One group of lanes per row, for kernels in which one work-item processes a whole row.

Neighbouring work-items of such a kernel read addresses that are a row apart, and few of them exist. The transform gives each row
to a group of 8 to 1024 work-items. Loops whose iterations are independent are distributed over the lanes of the group, and what
they accumulate is combined by shuffles, and through LDS if the group is larger than a wavefront. Everything else is computed by
all lanes alike, and stored by the first one. The launch grows accordingly. The order of floating-point sums changes.
"""

from __future__ import annotations

import re
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import ExpressionError, evaluate_integer
from rocm_perf_lab.languages.source_launch import LaunchDescriptor, launch_descriptor
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.syntax_nodes import ancestors, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.lane_reductions import WAVE, group_function
from rocm_perf_lab.optimize.transforms.memory_roots import root_of
from rocm_perf_lab.optimize.transforms.reductions import (
    IndependentLoop,
    Reduction,
    declared_in,
    impure_call,
    independent_loop,
    loop_of,
)
from rocm_perf_lab.optimize.transforms.rewriting import (
    Edit,
    apply,
    assigned_names,
    element_type,
    initialiser,
    is_conditional,
    is_written,
    names_in,
    statements_with_pragma,
    subscript_index,
    substituted,
    top_level,
)
from rocm_perf_lab.optimize.transforms.row_scans import ScanLoop, scan_lines, scan_loop
from rocm_perf_lab.optimize.transforms.thread_indices import (
    LaunchSizes,
    builtin_uses,
    early_return,
    guarded,
    hidden_index,
    statements,
)
from rocm_perf_lab.optimize.transforms.top_values import TopLoop, merge_lines, top_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.thread_indices import GlobalIndex

_BLOCK = 256
_MOST_GROUPS = 65536
"""Workgroups along x: an axis of a launch has less than 2^32 work-items."""
_LEAST_OF_ATOMICS = ("atomic", "__shared__", "__sync", "volatile", "->")
_LANE = "rpl_lane"


@dataclass(frozen=True)
class _Variant:
    """Lanes per row, and elements of a row that each lane keeps in registers."""

    lanes: int
    kept: int

    def block(self, plan: _Plan) -> int:
        """Return the size of a workgroup."""
        return self.lanes if plan.row is None else max(self.lanes, _BLOCK)


@dataclass
class _Plan:
    """Replacements of the statements of a kernel."""

    row: GlobalIndex | None
    """None if a workgroup has one row, with its index."""
    loops: list[IndependentLoop] = field(default_factory=list)
    scans: list[ScanLoop] = field(default_factory=list)
    tops: list[TopLoop] = field(default_factory=list)
    single: list[Node] = field(default_factory=list)
    """Statements that store, outside of distributed loops."""
    is_bounded: bool = False
    """Whether additional work-items compute nothing."""


class RowGroups:
    """Gives each row to a group of lanes.

    Args:
        kernel: Description; it has one axis.
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
        self._variants = [_Variant(count, keep) for keep in kept for count in lanes]

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
            kept = _kept_accesses(unit, plan) if variant.kept else {}
            if (variant.kept and not kept) or (variant.lanes > WAVE and (plan.scans or plan.tops or _has_pairs(plan))):
                continue
            if not plan.is_bounded and plan.row is not None and (self._items() * variant.lanes) % variant.block(plan):
                continue  # more work-items than described
            text = self._rewritten(unit, plan, variant, kept)
            keeping = f", {variant.kept} elements per lane in registers" if kept else ""
            rewrites.append(Rewrite(f"{variant.lanes} lanes per row{keeping}", text))
        return tuple(rewrites)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return why the kernel is not rewritten."""
        plan = self._plan(unit)
        return (Rejection(line_of(unit.kernel), plan),) if isinstance(plan, str) else ()

    def _plan(self, unit: SourceUnit) -> _Plan | str:
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
        plan = _Plan(row)
        if row is not None:
            tested = guarded(statements(body), {row.name})
            plan.is_bounded = tested is not None and sizes.covers(unit, {"x": tested.bounds[row.name]})
        obstacle = _collect(unit, body, plan) or (None if plan.loops or plan.scans or plan.tops else "no loop can be distributed")
        return obstacle or _hazard(unit.kernel, plan) or plan

    def _rewritten(self, unit: SourceUnit, plan: _Plan, variant: _Variant, kept: dict[str, str]) -> str:
        content, lanes, block = unit.content, variant.lanes, variant.block(plan)
        body = unit.kernel.child_by_field_name("body")
        assert body is not None
        edits = [] if plan.row is None else [_row_edit(plan.row, lanes, block)]
        lane = f"threadIdx.x % {lanes}" if block != lanes else "threadIdx.x"
        start = body.start_byte + 1
        edits.append(Edit(start, start, f"\n  const int {_LANE} = {lane};"))
        edits += [Edit(node.start_byte, node.start_byte, f"{{ if ({_LANE} == 0) ") for node in plan.single]
        edits += [Edit(node.end_byte, node.end_byte, " }") for node in plan.single]
        for number, loop in enumerate(plan.loops):
            edits += _distributed(unit, loop, variant, kept, is_first=number == 0)
        for scan in plan.scans:
            start, _ = statements_with_pragma(unit, scan.loop.node)
            edits.append(Edit(start, scan.loop.node.end_byte, "\n".join(["{", *scan_lines(scan, lanes, _LANE), "}"])))
        edits += [_with_extremes(unit, top, lanes) for top in plan.tops]
        outermost = top_level(unit.kernel)
        operations = {r.operation for loop in plan.loops for r in loop.reductions if r.place is None}
        helpers = "".join(group_function(operation, lanes) for operation in sorted(operations))
        edits.append(Edit(outermost.start_byte, outermost.start_byte, helpers))
        descriptor = LaunchDescriptor(grid=None, block=(block,))
        if plan.row is not None and not plan.is_bounded:
            items = self._items() * lanes // block
            descriptor = LaunchDescriptor(grid=(f"({self._kernel.grid[0]}) * {items}",), block=(block,))
        elif plan.row is not None:
            groups = self._grid(lanes, block)
            grid = (f"min({groups}, {_MOST_GROUPS})", f"ceil_div({groups}, {_MOST_GROUPS})")
            descriptor = LaunchDescriptor(grid=grid, block=(block,))
        return f"{descriptor.line()}\n{apply(content, edits)}"

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


def _row_edit(row: GlobalIndex, lanes: int, block: int) -> Edit:
    """Return the edit after which work-items of a group have the same row."""
    wide = "(size_t)" if re.search(r"size_t|long|int64", text_of(row.node)) else ""
    group = f"({wide}blockIdx.x + {wide}blockIdx.y * {_MOST_GROUPS})"
    rows = f"{group} * {block // lanes} + threadIdx.x / {lanes}" if block != lanes else group
    return Edit(row.node.start_byte, row.node.end_byte, rows)


def _by_one_work_item(unit: SourceUnit) -> SourceUnit | None:
    """Return a kernel in which only the first work-item of a workgroup works, without that test; None for others."""
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


def _collect(unit: SourceUnit, part: Node, plan: _Plan) -> str | None:
    """Add the statements of a block to a plan; return why one of them cannot be computed by all lanes alike."""
    for node in statements(part):
        if node.type in ("declaration", "return_statement", "break_statement", "continue_statement", ";"):
            continue
        if node.type == "if_statement":
            if early_return(node) is not None:
                continue
            branches = [node.child_by_field_name("consequence"), node.child_by_field_name("alternative")]
            inner = [b.named_children[0] if b.type == "else_clause" else b for b in branches if b is not None]
            obstacle = next((why for b in inner if (why := _collect(unit, b, plan)) is not None), None)
            if obstacle is not None:
                return obstacle
        elif node.type == "compound_statement":
            obstacle = _collect(unit, node, plan)
            if obstacle is not None:
                return obstacle
        elif node.type in ("for_statement", "while_statement", "do_statement"):
            loop = independent_loop(unit, node)
            if not isinstance(loop, str):
                plan.loops.append(loop)
                continue
            scan = scan_loop(unit, node)
            if not isinstance(scan, str):
                plan.scans.append(scan)
                continue
            top = top_loop(unit, node)
            if not isinstance(top, str):
                plan.tops.append(top)
                continue
            body = node.child_by_field_name("body")
            obstacle = _collect(unit, body, plan) if body is not None else loop
            if obstacle is not None:
                return obstacle
        elif node.type == "expression_statement":
            target = next((c for c in node.named_children if c.type in ("assignment_expression", "update_expression")), None)
            if target is None or len(node.named_children) != 1:
                return f"line {line_of(node)}: {text_of(node)}"
            place = target.child_by_field_name("left") or target.child_by_field_name("argument")
            while place is not None and place.type == "field_expression":
                place = place.child_by_field_name("argument")
            if place is not None and place.type != "identifier":
                plan.single.append(node)
        else:
            return f"line {line_of(node)}: {node.type.replace('_', ' ')}"
    return None


def _hazard(kernel: Node, plan: _Plan) -> str | None:
    """Return why a lane may need what another lane stored, or None."""
    accesses: dict[str, list[tuple[Node, str]]] = {}
    for node in walk(kernel):
        if node.type == "pointer_expression" and text_of(node).startswith("*"):
            return "dereferences a pointer"
        if node.type == "reference_declarator":
            return "uses a reference"
        if node.type != "subscript_expression" or (
            node.parent is not None
            and node.parent.type == "subscript_expression"
            and node.parent.child_by_field_name("argument") == node
        ):
            continue
        base = node.child_by_field_name("argument")
        root = root_of(kernel, text_of(base)) if base is not None and base.type == "identifier" else None
        if root is None:
            return f"accesses {text_of(node)}, whose buffer is unknown"
        accesses.setdefault(root, []).append((node, _role(node, plan)))
    for root, found in accesses.items():
        if not any(is_written(node) for node, _ in found):
            continue
        roles = {role for _, role in found}
        reads = [node for node, role in found if not is_written(node)]
        if roles == {"single"} and not any(not _inside_single(node, plan) for node in reads):
            continue
        if len(roles) != 1 or not next(iter(roles)).startswith("lane"):
            return f"accesses {root} in several ways"
        changing = _changing(kernel, plan, [node for node, _ in found])
        if changing is not None:
            return f"accesses {root} at positions that change with {changing}"
    return None


def _changing(kernel: Node, plan: _Plan, nodes: list[Node]) -> str | None:
    """Return a name that changes which lane accesses an element, from one distributed loop to another; None if there is none."""
    loops = [*(x.loop for x in plan.loops), *(x.loop for x in plan.scans), *(x.loop for x in plan.tops)]
    for node in nodes:
        loop = next(loop for loop in loops if loop.node.start_byte <= node.start_byte < loop.node.end_byte)
        names = (names_in(node) | set(re.findall(r"[A-Za-z_]\w*", loop.start_text))) - {loop.index}
        found = next((name for name in sorted(names) if not _is_fixed(kernel, name)), None)
        if found is not None:
            return found
    return None


def _is_fixed(kernel: Node, name: str) -> bool:
    """Return whether a variable has one value: a parameter or a declaration outside of loops, without assignments."""
    declared = [n for n in walk(kernel) if n.type in ("declaration", "for_range_loop") and name in declared_in(n)]
    if not declared:
        return name not in assigned_names(kernel.child_by_field_name("body") or kernel)
    return initialiser(kernel, name) is not None and loop_of(declared[0]) is None


def _role(node: Node, plan: _Plan) -> str:
    """Return which lane accesses an element: that of an index, the first one, or all."""
    for loop in (*(found.loop for found in plan.loops), *(found.loop for found in plan.tops)):
        if loop.node.start_byte <= node.start_byte < loop.node.end_byte:
            place = substituted(re.sub(r"\s+", "", text_of(node)), loop.index, "@")
            return f"lane {place} from {loop.start_text}"
    for scan in plan.scans:
        loop = scan.loop
        if loop.node.start_byte <= node.start_byte < loop.node.end_byte:
            place = substituted(re.sub(r"\s+", "", text_of(node)), loop.index, "@")
            return f"lane of scan {place} from {loop.start_text}"
    return "single" if _inside_single(node, plan) else "all"


def _with_extremes(unit: SourceUnit, top: TopLoop, lanes: int) -> Edit:
    """Return the edit that distributes a loop which keeps extreme values."""
    loop = top.loop
    body = unit.content[loop.body.start_byte : loop.body.end_byte].decode()
    head = f"for ({loop.type_name} {loop.index} = ({loop.start_text}) + {_LANE}; {loop.index} < {loop.end_text};"
    lines = ["{", "#pragma unroll 4", f"{head} {loop.index} += {lanes}) {body}", *merge_lines(top, lanes), "}"]
    return Edit(statements_with_pragma(unit, loop.node)[0], loop.node.end_byte, "\n".join(lines))


def _inside_single(node: Node, plan: _Plan) -> bool:
    return any(s.start_byte <= node.start_byte < s.end_byte for s in plan.single)


def _has_pairs(plan: _Plan) -> bool:
    return any(r.place is not None for loop in plan.loops for r in loop.reductions)


def _kept_accesses(unit: SourceUnit, plan: _Plan) -> dict[str, str]:
    """Return loads that at least two distributed loops with equal limits share, with their element types."""
    kernel = unit.kernel
    if plan.scans or plan.tops or len(plan.loops) < 2 or len({(x.loop.start_text, x.loop.end_text) for x in plan.loops}) != 1:
        return {}
    if any(p.type in ("for_statement", "while_statement") for x in plan.loops for p in ancestors(x.loop.node)):
        return {}
    assigned = {text_of(n.child_by_field_name("left")) for n in walk(kernel) if n.type == "assignment_expression"}
    assigned |= {text_of(n.child_by_field_name("argument")) for n in walk(kernel) if n.type == "update_expression"}
    limits = {name for x in plan.loops for text in (x.loop.start_text, x.loop.end_text) for name in re.findall(r"\w+", text)}
    if limits & assigned:
        return {}
    counts: dict[str, set[int]] = {}
    kinds: dict[str, str] = {}
    for number, independent in enumerate(plan.loops):
        loop = independent.loop
        for node in walk(loop.body):
            index = subscript_index(node) if node.type == "subscript_expression" else None
            base = node.child_by_field_name("argument")
            if index is None or base is None or loop.index not in names_in(index):
                continue
            kind = element_type(kernel, text_of(base))
            if kind is None or is_written(node) or (names_in(index) - {loop.index}) & assigned:
                continue
            if is_conditional(node, loop.body):
                continue
            if any(root_of(kernel, text_of(base)) == root for root in _written_roots(kernel)):
                continue
            place = substituted(re.sub(r"\s+", "", text_of(node)), loop.index, "@")
            counts.setdefault(place, set()).add(number)
            kinds[place] = kind
    return {place: kinds[place] for place, numbers in counts.items() if len(numbers) == len(plan.loops)}


def _written_roots(kernel: Node) -> set[str | None]:
    bases = [n.child_by_field_name("argument") for n in walk(kernel) if n.type == "subscript_expression" and is_written(n)]
    return {root_of(kernel, text_of(base)) for base in bases if base is not None}


def _distributed(
    unit: SourceUnit, independent: IndependentLoop, variant: _Variant, kept: dict[str, str], *, is_first: bool
) -> list[Edit]:
    """Return the edits that distribute one loop over the lanes."""
    loop, lanes = independent.loop, variant.lanes
    content = unit.content
    start, _ = statements_with_pragma(unit, loop.node)
    sums = {r.name: f"rpl_{r.name}" for r in independent.reductions if r.operation == "sum"}
    body = content[loop.body.start_byte : loop.body.end_byte].decode()
    for name, part in sums.items():
        body = substituted(body, name, part)
    lines = [f"{_type_of(independent, name)} {part} = 0;" for name, part in sums.items()]
    first = f"({loop.start_text}) + {_LANE}"
    head = f"{loop.type_name} {loop.index}"
    if kept:
        lines += _kept_lines(unit, independent, variant, kept, body, is_first=is_first)
        first = f"{first} + {variant.kept * lanes}"
    else:
        lines.append("#pragma unroll 4")
    lines.append(f"for ({head} = {first}; {loop.index} < {loop.end_text}; {loop.index} += {lanes}) {body}")
    lines += [_combined(reduction, sums, lanes) for reduction in independent.reductions]
    return (
        [Edit(start, loop.node.end_byte, "\n" + "\n".join(lines))]
        if _is_in_block(loop.node)
        else [Edit(start, loop.node.end_byte, "{\n" + "\n".join(lines) + "\n}")]
    )


def _is_in_block(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "compound_statement"


def _kept_lines(
    unit: SourceUnit, independent: IndependentLoop, variant: _Variant, kept: dict[str, str], body: str, *, is_first: bool
) -> list[str]:
    """Return the code for the elements in registers; the first loop loads them."""
    loop, lanes = independent.loop, variant.lanes
    lines: list[str] = []
    index = f"const {loop.type_name} {loop.index} = ({loop.start_text}) + {_LANE} + {lanes} * rpl_k;"
    head = f"for (int rpl_k = 0; rpl_k < {variant.kept}; ++rpl_k)"
    places = {place: f"rpl_kept_{number}" for number, place in enumerate(kept)}
    if is_first:
        lines += [f"{kind} {places[place]}[{variant.kept}];" for place, kind in kept.items()]
        loads = " ".join(f"{name}[rpl_k] = {place.replace('@', loop.index)};" for place, name in places.items())
        lines += ["#pragma unroll", f"{head} {{ {index} if ({loop.index} < {loop.end_text}) {{ {loads} }} }}"]
    for place, name in places.items():
        pattern = r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", place.replace("@", loop.index)))
        body = re.sub(rf"(?<![\w.]){pattern}", f"{name}[rpl_k]", body)
    lines += ["#pragma unroll", f"{head} {{ {index} if ({loop.index} < {loop.end_text}) {body} }}"]
    return lines


def _type_of(independent: IndependentLoop, name: str) -> str:
    return next(r.type_name for r in independent.reductions if r.name == name).removeprefix("const ")


def _combined(reduction: Reduction, sums: dict[str, str], lanes: int) -> str:
    name = reduction.name
    if reduction.operation == "sum":
        return f"{name} += rpl_group_sum({sums[name]});"
    if reduction.place is None:
        return f"{name} = rpl_group_{reduction.operation}({name});"
    sign, place = (">" if reduction.operation == "first max" else "<"), reduction.place
    return (
        f"for (int rpl_step = {lanes // 2}; rpl_step > 0; rpl_step >>= 1) {{\n"
        f"const auto rpl_other = __shfl_xor({name}, rpl_step);\n"
        f"const auto rpl_place = __shfl_xor({place}, rpl_step);\n"
        f"if (rpl_other {sign} {name} || (rpl_other == {name} && rpl_place < {place})) "
        f"{{ {name} = rpl_other; {place} = rpl_place; }}\n}}"
    )
