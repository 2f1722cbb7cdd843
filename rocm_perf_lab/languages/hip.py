"""Kernels in HIP C++."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

from rocm_perf_lab.languages.language import Language

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rocm_perf_lab.languages.language import CompileSettings
    from rocm_perf_lab.languages.spec import KernelSpec
    from rocm_perf_lab.toolchain.build import BuildResult, CompileRequest

_PARTIAL_WORKGROUPS = ("-fno-offload-uniform-block",)
"""Without this flag the compiler assumes that every workgroup has the size of blockDim, the last one included."""


class HipLanguage(Language):
    """HIP C++, compiled by hipcc or clang."""

    name = "hip"
    fields = frozenset({"block", "work_items", "cooperative", "variables", "defines", "flags", "host_headers"})
    rewritable = True
    compiler_language: ClassVar[Literal["hip", "hiprtc"]] = "hip"
    """Language of the compiler call."""

    def compile(self, kernel: KernelSpec, source: Path, settings: CompileSettings) -> BuildResult:
        """Compile the device code of a HIP source; see :meth:`Language.compile`."""
        from rocm_perf_lab.toolchain.build import compile_source

        request = self.syntax_request(kernel, source, architecture=settings.architecture, optimisation=settings.optimisation)
        return compile_source(
            replace(request, promise_checks=settings.promise_checks),
            compiler=settings.find_compiler(),
            cache_dir=settings.cache_dir,
            sandbox=settings.sandbox,
            fresh=settings.fresh,
        )

    def build_values(self, kernel: KernelSpec) -> Mapping[str, object]:
        """Return the preprocessor definitions."""
        return kernel.compile_defines()

    def syntax_request(self, kernel: KernelSpec, source: Path, *, architecture: str, optimisation: str = "-O3") -> CompileRequest:
        """Return the compiler call for a source."""
        from rocm_perf_lab.toolchain.build import CompileRequest

        return CompileRequest(
            source=source,
            architecture=architecture,
            language=self.compiler_language,
            defines=kernel.compile_defines(),
            flags=(*kernel.flags, *(_PARTIAL_WORKGROUPS if kernel.work_items else ()), *_paths_of_copies(kernel, source)),
            include_dirs=kernel.include_paths,
            optimisation=optimisation,
            host_headers=kernel.host_headers,
        )


def _paths_of_copies(kernel: KernelSpec, source: Path) -> tuple[str, ...]:
    """Return flags that name the headers next to the described source equally for the source and its rewritten copies.

    Copies below its directory get none: compilers differ in which of two mappings of one path counts.
    """
    original = kernel.source_path.parent.absolute()
    return () if source.absolute().is_relative_to(original) else (f"-ffile-prefix-map={original}{os.sep}=",)
