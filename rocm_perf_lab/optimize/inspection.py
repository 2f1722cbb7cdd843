"""What guards look at: a source, what the compiler made of it, and the compiler's own tree of it."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.languages.compilation import hip_request
from rocm_perf_lab.optimize.guards import Candidate, Inspection
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from rocm_perf_lab.toolchain.syntax import read_syntax

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox


def inspect(
    description: KernelDescription,
    source: Path,
    build: BuildResult,
    *,
    compiler: Compiler,
    architecture: str,
    work_items: int,
    optimisation: str = "-O3",
    cache_dir: Path | None = None,
    sandbox: Sandbox | None = None,
) -> Inspection:
    """Read the compiler's tree of a source that was built already; in the sandbox where nobody vouches for it.

    Raises:
        SyntaxTreeError: There is none.
    """
    request = hip_request(description, source, architecture=architecture, optimisation=optimisation)
    return Inspection(
        syntax=read_syntax(request, compiler=compiler, cache_dir=cache_dir, sandbox=sandbox),
        code_object=build.code_object,
        dependencies=frozenset(str(path) for path in build.dependencies if path.name != source.name),
        work_items=work_items,
    )


def inspected_candidate(
    description: KernelDescription,
    source: Path,
    build: BuildResult,
    *,
    compiler: Compiler,
    target: Target,
    optimisation: str = "-O3",
) -> Candidate:
    """Everything that guards ask for, of one source.

    Raises:
        LabError: The kernel is not in the source or not in the build, or its launch is impossible.
    """
    kernel = find_kernel(build.code_object, description.entry)
    launch = build_launch(description, build.code_object, kernel.symbol, build.contract)
    work_items = prod(launch.block)
    asked = occupancy_request(kernel, workgroup_size=work_items, dynamic_lds_bytes=launch.dynamic_lds_bytes)
    inspection = inspect(
        description,
        source,
        build,
        compiler=compiler,
        architecture=target.architecture,
        work_items=work_items,
        optimisation=optimisation,
    )
    unit = parse_source(source.read_bytes(), description.entry)
    return Candidate(unit, kernel, launch_occupancy(target, asked).waves_per_simd, inspection)
