"""Directory tree with AMD's ROCm packages, set up by `make rocm-root`, and commands that run inside it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.resources import cache_dir

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT_VARIABLE = "ROCM_PERF_LAB_ROCM_ROOT"
ROOT_DIRECTORY = "rocm-root"
"""Directory in the cache."""
COMPLETE_FILE = ".rocm-perf-lab"
"""File at the top of a complete tree; it lists the packages."""
_SYSTEM_DIRECTORIES = ("/proc", "/sys", "/dev", "/tmp")
_OWN_DIRECTORIES = ("bin", "boot", "etc", "lib", "lib32", "lib64", "opt", "run", "sbin", "usr", "var")
"""Top-level directories that are taken from the tree."""
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PRIVATE_MOUNTS = ("--mount", "--propagation", "private")
_ENTER = """
root=$1; directory=$2; shift 2
while [ "$1" != -- ]; do mkdir -p "$root$1" && mount --rbind "$1" "$root$1" || exit 126; shift; done
shift
exec chroot "$root" /usr/bin/env --chdir="$directory" "$@"
"""


def rocm_root_dir() -> Path:
    """Return the directory that `make rocm-root` sets up (`ROCM_PERF_LAB_ROCM_ROOT` overrides it); it may not exist."""
    override = os.environ.get(ROOT_VARIABLE)
    return Path(override).absolute() if override else cache_dir() / ROOT_DIRECTORY


def is_complete(root: Path) -> bool:
    """Return whether `root` was set up to its end."""
    return (root / COMPLETE_FILE).is_file()


def enter_root(
    root: Path, command: Sequence[str], *, shared: Sequence[Path], working_directory: Path, environment: Mapping[str, str]
) -> list[str]:
    """Return the command line that executes `command` with `root` as its root directory.

    The mounts exist in a mount namespace that ends with the command. The process ID is that of the caller's child. Variables of
    `environment` (such as `LD_PRELOAD`) apply only to `command`, not to the tools that set up the namespace. /proc, /sys, /dev
    and /tmp are those of this machine.

    Args:
        root: A directory tree with a C library, coreutils and ROCm.
        command: Program and arguments; the program is searched for inside `root`.
        shared: Directories of this machine that the command sees at the same path.
        working_directory: Directory in which the command starts; shared as well.
        environment: Variables to set for the command. `PATH` has the directories of `root` only, unless it is among them.

    Raises:
        LabError: This user cannot create a mount namespace, or `unshare` and `chroot` are not installed.
    """
    flags = _namespace_flags()
    directories = [*_SYSTEM_DIRECTORIES, *_mounted(root, [*shared, working_directory])]
    variables = {"PATH": _SEARCH_PATH, **environment}
    assignments = [f"{name}={value}" for name, value in variables.items()]
    inner = [str(root.absolute()), str(working_directory.absolute()), *directories, "--", *assignments, *command]
    return ["unshare", *flags, "--", "/bin/sh", "-c", _ENTER, "enter", *inner]


def check_entry() -> None:
    """Check that this user can run commands inside a ROCm root.

    Raises:
        LabError: This user cannot create a mount namespace, or a tool is not installed.
    """
    _namespace_flags()


def check_program_in_root(root: Path, program: str, working_directory: Path) -> None:
    """Check that a program exists inside a ROCm root.

    Raises:
        LabError: It does not exist, or it is not executable.
    """
    if os.sep in program:
        place = working_directory / program
        # Files below a top-level directory of the tree are from the tree, except in a mounted working directory.
        is_mounted = not _hides_files(root, working_directory)
        is_shared = (is_mounted and place.is_relative_to(working_directory)) or place.parts[1] not in _OWN_DIRECTORIES
        candidates = [place] if is_shared else [root / place.relative_to("/"), place]
    else:
        candidates = _on_path(root, program)
    existing = next((path for path in candidates if path.is_file() or path.is_symlink()), None)
    if existing is None:
        raise LabError(
            f"program {program} does not exist", where=f"--root {root}", hint="check its name; PATH refers to the tree"
        )
    if not existing.is_symlink() and not os.access(existing, os.X_OK):
        raise LabError(f"{program} is not executable", where=str(existing), hint=f"run chmod +x {program}")


def is_program_in_root(root: Path, program: str) -> bool:
    """Return whether the search path inside a ROCm root has a program."""
    return any(path.is_file() or path.is_symlink() for path in _on_path(root, program))


def _on_path(root: Path, program: str) -> list[Path]:
    return [root / directory.lstrip("/") / program for directory in _SEARCH_PATH.split(":")]


def _mounted(root: Path, paths: Sequence[Path]) -> list[str]:
    """Return the directories to mount: outermost first, without subdirectories of others, or those hiding files of the tree."""
    kept: list[Path] = []
    for path in sorted({path.absolute() for path in paths}, key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in kept) and not _hides_files(root, path):
            kept.append(path)
    return [str(path) for path in kept]


def _hides_files(root: Path, path: Path) -> bool:
    """Return whether a mount at `path` would hide files of the tree."""
    if path == Path("/"):
        return True
    place = root / path.relative_to("/")
    return path.parts[1] in _OWN_DIRECTORIES and place.is_dir() and any(place.iterdir())


def _namespace_flags() -> tuple[str, ...]:
    """Return the options of `unshare` that this user is allowed to use."""
    missing = [tool for tool in ("unshare", "chroot", "mount") if shutil.which(tool, path=_search_path_of_host()) is None]
    if missing:
        raise LabError(f"{missing[0]} is not installed", hint="install the packages util-linux and coreutils")
    for flags in (_PRIVATE_MOUNTS, ("--user", "--map-root-user", *_PRIVATE_MOUNTS)):
        if subprocess.run(["unshare", *flags, "--", "true"], capture_output=True, check=False).returncode == 0:
            return flags
    raise LabError(
        "this user cannot create a mount namespace, so no command can run inside a ROCm root",
        hint="run as root with CAP_SYS_ADMIN, or allow user namespaces: sysctl kernel.unprivileged_userns_clone=1",
    )


def _search_path_of_host() -> str:
    """Return PATH with the directories of system tools, which are often missing for users."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
