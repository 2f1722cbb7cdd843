"""Shapes of a workload: the problem sizes that one kernel is tuned for, with weights."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rocm_perf_lab.autotune.spaces.space import Configuration

SHAPE = "shape"
"""Name of the parameter that tells the shapes of a search apart."""
WEIGHT = "weight"
_FORM = "for example [{m: 512, n: 512, k: 64}, {m: 4096, n: 64, k: 64, weight: 3}]"


class ShapeError(LabError):
    """Shapes that are unreadable, contradictory, or absent."""


@dataclass(frozen=True)
class WorkloadShape:
    """Problem size.

    Args:
        values: Name -> value, equal names in all shapes of a workload.
        weight: Share of the workload's time, relative to the other shapes.
    """

    values: Configuration
    weight: float = 1.0

    @property
    def label(self) -> str:
        """The values as text, for example `m=512,n=512,k=64`."""
        return shape_label(self.values)


def shape_label(values: Configuration) -> str:
    """Return the values of a shape as text."""
    return ",".join(f"{name}={value}" for name, value in values.items())


def shapes_of(rows: Iterable[Any], *, where: str) -> tuple[WorkloadShape, ...]:
    """Return the shapes of a list of mappings; the default `weight` is 1.

    Raises:
        ShapeError: There is none, names differ between shapes, a shape is listed twice, or a weight is not positive.
    """
    found: list[WorkloadShape] = []
    for number, row in enumerate(rows):
        place = f"{where}[{number}]"
        if not isinstance(row, dict) or not row.keys() - {WEIGHT}:
            raise ShapeError("a shape maps names to values", where=place, hint=_FORM)
        weight = row.get(WEIGHT, 1.0)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
            raise ShapeError(f"the weight {weight!r} is not a positive number", where=place, hint=_FORM)
        values = {str(name): value for name, value in row.items() if name != WEIGHT}
        for name, value in values.items():
            if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
                raise ShapeError(f"{name} is {value!r}", where=place, hint="values are numbers, text, true or false")
        if found and values.keys() != found[0].values.keys():
            odd = sorted(values.keys() ^ found[0].values.keys())
            raise ShapeError(f"some shapes lack {', '.join(odd)}", where=place, hint="use the same names in all")
        shape = WorkloadShape({name: values[name] for name in found[0].values} if found else values, float(weight))
        if any(shape.values == other.values for other in found):
            raise ShapeError(f"{shape.label} is listed more than once", where=place, hint="add the weights")
        found.append(shape)
    if not found:
        raise ShapeError("there are no shapes", where=where, hint=_FORM)
    return tuple(found)


def read_shapes(path: Path) -> Any:
    """Return the content of a file of shapes, or of a recording.

    Raises:
        ShapeError: The file is neither JSON nor YAML.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if text.lstrip()[:1] in ("{", "[") and path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, ValueError, yaml.YAMLError) as error:
        what = " ".join(str(error).split())
        raise ShapeError(f"cannot read the shapes: {what}", where=str(path), hint=f"YAML or JSON, {_FORM}") from error


def normalised(shapes: Sequence[WorkloadShape]) -> list[float]:
    """Return the weights, scaled to the sum 1."""
    total = sum(shape.weight for shape in shapes)
    return [shape.weight / total for shape in shapes]
