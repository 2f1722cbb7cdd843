"""Strength reduction of divisions by loop invariants.

`x / d` with a float `d` becomes a product with a reciprocal that is computed once: one instruction instead of ten; the result may
differ in the last bit. `i / d` and `i % d` of an integer loop index become a quotient and a remainder that are updated by
additions, which is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import ancestors, function_declarator, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.rewriting import (
    CountedLoop,
    Edit,
    apply,
    apply_within,
    assigned_names,
    counted_loop,
    enclosing_function,
    indentation,
    jumps_in,
    newline,
    statements_with_pragma,
    unused_name,
)

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_UNSIGNED = frozenset({"unsigned", "unsigned int", "size_t", "uint32_t"})
_INTEGERS = _UNSIGNED | {"int", "long", "int32_t", "int64_t"}


class ReduceStrength:
    """Rewrites all loops together, then each loop."""

    name = "strength reduction"
    addresses = frozenset(
        {"memory_bandwidth_bound", "latency_bound", "compute_bound", "under_occupied", "launch_bound", "balanced", "unknown"}
    )

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per group of loops."""
        free = [(node, edit, what) for node, edit, what in _reduced(unit) if edit is not None]
        outer = [row for row in free if not any(o[0].start_byte < row[0].start_byte < o[0].end_byte for o in free)]
        groups = ([outer] if len(outer) > 1 else []) + [[row] for row in free]
        return tuple(
            Rewrite(
                "; ".join(f"{what} in line {line_of(node)}" for node, _, what in group),
                apply(unit.content, [edit for _, edit, _ in group if edit is not None]),
            )
            for group in groups
        )

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return loops without such a division."""
        return tuple(Rejection(line_of(node), what) for node, edit, what in _reduced(unit) if edit is None)


def _reduced(unit: SourceUnit) -> list[tuple[Node, Edit | None, str]]:
    rows: list[tuple[Node, Edit | None, str]] = []
    for function in unit.functions():
        for node in walk(function):
            if node.type == "for_statement":
                floats, integers = _float_divisions(node), _integer_divisions(node)
                if floats:
                    rows.append(
                        (
                            node,
                            _with_reciprocals(unit, node, floats),
                            f"product with 1/{', 1/'.join(sorted({d for _, d in floats}))}",
                        )
                    )
                if integers:
                    loop = counted_loop(node)
                    assert loop is not None
                    divisor = next(iter(integers.values()))
                    rows.append((node, _carried(unit, loop, integers, divisor), f"{loop.index} / {divisor} carried along"))
                if not floats and not integers:
                    rows.append((node, None, "has no division by a loop invariant"))
    return rows


def _float_divisions(loop: Node) -> list[tuple[Node, str]]:
    """Return divisions by a loop-invariant `float` variable, with its name."""
    body = loop.child_by_field_name("body")
    if body is None:
        return []
    changing, function = assigned_names(loop), enclosing_function(loop)
    found = []
    for node in walk(body):
        if node.type != "binary_expression" or text_of(node.child_by_field_name("operator")) != "/":
            continue
        divisor = node.child_by_field_name("right")
        if divisor is None or divisor.type != "identifier" or text_of(divisor) in changing:
            continue
        if _type_of(function, text_of(divisor)) == "float":
            found.append((node, text_of(divisor)))
    return found


def _integer_divisions(node: Node) -> dict[Node, str]:
    """Return the expressions `index / d` and `index % d` of the loop index with one loop-invariant integer `d`."""
    loop = counted_loop(node)
    if any(">= 0 && " in text_of(p.child_by_field_name("condition")) for p in ancestors(node) if p.type == "if_statement"):
        return {}  # already rewritten
    if loop is None or jumps_in(loop.body) or loop.type_name not in _INTEGERS:
        return {}
    changing, function = assigned_names(node), enclosing_function(node)
    found: dict[Node, str] = {}
    for inner in walk(loop.body):
        if inner.type != "binary_expression" or text_of(inner.child_by_field_name("operator")) not in ("/", "%"):
            continue
        left, right = inner.child_by_field_name("left"), inner.child_by_field_name("right")
        if left is None or right is None or text_of(left) != loop.index or right.type != "identifier":
            continue
        if text_of(right) not in changing and _type_of(function, text_of(right)) == loop.type_name:
            found[inner] = text_of(right)
    return found if len(set(found.values())) == 1 else {}


def _type_of(function: Node, name: str) -> str | None:
    """Return the type of a scalar parameter or local variable that is declared once."""
    found = []
    parameters = function_declarator(function).child_by_field_name("parameters")
    declarations = [n for n in walk(function) if n.type == "declaration"] + list(parameters.named_children if parameters else [])
    for declaration in declarations:
        for child in declaration.named_children:
            declarator = child.child_by_field_name("declarator") if child.type == "init_declarator" else child
            if declarator is not None and declarator.type == "identifier" and text_of(declarator) == name:
                found.append(text_of(declaration.child_by_field_name("type")))
    return found[0] if len(found) == 1 else None


def _with_reciprocals(unit: SourceUnit, loop: Node, divisions: list[tuple[Node, str]]) -> Edit:
    names = {divisor: unused_name(unit, f"reciprocal_of_{divisor}") for _, divisor in divisions}
    edits = []
    for node, divisor in divisions:
        operator, right = node.child_by_field_name("operator"), node.child_by_field_name("right")
        assert operator is not None and right is not None
        edits += [Edit(operator.start_byte, operator.end_byte, "*"), Edit(right.start_byte, right.end_byte, names[divisor])]
    before = [f"const float {name} = 1.0f / {divisor};" for divisor, name in names.items()]
    return _wrapped(unit, loop, edits, before)


def _carried(unit: SourceUnit, loop: CountedLoop, divisions: dict[Node, str], divisor: str) -> Edit:
    """Return the edit that initialises quotient and remainder and adds those of the step, if no value is negative."""
    quotient, remainder = unused_name(unit, f"{loop.index}_quotient"), unused_name(unit, f"{loop.index}_remainder")
    by, over = unused_name(unit, f"{loop.index}_step_quotient"), unused_name(unit, f"{loop.index}_step_remainder")
    kind = loop.type_name
    edits = [
        Edit(n.start_byte, n.end_byte, quotient if text_of(n.child_by_field_name("operator")) == "/" else remainder)
        for n in divisions
    ]
    update = loop.node.child_by_field_name("update")
    assert update is not None
    growth = f", {quotient} += {by}, {remainder} += {over}, {quotient} += {remainder} >= {divisor} ? 1 : 0"
    wrap = f", {remainder} -= {remainder} >= {divisor} ? {divisor} : 0"
    edits.append(Edit(update.end_byte, update.end_byte, growth + wrap))
    before = [
        f"{kind} {quotient} = ({loop.start_text}) / {divisor};",
        f"{kind} {remainder} = ({loop.start_text}) % {divisor};",
        f"const {kind} {by} = ({loop.step_text}) / {divisor};",
        f"const {kind} {over} = ({loop.step_text}) % {divisor};",
    ]
    if kind in _UNSIGNED:
        return _wrapped(unit, loop.node, edits, before)
    natural = f"({loop.start_text}) >= 0 && ({loop.step_text}) >= 0 && {divisor} > 0"
    return _wrapped(unit, loop.node, edits, before, test=natural)


def _wrapped(unit: SourceUnit, loop: Node, edits: list[Edit], before: list[str], *, test: str | None = None) -> Edit:
    """Return the edit of a loop; with a test, the loop without edits remains for other values."""
    content, space = unit.content, indentation(unit.content, loop.start_byte)
    start, pragma = statements_with_pragma(unit, loop)
    changed = apply_within(content[loop.start_byte : loop.end_byte], loop.start_byte, edits)
    lines = [
        "{" if test is None else f"if ({test}) {{",
        *(f"  {line}" for line in before),
        *([pragma.rstrip()] if pragma else []),
        f"  {changed}",
        "}",
    ]
    if test is not None:
        original = content[loop.start_byte : loop.end_byte].decode()
        lines[-1:] = ["} else {", *([pragma.rstrip()] if pragma else []), f"  {original}", "}"]
    lead = space if start != loop.start_byte else ""
    return Edit(start, loop.end_byte, lead + f"{newline(content)}{space}".join(lines))
