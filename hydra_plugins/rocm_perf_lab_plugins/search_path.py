"""Hydra search path: `experiments/` of the working directory, the installed `experiments/`, and `conf/` of the working directory.

`conf/` of the working directory adds options, but does not override installed ones: it may belong to another Hydra application.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hydra.plugins.search_path_plugin import SearchPathPlugin

from rocm_perf_lab.core.resources import resource_dir

if TYPE_CHECKING:
    from hydra.core.config_search_path import ConfigSearchPath

LAB = "rocm-perf-lab"


class LabSearchPath(SearchPathPlugin):
    """Plugin that appends the directories of rocm-perf-lab to the search path of every Hydra application."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the existing directories in order of precedence."""
        for experiments in _unique(Path.cwd() / "experiments", resource_dir("experiments")):
            search_path.append(provider=LAB, path=f"experiments://{experiments}")
        own_conf = resource_dir("conf").resolve()
        user_conf = (Path.cwd() / "conf").resolve()
        if user_conf.is_dir() and user_conf != own_conf:
            search_path.append(provider=f"{LAB} user", path=f"file://{user_conf}")


def _unique(*directories: Path) -> list[Path]:
    return list(dict.fromkeys(directory.resolve() for directory in directories if directory.is_dir()))
