"""Where the lab's own `conf/`, `templates/` and `experiments/` are: in the wheel, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def resource_dir(name: str) -> Path:
    """The directory `name` that ships with the lab.

    Raises:
        FileNotFoundError: The installation is broken: neither the wheel nor a checkout has it.
    """
    package = Path(__file__).parents[1]
    for candidate in (package / name, package.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"rocm-perf-lab was installed without its {name}/ directory")


def cache_dir() -> Path:
    """The user's cache directory of the lab (`ROCM_PERF_LAB_CACHE` overrides it); created where missing."""
    import os

    from platformdirs import user_cache_path

    override = os.environ.get("ROCM_PERF_LAB_CACHE")
    path = Path(override) if override else user_cache_path("rocm-perf-lab")
    path.mkdir(parents=True, exist_ok=True)
    return path


def load_yaml(text: str) -> Any:
    """As `yaml.safe_load`, by libyaml where PyYAML brings it: ten times as fast.

    Raises:
        yaml.YAMLError: Not YAML.
    """
    import yaml

    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
