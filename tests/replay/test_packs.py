"""Packed captures: equal pages are stored once, also across captures; older and damaged ones."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.capture_mutations import mutate, packed_capture
from rocm_perf_lab.replay.directory import CaptureDirectory
from rocm_perf_lab.replay.errors import CaptureError
from rocm_perf_lab.replay.format import PAGE_BYTES
from rocm_perf_lab.replay.packing import pack_capture, pack_in_place
from rocm_perf_lab.replay.packs import PackReader, PackWriter
from rocm_perf_lab.replay.reader import capture_problems, open_capture
from tests.builders.captures import scale_capture

if TYPE_CHECKING:
    from pathlib import Path


def pages_of(directory: Path, words: bytes, packs: tuple[str, ...], pages: int) -> bytes:
    (directory / "map").write_bytes(words)
    reader = PackReader(CaptureDirectory(directory), packs)
    return b"".join(piece.tobytes() for piece in reader.pieces("map", pages * PAGE_BYTES))


def random_pages(count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, count * PAGE_BYTES, dtype=np.uint8)


def stored_bytes(directory: Path) -> int:
    """Return the bytes of files that no other directory has."""
    return sum(path.stat().st_size for path in directory.rglob("*.pack") if path.stat().st_nlink == 1)


def test_pages_of_zeros_and_repeated_pages_are_stored_once(tmp_path: Path) -> None:
    poison = np.full(1000 * PAGE_BYTES, 0xA5, dtype=np.uint8)
    content = np.concatenate([np.zeros(1000 * PAGE_BYTES, dtype=np.uint8), poison, random_pages(1, 1)])

    writer = PackWriter(tmp_path)
    words = writer.write([content])
    packs = writer.finish()

    assert len(words) == 2001 * 8
    assert stored_bytes(tmp_path) < 3 * PAGE_BYTES
    assert pages_of(tmp_path, words, packs, 2001) == content.tobytes()


def test_more_pages_than_one_pack_holds_are_returned_in_order(tmp_path: Path) -> None:
    content = random_pages(5000, 2)

    writer = PackWriter(tmp_path)
    words = writer.write(np.split(content, 5))
    packs = writer.finish()

    assert len(packs) == 2
    assert pages_of(tmp_path, words, packs, 5000) == content.tobytes()


def test_captures_in_one_directory_share_pages_and_each_can_be_removed(tmp_path: Path) -> None:
    first, second = (scale_capture(tmp_path / name, n=200_000) for name in ("first", "second"))
    plain = open_capture(second)
    before = [(plain.image(region).tobytes(), plain.expected(region).tobytes()) for region in plain.regions]

    pack_in_place(first)
    alone = stored_bytes(first)
    pack_in_place(second)

    assert alone > 0
    assert stored_bytes(second) < alone / 100
    shutil.rmtree(first)
    assert capture_problems(second) == []
    packed = open_capture(second)
    assert [(packed.image(region).tobytes(), packed.expected(region).tobytes()) for region in packed.regions] == before
    assert {path.name for path in tmp_path.iterdir()} == {"second"}


def test_a_modified_pack_of_another_capture_is_not_shared(tmp_path: Path) -> None:
    first, second = packed_capture(tmp_path), scale_capture(tmp_path / "second", n=5000)
    (pack,) = first.glob("packs/*.pack")
    content = bytearray(pack.read_bytes())
    content[-1] ^= 1
    pack.write_bytes(content)

    pack_in_place(second)

    assert capture_problems(first)[0] == f"packs/{pack.name} was modified: its SHA-256 does not match the manifest"
    assert capture_problems(second) == []


def test_a_capture_that_cannot_be_packed_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    capture = scale_capture(tmp_path / "c", n=200_000)
    monkeypatch.setattr(os, "fdatasync", full_disk)

    pack_in_place(capture)

    assert capture_problems(capture) == []
    assert not (capture / "packs").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"c"}


def test_a_shortened_capture_is_not_packed(tmp_path: Path) -> None:
    capture = scale_capture(tmp_path / "c", n=5000)
    region = next((capture / "memory").iterdir())
    region.write_bytes(region.read_bytes()[:-1])

    with pytest.raises(CaptureError, match=f"{region.name} differs in size from the manifest"):
        pack_capture(capture, tmp_path / "packed", near=[])


def test_a_damaged_page_map_with_a_new_checksum_is_reported(tmp_path: Path) -> None:
    capture = packed_capture(tmp_path)
    name = sorted(path.name for path in (capture / "memory").iterdir())[0]
    words = bytearray((capture / "memory" / name).read_bytes())
    words[4:8] = (77).to_bytes(4, "little")  # number of the pack of the first page
    (capture / "memory" / name).write_bytes(words)
    manifest = json.loads((capture / "manifest.json").read_text())
    manifest["files"][f"memory/{name}"]["sha256"] = hashlib.sha256(words).hexdigest()
    (capture / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(CaptureError, match="refers to pack 77 of 1"):
        open_capture(capture)


def test_mutated_captures_are_refused_or_unchanged(tmp_path: Path) -> None:
    refused, failures = mutate(packed_capture(tmp_path), 60, tmp_path, seed=2)

    assert failures == []
    assert refused > 30
