"""Kernels in assembly: assembled, linked, launched, and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.assembly import AssemblyLanguage
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.languages.language import CompileSettings
from rocm_perf_lab.toolchain.build import BuildResult, CompileError
from rocm_perf_lab.toolchain.compilers import Compiler, find_compiler
from rocm_perf_lab.toolchain.source_lines import line_table
from tests.builders.assembly import kernel_text, metadata_text
from tests.builders.targets import mi300x
from tests.builders.triton_kernels import experiment, launch_of

if TYPE_CHECKING:
    from pathlib import Path

STORE = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_mov_b32 v1, VALUE ; the defined value isn't a register
  v_lshlrev_b32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
  global_store_dword v0, v1, s[4:5]
  s_endpgm
"""


def build(directory: Path, body: str = STORE, architecture: str = "gfx942", **changes: Any) -> BuildResult:
    source = directory / "kernel.s"
    source.write_text(f".amdhsa_code_object_version 5\n{kernel_text('k', body)}\n{metadata_text('k')}\n")
    values = {"name": "k", "language": "assembly", "source": "kernel.s", "entry": "k", "directory": directory, "grid": [1]}
    out = {"name": "out", "kind": "buffer", "dtype": "i32", "shape": [64], "access": "out"}
    kernel = KernelDescription.model_validate({**values, "arguments": [out], "block": [64], "defines": {"VALUE": 7}, **changes})
    return AssemblyLanguage().compile(kernel, source, CompileSettings(architecture, find_compiler, cache_dir=directory / "cache"))


def test_the_experiment_in_assembly_gives_the_sum(tmp_path: Path) -> None:
    launch = launch_of(experiment("vector_add_assembly", {"n": 1000}))
    inputs = {value.name: value.data.view(np.float32) for value in launch.arguments if isinstance(value, BufferValue)}

    run = EmulatorDevice(target=mi300x()).run(launch, database=tmp_path / "run.db", runs=1, counters=())

    np.testing.assert_array_equal(run.outputs["c"], inputs["a"] + inputs["b"])


def test_a_build_is_cached_until_a_define_changes(tmp_path: Path) -> None:
    builds = [build(tmp_path, defines={"VALUE": value}) for value in (7, 7, 8)]

    assert [b.cached for b in builds] == [False, True, False]
    assert builds[0].code_object.sha256 != builds[2].code_object.sha256


def test_line_tables_name_the_source_without_its_directory(tmp_path: Path) -> None:
    code_object = build(tmp_path).code_object
    line = line_table(code_object)(code_object.kernels[0].entry_address)

    assert line is not None
    assert line.file == "kernel.s"
    assert "s_load_dwordx2" in (tmp_path / "kernel.s").read_text().splitlines()[line.line - 1]
    assert str(tmp_path).encode() not in code_object.data


def test_an_error_names_the_line_of_the_source(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"kernel\.s:\d+:\d+: invalid instruction") as caught:
        build(tmp_path, "  v_frobnicate v0, v1\n  s_endpgm")

    assert caught.value.where == str(tmp_path / "kernel.s")


def test_an_undefined_symbol_is_an_error_of_the_linker(tmp_path: Path) -> None:
    body = "  s_getpc_b64 s[4:5]\n  s_add_u32 s4, s4, missing@rel32@lo+4\n  s_endpgm"

    with pytest.raises(CompileError, match="undefined symbol: missing"):
        build(tmp_path, body)


def test_instructions_of_another_architecture_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="not supported on this GPU"):
        build(tmp_path, "  v_mfma_f32_16x16x8_xf32 a[0:3], v[0:1], v[2:3], a[0:3]\n  s_endpgm", architecture="gfx90a")


def test_a_missing_source_is_an_error(tmp_path: Path) -> None:
    values = {"name": "k", "language": "assembly", "source": "no.s", "entry": "k", "arguments": [], "grid": [1], "block": [64]}
    kernel = KernelDescription.model_validate(values)

    with pytest.raises(CompileError, match="does not exist"):
        AssemblyLanguage().compile(kernel, tmp_path / "no.s", CompileSettings("gfx942", find_compiler))


def test_with_hipcc_the_clang_of_rocm_assembles(tmp_path: Path) -> None:
    """hipcc accepts HIP only. The clang of this stand-in for ROCm is the compiler found here."""
    real = find_compiler(("pip",))
    for name in ("bin/hipcc", "lib/llvm/bin/clang"):
        path = tmp_path / "rocm" / name
        path.parent.mkdir(parents=True)
        path.write_text(f'#!/bin/sh\nexec {" ".join(real.command)} "$@"\n' if name.endswith("clang") else "#!/bin/sh\nexit 1\n")
        path.chmod(0o755)
    hipcc = Compiler("hipcc", "0", (str(tmp_path / "rocm/bin/hipcc"),), fingerprint="stand-in", linker=real.linker)
    values = {"name": "k", "language": "assembly", "source": "k.s", "entry": "k", "arguments": [], "grid": [1], "block": [64]}
    source = tmp_path / "k.s"
    source.write_text(f".amdhsa_code_object_version 5\n{kernel_text('k', '  s_endpgm')}\n{metadata_text('k')}\n")

    built = AssemblyLanguage().compile(
        KernelDescription.model_validate(values), source, CompileSettings("gfx942", lambda: hipcc, cache_dir=tmp_path / "cache")
    )

    assert [kernel.name for kernel in built.code_object.kernels] == ["k"]
