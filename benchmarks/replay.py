"""Figures of capture and replay: `python -m benchmarks.replay [--json FILE] [--gibibytes N] [--folder DIR]`.

Captures are made by the real capture tool in an application on the stand-in runtime of the tests. Their time is that which
the application loses, until the bytes are on the disk; the disk's own speed is measured in the same folder, the same way.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.replay.launcher import CaptureRequest, tool_environment
from rocm_perf_lab.replay.tool_build import build_tool
from tests.builders.hsa_stand_in import build

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB, GIB = 1 << 20, 1 << 30
BLOCK_BYTES = 64 * MIB
SAMPLE_S = 0.005


@dataclass(frozen=True)
class Figure:
    """One printed line; `goal` in the words of the project."""

    name: str
    value: str
    goal: str


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--gibibytes", type=int, default=4, help="device memory of the large capture")
    parser.add_argument("--folder", type=Path, help="where the large capture goes, and the disk is measured")
    options = parser.parse_args()
    figures = [*large_capture(options.gibibytes * GIB, options.folder)]
    _print(figures)
    if options.json:
        options.json.write_text(json.dumps([figure.__dict__ for figure in figures], indent=2) + "\n")


# ---- what is measured ----


def large_capture(nbytes: int, folder: Path | None) -> Iterator[Figure]:
    """Speed of a capture, as a share of the disk's, and by how much the process grows meanwhile."""
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-", dir=folder) as scratch:
        disk = _disk_bytes_per_s(Path(scratch) / "disk", nbytes)
        with build.emulator() as environment:
            seconds, growth = _capture(Path(scratch), nbytes, environment)
    speed = nbytes / seconds
    size = f"{nbytes / GIB:g} GiB"
    yield Figure(f"sequential write of {size} to the disk", f"{disk / MIB:,.0f} MiB/s", "")
    yield Figure(f"capture of {size}, before and after", f"{speed / MIB:,.0f} MiB/s, {speed / disk:.2f} of the disk", ">= 0.5")
    yield Figure("growth of the process meanwhile", f"{growth / MIB:,.0f} MiB", "< 256 MiB")


def _disk_bytes_per_s(path: Path, nbytes: int) -> float:
    block = os.urandom(BLOCK_BYTES)
    start = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(nbytes // BLOCK_BYTES):
            file.write(block)
        os.fdatasync(file.fileno())
    seconds = time.perf_counter() - start
    path.unlink()
    return nbytes / seconds


def _capture(scratch: Path, nbytes: int, environment: dict[str, str]) -> tuple[float, int]:
    """Seconds from the launch of the captured kernel until the capture is on the disk, and growth of the process in bytes."""
    tool = build_tool()
    work = scratch / "work"
    work.mkdir()
    command = (str(build.application("application")), str(build.kernels()), "large", str(nbytes // MIB))
    request = CaptureRequest(command, "scale", scratch / "capture", timeout_s=600)
    variables = tool_environment(request, tool, work, environment)
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as application:
        assert application.stdout is not None
        _expect(application.stdout.readline(), "ready")
        start, before = time.perf_counter(), _resident_bytes(application.pid)
        peak = _Peak(application.pid)
        _expect(application.stdout.readline(), "done")
        growth = peak.stop() - before
    (folder,) = work.glob("capture-*")
    for path in folder.rglob("*.*"):
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
    seconds = time.perf_counter() - start
    captured = sum(path.stat().st_size for path in (folder / "memory").iterdir())
    if not (folder / "manifest.json").exists() or captured < nbytes:
        raise RuntimeError(f"{captured:,} bytes were captured, {nbytes:,} are in the buffer")
    return seconds, growth


class _Peak:
    """The largest resident size of a process, sampled on a thread."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._largest = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> int:
        """Bytes."""
        self._stopped.set()
        self._thread.join()
        return self._largest

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            self._largest = max(self._largest, _resident_bytes(self._pid))


def _resident_bytes(pid: int) -> int:
    """All of it, the stand-in's device memory included: that is there before and after."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), 0)


def _expect(line: str, word: str) -> None:
    if line.strip() != word:
        raise RuntimeError(f"the application said {line!r}, not {word!r}")


def _print(figures: list[Figure]) -> None:
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        print(f"{figure.name:<{width}}  {figure.value}" + (f"  (goal: {figure.goal})" if figure.goal else ""))


if __name__ == "__main__":
    main()
