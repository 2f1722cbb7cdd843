"""Helpers of transforms: edits by byte ranges, counted loops, and analysis of names and accesses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.loops import loop_at
from rocm_perf_lab.optimize.syntax_nodes import ancestors, called_name, is_statement, text_of, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_ASSIGNMENTS = frozenset({"assignment_expression", "update_expression"})
_AROUND_A_NAME = frozenset(
    {"field_expression", "parenthesized_expression", "pointer_declarator", "array_declarator", "init_declarator"}
)
_MEMBERS = frozenset({"field_expression", "parenthesized_expression", "subscript_expression"})
_BRANCHES = frozenset({"if_statement", "conditional_expression", "switch_statement"})
_CONDITIONS = _BRANCHES | {"for_statement", "while_statement", "do_statement", "lambda_expression"}
INDEX_TYPES = frozenset(
    {"int", "unsigned", "unsigned int", "uint", "long", "unsigned long", "long long", "unsigned long long", "size_t", "ptrdiff_t",
     "int32_t", "uint32_t", "int64_t", "uint64_t"}
)  # fmt: skip
"""Integer types of at least 4 bytes."""
_ATOMIC = re.compile(r"(?:unsafe)?[aA]tomic\w+|__hip_atomic_\w+")
_JUMPS = frozenset({"return_statement", "break_statement", "continue_statement", "goto_statement", "labeled_statement"})


@dataclass(frozen=True)
class Edit:
    """Replacement of the bytes from `start` to `end` by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class CountedLoop:
    """Loop `for (type index = start; index < end; index += step) body`, with expressions as source text."""

    node: Node
    type_name: str
    index: str
    start_text: str
    end_text: str
    step_text: str
    body: Node


def apply(content: bytes, edits: Iterable[Edit]) -> str:
    """Return the source after all edits, which must not overlap."""
    for edit in sorted(edits, key=lambda edit: (-edit.start, -edit.end)):
        content = content[: edit.start] + edit.text.encode() + content[edit.end :]
    return content.decode()


def apply_within(part: bytes, start: int, edits: Iterable[Edit]) -> str:
    """Return a part of a source after edits, which have positions in the whole source.

    Args:
        part: The part.
        start: Position of the part in the source.
        edits: Edits inside the part.
    """
    return apply(part, [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits])


def unused_name(unit: SourceUnit, name: str) -> str:
    """Return a name that does not occur in the source: `name`, or a name that begins with it."""
    while name.encode() in unit.content:
        name += "_"
    return name


def newline(content: bytes) -> str:
    """Return the line end of a source."""
    return "\r\n" if b"\r\n" in content else "\n"


def indentation(content: bytes, position: int) -> str:
    """Return the white space at the start of a line."""
    start = content.rfind(b"\n", 0, position) + 1
    line = content[start:position]
    return line[: len(line) - len(line.lstrip())].decode()


def counted_loop(node: Node) -> CountedLoop | None:
    """Return a `for` statement with one index, `<` and an additive step as a counted loop; None for other loops.

    The index has an integer type of at least 4 bytes, so that larger steps do not wrap.
    """
    if node.type != "for_statement":
        return None
    start, test, step, body = (node.child_by_field_name(n) for n in ("initializer", "condition", "update", "body"))
    if start is None or test is None or step is None or body is None or start.type != "declaration":
        return None
    kind, inits = start.child_by_field_name("type"), [c for c in start.named_children if c.type == "init_declarator"]
    if kind is None or len(inits) != 1 or any(c.type.endswith("declarator") and c not in inits for c in start.named_children):
        return None
    name, value = inits[0].child_by_field_name("declarator"), inits[0].child_by_field_name("value")
    if name is None or name.type != "identifier" or value is None or text_of(kind) not in INDEX_TYPES:
        return None
    index = text_of(name)
    left, operator, right = (test.child_by_field_name(n) for n in ("left", "operator", "right"))
    if test.type != "binary_expression" or text_of(left) != index or text_of(operator) != "<" or right is None:
        return None
    step_text = _step(step, index)
    if step_text is None or index in assigned_names(body) or index in names_in(right) | names_in(value):
        return None
    return CountedLoop(node, text_of(kind), index, text_of(value), text_of(right), step_text, body)


