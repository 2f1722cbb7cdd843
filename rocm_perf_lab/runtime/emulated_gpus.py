"""GPUs that are visible to an application: identifiers and facts, from the description of a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.arch.registry import find_architecture
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from rocm_perf_lab.arch.model import DriverFacts
    from rocm_perf_lab.target.model import Target

MOST_GPUS = 16
_FIRST_GPU_ID = 0x4242
_FIRST_RENDER_MINOR = 128
_UNIQUE_ID = 0x52504C_0000000000
_PCI_BUSES_BETWEEN = 8


class TargetNotRunnable(LabError):
    """Target on which applications cannot run."""


@dataclass(frozen=True)
class TopologyGpu:
    """One GPU of the emulated machine."""

    index: int
    target: Target
    driver: DriverFacts
    sram_ecc: bool
    """Whether it runs code objects for `sramecc+`."""
    xnack: bool
    """Whether kernels can recover from page faults if a process asks for it."""

    @property
    def gpu_id(self) -> int:
        """Identifier in the ioctls of the driver."""
        return _FIRST_GPU_ID + self.index

    @property
    def node(self) -> int:
        """Node in the topology; node 0 is the CPU."""
        return self.index + 1

    @property
    def render_minor(self) -> int:
        """Number of the render node: /dev/dri/renderD128 of the first GPU."""
        return _FIRST_RENDER_MINOR + self.index

    @property
    def unique_id(self) -> int:
        """Number that distinguishes the GPU from others."""
        return _UNIQUE_ID + self.index + 1

    @property
    def pci_bus(self) -> int:
        """PCI bus; the GPU is device 0, function 0."""
        return 3 + _PCI_BUSES_BETWEEN * self.index

    @property
    def pci_address(self) -> str:
        """PCI address: `0000:03:00.0`."""
        return f"0000:{self.pci_bus:02x}:00.0"

    @property
    def name(self) -> str:
        """Marketing name."""
        return self.driver.marketing_name or self.target.product_name

    def settings(self) -> dict[str, int | str]:
        """Return the settings of the driver library for this GPU."""
        return {
            "id": self.gpu_id,
            "node": self.node,
            "render_minor": self.render_minor,
            "device_id": self.driver.device_id,
            "family_id": self.driver.family_id,
            "compute_units": self.target.compute_units,
            "xcds": self.target.xcds,
            "wave_size": self.target.wave_limits.wave_size,
            "clock_mhz": self.target.max_clock_mhz,
            "memory_clock_mhz": self.driver.memory_clock_mhz,
            "memory_bytes": self.target.dram_bytes,
            "xnack": int(self.xnack),
            "vector_line_bytes": self.target.caches.vector_l1_line_bytes,
            "lds_bytes": self.target.lds_pool.max_per_workgroup_bytes,
            **_times(self.target),
            "architecture": self.target.architecture,
            "name": self.name,
        }


def _times(target: Target) -> dict[str, int]:
    """Return the settings for rough durations; empty without a timing model."""
    timing = target.timing
    if timing is None:
        return {}
    return {
        "launch_ns": round(timing.launch_overhead_ns + timing.dispatch_record_ns),
        "memory_gb_per_s": round(timing.achievable_dram_gb_per_s),
    }


def emulated_gpus(target: Target, count: int) -> tuple[TopologyGpu, ...]:
    """Return `count` GPUs of one model.

    Raises:
        TargetNotRunnable: The target has no facts for the driver, or `count` is not supported.
    """
    if target.driver is None:
        raise TargetNotRunnable(
            f"applications cannot run on {target.name}: its description has no facts for the kernel driver",
            hint="add the key `driver` to the target; see conf/target/mi300x.yaml",
        )
    if not 1 <= count <= MOST_GPUS:
        raise TargetNotRunnable(f"the emulated machine has 1 to {MOST_GPUS} GPUs, not {count}", hint="correct --gpus")
    architecture = find_architecture(target.architecture)
    sram_ecc = architecture is not None and architecture.fixed_settings.get("sramecc", False)
    xnack = architecture is not None and "xnack" in architecture.settings
    return tuple(TopologyGpu(index, target, target.driver, sram_ecc, xnack) for index in range(count))
