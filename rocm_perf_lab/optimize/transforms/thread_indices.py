"""Indices that a kernel derives from the work-item, `blockIdx.x * blockDim.x + threadIdx.x`, and early returns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.expressions import ExpressionError, evaluate, evaluate_integer
from rocm_perf_lab.languages.arguments import BufferArgument, ScalarArgument
from rocm_perf_lab.optimize.syntax_nodes import called_name, function_declarator, text_of, walk
from rocm_perf_lab.optimize.transforms.rewriting import assigned_names, initialiser

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tree_sitter import Node

    from rocm_perf_lab.languages.arguments import Argument
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_CASTED = re.compile(r"\((?:const )?(?:int|unsigned|unsigned int|size_t|long|long long|uint32_t|int64_t)\)")
_CASTS = re.compile(r"\((?:const )?(?:int|unsigned|unsigned int|size_t|long|long long|uint32_t|int64_t)\)|\s+|[()]")
_BUILTIN = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]\b")


_BUILTINS = frozenset({"threadIdx", "blockIdx", "blockDim", "gridDim"})
_OTHER_BUILTIN = re.compile(
    r"hip(?:Thread|Block|Grid)(?:Idx|Dim)_[xyz]|__builtin_amdgcn_(?:workitem|workgroup|grid|dispatch|mbcnt)\w*|__lane_id|"
    r"__ockl_get_\w+|get_(?:global|local|group)_(?:id|size|linear_id)|this_(?:thread_block|grid)|thread_rank|cooperative_groups|cg"
)
_HARMLESS_CALL = re.compile(r"f?(?:min|max|abs)f?|static_cast|int|float|unsigned")


@dataclass(frozen=True)
class GlobalIndex:
    """Variable with the global index of the work-item along one axis. `node` is the initialiser."""

    name: str
    axis: str
    node: Node

    @property
    def cast(self) -> str:
        """Cast to 64 bits for the initialiser, if the source computes it in 64 bits; else empty."""
        return "(size_t)" if re.search(r"size_t|long|int64", text_of(self.node)) else ""


class LaunchSizes:
    """Workgroup size of a description, and the macros that have its value.

    Args:
        kernel: Description with a workgroup size.
    """

    def __init__(self, kernel: KernelDescription) -> None:
        self._kernel = kernel

    @property
    def block(self) -> tuple[int, int, int] | None:
        """Return the workgroup size, or None if it has none or cannot be evaluated."""
        try:
            sizes = [evaluate_integer(e, self._kernel.params, where="kernel.block") for e in self._kernel.block]
        except ExpressionError:
            return None
        x, y, z = (*sizes, 1, 1, 1)[:3]
        return (x, y, z) if sizes else None

    @property
    def grid(self) -> list[str]:
        """Expressions of the number of workgroups along x, y and z."""
        return [*map(str, self._kernel.grid), "1", "1", "1"][:3]

    def value(self, unit: SourceUnit, text: str) -> int | None:
        """Return the value of a literal or of a macro, or None."""
        text = text.strip()
        if text.isdigit():
            return int(text)
        if text in self._kernel.defines:
            try:
                found = evaluate(self._kernel.defines[text], self._kernel.params, where="kernel.defines")
            except ExpressionError:
                return None
            return int(found) if isinstance(found, int) else None
        return unit.macro_value(text)

    def global_indices(self, unit: SourceUnit) -> dict[str, GlobalIndex]:
        """Return the variables that are the global index of an axis, by axis, except axes with several."""
        block = self.block
        found: dict[str, list[GlobalIndex]] = {}
        for node in walk(unit.kernel) if block is not None else ():
            if node.type != "init_declarator":
                continue
            name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
            if name is None or value is None or name.type != "identifier":
                continue
            axis = self._axis(unit, value, block or (1, 1, 1))
            if axis is not None:
                found.setdefault(axis, []).append(GlobalIndex(text_of(name), axis, value))
        return {axis: rows[0] for axis, rows in found.items() if len(rows) == 1}

    def covers(self, unit: SourceUnit, bounds: Mapping[str, str]) -> bool:
        """Return whether the described launch has a work-item for each index below its bound.

        A launch with more work-items then computes nothing else.

        Args:
            unit: Source.
            bounds: Name or number that limits the index of an axis, by axis.
        """
        for axis, bound in bounds.items():
            place = "xyz".index(axis)
            elements = self._size(unit, bound)
            try:
                groups = evaluate_integer((*self._kernel.grid, 1, 1)[place], self._kernel.params, where="kernel.grid")
            except ExpressionError:
                return False
            if elements is None or groups * (self.block or (0, 0, 0))[place] < elements:
                return False
        return True

    def _size(self, unit: SourceUnit, text: str, *, depth: int = 4) -> int | None:
        """Return the value of an expression over arguments, macros and variables of the kernel, or None."""
        values: dict[str, int] = {}
        arguments = self.scalars(unit)
        for name in set(re.findall(r"[A-Za-z_]\w*", _CASTED.sub("", text))):
            argument = arguments.get(name)
            local = initialiser(unit.kernel, name)
            try:
                if argument is not None:
                    values[name] = evaluate_integer(argument.value, self._kernel.params, where=name)
                elif (known := self.value(unit, name)) is not None:
                    values[name] = known
                elif local is not None and depth and (found := self._size(unit, text_of(local), depth=depth - 1)) is not None:
                    values[name] = found
                else:
                    return None
            except ExpressionError:
                return None
        bare = re.sub(r"(?<=\d)[uUlL]+", "", _CASTED.sub("", text)).replace("/", "//")
        try:
            return evaluate_integer(bare, values, where="kernel")
        except ExpressionError:
            return None

    def scalars(self, unit: SourceUnit) -> dict[str, ScalarArgument]:
        """Return scalar arguments by the names of the parameters that the kernel does not assign."""
        changed = assigned_names(unit.kernel.child_by_field_name("body") or unit.kernel)
        named = self._arguments(unit)
        return {name: a for name, a in named.items() if isinstance(a, ScalarArgument) and name not in changed}

    def buffers(self, unit: SourceUnit) -> dict[str, BufferArgument]:
        """Return buffers by the names of the kernel's parameters."""
        return {name: a for name, a in self._arguments(unit).items() if isinstance(a, BufferArgument)}

    def _arguments(self, unit: SourceUnit) -> dict[str, Argument]:
        """Return arguments by the names of the parameters at their positions, which may differ from those in the description."""
        parameters = function_declarator(unit.kernel).child_by_field_name("parameters")
        given = [c for c in parameters.named_children if c.type == "parameter_declaration"] if parameters is not None else []
        if len(given) != len(self._kernel.arguments):
            return {}
        return {_parameter_name(parameter): a for parameter, a in zip(given, self._kernel.arguments, strict=True)}

    def _axis(self, unit: SourceUnit, value: Node, block: tuple[int, int, int]) -> str | None:
        bare = _CASTS.sub("", text_of(value))
        for number, axis in enumerate("xyz"):
            terms = sorted(bare.split("+"))
            if len(terms) != 2 or terms[1] != f"threadIdx.{axis}":
                continue
            factors = sorted(terms[0].split("*"))
            if f"blockIdx.{axis}" not in factors or len(factors) != 2:
                continue
            other = next(f for f in factors if f != f"blockIdx.{axis}")
            if other == f"blockDim.{axis}" or self.value(unit, other) == block[number]:
                return axis
        return None


