"""Target ids in ELF headers, generic targets, and the rules of ROCr's loader: which GPU runs which code."""

from __future__ import annotations

import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.arch.registry import emulated_architectures, processors, processors_of_generic_target, settings_of_target
from rocm_perf_lab.emulator.launch_limits import LaunchRefused
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.toolchain.code_object import CodeObjectError
from rocm_perf_lab.toolchain.elf import read_code_object
from rocm_perf_lab.toolchain.target_id import parse_target_id, target_id_of_flags
from tests.builders.assembly import assemble_code_object, kernel_text, metadata_text
from tests.builders.emulation import EmulatorBench, float32
from tests.builders.kernels import build_hip
from tests.builders.targets import target_of
from tests.toolchain.test_elf import bundle

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.code_object import CodeObject

GENERIC = {
    "gfx9-generic": ["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"],
    "gfx9-4-generic": ["gfx940", "gfx941", "gfx942", "gfx950"],
    "gfx10-1-generic": ["gfx1010", "gfx1011", "gfx1012", "gfx1013"],
    "gfx10-3-generic": ["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"],
}
"""LLVM "User Guide for AMDGPU Backend", generic processors."""
REMOVED = {"gfx940", "gfx941"}
"""Processors that newer compilers do not know."""
SETTINGS = {None: "", True: "+", False: "-"}
EF_ANY, EF_OFF, EF_ON = 1, 2, 3
KERNEL = r"""
#include <hip/hip_runtime.h>
extern "C" __global__ void scaled(float* x, float factor) {
  __shared__ float tile[256];
  tile[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  x[blockIdx.x * 256 + threadIdx.x] = expf(tile[255 - threadIdx.x]) * factor;
}
"""


def header_flags(data: bytes) -> int:
    return int(struct.unpack_from("<I", data, 48)[0])


@pytest.mark.parametrize(
    ("abi", "flags", "expected"),
    [
        (1, 0x000, "gfx90a:sramecc-:xnack-"),
        (1, 0x300, "gfx90a:sramecc+:xnack+"),
        (2, 0x000, "gfx90a"),
        (2, 0x500, "gfx90a"),
        (3, 0x600, "gfx90a:xnack-"),
        (3, 0xD00, "gfx90a:sramecc+"),
        (4, 0x800 | 0x300, "gfx90a:sramecc-:xnack+"),
    ],
)
def test_settings_in_elf_flags(abi: int, flags: int, expected: str) -> None:
    assert str(target_id_of_flags("gfx90a", flags | 0x3F, abi, ("sramecc", "xnack"))) == expected


def test_a_processor_without_a_setting_has_none_in_its_target_id() -> None:
    assert str(target_id_of_flags("gfx1030", 0x36, 1, settings_of_target("gfx1030"))) == "gfx1030"
    assert str(target_id_of_flags("gfx900", 0x12C, 1, settings_of_target("gfx900"))) == "gfx900:xnack+"


@pytest.mark.parametrize("sramecc", SETTINGS)
@pytest.mark.parametrize("xnack", SETTINGS)
def test_the_compilers_flags_are_read(sramecc: bool | None, xnack: bool | None) -> None:
    parts = [f"{name}{SETTINGS[on]}" for name, on in (("sramecc", sramecc), ("xnack", xnack)) if on is not None]
    cpu = ":".join(["gfx90a", *parts])

    data = assemble_code_object(kernel_text("k", "s_endpgm"), cpu=cpu)

    assert read_code_object(data).target_id == cpu
    wanted = {None: EF_ANY, True: EF_ON, False: EF_OFF}
    assert header_flags(data) == 0x3F | wanted[xnack] << 8 | wanted[sramecc] << 10


def test_an_omitted_setting_runs_with_both_and_a_stated_one_must_be_equal() -> None:
    for text, gpu, unmet in (
        ("gfx942", {"sramecc": True, "xnack": False}, ()),
        ("gfx942:sramecc+", {"sramecc": True, "xnack": True}, ()),
        ("gfx942:sramecc-:xnack+", {"sramecc": True, "xnack": False}, ("sramecc-", "xnack+")),
        ("gfx942:xnack+", {"sramecc": True}, ()),
    ):
        assert parse_target_id(text).unmet(gpu) == unmet
        assert str(parse_target_id(text)) == text


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950"])
def test_code_without_ecc_is_refused_and_both_settings_of_xnack_run(architecture: str) -> None:
    for settings in ("", ":xnack+", ":xnack-", ":sramecc+", ":sramecc+:xnack+"):
        code_object = read_code_object(assemble_code_object(kernel_text("k", "s_endpgm"), cpu=architecture + settings))
        with EmulatorBench(code_object) as bench:
            assert bench.launch("k", 1, 64).waves == 1
    without = read_code_object(assemble_code_object(kernel_text("k", "s_endpgm"), cpu=f"{architecture}:sramecc-"))
    with (
        EmulatedGpu(target_of(architecture), max_instructions=1) as machine,
        pytest.raises(LaunchRefused, match=f"for {architecture}:sramecc-, but sramecc- is not a setting of"),
    ):
        machine.load(without)


