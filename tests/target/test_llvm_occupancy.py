"""Occupancy of every described architecture against the numbers that the compiler prints, kernel by kernel."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

import pytest

from rocm_perf_lab.arch.registry import architectures, load_architecture
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.target.occupancy import OccupancyRequest, occupancy
from rocm_perf_lab.toolchain.compilers import find_compiler

TARGETS = {"gfx90a": "mi250x", "gfx942": "mi300x", "gfx950": "mi355x", "gfx1030": "rx6800xt"}
FLAGS = {
    "wave64": [],
    "wave32-wgp": [],
    "wave32-cu": ["-mcumode"],
    "wave64-wgp": ["-mwavefrontsize64"],
    "wave64-cu": ["-mwavefrontsize64", "-mcumode"],
}
MODES = [(name, mode) for name, one in architectures().items() for mode in one.modes]
MAX_VGPRS, MAX_SGPRS, MAX_WORK_ITEMS = 256, 102, 1024
RANGES = [(1, 1024), (1, 256), (64, 64), (128, 512), (1024, 1024), (33, 33)]
_REMARK = re.compile(r"remark: +([A-Z][A-Za-z ]+?)(?: \[\S+\])?: (\d+)")


@dataclass(frozen=True)
class Kernel:
    """Registers, LDS and workgroup sizes that a kernel states in its source."""

    vgprs: int = 8
    agprs: int = 0
    sgprs: int = 0
    lds_bytes: int = 0
    sizes: tuple[int, int] = (1, 256)
    waves_per_eu: tuple[int, int] | None = None

    def source(self, number: int) -> str:
        registers = {"v": self.vgprs, "a": self.agprs, "s": self.sgprs}
        clobbers = ", ".join(f'"{kind}{count - 1}"' for kind, count in registers.items() if count)
        array, operand = (f"local char lds[{self.lds_bytes}];", '"v"(lds)') if self.lds_bytes else ("", "")
        attributes = [f"amdgpu_flat_work_group_size{self.sizes}"]
        attributes += [f"amdgpu_waves_per_eu{self.waves_per_eu}"] if self.waves_per_eu else []
        attribute = f"__attribute__(({', '.join(attributes)}))"
        return f'{attribute} kernel void k{number}(void) {{ {array} __asm__ volatile("" :: {operand} : {clobbers}); }}'


def kernels(architecture: str, mode: str) -> list[Kernel]:
    """Return kernels with every register count, and with every number of workgroups that LDS allows."""
    limits, pool = load_architecture(architecture).modes[mode], load_architecture(architecture).lds[mode]
    found = [Kernel(vgprs=count) for count in range(1, MAX_VGPRS + 1)]
    found += [Kernel(sgprs=count) for count in range(1, MAX_SGPRS + 1)]
    if limits.agprs_share_file:
        found += [Kernel(vgprs=MAX_VGPRS, agprs=count) for count in range(1, MAX_VGPRS + 1)]
        found += [Kernel(vgprs=1 + 37 * count % MAX_VGPRS, agprs=count) for count in range(1, MAX_VGPRS + 1, 3)]
    shares = {pool.bytes // groups + more for groups in range(1, 33) for more in (0, 1)}
    lds = sorted(share for share in shares if share <= pool.max_per_workgroup_bytes)
    found += [Kernel(lds_bytes=share, sizes=sizes) for share in lds for sizes in RANGES]
    for size in range(1, MAX_WORK_ITEMS + 1, 13):
        found += [Kernel(sizes=(1, size)), Kernel(vgprs=40, lds_bytes=20_000, sizes=(size, size))]
        found += [Kernel(lds_bytes=3_000, sizes=(size, min(MAX_WORK_ITEMS, 2 * size)))]
    return found + [Kernel(waves_per_eu=(1, waves), sizes=(64, 64)) for waves in range(1, limits.max_waves_per_simd + 1)]


def compiled(architecture: str, flags: list[str], sources: list[str]) -> list[dict[str, int]]:
    """Return the compiler's remarks about resources, one mapping per kernel."""
    compiler = find_compiler(("clang", "pip"))
    headers = [flag for flag in compiler.flags if flag.startswith("-resource-dir")]
    command = [*compiler.command, *headers, "-x", "cl", "-", "-target", "amdgcn-amd-amdhsa", f"-mcpu={architecture}", *flags]
    remarks = ["-nogpulib", "-O1", "-S", "-o", "/dev/null", "-Rpass-analysis=kernel-resource-usage"]
    answer = subprocess.run([*command, *remarks], input="\n".join(sources), text=True, capture_output=True, check=True)
    return [{name: int(value) for name, value in _REMARK.findall(block)} for block in answer.stderr.split("Function Name: ")[1:]]


def llvm_rows(architecture: str, mode: str) -> list[tuple[Kernel, dict[str, int]]]:
    chosen = kernels(architecture, mode)
    return list(zip(chosen, compiled(architecture, FLAGS[mode], [k.source(n) for n, k in enumerate(chosen)]), strict=True))


def lab_waves(architecture: str, mode: str, kernel: Kernel, row: dict[str, int]) -> float:
    request = OccupancyRequest(
        vgprs=row["VGPRs"],
        agprs=row.get("AGPRs", 0),
        sgprs=row["TotalSGPRs"],
        lds_bytes=row["LDS Size"],
        workgroup_size=kernel.sizes,
        mode=mode,
        waves_per_eu_max=kernel.waves_per_eu[1] if kernel.waves_per_eu else None,
    )
    return occupancy(load_target(TARGETS[architecture]), request).waves_per_simd


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "mode"), MODES)
def test_the_occupancy_is_the_compilers_for_every_register_count_and_many_sizes(architecture: str, mode: str) -> None:
    rows = llvm_rows(architecture, mode)

    used = {(row["VGPRs"], row.get("AGPRs", 0), row["LDS Size"]) for _, row in rows}
    wrong = [(kernel, row) for kernel, row in rows if lab_waves(architecture, mode, kernel, row) != row["Occupancy"]]

    assert used >= {(count, 0, 0) for count in range(8, MAX_VGPRS + 1)}  # the compiler used what the sources demand
    assert used >= {(8, 0, kernel.lds_bytes) for kernel, _ in rows if kernel.vgprs == 8}
    assert {row["Occupancy"] for _, row in rows} >= {1, 2, 3, 4, 5, 6, 7, 8}
    assert wrong == []
