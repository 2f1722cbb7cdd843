"""Padding of two-dimensional LDS arrays, so that the elements of a column are in different banks.

LDS has 32 banks of 4 bytes (CDNA3 ISA guide): lanes that access a column with a stride of 32 or 64 words conflict. Only arrays
that are always used with both indices are padded, because then no code depends on the position of an element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.syntax_nodes import line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_LARGEST = 16


class PadSharedMemory:
    """Pads each two-dimensional LDS array, then all together.

    Args:
        elements: Numbers of elements to add per row, from 1 to 16.

    Raises:
        LabError: A number is out of range.
    """

    name = "pad LDS"
    addresses = frozenset({"lds_bank_conflicts"})

    def __init__(self, *, elements: Sequence[int] = (1,)) -> None:
        outside = [n for n in elements if not isinstance(n, int) or not 1 <= n <= _LARGEST]
        if outside or not elements:
            raise LabError(
                f"elements must be integers from 1 to {_LARGEST}, not {outside}",
                where="optimizer.transforms: elements",
                hint="for example elements: [1]",
            )
        self._elements = tuple(sorted(set(elements)))

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per group of arrays and padding."""
        free = [(name, size) for name, size, obstacle in _arrays(unit) if obstacle is None]
        groups = [[array] for array in free] + ([free] if len(free) > 1 else [])
        return tuple(
            Rewrite(
                f"pad rows of {', '.join(name for name, _ in group)} by {count}",
                apply(unit.content, [Edit(size.end_byte, size.end_byte, f" + {count}") for _, size in group]),
            )
            for group in groups
            for count in self._elements
        )

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return arrays that cannot be padded."""
        return tuple(Rejection(line_of(size), f"{name} {obstacle}") for name, size, obstacle in _arrays(unit) if obstacle)


def _arrays(unit: SourceUnit) -> Iterator[tuple[str, Node, str | None]]:
    """Yield name, row size and obstacle of each two-dimensional LDS array."""
    for function in unit.functions():
        for declaration in walk(function):
            if declaration.type != "declaration" or not any(
                text_of(c) == "__shared__" for c in walk(declaration) if not c.children
            ):
                continue
            for outer in (c for c in declaration.named_children if c.type == "array_declarator"):
                inner, size = outer.child_by_field_name("declarator"), outer.child_by_field_name("size")
                if inner is None or size is None or inner.type != "array_declarator":
                    continue
                name = text_of(inner.child_by_field_name("declarator"))
                yield name, size, _obstacle(function, declaration, name, size)


def _obstacle(function: Node, declaration: Node, name: str, size: Node) -> str | None:
    if "+" in text_of(size):
        return "is already padded"
    for node in walk(function):
        if node.type != "identifier" or text_of(node) != name or declaration.start_byte <= node.start_byte < declaration.end_byte:
            continue
        first = node.parent
        second = first.parent if first is not None else None
        indexed_twice = (
            first is not None
            and second is not None
            and first.type == second.type == "subscript_expression"
            and first.child_by_field_name("argument") == node
            and second.child_by_field_name("argument") == first
        )
        around = second.parent if second is not None else None
        if not indexed_twice or (around is not None and around.type == "pointer_expression"):
            return f"is used without both indices (line {line_of(node)})"
    return None
