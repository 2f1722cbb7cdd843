"""One configuration of a kernel, compiled: what it needs, and whether the target can run it at all. Nothing is run here.

A parameter of the space is a parameter of the kernel of the same name (`kernel.params.NAME`); from there its expressions carry
it into defines, constexprs, compiler options, shapes and geometry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.objective import Infeasible
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.expressions import ExpressionError
from rocm_perf_lab.device.launch import LaunchError, build_launch, launch_geometry
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.target.occupancy import LaunchImpossible, launch_occupancy
from rocm_perf_lab.toolchain.build import CompileError
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request

if TYPE_CHECKING:
    from rocm_perf_lab.autotune.space import Configuration, Space
    from rocm_perf_lab.core.geometry import Geometry
    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.languages.description import KernelDescription
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.target.occupancy import Occupancy
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.code_object import KernelMetadata
    from rocm_perf_lab.toolchain.compilers import Compiler


@dataclass(frozen=True)
class Candidate:
    """A compiled configuration that fits the target; its inputs are made when it is launched."""

    description: KernelDescription
    build: BuildResult
    kernel: KernelMetadata
    geometry: Geometry
    occupancy: Occupancy

    @cached_property
    def launch(self) -> Launch:
        """Ready to run.

        Raises:
            LaunchError: A shape that is not positive, an input that cannot be read, a value that does not fit.
        """
        return build_launch(self.description, self.build.code_object, self.kernel.symbol, self.build.contract)

    @property
    def lds_bytes(self) -> int:
        """Of a workgroup, static and dynamic."""
        return self.kernel.lds_bytes + self.geometry.dynamic_lds_bytes


@dataclass(frozen=True)
class KernelBuilder:
    """Compiles configurations of one kernel; may be sent to another process.

    Args:
        description: The kernel as its kernel.yaml states it.
        target: The GPU that it has to fit.
        compilers: In order of preference.
        optimisation: For HIP.
        max_spills: VGPRs that a configuration may spill; None sets no limit.
    """

    description: KernelDescription
    target: Target
    compilers: tuple[str, ...]
    optimisation: str = "-O3"
    max_spills: int | None = None

    @cached_property
    def _compiler(self) -> Compiler:
        return find_compiler(self.compilers)

    def check(self, space: Space) -> None:
        """Whether the kernel has the parameters of a space.

        Raises:
            LabError: It does not have one of them.
        """
        known = self.description.params
        unknown = [name for name in (*space.names, *space.fixed) if name not in known]
        if unknown:
            raise LabError(
                f"kernel {self.description.name} has no parameter {unknown[0]!r}, which the space turns",
                where=f"{space.where}, parameters.{unknown[0]}",
                hint=f"parameters of the kernel (kernel.params): {', '.join(known) or 'none'}",
            )

    def describe(self, configuration: Configuration) -> KernelDescription:
        """The kernel's description with the configuration's values; derived values that it does not name are left out."""
        params = self.description.params
        values = {name: value for name, value in configuration.items() if name in params}
        return self.description.model_copy(update={"params": {**params, **values}})

    def build(self, configuration: Configuration) -> Candidate | Infeasible:
        """Compile one configuration, or say why it cannot run on the target.

        Raises:
            LabError: Whatever is not the configuration's fault: no compiler, a kernel that is not in the source.
        """
        description = self.describe(configuration)
        try:
            build = compile_description(
                description,
                description.source_path,
                architecture=self.target.architecture,
                compiler=lambda: self._compiler,
                optimisation=self.optimisation,
            )
            kernel = find_kernel(build.code_object, description.entry)
            geometry = launch_geometry(description, build.contract)
            items = prod(geometry.block)
            asked = occupancy_request(kernel, workgroup_size=items, dynamic_lds_bytes=geometry.dynamic_lds_bytes)
            occupancy = launch_occupancy(self.target, asked)
        except CompileError as error:
            return Infeasible(f"does not compile: {error.what.splitlines()[0]}", stage="compile")
        except (LaunchError, LaunchImpossible, ExpressionError) as error:
            return Infeasible(error.what, stage="resources")
        most = kernel.max_flat_workgroup_size
        if items > most:
            return Infeasible(f"the workgroup has {items} work-items, the kernel was compiled for {most}", stage="resources")
        if self.max_spills is not None and kernel.vgpr_spill_count > self.max_spills:
            what = f"{kernel.vgpr_spill_count} VGPRs are spilled to memory, autotune.max_spills allows {self.max_spills}"
            return Infeasible(what, stage="resources")
        return Candidate(description, build, kernel, geometry, occupancy)
