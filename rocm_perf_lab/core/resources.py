"""Paths of `conf/`, `templates/`, `experiments/` and the cache, and a fast YAML loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def resource_dir(name: str) -> Path:
    """Return a directory of rocm-perf-lab, in the wheel or at the top of a checkout.

    Raises:
        FileNotFoundError: The installation is broken.
    """
    package = Path(__file__).parents[1]
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"rocm-perf-lab was installed without its {name}/ directory")


def cache_dir() -> Path:
    """Return the cache directory (`ROCM_PERF_LAB_CACHE` overrides it); create it if necessary."""
    import os

    from platformdirs import user_cache_path

    override = os.environ.get("ROCM_PERF_LAB_CACHE")
    path = Path(override) if override else user_cache_path("rocm-perf-lab")
    path.mkdir(parents=True, exist_ok=True)
    return path


def load_yaml(text: str) -> Any:
    """Load YAML like `yaml.safe_load`, with libyaml if available, which is ten times as fast.

    Raises:
        yaml.YAMLError: The text is not valid YAML.
    """
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
