"""Aggregation of atomics per workgroup: sums in registers, histograms in LDS, then one atomic per result.

A work-item then processes several elements in a loop over the grid, so that fewer atomics reach memory. This applies to kernels
with one index, whose atomics are on one address or on the elements of a buffer with a known size. The order of floating-point
additions changes, which is undefined with atomics anyway.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import evaluate_integer
from rocm_perf_lab.languages.source_launch import LaunchDescriptor, launch_descriptor
from rocm_perf_lab.optimize.syntax_nodes import ancestors, called_name, is_statement, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.lane_reductions import group_function
from rocm_perf_lab.optimize.transforms.launch_edits import with_launch
from rocm_perf_lab.optimize.transforms.memory_roots import root_of
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.reductions import declared_in
from rocm_perf_lab.optimize.transforms.rewriting import (
    Edit,
    apply_within,
    assigned_names,
    element_type,
    subscript_index,
    top_level,
)
from rocm_perf_lab.optimize.transforms.thread_indices import (
    LaunchSizes,
    builtin_uses,
    covering,
    guarded,
    hidden_index,
    statements,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.thread_indices import GlobalIndex

_BLOCK = 256
_MOST_LDS_BYTES = 32 * 1024
_OPERATIONS = {f"atomic{name}": name.lower() for name in ("Max", "Min", "Or", "And", "Xor")} | {"atomicAdd": "sum"}
_SIGNED, _UNSIGNED = ("int", "int32_t"), ("unsigned", "unsigned int", "uint32_t")
_SIZES = dict.fromkeys((*_SIGNED, *_UNSIGNED, "float"), 4) | dict.fromkeys(("double", "unsigned long long"), 8)
_NEUTRAL: dict[str, dict[str, str]] = {
    "max": dict.fromkeys(_SIGNED, "(-2147483647 - 1)") | dict.fromkeys(_UNSIGNED, "0"),
    "min": dict.fromkeys(_SIGNED, "2147483647") | dict.fromkeys(_UNSIGNED, "0xffffffffu"),
}
_ACCUMULATED = {
    "sum": "{place} += {value}",
    "or": "{place} |= {value}",
    "and": "{place} &= {value}",
    "xor": "{place} ^= {value}",
    "max": "{place} = max({place}, {value})",
    "min": "{place} = min({place}, {value})",
}


@dataclass(frozen=True)
class _Target:
    """Results of atomics.

    Args:
        base: Pointer parameter.
        place: Address of the only result as text; None for the elements of a buffer.
        count: Number of elements as text, for elements of a buffer.
        element: Element type.
        operation: Operation that combines values.
    """

    base: str
    place: str | None
    count: str | None
    element: str
    operation: str

    def neutral(self) -> str:
        """Return the neutral value of the operation."""
        if self.operation == "and":
            return f"({self.element})~0"
        return _NEUTRAL[self.operation][self.element] if self.operation in _NEUTRAL else "0"


@dataclass(frozen=True)
class _Plan:
    index: GlobalIndex
    bound: str
    body: tuple[Node, ...]
    before: tuple[Node, ...]
    calls: tuple[tuple[Node, _Target, str | None], ...]
    """Atomics with the index of their element as text, None for one address."""


class GridAtomics:
    """Aggregates atomics per workgroup.

    Args:
        kernel: Description with a one-dimensional launch.
        items: Elements per work-item.
        groups: Maximum number of workgroups.
    """

    name = "atomics per workgroup"

    def __init__(self, *, kernel: KernelDescription, items: Sequence[int] = (4, 16), groups: Sequence[int] = (304, 1216)) -> None:
        if any(count < 1 for count in (*items, *groups)):
            raise LabError(
                "items and groups must be positive", where="optimizer.transforms: items", hint="for example items: [4]"
            )
        self._kernel = kernel
        self._variants = [(count, most) for count in items for most in groups]

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per launch."""
        plan = self._plan(unit)
        if isinstance(plan, str):
            return ()
        found: dict[tuple[int, int], Rewrite] = {}
        for items, most in self._variants:
            groups = self._groups(items)
            described = min(evaluate_integer(groups, self._kernel.params, where="kernel.grid"), most)
            text = self._rewritten(unit, plan, f"min({groups}, {most})")
            description = f"{self._collected(plan)}, {items} elements per work-item, at most {most} workgroups"
            found.setdefault((items, described), Rewrite(description, text))
        return tuple(found.values())

    def _groups(self, items: int) -> str:
        """Return the number of workgroups for this number of elements per work-item."""
        old = (LaunchSizes(self._kernel).block or (1, 1, 1))[0]
        return covering(self._kernel, str(self._kernel.grid[0]), old, _BLOCK * items)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the reason why the kernel is not rewritten."""
        plan = self._plan(unit)
        return (Rejection(line_of(unit.kernel), plan),) if isinstance(plan, str) else ()

    def _collected(self, plan: _Plan) -> str:
        is_lds = any(target.place is None for _, target, _ in plan.calls)
        return "atomics in LDS" if is_lds else "one atomic per workgroup"

    def _plan(self, unit: SourceUnit) -> _Plan | str:
        sizes = LaunchSizes(self._kernel)
        block, body = sizes.block, unit.kernel.child_by_field_name("body")
        if launch_descriptor(unit.content.decode(errors="replace")) is not None:
            return "its launch is already rewritten"
        if block is None or block[1:] != (1, 1) or len(self._kernel.grid) != 1 or self._kernel.cooperative or body is None:
            return "its launch does not have one axis"
        index = sizes.global_indices(unit).get("x")
        if index is None:
            return "no variable is the global index of the work-item"
        others = builtin_uses(unit.kernel, without=(index.node,))
        if (hidden := hidden_index(unit)) is not None:
            return f"uses {hidden}"
        if others or "__shared__" in text_of(unit.kernel):
            return f"uses {sorted(others)[0] if others else '__shared__'}"
        tested = guarded(statements(body), {index.name})
        if tested is None:
            return "its index has no bound"
        if tested.others:
            return f"returns early for {tested.others[0]}"
        return self._checked(unit, index, tested.bounds[index.name], tested.nodes)

    def _checked(self, unit: SourceUnit, index: GlobalIndex, bound: str, flat: list[Node]) -> _Plan | str:
        if not LaunchSizes(self._kernel).covers(unit, {"x": bound}):
            return f"the launch is not known to cover {bound} elements"
        declared = next(node for node in flat if node.start_byte <= index.node.start_byte < node.end_byte)
        place = flat.index(declared)
        if len(declared.children_by_field_name("declarator")) != 1 or any(node.type != "declaration" for node in flat[:place]):
            return f"declares more than {index.name} at once"
        body = flat[place + 1 :]
        atomics: list[Node] = []
        if any(node.type == "reference_declarator" for part in body for node in walk(part)) or "volatile" in text_of(unit.kernel):
            return "uses references or volatile memory"
        for part in body:
            for node in walk(part):
                if node.type in ("return_statement", "goto_statement") or text_of(node) == "static":
                    return f"line {line_of(node)}: {text_of(node)}"
                if node.type == "call_expression" and called_name(node) in _OPERATIONS:
                    atomics.append(node)
                elif (node.type == "pointer_expression" and text_of(node).startswith("*")) or text_of(node) == "->":
                    return "dereferences a pointer"
                elif node.type == "call_expression" and (impure := impure_call(unit, node)) not in (None, *_OPERATIONS):
                    return f"calls {impure}"
        targets: dict[str, _Target] = {}
        calls = []
        for call in atomics:
            found = self._target(unit, call)
            if isinstance(found, str):
                return f"line {line_of(call)}: {found}"
            target, element = found
            if targets.setdefault(target.base, target) != target:
                return f"line {line_of(call)}: several kinds of atomics on {target.base}"
            calls.append((call, target, element))
        if not calls:
            return "has no atomics"
        addressed = [inner for call in atomics if (inner := _accessed(call)) is not None]
        for node in walk(unit.kernel):
            if node.type == "subscript_expression" and node not in addressed:
                base = node.child_by_field_name("argument")
                root = root_of(unit.kernel, text_of(base)) if base is not None else None
                if root is None or root in targets:
                    return f"line {line_of(node)}: accesses {text_of(node)}"
        if sum(target.place is None for target in targets.values()) > 1:
            return "has atomics on the elements of several buffers"
        carried = _carried(body)
        if carried is not None:
            return f"carries {carried} from one element to the next"
        return _Plan(index, bound, tuple(body), tuple(flat[:place]), tuple(calls))

    def _target(self, unit: SourceUnit, call: Node) -> tuple[_Target, str | None] | str:
        given = [c for c in (call.child_by_field_name("arguments") or call).named_children if c.type != "comment"]
        if not is_statement(call) or len(given) != 2:
            return "the result of an atomic is used"
        address, operation = given[0], _OPERATIONS[called_name(call)]
        base, index = _parts(address)
        if base is None or root_of(unit.kernel, base) != base:
            return f"{text_of(address)} is no element of a parameter"
        element = element_type(unit.kernel, base)
        if element not in _SIZES or (operation in _NEUTRAL and element not in _NEUTRAL[operation]):
            return f"{called_name(call)} of {element} is not supported"
        if operation in ("or", "and", "xor") and element in ("float", "double"):
            return f"{called_name(call)} of {element} is not supported"
        if any(called_name(n) in _OPERATIONS for n in walk(given[1]) if n.type == "call_expression"):
            return "the result of an atomic is used"
        if index is None or re.fullmatch(r"\d+", text_of(index)):
            return _Target(base, text_of(address), None, element, operation), None
        count = self._count(unit, base)
        if count is None:
            return f"the number of elements of {base} is unknown in the kernel"
        buffer = LaunchSizes(self._kernel).buffers(unit)[base]
        elements = evaluate_integer(buffer.shape[0], self._kernel.params, where=base)
        if elements * _SIZES[element] > _MOST_LDS_BYTES:
            return f"{base} exceeds {_MOST_LDS_BYTES} bytes of LDS"
        return _Target(base, None, count, element, operation), text_of(index)

    def _count(self, unit: SourceUnit, base: str) -> str | None:
        """Return the number of elements of a buffer with one axis, as an argument, macro or number of the kernel."""
        buffer = LaunchSizes(self._kernel).buffers(unit).get(base)
        if buffer is None or len(buffer.shape) != 1:
            return None
        shape = str(buffer.shape[0])
        for name, argument in LaunchSizes(self._kernel).scalars(unit).items():
            if str(argument.value) == shape:
                return name
        macro = next((name for name, value in self._kernel.defines.items() if str(value) == shape), None)
        return macro or (shape if shape.isdigit() else None)

    def _rewritten(self, unit: SourceUnit, plan: _Plan, grid: str) -> str:
        body = unit.kernel.child_by_field_name("body")
        assert body is not None
        targets = tuple({target.base: target for _, target, _ in plan.calls}.values())
        kind = text_of(_declaration(plan.index.node).child_by_field_name("type"))
        lines = [text_of(node) for node in plan.before]
        lines += [line for target in targets for line in _prologue(target)]
        lines += [
            "#pragma unroll 4",
            f"for (long long rpl_item = blockIdx.x * {_BLOCK}ll + threadIdx.x; rpl_item < (long long)({plan.bound});"
            f" rpl_item += gridDim.x * {_BLOCK}ll) {{",
            f"const {kind} {plan.index.name} = rpl_item;",
            *(_collecting(unit, node, plan) for node in plan.body),
            "}",
        ]
        lines += [line for target in targets for line in _epilogue(target)]
        operations = sorted({target.operation for target in targets if target.place is not None})
        helpers = "".join(group_function(operation, _BLOCK) for operation in operations)
        edits = [Edit(body.start_byte, body.end_byte, "{\n  " + "\n  ".join(lines) + "\n}")]
        outermost = top_level(unit.kernel)
        edits.append(Edit(outermost.start_byte, outermost.start_byte, helpers))
        lds = [self._lds_bytes(unit, target) for target in targets if target.place is None]
        descriptor = LaunchDescriptor(grid=(grid,), block=(_BLOCK,), dynamic_lds_bytes=lds[0] if lds else None)
        return with_launch(unit, descriptor, edits)

    def _lds_bytes(self, unit: SourceUnit, target: _Target) -> str:
        buffer = LaunchSizes(self._kernel).buffers(unit)[target.base]
        return f"({buffer.shape[0]}) * {_SIZES[target.element]}"


def _parts(address: Node) -> tuple[str | None, Node | None]:
    """Return pointer and index of `&base[index]`, `base + index` or `base`; the pointer is None for others."""
    while address.type == "parenthesized_expression":
        address = address.named_children[0]
    if address.type == "identifier":
        return text_of(address), None
    if address.type == "pointer_expression" and text_of(address).startswith("&"):
        access = address.child_by_field_name("argument")
        base = access.child_by_field_name("argument") if access is not None and access.type == "subscript_expression" else None
        index = subscript_index(access) if access is not None and base is not None else None
        return (text_of(base), index) if base is not None and base.type == "identifier" and index is not None else (None, None)
    if address.type == "binary_expression" and text_of(address.child_by_field_name("operator")) == "+":
        base = address.child_by_field_name("left")
        return (
            (text_of(base), address.child_by_field_name("right"))
            if base is not None and base.type == "identifier"
            else (None, None)
        )
    return None, None


def _accessed(call: Node) -> Node | None:
    """Return `base[index]` of an atomic on `&base[index]`, or None."""
    address = (call.child_by_field_name("arguments") or call).named_children[0]
    while address.type == "parenthesized_expression":
        address = address.named_children[0]
    return address.child_by_field_name("argument") if address.type == "pointer_expression" else None


def _declaration(value: Node) -> Node:
    """Return the declaration around an initialiser."""
    return next(parent for parent in ancestors(value) if parent.type == "declaration")


def _carried(body: list[Node]) -> str | None:
    """Return a variable that may carry a value from one element to the next, or None."""
    found = {name for part in body for name in assigned_names(part)} - {name for part in body for name in declared_in(part)}
    return min(found, default=None)


def _prologue(target: _Target) -> list[str]:
    if target.place is not None:
        return [f"{target.element} rpl_of_{target.base} = {target.neutral()};"]
    return [
        f"extern __shared__ __attribute__((aligned(16))) {target.element} rpl_of_{target.base}[];",
        f"for (int rpl_i = threadIdx.x; rpl_i < {target.count}; rpl_i += {_BLOCK})",
        f"  rpl_of_{target.base}[rpl_i] = {target.neutral()};",
        "__syncthreads();",
    ]


def _epilogue(target: _Target) -> list[str]:
    name = next(name for name, operation in _OPERATIONS.items() if operation == target.operation)
    if target.place is not None:
        return [
            f"rpl_of_{target.base} = rpl_group_{target.operation}(rpl_of_{target.base});",
            f"if (threadIdx.x == 0) {name}({target.place}, rpl_of_{target.base});",
        ]
    return [
        "__syncthreads();",
        f"for (int rpl_i = threadIdx.x; rpl_i < {target.count}; rpl_i += {_BLOCK}) {{",
        f"  const {target.element} rpl_value = rpl_of_{target.base}[rpl_i];",
        f"  if (rpl_value != {target.neutral()}) {name}({target.base} + rpl_i, rpl_value);",
        "}",
    ]


def _collecting(unit: SourceUnit, part: Node, plan: _Plan) -> str:
    """Return a statement with its atomics redirected to values of the workgroup."""
    edits = []
    for call, target, index in plan.calls:
        if not part.start_byte <= call.start_byte < part.end_byte:
            continue
        given = [c for c in (call.child_by_field_name("arguments") or call).named_children if c.type != "comment"]
        if index is None:
            text = _ACCUMULATED[target.operation].format(
                place=f"rpl_of_{target.base}", value=f"({target.element})({text_of(given[1])})"
            )
        else:
            text = f"{called_name(call)}(&rpl_of_{target.base}[{index}], ({target.element})({text_of(given[1])}))"
        edits.append(Edit(call.start_byte, call.end_byte, text))
    return apply_within(unit.content[part.start_byte : part.end_byte], part.start_byte, edits)
