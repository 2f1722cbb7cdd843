"""`__launch_bounds__` and `amdgpu_waves_per_eu`: how many registers the compiler may use.

Without bounds the compiler prepares for workgroups of 1,024 work-items, 128 VGPRs each. The bound is the workgroup of the
kernel's description, by the macro that stands for it where there is one: a kernel with it cannot be launched with more.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import evaluate_integer
from rocm_perf_lab.optimize.syntax_nodes import function_declarator, line_of, text_of
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_BOUNDS = re.compile(r"__launch_bounds__|amdgpu_flat_work_group_size|reqd_work_group_size")
_MOST_WAVES = 8


class LaunchBounds:
    """The workgroup of the description as an upper bound.

    Args:
        kernel: The description.
    """

    name = "launch bounds"
    addresses = frozenset({"under_occupied", "latency_bound", "compute_bound", "memory_bandwidth_bound", "balanced", "unknown"})

    def __init__(self, *, kernel: KernelDescription) -> None:
        self._kernel = kernel

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """One rewrite, where the kernel has no bounds."""
        if _BOUNDS.search(_head(unit.kernel)):
            return ()
        bound = self._bound(unit)
        return (Rewrite(f"__launch_bounds__({bound})", _inserted(unit, f"__launch_bounds__({bound}) ")),)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """A kernel that has bounds."""
        return (Rejection(line_of(unit.kernel), "has bounds of its own"),) if _BOUNDS.search(_head(unit.kernel)) else ()

    def _bound(self, unit: SourceUnit) -> str:
        block = self._kernel.block
        if len(block) == 1:
            for name, value in self._kernel.defines.items():
                if value == block[0] and re.search(rb"\b" + name.encode() + rb"\b", unit.content):
                    return name
        return str(work_items(self._kernel))


class WavesPerEu:
    """How many wavefronts a SIMD should hold.

    Args:
        waves: Least numbers to try, from 1 to 8.

    Raises:
        LabError: A number out of range.
    """

    name = "waves per EU"
    addresses = frozenset({"under_occupied", "latency_bound", "compute_bound"})

    def __init__(self, *, waves: Sequence[int] = (2, 4, 8)) -> None:
        outside = [n for n in waves if not isinstance(n, int) or not 1 <= n <= _MOST_WAVES]
        if outside or not waves:
            raise LabError(
                f"waves must be whole numbers from 1 to {_MOST_WAVES}, not {outside}",
                where="optimizer.transforms: waves",
                hint="for example waves: [2, 4]",
            )
        self._waves = tuple(sorted(set(waves)))

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """One rewrite per number, where the kernel does not say itself."""
        if "amdgpu_waves_per_eu" in _head(unit.kernel):
            return ()
        return tuple(
            Rewrite(f"at least {n} waves per SIMD", _inserted(unit, f"__attribute__((amdgpu_waves_per_eu({n}))) "))
            for n in self._waves
        )

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """A kernel that says so itself."""
        return (
            (Rejection(line_of(unit.kernel), "has waves per EU of its own"),)
            if "amdgpu_waves_per_eu" in _head(unit.kernel)
            else ()
        )


def work_items(kernel: KernelDescription) -> int:
    """Of a workgroup of the description."""
    return prod(evaluate_integer(e, kernel.params, where=f"kernel.block[{i}]") for i, e in enumerate(kernel.block))


def _head(function: Node) -> str:
    """Everything before the kernel's name."""
    return text_of(function)[: function_declarator(function).start_byte - function.start_byte]


def _inserted(unit: SourceUnit, words: str) -> str:
    start = function_declarator(unit.kernel).start_byte
    return apply(unit.content, [Edit(start, start, words)])