@pytest.mark.parametrize("name", GENERIC)
def test_members_of_generic_targets(name: str) -> None:
    assert sorted(processors_of_generic_target(name)) == sorted(GENERIC[name])


def test_gfx90a_is_a_member_of_no_generic_target() -> None:
    assert processors()["gfx90a"].generic_targets == processors()["gfx908"].generic_targets == ()


def test_machine_numbers_are_the_compilers() -> None:
    for name, processor in processors().items():
        if name in REMOVED:
            continue
        text = ".text\nk:\ns_endpgm"
        flags = header_flags(assemble_code_object(text, version=6, cpu=name, link=False))
        assert flags & 0xFF == processor.elf_machine, name
        possible = {setting for setting, shift in (("xnack", 8), ("sramecc", 10)) if flags >> shift & 3}
        assert set(processor.settings) == possible, name


@pytest.fixture(scope="module")
def generic() -> CodeObject:
    with TemporaryDirectory() as directory:
        flags = ("-mcode-object-version=6",)
        return build_hip(KERNEL, Path(directory), architecture="gfx9-4-generic", flags=flags).code_object


@pytest.mark.parametrize("architecture", ["gfx942", "gfx950"])
def test_generic_code_runs_on_its_members(generic: CodeObject, architecture: str) -> None:
    code_object = read_code_object(generic.data, bundle_architecture=architecture)
    x = np.linspace(-2, 2, 512, dtype=np.float32)
    with EmulatorBench(code_object) as bench:
        buffer = bench.buffer(x)
        result = bench.launch("scaled", 2, 256, buffer, float32(0.5))
        values = np.asarray(bench.read(buffer, np.float32), np.float32)

    assert (code_object.architecture, code_object.target_id) == (architecture, "gfx9-4-generic")
    assert result.program.isa.architecture == architecture
    expected = np.exp(x.reshape(2, 256)[:, ::-1].astype(np.float64)).ravel() * 0.5
    np.testing.assert_allclose(values, expected, rtol=1e-6)


def test_the_executing_gpu_decides_whatever_member_was_asked_for(generic: CodeObject) -> None:
    assert generic.architecture == "gfx942"
    with EmulatedGpu(target_of("gfx950"), max_instructions=10**5) as machine:
        assert machine.load(generic).code_object.architecture == "gfx950"


def test_generic_code_is_refused_on_other_gpus_with_its_members(generic: CodeObject) -> None:
    with (
        EmulatedGpu(target_of("gfx90a"), max_instructions=1) as machine,
        pytest.raises(
            LaunchRefused, match=r"for gfx9-4-generic \(gfx942, gfx950, gfx940, gfx941\), the emulator executes gfx90a"
        ),
    ):
        machine.load(generic)


def test_code_for_gfx9_generic_runs_on_no_emulated_gpu() -> None:
    old = read_code_object(
        assemble_code_object(".text\n.type k,@function\nk:\ns_endpgm\n" + descriptor("k"), version=6, cpu="gfx9-generic")
    )

    assert (old.architecture, old.target_id) == ("gfx900", "gfx9-generic")
    for architecture in emulated_architectures():
        with (
            EmulatedGpu(target_of(architecture), max_instructions=1) as machine,
            pytest.raises(LaunchRefused, match=r"for gfx9-generic \(gfx900, .*gfx90c\)"),
        ):
            machine.load(old)


def descriptor(name: str) -> str:
    body = ".amdhsa_next_free_vgpr 4\n.amdhsa_next_free_sgpr 8\n"
    return f".rodata\n.p2align 6\n.amdhsa_kernel {name}\n{body}.end_amdhsa_kernel\n"


def test_generic_code_of_version_0_is_refused(generic: CodeObject) -> None:
    data = bytearray(generic.data)
    assert data[51] == 1  # EF_AMDGPU_GENERIC_VERSION
    data[51] = 0

    with pytest.raises(CodeObjectError, match="gfx9-4-generic of version 0"):
        read_code_object(bytes(data))


def test_a_bundle_has_generic_code_for_gpus_without_code_of_their_own(generic: CodeObject) -> None:
    own = assemble_code_object(kernel_text("k", "s_endpgm") + metadata_text("k"))
    packed = bundle(
        ("hipv4-amdgcn-amd-amdhsa--gfx9-4-generic", generic.data), ("hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-", own)
    )

    assert read_code_object(packed, bundle_architecture="gfx942").data == own
    of_gfx950 = read_code_object(packed, bundle_architecture="gfx950")
    assert (of_gfx950.data, of_gfx950.architecture) == (generic.data, "gfx950")
    with pytest.raises(CodeObjectError, match="no code object for gfx90a, only for: gfx9-4-generic, gfx942"):
        read_code_object(packed, bundle_architecture="gfx90a")
