"""What transforms share: edits of a source by byte ranges, and loops and names as a syntax tree shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.loops import loop_at
from rocm_perf_lab.optimize.syntax_nodes import ancestors, called_name, text_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit

_ASSIGNMENTS = frozenset({"assignment_expression", "update_expression"})
_AROUND_A_NAME = frozenset(
    {"field_expression", "parenthesized_expression", "pointer_declarator", "array_declarator", "init_declarator"}
)
_JUMPS = frozenset({"return_statement", "break_statement", "continue_statement", "goto_statement", "labeled_statement"})


@dataclass(frozen=True)
class Edit:
    """Bytes `start` to `end` of the source become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class CountedLoop:
    """`for (type index = start; index < end; index += step) body`. `start_text` and so on are expressions as written."""

    node: Node
    type_name: str
    index: str
    start_text: str
    end_text: str
    step_text: str
    body: Node


def apply(content: bytes, edits: Iterable[Edit]) -> str:
    """The source with all edits made; they must not overlap."""
    for edit in sorted(edits, key=lambda edit: (-edit.start, -edit.end)):
        content = content[: edit.start] + edit.text.encode() + content[edit.end :]
    return content.decode()


def newline(content: bytes) -> str:
    """How lines end in this source."""
    return "\r\n" if b"\r\n" in content else "\n"


def indentation(content: bytes, position: int) -> str:
    """White space at the start of the line."""
    start = content.rfind(b"\n", 0, position) + 1
    line = content[start:position]
    return line[: len(line) - len(line.lstrip())].decode()


def counted_loop(node: Node) -> CountedLoop | None:
    """A `for` statement as a counted loop, or None where it is none: one index, `<`, and a step that adds."""
    if node.type != "for_statement":
        return None
    start, test, step, body = (node.child_by_field_name(n) for n in ("initializer", "condition", "update", "body"))
    if start is None or test is None or step is None or body is None or start.type != "declaration":
        return None
    kind, inits = start.child_by_field_name("type"), [c for c in start.named_children if c.type == "init_declarator"]
    if kind is None or len(inits) != 1 or any(c.type.endswith("declarator") and c not in inits for c in start.named_children):
        return None
    name, value = inits[0].child_by_field_name("declarator"), inits[0].child_by_field_name("value")
    if name is None or name.type != "identifier" or value is None:
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
    """Identifiers below a node, those of fields left out."""
    return {text_of(inner) for inner in walk(node) if inner.type == "identifier"}


def assigned_names(node: Node) -> set[str]:
    """Variables that are assigned, stepped, declared or whose address is taken below a node; of `a[i] = 0`, nothing."""
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
    """Names of what is called below a node."""
    return {called_name(inner) for inner in walk(node) if inner.type == "call_expression"}


def jumps_in(node: Node) -> bool:
    """Whether control can leave what is below a node other than at its end."""
    return any(inner.type in _JUMPS for inner in walk(node))


def loops_in(node: Node) -> bool:
    """Whether there is a loop below a node, the node itself left out."""
    return any(
        inner.type in ("for_statement", "while_statement", "do_statement", "for_range_loop")
        for inner in walk(node)
        if inner != node
    )


def accesses(node: Node, base: str) -> list[Node]:
    """Subscript expressions below a node whose array or pointer is `base`."""
    return [
        inner
        for inner in walk(node)
        if inner.type == "subscript_expression" and text_of(inner.child_by_field_name("argument")) == base
    ]


def subscript_index(access: Node) -> Node | None:
    """The index expression of `base[index]`."""
    indices = access.child_by_field_name("indices")
    if indices is None:
        return access.child_by_field_name("index")
    inner = [child for child in indices.named_children if child.type != "comment"]
    return inner[0] if len(inner) == 1 else None


def is_written(access: Node) -> bool:
    """Whether the expression is assigned to, stepped, or its address taken."""
    parent = access.parent
    if parent is None:
        return False
    if parent.type == "assignment_expression":
        return parent.child_by_field_name("left") == access
    return parent.type == "update_expression" or (parent.type == "pointer_expression" and text_of(parent).startswith("&"))


def element_type(function: Node, pointer: str) -> str | None:
    """Element type of a pointer that is declared in a function, without `const`; None where that is not plain to see."""
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
    """Whether an identifier is declared as something other than a pointer: an array or a scalar of the same name."""
    parent = identifier.parent
    while parent is not None and parent != declaration:
        if parent.type == "pointer_declarator" or (
            parent.type == "init_declarator" and parent.child_by_field_name("declarator") != identifier
        ):
            return False
        parent = parent.parent
    return True


def initialiser(function: Node, name: str) -> Node | None:
    """The value that a local variable is declared with, where it is declared once and never assigned again."""
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
    """`text` with every word `name` replaced."""
    return re.sub(rf"(?<![\w.])(?<!->){re.escape(name)}\b", lambda _: by, text)


def enclosing_function(node: Node) -> Node:
    """The function definition around a node."""
    return next(parent for parent in ancestors(node) if parent.type == "function_definition")


def statements_with_pragma(unit: SourceUnit, node: Node) -> tuple[int, str]:
    """Where a loop's own `#pragma unroll` line begins (or the loop itself), and that line."""
    pragma = loop_at(unit, node).pragma
    if pragma is None:
        return node.start_byte, ""
    return pragma[0], unit.content[pragma[0] : pragma[1]].decode()
