"""Loops with independent iterations: analysis of accumulated variables, and of stores to distinct elements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import ancestors, text_of, walk
from rocm_perf_lab.optimize.transforms.accumulations import (
    accumulating,
    chosen_extreme,
    compares_otherwise,
    occurrences,
    tested_extreme,
)
from rocm_perf_lab.optimize.transforms.expression_types import loses_digits, scalar_type
from rocm_perf_lab.optimize.transforms.memory_roots import dereferenced, root_of, touched
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.rewriting import (
    assigned_names,
    counted_loop,
    enclosing_function,
    is_consecutive,
    is_written,
    jumps_in,
    names_in,
    subscript_index,
    substituted,
)
from rocm_perf_lab.optimize.transforms.scaled_sums import ScaledSums, scaled_sums

if TYPE_CHECKING:
    from collections.abc import Collection

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.accumulations import Operation
    from rocm_perf_lab.optimize.transforms.rewriting import CountedLoop


@dataclass(frozen=True)
class Reduction:
    """Variable that a loop accumulates.

    Args:
        name: Variable.
        type_name: Its type.
        operation: Operation that combines values; `first max` and `first min` are pairs with the index of the first extreme, and
            `scaled sums` are relative to the exponential of the largest value, `name`.
        place: Variable with the index of the extreme, for pairs.
        value: Value at an index, `@`, if only the index of the extreme is kept.
        scaled: Sums that are relative to the largest value, and the function that scales them.
    """

    name: str
    type_name: str
    operation: Operation
    place: str | None = None
    value: str | None = None
    scaled: ScaledSums | None = None


@dataclass(frozen=True)
class IndependentLoop:
    """Loop with a step of 1 whose iterations may run in any order, except that they accumulate `reductions`."""

    loop: CountedLoop
    reductions: tuple[Reduction, ...]
    stores: bool


def independent_loop(
    unit: SourceUnit, node: Node, *, collective: bool = False, nonzero: Collection[str] = ()
) -> IndependentLoop | str:
    """Return a loop with independent iterations, or the reason why this is not proved.

    Args:
        unit: Source.
        node: Loop.
        collective: Whether iterations may exchange values within a wavefront, which then executes them together.
        nonzero: Names that are not 0.
    """
    function = unit.kernel
    loop = counted_loop(node)
    if loop is None or loop.step_text != "1":
        return "is not a counted loop with step 1"
    if jumps_in(loop.body):
        return "contains a jump"
    impure = impure_call(unit, loop.body, collective=collective)
    if impure is not None:
        return f"calls {impure}"
    end_names = set(re.findall(r"[A-Za-z_]\w*", loop.end_text))
    carried, reductions = _carried(function, loop)
    if isinstance(reductions, str):
        return reductions
    if end_names & carried:
        return "has an end that changes"
    stores = stores_of(function, loop, nonzero)
    return stores if isinstance(stores, str) else IndependentLoop(loop, tuple(reductions), stores)


def declared_in(node: Node) -> set[str]:
    """Return the variables that are declared in a node."""
    found = set()
    for inner in walk(node):
        if inner.type == "init_declarator" or inner.type == "declaration":
            for child in inner.children_by_field_name("declarator"):
                target: Node | None = child
                while target is not None and target.type != "identifier":
                    target = target.child_by_field_name("declarator") or next(iter(target.named_children), None)
                if target is not None:
                    found.add(text_of(target))
    return found


def assigned_outside(loop: CountedLoop) -> dict[str, list[Node]] | str:
    """Return the assignments in a loop to variables from outside of it, by variable, or the reason why they are unknown."""
    writes: dict[str, list[Node]] = {}
    for node in walk(loop.body):
        target = None
        if node.type == "assignment_expression":
            target = node.child_by_field_name("left")
        elif node.type == "update_expression":
            target = node.child_by_field_name("argument")
        elif node.type == "pointer_expression" and text_of(node).startswith("&"):
            return "takes an address"
        if target is None or target.type == "subscript_expression":
            continue
        if target.type != "identifier":
            return f"assigns {text_of(target)}"
        if text_of(target) != loop.index and not _is_private(target, loop.body):
            writes.setdefault(text_of(target), []).append(node)
    return {name: nodes for name, nodes in writes.items() if not _is_temporary(loop, name)}


def _is_temporary(loop: CountedLoop, name: str) -> bool:
    """Return whether each iteration assigns a variable before it reads it, and only its declaration is outside the loop."""
    uses = [n for n in walk(enclosing_function(loop.node)) if n.type == "identifier" and text_of(n) == name]
    inside = [n for n in uses if loop.node.start_byte <= n.start_byte < loop.node.end_byte]
    outside = [n for n in uses if n not in inside]
    update = inside[0].parent if inside else None
    if update is None or update.type != "assignment_expression" or update.child_by_field_name("left") != inside[0]:
        return False
    statement, right = update.parent, update.child_by_field_name("right")
    if text_of(update.child_by_field_name("operator")) != "=" or right is None or name in names_in(right):
        return False
    if statement is None or statement.parent != loop.body or inside[0].start_byte < loop.body.start_byte:
        return False
    declarator = outside[0].parent if len(outside) == 1 else None
    is_initialised = declarator is not None and declarator.type == "init_declarator"
    is_declared = is_initialised and declarator is not None and declarator.child_by_field_name("declarator") == outside[0]
    return is_declared or (declarator is not None and declarator.type == "declaration")


def _is_private(target: Node, body: Node) -> bool:
    """Return whether a variable is declared in the same iteration, before its use at a place in the loop."""
    for scope in ancestors(target):
        before = (c for c in scope.children if c.type == "declaration" and c.start_byte < target.start_byte)
        if any(text_of(target) in declared_in(declaration) for declaration in before):
            return scope.start_byte >= body.start_byte
        if scope == body:
            return False
    return False


def _carried(function: Node, loop: CountedLoop) -> tuple[set[str], list[Reduction] | str]:
    """Return the variables that a loop assigns, with the reduction of each, or the reason why one is not a reduction."""
    writes = assigned_outside(loop)
    if isinstance(writes, str):
        return set(), writes
    whole = _pair(function, loop, writes) or _place(function, loop, writes) or _scaled(function, loop, writes)
    if whole is not None:
        return set(writes), [whole]
    found: list[Reduction] = []
    for name, nodes in writes.items():
        kind = scalar_type(function, name)
        extremes = [tested_extreme(name, node) for node in nodes]
        tested = [found for found in extremes if found is not None]
        operations = {
            extreme[0] if extreme is not None else accumulating(name, node) or chosen_extreme(name, node, kind or "")
            for node, extreme in zip(nodes, extremes, strict=True)
        }
        operation = next(iter(operations)) if len(operations) == 1 else None
        if kind is None or operation is None:
            return set(writes), f"carries {name} from one iteration to the next"
        if any(loses_digits(function, kind, node) for node in nodes):
            return set(writes), f"converts the sum {name} to an integer in each iteration"
        if any(compares_otherwise(function, kind, node) for node in nodes if not accumulating(name, node)):
            return set(writes), f"may compare {name} as another type"
        if occurrences(loop.body, name) != sum(occurrences(node, name) for node in [*nodes, *(test for _, test in tested)]):
            return set(writes), f"uses {name} while it is accumulated"
        found.append(Reduction(name, kind, operation))
    return set(writes), found


def _pair(function: Node, loop: CountedLoop, writes: dict[str, list[Node]]) -> Reduction | None:
    """Return the reduction `if (value > best) { best = value; place = i; }`, or None."""
    if len(writes) != 2 or any(len(nodes) != 1 for nodes in writes.values()):
        return None
    place = next((n for n, (node,) in writes.items() if text_of(node.child_by_field_name("right")) == loop.index), None)
    best = next((n for n in writes if n != place), None)
    if place is None or best is None:
        return None
    value = text_of(writes[best][0].child_by_field_name("right"))
    tests = [p for p in ancestors(writes[best][0]) if p.type == "if_statement" and p.start_byte >= loop.body.start_byte]
    others = [p for p in ancestors(writes[place][0]) if p.type == "if_statement" and p.start_byte >= loop.body.start_byte]
    if len(tests) != 1 or tests != others or tests[0].child_by_field_name("alternative") is not None:
        return None
    test = re.sub(r"\s+", "", text_of(tests[0].child_by_field_name("condition")))
    bare = re.sub(r"\s+", "", value)
    is_larger = test in (f"({bare}>{best})", f"({best}<{bare})")
    is_smaller = test in (f"({bare}<{best})", f"({best}>{bare})")
    kind, index_kind = scalar_type(function, best), scalar_type(function, place)
    if kind is not None and loses_digits(function, kind, writes[best][0]):
        return None
    counts = occurrences(loop.body, best) == 2 and occurrences(loop.body, place) == 1
    if not (is_larger or is_smaller) or kind is None or index_kind is None or not counts or best in names_in_text(value):
        return None
    return Reduction(best, kind, "first max" if is_larger else "first min", place)


def _place(function: Node, loop: CountedLoop, writes: dict[str, list[Node]]) -> Reduction | None:
    """Return the reduction `if (x[i] > x[place]) place = i;`, or None."""
    if len(writes) != 1 or len(next(iter(writes.values()))) != 1:
        return None
    ((place, (update,)),) = writes.items()
    test = next((p for p in ancestors(update) if p.type == "if_statement" and p.start_byte >= loop.body.start_byte), None)
    if test is None or text_of(update.child_by_field_name("right")) != loop.index or occurrences(loop.body, place) != 2:
        return None
    kind, condition = scalar_type(function, place), test.child_by_field_name("condition")
    match = re.fullmatch(r"\(?(.+?)([<>])([^<>=]+?)\)?", re.sub(r"\s+", "", text_of(condition)))
    if match is None or kind is None or test.child_by_field_name("alternative") is not None or "=" in match[0]:
        return None
    left, sign, right = match.groups()
    if loop.index in names_in_text(right):
        left, sign, right = right, "<" if sign == ">" else ">", left
    value = substituted(left, loop.index, "@")
    if value != substituted(right, place, "@"):
        return None
    changing = {place, loop.index} | declared_in(loop.body) | assigned_names(loop.body)
    if "@" not in value or names_in_text(value) & changing:
        return None
    return Reduction(place, kind, "first max" if sign == ">" else "first min", place, value)


def _scaled(function: Node, loop: CountedLoop, writes: dict[str, list[Node]]) -> Reduction | None:
    """Return sums that are relative to the largest value so far, or None."""
    kinds = {scalar_type(function, name) for name in writes}
    kind = kinds.pop() if len(kinds) == 1 else None
    found = scaled_sums(loop, set(writes), kind) if kind in ("float", "double") else None
    if found is None or kind is None:
        return None
    return Reduction(found.top, kind, "scaled sums", scaled=found)


def names_in_text(text: str) -> set[str]:
    """Return the identifiers in a text."""
    return set(re.findall(r"[A-Za-z_]\w*", text))


def stores_of(function: Node, loop: CountedLoop, nonzero: Collection[str] = ()) -> bool | str:
    """Return whether a loop stores to memory, or the reason why stores may reach the same element or one that is read."""
    read, written = touched(function, loop.body)
    if read is None or written is None:
        return "uses a pointer to an unknown buffer"
    private = declared_in(loop.body)
    changing = private | {text_of(n.child_by_field_name("left")) for n in walk(loop.body) if n.type == "assignment_expression"}
    for root in sorted(written - private):
        accesses = [n for n in walk(loop.body) if n.type == "subscript_expression" and _root(function, n) == root]
        texts = {re.sub(r"\s+", "", text_of(n)) for n in accesses}
        index = subscript_index(accesses[0]) if accesses else None
        if len(texts) > 1 or index is None or root in dereferenced(function, loop.body):
            return f"accesses {root} at several positions"
        if not is_consecutive(index, loop.index, nonzero) or (names_in(accesses[0]) - {loop.index}) & changing:
            return f"may store several times to one element of {root}"
        if any(loop_of(n) != loop.node for n in accesses if is_written(n)):
            return f"stores to {root} in an inner loop"
    return bool(written - private)


def loop_of(node: Node) -> Node | None:
    """Return the innermost loop around a node."""
    kinds = ("for_statement", "while_statement", "do_statement", "for_range_loop")
    return next((parent for parent in ancestors(node) if parent.type in kinds), None)


def _root(function: Node, access: Node) -> str | None:
    base = access.child_by_field_name("argument")
    while base is not None and base.type == "subscript_expression":
        base = base.child_by_field_name("argument")
    return root_of(function, text_of(base)) if base is not None and base.type == "identifier" else None
