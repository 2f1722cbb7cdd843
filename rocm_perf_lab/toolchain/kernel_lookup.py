"""Lookup of kernels by name in a code object."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.toolchain.demangle import base_name, without_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata


class KernelNotFound(LabError):
    """Kernel name that matches no kernel or several kernels."""


def find_kernel(code_object: CodeObject, entry: str) -> KernelMetadata:
    """Return the kernel called `entry`: mangled symbol, extern "C" name, or C++ name with or without template and parameters.

    Raises:
        KernelNotFound: No kernel or several kernels match (overloads, template instances); the message lists them.
    """
    wanted = _without_spaces(entry)
    spellings = [(kernel, _spellings(kernel)) for kernel in code_object.kernels]
    for rank in range(4):
        matches = [kernel for kernel, names in spellings if names[rank] == wanted]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise KernelNotFound(
                f"{entry!r} matches {len(matches)} kernels:\n{_listed(matches)}",
                hint="Write the name with template arguments and parameters, or the mangled symbol.",
            )
    if not code_object.kernels:
        raise KernelNotFound(
            "the code object has no kernels",
            hint="Mark the entry function __global__; instantiate a template: template __global__ void scale<256>(float*);",
        )
    names = [base_name(kernel.name) for kernel in code_object.kernels]
    near = difflib.get_close_matches(entry, names, n=1)
    raise KernelNotFound(
        f"no kernel {entry!r} in the code object; its kernels:\n{_listed(code_object.kernels)}",
        hint=f"Did you mean {near[0]!r}?" if near else "Use one of these names as `entry`.",
    )


def _spellings(kernel: KernelMetadata) -> tuple[str, str, str, str]:
    """Return the accepted spellings, the most exact first."""
    return (
        kernel.symbol,
        _without_spaces(kernel.name),
        _without_spaces(without_parameters(kernel.name)),
        _without_spaces(base_name(kernel.name)),
    )


def _without_spaces(name: str) -> str:
    return "".join(name.split())


def _listed(kernels: Sequence[KernelMetadata]) -> str:
    return "\n".join(
        f"  {kernel.name}" if kernel.name == kernel.symbol else f"  {kernel.name}  [{kernel.symbol}]" for kernel in kernels
    )
