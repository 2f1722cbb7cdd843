"""The distribution's libdrm on the emulated render node."""

import os
import subprocess
import sys
from pathlib import Path

from rocm_perf_lab.core.resources import zig_environment
from tests.builders.rocm_programs import SOURCES, RocmPrograms


def test_functions_of_libdrm(rocm_programs: RocmPrograms, tmp_path: Path) -> None:
    program = tmp_path / "libdrm_calls"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.28", "-std=gnu11", "-O1"]
    command = [*compiler, "-o", str(program), str(SOURCES / "libdrm_calls.c")]
    subprocess.run(command, check=True, env={**os.environ, **zig_environment()})

    process = rocm_programs.run([program], ["--gpus", "2"])

    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == [
        "amdgpu 2",
        "initialize 0",
        "info 0 0x74a1",
        "heap 0 192 GiB",
        "allocate 0",
        "map 0",
        "address 0 7",
        "describe 0",
        "export 0",
        f"import 0 {1 << 20}",
        f"query 0 {1 << 20} 4 41",
        "unmap 0",
        "free 0",
    ]


def test_management_tools_list_the_gpus(rocm_programs: RocmPrograms) -> None:
    by_kfd = rocm_programs.run(["rocminfo"], ["--gpus", "2"])
    by_drm = rocm_programs.run(["amd-smi", "list"], ["--gpus", "2"])

    assert by_kfd.stdout.count("Marketing Name:          AMD Instinct MI300X") == 2
    assert "KFD_ID: 16962" in by_drm.stdout
    assert "KFD_ID: 16963" in by_drm.stdout
