"""Hardware facts of one GPU: the product facts of `conf/target/*.yaml` over the facts of its architecture.

Units are in the names. Figures come from AMD's public documentation; each YAML file names its sources in comments.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from rocm_perf_lab.arch.model import DriverFacts, LdsPool, WaveLimits
from rocm_perf_lab.arch.registry import architectures, find_architecture, merged
from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.target.timing import TimingParameters
from rocm_perf_lab.target.timing_errors import UNVALIDATED, TimingErrors


class Caches(StrictModel):
    """Cache sizes of the memory hierarchy; zero if a level does not exist."""

    vector_l1_bytes: int
    vector_l1_line_bytes: int
    vector_l1_ways: int
    scalar_l1_bytes: int
    instruction_l1_bytes: int
    l2_bytes_per_xcd: int
    l2_line_bytes: int
    l2_channels_per_xcd: int
    mall_bytes: int


class Peaks(StrictModel):
    """Theoretical roofs at maximum clock; None if unknown. Operations per CU and clock count an FMA as two."""

    vector_flops_per_cu_clock: dict[str, float]
    """`f64`, `f32`, `f32_packed`, `f16`, ..."""
    matrix_flops_per_cu_clock: dict[str, float] = {}
    dram_gb_per_s: float | None
    l2_gb_per_s: float | None
    vector_l1_gb_per_s: float | None
    lds_gb_per_s: float | None
    mall_gb_per_s: float | None = None


class Target(StrictModel):
    """One GPU (one GCD on MI250X).

    Keys that the architecture defines may be omitted; a value given for the target overrides the architecture's.
    """

    name: str
    product_name: str
    architecture: str
    """Processor name for `--offload-arch`: gfx942, gfx950, gfx90a, gfx1030."""
    family: str
    """Name of the architecture's generation: cdna3, rdna2."""
    gfx_target_version: int
    compute_units: int
    simds_per_cu: int
    xcds: int
    shader_engines: int
    max_clock_mhz: int
    dram_bytes: int
    max_workgroup_size: int = 1024
    default_mode: str
    """The one of `modes` that the compiler uses by default."""
    modes: dict[str, WaveLimits] = Field(min_length=1)
    lds: dict[str, LdsPool] = Field(min_length=1)
    """Keys: those of `modes`."""
    caches: Caches
    peaks: Peaks
    timing: TimingParameters | None = None
    """Parameters of the emulator's timing model; None if the emulator has none for this target."""
    driver: DriverFacts | None = None
    """Facts that the emulated driver reports; None if applications cannot run on this target."""

    @model_validator(mode="before")
    @classmethod
    def _add_architecture(cls, values: Any) -> Any:
        """Add the facts of the architecture to those of the product."""
        if not isinstance(values, dict) or not isinstance(values.get("architecture"), str):
            return values
        architecture = find_architecture(values["architecture"])
        if architecture is not None:
            defaults = architecture.target_defaults()
            if values.get("timing") is None:
                del defaults["timing"]  # without the product's own rates there is no timing model
            if values.get("driver") is None:
                del defaults["driver"]
            return merged(defaults, values)
        if _ARCHITECTURE_KEYS - values.keys():
            name = values["architecture"]
            known = ", ".join(architectures())
            raise ValueError(f"unknown architecture {name}: describe it in conf/arch/{name}.yaml, or use one of {known}")
        return values

    @property
    def timing_errors(self) -> TimingErrors:
        """Error bands of emulated times."""
        return self.timing.error if self.timing is not None else UNVALIDATED

    @property
    def wave_limits(self) -> WaveLimits:
        """Limits in the default mode."""
        return self.modes[self.default_mode]

    @property
    def lds_pool(self) -> LdsPool:
        """LDS pool in the default mode."""
        return self.lds[self.default_mode]


_ARCHITECTURE_KEYS = {"family", "gfx_target_version", "simds_per_cu", "default_mode", "modes", "lds"}
