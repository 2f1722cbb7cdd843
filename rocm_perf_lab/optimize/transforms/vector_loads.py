"""Vector loads and stores of two or four elements, in loops with provably consecutive accesses.

Loops with a step of 1 keep the order of their iterations. In loops that start at the work-item index and step by the workgroup or
grid size, each work-item processes consecutive elements instead; sums and extremes of a work-item then combine different
elements, which is a reassociation. The rewritten code tests the alignment before the loop, and keeps the original loop for
unaligned buffers and for the remaining elements.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import ExpressionError, evaluate, evaluate_integer
from rocm_perf_lab.optimize.loops import loop_at
from rocm_perf_lab.optimize.syntax_nodes import ancestors, called_name, is_statement, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.memory_roots import dereferenced, end_changes, root_of, touched
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.rewriting import (
    CountedLoop,
    Edit,
    apply,
    apply_within,
    assigned_names,
    counted_loop,
    element_type,
    enclosing_function,
    indentation,
    initialiser,
    is_conditional,
    is_consecutive,
    is_written,
    jumps_in,
    loops_in,
    names_in,
    newline,
    statements_with_pragma,
    subscript_index,
    substituted,
    unused_name,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_VECTORS = {"float": "float", "int": "int", "unsigned int": "uint", "unsigned": "uint", "int32_t": "int", "uint32_t": "uint"}
_LANES = "xyzw"
_ELEMENT_BYTES = 4
_GATHERING_CALLS = re.compile(r"f?max[f]?|f?min[f]?|__builtin_f(?:max|min)f?|std::(?:max|min)")


@dataclass(frozen=True)
class _Plan:
    """Vectorisable loop. `accesses` contains element type, whether read, and whether written, by source text."""

    loop: CountedLoop
    accesses: dict[str, tuple[str, bool, bool]]
    strided: bool


class VectorLoads:
    """Vectorises all loops together, then each loop, for each width.

    Args:
        kernel: Description, whose workgroup size is compared with the steps of loops.
        widths: Elements per access: 2, 4, or both.

    Raises:
        LabError: A width is not 2 or 4.
    """

    name = "vector loads"
    addresses = frozenset({"memory_bandwidth_bound", "latency_bound", "under_occupied", "launch_bound", "balanced", "unknown"})

    def __init__(self, *, kernel: KernelDescription, widths: Sequence[int] = (2, 4)) -> None:
        if not widths or any(width not in (2, 4) for width in widths):
            raise LabError(
                f"widths must be 2 or 4, not {list(widths)}",
                where="optimizer.transforms: widths",
                hint="for example widths: [4]",
            )
        self._kernel = kernel
        self._widths = tuple(sorted(set(widths), reverse=True))

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per group of loops and width."""
        plans = [plan for _, plan in self._plans(unit) if isinstance(plan, _Plan)]
        groups = ([plans] if len(plans) > 1 else []) + [[plan] for plan in plans]
        rewrites = []
        for group in groups:
            for width in self._widths:
                lines = ", ".join(str(line_of(plan.loop.node)) for plan in group)
                edits = [_edit(unit, plan, width) for plan in group]
                rewrites.append(Rewrite(f"{width} elements at once in line {lines}", apply(unit.content, edits)))
        return tuple(rewrites)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return loops that cannot be vectorised."""
        return tuple(Rejection(line_of(node), why) for node, why in self._plans(unit) if isinstance(why, str))

    def _plans(self, unit: SourceUnit) -> list[tuple[Node, _Plan | str]]:
        loops = [node for function in unit.functions() for node in walk(function) if node.type == "for_statement"]
        return [(node, self._plan(unit, node)) for node in loops]

    def _plan(self, unit: SourceUnit, node: Node) -> _Plan | str:
        """Return the plan for a loop, or the reason why it cannot be vectorised."""
        loop = counted_loop(node)
        if loop is None:
            return "is not a counted loop"
        obstacle = loop_at(unit, node).obstacle
        if obstacle is not None and not (obstacle.startswith("contains an atomic") and _atomics_are_statements(loop.body)):
            return obstacle
        if jumps_in(loop.body) or loops_in(loop.body):
            return "is not an innermost loop without jumps"
        if any("(size_t)(&" in text_of(p.child_by_field_name("condition")) for p in ancestors(node) if p.type == "if_statement"):
            return "is already vectorised"
        if (impure := _impure_call(unit, loop.body)) is not None:
            return f"calls {impure}"
        strided = self._is_strided(unit, loop)
        if loop.step_text != "1" and not strided:
            return f"has step {loop.step_text}, which is not known to be the workgroup or grid size"
        if strided and (gathered := _order_matters(loop)):
            return gathered
        return self._with_accesses(enclosing_function(node), loop, strided)

    def _with_accesses(self, function: Node, loop: CountedLoop, strided: bool) -> _Plan | str:
        changing = assigned_names(loop.node)
        if "volatile" in text_of(function):
            return "uses volatile memory"
        if end_changes(function, loop):
            return "may change its end"
        if changing & set(re.findall(r"[A-Za-z_]\w*", loop.end_text)):
            return "has an end that changes"
        found: dict[str, tuple[str, bool, bool]] = {}
        for access in (n for n in walk(loop.body) if n.type == "subscript_expression"):
            base, index = access.child_by_field_name("argument"), subscript_index(access)
            if base is None or index is None or base.type != "identifier" or loop.index not in names_in(index):
                continue
            kind = element_type(function, text_of(base))
            if not is_consecutive(index, loop.index) or kind not in _VECTORS or (names_in(access) - {loop.index}) & changing:
                continue
            if all(is_conditional(n, loop.body) for n in walk(loop.body) if text_of(n) == text_of(access)):
                if is_written(access):
                    return f"stores {text_of(access)} conditionally"
                continue
            written = is_written(access)
            if written and not _is_plain_store(access, loop.body):
                return f"stores {text_of(access)} conditionally"
            old = found.get(text_of(access), (kind, False, False))
            found[text_of(access)] = (kind, old[1] or not written or _also_reads(access), old[2] or written)
        if not found:
            return "has no consecutive accesses of 4-byte elements"
        return self._without_conflicts(function, loop, found, strided)

    def _without_conflicts(
        self, function: Node, loop: CountedLoop, found: dict[str, tuple[str, bool, bool]], strided: bool
    ) -> _Plan | str:
        """Check that loads and stores, whose order changes, access different buffers."""
        read, written = touched(function, loop.body)
        if read is None or written is None:
            return "uses a pointer to an unknown buffer"
        for root in written:
            texts = {t for t in found if root_of(function, t.partition("[")[0]) == root}
            others = [n for n in walk(loop.body) if _leads_to(function, n, root) and text_of(n) not in texts]
            if texts and (len(texts) > 1 or others or root in dereferenced(function, loop.body)):
                return f"accesses {root} at several positions"
        return _Plan(loop, found, strided)

    def _is_strided(self, unit: SourceUnit, loop: CountedLoop) -> bool:
        """Return whether a loop starts at the local index and steps by the workgroup size, or the same for the grid."""
        function = enclosing_function(loop.node)
        if function != unit.kernel or any(n != 1 for n in self._sizes()[1:]):
            return False
        start, step = (self._normal(unit, function, text) for text in (loop.start_text, loop.step_text))
        return (start, step) == ("threadIdx.x", "blockDim.x") or (
            start in ("blockIdx.x*blockDim.x+threadIdx.x", "threadIdx.x+blockIdx.x*blockDim.x")
            and step in ("blockDim.x*gridDim.x", "gridDim.x*blockDim.x")
        )

    def _normal(self, unit: SourceUnit, function: Node, text: str) -> str:
        """Replace local variables by their initialisers, and macros for the workgroup size by `blockDim.x`."""
        for _ in range(4):
            for name in set(re.findall(r"(?<![\w.])[A-Za-z_]\w*\b(?!\.)", text)):
                value = initialiser(function, name)
                if value is not None:
                    text = substituted(text, name, text_of(value))
                elif self._is_block(unit, name):
                    text = substituted(text, name, "blockDim.x")
        bare = re.sub(r"\((?:int|unsigned|unsigned int|size_t)\)|\s+", "", text)
        return "blockDim.x" if bare.isdigit() and int(bare) == self._sizes()[0] else bare

    def _is_block(self, unit: SourceUnit, name: str) -> bool:
        if name not in self._kernel.defines:
            return unit.macro_value(name) == self._sizes()[0]
        try:
            return bool(evaluate(self._kernel.defines[name], self._kernel.params, where="kernel.defines") == self._sizes()[0])
        except ExpressionError:
            return False

    def _sizes(self) -> list[int]:
        sizes = [evaluate_integer(e, self._kernel.params, where="kernel.block") for e in self._kernel.block]
        return [*sizes, 1, 1] if prod(sizes) else [0, 0, 0]


def _atomics_are_statements(body: Node) -> bool:
    """Return whether the results of all atomics are unused, so that the order of integer atomics does not matter."""
    calls = [
        n for n in walk(body) if n.type == "call_expression" and "atomic" in text_of(n.child_by_field_name("function")).lower()
    ]
    return all(map(is_statement, calls))


def _impure_call(unit: SourceUnit, body: Node) -> str | None:
    """Return the name of a called function, other than atomics, that may access memory, or None."""
    calls = [n for n in walk(body) if n.type == "call_expression" and "atomic" not in called_name(n).lower()]
    return next((impure for call in calls if (impure := impure_call(unit, call)) is not None), None)


def _order_matters(loop: CountedLoop) -> str | None:
    """Return the reason why the order of iterations matters: a variable that carries more than a sum or an extreme."""
    declared = {text_of(n.child_by_field_name("declarator")) for n in walk(loop.body) if n.type == "init_declarator"}
    for node in walk(loop.body):
        if node.type == "update_expression" and text_of(node.child_by_field_name("argument")) not in declared:
            return f"depends on the count {text_of(node)}"
        if node.type != "assignment_expression":
            continue
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        name, operator = text_of(left), text_of(node.child_by_field_name("operator"))
        if left is None or right is None or left.type == "subscript_expression" or name in declared or operator == "+=":
            continue
        is_extreme = (
            right.type == "call_expression"
            and _GATHERING_CALLS.fullmatch(text_of(right.child_by_field_name("function"))) is not None
            and name in {text_of(a) for a in (right.child_by_field_name("arguments") or right).named_children}
        )
        if not is_extreme:
            return f"carries {name} from one iteration to the next"
    return None


def _leads_to(function: Node, node: Node, root: str) -> bool:
    """Return whether a node is an access to the buffer `root`."""
    return node.type == "subscript_expression" and root_of(function, text_of(node).partition("[")[0]) == root


def _is_plain_store(access: Node, body: Node) -> bool:
    statement = access.parent.parent if access.parent is not None else None
    if statement is None or statement.type != "expression_statement":
        return False
    return statement == body or (statement.parent == body and body.type == "compound_statement")


def _also_reads(access: Node) -> bool:
    parent = access.parent
    return parent is not None and (parent.type == "update_expression" or text_of(parent.child_by_field_name("operator")) != "=")


def _edit(unit: SourceUnit, plan: _Plan, width: int) -> Edit:
    loop, content = plan.loop, unit.content
    start, pragma = statements_with_pragma(unit, loop.node)
    end_of_line, space = newline(content), indentation(content, loop.node.start_byte)
    first = "0" if plan.strided else f"({loop.start_text})"
    places = " | ".join(f"(size_t)(&{substituted(text, loop.index, first)})" for text in plan.accesses)
    original = content[loop.node.start_byte : loop.node.end_byte].decode()
    body = content[loop.body.start_byte : loop.body.end_byte].decode()
    head = f"for ({loop.type_name} {loop.index}"
    index, end, step = loop.index, loop.end_text, loop.step_text
    test = f"{index} + {width - 1} < {end}"
    if plan.strided:
        fast = f"{head} = ({loop.start_text}) * {width}; {test}; {index} += ({step}) * {width})"
        rest = f"{head} = ({end}) / {width} * {width} + ({loop.start_text}); {index} < {end}; {index} += {step}) {body}"
        declared: list[str] = []
    else:
        declared = [f"{loop.type_name} {loop.index} = {loop.start_text};"]
        fast = f"for (; {test}; {index} += {width})"
        rest = f"for (; {index} < {end}; ++{index}) {body}"
    lines = [
        f"if ((({places}) & {width * _ELEMENT_BYTES - 1}) == 0) {{",
        *(f"  {line}" for line in declared),
        f"  {fast} {{",
        *(f"    {line}" for line in _vector_body(unit, plan, width)),
        "  }",
        f"  {rest}",
        "} else {",
        *([pragma.rstrip()] if pragma else []),
        f"  {original}",
        "}",
    ]
    lead = space if start != loop.node.start_byte else ""
    return Edit(start, loop.node.end_byte, lead + f"{end_of_line}{space}".join(lines))


def _vector_body(unit: SourceUnit, plan: _Plan, width: int) -> list[str]:
    names = {text: unused_name(unit, f"vector_{number}") for number, text in enumerate(plan.accesses)}
    lines = []
    for text, (kind, is_read, is_stored) in plan.accesses.items():
        vector = f"{_VECTORS[kind]}{width}"
        value = f" = *reinterpret_cast<const {vector}*>(&{text})" if is_read else ""
        lines.append(f"{'' if is_stored else 'const '}{vector} {names[text]}{value};")
    lines += [_lane(unit, plan, names, lane) for lane in range(width)]
    for text, (kind, _, is_stored) in plan.accesses.items():
        if is_stored:
            lines.append(f"*reinterpret_cast<{_VECTORS[kind]}{width}*>(&{text}) = {names[text]};")
    return lines


def _lane(unit: SourceUnit, plan: _Plan, names: dict[str, str], lane: int) -> str:
    """Return the loop body for one element."""
    body, edits, covered = plan.loop.body, [], []
    for node in walk(body):
        if node.type == "subscript_expression" and text_of(node) in names:
            edits.append(Edit(node.start_byte, node.end_byte, f"{names[text_of(node)]}.{_LANES[lane]}"))
            covered.append((node.start_byte, node.end_byte))
    for node in walk(body):
        inside = any(start <= node.start_byte < end for start, end in covered)
        if node.type == "identifier" and text_of(node) == plan.loop.index and not inside and lane:
            edits.append(Edit(node.start_byte, node.end_byte, f"({plan.loop.index} + {lane})"))
    text = apply_within(unit.content[body.start_byte : body.end_byte], body.start_byte, edits)
    if "//" not in text and "#" not in text:
        text = " ".join(text.split())
    return text if body.type == "compound_statement" else f"{{ {text} }}"
