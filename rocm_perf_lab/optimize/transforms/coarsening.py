"""Several elements per work-item, for kernels with independent work-items.

    int i = blockIdx.x * 256 + threadIdx.x;          int i_0 = (blockIdx.x * 256 + threadIdx.x) * 2; int i_1 = i_0 + 1;
    if (i < n) y[i] = 2 * x[i];               ->     if (i_0 < n && i_1 < n) { y[i_0] = 2 * x[i_0]; y[i_1] = 2 * x[i_1]; }
                                                     else { ... each element with its test ... }

Consecutive elements are loaded and stored as vectors, several loads are in flight at the same time, and common values are loaded
and computed once: coefficients, neighbours, a row for several columns. Elements along two axes form a matrix block in registers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.languages.source_launch import LaunchDescriptor, launch_descriptor, launched
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.syntax_nodes import called_name, function_declarator, is_statement, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.element_copies import ElementAxis, ElementCopies, indented, local_arrays
from rocm_perf_lab.optimize.transforms.launch_edits import with_launch
from rocm_perf_lab.optimize.transforms.launch_shapes import independent_indices
from rocm_perf_lab.optimize.transforms.parameters import RestrictPointers
from rocm_perf_lab.optimize.transforms.pure_calls import is_pure_call
from rocm_perf_lab.optimize.transforms.reductions import declared_in
from rocm_perf_lab.optimize.transforms.rewriting import (
    Edit,
    apply_within,
    assigned_names,
    initialiser,
    is_atomic,
    names_in,
    newline,
    unused_name,
)
from rocm_perf_lab.optimize.transforms.thread_indices import (
    LaunchSizes,
    computes,
    covering,
    early_return,
    only_computes,
    statements,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.thread_indices import GlobalIndex

_UNSUPPORTED = re.compile(r"\b(?:__threadfence\w*|volatile|asm|static|extern|goto|__builtin_nontemporal_\w+)\b")
_UNSUPPORTED_NODES = {"lambda_expression": "a lambda", "ERROR": "unknown syntax", "reference_declarator": "references"}
_CONTROL = frozenset({"return", "goto", "for", "while", "do", "break", "continue", "switch"})


@dataclass(frozen=True)
class _Test:
    """Condition of an element, or of an early return. `before` contains the preceding statements, which have no side effects."""

    condition: Node
    returns: Node | None
    before: tuple[Node, ...]


class CoarsenWorkItems:
    """Assigns several elements to each work-item: consecutive ones along an axis, a block of two axes, or a workgroup size apart.

    Args:
        kernel: Description.
        elements: Elements along x, for kernels with one axis.
        blocks: Elements along x, y and z, for kernels with several axes.
    """

    name = "coarsening"

    def __init__(
        self,
        *,
        kernel: KernelDescription,
        elements: Sequence[int] = (2, 4, 8),
        blocks: Sequence[Sequence[int]] = ((1, 4), (4, 1), (4, 4), (2, 2), (1, 8), (1, 1, 4)),
    ) -> None:
        self._kernel = kernel
        self._elements = tuple(elements)
        self._blocks = [tuple(block) for block in blocks]

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per number of elements; for one axis, those with distant elements come last."""
        found = self._analysed(unit)
        if isinstance(found, str):
            return ()
        if len(found.indices) == 1:
            (axis,) = found.indices
            counts = [{axis: count} for count in self._elements]
            return (*(found.rewrite(count) for count in counts), *(found.rewrite(count, apart=True) for count in counts[1:2]))
        blocks = [{axis: count for axis, count in zip("xyz", block, strict=False) if count > 1} for block in self._blocks]
        return tuple(found.rewrite(block) for block in blocks if set(block) <= set(found.indices))

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the reason why the kernel is not rewritten."""
        found = self._analysed(unit)
        return (Rejection(line_of(unit.kernel), found),) if isinstance(found, str) else ()

    def _analysed(self, unit: SourceUnit) -> _Elements | str:
        launch = launch_descriptor(unit.content.decode(errors="replace"))
        kernel = self._kernel if launch is None else launched(self._kernel, launch)
        indices = independent_indices(unit, kernel)
        if isinstance(indices, str):
            return indices
        body = unit.kernel.child_by_field_name("body") or unit.kernel
        if (obstacle := _obstacle(unit, body)) is not None:
            return obstacle
        if any(initialiser(unit.kernel, index.name) is None for index in indices.values()):
            return "assigns an index"
        tests, nodes = _tests(statements(body))
        early = [test.returns for test in tests if test.returns is not None]
        if any(node.type == "return_statement" and not any(node in walk(test) for test in early) for node in walk(body)):
            return "returns after an access to memory"
        return _Elements(unit, kernel, launch or LaunchDescriptor.model_validate({}), indices, tests, nodes)


@dataclass(frozen=True)
class _Elements:
    """Kernel with one element per work-item: bounds checks of its indices, and the statements for an element."""

    unit: SourceUnit
    kernel: KernelDescription
    launch: LaunchDescriptor
    indices: dict[str, GlobalIndex]
    tests: list[_Test]
    nodes: list[Node]

    def rewrite(self, counts: dict[str, int], *, apart: bool = False) -> Rewrite:
        """Return the kernel with several elements per work-item.

        Args:
            counts: Elements by axis.
            apart: Whether elements are a workgroup size apart instead of consecutive.
        """
        block = LaunchSizes(self.kernel).block or (1, 1, 1)
        grid = LaunchSizes(self.kernel).grid
        axes = {}
        for axis, elements in counts.items():
            place, index = "xyz".index(axis), self.indices[axis]
            size = block[place]
            grid[place] = covering(self.kernel, grid[place], size, size * elements)
            item = f"{index.cast}blockIdx.{axis} * {size * elements if apart else size} + threadIdx.{axis}"
            first, step = (item, size) if apart else (f"({item}) * {elements}", 1)
            axes[axis] = ElementAxis(index.name, index.node, elements, first, step)
        launch = self.launch.model_copy(update={"grid": tuple(grid), "block": block})
        text = with_launch(self.unit, launch, [self._edit(axes)])
        restricted = RestrictPointers().propose(parse_source(text.encode(), self.unit.entry))
        where = "a workgroup apart" if apart else f"along {' and '.join(counts)}"
        shown = " x ".join(str(count) for count in counts.values())
        return Rewrite(f"{shown} elements per work-item, {where}", restricted[0].text if restricted else text)

    def _edit(self, axes: dict[str, ElementAxis]) -> Edit:
        """Return the edit of the body: elements together if all are within bounds, else one after another."""
        body = self.unit.kernel.child_by_field_name("body")
        assert body is not None
        before = [node for test in self.tests for node in test.before]
        copies = ElementCopies(self.unit, axes, [*before, *self.nodes])
        conditions = [
            f"{'' if test.returns is None else '!'}{copies.copy(test.condition, at)}"
            for test in self.tests
            for at in copies.elements()
        ]
        lines = [
            "{",
            *(line for node in before for line in copies.copies(node)),
            f"if ({' && '.join(dict.fromkeys(conditions))}) {{",
            *(line for node in self.nodes for line in copies.copies(node)),
            "} else {",
            *self._one_after_another(body, axes),
            "}",
            "}",
        ]
        return Edit(body.start_byte, body.end_byte, newline(self.unit.content).join(indented(lines)))

    def _one_after_another(self, body: Node, axes: dict[str, ElementAxis]) -> list[str]:
        prefix = unused_name(self.unit, "one_")
        edits = [
            Edit(axis.initialiser.start_byte, axis.initialiser.end_byte, f"{axis.first} + {prefix}{name} * {axis.step}")
            for name, axis in axes.items()
        ]
        returns = [node for test in self.tests if test.returns is not None for node in walk(test.returns)]
        edits += [Edit(node.start_byte, node.end_byte, "continue;") for node in returns if node.type == "return_statement"]
        start = body.start_byte + 1
        text = apply_within(self.unit.content[start : body.end_byte - 1], start, edits)
        loops = [
            f"for (int {prefix}{name} = 0; {prefix}{name} < {axis.count}; ++{prefix}{name}) {{" for name, axis in axes.items()
        ]
        return [*(line for loop in loops for line in ("#pragma unroll 1", loop)), text.strip("\r\n"), *("}" for _ in loops)]


def _tests(nodes: list[Node]) -> tuple[list[_Test], list[Node]]:
    """Return the tests before the first access to memory, and the statements after them."""
    tests: list[_Test] = []
    before: list[Node] = []
    rest = nodes
    while rest:
        node, *rest = rest
        returned = early_return(node)
        is_last = node.type == "if_statement" and not rest and node.child_by_field_name("alternative") is None
        condition = returned or (node.child_by_field_name("condition") if is_last else None)
        if condition is not None and computes(condition):
            tests.append(_Test(condition, None if returned is None else node, tuple(before)))
            before = []
            inside = node.child_by_field_name("consequence")
            rest = rest if returned is not None or inside is None else statements(inside)
        elif only_computes(node):
            before.append(node)
        else:
            return tests, [*before, node, *rest]
    return tests, before


def _obstacle(unit: SourceUnit, body: Node) -> str | None:
    """Return the reason why statements cannot be copied for several elements, or None."""
    parameters = function_declarator(unit.kernel).child_by_field_name("parameters")
    local, arrays = declared_in(body), local_arrays(body)
    if (found := _UNSUPPORTED.search(text_of(body))) is not None:
        return f"uses {found[0]}"
    for function in unit.functions():
        for node in walk(function):
            if node.type in _UNSUPPORTED_NODES:
                return f"uses {_UNSUPPORTED_NODES[node.type]}"
            if node.type == "call_expression" and (name := _unknown_call(unit, node)) is not None:
                return f"calls {name}"
    if (others := assigned_names(body) - local) or (others := local & names_in(parameters or body)):
        return f"assigns {min(others)}"
    for node in walk(body):
        if node.type != "identifier":
            continue
        name, parent = text_of(node), node.parent
        if parent is None or unit.expanded(name) & {*local, *_CONTROL}:
            return f"uses the macro {name}"
        is_element = parent.type in ("subscript_expression", "array_declarator")
        if name in arrays and not is_element:
            return f"uses the address of {name}"
        if name in local and parent.type == "pointer_expression" and text_of(parent).startswith("&"):
            return f"uses the address of {name}"
    return None


def _unknown_call(unit: SourceUnit, call: Node) -> str | None:
    """Return the name of a called function that may synchronise work-items or whose calls are ordered, or None."""
    name = called_name(call)
    if is_pure_call(name) or any(node.type == "function_definition" for node in unit.reachable(call) if node != call):
        return None
    return None if is_statement(call) and is_atomic(call) else name
