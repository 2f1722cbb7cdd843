"""Volatile variables of one work-item: `has_only_private_volatiles(tree)`.

Compilers access a volatile local variable like memory shared with other workgroups, although it is private to a work-item.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.syntax import SyntaxNode

_VARIABLES = frozenset({"VarDecl", "ParmVarDecl"})
_VOLATILE = re.compile(r"\bvolatile\b")
_VOLATILE_ITSELF = re.compile(r"[^<(&]*\bvolatile\b[^*&<>(]*")
"""Volatile type, or array of it; not a pointer or reference to it."""
_ATOMIC_TYPE = re.compile(r"atomic", re.IGNORECASE)
_ATOMIC_CALL = re.compile(r"__sync_\w+|__(?:c11_|hip_|scoped_|opencl_)?atomic_\w+")
_SHARED_STORAGE = frozenset({"CUDASharedAttr", "CUDADeviceAttr", "CUDAConstantAttr", "HIPManagedAttr"})
_NEW_VALUES = frozenset({"InitListExpr", "ImplicitValueInitExpr", "CXXScalarValueInitExpr", "CXXConstructExpr"})
_CONVERSIONS = re.compile(r"(?:Integral|Floating|Boolean|SignedIntegral)(?:To\w+|Cast)")
_CHANGES = frozenset({"++", "--"})
_DECLARED_ONLY = frozenset({"FieldDecl", "TypedefDecl", "TypeAliasDecl"})


def has_only_private_volatiles(root: SyntaxNode) -> bool:
    """Return whether all volatile accesses are to private variables of a work-item, and none is atomic.

    Pointers and references to volatile memory are not followed: with any of them the result is False.
    """
    variables = _private_variables(root)
    excused: set[int] = set()
    found = False
    for node in root.walk():
        if node.kind == "AtomicExpr" or _ATOMIC_TYPE.search(node.type) or _ATOMIC_CALL.fullmatch(node.referenced):
            return False
        if not _VOLATILE.search(node.type) or id(node) in excused:
            continue
        if not _VOLATILE_ITSELF.fullmatch(node.type) or not _is_private(node, variables):
            return False
        if node.kind == "ArraySubscriptExpr":
            excused.add(id(node.children[0]))  # address of an array without other uses
        found = found or node.kind in _VARIABLES or node.kind == "FieldDecl"
    return found


def _private_variables(root: SyntaxNode) -> frozenset[str]:
    """Return the names that only denote variables with automatic storage in this tree."""
    private: set[str] = set()
    others: set[str] = set()
    for node in root.walk():
        if node.kind in _VARIABLES and node.name:
            (private if _is_automatic(node) else others).add(node.name)
    return frozenset(private - others)


def _is_automatic(variable: SyntaxNode) -> bool:
    attributes = {child.kind for child in variable.children}
    return variable.storage not in ("static", "extern") and not attributes & _SHARED_STORAGE and "&" not in variable.type


def _is_private(node: SyntaxNode, variables: frozenset[str]) -> bool:
    """Return whether a node of volatile type is a declaration, a new value, or a part of a private variable."""
    if node.kind in _VARIABLES:
        return node.name in variables
    if node.kind in _DECLARED_ONLY or node.kind.endswith("Type") or node.kind in _NEW_VALUES or _CONVERSIONS.fullmatch(node.cast):
        return True
    pending = [node]
    while pending:
        part = pending.pop()
        if part.kind == "DeclRefExpr":
            if part.referenced_kind not in _VARIABLES or part.referenced not in variables:
                return False
            continue
        objects = _objects(part)
        if not objects:
            return False
        pending.extend(objects)
    return True


def _objects(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    """Return the objects that an expression changes or of which it designates a part; empty if they are unknown."""
    first = node.children[0] if node.children else node
    match node.kind:
        case "ParenExpr":
            known = True
        case "MemberExpr":  # of a pointer, whose operand is a value
            known = "*" not in first.type and first.kind != "CXXThisExpr"
        case "ArraySubscriptExpr":
            return first.children if first.cast == "ArrayToPointerDecay" else ()
        case "UnaryOperator":
            known = node.opcode in _CHANGES
        case "BinaryOperator" | "CompoundAssignOperator":
            known = node.opcode.endswith("=")
        case "ConditionalOperator":
            return node.children[1:]
        case _:
            known = False
    return (first,) if known and node.children else ()
