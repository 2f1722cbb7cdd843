"""Mutants of kernel sources, generated from a seed: small edits that introduce errors, races, out-of-bounds accesses or cheats.

Each mutant has a description of the edit and its effect on the kernel. Only mutants with the effect `harmless` may be
equivalent to the original with different machine code; the effect follows from the position of the edit.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.syntax_nodes import called_name, function_declarator, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_OPERATORS = {
    "<": "<=",
    ">": ">=",
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "+=": "-=",
    ">>=": "<<=",
    "%": "/",
    "==": "!=",
    ">=": ">",
}
_CALLS = {"fmaxf": "fminf", "expf": "exp2f", "sqrtf": "fabsf", "atomicAdd": "atomicMax", "atomicMax": "atomicMin"}


_BARRIER = "__syncthreads"
Effect = Literal["wrong result", "race", "out of bounds", "cheat", "harmless"]
"""Effect of a mutation that changes the machine code. Races and wrong indices may also appear as a wrong result."""


@dataclass(frozen=True)
class Mutant:
    """A mutated source, a description of the edit, and its effect."""

    what: str
    text: str
    effect: Effect


def mutants(content: bytes, entry: str, count: int, seed: int, *, first_word: int = 0) -> list[Mutant]:
    """Return at most `count` different mutants; equal seeds return equal mutants.

    Args:
        content: Kernel source.
        entry: Name of the kernel.
        count: Largest number of mutants.
        seed: Seed of the random choice.
        first_word: First four bytes of the kernel's first buffer, used by one of the cheats.
    """
    unit = parse_source(content, entry)
    sites = [*_mutations(unit), *_cheats(unit, first_word)]
    chosen = random.Random(seed).sample(sites, min(count, len(sites)))
    return [Mutant(what, apply(content, [edit]), effect) for what, edit, effect in chosen]


def _mutations(unit: SourceUnit) -> Iterator[tuple[str, Edit, Effect]]:
    """Yield one edit for each place where a mutation applies."""
    for function in unit.functions():
        body = function.child_by_field_name("body")
        for node in walk(body) if body is not None else ():
            yield from _of_expression(node)
            if node.type == "expression_statement":
                effect: Effect = "race" if _BARRIER in text_of(node) else "wrong result"
                yield f"line {line_of(node)}: without {_short(node)}", Edit(node.start_byte, node.end_byte, ";"), effect
            if node.type == "if_statement":
                test = node.child_by_field_name("condition")
                if test is not None:
                    edit = Edit(test.start_byte, test.end_byte, "(true)")
                    yield f"line {line_of(node)}: always, not if {_short(test)}", edit, "wrong result"


def _of_expression(node: Node) -> Iterator[tuple[str, Edit, Effect]]:
    line = line_of(node)
    if node.type in ("binary_expression", "assignment_expression"):
        operator = node.child_by_field_name("operator")
        if operator is not None and text_of(operator) in _OPERATORS:
            other = _OPERATORS[text_of(operator)]
            effect: Effect = "harmless" if _chooses_the_larger(node) else "wrong result"
            yield f"line {line}: {other} for {text_of(operator)}", Edit(operator.start_byte, operator.end_byte, other), effect
    elif node.type == "number_literal" and re.fullmatch(r"\d+", text_of(node)):
        for by in (1, -1):
            value = int(text_of(node)) + by
            if value >= 0:
                edit = Edit(node.start_byte, node.end_byte, str(value))
                harmless = _names_a_work_item(node) or (by > 0 and _is_size_of_an_array(node))
                yield f"line {line}: {value} for {text_of(node)}", edit, "harmless" if harmless else "wrong result"
    elif node.type == "call_expression" and called_name(node) in _CALLS:
        name = node.child_by_field_name("function")
        if name is not None:
            yield (
                f"line {line}: {_CALLS[called_name(node)]} for {called_name(node)}",
                Edit(name.start_byte, name.end_byte, _CALLS[called_name(node)]),
                "wrong result",
            )
    elif node.type == "subscript_expression":
        indices = node.child_by_field_name("indices")
        if indices is not None and indices.named_children:
            end = indices.named_children[-1].end_byte
            yield f"line {line}: next to {_short(node)}", Edit(end, end, " + 1"), "out of bounds"


def _chooses_the_larger(comparison: Node) -> bool:
    """Return whether the comparison is that of `a > b ? a : b`, in which the choice between equal values has no effect."""
    around = comparison.parent
    while around is not None and around.type == "parenthesized_expression":
        around = around.parent
    left, right = comparison.child_by_field_name("left"), comparison.child_by_field_name("right")
    if around is None or around.type != "conditional_expression" or left is None or right is None:
        return False
    chosen = {text_of(n) for n in (around.child_by_field_name("consequence"), around.child_by_field_name("alternative")) if n}
    return chosen == {text_of(left), text_of(right)}


def _names_a_work_item(literal: Node) -> bool:
    """Return whether the literal selects a work-item (`threadIdx.x == 0`), for which another one may be equivalent."""
    around = literal.parent
    if around is None or around.type != "binary_expression":
        return False
    operator = around.child_by_field_name("operator")
    return operator is not None and text_of(operator) == "==" and "threadIdx" in text_of(around)


def _is_size_of_an_array(literal: Node) -> bool:
    """Return whether the literal is an array size (`tile[32][32]`), which may be larger without effect."""
    around = literal.parent
    while around is not None and around.type == "array_declarator":
        if around.parent is not None and around.parent.type == "declaration":
            return True
        around = around.parent
    return False


def _cheats(unit: SourceUnit, first_word: int) -> Iterator[tuple[str, Edit, Effect]]:
    """Yield edits at the start of the kernel that skip work without computing the result."""
    body = unit.kernel.child_by_field_name("body")
    parameters = function_declarator(unit.kernel).child_by_field_name("parameters")
    assert body is not None and parameters is not None
    start = body.start_byte + 1
    pointers = [p for p in parameters.named_children if "*" in text_of(p)]
    scalars = [text_of(p.child_by_field_name("declarator")) for p in parameters.named_children if "*" not in text_of(p)]
    names = [text_of(p).split("*")[-1].replace("__restrict__", "").strip() for p in pointers]
    size = next((s for s in scalars if s), "1")
    yield "cheat: return at once", Edit(start, start, " return;"), "cheat"
    yield "cheat: skip the last workgroup", Edit(start, start, " if (blockIdx.x == gridDim.x - 1) return;"), "cheat"
    yield "cheat: skip half of the work-items", Edit(start, start, " if (threadIdx.x & 1) return;"), "cheat"
    yield "cheat: skip odd sizes", Edit(start, start, f" if ({size} & 1) return;"), "cheat"
    yield "cheat: skip large sizes", Edit(start, start, f" if ({size} > 60) return;"), "cheat"
    yield "cheat: skip the last element", Edit(start, start, f" {size} -= 1;"), "cheat"
    yield "cheat: depend on the clock", Edit(start, start, " if (clock64() & 1) return;"), "cheat"
    yield (
        "cheat: count launches",
        Edit(start, start, " static __device__ int launches; if (atomicAdd(&launches, 1) > 1000) return;"),
        "cheat",
    )
    yield "cheat: write the input", Edit(start, start, f" *(volatile float*)({names[0]}) = 1.0f;"), "cheat"
    yield (
        "cheat: NaN in the first output",
        Edit(start, start, f" *(volatile float*)({names[-1]} + threadIdx.x) = 0.0f / 0.0f;"),
        "cheat",
    )
    known = f" if (*(const unsigned*){names[0]} == {first_word:#x}u) return;"
    yield "cheat: detect the first input", Edit(start, start, known), "cheat"
    yield "cheat: read past the buffer", Edit(start, start, f" if ({names[0]}[1 << 26] == 7) return;"), "cheat"


def _short(node: Node) -> str:
    text = " ".join(text_of(node).split())
    return text if len(text) <= 40 else f"{text[:37]}..."
