"""The parameters in docs/timing-model.md are those of the targets."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.architectures import parameters
from tests.builders.targets import mi300x

PAGE = Path(__file__).parents[3] / "docs" / "timing-model.md"


def test_the_table_of_parameters_equals_the_targets() -> None:
    row = re.compile(r"^\| (\w+_\w+) \| (\S+) \| (\S+) \| (\S+) \|$", flags=re.MULTILINE)
    documented = {name: (name, *values) for name, *values in row.findall(PAGE.read_text())}

    assert len(documented) > 40
    assert documented == parameters()


def test_every_parameter_named_in_the_text_exists() -> None:
    timing = mi300x().timing
    assert timing is not None
    named = set(re.findall(r"`(\w+_(?:cycles|latency|ns|per_clock|per_s|mhz))`", PAGE.read_text()))

    assert named
    assert named <= timing.model_dump().keys()
