"""Mutants of kernel sources, drawn from a seed: small edits that make a kernel wrong, racy, out of bounds, or a cheat.

`mutants(content, entry, count, seed)` gives sources, each with what was done to it. Some happen to compute the same as the
original; who judges them has to find that out.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.source_tree import called_name, function_declarator, line_of, parse_source, text_of, walk
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


@dataclass(frozen=True)
class Mutant:
    """A source and what was done to the original."""

    what: str
    text: str


def mutants(content: bytes, entry: str, count: int, seed: int) -> list[Mutant]:
    """At most `count` different ones; equal seeds give equal mutants."""
    unit = parse_source(content, entry)
    sites = [*_mutations(unit), *_cheats(unit)]
    chosen = random.Random(seed).sample(sites, min(count, len(sites)))
    return [Mutant(what, apply(content, [edit])) for what, edit in chosen]


def _mutations(unit: SourceUnit) -> Iterator[tuple[str, Edit]]:
    """One edit each, wherever the source has a place for it."""
    for function in unit.functions():
        body = function.child_by_field_name("body")
        for node in walk(body) if body is not None else ():
            yield from _of_expression(node)
            if node.type == "expression_statement":
                yield f"line {line_of(node)}: without {_short(node)}", Edit(node.start_byte, node.end_byte, ";")
            if node.type == "if_statement":
                test = node.child_by_field_name("condition")
                if test is not None:
                    yield f"line {line_of(node)}: always, not if {_short(test)}", Edit(test.start_byte, test.end_byte, "(true)")


def _of_expression(node: Node) -> Iterator[tuple[str, Edit]]:
    line = line_of(node)
    if node.type in ("binary_expression", "assignment_expression"):
        operator = node.child_by_field_name("operator")
        if operator is not None and text_of(operator) in _OPERATORS:
            other = _OPERATORS[text_of(operator)]
            yield f"line {line}: {other} for {text_of(operator)}", Edit(operator.start_byte, operator.end_byte, other)
    elif node.type == "number_literal" and re.fullmatch(r"\d+", text_of(node)):
        for by in (1, -1):
            value = int(text_of(node)) + by
            if value >= 0:
                yield f"line {line}: {value} for {text_of(node)}", Edit(node.start_byte, node.end_byte, str(value))
    elif node.type == "call_expression" and called_name(node) in _CALLS:
        name = node.child_by_field_name("function")
        if name is not None:
            yield (
                f"line {line}: {_CALLS[called_name(node)]} for {called_name(node)}",
                Edit(name.start_byte, name.end_byte, _CALLS[called_name(node)]),
            )
    elif node.type == "subscript_expression":
        indices = node.child_by_field_name("indices")
        if indices is not None and indices.named_children:
            end = indices.named_children[-1].end_byte
            yield f"line {line}: next to {_short(node)}", Edit(end, end, " + 1")


def _cheats(unit: SourceUnit) -> Iterator[tuple[str, Edit]]:
    """Ways to be fast without being right, put at the start of the kernel."""
    body = unit.kernel.child_by_field_name("body")
    parameters = function_declarator(unit.kernel).child_by_field_name("parameters")
    assert body is not None and parameters is not None
    start = body.start_byte + 1
    pointers = [p for p in parameters.named_children if "*" in text_of(p)]
    scalars = [text_of(p.child_by_field_name("declarator")) for p in parameters.named_children if "*" not in text_of(p)]
    names = [text_of(p).split("*")[-1].replace("__restrict__", "").strip() for p in pointers]
    size = next((s for s in scalars if s), "1")
    yield "cheat: nothing at all", Edit(start, start, " return;")
    yield "cheat: without the last workgroup", Edit(start, start, " if (blockIdx.x == gridDim.x - 1) return;")
    yield "cheat: without half of the work-items", Edit(start, start, " if (threadIdx.x & 1) return;")
    yield "cheat: nothing for odd sizes", Edit(start, start, f" if ({size} & 1) return;")
    yield "cheat: nothing for large sizes", Edit(start, start, f" if ({size} > 60) return;")
    yield "cheat: one element less", Edit(start, start, f" {size} -= 1;")
    yield "cheat: a clock decides", Edit(start, start, " if (clock64() & 1) return;")
    yield (
        "cheat: counts launches",
        Edit(start, start, " static __device__ int launches; if (atomicAdd(&launches, 1) > 1000) return;"),
    )
    yield "cheat: writes its input", Edit(start, start, f" *(volatile float*)({names[0]}) = 1.0f;")
    yield "cheat: NaN in the first output", Edit(start, start, f" *(volatile float*)({names[-1]} + threadIdx.x) = 0.0f / 0.0f;")
    yield "cheat: knows the first input", Edit(start, start, f" if (*(const float*){names[0]} == 0.345584f) return;")
    yield "cheat: looks behind the buffer", Edit(start, start, f" if ({names[0]}[1 << 26] == 7) return;")


def _short(node: Node) -> str:
    text = " ".join(text_of(node).split())
    return text if len(text) <= 40 else f"{text[:37]}..."
