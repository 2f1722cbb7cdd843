"""Paths of `conf/`, `templates/`, `experiments/` and the cache, and a fast YAML loader."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    import os


def resource_dir(name: str) -> Path:
    """Return a data directory of rocm-perf-lab, from the wheel or the top of a checkout.

    Raises:
        FileNotFoundError: The installation is broken.
    """
    package = Path(__file__).parents[1]
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"rocm-perf-lab was installed without its {name}/ directory")


def cache_dir() -> Path:
    """Return the cache directory (`ROCM_PERF_LAB_CACHE` overrides it); create it if necessary.

    If the home directory is not writable, as in containers that run as another user, it is a private directory below the
    directory for temporary files.

    Raises:
        LabError: No directory can be used.
    """
    import os

    override = os.environ.get("ROCM_PERF_LAB_CACHE")
    if not override:
        return _cache_of_user() or _temporary_cache()
    path = Path(override)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            f"the cache directory cannot be created: {error.strerror}", where=override, hint="correct ROCM_PERF_LAB_CACHE"
        ) from error
    return path


def _cache_of_user() -> Path | None:
    """Return the cache below the home directory, or None if that is not writable."""
    import os

    from platformdirs import user_cache_path

    try:
        path = user_cache_path("rocm-perf-lab")
        if not path.is_absolute():  # some versions of platformdirs return "~/.cache" for a user without a home directory
            return None
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: the user has no home directory
        return None
    return path if os.access(path, os.W_OK | os.X_OK) else None


def _temporary_cache() -> Path:
    """Return a directory that only this user can write, because entries of other users cannot be trusted."""
    import os
    import tempfile

    path = Path(tempfile.gettempdir()) / f"rocm-perf-lab-{os.geteuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError:
        status = None
    if status is None or not is_directory_of_user(status):
        raise LabError(
            "no directory for cached files: the home directory is not writable",
            where=str(path),
            hint="set ROCM_PERF_LAB_CACHE to a writable directory",
        )
    return path


def is_directory_of_user(status: os.stat_result) -> bool:
    """Return whether a file status describes a directory that only this user can write."""
    import os
    import stat

    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def zig_environment() -> dict[str, str]:
    """Return environment variables that move the cache of `zig cc` from the home directory to the cache directory."""
    import os

    return {"ZIG_GLOBAL_CACHE_DIR": str(cache_dir() / "zig"), **os.environ}


def load_yaml(text: str) -> Any:
    """Load YAML like `yaml.safe_load`, with libyaml if available, which is ten times as fast.

    Raises:
        yaml.YAMLError: The text is not valid YAML.
    """
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
