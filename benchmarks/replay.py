"""Speed of capture and replay: `python -m benchmarks.replay [--dispatches N] [--mebibytes N] [--processes N] [--directory DIR]`.

Replays run on the emulator, those in new processes on the HSA engine with the stand-in runtime of the tests. Captures are made
by the capture tool inside AMD's runtime on the emulated driver (`make rocm-root`), see `benchmarks.captures_in_rocm`, and inside
the stand-in runtime. The capture time ends when the bytes are on disk; the speed of the disk is measured in the same directory in
the same way.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np

from benchmarks.captures_in_rocm import capture_of_memory, interference, rocm_programs
from benchmarks.disk import BLOCK_BYTES, GIB, MIB, disk_bytes_per_s, flush_files
from benchmarks.figures import Figure, Publisher
from benchmarks.process_memory import PeakMemory
from rocm_perf_lab.emulator.machine import EmulatedGpu
from rocm_perf_lab.emulator.memory import PAGE_BYTES
from rocm_perf_lab.replay.application_capture import capture as capture_application
from rocm_perf_lab.replay.application_run import tool_environment
from rocm_perf_lab.replay.capture_request import CaptureRequest
from rocm_perf_lab.replay.errors import ReservationError
from rocm_perf_lab.replay.messages import CheckRequest, ReplayRequest
from rocm_perf_lab.replay.packs import PackWriter
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.session import ReplaySession
from rocm_perf_lab.replay.tool_build import build_tool
from rocm_perf_lab.target.catalog import load_target
from tests.builders.captures import scale_capture
from tests.builders.hsa_stand_in import build
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from collections.abc import Iterator


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dispatches", type=int, default=100_000, help="dispatches of the applications without a capture")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of runs of these applications, with and without the tool")
    parser.add_argument("--mebibytes", type=int, default=1024, help="half-random memory that is captured, at least 64")
    parser.add_argument("--gibibytes", type=float, default=4, help="device memory of the large capture on the stand-in runtime")
    parser.add_argument("--processes", type=int, default=200, help="replays in a new process each")
    parser.add_argument("--directory", type=Path, help="directory on the disk to measure, for the captures")
    publisher = Publisher("replay", parser, arguments)
    options = publisher.options
    half_random = options.mebibytes * MIB
    figures = [*replays_of_a_small_kernel(), *restore_of_changed_pages(half_random), *fresh_processes(options.processes)]
    programs = rocm_programs()
    if programs is not None:
        figures += interference(programs, options.dispatches, options.pairs)
        figures += capture_of_memory(programs, options.mebibytes, options.directory)
    else:
        print("no ROCm (make rocm-root): captures are measured on the stand-in runtime only", file=sys.stderr)
    figures += large_capture(int(options.gibibytes * GIB), options.directory)
    figures += packing(half_random, options.directory)
    publisher.publish_figures("capture and replay", figures)


# ---- figures ----


def large_capture(nbytes: int, directory: Path | None) -> Iterator[Figure]:
    """Measure the speed of a capture relative to the disk and the memory growth of the captured process."""
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-", dir=directory) as scratch:
        disk = disk_bytes_per_s(Path(scratch) / "disk", nbytes)
        with build.emulator() as environment:
            seconds, growth = _capture(Path(scratch), nbytes, environment)
    speed = nbytes / seconds
    size = f"{nbytes / GIB:.3g} GiB"
    yield Figure("disk", f"sequential write of {size} to the disk", f"{disk / MIB:,.0f} MiB/s")
    yield Figure(
        "capture",
        f"capture of {size} on the stand-in runtime, before and after the dispatch",
        f"{speed / MIB:,.0f} MiB/s, {speed / disk:.2f} of the disk",
        ">= 0.5",
    )
    yield Figure(
        "growth", "memory growth of the captured process on the stand-in runtime", f"{growth / MIB:,.0f} MiB", "< 256 MiB"
    )


def packing(nbytes: int, directory: Path | None) -> Iterator[Figure]:
    """Measure packing of half-random memory: the time until the packs are on disk, their size, and the memory of the process."""
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-", dir=directory) as scratch:
        piece = random.integers(0, 256, (BLOCK_BYTES // PAGE_BYTES, PAGE_BYTES), dtype=np.uint8)
        piece[:, PAGE_BYTES // 2 :] = 7
        disk = disk_bytes_per_s(Path(scratch) / "disk", nbytes)
        with PeakMemory(os.getpid()) as memory:
            start = time.perf_counter()
            writer = PackWriter(Path(scratch))
            for number in range(nbytes // BLOCK_BYTES):
                piece[:, :8] = np.arange(len(piece), dtype=np.uint64).reshape(-1, 1).view(np.uint8) + np.uint8(number)
                writer.write([piece.reshape(-1)])
            packs = [Path(scratch) / name for name in writer.finish()]
            writer.close()
            for pack in packs:
                with pack.open("rb") as file:
                    os.fdatasync(file.fileno())
            seconds = time.perf_counter() - start
        stored = sum(pack.stat().st_size for pack in packs)
    speed, size = nbytes / seconds, f"{nbytes / GIB:.3g} GiB"
    yield Figure(
        "pack", f"packing of {size} of half-random memory", f"{speed / MIB:,.0f} MiB/s, {speed / disk:.2f} of the disk", ">= 0.7"
    )
    yield Figure("packed", "its size on disk", f"{stored / nbytes:.2f} of the memory", "")
    yield Figure("pack_memory", "memory growth of the process that packs", f"{memory.growth / MIB:,.0f} MiB", "< 200 MiB")


def replays_of_a_small_kernel(replays: int = 1000) -> Iterator[Figure]:
    """Measure one replay, with memory restored before it, and its share outside of the emulated instructions."""
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as scratch:
        capture = open_capture(scale_capture(Path(scratch) / "capture", n=256))
        with ReplaySession(capture, device="emulator", target=load_target("mi300x"), threads=1) as session:
            session.run(ReplayRequest(iterations=10))
            outcome = session.run(ReplayRequest(iterations=replays))
    outside_ms = (outcome.wall_ms - outcome.dispatch_ms) / replays
    yield Figure("replay", f"one of {replays:,} replays of a small kernel", f"{outcome.wall_ms / replays:.3f} ms", "< 1 ms")
    yield Figure("bookkeeping", "of this, restoring and bookkeeping", f"{outside_ms:.3f} ms", "<= 0.2 ms")


def restore_of_changed_pages(nbytes: int, dirty: float = 0.01) -> Iterator[Figure]:
    """Measure the restore of a region in which a kernel wrote some pages, relative to a copy of the whole region."""
    elements = nbytes // 4
    pages = round(nbytes / PAGE_BYTES * dirty)
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as scratch:
        code = build_hip(_SCATTER, Path(scratch)).code_object
    with EmulatedGpu(load_target("mi300x"), max_instructions=10**9) as machine:
        buffer = machine.allocate("x", nbytes)
        image = np.arange(elements, dtype=np.uint32).view(np.uint8)
        machine.write(buffer, image)
        tracked = machine.memory.track_writes(buffer.address, nbytes)
        loaded = machine.load(code)
        stride = elements // pages // 1024 * 1024
        changed, whole = [], []
        for _ in range(5):
            groups = (-(-pages // 64), 1, 1)
            machine.launch(loaded, "scatter", groups, (64, 1, 1), [buffer, pack("<q", stride), pack("<i", pages)])
            start = time.perf_counter()
            copied = tracked.restore(image)
            changed.append(time.perf_counter() - start)
            start = time.perf_counter()
            machine.write(buffer, image)
            whole.append(time.perf_counter() - start)
    restore_s, copy_s = min(changed), min(whole)
    size = f"{nbytes / GIB:.3g} GiB"
    yield Figure("copy", f"copy of {size}", f"{copy_s * 1e3:.1f} ms", "")
    yield Figure(
        "restore",
        f"restore of {size}, {copied:,} pages written",
        f"{restore_s * 1e3:.2f} ms, {copy_s / restore_s:.0f} times faster",
        ">= 50",
    )


def fresh_processes(count: int) -> Iterator[Figure]:
    """Measure replays of an application's capture on the stand-in runtime, each in a separate process."""
    relocations = 0
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as scratch, build.emulator() as environment:
        command = (str(build.application("application")), str(build.kernels()), "normal", "2")
        request = CaptureRequest(command=command, kernel="walk", output=Path(scratch) / "capture")
        capture = open_capture(capture_application(request, environment=environment).directory)
        stand_in = {name: environment[name] for name in ("STAND_IN_HSA_EMULATOR", "LD_LIBRARY_PATH")}
        with patch.dict(os.environ, stand_in):  # for these replays alone: other processes load AMD's runtime
            start = time.perf_counter()
            for _ in range(count):
                with ReplaySession(capture, device="rocm") as session:
                    try:
                        session.run(ReplayRequest(iterations=1, warmup=0, check=CheckRequest()))
                    except ReservationError:
                        relocations += 1
    each = (time.perf_counter() - start) / max(count, 1)
    yield Figure("relocations", f"{count} replays in new processes, {each:.2f} s each", f"{relocations} relocations", "0")


