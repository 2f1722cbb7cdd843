"""AMD's tools describe the emulated machine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.builders.rocm_programs import RocmPrograms


@pytest.mark.parametrize(
    ("target", "name", "isa", "units", "wave_size", "lds_kb"),
    [
        ("mi300x", "AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 304, 64, 64),
        ("mi250x", "AMD Instinct MI250X", "gfx90a:sramecc+:xnack-", 110, 64, 64),
        ("mi355x", "AMD Instinct MI355X", "gfx950:sramecc+:xnack-", 256, 64, 160),
        ("rx6900xt", "AMD Radeon RX 6900 XT", "gfx1030", 80, 32, 64),
    ],
)
def test_rocminfo_lists_two_gpus(
    rocm_programs: RocmPrograms, target: str, name: str, isa: str, units: int, wave_size: int, lds_kb: int
) -> None:
    listed = rocm_programs.run(["rocminfo"], ["--target", target, "--gpus", "2"])
    gpus = re.split(r"^Agent \d+", listed.stdout, flags=re.MULTILINE)[2:]

    assert (listed.returncode, len(gpus)) == (0, 2)
    for gpu in gpus:
        assert re.search(rf"Marketing Name: +{name} ", gpu)
        assert re.search(rf"Name: +amdgcn-amd-amdhsa--{re.escape(isa)}\s", gpu)
        assert re.search(rf"Compute Unit: +{units} ", gpu)
        assert re.search(rf"Wavefront Size: +{wave_size}\(", gpu)
        assert re.search(rf"Segment: +GROUP +\n +Size: +{lds_kb}\(", gpu)


def test_xnack_is_an_option(rocm_programs: RocmPrograms) -> None:
    listed = rocm_programs.run(["rocminfo"], ["--xnack"]).stdout

    assert re.search(r"XNACK enabled: +YES", listed)
    assert "gfx942:sramecc+:xnack+" in listed


def test_rocm_smi_reads_memory_clocks_and_links(rocm_programs: RocmPrograms) -> None:
    shown = rocm_programs.run(["rocm-smi", "--showmeminfo", "vram", "--showclocks", "--showtopotype"], ["--gpus", "2"]).stdout

    assert shown.count(f"VRAM Total Memory (B): {192 << 30}") == 2
    assert shown.count("sclk clock level: 0: (2100Mhz)") == 2
    assert shown.count("XGMI") == 2


def test_amd_smi_lists_the_gpus(rocm_programs: RocmPrograms) -> None:
    listed = rocm_programs.run(["amd-smi", "list"], ["--gpus", "2", "--target", "mi250x"]).stdout

    assert re.findall(r"BDF: (\S+)", listed) == ["0000:03:00.0", "0000:0b:00.0"]
    assert re.findall(r"KFD_ID: (\d+)", listed) == ["16962", "16963"]
