"""Non-temporal accesses: values that are stored or loaded once do not evict others from the caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.access_positions import has_address_taken
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.memory_roots import dereferenced, root_of
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply, apply_within, element_type, is_plain_store, is_written

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_TYPES = frozenset(
    {"float", "double", "int", "unsigned", "unsigned int", "int32_t", "uint32_t", "int64_t", "uint64_t", "short",
     "unsigned short", "int8_t", "uint8_t", "char", "signed char", "unsigned char", "long long", "unsigned long long", "_Float16"}
)  # fmt: skip
"""Types of elements that the builtins accept."""


class StreamAccesses:
    """Makes stores, and then also loads, non-temporal, for buffers with one access in the source."""

    name = "streaming"
    addresses = frozenset({"memory_bandwidth_bound", "latency_bound", "balanced", "unknown"})

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return a rewrite of the stores, and one of loads and stores."""
        stores, loads = _single_accesses(unit)
        outermost = [n for n in loads if not any(o != n and o.start_byte <= n.start_byte < o.end_byte for o in loads)]
        read = [Edit(node.start_byte, node.end_byte, f"__builtin_nontemporal_load(&{text_of(node)})") for node in outermost]
        rewrites = []
        if stores:
            rewrites.append(Rewrite("non-temporal stores", apply(unit.content, [_store(unit, node, []) for node in stores])))
        if read:
            written = [_store(unit, node, read) for node in stores]
            others = [load for load in read if not any(edit.start <= load.start < edit.end for edit in written)]
            what = "loads and stores" if stores else "loads"
            rewrites.append(Rewrite(f"non-temporal {what}", apply(unit.content, [*written, *others])))
        return tuple(rewrites)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return a rejection if no buffer has a single access."""
        return () if any(_single_accesses(unit)) else (Rejection(line_of(unit.kernel), "no buffer has a single access"),)


def _store(unit: SourceUnit, node: Node, loads: list[Edit]) -> Edit:
    """Return the edit of a store, with those of the loads in its value."""
    assignment = node.parent
    value = assignment.child_by_field_name("right") if assignment is not None else None
    assert assignment is not None and value is not None
    inside = [edit for edit in loads if value.start_byte <= edit.start < value.end_byte]
    kind = element_type(unit.kernel, text_of(node.child_by_field_name("argument")))
    text = f"__builtin_nontemporal_store(({kind})({apply_within(value.text or b'', value.start_byte, inside)}), &{text_of(node)})"
    return Edit(assignment.start_byte, assignment.end_byte, text)


def _single_accesses(unit: SourceUnit) -> tuple[list[Node], list[Node]]:
    """Return stores and loads of pointer parameters that have no other access in the kernel."""
    kernel = unit.kernel
    body = kernel.child_by_field_name("body")
    by_root: dict[str | None, list[Node]] = {}
    for node in walk(body) if body is not None else ():
        if node.type == "subscript_expression":
            by_root.setdefault(root_of(kernel, text_of(node.child_by_field_name("argument"))), []).append(node)
    if body is None or None in by_root or dereferenced(kernel, body):
        return [], []
    single = [rows[0] for rows in by_root.values() if len(rows) == 1]
    plain = [
        node
        for node in single
        if element_type(kernel, text_of(node.child_by_field_name("argument"))) in _TYPES and not has_address_taken(node)
    ]
    stores = [node for node in plain if is_plain_store(node)]
    return stores, [node for node in plain if not is_written(node)]
