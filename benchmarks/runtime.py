"""Speed of the emulated driver under AMD's runtime: `python -m benchmarks.runtime [--launches N] [--mebibytes N] [--runs N]`.

A HIP program (`tests/runtime/programs/runtime_speed.hip`) measures itself in the tree of `make rocm-root`; the best
of several runs counts, because other processes only add time. The start-up time is that of rocminfo.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, Publisher
from rocm_perf_lab.runtime.rocm_root import enter_root, rocm_root_dir
from tests.builders.rocm_programs import RocmPrograms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runtime", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--launches", type=int, default=100_000, help="launches of a small kernel in one queue")
    parser.add_argument("--mebibytes", type=int, default=256, help="size of the copies")
    parser.add_argument("--runs", type=int, default=3, help="processes, of which the best counts")
    publisher = Publisher("runtime", parser, arguments)
    options = publisher.options
    program = str(RocmPrograms(rocm_root_dir()).compile("runtime_speed"))
    command = [program, str(options.launches), str(options.mebibytes)]
    runs = [json.loads(_output(command)) for _ in range(options.runs)]
    publisher.publish_figures("emulated driver", [*figures(runs), *start_up(options.runs)])


def figures(runs: Sequence[dict[str, Any]]) -> Iterator[Figure]:
    """Return the figures of the program's runs."""
    latency, launches_s = (min(run[name] for run in runs) for name in ("latency_us", "launches_s"))
    yield Figure("latency", "launch of an empty kernel with synchronisation", f"{latency:,.0f} us", "< 100 us")
    yield Figure("launches", f"{runs[0]['launches']:,} launches of a small kernel in one queue", f"{launches_s:,.1f} s", "< 20 s")
    host, device = (max(run[name] for run in runs) for name in ("memory_gb_s", "to_device_gb_s"))
    back = max(run["to_host_gb_s"] for run in runs)
    yield Figure("memory", "copy within the host's memory, for comparison", f"{host:,.1f} GB/s")
    yield Figure("to_device", "copy from host to device", f"{device:,.1f} GB/s")
    yield Figure("to_host", "copy from device to host", f"{back:,.1f} GB/s")
    first = min(run["first_call_s"] for run in runs)
    yield Figure("first_call", "first HIP call of a process", f"{first * 1000:,.0f} ms")
    resident = min(run["resident_kib"] for run in runs) / 1024
    yield Figure("resident", "memory of that process with AMD's runtime", f"{resident:,.0f} MiB")


def start_up(runs: int) -> Iterator[Figure]:
    """Measure the start of `rocm-perf run` with an application that only lists the GPU."""
    with_driver = min(_seconds(_command(["rocminfo"])) for _ in range(runs))
    inside = enter_root(rocm_root_dir(), ["true"], shared=[], working_directory=Path("/"), environment={})
    without = min(_seconds(inside) for _ in range(runs))
    yield Figure("start_up", "`rocm-perf run --root` of rocminfo, start to end", f"{with_driver:,.2f} s")
    yield Figure("root", "part of it: entering the root directory", f"{without:,.2f} s")


def _command(application: Sequence[str]) -> list[str]:
    return RocmPrograms(rocm_root_dir()).command(application)


def _output(application: Sequence[str]) -> str:
    return subprocess.run(_command(application), capture_output=True, text=True, check=True).stdout


def _seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
