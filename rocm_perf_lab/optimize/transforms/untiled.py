"""Matrix products over tiles in LDS, written without the tiles.

    for (int t = 0; t < n / 16; ++t) {
      a_tile[ty][tx] = a[row * n + t * 16 + tx];
      b_tile[ty][tx] = b[(t * 16 + ty) * n + col];             for (int i = 0; i < (n / 16) * 16; ++i)
      __syncthreads();                                    ->     sum += a[row * n + i] * b[i * n + col];
      for (int k = 0; k < 16; ++k) sum += a_tile[ty][k] * b_tile[k][tx];
      __syncthreads();
    }

Each element of a tile is stored by one work-item: the value at `[ty][k]` was stored by work-item (k, ty).
Transforms of products of one element per work-item then apply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.optimize.syntax_nodes import text_of, walk
from rocm_perf_lab.optimize.transforms.element_copies import local_arrays
from rocm_perf_lab.optimize.transforms.reductions import declared_in
from rocm_perf_lab.optimize.transforms.rewriting import (
    Edit,
    apply,
    apply_within,
    counted_loop,
    initialiser,
    names_in,
    substituted,
)
from rocm_perf_lab.optimize.transforms.thread_indices import LaunchSizes, guarded, statements, without_parentheses
from rocm_perf_lab.optimize.transforms.tree_reductions import is_barrier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_BUILTIN = re.compile(r"(?:\((?:int|unsigned|unsigned int)\)\s*)?((?:threadIdx|blockIdx)\.[xyz])")
_ITEM = re.compile(r"threadIdx\.([xyz])")
_ZERO = re.compile(r"\(?(?:0|0\.|0\.0|\.0)[fF]?\)?|\(?__float2half\(0(?:\.0)?f?\)\)?")
_CHOICE = re.compile(r"(?P<test>.+?)\s*\?\s*(?P<load>[^?:]+?)\s*:\s*(?P<other>[^?:]+)", re.DOTALL)


@dataclass(frozen=True)
class _Stored:
    """Value of an element of a tile.

    Args:
        axes: Axis of the work-item for each index of the tile.
        value: Value that a work-item stores.
    """

    axes: tuple[str, ...]
    value: str


def without_tiles(unit: SourceUnit, kernel: KernelDescription) -> SourceUnit | None:
    """Return a source whose product does not use LDS, or None for other kernels."""
    named = _without_aliases(unit)
    body = named.kernel.child_by_field_name("body")
    nodes = statements(body) if body is not None else []
    outer = [node for node in nodes if node.type == "for_statement"]
    tiles = {name for node in nodes if "__shared__" in text_of(node) for name in local_arrays(node)}
    if body is None or len(outer) != 1 or not tiles:
        return None
    after = nodes[nodes.index(outer[0]) + 1 :]
    product = _Product(named, LaunchSizes(kernel), tiles).loop(outer[0])
    limits = _limits(named, kernel, after) if product is not None else None
    if product is None or limits is None or tiles & {name for node in after for name in names_in(node)}:
        return None
    text, dropped = product
    if not dropped <= set(limits.items()):
        return None
    test = " || ".join(f"{name} >= {limit}" for name, limit in limits.items())
    first = next(node for node in nodes if not _declares_before_test(named.kernel, node, set(limits), tiles))
    edits = [Edit(node.start_byte, node.end_byte, "") for node in nodes if "__shared__" in text_of(node)]
    edits += [
        Edit(first.start_byte, first.start_byte, f"if ({test}) return;\n  "),
        Edit(outer[0].start_byte, outer[0].end_byte, text),
    ]
    return parse_source(apply(named.content, edits).encode(), unit.entry)


def _without_aliases(unit: SourceUnit) -> SourceUnit:
    """Return a source without variables like `int tx = threadIdx.x`."""
    kernel = unit.kernel
    aliases: dict[str, str] = {}
    for node in walk(kernel):
        name, value = node.child_by_field_name("declarator"), node.child_by_field_name("value")
        match = _BUILTIN.fullmatch(text_of(value)) if node.type == "init_declarator" and value is not None else None
        if match is not None and name is not None and initialiser(kernel, text_of(name)) is not None:
            aliases[text_of(name)] = match[1]
    edits = []
    for node in walk(kernel):
        if node.type == "declaration":
            variables = node.children_by_field_name("declarator")
            kept = [v for v in variables if text_of(v.child_by_field_name("declarator")) not in aliases]
            if len(kept) < len(variables):
                kind = unit.content[node.start_byte : variables[0].start_byte].decode()
                own = [_substituted_all(text_of(v), aliases) for v in kept]
                edits.append(Edit(node.start_byte, node.end_byte, f"{kind}{', '.join(own)};" if own else ""))
        elif node.type == "identifier" and text_of(node) in aliases:
            edits.append(Edit(node.start_byte, node.end_byte, aliases[text_of(node)]))
    outermost = [edit for edit in edits if not any(o.start <= edit.start and edit.end <= o.end and o != edit for o in edits)]
    return parse_source(apply(unit.content, outermost).encode(), unit.entry)


def _substituted_all(text: str, by: Mapping[str, str]) -> str:
    """Return a text with all names replaced."""
    for name, value in by.items():
        text = substituted(text, name, value)
    return text


@dataclass(frozen=True)
class _Product:
    """Kernel with tiles in LDS."""

    unit: SourceUnit
    sizes: LaunchSizes
    tiles: set[str]

    def loop(self, outer: Node) -> tuple[str, set[tuple[str, str]]] | None:
        """Return the loop over tiles as a loop over elements, and the limits that are no longer tested; None for other loops."""
        header = counted_loop(outer)
        inside = statements(header.body) if header is not None else []
        inner = [node for node in inside if node.type == "for_statement"]
        counted = counted_loop(inner[0]) if len(inner) == 1 else None
        if header is None or counted is None or counted.start_text != "0" or counted.step_text != "1" or header.start_text != "0":
            return None
        stored = self._stores(inside[: inside.index(inner[0])])
        depth = self.sizes.value(self.unit, counted.end_text)
        rest = inside[inside.index(inner[0]) + 1 :]
        block = self.sizes.block
        (statement, *more) = statements(counted.body)
        if stored is None or depth is None or block is None or not all(map(is_barrier, rest)) or more:
            return None
        place = f"{header.index}_{counted.index}"
        edits, tests = [], set[str]()
        for load in walk(statement):
            names, indices = _tile_access(load)
            if names not in self.tiles or indices is None:
                continue
            value = self._value(stored.get(names), indices, counted.index, depth)
            if value is None:
                return None
            load_text, parts = value
            edits.append(Edit(load.start_byte, load.end_byte, load_text))
            tests |= set(parts)
        text = apply_within(statement.text or b"", statement.start_byte, edits)
        step = self.sizes.value(self.unit, header.step_text)
        by_tile = header.step_text == "1"
        if self.tiles & set(re.findall(r"\w+", text)) or not (by_tile or step == depth):
            return None
        sizes = {word for word in (counted.end_text, str(depth), header.step_text) if self.sizes.value(self.unit, word) == depth}
        text = _with_one_index(text, header.index, counted.index, sizes, place, by_tile=by_tile)
        limits = {_limit(_with_one_index(test, header.index, counted.index, sizes, place, by_tile=by_tile)) for test in tests}
        if None in limits or {header.index, counted.index} & set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text)):
            return None
        known = {limit for limit in limits if limit is not None}
        ends = {limit for name, limit in known if name == place}
        if len(ends) > 1:
            return None
        end = f"({header.end_text}) * {depth}" if by_tile else f"(({header.end_text}) + {depth - 1}) / {depth} * {depth}"
        end = ends.pop() if ends else end
        head = f"for ({header.type_name} {place} = 0; {place} < {end}; ++{place})"
        return f"{head} {text}", {(name, limit) for name, limit in known if name != place}

    def _stores(self, nodes: list[Node]) -> dict[str, _Stored] | None:
        """Return the stores to tiles before the barrier; None if there are other statements."""
        found: dict[str, _Stored] = {}
        local: dict[str, str] = {}
        for node in nodes:
            if is_barrier(node):
                continue
            if node.type == "declaration":
                variables = node.children_by_field_name("declarator")
                values = [variable.child_by_field_name("value") for variable in variables]
                if any(value is None or "[" in text_of(value) for value in values):
                    return None
                local |= {
                    text_of(variable.child_by_field_name("declarator")): f"({_substituted_all(text_of(value), local)})"
                    for variable, value in zip(variables, values, strict=True)
                }
                continue
            assignments = [part for part in walk(node) if part.type == "assignment_expression"]
            name, indices = _tile_access(assignments[0].child_by_field_name("left")) if assignments else ("", None)
            value = _stored_value(node, assignments)
            axes = tuple(
                match[1] for index in indices or () if (match := _ITEM.fullmatch(_substituted_all(index, local).strip("()")))
            )
            if name not in self.tiles or name in found or value is None or len(axes) != 2 or len(set(axes)) != 2:
                return None
            found[name] = _Stored(axes, _substituted_all(value, local))
        return found

    def _value(self, stored: _Stored | None, indices: tuple[str, ...], along: str, depth: int) -> tuple[str, list[str]] | None:
        """Return the load for an element of a tile, and the conditions under which it is not 0."""
        block = self.sizes.block
        if stored is None or block is None or len(indices) != len(stored.axes):
            return None
        text = stored.value
        for index, axis in zip(indices, stored.axes, strict=True):
            item = f"threadIdx.{axis}"
            if index == item:
                continue
            variables = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", text))
            dependent = [n for n in variables if (v := initialiser(self.unit.kernel, n)) is not None and item in text_of(v)]
            if index != along or dependent or depth > block["xyz".index(axis)]:
                return None
            text = re.sub(rf"\b{re.escape(item)}\b", along, text)
        match = _CHOICE.fullmatch(without_parentheses(text))
        if match is None:
            return text, []
        parts = [without_parentheses(part) for part in without_parentheses(match["test"]).split("&&")]
        return (match["load"], parts) if _ZERO.fullmatch(match["other"]) else None


def _tile_access(node: Node | None) -> tuple[str, tuple[str, ...] | None]:
    """Return the array and both indices of `tile[i][j]`."""
    inner = node.child_by_field_name("argument") if node is not None and node.type == "subscript_expression" else None
    base = inner.child_by_field_name("argument") if inner is not None and inner.type == "subscript_expression" else None
    if node is None or inner is None or base is None:
        return "", None
    return text_of(base), tuple(text_of(part.child_by_field_name("indices"))[1:-1].strip() for part in (inner, node))


def _stored_value(node: Node, assignments: list[Node]) -> str | None:
    """Return the value of `tile[i][j] = value;` or of `if (test) tile[i][j] = value; else tile[i][j] = 0;`."""
    values = [text_of(assignment.child_by_field_name("right")) for assignment in assignments]
    if node.type == "expression_statement" and len(values) == 1:
        return values[0]
    places = {text_of(assignment.child_by_field_name("left")) for assignment in assignments}
    if node.type != "if_statement" or len(values) != 2 or len(places) != 1 or node.child_by_field_name("alternative") is None:
        return None
    return f"{without_parentheses(text_of(node.child_by_field_name('condition')))} ? {values[0]} : {values[1]}"


def _with_one_index(text: str, tile: str, inner: str, sizes: set[str], place: str, *, by_tile: bool) -> str:
    """Return a text with `tile * size + inner` as one index."""
    names = "|".join(map(re.escape, sorted(sizes)))
    product = rf"\b(?:{tile}\s*\*\s*(?:{names})|(?:{names})\s*\*\s*{tile})\b"
    start = rf"(?:{product}|\({product}\))" if by_tile else rf"\b{tile}\b"
    return re.sub(rf"{start}\s*\+\s*{inner}\b|\b{inner}\s*\+\s*{start}", place, text)


def _limit(test: str) -> tuple[str, str] | None:
    """Return the variable and its limit for `variable < limit`."""
    match = re.fullmatch(r"(\w+)\s*<\s*(\w+)", without_parentheses(re.sub(r"\((\w+)\)", r"\1", test)))
    return (match[1], match[2]) if match is not None else None


def _limits(unit: SourceUnit, kernel: KernelDescription, after: list[Node]) -> dict[str, str] | None:
    """Return the limit of each index: from the test of the result, else from the launch, if it has no partial workgroups."""
    sizes = LaunchSizes(kernel)
    indices = sizes.global_indices(unit)
    if set(indices) != {"x", "y"} or len(after) != 1 or sizes.block is None:
        return None
    tested = guarded(after, {index.name for index in indices.values()}, partial=True)
    if tested is not None:
        return tested.bounds
    if after[0].type == "if_statement":
        return None
    names = {argument.value: name for name, argument in sizes.scalars(unit).items() if isinstance(argument.value, str)}
    found = {}
    for axis, index in indices.items():
        place = "xyz".index(axis)
        expression = sizes.grid[place]
        words = set(re.findall(r"[A-Za-z_]\w*", expression))
        if not re.fullmatch(r"[\w\s/*+()-]+", expression) or not words <= set(names):
            return None
        text = re.sub(r"[A-Za-z_]\w*", lambda match: names[match[0]], expression).replace("//", "/")
        found[index.name] = f"({text}) * {sizes.block[place]}"
    return found


def _declares_before_test(kernel: Node, node: Node, names: set[str], tiles: set[str]) -> bool:
    """Return whether a statement comes before the test of the indices: tiles, and variables up to the last index."""
    if declared_in(node) & tiles:
        return True
    indices = [n for n in walk(kernel) if n.type == "init_declarator" and text_of(n.child_by_field_name("declarator")) in names]
    return node.type == "declaration" and any(node.start_byte <= index.start_byte for index in indices)
