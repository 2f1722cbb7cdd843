"""Recognition of kernels that store one element per work-item from loads that are contiguous along the other axis.

    if (x < cols && y < rows) output[x * rows + y] = alpha * input[y * cols + x];

Work-items of such a kernel are independent: they store to buffers that they do not read elsewhere, and all variables are private
or uniform.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.languages.source_launch import launch_descriptor
from rocm_perf_lab.optimize.syntax_nodes import ancestors, function_declarator, text_of, walk
from rocm_perf_lab.optimize.transforms.access_positions import (
    AccessPositions,
    has_address_taken,
    initialises_pointer,
    is_access,
    read_only_load,
)
from rocm_perf_lab.optimize.transforms.memory_roots import dereferenced, root_of
from rocm_perf_lab.optimize.transforms.pure_calls import impure_call
from rocm_perf_lab.optimize.transforms.reductions import declared_in
from rocm_perf_lab.optimize.transforms.rewriting import (
    INDEX_TYPES,
    Edit,
    apply_within,
    assigned_names,
    element_type,
    initialiser,
    is_conditional,
    is_written,
    jumps_in,
    loops_in,
    names_in,
)
from rocm_perf_lab.optimize.transforms.thread_indices import (
    GlobalIndex,
    Guarded,
    builtin_uses,
    guarded,
    hidden_index,
    only_computes,
    statements,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.optimize.transforms.thread_indices import LaunchSizes

_UNSUPPORTED = re.compile(r"\b(?:__shared__|volatile|static|extern|asm|warpSize)\b")
_STATEMENTS = frozenset({"declaration", "expression_statement", "if_statement", "compound_statement"})
_NARROWEST = 16


@dataclass(frozen=True)
class BodyStatement:
    """Statement, or one variable of a declaration. `prefix` contains the type of the variable."""

    node: Node
    prefix: str = ""

    @property
    def text(self) -> str:
        """Return the statement as source text."""
        return self.with_edits([])

    def with_edits(self, edits: list[Edit]) -> str:
        """Return the statement after edits with positions of the source."""
        text = apply_within(self.node.text or b"", self.node.start_byte, edits)
        return f"{self.prefix} {text};" if self.prefix else text

    def declared(self) -> set[str]:
        """Return the variables that the statement declares."""
        return declared_in(self.node)

    def changed(self) -> set[str]:
        """Return the variables that the statement declares or assigns."""
        return self.declared() | assigned_names(self.node)


@dataclass(frozen=True)
class StridedLoad:
    """Load that is contiguous along a different axis than the store.

    Args:
        text: The load.
        root: Parameter with the buffer.
        element: Type of its elements.
        before: Declarations on which its index depends.
    """

    text: str
    root: str
    element: str
    before: tuple[str, ...]


@dataclass(frozen=True)
class ElementMap:
    """Kernel that stores one element per work-item.

    Args:
        along: Index along which loads are contiguous.
        across: Index along which the store is contiguous.
        bounds: Limit of each index, by its name; empty if all work-items of the launch store an element.
        index_types: Types of the indices.
        uniform: Statements that are equal for all work-items of a workgroup.
        returns: Conditions, equal for all work-items of a workgroup, under which no element is stored.
        loads: Loads to be exchanged between work-items.
        parts: Statements of one element.
    """

    along: GlobalIndex
    across: GlobalIndex
    bounds: dict[str, str]
    index_types: dict[str, str]
    uniform: tuple[str, ...]
    returns: tuple[str, ...]
    loads: tuple[StridedLoad, ...]
    parts: tuple[BodyStatement, ...]

    def element(self, values: Mapping[str, str]) -> list[str]:
        """Return the statements of one element, with loads replaced by `values`."""
        found = []
        for part in self.parts:
            edits: list[Edit] = []
            for node in walk(part.node):
                is_inside = any(edit.start <= node.start_byte < edit.end for edit in edits)
                if text_of(node) in values and not is_inside and not has_address_taken(node):
                    edits.append(Edit(node.start_byte, node.end_byte, values[text_of(node)]))
            found.append(part.with_edits(edits))
        return found


def element_map(unit: SourceUnit, kernel: KernelDescription, sizes: LaunchSizes) -> ElementMap | str:
    """Return the element that each work-item of a kernel stores, or the reason why it is not recognised."""
    body, block = unit.kernel.child_by_field_name("body"), sizes.block
    if launch_descriptor(unit.content.decode(errors="replace")) is not None:
        return "its launch is already rewritten"
    if block is None or body is None or kernel.cooperative or not kernel.grid:
        return "its launch is not described by a grid and a workgroup size"
    if block[2] != 1:
        return "its workgroups have several work-items along z"
    indices = _indices(unit, sizes, block)
    if indices is None:
        return "its work-items have no two indices"
    if (obstacle := _obstacle(unit, body, indices)) is not None:
        return obstacle
    tested = _tested(unit, kernel, sizes, body, indices)
    if isinstance(tested, str):
        return tested
    return _Elements(unit.kernel, {index.name: index for index in indices}, tested).map()


def _indices(unit: SourceUnit, sizes: LaunchSizes, block: tuple[int, int, int]) -> tuple[GlobalIndex, GlobalIndex] | None:
    """Return the indices along x and y. In workgroups with one row, `blockIdx.y` is also an index."""
    found = sizes.global_indices(unit)
    if "y" not in found and block[1] == 1:
        nodes = [n for n in walk(unit.kernel) if n.type == "init_declarator"]
        rows = [n for n in nodes if text_of(n.child_by_field_name("value")).replace(" ", "") in ("blockIdx.y", "(int)blockIdx.y")]
        name = rows[0].child_by_field_name("declarator") if len(rows) == 1 else None
        value = rows[0].child_by_field_name("value") if name is not None and name.type == "identifier" else None
        if value is not None:
            found["y"] = GlobalIndex(text_of(name), "y", value)
    return (found["x"], found["y"]) if {"x", "y"} <= set(found) else None


def _obstacle(unit: SourceUnit, body: Node, indices: tuple[GlobalIndex, GlobalIndex]) -> str | None:
    """Return the reason why work-items are not known to be independent, or None."""
    others = builtin_uses(unit.kernel, without=tuple(index.node for index in indices))
    dependent = sorted(use for use in others if not use.endswith(".z"))  # a workgroup has one work-item along z
    unsupported = _UNSUPPORTED.search(text_of(unit.kernel))
    used = hidden_index(unit) or next(iter(dependent), None) or impure_call(unit, body) or (unsupported and unsupported[0])
    if used is not None:
        return f"uses {used}"
    if loops_in(body):
        return "has a loop"
    if dereferenced(unit.kernel, body) or any(n.type in ("reference_declarator", "array_declarator") for n in walk(body)):
        return "uses references, local arrays or dereferenced pointers"
    parameters = function_declarator(unit.kernel).child_by_field_name("parameters")
    declared = Counter(name for node in walk(body) if node.type == "declaration" for name in declared_in(node))
    if parameters is not None:
        declared.update(names_in(parameters))
    twice = [name for name, count in declared.items() if count > 1]
    if twice:
        return f"declares {min(twice)} twice"
    for name in names_in(body):
        if unit.expanded(name) & {*declared, "return", "goto", "for", "while"}:
            return f"uses the macro {name}"
    if any(initialiser(unit.kernel, index.name) is None for index in indices):
        return "assigns an index"
    return None


def _tested(
    unit: SourceUnit, kernel: KernelDescription, sizes: LaunchSizes, body: Node, indices: tuple[GlobalIndex, GlobalIndex]
) -> Guarded | str:
    """Return the statements of one element and its bounds, or the reason why the bounds are unknown."""
    nodes, (x, y) = statements(body), indices
    tested = guarded(nodes, {x.name, y.name})
    if tested is None and text_of(y.node).replace(" ", "").endswith("blockIdx.y") and "threadIdx" not in text_of(y.node):
        tested = guarded(nodes, {x.name})
        rows = [name for name, argument in sizes.scalars(unit).items() if argument.value == (*kernel.grid, 1, 1)[1]]
        if tested is not None and rows:
            tested.bounds[y.name] = rows[0]
        else:
            tested = None
    if tested is None:
        block = sizes.block or (0, 0, 0)
        is_square = block[0] == block[1] and block[0] >= _NARROWEST
        return Guarded(nodes, {}, []) if is_square and not any(map(jumps_in, nodes)) else "its indices have no bounds"
    if not sizes.covers(unit, {index.axis: tested.bounds[index.name] for index in indices}):
        return "its launch is not known to cover its bounds"
    return tested


class _Elements:
    """Statements of one element, separated from those that are equal for all work-items of a workgroup."""

    def __init__(self, kernel: Node, names: dict[str, GlobalIndex], tested: Guarded) -> None:
        self._kernel = kernel
        self._names = names
        self._positions = AccessPositions(kernel, set(names))
        self._tested = tested
        nodes = {index.node for index in names.values()}
        parts = [part for node in tested.nodes for part in _parts(node)]
        self._all = [part for part in parts if part.node.child_by_field_name("value") not in nodes]
        self._varying_names = set(names)
        self._varying: list[BodyStatement] = []
        size = -1
        while size != len(self._varying):
            size = len(self._varying)
            self._varying = [part for part in self._all if self._is_varying(part)]
            for part in self._varying:
                self._varying_names |= part.changed()

    def _is_varying(self, part: BodyStatement) -> bool:
        return bool((names_in(part.node) | part.changed()) & self._varying_names) or not _computes(part)

    def map(self) -> ElementMap | str:
        """Return the element, or the reason why it is not recognised."""
        uniform = [part for part in self._all if part not in self._varying]
        if (obstacle := self._disorder(uniform)) is not None:
            return obstacle
        stores = [
            n for part in self._varying for n in walk(part.node) if is_access(n) and is_written(n) and not has_address_taken(n)
        ]
        if len(stores) != 1:
            return f"has {len(stores)} stores"
        (store,) = stores
        places = self._positions.terms(store)
        if places is None:
            return f"{text_of(store)} is not a plain access"
        across = [name for name in self._names if self._positions.is_contiguous(places, name)]
        if len(across) != 1:
            return f"{text_of(store)} is not contiguous along one index"
        along = next(name for name in self._names if name != across[0])
        if not self._positions.depends(store, along):
            return f"{text_of(store)} does not depend on {along}"
        loads = self._loads(store, along, across[0])
        if isinstance(loads, str):
            return loads
        if not loads:
            return "its loads and its store are contiguous along the same index"
        types = {name: _type_of(index) for name, index in self._names.items()}
        if None in types.values():
            return "the type of an index is not supported"
        return ElementMap(
            self._names[along],
            self._names[across[0]],
            self._tested.bounds,
            {name: kind for name, kind in types.items() if kind is not None},
            tuple(part.text for part in uniform),
            tuple(self._tested.others),
            tuple(loads),
            tuple(self._varying),
        )

    def _disorder(self, uniform: list[BodyStatement]) -> str | None:
        """Return the reason why uniform statements cannot precede all others, or why elements are not independent, or None."""
        known = {name for part in self._varying for name in part.declared()}
        first = self._all.index(self._varying[0]) if self._varying else len(self._all)
        for part in self._varying:
            if part.node.type not in _STATEMENTS | {"init_declarator"} or jumps_in(part.node):
                return f"has an unsupported statement: {part.text.splitlines()[0]}"
            if part.changed() - known:
                return f"assigns {min(part.changed() - known)}"
        for place, part in enumerate(self._all):
            if part in uniform and place > first and assigned_names(part.node) - part.declared():
                return "assigns a variable between statements that depend on an index"
        conditions = [*self._tested.others, *self._tested.bounds.values()]
        used = {name for text in conditions for name in re.findall(r"[A-Za-z_]\w*", text)}
        if used & self._varying_names or any(mark in text for text in conditions for mark in ("[", "->")):
            return "has bounds that may differ between work-items"
        return None

    def _loads(self, store: Node, along: str, across: str) -> list[StridedLoad] | str:
        """Return the loads that are contiguous along one index and depend on both, or the reason why loads cannot be moved."""
        found: dict[str, StridedLoad] = {}
        target = root_of(self._kernel, text_of(store.child_by_field_name("argument")))
        for part in self._varying:
            for node in walk(part.node):
                if not is_access(node) or node == store or (has_address_taken(node) and read_only_load(node) is None):
                    if has_address_taken(node) and not initialises_pointer(node):
                        return f"uses the address of {text_of(node)}"
                    continue
                places = self._positions.terms(node)
                root = root_of(self._kernel, text_of(node.child_by_field_name("argument")))
                if places is None or root is None:
                    return f"{text_of(node)} is not a plain access"
                if root == target and text_of(node) != text_of(store):
                    return f"reads and writes {root}"
                is_strided = self._positions.is_contiguous(places, along) and not self._positions.is_contiguous(places, across)
                if root == target or not is_strided or not self._positions.depends(node, across):
                    continue
                load = self._load(part, node, root)
                if isinstance(load, str):
                    return load
                found[load.text] = load
        return list(found.values())

    def _load(self, part: BodyStatement, access: Node, root: str) -> StridedLoad | str:
        """Return a load with the declarations on which its index depends."""
        if is_conditional(access, part.node):
            return f"loads {text_of(access)} conditionally"
        element = element_type(self._kernel, text_of(access.child_by_field_name("argument")))
        if element is None:
            return f"the type of {text_of(access)} is not known"
        needed, pending = set(self._names), names_in(access) - set(self._names)
        while pending:
            name = pending.pop()
            needed.add(name)
            if name not in self._varying_names:
                continue
            value = initialiser(self._kernel, name)
            if value is None or not any(other.node == value.parent for other in self._varying):
                return f"{text_of(access)} depends on {name}, which changes"
            pending |= names_in(value) - needed
        before = [p.text for p in self._varying if p.node.type == "init_declarator" and p.declared() & needed]
        call = read_only_load(access)
        return StridedLoad(text_of(call or access), root, element, tuple(before))


def _parts(node: Node) -> list[BodyStatement]:
    """Return the variables of a declaration with initialisers, each separately, or another statement."""
    variables = node.children_by_field_name("declarator") if node.type == "declaration" else []
    if not variables or any(child.type != "init_declarator" for child in variables):
        return [BodyStatement(node)]
    prefix = (node.text or b"")[: variables[0].start_byte - node.start_byte].decode().strip()
    return [BodyStatement(child, prefix) for child in variables]


def _computes(part: BodyStatement) -> bool:
    """Return whether a statement neither loads nor stores nor branches."""
    return only_computes(part.node.parent if part.prefix and part.node.parent is not None else part.node)


def _type_of(index: GlobalIndex) -> str | None:
    """Return the type of an index; None for types with fewer than 4 bytes, in which it could wrap."""
    declaration = next(parent for parent in ancestors(index.node) if parent.type == "declaration")
    kind = text_of(declaration.child_by_field_name("type"))
    if kind == "auto":
        return f"decltype({text_of(index.node)})"
    return kind if kind in INDEX_TYPES else None
