"""Plans that distribute the loops of a kernel over groups of work-items; all work-items of a group execute the other code."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.access_positions import initialises_pointer
from rocm_perf_lab.optimize.transforms.memory_roots import root_of
from rocm_perf_lab.optimize.transforms.reductions import IndependentLoop, declared_in, independent_loop, loop_of
from rocm_perf_lab.optimize.transforms.rewriting import (
    assigned_names,
    initialiser,
    is_written,
    names_in,
    substituted,
)
from rocm_perf_lab.optimize.transforms.row_scans import ScanLoop, scan_loop
from rocm_perf_lab.optimize.transforms.thread_indices import (
    early_return,
    statements,
)
from rocm_perf_lab.optimize.transforms.top_values import TopLoop, top_loop

if TYPE_CHECKING:
    from collections.abc import Collection

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.thread_indices import GlobalIndex

LANE = "rpl_lane"
"""Variable with the index of a work-item in its group."""


@dataclass(frozen=True)
class GroupVariant:
    """Lanes per row, and elements of a row that each lane keeps in registers."""

    lanes: int
    kept: int


@dataclass
class RowPlan:
    """Replacements of the statements of a kernel."""

    row: GlobalIndex | None
    """None if a workgroup has one row, whose index is that of the workgroup."""
    loops: list[IndependentLoop] = field(default_factory=list)
    scans: list[ScanLoop] = field(default_factory=list)
    tops: list[TopLoop] = field(default_factory=list)
    single: list[Node] = field(default_factory=list)
    """Stores outside of distributed loops."""
    is_bounded: bool = False
    """Whether additional work-items have no effect."""

    def operations(self) -> list[str]:
        """Return the operations that combine values of a group."""
        reductions = [r for loop in self.loops for r in loop.reductions if r.place is None]
        found = {r.operation for r in reductions if r.scaled is None}
        return sorted(found | ({"max", "sum"} if any(r.scaled is not None for r in reductions) else set()))


def collect(
    unit: SourceUnit, part: Node, plan: RowPlan, *, collective: bool = False, nonzero: Collection[str] = ()
) -> str | None:
    """Add the statements of a block to a plan; return the reason if a statement cannot be executed by all lanes."""
    for node in statements(part):
        is_empty = node.type == "expression_statement" and not node.named_children
        if is_empty or node.type in ("declaration", "return_statement", "break_statement", "continue_statement", ";"):
            continue
        if node.type == "if_statement":
            if early_return(node) is not None:
                continue
            branches = [node.child_by_field_name("consequence"), node.child_by_field_name("alternative")]
            inner = [b.named_children[0] if b.type == "else_clause" else b for b in branches if b is not None]
            obstacle = next(
                (why for b in inner if (why := collect(unit, b, plan, collective=collective, nonzero=nonzero)) is not None), None
            )
            if obstacle is not None:
                return obstacle
        elif node.type == "compound_statement":
            obstacle = collect(unit, node, plan, collective=collective, nonzero=nonzero)
            if obstacle is not None:
                return obstacle
        elif node.type in ("for_statement", "while_statement", "do_statement"):
            loop = independent_loop(unit, node, collective=collective, nonzero=nonzero)
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
            obstacle = collect(unit, body, plan, collective=collective, nonzero=nonzero) if body is not None else loop
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


def hazard(kernel: Node, plan: RowPlan) -> str | None:
    """Return the reason why a lane may depend on a store of another lane, or None."""
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
        if initialises_pointer(node):
            continue  # accesses through that pointer have the same root
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
        if roles == {"single"} and not any(not inside_single(node, plan) for node in reads):
            continue
        if len(roles) != 1 or not next(iter(roles)).startswith("lane"):
            return f"accesses {root} in several ways"
        changing = _changing(kernel, plan, [node for node, _ in found])
        if changing is not None:
            return f"accesses {root} at positions that change with {changing}"
    return None


def _changing(kernel: Node, plan: RowPlan, nodes: list[Node]) -> str | None:
    """Return a name through which an element may be accessed by different lanes in different distributed loops, or None."""
    loops = [*(x.loop for x in plan.loops), *(x.loop for x in plan.scans), *(x.loop for x in plan.tops)]
    for node in nodes:
        loop = next(loop for loop in loops if loop.node.start_byte <= node.start_byte < loop.node.end_byte)
        names = (names_in(node) | set(re.findall(r"[A-Za-z_]\w*", loop.start_text))) - {loop.index}
        found = next((name for name in sorted(names) if not _is_fixed(kernel, name)), None)
        if found is not None:
            return found
    return None


def _is_fixed(kernel: Node, name: str) -> bool:
    """Return whether a variable is constant: a parameter or a declaration outside of loops, without assignments."""
    declared = [n for n in walk(kernel) if n.type in ("declaration", "for_range_loop") and name in declared_in(n)]
    if not declared:
        return name not in assigned_names(kernel.child_by_field_name("body") or kernel)
    return initialiser(kernel, name) is not None and loop_of(declared[0]) is None


def _role(node: Node, plan: RowPlan) -> str:
    """Return the lane that accesses an element: that of an index, the first one, or all."""
    for loop in (*(found.loop for found in plan.loops), *(found.loop for found in plan.tops)):
        if loop.node.start_byte <= node.start_byte < loop.node.end_byte:
            place = substituted(re.sub(r"\s+", "", text_of(node)), loop.index, "@")
            return f"lane {place} from {loop.start_text}"
    for scan in plan.scans:
        loop = scan.loop
        if loop.node.start_byte <= node.start_byte < loop.node.end_byte:
            place = substituted(re.sub(r"\s+", "", text_of(node)), loop.index, "@")
            return f"lane of scan {place} from {loop.start_text}"
    return "single" if inside_single(node, plan) else "all"


def inside_single(node: Node, plan: RowPlan) -> bool:
    return any(s.start_byte <= node.start_byte < s.end_byte for s in plan.single)


def has_pairs(plan: RowPlan) -> bool:
    return any(r.place is not None for loop in plan.loops for r in loop.reductions)
