"""Files of the emulated machine: values of data sheets and of real machines."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from rocm_perf_lab.runtime.device_files import device_files
from rocm_perf_lab.runtime.emulated_gpus import TargetNotRunnable, emulated_gpus
from rocm_perf_lab.runtime.topology import TOPOLOGY, FileTree, HostFacts, topology
from rocm_perf_lab.target.catalog import load_target, target_names

HOST = HostFacts(cpus=4, memory_bytes=16 << 30)


def machine(target: str, count: int = 1) -> FileTree:
    return topology(emulated_gpus(load_target(target), count), HOST)


def properties(tree: FileTree, path: str) -> dict[str, int]:
    lines = tree.files[f"{TOPOLOGY}/nodes/{path}/properties"].splitlines()
    return {name: int(value) for name, value in (line.split(" ") for line in lines if not line.startswith("sibling_map"))}


def test_an_mi300x_is_what_its_driver_reports() -> None:
    gpu = properties(machine("mi300x"), "1")

    wanted = {
        "simd_count": 1216,
        "array_count": 32,
        "cu_per_simd_array": 10,
        "simd_per_cu": 4,
        "wave_front_size": 64,
        "max_waves_per_simd": 8,
        "lds_size_in_kb": 64,
        "num_xcc": 8,
        "gfx_target_version": 90402,
        "vendor_id": 4098,
        "device_id": 29857,
        "max_engine_clk_fcompute": 2100,
        "drm_render_minor": 128,
    }
    assert {name: gpu[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("target", "simds", "arrays", "units_per_array", "wave", "lds", "version", "device"),
    [
        ("mi250x", 440, 8, 14, 64, 64, 90010, 0x7408),
        ("mi355x", 1024, 32, 8, 64, 160, 90500, 0x75A3),
        ("rx6900xt", 160, 8, 10, 32, 64, 100300, 0x73BF),
    ],
)
def test_products_differ(
    target: str, simds: int, arrays: int, units_per_array: int, wave: int, lds: int, version: int, device: int
) -> None:
    gpu = properties(machine(target), "1")

    assert (gpu["simd_count"], gpu["array_count"], gpu["cu_per_simd_array"]) == (simds, arrays, units_per_array)
    assert (gpu["wave_front_size"], gpu["lds_size_in_kb"]) == (wave, lds)
    assert (gpu["gfx_target_version"], gpu["device_id"]) == (version, device)


def test_only_accelerators_have_ecc() -> None:
    sram_ecc = 1 << 26

    assert properties(machine("mi250x"), "1")["capability"] & sram_ecc
    assert not properties(machine("rx6900xt"), "1")["capability"] & sram_ecc


@pytest.mark.parametrize("target", target_names())
def test_counts_are_those_of_the_directories(target: str) -> None:
    tree = machine(target, 3)

    for node in range(4):
        listed = properties(tree, str(node))
        paths = [PurePosixPath(path.removeprefix(f"{TOPOLOGY}/")) for path in tree.files]
        for kind, count in (("mem_banks", "mem_banks_count"), ("caches", "caches_count"), ("io_links", "io_links_count")):
            assert listed[count] == len([p for p in paths if p.parts[:3] == ("nodes", str(node), kind)])
        peers = [p for p in paths if p.parts[:3] == ("nodes", str(node), "p2p_links")]
        assert listed["p2p_links_count"] == len(peers)


def test_gpus_of_accelerators_are_linked_by_xgmi_and_others_by_pcie() -> None:
    accelerators, cards = machine("mi250x", 2), machine("rx6800xt", 2)

    link = properties(accelerators, "2/io_links/1")
    assert (link["type"], link["node_from"], link["node_to"]) == (11, 2, 1)
    assert properties(accelerators, "1")["hive_id"] == properties(accelerators, "2")["hive_id"] != 0
    peer = properties(cards, "2/p2p_links/0")
    assert (peer["type"], peer["node_from"], peer["node_to"]) == (2, 2, 1)
    assert properties(cards, "1")["hive_id"] == 0


def test_one_gpu_has_no_link_to_another() -> None:
    gpu = properties(machine("mi300x"), "1")

    assert (gpu["io_links_count"], gpu["p2p_links_count"], gpu["hive_id"], gpu["num_sdma_xgmi_engines"]) == (1, 0, 0, 0)


def test_every_target_has_facts_for_the_driver() -> None:
    for name in target_names():
        gpu = emulated_gpus(load_target(name), 1)[0]
        settings = gpu.settings()

        assert isinstance(settings["memory_bytes"], int)
        assert 8 << 30 <= settings["memory_bytes"] <= 512 << 30
        assert len(str(settings["name"])) < 64


def test_memory_clock_and_width_give_the_bandwidth_of_the_target() -> None:
    for name in target_names():
        target = load_target(name)
        driver = emulated_gpus(target, 1)[0].driver
        bytes_per_clock = driver.memory_bus_bits / 8
        transfers = {transfers: bytes_per_clock * driver.memory_clock_mhz * transfers / 1000 for transfers in (2, 4, 16)}

        assert target.peaks.dram_gb_per_s is not None
        assert any(abs(rate / target.peaks.dram_gb_per_s - 1) < 0.03 for rate in transfers.values()), (name, transfers)


def test_a_target_without_facts_for_the_driver_is_refused() -> None:
    target = load_target("mi300x").model_copy(update={"driver": None})

    with pytest.raises(TargetNotRunnable, match="no facts for the kernel driver"):
        emulated_gpus(target, 1)


@pytest.mark.parametrize("count", [0, 17])
def test_the_number_of_gpus_is_limited(count: int) -> None:
    with pytest.raises(TargetNotRunnable, match="1 to 16 GPUs"):
        emulated_gpus(load_target("mi300x"), count)


def test_links_of_device_files_lead_to_files() -> None:
    gpus = emulated_gpus(load_target("mi250x"), 2)
    tree = device_files(gpus, HOST.memory_bytes)
    known = {str(parent) for path in (*tree.files, *tree.links) for parent in (PurePosixPath(path), *PurePosixPath(path).parents)}

    assert tree.files["sys/devices/pci0000:00/0000:0b:00.0/device"] == "0x7408\n"
    assert tree.files["sys/devices/pci0000:00/0000:03:00.0/mem_info_vram_total"] == f"{64 << 30}\n"
    for link, target in tree.links.items():
        parts: list[str] = list(PurePosixPath(link).parent.parts)
        for part in PurePosixPath(target).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        assert "/".join(parts) in known, (link, target)
