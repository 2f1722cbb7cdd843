"""Device code of an application's source, compiled in the sandbox for guards.

It is compiled with the macros and include directories of the user's build command, which itself runs only if all guards pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.bench import BuiltCandidate
from rocm_perf_lab.optimize.inspection import Inspection
from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from rocm_perf_lab.toolchain.syntax import read_syntax

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.jobs.optimize.application_source import ApplicationSource
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox


@dataclass(frozen=True)
class ApplicationDeviceCode:
    """Compiles and inspects the device code of candidates.

    Args:
        application: Source and build command.
        target: GPU.
        compiler: Compiler for guards.
        sandbox: Limits of `compiler`.
    """

    application: ApplicationSource
    target: Target
    compiler: Compiler
    sandbox: Sandbox

    def compile(self, path: Path, *, fresh: bool = False) -> BuildResult:
        """Compile the device code of a source.

        Raises:
            CompileError: The source does not compile.
        """
        return compile_source(self._request(path), compiler=self.compiler, sandbox=self.sandbox, fresh=fresh)

    def inspected(self, path: Path, build: BuildResult, symbol: str, *, work_items: int) -> BuiltCandidate:
        """Return the facts of one kernel that guards examine.

        Args:
            path: Source.
            build: Its device code.
            symbol: Kernel.
            work_items: Work-items per workgroup.

        Raises:
            LabError: The kernel is missing, or the compiler returns no syntax tree.
        """
        kernel = find_kernel(build.code_object, symbol)
        asked = occupancy_request(kernel, workgroup_size=work_items, dynamic_lds_bytes=0)
        inspection = Inspection(
            syntax=read_syntax(self._request(path), compiler=self.compiler, sandbox=self.sandbox),
            code_object=build.code_object,
            dependencies=frozenset(str(d) for d in build.dependencies if d.name != path.name),
            work_items=work_items,
            file=str(path),
        )
        return BuiltCandidate(
            kernel, build.code_object.sha256, launch_occupancy(self.target, asked).waves_per_simd, build.cached, inspection
        )

    def _request(self, path: Path) -> CompileRequest:
        return CompileRequest(
            source=path,
            architecture=self.target.architecture,
            flags=self.application.device_flags(),
            include_dirs=(self.application.source.absolute().parent,),
        )
