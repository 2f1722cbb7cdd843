"""The runtime that applications load, found in directory trees like those of ROCm's and distributions' packages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.device.machine import Machine
from rocm_perf_lab.runtime.installation import find_runtime

if TYPE_CHECKING:
    from pathlib import Path


def machine(root: Path, **environment: str) -> Machine:
    return Machine(root=root, environment=environment)


def put_runtime(directory: Path, rocr: str, hip: str | None) -> None:
    directory.mkdir(parents=True)
    (directory / f"libhsa-runtime64.so.{rocr}").touch()
    (directory / "libhsa-runtime64.so.1").symlink_to(f"libhsa-runtime64.so.{rocr}")
    if hip is not None:
        (directory / f"libamdhip64.so.{hip}").touch()
        (directory / "libamdhip64.so").symlink_to(f"libamdhip64.so.{hip}")


def test_a_machine_without_rocm_has_no_runtime(tmp_path: Path) -> None:
    assert find_runtime(machine(tmp_path)) is None


def test_packages_of_debian_have_no_release(tmp_path: Path) -> None:
    put_runtime(tmp_path / "usr/lib/x86_64-linux-gnu", "1.15.0", "6.4.43484")

    found = find_runtime(machine(tmp_path))

    assert found is not None
    assert (found.rocr, found.hip, found.rocm, found.problem) == ("1.15", "6.4", None, None)
    assert found.describe() == f"ROCr 1.15, HIP 6.4, without HSA_MODEL_LIB, in {tmp_path}/usr/lib/x86_64-linux-gnu"


def test_a_runtime_with_a_model_hook_says_so(tmp_path: Path) -> None:
    put_runtime(tmp_path / "lib", "1.21.70001", "7.0.70001")
    (tmp_path / "lib/libhsa-runtime64.so.1").write_bytes(b"\x7fELF\0HSA_MODEL_LIB\0")

    found = find_runtime(machine(tmp_path, LD_LIBRARY_PATH=str(tmp_path / "lib")))

    assert found is not None
    assert "with a model hook" in found.describe()


def test_packages_of_amd_come_before_those_of_the_distribution(tmp_path: Path) -> None:
    put_runtime(tmp_path / "usr/lib/x86_64-linux-gnu", "1.15.0", "6.4.43484")
    put_runtime(tmp_path / "opt/rocm-7.0.1/lib", "1.18.70001", "7.0.70001")

    found = find_runtime(machine(tmp_path))

    assert found is not None
    assert (found.rocr, found.hip, found.rocm, found.problem) == ("1.18", "7.0", "7.0.1", None)


def test_rocm_path_comes_before_opt(tmp_path: Path) -> None:
    put_runtime(tmp_path / "opt/rocm/lib", "1.18.70001", None)
    put_runtime(tmp_path / "other/lib", "1.14.60204", None)

    found = find_runtime(machine(tmp_path, ROCM_PATH=str(tmp_path / "other")))

    assert found is not None
    assert (found.rocm, found.hip, found.problem) == ("6.2.4", None, None)
    assert "no HIP runtime" in found.describe()


def test_a_runtime_older_than_6_2_has_a_problem(tmp_path: Path) -> None:
    put_runtime(tmp_path / "lib", "1.13.60103", "6.1.40093")

    found = find_runtime(machine(tmp_path, LD_LIBRARY_PATH=str(tmp_path / "lib")))

    assert found is not None
    assert found.problem == "ROCm 6.1 is older than 6.2"
    assert replace(found, rocm=None, hip=None).problem == "ROCr 1.13 is older than that of ROCm 6.2"


def test_a_newer_runtime_is_not_refused(tmp_path: Path) -> None:
    put_runtime(tmp_path / "lib", "1.21.100001", "10.0.100001")

    found = find_runtime(machine(tmp_path, LD_LIBRARY_PATH=str(tmp_path / "lib")))

    assert found is not None
    assert (found.rocm, found.problem) == ("10.0.1", None)
    assert "not tested" in found.describe()


def test_releases_after_rocm_7_2_have_not_been_tested(tmp_path: Path) -> None:
    put_runtime(tmp_path / "tested", "1.18.70204", "7.2.70204")
    put_runtime(tmp_path / "newer", "1.19.70300", "7.3.70300")

    tested, newer = (find_runtime(machine(tmp_path, LD_LIBRARY_PATH=str(tmp_path / name))) for name in ("tested", "newer"))

    assert tested is not None
    assert newer is not None
    assert "not tested" not in tested.describe()
    assert "newer than 7.2: not tested" in newer.describe()