_SCATTER = """#include <hip/hip_runtime.h>
extern "C" __global__ void scatter(unsigned* x, long stride, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i * stride] = 7;
}
"""


def _capture(scratch: Path, nbytes: int, environment: dict[str, str]) -> tuple[float, int]:
    """Return seconds from the launch of the captured kernel until the capture is on disk, and process growth in bytes."""
    tool = build_tool()
    work = scratch / "work"
    work.mkdir()
    command = (str(build.application("application")), str(build.kernels()), "large", str(nbytes // MIB))
    request = CaptureRequest(command, "scale", scratch / "capture", timeout_s=600)
    variables = tool_environment(request, tool, work, environment)
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as application:
        assert application.stdout is not None
        _expect(application.stdout.readline(), "ready")
        with PeakMemory(application.pid) as memory:
            start = time.perf_counter()
            _expect(application.stdout.readline(), "done")
    (directory,) = work.glob("capture-*")
    flush_files(directory)
    seconds = time.perf_counter() - start
    captured = sum(path.stat().st_size for path in (directory / "memory").iterdir())
    if not (directory / "manifest.json").exists() or captured < nbytes:
        raise RuntimeError(f"captured {captured:,} of {nbytes:,} bytes")
    return seconds, memory.growth


def _expect(line: str, expected: str) -> None:
    if line.strip() != expected:
        raise RuntimeError(f"expected {expected!r} from the application, got {line!r}")


if __name__ == "__main__":
    main()
