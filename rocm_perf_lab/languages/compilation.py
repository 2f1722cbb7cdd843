"""Compile a kernel description in any language: `compile_description(description, source, ...) -> BuildResult`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.languages.language import CompileSettings
from rocm_perf_lab.languages.registry import find_language
from rocm_perf_lab.languages.source_launch import with_source_launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.languages.spec import KernelSpec
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox


def compile_description(
    description: KernelSpec,
    source: Path,
    *,
    architecture: str,
    compiler: Callable[[], Compiler],
    optimisation: str = "-O3",
    cache_dir: Path | None = None,
    sandbox: Sandbox | None = None,
    fresh: bool = False,
    promise_checks: bool = False,
) -> BuildResult:
    """Compile `source` in place of the source that the description names, with the macros of its own launch, if it has one.

    See :class:`~rocm_perf_lab.languages.language.CompileSettings` for the arguments.

    Raises:
        CompileError: The source does not compile, or the compiler of its language is not installed.
        LabError: The launch that the source requests is invalid.
        CompilerNotFound: No clang-based compiler is usable.
    """
    settings = CompileSettings(architecture, compiler, optimisation, cache_dir, sandbox, fresh, promise_checks)
    return find_language(description.language).compile(with_source_launch(description, source), source, settings)