def _step(step: Node, index: str) -> str | None:
    if step.type == "update_expression" and text_of(step.child_by_field_name("argument")) == index:
        return "1" if "++" in text_of(step) else None
    if step.type != "assignment_expression" or text_of(step.child_by_field_name("left")) != index:
        return None
    right = step.child_by_field_name("right")
    return text_of(right) if text_of(step.child_by_field_name("operator")) == "+=" else None


def names_in(node: Node) -> set[str]:
    """Return the identifiers in a node, without fields."""
    return {text_of(inner) for inner in walk(node) if inner.type == "identifier"}


def assigned_names(node: Node) -> set[str]:
    """Return variables in a node that are assigned, incremented, declared or have their address taken; not `a` of `a[i] = 0`."""
    found: set[str] = set()
    for inner in walk(node):
        target = None
        if inner.type in _ASSIGNMENTS:
            target = inner.child_by_field_name("left") or inner.child_by_field_name("argument")
        elif inner.type == "pointer_expression" and text_of(inner).startswith("&"):
            target = inner.child_by_field_name("argument")
        elif inner.type in ("init_declarator", "declaration"):
            target = inner.child_by_field_name("declarator")
        while target is not None and target.type in _AROUND_A_NAME:
            inside = target.child_by_field_name("argument") or target.child_by_field_name("declarator")
            target = inside or next(iter(target.named_children), None)
        if target is not None and target.type == "identifier":
            found.add(text_of(target))
    return found


def calls_in(node: Node) -> set[str]:
    """Return the names of called functions in a node."""
    return {called_name(inner) for inner in walk(node) if inner.type == "call_expression"}


def jumps_in(node: Node) -> bool:
    """Return whether a node contains a jump."""
    return any(inner.type in _JUMPS for inner in walk(node))


def loops_in(node: Node) -> bool:
    """Return whether a node contains a loop other than itself."""
    return any(
        inner.type in ("for_statement", "while_statement", "do_statement", "for_range_loop")
        for inner in walk(node)
        if inner != node
    )


def accesses(node: Node, base: str) -> list[Node]:
    """Return the subscript expressions of `base` in a node."""
    return [
        inner
        for inner in walk(node)
        if inner.type == "subscript_expression" and text_of(inner.child_by_field_name("argument")) == base
    ]


def subscript_index(access: Node) -> Node | None:
    """Return the index of `base[index]`."""
    indices = access.child_by_field_name("indices")
    if indices is None:
        return access.child_by_field_name("index")
    inner = [child for child in indices.named_children if child.type != "comment"]
    return inner[0] if len(inner) == 1 else None


def is_consecutive(index: Node, name: str, nonzero: Collection[str] = ()) -> bool:
    """Return whether an index is a sum with `name` as exactly one of its terms.

    Args:
        index: Index.
        name: Variable.
        nonzero: Names that are not 0; a product of one of them and the variable also counts as a term.
    """
    if index.type == "identifier":
        return text_of(index) == name
    if index.type == "parenthesized_expression" and len(index.named_children) == 1:
        return is_consecutive(index.named_children[0], name, nonzero)
    operator = text_of(index.child_by_field_name("operator"))
    left, right = index.child_by_field_name("left"), index.child_by_field_name("right")
    if index.type != "binary_expression" or left is None or right is None:
        return False
    if operator == "*":
        sides = (re.sub(r"\(size_t\)|\s", "", text_of(left)), re.sub(r"\(size_t\)|\s", "", text_of(right)))
        return name in sides and any(side in nonzero for side in sides if side != name)
    if operator not in ("+", "-"):
        return False
    if name in names_in(right):
        return operator == "+" and name not in names_in(left) and is_consecutive(right, name, nonzero)
    return is_consecutive(left, name, nonzero)


