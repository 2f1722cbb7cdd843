"""Figures of the vertical slice: `python -m benchmarks.slice [--json FILE]`.

Runs the demo twice in an empty directory, as a user would: with empty caches of the lab, then with what the first run left.
Times `rocm-perf --version`. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DEMO = [sys.executable, "-m", "rocm_perf_lab", "+experiment=softmax_optimize"]
GOALS = {"demo_s": 60.0, "proposals": 5, "version_s": 0.2}


def main() -> None:
    """Measure, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    figures = measure()
    _print(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def measure() -> dict[str, Any]:
    """Seconds and counts by name."""
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-slice-") as directory:
        first_s, _ = _demo(Path(directory))  # the lab's caches are empty
        second_s, result = _demo(Path(directory))
    verdicts = result["verdicts"]
    return {
        "demo_s": round(first_s, 1),
        "second_demo_s": round(second_s, 1),
        "proposals": len(verdicts),
        "compiles_cached": sum(v["compile_cached"] for v in verdicts if v["compile_cached"] is not None),
        "compiles": sum(v["compile_cached"] is not None for v in verdicts),
        "speedup": round(result["speedup"], 3),
        "time_kind": result["time_kind"],
        "version_s": round(min(_seconds(_version_command()) for _ in range(7)), 3),
    }


def _demo(directory: Path) -> tuple[float, dict[str, Any]]:
    outputs = directory / "outputs"
    before = set(outputs.rglob("optimize.json"))
    environment = os.environ | {"ROCM_PERF_LAB_CACHE": str(directory / "cache")}
    start = time.perf_counter()
    subprocess.run(DEMO, cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    (document,) = set(outputs.rglob("optimize.json")) - before
    return seconds, json.loads(document.read_text())


def _version_command() -> list[str]:
    return [str(Path(sys.executable).with_name("rocm-perf")), "--version"]


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def _print(figures: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "value", "goal", title="the vertical slice")
    table.add_row("demo with empty caches, seconds", str(figures["demo_s"]), f"< {GOALS['demo_s']:g}")
    table.add_row("second run, seconds", str(figures["second_demo_s"]), "")
    table.add_row("proposals evaluated", str(figures["proposals"]), f">= {GOALS['proposals']}")
    cached = f"{figures['compiles_cached']} of {figures['compiles']}"
    table.add_row("compiles that the second run took from the cache", cached, "all")
    table.add_row("rocm-perf --version, seconds", str(figures["version_s"]), f"< {GOALS['version_s']:g}")
    table.add_row(f"speed-up ({figures['time_kind']})", f"{figures['speedup']:.3f}x", "")
    Console().print(table)


if __name__ == "__main__":
    main()
