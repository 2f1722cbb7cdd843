"""Compilation of one configuration of a kernel, its resources, and whether it fits the target. No kernel is run here.

A parameter of the space sets the kernel parameter of the same name (`kernel.params.NAME`). The expressions of the kernel
description use it in defines, constexprs, compiler options, shapes and geometry.
"""

from __future__ import annotations

import time
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
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space
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
    """Compiled configuration that fits the target. Its inputs are created when `launch` is first read."""

    description: KernelDescription
    build: BuildResult
    kernel: KernelMetadata
    geometry: Geometry
    occupancy: Occupancy
    compile_s: float | None = None
    """Seconds of an own compilation, if that is timed."""

    @cached_property
    def launch(self) -> Launch:
        """The launch with its inputs.

        Raises:
            LaunchError: A shape is not positive, an input cannot be read, or a value does not fit its type.
        """
        return build_launch(self.description, self.build.code_object, self.kernel.symbol, self.build.contract)

    @property
    def lds_bytes(self) -> int:
        """LDS of a workgroup in bytes, static and dynamic."""
        return self.kernel.lds_bytes + self.geometry.dynamic_lds_bytes


@dataclass(frozen=True)
class KernelBuilder:
    """Compiler of the configurations of one kernel; can be pickled.

    Args:
        description: The kernel as in its kernel.yaml.
        target: The GPU.
        compilers: Names of compilers in order of preference.
        optimisation: Optimisation option for HIP.
        max_spills: Largest number of spilled VGPRs; None: unlimited.
        timed: Whether to compile anew, and time that.
    """

    description: KernelDescription
    target: Target
    compilers: tuple[str, ...]
    optimisation: str = "-O3"
    max_spills: int | None = None
    timed: bool = False

    @cached_property
    def _compiler(self) -> Compiler:
        return find_compiler(self.compilers)

    def check(self, space: Space) -> None:
        """Check that the kernel has the parameters of a space.

        Raises:
            LabError: The kernel does not have a parameter of the space.
        """
        known = self.description.params
        unknown = [name for name in space.settings if name not in known]
        if unknown:
            raise LabError(
                f"kernel {self.description.name} has no parameter {unknown[0]!r}, which the space varies",
                where=f"{space.where}, parameters.{unknown[0]}",
                hint=f"parameters of the kernel (kernel.params): {', '.join(known) or 'none'}",
            )

    def describe(self, configuration: Configuration) -> KernelDescription:
        """Return the kernel description with the values of a configuration that are parameters of the kernel."""
        params = self.description.params
        values = {name: value for name, value in configuration.items() if name in params}
        return self.description.model_copy(update={"params": {**params, **values}})

    def build(self, configuration: Configuration) -> Candidate | Infeasible:
        """Compile one configuration, or return the reason why it cannot run on the target.

        Raises:
            LabError: The cause is not the configuration: there is no compiler, or the source does not define the kernel.
        """
        description = self.describe(configuration)
        start = time.perf_counter()
        try:
            build = compile_description(
                description,
                description.source_path,
                architecture=self.target.architecture,
                compiler=lambda: self._compiler,
                optimisation=self.optimisation,
                fresh=self.timed,
            )
            seconds = time.perf_counter() - start if self.timed else None
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
            return Infeasible(f"the workgroup has {items} work-items, but the kernel was compiled for {most}", stage="resources")
        if self.max_spills is not None and kernel.vgpr_spill_count > self.max_spills:
            what = f"{kernel.vgpr_spill_count} VGPRs are spilled to memory, autotune.max_spills allows {self.max_spills}"
            return Infeasible(what, stage="resources")
        return Candidate(description, build, kernel, geometry, occupancy, seconds)
