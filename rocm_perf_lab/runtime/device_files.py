"""Files of the emulated GPUs in /sys/bus/pci, /sys/class/drm and /sys/module/amdgpu, which `rocm-smi` and `amd-smi` read.

Files of temperature, power and voltage do not exist: an emulated GPU has none of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.runtime.topology import FileTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.runtime.emulated_gpus import TopologyGpu

DRIVER_VERSION = "6.12.12"
_BRIDGE = "sys/devices/pci0000:00"
_DRM_MAJOR = 226
_HOST_BYTES_SHARE = 2
"""Fraction of the host's memory that a GPU can map."""


def device_files(gpus: Sequence[TopologyGpu], host_memory_bytes: int) -> FileTree:
    """Return the files of the kernel module and of the GPUs.

    Args:
        gpus: GPUs of the machine.
        host_memory_bytes: Memory of this computer.
    """
    files = {
        "sys/module/amdgpu/initstate": "live\n",
        "sys/module/amdgpu/version": f"{DRIVER_VERSION}\n",
        "sys/module/amdgpu/refcnt": "0\n",
        "sys/class/drm/version": "drm 1.1.0 20060810\n",
    }
    links: dict[str, str] = {}
    for gpu in gpus:
        device = f"{_BRIDGE}/{gpu.pci_address}"
        files |= {f"{device}/{name}": content for name, content in _pci_files(gpu, host_memory_bytes).items()}
        links |= _links(gpu)
        # The driver answers for the devices; these are only listed.
        files |= {f"dev/dri/{name}": "" for name in (f"card{gpu.index}", f"renderD{gpu.render_minor}")}
    return FileTree(files, links)


def _pci_files(gpu: TopologyGpu, host_memory_bytes: int) -> dict[str, str]:
    driver, memory = gpu.driver, gpu.target.dram_bytes
    values: dict[str, str | int] = {
        "vendor": "0x1002",
        "device": f"{driver.device_id:#06x}",
        "subsystem_vendor": "0x1002",
        "subsystem_device": f"{driver.device_id:#06x}",
        "revision": f"{driver.revision_id:#04x}",
        "class": f"{driver.pci_class:#08x}",
        "uevent": _uevent(gpu),
        "unique_id": f"{gpu.unique_id:016x}",
        "product_name": gpu.name,
        "numa_node": 0,
        "enable": 1,
        "mem_info_vram_total": memory,
        "mem_info_vram_used": 0,
        "mem_info_vis_vram_total": memory,
        "mem_info_vis_vram_used": 0,
        "mem_info_gtt_total": host_memory_bytes // _HOST_BYTES_SHARE,
        "mem_info_gtt_used": 0,
        "gpu_busy_percent": 0,
        "mem_busy_percent": 0,
        "pp_dpm_sclk": f"0: {gpu.target.max_clock_mhz}Mhz *",
        "pp_dpm_mclk": f"0: {driver.memory_clock_mhz}Mhz *",
        "power_dpm_force_performance_level": "auto",
        "power_dpm_state": "performance",
        "current_link_speed": "32.0 GT/s PCIe",
        "max_link_speed": "32.0 GT/s PCIe",
        "current_link_width": 16,
        "max_link_width": 16,
        "fw_version/mec_fw_version": f"{driver.firmware_version:#010x}",
        "fw_version/sdma_fw_version": f"{driver.sdma_firmware_version:#010x}",
        "hwmon/hwmon0/name": "amdgpu",
        "hwmon/hwmon0/freq1_label": "sclk",
        "hwmon/hwmon0/freq1_input": gpu.target.max_clock_mhz * 1_000_000,
        "hwmon/hwmon0/freq2_label": "mclk",
        "hwmon/hwmon0/freq2_input": driver.memory_clock_mhz * 1_000_000,
        f"drm/card{gpu.index}/dev": f"{_DRM_MAJOR}:{gpu.index}",
        f"drm/card{gpu.index}/uevent": _node_uevent(gpu.index, f"card{gpu.index}"),
        f"drm/renderD{gpu.render_minor}/dev": f"{_DRM_MAJOR}:{gpu.render_minor}",
        f"drm/renderD{gpu.render_minor}/uevent": _node_uevent(gpu.render_minor, f"renderD{gpu.render_minor}"),
    }
    if gpu.target.xcds > 1:
        values |= {"current_compute_partition": "SPX", "available_compute_partition": "SPX"}
        values |= {"current_memory_partition": "NPS1", "available_memory_partition": "NPS1"}
    return {name: f"{value}\n" for name, value in values.items()}


def _uevent(gpu: TopologyGpu) -> str:
    device = f"{gpu.driver.device_id:04X}"
    return "\n".join(
        (
            "DRIVER=amdgpu",
            f"PCI_CLASS={gpu.driver.pci_class:X}",
            f"PCI_ID=1002:{device}",
            f"PCI_SUBSYS_ID=1002:{device}",
            f"PCI_SLOT_NAME={gpu.pci_address}",
        )
    )


def _node_uevent(minor: int, name: str) -> str:
    return f"MAJOR={_DRM_MAJOR}\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor"


def _links(gpu: TopologyGpu) -> dict[str, str]:
    device, card, render = f"{_BRIDGE}/{gpu.pci_address}", f"card{gpu.index}", f"renderD{gpu.render_minor}"
    inside = f"pci0000:00/{gpu.pci_address}"
    links = {
        f"sys/bus/pci/devices/{gpu.pci_address}": f"../../../devices/{inside}",
        f"sys/bus/pci/drivers/amdgpu/{gpu.pci_address}": f"../../../../devices/{inside}",
        f"{device}/driver": "../../../bus/pci/drivers/amdgpu",
        f"{device}/subsystem": "../../../bus/pci",
    }
    for name, minor in ((card, gpu.index), (render, gpu.render_minor)):
        links[f"sys/class/drm/{name}"] = f"../../devices/{inside}/drm/{name}"
        links[f"sys/dev/char/{_DRM_MAJOR}:{minor}"] = f"../../devices/{inside}/drm/{name}"
        links[f"{device}/drm/{name}/device"] = f"../../../{gpu.pci_address}"
        links[f"{device}/drm/{name}/subsystem"] = "../../../../../class/drm"
    return links
