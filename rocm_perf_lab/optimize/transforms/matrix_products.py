"""Recognition of matrix products with one element per work-item: `sum += a(row, i) * b(i, column)`.

A product is recognised from dependences: one factor depends on the first index and the loop index, the other on the second index
and the loop index, all other values are uniform, and the code after the loop runs once per element.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocm_perf_lab.languages.source_launch import launch_descriptor
from rocm_perf_lab.optimize.syntax_nodes import ancestors, called_name, text_of, walk
from rocm_perf_lab.optimize.transforms.expression_types import scalar_type
from rocm_perf_lab.optimize.transforms.memory_roots import root_of
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.rewriting import (
    counted_loop,
    element_type,
    initialiser,
    is_consecutive,
    is_written,
    names_in,
    subscript_index,
    substituted,
)
from rocm_perf_lab.optimize.transforms.thread_indices import builtin_uses, guarded, hidden_index, statements

if TYPE_CHECKING:
    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.rewriting import CountedLoop
    from rocm_perf_lab.optimize.transforms.thread_indices import GlobalIndex, LaunchSizes

_BEFORE = re.compile(r"\s+|\((?:int|size_t|unsigned|unsigned int)\)")
_WIDENING = re.compile(r"__half2float|__bfloat162float|__low2float|float|int")
_RESULTS = {"__half2float": "float", "__bfloat162float": "float", "__low2float": "float"}
_FLOATING = frozenset({"float", "__half", "_Float16", "half", "__hip_bfloat16", "hip_bfloat16", "__bf16"})


@dataclass(frozen=True)
class Factor:
    """One operand of a product.

    Args:
        load: Text of the load, which contains the index of the operand, the loop index, and uniform names.
        element: Type of its elements.
        index: Index of the work-item on which it depends.
        along_loop: Whether consecutive elements of the loop are contiguous in memory.
        is_widened: Whether it is converted to the type of the sum before it is multiplied.
    """

    load: str
    element: str
    index: GlobalIndex
    along_loop: bool
    is_widened: bool


@dataclass(frozen=True)
class MatrixProduct:
    """Kernel that computes one matrix product.

    Args:
        loop: Loop over the inner dimension.
        total: Accumulated variable.
        total_type: Type of the accumulated variable.
        factors: Both operands; results with consecutive indices of the second operand are contiguous in memory.
        bounds: Number of values of an index, by its name, as text.
        uniform: Declarations before the loop that are equal for all work-items.
        element: Code for one element, before and after its sum is added.
        index_types: Types of the indices.
        returns: Conditions, equal for all work-items of a workgroup, under which nothing is computed.
    """

    loop: CountedLoop
    total: str
    total_type: str
    factors: tuple[Factor, Factor]
    bounds: dict[str, str]
    uniform: tuple[Node, ...]
    element: tuple[tuple[Node, ...], tuple[Node, ...]]
    index_types: dict[str, str]
    returns: tuple[str, ...] = ()


def matrix_product(unit: SourceUnit, sizes: LaunchSizes) -> MatrixProduct | str:
    """Return the matrix product that a kernel computes, or the reason why it is not recognised."""
    if launch_descriptor(unit.content.decode(errors="replace")) is not None:
        return "its launch is already rewritten"
    indices = sizes.global_indices(unit)
    body = unit.kernel.child_by_field_name("body")
    if set(indices) != {"x", "y"} or body is None:
        return "its work-items have no two indices"
    names = {indices["x"].name: indices["x"], indices["y"].name: indices["y"]}
    if (hidden := hidden_index(unit)) is not None:
        return f"uses {hidden}"
    others = {use for use in builtin_uses(unit.kernel, without=(indices["x"].node, indices["y"].node)) if use != "blockIdx.z"}
    if others:
        return f"uses {sorted(others)[0]}"
    if (impure := impure_call(unit, body)) is not None or "__shared__" in text_of(body):
        return f"uses {impure or '__shared__'}"
    tested = guarded(statements(body), set(names))
    if tested is None:
        return "its indices have no bounds"
    flat, bounds = tested.nodes, tested.bounds
    if not sizes.covers(unit, {index.axis: bounds[name] for name, index in names.items()}):
        return "its launch is not known to cover its bounds"
    if any(depends_on_names(condition, unit.kernel, {*names, "threadIdx"}) for condition in tested.others):
        return "returns early for other reasons"
    loops = [node for node in flat if node.type == "for_statement"]
    if len(loops) != 1:
        return "has no single loop"
    place = flat.index(loops[0])
    loop = counted_loop(loops[0])
    if loop is None or loop.step_text != "1" or _BEFORE.sub("", loop.start_text) != "0":
        return "has no counted loop from 0"
    if any(node.type != "declaration" for node in flat[:place]):
        return "has statements before the loop"
    product = _product(unit.kernel, loop, names, bounds, flat[:place], flat[place + 1 :])
    return product if isinstance(product, str) else replace(product, returns=tuple(tested.others))


def _product(
    kernel: Node,
    loop: CountedLoop,
    names: dict[str, GlobalIndex],
    bounds: dict[str, str],
    before: list[Node],
    after: list[Node],
) -> MatrixProduct | str:
    found = _accumulation(loop)
    if found is None:
        return "does not add products"
    total, operands = found
    total_type = scalar_type(kernel, total)
    if total_type not in ("float", "int"):
        return f"the type of {total} is not supported"
    factors = []
    for operand in operands:
        factor = _factor(kernel, operand, loop, names)
        if isinstance(factor, str):
            return factor
        factors.append(factor)
    if {f.index.name for f in factors} != set(names):
        return "both factors depend on the same index"
    if all(f.element in _FLOATING - {"float"} and not f.is_widened for f in factors):
        return "rounds each product"
    stored = {root_of(kernel, text_of(n.child_by_field_name("argument"))) for part in after for n in walk(part) if _is_store(n)}
    if any(root_of(kernel, f.load.partition("[")[0]) in stored for f in factors):
        return "stores to an operand"
    uniform: list[Node] = []
    own: list[Node] = []
    for node in before:
        depends = _depends(kernel, node, set(names)) & (set(names) | {total})
        if any(value == name.node for name in names.values() for value in walk(node)):
            values = [c.child_by_field_name("value") for c in node.named_children if c.type == "init_declarator"]
            if any(value not in [index.node for index in names.values()] for value in values):
                return "declares other variables with an index"
            continue
        if total in text_of(node) and len(node.children_by_field_name("declarator")) != 1:
            return "declares several variables at once"
        (own if depends or re.search(rf"\b{total}\b", text_of(node)) else uniform).append(node)
    if depends_on_names(loop.end_text, kernel, set(names) | {total}):
        return "has an end that differs between work-items"
    if any(node.type in ("return_statement", "goto_statement") for part in after for node in walk(part)):
        return "returns after the loop"
    if loop.index in {n for part in after for n in names_in(part)}:
        return f"uses {loop.index} after the loop"
    types = {name: _variable_type(kernel, index.node) for name, index in names.items()}
    ordered = _ordered(factors, after)
    return MatrixProduct(loop, total, total_type, ordered, bounds, tuple(uniform), (tuple(own), tuple(after)), types)


def _is_store(node: Node) -> bool:
    return node.type == "subscript_expression" and is_written(node)


def _ordered(factors: list[Factor], after: list[Node]) -> tuple[Factor, Factor]:
    """Return the factors; consecutive results do not depend on the index of the first one."""
    first, second = factors
    for part in after:
        for node in walk(part):
            index = subscript_index(node) if node.type == "subscript_expression" and is_written(node) else None
            if index is not None and is_consecutive(index, first.index.name):
                return second, first
    return first, second


def _accumulation(loop: CountedLoop) -> tuple[str, tuple[Node, Node]] | None:
    """Return the variable and the factors of `sum += a * b` or `sum = fmaf(a, b, sum)`, the last statement of a loop.

    Statements before it only declare variables.
    """
    *before, last = statements(loop.body) or [loop.body]
    if last.type != "expression_statement" or len(last.named_children) != 1 or any(n.type != "declaration" for n in before):
        return None
    assignment = last.named_children[0]
    left, right = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
    operator = text_of(assignment.child_by_field_name("operator"))
    if assignment.type != "assignment_expression" or left is None or right is None or left.type != "identifier":
        return None
    if operator == "=" and right.type == "call_expression" and called_name(right) in ("fmaf", "__fmaf_rn", "fma"):
        arguments = (right.child_by_field_name("arguments") or right).named_children
        return (text_of(left), (arguments[0], arguments[1])) if text_of(arguments[2]) == text_of(left) else None
    if operator == "=" and right.type == "binary_expression" and text_of(right.child_by_field_name("left")) == text_of(left):
        if text_of(right.child_by_field_name("operator")) != "+":
            return None
        right = right.child_by_field_name("right")
    elif operator != "+=":
        return None
    while right is not None and right.type == "parenthesized_expression":
        right = right.named_children[0]
    if right is None or right.type != "binary_expression" or text_of(right.child_by_field_name("operator")) != "*":
        return None
    first, second = right.child_by_field_name("left"), right.child_by_field_name("right")
    return (text_of(left), (first, second)) if first is not None and second is not None else None


def _factor(kernel: Node, operand: Node, loop: CountedLoop, names: dict[str, GlobalIndex]) -> Factor | str:
    conversions = []
    while operand.type == "identifier" and (value := initialiser(kernel, text_of(operand))) is not None:
        conversions.append(_variable_type(kernel, value))
        operand = value
    loads = [n for n in walk(operand) if n.type == "subscript_expression"]
    if len(loads) != 1:
        return f"{text_of(operand)} is not one load"
    load, base, index = loads[0], loads[0].child_by_field_name("argument"), subscript_index(loads[0])
    if base is None or index is None or base.type != "identifier":
        return f"{text_of(load)} is not a plain access"
    around = re.sub(r"[()<>\s]", "", text_of(operand).replace(text_of(load), ""))
    if around and not _WIDENING.fullmatch(around):
        return f"{text_of(operand)} computes more than a product"
    text = _expanded(kernel, text_of(load), {*names, loop.index})
    used = [index for name, index in names.items() if re.search(rf"(?<![\w.]){name}\b", text)]
    element = element_type(kernel, text_of(base))
    if len(used) != 1 or re.search(rf"(?<![\w.]){loop.index}\b", text) is None or element is None:
        return f"{text_of(load)} does not depend on one index"
    if depends_on_names(text, kernel, set(names) - {used[0].name}):
        return f"{text_of(load)} depends on both indices"
    kinds = {_RESULTS.get(around, around), *conversions} - {"", "auto", element}
    if kinds - {"float" if element in _FLOATING else "int"}:
        return f"{text_of(operand)} is converted to {min(kinds)}"
    return Factor(text, element, used[0], is_consecutive(index, loop.index), bool(kinds))


def _variable_type(kernel: Node, value: Node) -> str:
    """Return the type of the variable that a value initialises."""
    declaration = next((parent for parent in ancestors(value) if parent.type == "declaration"), None)
    return text_of(declaration.child_by_field_name("type")) if declaration is not None else "auto"


def _expanded(kernel: Node, text: str, names: set[str], *, depth: int = 6) -> str:
    """Replace local variables that depend on the indices by their initialisers."""
    for _ in range(depth):
        before = text
        for name in sorted(set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)) - names):
            value = initialiser(kernel, name)
            if value is not None and _depends(kernel, value, names):
                text = substituted(text, name, f"({text_of(value)})")
        if text == before:
            break
    return text


def _depends(kernel: Node, node: Node, names: set[str]) -> set[str]:
    return depends_on_names(text_of(node), kernel, names)


def depends_on_names(text: str, kernel: Node, names: set[str], *, depth: int = 6) -> set[str]:
    """Return the subset of `names` on which a text depends, directly or through initialisers."""
    used = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))
    found = used & names
    if depth:
        for name in used - names:
            value = initialiser(kernel, name)
            if value is not None and text_of(value) != text:
                found |= depends_on_names(text_of(value), kernel, names, depth=depth - 1)
    return found
