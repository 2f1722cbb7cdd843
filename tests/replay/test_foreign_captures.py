"""Captures of kerncap and of the original rocm-perf-lab prototype."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rocm_perf_lab.replay.errors import CaptureError
from rocm_perf_lab.replay.messages import CheckRequest, ReplayRequest
from rocm_perf_lab.replay.reader import capture_problems, open_capture
from rocm_perf_lab.replay.session import ReplaySession
from tests.builders.foreign_captures import COUNT, foreign_capture
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["original rocm-perf-lab", "kerncap"])
def foreign(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """Return a capture of the same dispatch in the layout of each tool."""
    return foreign_capture(tmp_path, request.param), request.param


def test_the_layout_is_reported_and_memory_is_in_whole_pages(foreign: tuple[Path, str]) -> None:
    capture = open_capture(foreign[0])

    assert capture.layout == foreign[1]
    assert not capture.has_after
    assert [region.size for region in capture.regions] == [4096, 4096]
    assert capture.image(capture.regions[0])[: 4 * COUNT].view(np.float32).tolist() == list(range(COUNT))
    assert capture.kernel.symbol == "scale"
    assert capture_problems(foreign[0]) == []


def test_a_replay_is_compared_with_the_first_replay(foreign: tuple[Path, str]) -> None:
    capture = open_capture(foreign[0])
    y = capture.regions[1].base

    with ReplaySession(capture, device="emulator", target=mi300x(), threads=1) as session:
        outcome = session.run(ReplayRequest(iterations=2, check=CheckRequest(), read=((y, 4 * COUNT),)))

    import base64

    assert np.frombuffer(base64.b64decode(outcome.read[0]), np.float32).tolist() == [3.0 * i for i in range(COUNT)]
    assert outcome.verification is not None
    assert outcome.verification.passed
    assert outcome.verification.compared_with == "first baseline replay"
    warned = any("kerncap copies memory after the dispatch" in note for note in outcome.notes)
    assert warned == (foreign[1] == "kerncap")


def test_regions_that_share_a_page_are_merged_at_their_offsets(foreign: tuple[Path, str]) -> None:
    directory = foreign[0]
    base = 0x2000_0000_0000
    for start, content in ((16, b"a" * 100), (3000, b"b" * 2000)):
        (directory / "memory" / f"region_{base + start:x}.bin").write_bytes(content)
    regions = [{"base": base + start, "size": size} for start, size in ((3000, 2000), (16, 100))]
    (directory / "memory_regions.json").write_text(json.dumps({"regions": regions}))

    capture = open_capture(directory)
    (region,) = capture.regions
    image = capture.image(region).tobytes()

    assert (region.base, region.size) == (base, 8192)
    assert image == bytes(16) + b"a" * 100 + bytes(2884) + b"b" * 2000 + bytes(8192 - 5000)


def test_a_region_without_a_file_is_noted(foreign: tuple[Path, str]) -> None:
    document = json.loads((foreign[0] / "memory_regions.json").read_text())
    document["regions"].append({"base": 0x3000_0000_0000, "size": 64})
    (foreign[0] / "memory_regions.json").write_text(json.dumps(document))

    capture = open_capture(foreign[0])

    assert len(capture.regions) == 2
    assert any("has no file and was not copied" in warning for warning in capture.dispatch.warnings)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("memory_regions.json", '{"regions": [{"base": "x", "size": 1}]}', "memory_regions.json does not have the format"),
        ("memory_regions.json", '{"regions": [,]}', "memory_regions.json does not have the format"),
        ("dispatch.json", '{"mangled_name": "none", "grid": [64], "block": [64]}', "no kernel 'none'"),
        ("dispatch.json", '{"mangled_name": "scale", "grid": [64], "block": [0]}', "workgroup size"),
        ("kernarg.bin", "short", "kernarg.bin has 5 bytes"),
    ],
)
def test_a_damaged_capture_is_rejected(name: str, content: str, message: str, foreign: tuple[Path, str]) -> None:
    (foreign[0] / name).write_text(content)

    with pytest.raises(CaptureError, match=message):
        open_capture(foreign[0])


def test_a_truncated_file_is_rejected(foreign: tuple[Path, str]) -> None:
    blob = sorted((foreign[0] / "memory").glob("region_*"))[0]
    blob.write_bytes(blob.read_bytes()[:-1])

    with pytest.raises(CaptureError, match="3,999 bytes, but 4,000 were captured"):
        open_capture(foreign[0])


def rewrite(directory: Path, name: str, **more: Any) -> None:
    (directory / name).write_text(json.dumps(json.loads((directory / name).read_text()) | more))


def test_a_trailing_comma_after_the_last_region_is_accepted(foreign: tuple[Path, str]) -> None:
    document = foreign[0] / "memory_regions.json"
    document.write_text(document.read_text().replace("}]}", "},\n  ]\n}\n"))

    assert len(open_capture(foreign[0]).regions) == 2


def test_addresses_are_read_in_decimal_and_in_hexadecimal(foreign: tuple[Path, str]) -> None:
    regions = json.loads((foreign[0] / "memory_regions.json").read_text())["regions"]
    first, second = regions
    first["base"], second["base"] = hex(first["base"]), str(second["base"])
    (foreign[0] / "memory_regions.json").write_text(json.dumps({"regions": regions, "tool": "another version"}))

    assert [region.base for region in open_capture(foreign[0]).regions] == [int(first["base"], 16), int(second["base"])]


def test_the_file_selects_between_a_reservation_and_its_mapping(foreign: tuple[Path, str]) -> None:
    regions = json.loads((foreign[0] / "memory_regions.json").read_text())["regions"]
    rewrite(foreign[0], "memory_regions.json", regions=[*regions, regions[0] | {"size": 1 << 30}])

    assert [region.size for region in open_capture(foreign[0]).regions] == [4096, 4096]


def test_a_region_inside_another_is_the_same_memory(foreign: tuple[Path, str]) -> None:
    regions = json.loads((foreign[0] / "memory_regions.json").read_text())["regions"]
    base = regions[0]["base"]
    whole = (foreign[0] / "memory" / f"region_{base:x}.bin").read_bytes()
    (foreign[0] / "memory" / f"region_{base + 64:x}.bin").write_bytes(whole[64:96])
    rewrite(foreign[0], "memory_regions.json", regions=[{"base": base + 64, "size": 32}, {"base": base, "size": 0}, *regions])

    capture = open_capture(foreign[0])

    assert capture.image(capture.regions[0])[: len(whole)].tobytes() == whole


def test_module_variables_of_other_code_objects_are_ignored(foreign: tuple[Path, str]) -> None:
    ours, other = "a" * 64, "b" * 64
    (foreign[0] / "metadata.json").write_text(json.dumps({"hsaco_sha256": ours}))
    (foreign[0] / "module_variables").mkdir()
    variables = []
    for value, sha256 in ((1, other), (2, ours), (3, other)):
        blob = f"module_variables/{sha256[:16]}_calls{value}.bin"
        (foreign[0] / blob).write_bytes(value.to_bytes(4, "little"))
        variables.append({"name": "calls", "size": 4, "blob": blob, "executable_sha256": sha256})
    (foreign[0] / "module_variables.json").write_text(json.dumps({"variables": variables}))

    capture = open_capture(foreign[0])

    assert [variable.name for variable in capture.dispatch.variables] == ["calls"]
    assert capture.variables == (2).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("memory_regions.json", {"regions": [{"base": (1 << 64) - 4096, "size": 8192}]}, "ends beyond the address space"),
        ("memory_regions.json", {"regions": [{"base": 0, "size": 8192}]}, "whole pages"),
        ("memory_regions.json", {"regions": [{"base": -4096, "size": 1}]}, "greater than or equal to 0"),
        ("memory_regions.json", {"regions": [{"base": 1 << 64, "size": 1}]}, "less than"),
        ("dispatch.json", {"dispatch_index": 1 << 70}, "this capture is inconsistent"),
        ("dispatch.json", {"isa_name": "\ud800"}, "surrogates not allowed"),
    ],
)
def test_impossible_values_are_rejected(name: str, more: dict[str, Any], message: str, foreign: tuple[Path, str]) -> None:
    for base in (0, (1 << 64) - 4096):
        (foreign[0] / "memory" / f"region_{base:x}.bin").write_bytes(bytes(8192))
    rewrite(foreign[0], name, **more)

    with pytest.raises(CaptureError, match=message):
        open_capture(foreign[0])


@pytest.mark.parametrize(
    "blob", ["../outside", "/etc/passwd", "memory/../../outside", "x" * 300, "", "memory\0x", "link", "memory"]
)
def test_the_file_of_a_variable_must_be_inside_the_capture(blob: str, foreign: tuple[Path, str]) -> None:
    (foreign[0].parent / "outside").write_bytes(bytes(4))
    (foreign[0] / "link").symlink_to(foreign[0].parent / "outside")
    (foreign[0] / "module_variables.json").write_text(json.dumps({"variables": [{"name": "v", "size": 4, "blob": blob}]}))

    with pytest.raises(CaptureError):
        open_capture(foreign[0])
