"""Kernels of an application's source that a candidate changes, and versions of the source whose kernels return immediately."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.source_tree import SourceError, parse_source
from rocm_perf_lab.optimize.syntax_nodes import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.toolchain.code_object import CodeObject


@dataclass(frozen=True)
class SourceKernel:
    """Kernel of a source file. Instances of one template share `unit` but differ in `symbol`."""

    symbol: str
    name: str
    unit: SourceUnit

    @property
    def text(self) -> tuple[str, ...]:
        """Text of the kernel and of the functions that it calls, without comments and white space."""
        return tuple(re.sub(r"\s+", "", text_of(function)) for function in self.unit.functions())


def kernels_of(content: bytes, code_object: CodeObject, pattern: str | None = None) -> tuple[SourceKernel, ...]:
    """Return the kernels of a source file.

    Args:
        content: Source.
        code_object: Its compiled code, which also contains kernels from headers.
        pattern: Regular expression for names; None selects all.

    Raises:
        LabError: No kernel matches, or the expression is invalid.
    """
    try:
        wanted = re.compile(pattern) if pattern is not None else None
    except re.error as error:
        raise LabError(f"invalid regular expression {pattern!r}: {error}", where="--kernel") from error
    found = []
    for kernel in code_object.kernels:
        if wanted is None or wanted.search(kernel.name) or wanted.search(kernel.symbol):
            try:
                unit = parse_source(content, kernel.symbol)
            except SourceError:  # a kernel from a header
                continue
            found.append(SourceKernel(kernel.symbol, kernel.name, unit))
    if not found:
        names = ", ".join(kernel.name for kernel in code_object.kernels) or "none"
        problem = f"no kernel of the source matches {pattern!r}" if pattern is not None else "the source has no kernel"
        raise LabError(problem, where="--kernel" if pattern is not None else "--source", hint=f"kernels: {names}")
    return tuple(found)


def changed_kernels(kernels: Sequence[SourceKernel], candidate: bytes) -> tuple[SourceKernel, ...]:
    """Return the kernels whose text, or a function that they call, differs in a candidate; all kernels if no text differs.

    Kernels that are missing in the candidate are included; the guards report them.
    """
    changed = []
    for kernel in kernels:
        try:
            rewritten = SourceKernel(kernel.symbol, kernel.name, parse_source(candidate, kernel.symbol))
        except SourceError:
            changed.append(kernel)
            continue
        if rewritten.text != kernel.text:
            changed.append(kernel)
    return tuple(changed) or tuple(kernels)


def without_effect(kernels: Sequence[SourceKernel], content: bytes) -> str:
    """Return the source with kernels that return immediately, to test whether the outputs of an application depend on them."""
    starts = {kernel.unit.kernel.child_by_field_name("body").start_byte for kernel in kernels}  # type: ignore[union-attr]
    for start in sorted(starts, reverse=True):
        content = content[: start + 1] + b" return;" + content[start + 1 :]
    return content.decode()