def _parameter_name(parameter: Node) -> str:
    declarator = parameter.child_by_field_name("declarator")
    names = [text_of(node) for node in walk(declarator) if node.type == "identifier"] if declarator is not None else []
    return names[-1] if names else ""


def builtin_uses(node: Node, *, without: tuple[Node, ...] = ()) -> set[str]:
    """Return the work-item builtins that are used in a node, outside of the nodes `without`."""
    spans = [(n.start_byte, n.end_byte) for n in without]
    return {
        text_of(inner).replace(" ", "")
        for inner in walk(node)
        if inner.type == "field_expression"
        and _BUILTIN.fullmatch(text_of(inner))
        and not any(start <= inner.start_byte < end for start, end in spans)
    }


def hidden_index(unit: SourceUnit) -> str | None:
    """Return the way in which a source uses work-item builtins other than as a member access in the kernel, or None."""
    for function in unit.functions():
        for node in walk(function):
            if node.type not in ("identifier", "type_identifier"):
                continue
            name = text_of(node)
            if is_hidden_index(unit, name):
                return name
            is_member = node.parent is not None and node.parent.type == "field_expression"
            if name in _BUILTINS and (not is_member or function != unit.kernel):
                return name
    return None


def _is_builtin(name: str) -> bool:
    """Return whether an identifier is a builtin that differs between work-items or launches."""
    return name in _BUILTINS or _OTHER_BUILTIN.fullmatch(name) is not None


def is_hidden_index(unit: SourceUnit, name: str) -> bool:
    """Return whether an identifier is an index of the work-item: a macro with a builtin, or another builtin."""
    return _OTHER_BUILTIN.fullmatch(name) is not None or any(map(_is_builtin, unit.expanded(name)))


def early_return(statement: Node) -> Node | None:
    """Return the condition of `if (condition) return;`, or None."""
    if statement.type != "if_statement" or statement.child_by_field_name("alternative") is not None:
        return None
    inner = statement.child_by_field_name("consequence")
    if inner is not None and inner.type == "compound_statement":
        children = [c for c in inner.named_children if c.type != "comment"]
        inner = children[0] if len(children) == 1 else None
    is_return = inner is not None and inner.type == "return_statement" and not inner.named_children
    return statement.child_by_field_name("condition") if is_return else None


