"""Lookup of kernels by name in a code object."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.demangle import base_name, without_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata


_LISTED = 24
"""Kernels in a message."""


class KernelNotFound(LabError):
    """Kernel name that matches no kernel or several kernels."""


def find_kernel(code_object: CodeObject, entry: str) -> KernelMetadata:
    """Return the kernel called `entry`: mangled symbol, extern "C" name, or C++ name with or without template and parameters.

    Raises:
        KernelNotFound: No kernel or several kernels match (overloads, template instances); the message lists them.
    """
    return find_kernel_of(code_object.kernels, entry)


def find_kernel_of(kernels: Sequence[KernelMetadata], entry: str) -> KernelMetadata:
    """Return the kernel called `entry` among kernels of one or more code objects; of equal symbols the first.

    Args:
        kernels: Kernels of a library, for example, which has one code object per translation unit.
        entry: Mangled symbol, extern "C" name, or C++ name with or without namespaces, template and parameters.

    Raises:
        KernelNotFound: No kernel or several kernels match; the message lists them.
    """
    distinct = list({kernel.symbol: kernel for kernel in reversed(kernels)}.values())[::-1]
    wanted = _without_spaces(entry)
    for spelling in _SPELLINGS:
        matches = [kernel for kernel in distinct if spelling(kernel) == wanted]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise KernelNotFound(
                f"{entry!r} matches {len(matches)} kernels:\n{listed_kernels(matches)}",
                hint="Write the name with template arguments and parameters, or the mangled symbol.",
            )
    if not distinct:
        raise KernelNotFound(
            "the code object has no kernels",
            hint="Mark the entry function __global__; instantiate a template: template __global__ void scale<256>(float*);",
        )
    near = difflib.get_close_matches(entry, {base_name(kernel.name) for kernel in distinct}, n=1)
    raise KernelNotFound(
        f"no kernel {entry!r} in the code object; its kernels:\n{listed_kernels(distinct)}",
        hint=f"Did you mean {near[0]!r}?" if near else "Use one of these names as `entry`.",
    )


_SPELLINGS: tuple[Callable[[KernelMetadata], str], ...] = (
    lambda kernel: kernel.symbol,
    lambda kernel: _without_spaces(kernel.name),
    lambda kernel: _without_spaces(without_parameters(kernel.name)),
    lambda kernel: _without_spaces(base_name(kernel.name)),
    lambda kernel: _without_spaces(base_name(kernel.name)).rpartition("::")[2],
)
"""Accepted spellings of a name, the most exact first."""


def _without_spaces(name: str) -> str:
    return "".join(name.split())


def listed_kernels(kernels: Sequence[KernelMetadata]) -> str:
    """Return the names of kernels, one per line, and of a library with thousands the first ones and the number of others."""
    lines = [
        f"  {kernel.name}" if kernel.name == kernel.symbol else f"  {kernel.name}  [{kernel.symbol}]"
        for kernel in kernels[:_LISTED]
    ]
    others = len(kernels) - len(lines)
    return "\n".join([*lines, f"  and {others:,} others; `rocm-perf disassemble --list FILE` lists all"] if others else lines)
