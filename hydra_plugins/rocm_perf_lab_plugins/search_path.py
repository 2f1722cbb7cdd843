"""Hydra search path of rocm-perf-lab: `experiments/` (own and installed) and `conf/` of the working directory.

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
    """Plugin that appends directories to the search path of rocm-perf-lab; other Hydra applications keep theirs."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the existing directories in order of precedence."""
        if not is_lab(search_path):
            return
        for experiments in _unique(Path.cwd() / "experiments", resource_dir("experiments")):
            search_path.append(provider=LAB, path=f"experiments://{experiments}")
        own_conf = resource_dir("conf").resolve()
        user_conf = (Path.cwd() / "conf").resolve()
        if user_conf.is_dir() and user_conf != own_conf:
            search_path.append(provider=f"{LAB} user", path=f"file://{user_conf}")


def is_lab(search_path: ConfigSearchPath) -> bool:
    """Return whether the main directory of the search path is `conf/` of rocm-perf-lab."""
    main = next((element.path or "" for element in search_path.get_path() if element.provider == "main"), "")
    return Path(main.removeprefix("file://")).resolve() == resource_dir("conf").resolve()


def _unique(*directories: Path) -> list[Path]:
    return list(dict.fromkeys(directory.resolve() for directory in directories if directory.is_dir()))
