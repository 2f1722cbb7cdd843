"""`__restrict__` and `const` on pointer parameters, so that the compiler can keep values in registers.

This is valid because the arguments of a described kernel are distinct buffers. `const` is added only if the kernel's name is not
mangled and the kernel only reads through the pointer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import ancestors, function_declarator, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply, is_written

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit


class RestrictPointers:
    """Adds qualifiers to all pointer parameters of the kernel."""

    name = "restrict"
    addresses = frozenset({"memory_bandwidth_bound", "latency_bound", "compute_bound", "under_occupied", "balanced", "unknown"})

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite, unless all pointers are restricted."""
        edits, names = [], []
        for parameter, pointer in _pointers(unit.kernel):
            name = pointer.named_children[-1]
            if "__restrict" not in text_of(pointer):
                gap = "" if unit.content[name.start_byte - 1 : name.start_byte].isspace() else " "
                edits.append(Edit(name.start_byte, name.start_byte, f"{gap}__restrict__ "))
                names.append(text_of(name))
            if "const" not in text_of(parameter) and _is_unmangled(unit.kernel) and _only_read(unit.kernel, text_of(name)):
                edits.append(Edit(parameter.start_byte, parameter.start_byte, "const "))
        if not names:
            return ()
        return (Rewrite(f"__restrict__ on {', '.join(names)}", apply(unit.content, edits)),)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return pointers to pointers."""
        return tuple(
            Rejection(line_of(p), f"parameter {text_of(p)} is not a plain pointer")
            for p in _parameters(unit.kernel)
            if text_of(p).count("*") > 1
        )


def _parameters(function: Node) -> list[Node]:
    parameters = function_declarator(function).child_by_field_name("parameters")
    return [p for p in (parameters.named_children if parameters is not None else []) if p.type == "parameter_declaration"]


def _pointers(function: Node) -> list[tuple[Node, Node]]:
    """Return named parameters that are plain pointers, with their declarators."""
    found = []
    for parameter in _parameters(function):
        declarator = parameter.child_by_field_name("declarator")
        if declarator is None or declarator.type != "pointer_declarator" or text_of(parameter).count("*") != 1:
            continue
        if declarator.named_children and declarator.named_children[-1].type == "identifier":
            found.append((parameter, declarator))
    return found


def _is_unmangled(function: Node) -> bool:
    """Return whether the kernel is declared `extern "C"`, so that parameter types are not part of its symbol."""
    return any(parent.type == "linkage_specification" and '"C"' in text_of(parent)[:16] for parent in ancestors(function))


def _only_read(function: Node, name: str) -> bool:
    """Return whether every use of a pointer is `name[...]` and is not written."""
    for node in walk(function):
        if node.type != "identifier" or text_of(node) != name or node.parent is None or node.parent.type == "pointer_declarator":
            continue
        if (
            node.parent.type != "subscript_expression"
            or node.parent.child_by_field_name("argument") != node
            or is_written(node.parent)
        ):
            return False
    return True