def statements(body: Node) -> list[Node]:
    """Return the statements of a block without comments, or the statement itself."""
    if body.type != "compound_statement":
        return [body]
    return [child for child in body.named_children if child.type != "comment"]


@dataclass(frozen=True)
class Guarded:
    """Statements of a kernel without the bounds checks of its indices.

    Args:
        nodes: Statements.
        bounds: Limit of each index.
        others: Conditions for an early return that name no index.
    """

    nodes: list[Node]
    bounds: dict[str, str]
    others: list[str]


def guarded(nodes: list[Node], names: set[str], *, partial: bool = False) -> Guarded | None:
    """Return the statements guarded by tests that limit all indices, or None.

    Statements before the last test must be free of side effects, because additional work-items may execute them.

    Args:
        nodes: Statements of the kernel.
        names: Indices.
        partial: Whether tests may also exclude other elements, as in `i > 0 && i < n - 1`. The result does not contain these.
    """
    found = Guarded([], {}, [])
    while True:
        inner: list[Node] = []
        for place, node in enumerate(nodes):
            returned = early_return(node) if set(found.bounds) != names else None
            if returned is not None:
                if not _add_bounds(found, returned, names, outside=True, partial=partial):
                    return None
                continue
            condition = node.child_by_field_name("condition") if node.type == "if_statement" else None
            is_last = place == len(nodes) - 1 and node.child_by_field_name("alternative") is None
            if condition is not None and is_last and set(found.bounds) != names:
                block = node.child_by_field_name("consequence")
                if block is None or not _add_bounds(found, condition, names, outside=False, partial=partial):
                    return None
                inner = statements(block)
                continue
            if set(found.bounds) != names and not only_computes(node):
                return None
            found.nodes.append(node)
        if not inner:
            return found if set(found.bounds) == names else None
        nodes = inner


def only_computes(statement: Node) -> bool:
    """Return whether a statement is a declaration or an expression without accesses to memory and calls."""
    return statement.type in (
        "declaration", "expression_statement", "type_definition", "alias_declaration", ";"
    ) and computes(statement)  # fmt: skip


def computes(part: Node) -> bool:
    """Return whether code has no memory accesses, and only calls simple functions."""
    for node in walk(part):
        is_dereferenced = node.type == "pointer_expression" and text_of(node).startswith("*")
        is_call = node.type == "call_expression" and _HARMLESS_CALL.fullmatch(called_name(node)) is None
        if node.type == "subscript_expression" or is_dereferenced or is_call or text_of(node) == "->":
            return False
    return True


def _add_bounds(found: Guarded, condition: Node, names: set[str], *, outside: bool, partial: bool) -> bool:
    """Add the bounds in `row >= m || col >= n` (outside) or `row < m && col < n`; return False for other conditions."""
    for part in without_parentheses(text_of(condition)).split("||" if outside else "&&"):
        if "||" in part or "&&" in part:
            return False
        match = re.fullmatch(r"(\w+)\s*(>=|<)\s*([\w\s()*/+-]+)", without_parentheses(part))
        limit = without_parentheses(match[3]) if match is not None else ""
        is_limit = limit.count("(") == limit.count(")") and not re.search(r"\w\s*\(|\)\s*\w", _CASTED.sub("", limit))
        named = set(re.findall(r"[A-Za-z_]\w*", part))
        if (
            match is not None
            and is_limit
            and match[1] in names
            and match[2] == (">=" if outside else "<")
            and (not names & set(re.findall(r"[A-Za-z_]\w*", limit)) and match[1] not in found.bounds)
        ):
            found.bounds[match[1]] = limit if limit.isidentifier() or limit.isdigit() else f"({limit})"
        elif part.count("(") == part.count(")") and (partial or not names & named):
            if not names & named:
                found.others.append(part.strip() if outside else f"!({part.strip()})")
        else:
            return False
    return True


def without_parentheses(text: str) -> str:
    """Return a text without outer parentheses and with single spaces."""
    text = re.sub(r"\s+", " ", text).strip()
    while text.startswith("(") and text.endswith(")") and _closes_at_end(text):
        text = text[1:-1].strip()
    return text


def _closes_at_end(text: str) -> bool:
    """Return whether the first parenthesis is closed by the last character."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def covering(kernel: KernelDescription, grid: str, old: int, new: int) -> str:
    """Return an expression for the number of workgroups of size `new` that cover those of size `old`."""
    match = re.fullmatch(r"ceil_div\((?P<items>[^(),]+), *(?P<block>\w+)\)", grid)
    if match is not None:
        try:
            if evaluate_integer(match["block"], kernel.params, where="kernel.grid") == old:
                return f"ceil_div({match['items'].strip()}, {new})"
        except ExpressionError:
            pass
    return f"ceil_div(({grid}) * {old}, {new})"
