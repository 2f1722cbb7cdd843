"""Programs inside a ROCm root are found where the command will see them; its compilers find the C headers."""

import subprocess
from pathlib import Path

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.runtime.rocm_packages import install_packages
from rocm_perf_lab.runtime.rocm_releases import RELEASES, release_of
from rocm_perf_lab.runtime.rocm_root import COMPLETE_FILE, ROOT_VARIABLE, check_program_in_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Directory tree with one program."""
    program = tmp_path / "root/usr/libexec/rocm/test_scan"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    return tmp_path / "root"


@pytest.mark.parametrize("directory", ["/", "/usr", "/tmp"])
def test_a_program_of_the_tree_is_found_from_every_working_directory(root: Path, directory: str) -> None:
    check_program_in_root(root, "/usr/libexec/rocm/test_scan", Path(directory))


def test_a_program_in_the_working_directory_is_that_of_the_machine(root: Path, tmp_path: Path) -> None:
    (tmp_path / "app").touch(mode=0o755)

    check_program_in_root(root, "./app", tmp_path)


def test_a_program_that_is_not_in_the_tree_is_refused(root: Path) -> None:
    with pytest.raises(LabError, match="/usr/libexec/rocm/test_sort does not exist"):
        check_program_in_root(root, "/usr/libexec/rocm/test_sort", Path("/"))


@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ("-c a.cpp -isystem /usr/include -x hip -isystem /usr/include b.cpp", "-c a.cpp -x hip b.cpp"),
        ("-isystem /opt/include -isystem", "-isystem /opt/include -isystem"),
        ("-I /usr/include", "-I /usr/include"),
    ],
)
def test_compilers_of_the_tree_are_not_told_to_move_the_directory_of_the_c_headers(
    root: Path, tmp_path: Path, arguments: str, passed: str
) -> None:
    compiler, link = tmp_path / "clang++", root / "usr/bin/clang++-21"
    compiler.write_text('#!/bin/sh\nprintf "%s " "$@" "a b"\n')
    compiler.chmod(0o755)
    link.parent.mkdir()
    link.symlink_to(compiler)
    (root / COMPLETE_FILE).write_text("hipcc\n")

    assert install_packages(root, ["hipcc"], RELEASES["sid"]) == []

    assert subprocess.run([link, *arguments.split()], capture_output=True, text=True, check=True).stdout == f"{passed} a b "


def test_each_suite_has_a_directory_and_only_an_incomplete_one_has_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROOT_VARIABLE, raising=False)

    assert [release.root.name for release in RELEASES.values()] == [
        "rocm-root-bookworm",
        "rocm-root-trixie",
        "rocm-root",
        "rocm-root-experimental",
    ]
    assert RELEASES["trixie"].sources("http://mirror/") == "deb http://mirror/ trixie main\n"
    assert RELEASES["trixie"].preferences() == ""
    both = "deb http://mirror/ experimental main\ndeb http://mirror/ sid main\n"
    assert RELEASES["experimental"].sources("http://mirror/") == both
    assert RELEASES["experimental"].preferences() == (
        "Package: *hip* *hsa* *rocm* *amd-comgr*\nPin: release a=experimental\nPin-Priority: 990\n"
    )


def test_a_named_directory_is_used_for_every_suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(ROOT_VARIABLE, str(tmp_path))

    assert {release.root for release in RELEASES.values()} == {tmp_path}


def test_a_suite_without_known_packages_is_refused() -> None:
    with pytest.raises(LabError, match="suite bullseye is not known"):
        release_of("bullseye")
