"""Capture directories: writing, reading, and rejection of damaged ones."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocm_perf_lab.replay.errors import CaptureError, IncompleteCapture
from rocm_perf_lab.replay.format import PAGE_BYTES, Region, export_schemas, region_file
from rocm_perf_lab.replay.pointer_scan import reachable
from rocm_perf_lab.replay.reader import capture_problems, open_capture
from rocm_perf_lab.replay.writer import CaptureNotWritten, CaptureWriter
from tests.builders.captures import Scene, list_capture, scale_capture

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scale_capture(tmp_path_factory.mktemp("captures") / "scale")


@pytest.fixture
def capture(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "capture"))


def largest_region(directory: Path) -> Path:
    return max((directory / "memory").iterdir(), key=lambda path: path.stat().st_size)


def rewrite(directory: Path, name: str, change: Callable[[Any], None], *, reseal: bool = True) -> None:
    """Change a document; with `reseal`, update the manifest to match."""
    document = json.loads((directory / name).read_text())
    change(document)
    (directory / name).write_text(json.dumps(document))
    if reseal and name != "manifest.json":
        content = (directory / name).read_bytes()
        entry = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        rewrite(directory, "manifest.json", lambda manifest: manifest["files"].update({name: entry}))


def test_a_capture_holds_memory_before_the_dispatch_and_the_pages_it_changed(original: Path) -> None:
    capture = open_capture(original)
    x, y, _ = capture.regions

    assert capture.image(x).view(np.float32)[:5000].tolist() == list(range(5000))
    assert not capture.image(y).any()
    assert capture.expected(y).view(np.float32)[:5000].tolist() == [3.0 * i for i in range(5000)]
    assert x.after is None
    assert y.after is not None
    assert y.after.runs == ((0, 5),)
    assert capture.dispatch.packet.grid_size == (79 * 64, 1, 1)
    assert capture.kernel.symbol == "scale"


def test_a_capture_is_private_and_valid(original: Path) -> None:
    assert stat.S_IMODE(original.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in original.rglob("*") if path.is_file()} == {0o600}
    assert capture_problems(original) == []


def test_zero_pages_use_no_disk_space(tmp_path: Path) -> None:
    content = np.zeros(1000 * PAGE_BYTES, dtype=np.uint8)
    content[500 * PAGE_BYTES] = 1

    with CaptureWriter(tmp_path / "c") as writer:
        blob = writer.write_region(0x1000, content)

    path = tmp_path / "c" / region_file(0x1000)
    assert blob.zero_pages == 999
    assert path.stat().st_size == len(content)
    assert path.stat().st_blocks * 512 <= 64 << 10
    assert np.array_equal(np.fromfile(path, np.uint8), content)


def test_equal_dispatches_have_equal_memory_and_checksums(tmp_path: Path) -> None:
    first, second = scale_capture(tmp_path / "a"), scale_capture(tmp_path / "b")

    manifests = [json.loads((directory / "manifest.json").read_text())["files"] for directory in (first, second)]
    for manifest in manifests:
        del manifest["dispatch.json"]  # contains the process id
    assert manifests[0] == manifests[1]


def test_only_memory_reachable_from_the_arguments_is_captured(tmp_path: Path) -> None:
    capture = open_capture(list_capture(tmp_path / "list"))

    assert len(capture.regions) == 5 + 1 + 1  # nodes, total, kernarg; not the allocation without pointers to it
    third = capture.regions[2]
    assert third.reached_from == (f"{capture.regions[1].base:#x}",)


def test_full_captures_contain_all_memory(tmp_path: Path) -> None:
    scene = Scene()
    scene.buffer(np.arange(4, dtype=np.int32), "nobody's")
    x = scene.buffer(np.ones(64, dtype=np.float32))

    capture = open_capture(scene.capture(tmp_path / "full", "in_place", [x], mode="full"))

    assert len(capture.regions) == 3
    assert capture.regions[0].reached_from == ()


def test_committed_schemas_match_the_models(tmp_path: Path) -> None:
    for path in export_schemas(tmp_path):
        assert (SCHEMAS / path.name).read_text() == path.read_text()


def test_documents_conform_to_their_schemas(original: Path, tmp_path: Path) -> None:
    import jsonschema

    for path in export_schemas(tmp_path):
        if not path.name.startswith("capture_"):
            continue
        name = path.name.removeprefix("capture_").replace(".schema.json", ".json")
        jsonschema.validate(json.loads((original / name).read_text()), json.loads(path.read_text()))


def truncated(directory: Path) -> None:
    os.truncate(largest_region(directory), 4096)


def missing(directory: Path) -> None:
    largest_region(directory).unlink()


def swapped(directory: Path) -> None:
    x, y = sorted((directory / "memory").iterdir())[:2]
    x.rename(directory / "held")
    y.rename(x)
    (directory / "held").rename(y)


def one_bit(directory: Path) -> None:
    with largest_region(directory).open("r+b") as file:
        file.seek(4097)
        byte = file.read(1)[0]
        file.seek(4097)
        file.write(bytes([byte ^ 1]))


def other_code_object(directory: Path) -> None:
    path = directory / "kernel.hsaco"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")


def linked_out(directory: Path) -> None:
    region = largest_region(directory)
    outside = directory.parent / "outside.bin"
    shutil.copy(region, outside)
    region.unlink()
    region.symlink_to(outside)


def linked_directory(directory: Path) -> None:
    (directory / "memory").rename(directory.parent / "elsewhere")
    (directory / "memory").symlink_to(directory.parent / "elsewhere")


def traversing_region(directory: Path) -> None:
    rewrite(directory, "memory_regions.json", lambda d: d["regions"][0].update({"file": "../../etc/passwd"}))


def traversing_manifest(directory: Path) -> None:
    rewrite(directory, "manifest.json", lambda d: d["files"].update({"../evil": {"size": 0, "sha256": "0" * 64}}))


def overlapping(directory: Path) -> None:
    def grow(document: Any) -> None:
        first, second = document["regions"][:2]
        first["size"] = int(second["base"], 16) - int(first["base"], 16) + PAGE_BYTES

    rewrite(directory, "memory_regions.json", grow)


def shorter_region(directory: Path) -> None:
    def shrink(document: Any) -> None:
        document["regions"][0].update({"size": PAGE_BYTES, "requested": []})

    rewrite(directory, "memory_regions.json", shrink)


def no_json(directory: Path) -> None:
    content = b"{"
    (directory / "dispatch.json").write_bytes(content)
    entry = {"size": 1, "sha256": hashlib.sha256(content).hexdigest()}
    rewrite(directory, "manifest.json", lambda d: d["files"].update({"dispatch.json": entry}))


def edited_without_the_manifest(directory: Path) -> None:
    rewrite(directory, "dispatch.json", lambda d: d["packet"].update({"grid_size": [64, 1, 1]}), reseal=False)


def unknown_key(directory: Path) -> None:
    rewrite(directory, "dispatch.json", lambda d: d.update({"surprise": 1}))


def number_for_an_address(directory: Path) -> None:
    rewrite(directory, "memory_regions.json", lambda d: d["regions"][0].update({"base": "1000"}))


def workgroup_of_nothing(directory: Path) -> None:
    rewrite(directory, "dispatch.json", lambda d: d["packet"].update({"workgroup_size": [0, 1, 1]}))


def newer_format(directory: Path) -> None:
    rewrite(directory, "manifest.json", lambda d: d.update({"format_version": 3}))


def pages_outside(directory: Path) -> None:
    rewrite(directory, "memory_regions.json", lambda d: d["regions"][1]["after"].update({"runs": [[4, 5]]}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncated, "4,096 bytes, but 20,480 were captured"),
        (missing, "cannot be read: No such file"),
        (swapped, "its SHA-256 does not match"),
        (one_bit, "its SHA-256 does not match"),
        (other_code_object, "kernel.hsaco was modified"),
        (linked_out, "is a symbolic link"),
        (linked_directory, "is a symbolic link, or below a link"),
        (traversing_region, "the file of region"),
        (traversing_manifest, "'../evil', which no document refers to"),
        (overlapping, "overlap"),
        (shorter_region, "the documents require 4,096"),
        (no_json, "dispatch.json is not JSON"),
        (edited_without_the_manifest, "dispatch.json"),
        (unknown_key, "surprise"),
        (number_for_an_address, "an address is"),
        (workgroup_of_nothing, "workgroup size"),
        (newer_format, "version 3; this version of rocm-perf-lab reads"),
        (pages_outside, "overlap or are outside"),
    ],
)
def test_a_damaged_capture_is_rejected_with_the_reason(capture: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(capture)

    with pytest.raises(CaptureError, match=message.replace("(", r"\(")):
        open_capture(capture)
    assert capture_problems(capture) != []


def test_verification_lists_every_problem_and_unexpected_files(capture: Path) -> None:
    one_bit(capture)
    other_code_object(capture)
    (capture / "notes.txt").write_text("mine")

    problems = capture_problems(capture)

    assert len(problems) == 3
    assert "notes.txt is not part of a capture" in problems


def test_a_directory_without_manifest_is_incomplete_and_the_hint_removes_it(capture: Path) -> None:
    (capture / "manifest.json").unlink()

    with pytest.raises(IncompleteCapture, match="incomplete") as error:
        open_capture(capture)

    assert f"rm -r {capture}" in str(error.value)


def test_other_directories_are_distinguished_from_incomplete_captures(tmp_path: Path) -> None:
    with pytest.raises(IncompleteCapture, match="is not a capture"):
        open_capture(tmp_path)
    with pytest.raises(CaptureError, match="does not exist"):
        open_capture(tmp_path / "nowhere")


def test_a_directory_that_is_not_empty_is_not_changed(capture: Path) -> None:
    with pytest.raises(CaptureNotWritten, match="is not empty"):
        CaptureWriter(capture)


def test_a_full_disk_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)

    with pytest.raises(CaptureNotWritten, match="No space left on device"):
        scale_capture(tmp_path / "c")
    assert not (tmp_path / "c").exists()


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 5))
def test_reachable_memory_is_the_closure_over_pointers(edges: list[int], start: int) -> None:
    bases = [0x10000 * (i + 1) for i in range(6)]
    links: dict[int, list[int]] = {base: [] for base in bases}
    for source, target in enumerate(edges):
        links[bases[source % 6]].append(bases[target] + 8 * source)
    contents = {
        base: np.array([*targets, *[0] * (16 - len(targets))], dtype=np.uint64).view(np.uint8) for base, targets in links.items()
    }
    wanted, waiting = set(), [bases[start]]
    while waiting:
        base = waiting.pop()
        if base not in wanted:
            wanted.add(base)
            waiting += [target // 0x10000 * 0x10000 for target in links[base]]

    assert set(reachable((bases[start] + 4).to_bytes(8, "little"), contents)) == wanted


def test_regions_are_whole_pages() -> None:
    with pytest.raises(ValueError, match="whole pages"):
        Region(base=0x1001, size=4096, file=region_file(0x1001))
