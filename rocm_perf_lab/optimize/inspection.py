"""Input of guards: a source, its code object, and the compiler's syntax tree of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.languages.registry import find_language
from rocm_perf_lab.languages.source_launch import with_source_launch
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from rocm_perf_lab.toolchain.syntax import read_syntax

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.optimize.source_tree import SourceUnit
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.code_object import CodeObject, KernelMetadata
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox
    from rocm_perf_lab.toolchain.syntax import SyntaxNode


@dataclass(frozen=True)
class Inspection:
    """Compiler facts of a source.

    Args:
        syntax: Syntax tree.
        code_object: Compiled code.
        dependencies: Files that the compiler read, except the source itself.
        work_items: Work-items per workgroup of the launch.
        file: Path of the source in the compiler's output.
        dynamic_lds_bytes: Dynamic LDS of the launch.
    """

    syntax: SyntaxNode
    code_object: CodeObject
    dependencies: frozenset[str]
    work_items: int
    file: str
    dynamic_lds_bytes: int = 0


@dataclass(frozen=True)
class CandidateSource:
    """Compiled source. `occupancy_waves` is in waves per SIMD at the launch's workgroup size."""

    source: SourceUnit
    kernel: KernelMetadata
    occupancy_waves: float
    inspection: Inspection | None = None

    @property
    def inspected(self) -> Inspection:
        """The inspection, for guards that require one.

        Raises:
            LabError: The build was not inspected.
        """
        if self.inspection is None:
            raise LabError("this build was not inspected by the compiler", where="optimizer.guards")
        return self.inspection


def inspect(
    description: KernelDescription,
    source: Path,
    build: BuildResult,
    *,
    compiler: Compiler,
    architecture: str,
    work_items: int,
    dynamic_lds_bytes: int = 0,
    optimisation: str = "-O3",
    cache_dir: Path | None = None,
    sandbox: Sandbox | None = None,
) -> Inspection:
    """Read the compiler's syntax tree of a source that is already built. `sandbox` limits the compiler for untrusted sources.

    Raises:
        SyntaxTreeError: The compiler returned no syntax tree.
    """
    language = find_language(description.language)
    own = with_source_launch(description, source)
    request = language.syntax_request(own, source, architecture=architecture, optimisation=optimisation)
    return Inspection(
        syntax=read_syntax(request, compiler=compiler, cache_dir=cache_dir, sandbox=sandbox),
        code_object=build.code_object,
        dependencies=frozenset(str(path) for path in build.dependencies if path.name != source.name),
        work_items=work_items,
        file=str(source),
        dynamic_lds_bytes=dynamic_lds_bytes,
    )


def inspected_candidate(
    description: KernelDescription,
    source: Path,
    build: BuildResult,
    *,
    compiler: Compiler,
    target: Target,
    optimisation: str = "-O3",
    sandbox: Sandbox | None = None,
) -> CandidateSource:
    """Return the input of guards for one built source. `sandbox` limits the compiler for untrusted sources.

    Raises:
        LabError: The kernel is missing in the source or in the build, the launch is impossible, or the compiler returns no syntax
            tree.
    """
    kernel = find_kernel(build.code_object, description.entry)
    launch = build_launch(with_source_launch(description, source), build.code_object, kernel.symbol, build.contract)
    work_items = prod(launch.block)
    request = occupancy_request(kernel, workgroup_size=work_items, dynamic_lds_bytes=launch.dynamic_lds_bytes)
    inspection = inspect(
        description,
        source,
        build,
        compiler=compiler,
        architecture=target.architecture,
        work_items=work_items,
        dynamic_lds_bytes=launch.dynamic_lds_bytes,
        optimisation=optimisation,
        sandbox=sandbox,
    )
    unit = parse_source(source.read_bytes(), description.entry)
    return CandidateSource(unit, kernel, launch_occupancy(target, request).waves_per_simd, inspection)
