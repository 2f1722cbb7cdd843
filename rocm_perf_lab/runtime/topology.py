"""Topology of the emulated machine in the sysfs format of the KFD driver: one CPU node and one node per GPU.

:func:`topology` is a pure function from the GPUs and facts of the host to files. Values are decimal, as in the driver's files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.runtime.emulated_gpus import TopologyGpu

TOPOLOGY = "sys/devices/virtual/kfd/kfd/topology"
_PROCESSES = "sys/devices/virtual/kfd/kfd/proc"
_GPU_SIMD_ID_BASE = 0x80001000
_SIMD_IDS_PER_GPU = 0x10000
_HIVE_ID = 0x52504C_4849564500
_LINK_KINDS = {"pcie": (2, 20), "xgmi": (11, 15)}
"""Type and weight of links."""
_DATA, _INSTRUCTION, _OF_CU = 1, 2, 8
_MOST_SIBLINGS = 256
# Bits of `capability`: linux/kfd_sysfs.h.
_WATCH_POINTS, _WATCH_POINTS_SHIFT = 1 << 7, 8
_DOORBELL_OF_64_BITS = 2 << 12
_DEBUG_TRAP, _MEMORY_ECC, _SRAM_ECC, _SVM_API, _DEBUG_FIRMWARE = 1 << 15, 1 << 20, 1 << 26, 1 << 27, 1 << 29
_CPU_FIELDS = (
    "simd_count",
    "mem_banks_count",
    "caches_count",
    "io_links_count",
    "p2p_links_count",
    "cpu_core_id_base",
    "simd_id_base",
    "max_waves_per_simd",
    "lds_size_in_kb",
    "gds_size_in_kb",
    "num_gws",
    "wave_front_size",
    "array_count",
    "simd_arrays_per_engine",
    "cu_per_simd_array",
    "simd_per_cu",
    "max_slots_scratch_cu",
    "gfx_target_version",
    "vendor_id",
    "device_id",
    "location_id",
    "domain",
    "drm_render_minor",
    "hive_id",
    "num_sdma_engines",
    "num_sdma_xgmi_engines",
    "num_sdma_queues_per_engine",
    "num_cp_queues",
)


@dataclass(frozen=True)
class HostFacts:
    """Facts of this computer that the topology contains."""

    cpus: int
    memory_bytes: int
    clock_mhz: int = 0
    """Maximum clock of the CPU; 0 if unknown."""


@dataclass(frozen=True)
class FileTree:
    """Files and symbolic links by their path, relative to the root of the emulated machine."""

    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)
    """Target of each symbolic link, relative to the directory of the link."""
    empty: tuple[str, ...] = ()
    """Empty directories."""


def topology(gpus: Sequence[TopologyGpu], host: HostFacts) -> FileTree:
    """Return the files of /sys/devices/virtual/kfd and their usual symbolic links.

    Args:
        gpus: GPUs of the machine.
        host: Facts of this computer.
    """
    files = {
        f"{TOPOLOGY}/generation_id": "2\n",
        f"{TOPOLOGY}/system_properties": _lines({"platform_oem": 0, "platform_id": 0, "platform_rev": 0}),
    }
    files |= _directory(f"{TOPOLOGY}/nodes/0", _cpu_node(gpus, host))
    for gpu in gpus:
        files |= _directory(f"{TOPOLOGY}/nodes/{gpu.node}", _gpu_node(gpu, gpus, host))
    files["sys/devices/virtual/kfd/kfd/uevent"] = "MAJOR=236\nMINOR=0\nDEVNAME=kfd\n"
    files["sys/devices/virtual/kfd/kfd/dev"] = "236:0\n"
    return FileTree(files, {"sys/class/kfd/kfd": "../../devices/virtual/kfd/kfd"}, (_PROCESSES,))


def capability(gpu: TopologyGpu) -> int:
    """Return the bit field `capability` of a GPU."""
    bits = _WATCH_POINTS | (gpu.driver.watch_points.bit_length() - 1) << _WATCH_POINTS_SHIFT
    bits |= _DOORBELL_OF_64_BITS | _DEBUG_TRAP | _SVM_API | _DEBUG_FIRMWARE
    return bits | (_MEMORY_ECC | _SRAM_ECC if gpu.sram_ecc else 0)


def _cpu_node(gpus: Sequence[TopologyGpu], host: HostFacts) -> dict[str, str]:
    counts = {"mem_banks_count": 1, "io_links_count": len(gpus)}
    clock = {"max_engine_clk_ccompute": host.clock_mhz}
    properties = {"cpu_cores_count": host.cpus, **dict.fromkeys(_CPU_FIELDS, 0), **counts, **clock}
    bank = {"heap_type": 0, "size_in_bytes": host.memory_bytes, "flags": 0, "width": 64, "mem_clk_max": 0}
    files = {"gpu_id": "0\n", "name": "\n", "properties": _lines(properties), "mem_banks/0/properties": _lines(bank)}
    return files | {f"io_links/{i}/properties": _link("pcie", 0, gpu.node) for i, gpu in enumerate(gpus)}


def _gpu_node(gpu: TopologyGpu, gpus: Sequence[TopologyGpu], host: HostFacts) -> dict[str, str]:
    others = [other for other in gpus if other.node != gpu.node]
    linked = others if gpu.driver.gpu_link == "xgmi" else []
    peers = [other for other in others if other not in linked]
    caches = _caches(gpu)
    counts = {
        "mem_banks_count": 1,
        "caches_count": len(caches),
        "io_links_count": 1 + len(linked),
        "p2p_links_count": len(peers),
    }
    properties = _gpu_properties(gpu, host, is_linked=bool(linked)) | counts
    files = {
        "gpu_id": f"{gpu.gpu_id}\n",
        "name": "ip discovery\n",
        "properties": _lines(properties),
        "mem_banks/0/properties": _lines(_memory_bank(gpu)),
        "io_links/0/properties": _link("pcie", gpu.node, 0),
    }
    files |= {f"caches/{i}/properties": cache for i, cache in enumerate(caches)}
    files |= {f"io_links/{i}/properties": _link("xgmi", gpu.node, other.node) for i, other in enumerate(linked, 1)}
    return files | {f"p2p_links/{i}/properties": _link("pcie", gpu.node, other.node) for i, other in enumerate(peers)}


def _gpu_properties(gpu: TopologyGpu, host: HostFacts, *, is_linked: bool) -> dict[str, int]:
    target, driver = gpu.target, gpu.driver
    arrays = target.shader_engines * driver.shader_arrays_per_engine
    return {
        "cpu_cores_count": 0,
        "simd_count": target.compute_units * target.simds_per_cu,
        "cpu_core_id_base": 0,
        "simd_id_base": _simd_id_base(gpu),
        "max_waves_per_simd": target.wave_limits.max_waves_per_simd,
        "lds_size_in_kb": target.lds_pool.max_per_workgroup_bytes >> 10,
        "gds_size_in_kb": 0,
        "num_gws": driver.global_wave_syncs,
        "wave_front_size": target.wave_limits.wave_size,
        "array_count": arrays,
        "simd_arrays_per_engine": driver.shader_arrays_per_engine,
        "cu_per_simd_array": -(-target.compute_units // arrays),
        "simd_per_cu": target.simds_per_cu,
        "max_slots_scratch_cu": driver.scratch_slots_per_cu,
        "gfx_target_version": target.gfx_target_version,
        "vendor_id": 0x1002,
        "device_id": driver.device_id,
        "location_id": gpu.pci_bus << 8,
        "domain": 0,
        "drm_render_minor": gpu.render_minor,
        "hive_id": _HIVE_ID if is_linked else 0,
        "num_sdma_engines": driver.sdma_engines,
        "num_sdma_xgmi_engines": driver.sdma_xgmi_engines if is_linked else 0,
        "num_sdma_queues_per_engine": driver.sdma_queues_per_engine,
        "num_cp_queues": driver.compute_queues,
        "max_engine_clk_fcompute": target.max_clock_mhz,
        "local_mem_size": 0,  # Listed with the memory banks.
        "fw_version": driver.firmware_version,
        "capability": capability(gpu),
        "debug_prop": driver.debug_properties,
        "sdma_fw_version": driver.sdma_firmware_version,
        "unique_id": gpu.unique_id,
        "num_xcc": target.xcds,
        "max_engine_clk_ccompute": host.clock_mhz,
    }


def _simd_id_base(gpu: TopologyGpu) -> int:
    return _GPU_SIMD_ID_BASE + _SIMD_IDS_PER_GPU * gpu.index


def _memory_bank(gpu: TopologyGpu) -> dict[str, int]:
    public = 1  # All device memory is visible to the CPU, as with a large BAR.
    width, clock = gpu.driver.memory_bus_bits, gpu.driver.memory_clock_mhz
    return {"heap_type": public, "size_in_bytes": gpu.target.dram_bytes, "flags": 0, "width": width, "mem_clk_max": clock}


def _caches(gpu: TopologyGpu) -> list[str]:
    """Return one description per kind of cache; the real driver repeats each for every instance."""
    caches = gpu.target.caches
    kinds = (
        (1, caches.vector_l1_bytes, caches.vector_l1_line_bytes, _DATA | _OF_CU, 1),
        (1, caches.scalar_l1_bytes, 64, _DATA | _OF_CU, 2),
        (1, caches.instruction_l1_bytes, 64, _INSTRUCTION | _OF_CU, 2),
        (2, caches.l2_bytes_per_xcd, caches.l2_line_bytes, _DATA | _OF_CU, gpu.target.compute_units // gpu.target.xcds),
        (3, caches.mall_bytes, 64, _DATA | _OF_CU, gpu.target.compute_units),
    )
    return [_cache(gpu, *kind) for kind in kinds if kind[1]]


def _cache(gpu: TopologyGpu, level: int, size: int, line: int, kind: int, siblings: int) -> str:
    properties = {
        "processor_id_low": _simd_id_base(gpu),
        "level": level,
        "size": size >> 10,
        "cache_line_size": line,
        "cache_lines_per_tag": 1,
        "association": 16,
        "latency": 0,
        "type": kind,
    }
    sharing = ",".join(["1"] * min(siblings, _MOST_SIBLINGS))
    return _lines(properties) + f"sibling_map {sharing}\n"


def _link(kind: str, start: int, end: int) -> str:
    number, weight = _LINK_KINDS[kind]
    return _lines(
        {
            "type": number,
            "version_major": 0,
            "version_minor": 0,
            "node_from": start,
            "node_to": end,
            "weight": weight,
            "min_latency": 0,
            "max_latency": 0,
            "min_bandwidth": 312,
            "max_bandwidth": 64000,
            "recommended_transfer_size": 0,
            "recommended_sdma_engine_id_mask": 0,
            "flags": 1,
        }
    )


def _lines(properties: Mapping[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in properties.items())


def _directory(path: str, files: Mapping[str, str]) -> dict[str, str]:
    return {f"{path}/{name}": content for name, content in files.items()}
