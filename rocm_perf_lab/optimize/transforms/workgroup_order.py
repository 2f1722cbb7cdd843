"""Reordering of workgroups, so that neighbours share the L2 cache of one accelerator complex die (XCD).

The hardware assigns workgroup i to XCD i modulo their number. The rewrite assigns consecutive numbers to the workgroups of one
die: of N workgroups on X dies, workgroup i executes the original workgroup (i % X) * (N / X) + min(i % X, N % X) + i / X. This is
a permutation for every N, so that each original workgroup is executed once.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.syntax_nodes import called_name, is_statement, line_of, text_of, walk
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply, is_atomic, newline
from rocm_perf_lab.optimize.transforms.thread_indices import builtin_uses, hidden_index

if TYPE_CHECKING:
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.target.model import Target

_ORDERED = re.compile(r"\b(?:__threadfence\w*|volatile|asm|__hip_atomic_\w+|__builtin_nontemporal_\w+|cooperative_groups)\b")
_PREFIX = "xcd_"


class XcdOrder:
    """Assigns consecutive workgroups to each XCD.

    Args:
        kernel: Description.
        target: GPU; the order is kept on GPUs with a single XCD.
    """

    name = "workgroup order"
    addresses = frozenset({"memory_bandwidth_bound", "latency_bound", "balanced", "unknown"})

    def __init__(self, *, kernel: KernelDescription, target: Target) -> None:
        self._kernel = kernel
        self._dies = target.xcds

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite, unless the order of workgroups may matter."""
        if self._obstacle(unit) is not None:
            return ()
        body = unit.kernel.child_by_field_name("body")
        assert body is not None
        edits = [
            Edit(node.start_byte, node.end_byte, f"{_PREFIX}{text_of(node)[-1]}")
            for node in walk(body)
            if node.type == "field_expression" and re.fullmatch(r"blockIdx\s*\.\s*[xyz]", text_of(node))
        ]
        dies = self._dies
        lines = (
            f"const unsigned {_PREFIX}count = gridDim.x * gridDim.y * gridDim.z;",
            f"const unsigned {_PREFIX}old = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);",
            f"const unsigned {_PREFIX}die = {_PREFIX}old % {dies}, {_PREFIX}rest = {_PREFIX}count % {dies};",
            f"const unsigned {_PREFIX}before = {_PREFIX}die < {_PREFIX}rest ? {_PREFIX}die : {_PREFIX}rest;",
            f"const unsigned {_PREFIX}new = {_PREFIX}die * ({_PREFIX}count / {dies}) + {_PREFIX}before + {_PREFIX}old / {dies};",
            f"const unsigned {_PREFIX}x = {_PREFIX}new % gridDim.x, {_PREFIX}y = {_PREFIX}new / gridDim.x % gridDim.y;",
            f"const unsigned {_PREFIX}z = {_PREFIX}new / gridDim.x / gridDim.y;",
            f"(void){_PREFIX}y, (void){_PREFIX}z;",
        )
        separator = newline(unit.content) + "  "
        edits.append(Edit(body.start_byte + 1, body.start_byte + 1, separator + separator.join(lines)))
        return (Rewrite(f"consecutive workgroups on each of {dies} XCDs", apply(unit.content, edits)),)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the reason why the order is kept."""
        found = self._obstacle(unit)
        return () if found is None else (Rejection(line_of(unit.kernel), found),)

    def _obstacle(self, unit: SourceUnit) -> str | None:
        if self._dies < 2:
            return "the GPU has one XCD"
        if self._kernel.cooperative:
            return "its workgroups synchronise"
        if (hidden := hidden_index(unit)) is not None:
            return f"uses {hidden}"
        if not any(use.startswith("blockIdx") for use in builtin_uses(unit.kernel)):
            return "its workgroups have no number"
        if f"{_PREFIX}count" in text_of(unit.kernel):
            return "is already in this order"
        for function in unit.functions():
            if (found := _ORDERED.search(text_of(function))) is not None:
                return f"uses {found[0]}"
            for node in walk(function):
                if node.type == "call_expression" and is_atomic(node) and not is_statement(node):
                    return f"uses the result of {called_name(node)}"
        return None
