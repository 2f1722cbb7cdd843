"""The interface of a kernel language: compilation and launch of kernels written in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rocm_perf_lab.languages.spec import KernelSpec
    from rocm_perf_lab.toolchain.build import BuildResult, CompileRequest
    from rocm_perf_lab.toolchain.code_object import KernelMetadata
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox
    from rocm_perf_lab.toolchain.static_features import StaticFeatures

LANGUAGE_FIELDS = ("block", "work_items", "cooperative", "variables", "defines", "flags", "constexprs", "options", "host_headers")
"""Optional fields of a kernel description that not every language has."""


@dataclass(frozen=True)
class CompileSettings:
    """Architecture, compiler and cache of a compilation.

    Args:
        architecture: Processor name, for example gfx942.
        find_compiler: Returns the configured clang-based compiler; only called by languages that need one.
        optimisation: `-O0` to `-O3`, `-Os`.
        cache_dir: Cache directory; None selects the default one.
        sandbox: Runs the compiler with limits.
        fresh: Compile even if the result is cached.
        promise_checks: Accesses trap if misaligned, and so do false assumptions; HIP only.
    """

    architecture: str
    find_compiler: Callable[[], Compiler]
    optimisation: str = "-O3"
    cache_dir: Path | None = None
    sandbox: Sandbox | None = None
    fresh: bool = False
    promise_checks: bool = False


class Language(ABC):
    """Base class of kernel languages. Subclasses set the class attributes and implement :meth:`compile`.

    Example:
        A language whose sources are translated to HIP::

            class ElementwiseLanguage(Language):
                name = "elementwise"
                fields = frozenset({"block"})

                def compile(self, kernel, source, settings):
                    generated = source.with_suffix(".hip")
                    generated.write_text(translate(source.read_text()))
                    return HipLanguage().compile(kernel, generated, settings)
    """

    name: ClassVar[str]
    fields: ClassVar[frozenset[str]] = frozenset(LANGUAGE_FIELDS)
    """Those of :data:`LANGUAGE_FIELDS` that a kernel of this language may have."""
    needs_block: ClassVar[bool] = True
    """Whether the description states the workgroup size; if False, the compiler chooses it (:class:`LaunchContract`)."""
    accepts_structs: ClassVar[bool] = True
    """Whether a kernel can have struct arguments."""
    rewritable: ClassVar[bool] = False
    """Whether `rocm-perf optimize` can rewrite sources: transforms and guards parse HIP C++."""

    def check(self, kernel: KernelSpec) -> None:
        """Check the fields of a description that depend on the language.

        Raises:
            ValueError: A field does not belong to the language, or a required one is missing.
        """
        foreign = [field for field in LANGUAGE_FIELDS if field not in self.fields and getattr(kernel, field)]
        if foreign:
            raise ValueError(f"a kernel in {self.name} cannot have {', '.join(foreign)}")
        if not self.accepts_structs and any(argument.kind == "struct" for argument in kernel.arguments):
            raise ValueError(f"a kernel in {self.name} cannot have struct arguments")
        if self.needs_block and not kernel.block:
            raise ValueError("block is missing: the work-items of a workgroup, for example [256]")
        if bool(kernel.grid) == bool(kernel.work_items):
            or_items = "; work_items if the last workgroup may be partial" if "work_items" in self.fields else ""
            raise ValueError(f"a kernel needs grid: the number of workgroups, for example [64]{or_items}")

    @abstractmethod
    def compile(self, kernel: KernelSpec, source: Path, settings: CompileSettings) -> BuildResult:
        """Compile a source to a code object.

        Args:
            kernel: Entry, arguments, params and the fields of this language.
            source: The file to compile; it may differ from the source of `kernel`.
            settings: Architecture, compiler and cache.

        Returns:
            The code object, and in `contract` the decisions of the compiler that the host has to follow in the launch.

        Raises:
            CompileError: The source does not compile, or its compiler is not installed.
            CompilerNotFound: No clang-based compiler is usable.
        """

    def build_values(self, kernel: KernelSpec) -> Mapping[str, object]:
        """Return the values that a build of one source depends on; sources with equal values share a build."""
        return kernel.params

    def static_features(self, build: BuildResult, kernel: KernelMetadata) -> StaticFeatures:
        """Return the instruction mix, code size and registers of a compiled kernel."""
        from rocm_perf_lab.toolchain.static_features import static_features

        return static_features(build.code_object, kernel)

    def syntax_request(self, kernel: KernelSpec, source: Path, *, architecture: str, optimisation: str = "-O3") -> CompileRequest:
        """Return the compiler call whose syntax tree guards read; for rewritable languages only.

        Raises:
            LabError: Sources of this language cannot be rewritten.
        """
        raise LabError(f"{source.name} has no C++ syntax tree: it is written in {self.name}", where="kernel.language")
