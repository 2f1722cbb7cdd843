"""The parameters in docs/timing-model.md are those of the target."""

from __future__ import annotations

import re
from pathlib import Path

from tests.builders.targets import mi300x

PAGE = Path(__file__).parents[3] / "docs" / "timing-model.md"


def test_the_table_of_parameters_equals_the_target() -> None:
    timing = mi300x().timing
    assert timing is not None
    documented = dict(re.findall(r"^\| (\w+) \| ([\d.]+) \|$", PAGE.read_text(), flags=re.MULTILINE))

    assert len(documented) > 10
    assert {name: float(value) for name, value in documented.items()} == {name: getattr(timing, name) for name in documented}


def test_every_parameter_named_in_the_text_exists() -> None:
    timing = mi300x().timing
    assert timing is not None
    named = set(re.findall(r"`(\w+_(?:cycles|latency|ns|per_clock|per_s|mhz))`", PAGE.read_text()))

    assert named
    assert named <= timing.model_dump().keys()
