"""Code of loops that are distributed over the lanes of a group."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import ancestors, text_of, walk
from rocm_perf_lab.optimize.transforms.memory_roots import root_of
from rocm_perf_lab.optimize.transforms.rewriting import (
    Edit,
    element_type,
    is_conditional,
    is_written,
    names_in,
    statements_with_pragma,
    subscript_index,
    substituted,
)
from rocm_perf_lab.optimize.transforms.row_plans import LANE
from rocm_perf_lab.optimize.transforms.top_values import TopLoop, merge_lines

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.reductions import IndependentLoop, Reduction
    from rocm_perf_lab.optimize.transforms.rewriting import CountedLoop
    from rocm_perf_lab.optimize.transforms.row_plans import GroupVariant, RowPlan


def kept_accesses(unit: SourceUnit, plan: RowPlan) -> dict[str, str]:
    """Return loads shared by at least two distributed loops with equal limits, with their element types."""
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


def distributed(
    unit: SourceUnit,
    independent: IndependentLoop,
    variant: GroupVariant,
    kept: dict[str, str],
    *,
    is_first: bool,
    condition: str = "",
    prefix: str = "rpl_group_",
) -> list[Edit]:
    """Return the edits that distribute one loop over the lanes.

    Args:
        unit: Source.
        independent: Loop.
        variant: Sizes.
        kept: Loads that are kept in registers, with their element types.
        is_first: Whether this is the loop that loads them.
        condition: Condition under which a lane executes iterations; empty if always.
        prefix: Start of the names of the functions that combine values.
    """
    loop, lanes = independent.loop, variant.lanes
    content = unit.content
    start, _ = statements_with_pragma(unit, loop.node)
    sums = {r.name: f"rpl_{r.name}" for r in independent.reductions if r.operation == "sum"}
    scaled = [r.scaled for r in independent.reductions if r.scaled is not None]
    body = content[loop.body.start_byte : loop.body.end_byte].decode() if not scaled else scaled[0].body(loop)
    for name, part in sums.items():
        body = substituted(body, name, part)
    lines = [f"{_type_of(independent, name)} {part} = 0;" for name, part in sums.items()]
    lines += [f"if ({LANE} != 0) {name} = 0;" for found in scaled for name in found.sums]
    first = f"({loop.start_text}) + {LANE}"
    head = f"{loop.type_name} {loop.index}"
    if kept:
        lines += _kept_lines(unit, independent, variant, kept, body, is_first=is_first)
        first = f"{first} + {variant.kept * lanes}"
    else:
        lines.append("#pragma unroll 4")
    test = f"{loop.index} < {loop.end_text}" if not condition else f"{condition} && {loop.index} < {loop.end_text}"
    lines.append(f"for ({head} = {first}; {test}; {loop.index} += {lanes}) {body}")
    lines += [_combined(loop, reduction, sums, lanes, prefix) for reduction in independent.reductions]
    return (
        [Edit(start, loop.node.end_byte, "\n" + "\n".join(lines))]
        if _is_in_block(loop.node)
        else [Edit(start, loop.node.end_byte, "{\n" + "\n".join(lines) + "\n}")]
    )


def _is_in_block(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "compound_statement"


def _kept_lines(
    unit: SourceUnit, independent: IndependentLoop, variant: GroupVariant, kept: dict[str, str], body: str, *, is_first: bool
) -> list[str]:
    """Return the code for the elements in registers; the first loop loads them."""
    loop, lanes = independent.loop, variant.lanes
    lines: list[str] = []
    index = f"const {loop.type_name} {loop.index} = ({loop.start_text}) + {LANE} + {lanes} * rpl_k;"
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


def _combined(loop: CountedLoop, reduction: Reduction, sums: dict[str, str], lanes: int, prefix: str) -> str:
    name = reduction.name
    if reduction.scaled is not None:
        return "\n".join(reduction.scaled.merged(f"{prefix}max", f"{prefix}sum"))
    if reduction.operation == "sum":
        return f"{name} += {prefix}sum({sums[name]});"
    if reduction.place is None:
        return f"{name} = {prefix}{reduction.operation}({name});"
    sign, place = (">" if reduction.operation == "first max" else "<"), reduction.place
    value = name if reduction.value is None else "rpl_value"
    lines = [
        f"for (int rpl_step = {lanes // 2}; rpl_step > 0; rpl_step >>= 1) {{",
        f"const auto rpl_other = __shfl_xor({value}, rpl_step);",
        f"const auto rpl_place = __shfl_xor({place}, rpl_step);",
        f"if (rpl_other {sign} {value} || (rpl_other == {value} && rpl_place < {place})) "
        f"{{ {value} = rpl_other; {place} = rpl_place; }}",
        "}",
    ]
    if reduction.value is not None:  # The original loop reads no value before its first iteration.
        load = f"auto rpl_value = {reduction.value.replace('@', place)};"
        lines = [f"if (({loop.start_text}) < {loop.end_text}) {{", load, *lines, "}"]
    return "\n".join(lines)


def with_extremes(unit: SourceUnit, top: TopLoop, lanes: int) -> Edit:
    """Return the edit that distributes a loop which keeps extreme values."""
    loop = top.loop
    body = unit.content[loop.body.start_byte : loop.body.end_byte].decode()
    head = f"for ({loop.type_name} {loop.index} = ({loop.start_text}) + {LANE}; {loop.index} < {loop.end_text};"
    lines = ["{", "#pragma unroll 4", f"{head} {loop.index} += {lanes}) {body}", *merge_lines(top, lanes), "}"]
    return Edit(statements_with_pragma(unit, loop.node)[0], loop.node.end_byte, "\n".join(lines))
