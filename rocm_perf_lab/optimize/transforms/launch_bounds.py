"""`__launch_bounds__` and `amdgpu_waves_per_eu`, which set the number of registers that the compiler may use.

Without bounds the compiler assumes workgroups of 1,024 work-items with 128 VGPRs each. The bound is the workgroup size of the
launch, or the macro that defines it. The kernel can then not be launched with larger workgroups.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import evaluate_integer
from rocm_perf_lab.optimize.syntax_nodes import function_declarator, line_of, text_of
from rocm_perf_lab.optimize.transforms.base import Rejection, Rewrite
from rocm_perf_lab.optimize.transforms.launch_edits import rewritten_items
from rocm_perf_lab.optimize.transforms.rewriting import Edit, apply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit

_BOUNDS = re.compile(r"__launch_bounds__|amdgpu_flat_work_group_size|reqd_work_group_size")
_MOST_WAVES = 8


class LaunchBounds:
    """Adds the workgroup size of the launch as an upper bound.

    Args:
        kernel: Description.
    """

    name = "launch bounds"
    addresses = frozenset({"under_occupied", "latency_bound", "compute_bound", "memory_bandwidth_bound", "balanced", "unknown"})

    def __init__(self, *, kernel: KernelDescription) -> None:
        self._kernel = kernel

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite, unless the kernel has bounds."""
        if _BOUNDS.search(_head(unit.kernel)):
            return ()
        bound = self._bound(unit)
        return (Rewrite(f"__launch_bounds__({bound})", _inserted(unit, f"__launch_bounds__({bound}) ")),)

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the kernel if it has bounds."""
        return (Rejection(line_of(unit.kernel), "already has bounds"),) if _BOUNDS.search(_head(unit.kernel)) else ()

    def _bound(self, unit: SourceUnit) -> str:
        rewritten = rewritten_items(unit)
        if rewritten is not None:
            return str(rewritten)
        block = self._kernel.block
        if len(block) == 1:
            for name, value in self._kernel.defines.items():
                if value == block[0] and re.search(rb"\b" + name.encode() + rb"\b", unit.content):
                    return name
        return str(work_items(self._kernel))


class WavesPerEu:
    """Adds a minimum number of wavefronts per SIMD.

    Args:
        waves: Numbers to try, from 1 to 8.

    Raises:
        LabError: A number is out of range.
    """

    name = "waves per EU"
    addresses = frozenset({"under_occupied", "latency_bound", "compute_bound"})

    def __init__(self, *, waves: Sequence[int] = (2, 4, 8)) -> None:
        outside = [n for n in waves if not isinstance(n, int) or not 1 <= n <= _MOST_WAVES]
        if outside or not waves:
            raise LabError(
                f"waves must be integers from 1 to {_MOST_WAVES}, not {outside}",
                where="optimizer.transforms: waves",
                hint="for example waves: [2, 4]",
            )
        self._waves = tuple(sorted(set(waves)))

    def propose(self, unit: SourceUnit) -> tuple[Rewrite, ...]:
        """Return one rewrite per number, unless the kernel has the attribute."""
        if "amdgpu_waves_per_eu" in _head(unit.kernel):
            return ()
        return tuple(
            Rewrite(f"at least {n} waves per SIMD", _inserted(unit, f"__attribute__((amdgpu_waves_per_eu({n}))) "))
            for n in self._waves
        )

    def rejections(self, unit: SourceUnit) -> tuple[Rejection, ...]:
        """Return the kernel if it has the attribute."""
        return (
            (Rejection(line_of(unit.kernel), "already has amdgpu_waves_per_eu"),)
            if "amdgpu_waves_per_eu" in _head(unit.kernel)
            else ()
        )


def work_items(kernel: KernelDescription) -> int:
    """Return the work-items per workgroup of a description."""
    return prod(evaluate_integer(e, kernel.params, where=f"kernel.block[{i}]") for i, e in enumerate(kernel.block))


def _head(function: Node) -> str:
    """Return the text before the kernel's name."""
    return text_of(function)[: function_declarator(function).start_byte - function.start_byte]


def _inserted(unit: SourceUnit, text: str) -> str:
    start = function_declarator(unit.kernel).start_byte
    return apply(unit.content, [Edit(start, start, text)])