def is_written(access: Node) -> bool:
    """Return whether an expression, or a member of it, is assigned, incremented, or has its address taken."""
    parent = access.parent
    while parent is not None and parent.type in _MEMBERS and parent.named_children[0] == access:
        access, parent = parent, parent.parent
    if parent is None:
        return False
    if parent.type == "assignment_expression":
        return parent.child_by_field_name("left") == access
    return parent.type == "update_expression" or (parent.type == "pointer_expression" and text_of(parent).startswith("&"))


def is_plain_store(access: Node) -> bool:
    """Return whether an access is the left side of a statement `access = value;`."""
    parent = access.parent
    if parent is None or parent.type != "assignment_expression" or parent.child_by_field_name("left") != access:
        return False
    return is_statement(parent) and text_of(parent.child_by_field_name("operator")) == "="


def is_atomic(call: Node) -> bool:
    """Return whether a call is one of HIP's atomic functions."""
    return _ATOMIC.fullmatch(called_name(call)) is not None


def is_conditional(access: Node, body: Node) -> bool:
    """Return whether an execution of `body` may skip an access."""
    node = access
    while node != body and node.parent is not None:
        parent = node.parent
        tested = parent.child_by_field_name("condition") if parent.type in _BRANCHES else None
        if parent.type in _CONDITIONS and node != tested:
            return True
        is_right = parent.type == "binary_expression" and node == parent.child_by_field_name("right")
        if is_right and text_of(parent.child_by_field_name("operator")) in ("&&", "||"):
            return True
        node = parent
    return False


def element_type(function: Node, pointer: str) -> str | None:
    """Return the element type of a pointer that is declared in a function, without `const`; None if ambiguous."""
    found = set()
    for node in walk(function):
        if node.type not in ("parameter_declaration", "declaration"):
            continue
        for declarator in walk(node):
            if declarator.type == "pointer_declarator" and text_of(declarator.named_children[-1]) == pointer:
                found.add(text_of(node.child_by_field_name("type")) if declarator.parent in (node, *node.named_children) else "")
            elif declarator.type == "identifier" and text_of(declarator) == pointer and _declares(declarator, node):
                found.add("")
    return next(iter(found)) if len(found) == 1 and "" not in found else None


def _declares(identifier: Node, declaration: Node) -> bool:
    """Return whether an identifier is declared as an array or a scalar."""
    parent = identifier.parent
    while parent is not None and parent != declaration:
        if parent.type == "pointer_declarator" or (
            parent.type == "init_declarator" and parent.child_by_field_name("declarator") != identifier
        ):
            return False
        parent = parent.parent
    return True


def initialiser(function: Node, name: str) -> Node | None:
    """Return the initialiser of a local variable that is declared once and not assigned again."""
    values = [
        node.child_by_field_name("value")
        for node in walk(function)
        if node.type == "init_declarator" and text_of(node.child_by_field_name("declarator")).lstrip("*& ") == name
    ]
    writes = sum(
        1
        for node in walk(function)
        if node.type in _ASSIGNMENTS and text_of(node.child_by_field_name("left") or node.child_by_field_name("argument")) == name
    )
    return values[0] if len(values) == 1 and writes == 0 else None


def substituted(text: str, name: str, by: str) -> str:
    """Return `text` with every identifier `name` replaced."""
    return re.sub(rf"(?<![\w.])(?<!->){re.escape(name)}\b", lambda _: by, text)


def enclosing_function(node: Node) -> Node:
    """Return the function definition that contains a node."""
    return next(parent for parent in ancestors(node) if parent.type == "function_definition")


def statements_with_pragma(unit: SourceUnit, node: Node) -> tuple[int, str]:
    """Return the start of a loop, including its `#pragma unroll` line, and the text of that line."""
    pragma = loop_at(unit, node).pragma
    if pragma is None:
        return node.start_byte, ""
    return pragma[0], unit.content[pragma[0] : pragma[1]].decode()


def top_level(kernel: Node) -> Node:
    """Return the top-level declaration that contains the kernel, `extern "C"` blocks included."""
    node = kernel
    for parent in ancestors(kernel):
        if parent.type == "translation_unit":
            break
        node = parent
    return node
