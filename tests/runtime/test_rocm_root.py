"""Programs inside a ROCm root are found where the command will see them; its compilers find the C headers."""

import subprocess
from pathlib import Path

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.runtime.rocm_packages import install_packages
from rocm_perf_lab.runtime.rocm_root import COMPLETE_FILE, check_program_in_root


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

    assert install_packages(root, ["hipcc"]) == []

    assert subprocess.run([link, *arguments.split()], capture_output=True, text=True, check=True).stdout == f"{passed} a b "
