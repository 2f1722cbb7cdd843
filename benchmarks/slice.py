"""Time of the demo and of `rocm-perf --version`: `python -m benchmarks.slice`.

The demo runs twice in an empty directory: first with empty rocm-perf-lab caches, then with those that the first run filled.
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

from benchmarks.figures import Figure, Publisher

DEMO = [sys.executable, "-m", "rocm_perf_lab", "+experiment=softmax_optimize"]


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slice", description=(__doc__ or "").partition("\n")[0])
    publisher = Publisher("slice", parser, arguments)
    data = measure()
    kind = data["time_kind"]
    figures = [
        Figure("demo", f"demo with empty caches, {data['proposals']} proposals", f"{data['demo_s']:.0f} s", "< 60 s"),
        Figure("second_demo", "demo again, with caches", f"{data['second_demo_s']:.0f} s"),
        Figure(
            "cached",
            "compiles that the second demo read from the cache",
            f"{data['compiles_cached']} of {data['compiles']}",
            "all",
        ),
        Figure("speedup", f"speed-up of the demo's kernel ({kind})", _speedup(data)),
        Figure("version", "`rocm-perf --version`", f"{data['version_s']:.2f} s", "< 0.2 s"),
    ]
    publisher.publish_figures("demo and start-up", figures, data)


def measure() -> dict[str, Any]:
    """Return seconds and counts by name."""
    with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-slice-") as directory:
        first_s, _ = _demo(Path(directory))
        second_s, result = _demo(Path(directory))
    verdicts = result["verdicts"]
    return {
        "demo_s": round(first_s, 1),
        "second_demo_s": round(second_s, 1),
        "proposals": len(verdicts),
        "compiles_cached": sum(v["compile_cached"] for v in verdicts if v["compile_cached"] is not None),
        "compiles": sum(v["compile_cached"] is not None for v in verdicts),
        "speedup": round(result["speedup"], 3),
        "expected_speedup": _expected(result["comparison"]),
        "time_kind": result["time_kind"],
        "version_s": round(min(_seconds(_version_command()) for _ in range(7)), 3),
    }


def _speedup(data: dict[str, Any]) -> str:
    text = f"{data['speedup']:.2f}x"
    if data["expected_speedup"] is None:
        return text
    low, high = data["expected_speedup"]
    return f"{text}, {low:.2f}x to {high:.2f}x expected on hardware"


def _expected(comparison: dict[str, Any] | None) -> list[float] | None:
    """Return the bounds of the speed-up; None if no rewrite was accepted."""
    if comparison is None:
        return None
    return [round(1 / (1 - comparison[bound]), 3) for bound in ("least", "most")]


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


if __name__ == "__main__":
    main()
