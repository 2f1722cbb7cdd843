"""Loops with independent iterations: analysis of accumulated variables, and of stores to distinct elements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rocm_perf_lab.optimize.syntax_nodes import ancestors, called_name, is_statement, text_of, walk
from rocm_perf_lab.optimize.transforms.memory_roots import dereferenced, root_of, touched
from rocm_perf_lab.optimize.transforms.rewriting import (
    assigned_names,
    counted_loop,
    element_type,
    enclosing_function,
    initialiser,
    is_consecutive,
    is_written,
    jumps_in,
    names_in,
    subscript_index,
    substituted,
)
from rocm_perf_lab.optimize.transforms.scaled_sums import ScaledSums, scaled_sums

if TYPE_CHECKING:
    from collections.abc import Collection

    from tree_sitter import Node

    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.rewriting import CountedLoop

Operation = Literal["sum", "max", "min", "or", "and", "first max", "first min", "scaled sums"]
MAXIMA = frozenset({"fmaxf", "fmax", "max", "__builtin_fmaxf", "__builtin_fmax"})
MINIMA = frozenset({"fminf", "fmin", "min", "__builtin_fminf", "__builtin_fmin"})
_SIMPLE: dict[str, Operation] = {"+=": "sum", "-=": "sum", "|=": "or", "&=": "and"}
_ARITHMETIC = re.compile(
    r"(?:const |unsigned |signed )*(?:float|double|int|unsigned|long|long long|int32_t|uint32_t|size_t|int64_t)"
)
_FLOATING = re.compile(r"float|double")
_INTEGRAL = re.compile(
    r"(?:const |unsigned |signed )*(?:int|unsigned|signed|long|long long|char|short|bool|size_t|uint"
    r"|u?int(?:8|16|32|64)_t)(?: int)?"
)
_INTEGER_CALL = re.compile(r"__popcll?|__clzl*|__ffsl*|__brev|__float2u?int_\w+|__float_as_u?int|int|unsigned")
_STATE = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim", "static", "__shared__", "asm", "->"})
_TRUTH = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||", "!"})
_PURE = re.compile(
    r"""f?(?:max|min)f?|f?absf?|(?:__)?(?:r?sqrt|exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|tan|tanh|sinh|cosh|erf|erfc|floor|ceil|
    round|rint|nearbyint|trunc|fma|fmod|cbrt|copysign|ldexp|atan|atan2|asin|acos|hypot|rcp)f?|isnan|isinf|isfinite|__f\w+_r[nzud]|
    __\w+2\w+|__(?:float|int|uint)_as_\w+|__float22\w+|make_\w+|__popcll?|__clzl*|__ffsl*|__brev|float|int|double|unsigned|
    __builtin_f\w+|static_cast|__h(?:add|mul|sub|fma)|__ldg|__saturatef|__fdividef|__expf|__logf|__ocml_\w+""",
    re.VERBOSE,
)
_EXCHANGE = re.compile(r"__shfl(?:_xor|_up|_down)?|__builtin_amdgcn_(?:mov_dpp|update_dpp|ds_bpermute)|__builtin_bit_cast")


@dataclass(frozen=True)
class Reduction:
    """Variable that a loop accumulates.

    Args:
        name: Variable.
        type_name: Its type.
        operation: Operation that combines values; `first max` and `first min` are pairs with the index of the first extreme, and
            `scaled sums` are relative to the exponential of the largest value, `name`.
        place: Variable with the index of the extreme, for pairs.
        value: Value at an index, `@`, if only the index of the extreme is kept.
        scaled: Sums that are relative to the largest value, and the function that scales them.
    """

    name: str
    type_name: str
    operation: Operation
    place: str | None = None
    value: str | None = None
    scaled: ScaledSums | None = None


@dataclass(frozen=True)
class IndependentLoop:
    """Loop with a step of 1 whose iterations may run in any order, except that they accumulate `reductions`."""

    loop: CountedLoop
    reductions: tuple[Reduction, ...]
    stores: bool


def independent_loop(
    unit: SourceUnit, node: Node, *, collective: bool = False, nonzero: Collection[str] = ()
) -> IndependentLoop | str:
    """Return a loop with independent iterations, or the reason why this is not proved.

    Args:
        unit: Source.
        node: Loop.
        collective: Whether iterations may exchange values within a wavefront, which then executes them together.
        nonzero: Names that are not 0.
    """
    function = unit.kernel
    loop = counted_loop(node)
    if loop is None or loop.step_text != "1":
        return "is not a counted loop with step 1"
    if jumps_in(loop.body):
        return "contains a jump"
    impure = impure_call(unit, loop.body, collective=collective)
    if impure is not None:
        return f"calls {impure}"
    end_names = set(re.findall(r"[A-Za-z_]\w*", loop.end_text))
    carried, reductions = _carried(function, loop)
    if isinstance(reductions, str):
        return reductions
    if end_names & carried:
        return "has an end that changes"
    stores = stores_of(function, loop, nonzero)
    return stores if isinstance(stores, str) else IndependentLoop(loop, tuple(reductions), stores)


def impure_call(unit: SourceUnit, part: Node, *, depth: int = 4, collective: bool = False) -> str | None:
    """Return the name of a called function whose result may depend on more than its arguments, or None.

    Args:
        unit: Source.
        part: Node with the calls.
        depth: Maximum nesting of functions.
        collective: Whether functions may exchange values within a wavefront.
    """
    for node in walk(part):
        if node.type in ("asm_statement", "gnu_asm_expression", "lambda_expression", "ERROR", "goto_statement"):
            return "unsupported code"
        if node.type != "call_expression":
            continue
        name = called_name(node)
        if _is_pure(name, collective):
            continue
        own = [f for f in unit.reachable(node) if f != node and f.type == "function_definition"]
        if not own or depth == 0 or any(_has_memory(f, collective) for f in own):
            return name
    return None


def is_pure_call(name: str) -> bool:
    """Return whether the result of a function is known to depend only on its arguments."""
    return _PURE.fullmatch(name) is not None


def _is_pure(name: str, collective: bool) -> bool:
    return is_pure_call(name) or (collective and _EXCHANGE.fullmatch(name) is not None)


def _has_memory(function: Node, collective: bool) -> bool:
    """Return whether a function has pointers, references, static variables or work-item builtins, or calls unknown functions."""
    kinds = {
        "pointer_declarator",
        "reference_declarator",
        "pointer_expression",
        "subscript_expression",
        "abstract_reference_declarator",
    }
    for node in walk(function):
        if node.type in kinds or text_of(node) in _STATE:
            return True
        if node.type == "call_expression" and not _is_pure(called_name(node), collective):
            return True
    return False


def declared_in(node: Node) -> set[str]:
    """Return the variables that are declared in a node."""
    found = set()
    for inner in walk(node):
        if inner.type == "init_declarator" or inner.type == "declaration":
            for child in inner.children_by_field_name("declarator"):
                target: Node | None = child
                while target is not None and target.type != "identifier":
                    target = target.child_by_field_name("declarator") or next(iter(target.named_children), None)
                if target is not None:
                    found.add(text_of(target))
    return found


def scalar_type(function: Node, name: str) -> str | None:
    """Return the arithmetic type of a local variable that is declared once, or None."""
    found = []
    for node in walk(function):
        if node.type != "declaration":
            continue
        for child in node.children_by_field_name("declarator"):
            inner = child.child_by_field_name("declarator") if child.type == "init_declarator" else child
            if inner is not None and inner.type == "identifier" and text_of(inner) == name:
                found.append(text_of(node.child_by_field_name("type")))
    return found[0] if len(found) == 1 and _ARITHMETIC.fullmatch(found[0]) else None


def assigned_outside(loop: CountedLoop) -> dict[str, list[Node]] | str:
    """Return the assignments in a loop to variables from outside of it, by variable, or the reason why they are unknown."""
    writes: dict[str, list[Node]] = {}
    for node in walk(loop.body):
        target = None
        if node.type == "assignment_expression":
            target = node.child_by_field_name("left")
        elif node.type == "update_expression":
            target = node.child_by_field_name("argument")
        elif node.type == "pointer_expression" and text_of(node).startswith("&"):
            return "takes an address"
        if target is None or target.type == "subscript_expression":
            continue
        if target.type != "identifier":
            return f"assigns {text_of(target)}"
        if text_of(target) != loop.index and not _is_private(target, loop.body):
            writes.setdefault(text_of(target), []).append(node)
    return {name: nodes for name, nodes in writes.items() if not _is_temporary(loop, name)}


def _is_temporary(loop: CountedLoop, name: str) -> bool:
    """Return whether each iteration assigns a variable before it reads it, and only its declaration is outside the loop."""
    uses = [n for n in walk(enclosing_function(loop.node)) if n.type == "identifier" and text_of(n) == name]
    inside = [n for n in uses if loop.node.start_byte <= n.start_byte < loop.node.end_byte]
    outside = [n for n in uses if n not in inside]
    update = inside[0].parent if inside else None
    if update is None or update.type != "assignment_expression" or update.child_by_field_name("left") != inside[0]:
        return False
    statement, right = update.parent, update.child_by_field_name("right")
    if text_of(update.child_by_field_name("operator")) != "=" or right is None or name in names_in(right):
        return False
    if statement is None or statement.parent != loop.body or inside[0].start_byte < loop.body.start_byte:
        return False
    declarator = outside[0].parent if len(outside) == 1 else None
    is_initialised = declarator is not None and declarator.type == "init_declarator"
    is_declared = is_initialised and declarator is not None and declarator.child_by_field_name("declarator") == outside[0]
    return is_declared or (declarator is not None and declarator.type == "declaration")


def _is_private(target: Node, body: Node) -> bool:
    """Return whether a variable is declared in the same iteration, before its use at a place in the loop."""
    for scope in ancestors(target):
        before = (c for c in scope.children if c.type == "declaration" and c.start_byte < target.start_byte)
        if any(text_of(target) in declared_in(declaration) for declaration in before):
            return scope.start_byte >= body.start_byte
        if scope == body:
            return False
    return False


def _carried(function: Node, loop: CountedLoop) -> tuple[set[str], list[Reduction] | str]:
    """Return the variables that a loop assigns, with the reduction of each, or the reason why one is not a reduction."""
    writes = assigned_outside(loop)
    if isinstance(writes, str):
        return set(), writes
    whole = _pair(function, loop, writes) or _place(function, loop, writes) or _scaled(function, loop, writes)
    if whole is not None:
        return set(writes), [whole]
    found: list[Reduction] = []
    for name, nodes in writes.items():
        kind = scalar_type(function, name)
        extremes = [_tested_extreme(name, node) for node in nodes]
        tested = [found for found in extremes if found is not None]
        operations = {
            extreme[0] if extreme is not None else accumulating(name, node) or _chosen_extreme(name, node, kind or "")
            for node, extreme in zip(nodes, extremes, strict=True)
        }
        operation = next(iter(operations)) if len(operations) == 1 else None
        if kind is None or operation is None:
            return set(writes), f"carries {name} from one iteration to the next"
        if any(loses_digits(function, kind, node) for node in nodes):
            return set(writes), f"converts the sum {name} to an integer in each iteration"
        if any(_compares_otherwise(function, kind, node) for node in nodes if not accumulating(name, node)):
            return set(writes), f"may compare {name} as another type"
        if _count(loop.body, name) != sum(_count(node, name) for node in [*nodes, *(test for _, test in tested)]):
            return set(writes), f"uses {name} while it is accumulated"
        found.append(Reduction(name, kind, operation))
    return set(writes), found


def _count(node: Node, name: str) -> int:
    return sum(1 for inner in walk(node) if inner.type == "identifier" and text_of(inner) == name)


def accumulating(name: str, node: Node) -> Operation | None:
    """Return the operation with which a statement accumulates a variable; None for other statements."""
    if not is_statement(node):
        return None
    if node.type == "update_expression":
        return "sum" if "++" in text_of(node) else None
    right, operator = node.child_by_field_name("right"), text_of(node.child_by_field_name("operator"))
    if right is None:
        return None
    if operator in _SIMPLE:
        return _SIMPLE[operator] if name not in names_in(right) else None
    if operator != "=" or _count(right, name) != 1:
        return None
    if right.type == "call_expression" and called_name(right) in MAXIMA | MINIMA:
        arguments = right.child_by_field_name("arguments")
        if arguments is not None and name in [text_of(a) for a in arguments.named_children]:
            return "max" if called_name(right) in MAXIMA else "min"
    sides = (text_of(right.child_by_field_name("left")), text_of(right.child_by_field_name("right")))
    is_sum = right.type == "binary_expression" and text_of(right.child_by_field_name("operator")) == "+" and name in sides
    return "sum" if is_sum else None


def _tested_extreme(name: str, node: Node) -> tuple[Operation, Node] | None:
    """Return the operation of `if (value > name) name = value;` with its test, or None. A NaN is never assigned there."""
    statement = node.parent
    block = statement.parent if statement is not None and statement.type == "expression_statement" else None
    if block is not None and block.type == "compound_statement":
        block = block.parent if [c for c in block.named_children if c.type != "comment"] == [statement] else None
    right = node.child_by_field_name("right")
    if block is None or block.type != "if_statement" or block.child_by_field_name("alternative") is not None or right is None:
        return None
    test = block.child_by_field_name("condition")
    if test is None or text_of(node.child_by_field_name("operator")) != "=":
        return None
    operation = _compared(test, name, right)
    return (operation, test) if operation is not None else None


def _chosen_extreme(name: str, node: Node, kind: str) -> Operation | None:
    """Return the operation of `name = value > name ? value : name`, or None.

    If `name` is chosen by a test that a NaN fails, the order of floating-point elements matters.
    """
    right = node.child_by_field_name("right")
    while right is not None and right.type == "parenthesized_expression":
        right = next(iter(right.named_children), None)
    if right is None or right.type != "conditional_expression" or text_of(node.child_by_field_name("operator")) != "=":
        return None
    test, first, second = (right.child_by_field_name(n) for n in ("condition", "consequence", "alternative"))
    if test is None or first is None or second is None:
        return None
    if _bare(second) == name:
        return _compared(test, name, first)
    if _bare(first) == name and not _FLOATING.search(kind):
        opposite = _compared(test, name, second)
        return None if opposite is None else ("min" if opposite == "max" else "max")
    return None


def _compares_otherwise(function: Node, kind: str, node: Node) -> bool:
    """Return whether a test may compare values in an integer type other than that of the variable."""
    if _FLOATING.search(kind):
        return False
    plain = kind.removeprefix("const ")
    for value in (
        n for n in walk(node) if n.type in ("identifier", "subscript_expression", "call_expression", "cast_expression")
    ):
        if value.type == "identifier" and scalar_type(function, text_of(value)) not in (plain, f"const {plain}", None):
            return True
        base = value.child_by_field_name("argument") if value.type == "subscript_expression" else None
        if value.type != "identifier" and (base is None or element_type(function, text_of(base)) != plain):
            return True
    return False


def _compared(test: Node, name: str, value: Node) -> Operation | None:
    """Return `max` for the test `value > name`, `min` for `value < name`, including their reversed forms; None for others."""
    while test.type in ("parenthesized_expression", "condition_clause") and len(test.named_children) == 1:
        test = test.named_children[0]
    sides = (_bare(test.child_by_field_name("left")), _bare(test.child_by_field_name("right")))
    sign = text_of(test.child_by_field_name("operator"))
    if test.type != "binary_expression" or name in names_in(value) or sign not in ("<", "<=", ">", ">="):
        return None
    if sides == (_bare(value), name):
        return "max" if ">" in sign else "min"
    return ("max" if "<" in sign else "min") if sides == (name, _bare(value)) else None


def _bare(node: Node | None) -> str:
    """Return the text of a node without white space and outer parentheses."""
    while node is not None and node.type == "parenthesized_expression" and len(node.named_children) == 1:
        node = node.named_children[0]
    return re.sub(r"\s+", "", text_of(node))


def loses_digits(function: Node, kind: str, update: Node) -> bool:
    """Return whether a variable has an integer type, and the assigned value is not known to be an integer."""
    right = update.child_by_field_name("right")
    return not _FLOATING.search(kind) and right is not None and not is_integer(function, right)


def is_integer(function: Node, node: Node, *, depth: int = 6) -> bool:
    """Return whether an expression is known to have an integer type."""
    operator = text_of(node.child_by_field_name("operator"))
    inner = [c for c in node.named_children if c.type != "comment"]
    if node.type == "number_literal":
        return re.fullmatch(r"(?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*", text_of(node)) is not None
    if node.type in ("true", "false", "char_literal", "sizeof_expression") or operator in _TRUTH or operator == "%":
        return True
    if node.type == "identifier":
        return _is_integer_variable(function, text_of(node), depth)
    if node.type == "subscript_expression":
        base = node.child_by_field_name("argument")
        return base is not None and _INTEGRAL.fullmatch(element_type(function, text_of(base)) or "") is not None
    if node.type == "field_expression":
        return text_of(node.child_by_field_name("argument")) in ("threadIdx", "blockIdx", "blockDim", "gridDim")
    if node.type == "cast_expression":
        return _INTEGRAL.fullmatch(text_of(node.child_by_field_name("type"))) is not None
    if node.type == "call_expression":
        arguments = (node.child_by_field_name("arguments") or node).named_children
        is_alike = called_name(node) in ("min", "max", "abs") and all(is_integer(function, a, depth=depth) for a in arguments)
        return is_alike or _INTEGER_CALL.fullmatch(called_name(node)) is not None
    if node.type == "conditional_expression":
        return all(is_integer(function, c, depth=depth) for c in inner[-2:])
    is_arithmetic = node.type in ("binary_expression", "unary_expression", "parenthesized_expression")
    return is_arithmetic and bool(inner) and all(is_integer(function, c, depth=depth) for c in inner)


def _is_integer_variable(function: Node, name: str, depth: int) -> bool:
    kinds = set()
    for node in walk(function):
        if node.type not in ("declaration", "parameter_declaration"):
            continue
        for child in node.children_by_field_name("declarator"):
            inner = child.child_by_field_name("declarator") if child.type == "init_declarator" else child
            if inner is not None and inner.type == "identifier" and text_of(inner) == name:
                kinds.add(text_of(node.child_by_field_name("type")))
    if kinds == {"auto"}:
        value = initialiser(function, name)
        return value is not None and depth > 0 and is_integer(function, value, depth=depth - 1)
    return bool(kinds) and all(_INTEGRAL.fullmatch(kind) for kind in kinds)


def _pair(function: Node, loop: CountedLoop, writes: dict[str, list[Node]]) -> Reduction | None:
    """Return the reduction `if (value > best) { best = value; place = i; }`, or None."""
    if len(writes) != 2 or any(len(nodes) != 1 for nodes in writes.values()):
        return None
    place = next((n for n, (node,) in writes.items() if text_of(node.child_by_field_name("right")) == loop.index), None)
    best = next((n for n in writes if n != place), None)
    if place is None or best is None:
        return None
    value = text_of(writes[best][0].child_by_field_name("right"))
    tests = [p for p in ancestors(writes[best][0]) if p.type == "if_statement" and p.start_byte >= loop.body.start_byte]
    others = [p for p in ancestors(writes[place][0]) if p.type == "if_statement" and p.start_byte >= loop.body.start_byte]
    if len(tests) != 1 or tests != others or tests[0].child_by_field_name("alternative") is not None:
        return None
    test = re.sub(r"\s+", "", text_of(tests[0].child_by_field_name("condition")))
    bare = re.sub(r"\s+", "", value)
    is_larger = test in (f"({bare}>{best})", f"({best}<{bare})")
    is_smaller = test in (f"({bare}<{best})", f"({best}>{bare})")
    kind, index_kind = scalar_type(function, best), scalar_type(function, place)
    if kind is not None and loses_digits(function, kind, writes[best][0]):
        return None
    counts = _count(loop.body, best) == 2 and _count(loop.body, place) == 1
    if not (is_larger or is_smaller) or kind is None or index_kind is None or not counts or best in names_in_text(value):
        return None
    return Reduction(best, kind, "first max" if is_larger else "first min", place)


def _place(function: Node, loop: CountedLoop, writes: dict[str, list[Node]]) -> Reduction | None:
    """Return the reduction `if (x[i] > x[place]) place = i;`, or None."""
    if len(writes) != 1 or len(next(iter(writes.values()))) != 1:
        return None
    ((place, (update,)),) = writes.items()
    test = next((p for p in ancestors(update) if p.type == "if_statement" and p.start_byte >= loop.body.start_byte), None)
    if test is None or text_of(update.child_by_field_name("right")) != loop.index or _count(loop.body, place) != 2:
        return None
    kind, condition = scalar_type(function, place), test.child_by_field_name("condition")
    match = re.fullmatch(r"\(?(.+?)([<>])([^<>=]+?)\)?", re.sub(r"\s+", "", text_of(condition)))
    if match is None or kind is None or test.child_by_field_name("alternative") is not None or "=" in match[0]:
        return None
    left, sign, right = match.groups()
    if loop.index in names_in_text(right):
        left, sign, right = right, "<" if sign == ">" else ">", left
    value = substituted(left, loop.index, "@")
    if value != substituted(right, place, "@"):
        return None
    changing = {place, loop.index} | declared_in(loop.body) | assigned_names(loop.body)
    if "@" not in value or names_in_text(value) & changing:
        return None
    return Reduction(place, kind, "first max" if sign == ">" else "first min", place, value)


def _scaled(function: Node, loop: CountedLoop, writes: dict[str, list[Node]]) -> Reduction | None:
    """Return sums that are relative to the largest value so far, or None."""
    kinds = {scalar_type(function, name) for name in writes}
    kind = kinds.pop() if len(kinds) == 1 else None
    found = scaled_sums(loop, set(writes), kind) if kind in ("float", "double") else None
    if found is None or kind is None:
        return None
    return Reduction(found.top, kind, "scaled sums", scaled=found)


def names_in_text(text: str) -> set[str]:
    """Return the identifiers in a text."""
    return set(re.findall(r"[A-Za-z_]\w*", text))


def stores_of(function: Node, loop: CountedLoop, nonzero: Collection[str] = ()) -> bool | str:
    """Return whether a loop stores to memory, or the reason why stores may reach the same element or one that is read."""
    read, written = touched(function, loop.body)
    if read is None or written is None:
        return "uses a pointer to an unknown buffer"
    private = declared_in(loop.body)
    changing = private | {text_of(n.child_by_field_name("left")) for n in walk(loop.body) if n.type == "assignment_expression"}
    for root in sorted(written - private):
        accesses = [n for n in walk(loop.body) if n.type == "subscript_expression" and _root(function, n) == root]
        texts = {re.sub(r"\s+", "", text_of(n)) for n in accesses}
        index = subscript_index(accesses[0]) if accesses else None
        if len(texts) > 1 or index is None or root in dereferenced(function, loop.body):
            return f"accesses {root} at several positions"
        if not is_consecutive(index, loop.index, nonzero) or (names_in(accesses[0]) - {loop.index}) & changing:
            return f"may store several times to one element of {root}"
        if any(loop_of(n) != loop.node for n in accesses if is_written(n)):
            return f"stores to {root} in an inner loop"
    return bool(written - private)


def loop_of(node: Node) -> Node | None:
    """Return the innermost loop around a node."""
    kinds = ("for_statement", "while_statement", "do_statement", "for_range_loop")
    return next((parent for parent in ancestors(node) if parent.type in kinds), None)


def _root(function: Node, access: Node) -> str | None:
    base = access.child_by_field_name("argument")
    while base is not None and base.type == "subscript_expression":
        base = base.child_by_field_name("argument")
    return root_of(function, text_of(base)) if base is not None and base.type == "identifier" else None
