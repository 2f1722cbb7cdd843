"""Reductions of a workgroup over an array in LDS, `x[t] += x[t + stride]` for halved strides, by shuffles and registers.

The array is removed, so that only wavefronts synchronise. Barriers are also removed if they order no other accesses: the kernel
has no other LDS, and no buffer that it both reads and writes. The order of additions changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.languages.source_launch import launch_descriptor
from rocm_perf_lab.optimize.syntax_nodes import ancestors, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.accumulations import MAXIMA, MINIMA
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.lane_reductions import group_function
from rocm_perf_lab.optimize.transforms.matrix_products import depends_on_names
from rocm_perf_lab.optimize.transforms.memory_roots import root_of, touched
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.rewriting import (
    Edit,
    apply,
    initialiser,
    is_plain_store,
    is_written,
    names_in,
    subscript_index,
    top_level,
)
from rocm_perf_lab.optimize.transforms.thread_indices import LaunchSizes, is_hidden_index, statements

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_BARRIER = re.compile(r"(?:__syncthreads|__builtin_amdgcn_s_barrier)\(\)")
_CAST = re.compile(r"\((?:int|unsigned|unsignedint)\)")
_ELEMENTS = re.compile(r"float|double|int|unsigned|unsigned int|int32_t|uint32_t|long long|unsigned long long")
_OPERATORS = {"+=": "sum", "|=": "or", "&=": "and", "^=": "xor"}
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_HALVED = r"{s}>>=1|{s}/=2|{s}={s}/2|{s}={s}>>1"
_DOUBLED = r"{s}<<=1|{s}\*=2|{s}={s}\*2|{s}={s}<<1|{s}=2\*{s}|{s}\+={s}"


@dataclass(frozen=True)
class _Tree:
    """Loop that reduces arrays in LDS to their first elements; `operations` by array."""

    loop: Node
    operations: dict[str, str]


@dataclass(frozen=True)
class _Array:
    """Array in LDS that is only used by trees: its declaration, and the edits that move its elements to registers."""

    name: str
    element: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class _Plan:
    trees: tuple[_Tree, ...]
    arrays: tuple[_Array, ...]
    items: int
    barriers: tuple[Node, ...]
    """Barriers that order no other accesses."""


class TreeReductions:
    """Rewrites all such loops of a kernel.

    Args:
        kernel: Description with a one-dimensional workgroup whose size is a power of two.
    """

    name = "tree reductions"

    def __init__(self, *, kernel: KernelDescription) -> None:
        self._kernel = kernel

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return at most one rewrite."""
        plan = self._plan(unit)
        if isinstance(plan, str):
            return ()
        lines = ", ".join(str(line_of(tree.loop)) for tree in plan.trees)
        return (Rewrite(f"reduction in registers in line {lines}", _rewritten(unit, plan)),)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the reason why the kernel is not rewritten."""
        plan = self._plan(unit)
        return (Rejection(line_of(unit.kernel), plan),) if isinstance(plan, str) else ()

    def _plan(self, unit: SourceUnit) -> _Plan | str:
        block = LaunchSizes(self._kernel).block
        if launch_descriptor(unit.content.decode(errors="replace")) is not None:
            return "its launch is already rewritten"
        if block is None or block[1:] != (1, 1) or block[0] < 8 or block[0] > 1024 or block[0] & (block[0] - 1):
            return "its workgroup is no power of two along one axis"
        trees = [tree for node in walk(unit.kernel) if (tree := self._tree(unit, node, block[0])) is not None]
        if not trees:
            return "has no reduction over an array in LDS"
        found = []
        for name in sorted({name for tree in trees for name in tree.operations}):
            array = _array(unit.kernel, name, trees, self._lanes(unit.kernel))
            if isinstance(array, str):
                return f"{name} {array}"
            found.append(array)
        if any(_returns_for_lane(unit, node, self._lanes(unit.kernel)) for node in walk(unit.kernel)):
            return "some work-items return early"
        barriers = [node for node in walk(unit.kernel) if node.type == "expression_statement" and is_barrier(node)]
        inside = [tree.loop for tree in trees]
        free = [b for b in barriers if not any(loop.start_byte <= b.start_byte < loop.end_byte for loop in inside)]
        return _Plan(tuple(trees), tuple(found), block[0], tuple(free if _orders_nothing(unit, found) else ()))

    def _tree(self, unit: SourceUnit, node: Node, items: int) -> _Tree | None:
        if node.type != "for_statement":
            return None
        start, test, step, body = (node.child_by_field_name(n) for n in ("initializer", "condition", "update", "body"))
        inits = [c for c in start.named_children if c.type == "init_declarator"] if start is not None else []
        if test is None or step is None or body is None or len(inits) != 1:
            return None
        stride, value = (text_of(inits[0].child_by_field_name(n)) for n in ("declarator", "value"))
        first = self._number(unit, value, items)
        bare_test, bare_step = _bare(test), _bare(step)
        s = re.escape(stride)
        is_halved = re.fullmatch(_HALVED.format(s=s), bare_step) and re.fullmatch(rf"{s}|{s}>0|{s}>=1|{s}!=0|0<{s}", bare_test)
        ends = re.fullmatch(rf"{s}<(.+)", bare_test)
        is_doubled = re.fullmatch(_DOUBLED.format(s=s), bare_step) and ends and self._number(unit, ends[1], items) == items
        if not (is_halved and first == items // 2) and not (is_doubled and first == 1):
            return None
        return _tree_of(unit.kernel, node, body, stride, items if is_doubled else None, self._lanes(unit.kernel))

    def _lanes(self, kernel: Node) -> set[str]:
        """Return the expressions of the local index: `threadIdx.x` and variables with its value."""
        found = {"threadIdx.x"}
        for node in walk(kernel):
            value = _CAST.sub("", _bare(node.child_by_field_name("value"))) if node.type == "init_declarator" else ""
            name = text_of(node.child_by_field_name("declarator"))
            if value == "threadIdx.x" and initialiser(kernel, name) is not None:
                found.add(name)
        return found

    def _number(self, unit: SourceUnit, text: str, items: int) -> int | None:
        """Return the value of a literal, macro or `blockDim.x`, or of half of it."""
        match = re.fullmatch(r"(?:\((?:int|unsigned|unsignedint)\))?\(?([\w.]+)(/2|>>1)?\)?", re.sub(r"\s", "", text))
        if match is None:
            return None
        whole = items if match[1] == "blockDim.x" else LaunchSizes(self._kernel).value(unit, match[1].rstrip("uU"))
        return whole // 2 if whole is not None and match[2] else whole


def _bare(node: Node | None) -> str:
    """Return the text of a node without white space, outer parentheses and semicolon."""
    while node is not None and node.type in ("parenthesized_expression", "condition_clause") and len(node.named_children) == 1:
        node = node.named_children[0]
    return re.sub(r"\s", "", text_of(node)).rstrip(";")


def is_barrier(node: Node) -> bool:
    """Return whether a statement is a barrier of the workgroup."""
    return _BARRIER.fullmatch(_bare(node)) is not None


def _tree_of(kernel: Node, loop: Node, body: Node, stride: str, doubled: int | None, lanes: set[str]) -> _Tree | None:
    """Return the loop as a tree if its body is one step: a barrier, and a sum by some of the work-items."""
    parts = [node for node in statements(body) if not is_barrier(node)]
    if len(parts) != 1 or len(statements(body)) == 1 or parts[0].type != "if_statement":
        return None
    inner = parts[0].child_by_field_name("consequence")
    if inner is None or parts[0].child_by_field_name("alternative") is not None:
        return None
    test = _bare(parts[0].child_by_field_name("condition"))
    s = re.escape(stride)
    for lane in lanes:
        t = re.escape(lane)
        fits = rf"{t}<{s}" if doubled is None else rf"{t}%\(?(?:2\*{s}|{s}\*2)\)?==0|\(?{t}&\(?(?:2\*{s}|{s}\*2)-1\)?\)?==0"
        if re.fullmatch(fits, test) is None:
            continue
        operations: dict[str, str] = {}
        for statement in statements(inner):
            found = _step(statement, lane, stride)
            if found is None or found[0] in operations:
                return None
            operations[found[0]] = found[1]
        return _Tree(loop, operations) if operations else None
    return None


def _step(statement: Node, lane: str, stride: str) -> tuple[str, str] | None:
    """Return array and operation of `x[t] += x[t + stride]` or `x[t] = fmaxf(x[t], x[t + stride])`, or None."""
    match = re.fullmatch(r"(\w+)\[(.+?)\](\+=|\|=|&=|\^=|=)(.+);", re.sub(r"\s", "", text_of(statement)))
    if match is None or match[2] != lane:
        return None
    name, operator, right = match[1], match[3], match[4]
    own, others = f"{name}[{lane}]", (f"{name}[{lane}+{stride}]", f"{name}[{stride}+{lane}]")
    if operator in _OPERATORS:
        return (name, _OPERATORS[operator]) if right in others else None
    if any(right in (f"{own}+{other}", f"{other}+{own}") for other in others):
        return name, "sum"
    call = re.fullmatch(r"([\w:]+)\((.+?\]),(.+)\)", right)
    if call is None or not any({call[2], call[3]} == {own, other} for other in others):
        return None
    called = call[1].rpartition("::")[2]
    return (name, "max") if called in MAXIMA else (name, "min") if called in MINIMA else None


def _array(kernel: Node, name: str, trees: list[_Tree], lanes: set[str]) -> _Array | str:
    """Return the edits that move an array to registers, or the reason why that is not possible."""
    declared = [
        node
        for node in walk(kernel)
        if node.type == "declaration"
        and any(c.type == "array_declarator" and text_of(c.child_by_field_name("declarator")) == name for c in node.children)
    ]
    if len(declared) != 1 or "__shared__" not in text_of(declared[0]):
        return "is no array in LDS"
    if "extern" in text_of(declared[0]) and text_of(kernel.child_by_field_name("body")).count("extern") != 1:
        return "shares dynamic LDS with others"
    element = text_of(declared[0].child_by_field_name("type"))
    if len(declared[0].children_by_field_name("declarator")) != 1 or _ELEMENTS.fullmatch(element) is None:
        return "is declared with others, or has elements of another type"
    own = [tree for tree in trees if name in tree.operations]
    spans = [(tree.loop.start_byte, tree.loop.end_byte) for tree in own] + [(declared[0].start_byte, declared[0].end_byte)]
    uses = [n for n in walk(kernel) if n.type == "identifier" and text_of(n) == name]
    edits = [Edit(declared[0].start_byte, declared[0].end_byte, f"{element} rpl_of_{name} = 0;")]
    stores, loads = [], []
    for use in uses:
        if any(start <= use.start_byte < end for start, end in spans):
            continue
        access = use.parent
        index = subscript_index(access) if access is not None and access.type == "subscript_expression" else None
        if access is None or index is None or access.child_by_field_name("argument") != use:
            return f"is used in line {line_of(use)}"
        if is_plain_store(access) and _bare(index) in lanes:
            stores.append(access)
        elif not is_written(access) and _bare(index) == "0":
            loads.append(access)
        else:
            return f"is used as {text_of(access)} in line {line_of(access)}"
        edits.append(Edit(access.start_byte, access.end_byte, f"rpl_of_{name}"))
    for tree in own:
        block = tree.loop.parent
        if not any(_block_of(store) == block and store.end_byte <= tree.loop.start_byte for store in stores):
            return f"is not stored by all work-items before line {line_of(tree.loop)}"
    for load in loads:
        before = [tree for tree in own if tree.loop.end_byte <= load.start_byte and tree.loop.parent in list(ancestors(load))]
        if not before or any(before[-1].loop.end_byte <= s.start_byte < load.start_byte for s in stores):
            return f"is read in line {line_of(load)}, where its elements are not reduced"
    return _Array(name, element, tuple(edits))


def _returns_for_lane(unit: SourceUnit, node: Node, lanes: set[str]) -> bool:
    """Return whether a node is a `return` that only some work-items of a workgroup execute."""
    if node.type != "return_statement":
        return False
    tests = [p.child_by_field_name("condition") for p in ancestors(node) if p.start_byte > unit.kernel.start_byte]
    names = {"threadIdx", *lanes} - {"threadIdx.x"}
    return any(
        "[" in text_of(test)
        or depends_on_names(text_of(test), unit.kernel, names)
        or any(is_hidden_index(unit, name) for name in names_in(test))
        for test in tests
        if test is not None
    )


def _block_of(store: Node) -> Node | None:
    """Return the block of the statement `x[t] = value;`."""
    statement = next(parent for parent in ancestors(store) if parent.type == "expression_statement")
    return statement.parent


def _orders_nothing(unit: SourceUnit, arrays: list[_Array]) -> bool:
    """Return whether barriers order no accesses once the arrays are in registers."""
    kernel = unit.kernel
    if text_of(kernel).count("__shared__") != len(arrays) or "volatile" in text_of(kernel):
        return False
    if len(unit.functions()) > 1 and any("__shared__" in text_of(f) for f in unit.functions() if f != kernel):
        return False
    for node in walk(kernel):
        if node.type == "call_expression" and _BARRIER.fullmatch(_bare(node)) is None and impure_call(unit, node) is not None:
            return False
    read, written = touched(kernel, kernel)
    if read is None or written is None:
        return False
    names = {array.name for array in arrays}
    stores = [n for n in walk(kernel) if n.type == "subscript_expression" and is_written(n)]
    loads = [n for n in walk(kernel) if n.type == "subscript_expression" and not is_plain_store(n)]
    roots = [root for n in stores if (root := _root(kernel, n)) not in names]
    if len(set(roots)) != len(roots) or any(_root(kernel, n) in roots for n in loads):
        return False
    looped = (p for n in stores if _root(kernel, n) in roots for p in ancestors(n) if p.type in _LOOPS)
    return not any(_BARRIER.search(text_of(loop).replace(" ", "")) for loop in looped)


def _root(kernel: Node, access: Node) -> str | None:
    base = access.child_by_field_name("argument")
    return root_of(kernel, text_of(base)) if base is not None else None


def _rewritten(unit: SourceUnit, plan: _Plan) -> str:
    edits = [edit for array in plan.arrays for edit in array.edits]
    for tree in plan.trees:
        calls = (f"rpl_of_{name} = rpl_group_{operation}(rpl_of_{name});" for name, operation in tree.operations.items())
        edits.append(Edit(tree.loop.start_byte, tree.loop.end_byte, " ".join(calls)))
    edits += [Edit(barrier.start_byte, barrier.end_byte, ";") for barrier in plan.barriers]
    operations = sorted({operation for tree in plan.trees for operation in tree.operations.values()})
    helpers = "".join(group_function(operation, plan.items) for operation in operations)
    outermost = top_level(unit.kernel)
    return apply(unit.content, [*edits, Edit(outermost.start_byte, outermost.start_byte, helpers)])
