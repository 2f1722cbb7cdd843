"""Mutations of captures: `python -m benchmarks.capture_mutations [--inputs 1000]`.

Bits, sizes, exchanged files, links and documents of a packed capture are changed with a seeded generator; in half of the inputs
the checksums are updated, so that they do not reveal the change. Allowed results are an error message of the package, or a
capture whose memory has the sizes and the SHA-256 of its manifest, which is then replayed on the emulator. Any other result is a
failure, which is printed with its number.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, Publisher
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.replay.messages import CheckRequest, ReplayRequest
from rocm_perf_lab.replay.packing import pack_in_place
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.session import ReplaySession
from rocm_perf_lab.target.catalog import load_target
from tests.builders.captures import scale_capture

if TYPE_CHECKING:
    from collections.abc import Callable

INPUTS = 1000
_NUMBERS = (0, 1, -1, 4095, 4096, 1 << 32, (1 << 64) - 1, 1 << 64, 0.5)
_VALUES: tuple[Any, ...] = (*_NUMBERS, None, "", "0x0", "0x1000", "../x", "packs", [], {}, True)


def main(arguments: list[str] | None = None) -> None:
    """Mutate, print the numbers of refused and accepted captures, and end with 1 after a failure."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.capture_mutations", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--inputs", type=int, default=INPUTS)
    publisher = Publisher("capture_mutations", parser, arguments)
    inputs = publisher.options.inputs
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-mutations-") as scratch:
        refused, failures = mutate(packed_capture(Path(scratch)), inputs, Path(scratch), accepted=_replay)
    found = f"{refused:,} refused, {inputs - refused - len(failures)} opened and replayed, {len(failures)} failures"
    figures = [
        Figure("mutations", f"{inputs:,} mutations of a capture: bits, sizes, files, links, documents", found, "0 failures")
    ]
    publisher.publish_figures("mutations of captures", figures)
    for failure in failures:
        print(failure)
    sys.exit(bool(failures))


def packed_capture(directory: Path) -> Path:
    """Return a small packed capture in a directory."""
    capture = scale_capture(directory / "capture", n=5000)
    pack_in_place(capture)
    return capture


def mutate(
    original: Path, inputs: int, scratch: Path, *, seed: int = 1, accepted: Callable[[Path], None] = lambda _: None
) -> tuple[int, list[str]]:
    """Open mutated copies of a capture; return the number of refused ones, and the failures, also those of `accepted`."""
    refused, failures = 0, []
    for number in range(inputs):
        source = random.Random(f"{seed} {number}")
        directory = Path(shutil.copytree(original, scratch / "mutated"))
        mutation = source.choice(_MUTATIONS)
        mutation(directory, source)
        if source.random() < 0.5:
            _sign(directory)
        try:
            try:
                _require_consistent(directory)
            except LabError:
                refused += 1
            else:
                accepted(directory)
        except Exception as error:  # noqa: BLE001  # this is the failure to detect
            failures.append(f"input {number}, {mutation.__name__}: {type(error).__name__}: {error}")
        shutil.rmtree(directory)
    return refused, failures


def _require_consistent(directory: Path) -> None:
    """Open a capture and compare all of its memory with the manifest, independently of the reader."""
    capture = open_capture(directory)
    manifest = json.loads((directory / "manifest.json").read_bytes())
    for lower, upper in pairwise(capture.memory.regions):
        assert lower.end <= upper.base
    for region in capture.regions:
        listed = manifest.get("packed", {}).get(region.file) or manifest["files"][region.file]
        image = capture.image(region)
        assert image.size == region.size == listed["size"]
        assert hashlib.sha256(image.tobytes()).hexdigest() == listed["sha256"]
        assert capture.expected(region).size == region.size


def _replay(directory: Path) -> None:
    """Replay a capture in a new process; errors other than a failure of that process are allowed."""
    try:
        with ReplaySession(open_capture(directory), device="emulator", target=load_target("mi300x")) as session:
            session.run(ReplayRequest(iterations=1, check=CheckRequest()))
    except LabError as error:
        if "the replay process ended" in error.what:
            raise RuntimeError(str(error)) from error


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.name != "manifest.json")


def _flip_bits(directory: Path, source: random.Random) -> None:
    path = source.choice([*_files(directory), directory / "manifest.json"])
    content = bytearray(path.read_bytes())
    for _ in range(source.randint(1, 8) if content else 0):
        content[source.randrange(len(content))] ^= 1 << source.randrange(8)
    path.write_bytes(content)


def _change_size(directory: Path, source: random.Random) -> None:
    path = source.choice(_files(directory))
    content = path.read_bytes()
    path.write_bytes(
        content[: source.randrange(len(content) + 1)] if source.random() < 0.5 else content + bytes(source.choice([1, 8, 4096]))
    )


def _swap(directory: Path, source: random.Random) -> None:
    first, second = source.sample(_files(directory), 2)
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])


def _link(directory: Path, source: random.Random) -> None:
    path = source.choice(_files(directory))
    path.unlink()
    path.symlink_to(source.choice(["/etc/passwd", "/dev/zero", "missing", str(source.choice(_files(directory)))]))


def _remove(directory: Path, source: random.Random) -> None:
    source.choice([*_files(directory), directory / "manifest.json"]).unlink()


def _edit(directory: Path, source: random.Random) -> None:
    path = directory / source.choice(["manifest.json", "dispatch.json", "memory_regions.json"])
    document = json.loads(path.read_bytes())
    inner: Any = document
    while True:
        key: Any = source.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
        if not isinstance(inner[key], dict | list) or not inner[key] or source.random() < 0.2:
            break
        inner = inner[key]
    if source.random() < 0.2:
        del inner[key]
    else:
        inner[key] = source.choice(_VALUES)
    path.write_text(json.dumps(document))


def _sign(directory: Path) -> None:
    """Update sizes and checksums of the files in the manifest, which may be damaged."""
    path = directory / "manifest.json"
    try:
        manifest = json.loads(path.read_bytes())
        for name, entry in manifest["files"].items():
            content = (directory / name).read_bytes()[: 1 << 20] if (directory / name).is_file() else b""
            entry.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
        path.write_text(json.dumps(manifest))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return


_MUTATIONS: tuple[Callable[[Path, random.Random], None], ...] = (_flip_bits, _change_size, _swap, _link, _remove, _edit, _edit)


if __name__ == "__main__":
    main()
