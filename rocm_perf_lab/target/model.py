"""Hardware facts of one GPU, as `conf/target/*.yaml` states them. Data only: rules that use them live beside this file.

Units are in the names. Figures come from AMD's public documentation; each YAML names its sources in comments.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.target.timing import TimingParameters


class WaveLimits(StrictModel):
    """What bounds the wavefronts that one SIMD can hold, in one wave size and mode."""

    wave_size: Literal[32, 64]
    max_waves_per_simd: int
    vgprs_per_lane: int
    """Registers of a SIMD's file per lane slot, all wavefronts together."""
    vgpr_granule: int
    max_addressable_vgprs: int
    agprs_share_file: bool
    """CDNA2 and later: accumulation VGPRs come out of the same file, after the architectural ones rounded up to 4."""
    sgpr_limits: dict[int, int] = {}
    """Waves per SIMD -> the most SGPRs with which that many fit; empty where SGPRs do not limit."""


class LdsPool(StrictModel):
    """LDS shared by a group of SIMDs (a CU, or a WGP on RDNA)."""

    bytes: int
    granule_bytes: int
    max_per_workgroup_bytes: int
    simds: int
    workgroup_slots: int
    """Workgroups of more than one wavefront that can be resident (barrier slots)."""


class Caches(StrictModel):
    """Cache sizes of the memory hierarchy; zero where a level does not exist."""

    vector_l1_bytes: int
    vector_l1_line_bytes: int
    scalar_l1_bytes: int
    l2_bytes_per_xcd: int
    l2_line_bytes: int
    l2_channels_per_xcd: int
    mall_bytes: int


class Peaks(StrictModel):
    """Theoretical roofs at maximum clock; None where unknown. Operations per CU and clock count an FMA as two."""

    vector_flops_per_cu_clock: dict[str, float]
    """`f64`, `f32`, `f32_packed`, `f16`, ..."""
    matrix_flops_per_cu_clock: dict[str, float] = {}
    dram_gb_per_s: float | None
    l2_gb_per_s: float | None
    vector_l1_gb_per_s: float | None
    lds_gb_per_s: float | None
    mall_gb_per_s: float | None = None


class Target(StrictModel):
    """One GPU (one GCD on MI250X)."""

    name: str
    product_name: str
    architecture: str
    """The processor name that the compiler takes: gfx942, gfx950, gfx90a, gfx1030."""
    family: Literal["cdna2", "cdna3", "cdna4", "rdna2"]
    gfx_target_version: int
    compute_units: int
    simds_per_cu: int
    xcds: int
    shader_engines: int
    max_clock_mhz: int
    dram_bytes: int
    max_workgroup_size: int = 1024
    default_mode: str
    """Which of `modes` the compiler uses by default."""
    modes: dict[str, WaveLimits] = Field(min_length=1)
    lds: dict[str, LdsPool] = Field(min_length=1)
    """By the same mode names as `modes`."""
    caches: Caches
    peaks: Peaks
    timing: TimingParameters | None = None
    """Parameters of the emulator's timing model; None where the emulator has none for this target."""

    @property
    def wave_limits(self) -> WaveLimits:
        """Limits in the default mode."""
        return self.modes[self.default_mode]

    @property
    def lds_pool(self) -> LdsPool:
        """LDS pool in the default mode."""
        return self.lds[self.default_mode]
