"""Landscapes: spaces measured exhaustively on a GPU, which replace a live kernel as objective.

The format is JSON, optionally gzipped: `columns` names the parameters and, last, the times; each of `rows` is a configuration
with the list of its times in ms, or null if it failed.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.spaces.space_files import space_of_list
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.autotune.spaces.formula import Column
    from rocm_perf_lab.autotune.spaces.space import Configuration, Space


class LandscapeError(LabError):
    """Invalid landscape file."""


@dataclass(frozen=True)
class Landscape:
    """Recorded space with the time of every configuration.

    Args:
        name: Name in tables.
        space: The configurations.
        times_ms: Median time of each configuration in ms; infinite if it failed.
    """

    name: str
    space: Space
    times_ms: Column

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible:
        """Return the recorded time of a configuration."""
        index = self.space.index(configuration)
        if index is None:
            return Infeasible("the landscape does not contain it")
        time = float(self.times_ms[index])
        return Measurement(time) if math.isfinite(time) else Infeasible("it failed when the landscape was measured")

    @property
    def optimum_ms(self) -> float:
        """The smallest time in ms."""
        return float(self.times_ms.min())


def load_landscape(path: Path) -> Landscape:
    """Read one file.

    Raises:
        LandscapeError: The file is not JSON, has another layout, or contains no configuration that ran.
    """
    try:
        stored = path.read_bytes()
        content = json.loads(gzip.decompress(stored) if path.suffix == ".gz" else stored)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise LandscapeError(f"cannot read the landscape: {error}", where=str(path), hint=_REMEDY) from error
    rows = _rows(content, path)
    names = content["columns"][:-1]
    space = space_of_list([dict(zip(names, row[:-1], strict=True)) for row in rows], where=str(path))
    times = np.array([statistics.median(row[-1]) if row[-1] else math.inf for row in rows])
    if not np.isfinite(times).any():
        raise LandscapeError("no configuration of the landscape ran", where=str(path), hint="measure it again")
    return Landscape(path.name.removesuffix(".gz").removesuffix(".json"), space, times)


_REMEDY = "JSON with `columns` (parameters, then times_ms) and `rows`, gzipped if its name ends in .gz"


def _rows(content: Any, path: Path) -> list[list[Any]]:
    def wrong(what: str) -> LandscapeError:
        return LandscapeError(what, where=str(path), hint=_REMEDY)

    if not isinstance(content, dict) or not isinstance(content.get("columns"), list) or not isinstance(content.get("rows"), list):
        raise wrong("not a landscape: columns or rows are missing")
    width = len(content["columns"])
    if width < 2 or not content["rows"]:
        raise wrong("a landscape without parameters or configurations")
    for number, row in enumerate(content["rows"]):
        if not isinstance(row, list) or len(row) != width:
            raise wrong(f"row {number} does not have {width} columns")
        times = row[-1]
        if times is not None and not (isinstance(times, list) and all(_is_time(time) for time in times)):
            raise wrong(f"the times of row {number} are not a list of positive numbers")
    rows: list[list[Any]] = content["rows"]
    return rows


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def landscapes_in(directory: Path) -> list[Landscape]:
    """Return the landscapes of a directory, sorted by name.

    Raises:
        LandscapeError: The directory has none.
    """
    paths = sorted([*directory.glob("*.json.gz"), *directory.glob("*.json")]) if directory.is_dir() else []
    if not paths:
        raise LandscapeError("the directory has no landscapes", where=str(directory), hint="name one with *.json.gz files")
    return [load_landscape(path) for path in paths]
