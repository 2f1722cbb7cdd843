"""Captures with mutated documents are read or rejected with a message, and never cause another exception.

The checksums of mutated documents are updated, so that the checksum test does not find the mutation.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.replay.reader import capture_problems, open_capture
from tests.builders.captures import scale_capture
from tests.builders.foreign_captures import foreign_capture

EDGES = [0, 1, -1, 4095, 4096, 1 << 31, 1 << 32, 1 << 47, (1 << 64) - 1, 1 << 64, 1 << 200]
NAMES = ["", "0x0", "0x1000", "0xffffffffffffffff", "../x", "/etc/passwd", "a/../b", "x" * 300, "\0", "\ud800", "scale", "memory"]
LEAVES = st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(EDGES) | st.sampled_from(NAMES) | st.text()
VALUES = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.sampled_from(NAMES), LEAVES, max_size=2)


@pytest.fixture(scope="module", params=["native", "original rocm-perf-lab", "kerncap"])
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("capture")
    return scale_capture(parent / "c", n=1000) if request.param == "native" else foreign_capture(parent, request.param)


def places(document: Any) -> list[tuple[Any, ...]]:
    """Return every path in a document."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    return [(key, *rest) for key, value in pairs for rest in [(), *places(value)]]


def changed(document: Any, place: tuple[Any, ...], value: Any, how: str) -> Any:
    """Return the document with a value replaced, removed or duplicated."""
    document = copy.deepcopy(document)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    if how == "remove":
        del inner[place[-1]]
    elif how == "add" and isinstance(inner, list):
        inner.append(value)
    else:
        inner["something else" if how == "add" else place[-1]] = value
    return document


def seal(directory: Path) -> None:
    """Update the checksums of changed documents in the manifest."""
    manifest = json.loads((directory / "manifest.json").read_text())
    for name in ("dispatch.json", "memory_regions.json"):
        content = (directory / name).read_bytes()
        manifest["files"][name] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (directory / "manifest.json").write_text(json.dumps(manifest))


@given(st.data())
@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_document_is_read_or_rejected_with_a_message(original: Path, data: st.DataObject) -> None:
    with TemporaryDirectory() as parent:
        directory = Path(shutil.copytree(original, Path(parent) / "c"))
        name = data.draw(st.sampled_from(sorted(path.name for path in directory.glob("*.json"))))
        document = json.loads((directory / name).read_text())
        place, how = data.draw(st.sampled_from(places(document))), data.draw(st.sampled_from(["replace", "remove", "add"]))
        (directory / name).write_text(json.dumps(changed(document, place, data.draw(VALUES), how)))
        if (directory / "manifest.json").exists() and name != "manifest.json":
            seal(directory)

        problems = capture_problems(directory)
        try:
            capture = open_capture(directory)
        except LabError as error:
            assert problems
            assert str(error).encode().strip()
        else:
            assert all(lower.end <= upper.base for lower, upper in pairwise(capture.memory.regions))
            assert all(len(capture.image(region)) == region.size for region in capture.regions)
        assert {path.name for path in Path(parent).iterdir()} == {"c"}
