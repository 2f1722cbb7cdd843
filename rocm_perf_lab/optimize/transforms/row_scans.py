"""Loops that scan a row, `sum += x[i]; y[i] = sum`, distributed over a group of lanes.

Each lane takes a few consecutive elements, lanes exchange their sums by shuffles, and a carry connects the parts of a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import text_of, walk
from rocm_perf_lab.optimize.transforms.accumulations import accumulating
from rocm_perf_lab.optimize.transforms.expression_types import loses_digits, scalar_type
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.reductions import assigned_outside, declared_in, names_in_text, stores_of
from rocm_perf_lab.optimize.transforms.rewriting import counted_loop, jumps_in, loops_in, names_in
from rocm_perf_lab.optimize.transforms.thread_indices import statements

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.rewriting import CountedLoop

EACH = 4
"""Consecutive elements per lane."""
_COMBINED = {"sum": "{a} + {b}", "max": "__builtin_elementwise_max({a}, {b})", "min": "__builtin_elementwise_min({a}, {b})"}


@dataclass(frozen=True)
class ScanLoop:
    """Loop with step 1 that combines a value per element, and uses the value combined so far.

    Args:
        loop: Loop.
        name: Variable.
        type_name: Its type.
        operation: `sum`, `max` or `min`.
        value: Value of one element, as text.
        before: Statements before the value is added.
        after: Statements after it.
    """

    loop: CountedLoop
    name: str
    type_name: str
    operation: str
    value: str
    before: tuple[Node, ...]
    after: tuple[Node, ...]


def scan_loop(unit: SourceUnit, node: Node) -> ScanLoop | str:
    """Return a loop as a scan, or the reason why this is not proved."""
    loop = counted_loop(node)
    if loop is None or loop.step_text != "1":
        return "is not a counted loop with step 1"
    if jumps_in(loop.body) or loops_in(loop.body):
        return "contains a jump or a loop"
    impure = impure_call(unit, loop.body)
    if impure is not None:
        return f"calls {impure}"
    carried = assigned_outside(loop)
    if isinstance(carried, str):
        return carried
    if len(carried) != 1 or len(next(iter(carried.values()))) != 1:
        return f"carries {' and '.join(sorted(carried)) or 'nothing'} from one iteration to the next"
    ((name, (update,)),) = carried.items()
    body = statements(loop.body)
    kind, operation, value = scalar_type(unit.kernel, name), accumulating(name, update), _value(name, update)
    if kind is None or operation not in _COMBINED or value is None or update.parent not in body:
        return f"carries {name} from one iteration to the next"
    if loses_digits(unit.kernel, kind, update):
        return f"converts {name} to an integer in each iteration"
    if name in names_in_text(loop.end_text):
        return "has an end that changes"
    stores = stores_of(unit.kernel, loop)
    if isinstance(stores, str):
        return stores
    place = body.index(update.parent)
    scan = ScanLoop(loop, name, kind.removeprefix("const "), operation, value, tuple(body[:place]), tuple(body[place + 1 :]))
    return _obstacle(scan) or scan


def _value(name: str, update: Node) -> str | None:
    """Return the text of the value that an accumulation combines with a variable."""
    right, operator = update.child_by_field_name("right"), text_of(update.child_by_field_name("operator"))
    if right is None:
        return "1" if update.type == "update_expression" else None
    if operator in ("+=", "-="):
        return f"({text_of(right)})" if operator == "+=" else f"-({text_of(right)})"
    arguments = right.child_by_field_name("arguments")
    parts = arguments.named_children if arguments is not None else [right.child_by_field_name(n) for n in ("left", "right")]
    others = [text_of(part) for part in parts if text_of(part) != name]
    return f"({others[0]})" if len(parts) == 2 and len(others) == 1 else None


def _obstacle(scan: ScanLoop) -> str | None:
    """Return the reason why values of elements cannot be computed independently of the combined value, or None."""
    later = {name for node in scan.before if scan.name in names_in(node) for name in declared_in(node)}
    stored: set[str] = set()
    for node in scan.before:
        if stored & _bases(node):
            return "reads what it stores"
        target = node.named_children[0].child_by_field_name("left") if node.type == "expression_statement" else None
        if target is not None and target.type == "subscript_expression":
            stored |= _bases(target)
        elif node.type != "declaration":
            return f"has statements before {scan.name} is combined"
        elif scan.name not in names_in(node) and names_in(node) & later:
            return f"uses {scan.name} in the value of an element"
    if stored & names_in_text(scan.value):
        return "reads what it stores"
    return f"uses {scan.name} in the value of an element" if names_in_text(scan.value) & (later | {scan.name}) else None


def _bases(node: Node) -> set[str]:
    """Return the pointers that a node accesses."""
    return {text_of(n.child_by_field_name("argument")) for n in walk(node) if n.type == "subscript_expression"}


def scan_lines(scan: ScanLoop, lanes: int, lane: str) -> list[str]:
    """Return the code of a scan by a group of at most 64 lanes."""
    loop, name, kind = scan.loop, scan.name, scan.type_name
    combine = _COMBINED[scan.operation]
    head = f"const {loop.type_name} {loop.index} = rpl_base + {lane} * {EACH} + rpl_j;"
    values = [text_of(node) for node in scan.before if node.type == "declaration" and scan.name not in names_in(node)]
    neutral = "0" if scan.operation == "sum" else name
    return [
        f"for ({loop.type_name} rpl_base = {loop.start_text}; rpl_base < {loop.end_text}; rpl_base += {lanes * EACH}) {{",
        f"  {kind} rpl_x[{EACH}], rpl_part = {neutral};",
        "#pragma unroll",
        f"  for (int rpl_j = 0; rpl_j < {EACH}; ++rpl_j) {{",
        f"    {head}",
        f"    rpl_x[rpl_j] = {neutral};",
        f"    if ({loop.index} < {loop.end_text}) {{ {' '.join(values)} rpl_x[rpl_j] = {scan.value}; }}",
        f"    rpl_part = {combine.format(a='rpl_part', b='rpl_x[rpl_j]')};",
        "  }",
        f"  for (int rpl_d = 1; rpl_d < {lanes}; rpl_d <<= 1) {{",
        f"    const {kind} rpl_other = __shfl_up(rpl_part, rpl_d, {lanes});",
        f"    if ({lane} >= rpl_d) rpl_part = {combine.format(a='rpl_other', b='rpl_part')};",
        "  }",
        f"  const {kind} rpl_before = __shfl_up(rpl_part, 1, {lanes}), rpl_whole = __shfl(rpl_part, {lanes - 1}, {lanes});",
        f"  const {kind} rpl_all = {combine.format(a=name, b='rpl_whole')};",
        f"  {kind} rpl_carry = {lane} == 0 ? {name} : {combine.format(a=name, b='rpl_before')};",
        "#pragma unroll",
        f"  for (int rpl_j = 0; rpl_j < {EACH}; ++rpl_j) {{",
        f"    {head}",
        f"    if ({loop.index} < {loop.end_text}) {{",
        f"      {kind} {name} = rpl_carry;",
        *(f"      {text_of(node)}" for node in scan.before),
        f"      {name} = {combine.format(a=name, b='rpl_x[rpl_j]')};",
        *(f"      {text_of(node)}" for node in scan.after),
        f"      rpl_carry = {name};",
        "    }",
        "  }",
        f"  {name} = rpl_all;",
        "}",
    ]
