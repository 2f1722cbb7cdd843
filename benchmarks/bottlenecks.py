"""How the bottleneck classifier does on kernels built to show each class: `python -m benchmarks.bottlenecks [--markdown]`.

Every kernel of `benchmarks/kernels/labelled.hip` is limited by what it is named after. It runs on the emulator, and goes
through the same database, profile and rules as any other kernel.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml

from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue, Launch
from rocm_perf_lab.profiling.passes import run_passes
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.resources import resource_dir
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).with_name("kernels") / "labelled.hip"
FULL = 304 * 8
"""Workgroups of 256 work-items that an MI300X holds at once."""


@dataclass(frozen=True)
class Case:
    """A launch whose bottleneck is known: kernel, workgroups, floats read and written."""

    label: str
    kernel: str
    workgroups: int
    inputs: int
    outputs: int
    block: int = 256


CASES = (
    Case("memory_bandwidth_bound", "copy", 16 * FULL, 16 * FULL * 1024, 16 * FULL * 1024),
    Case("memory_bandwidth_bound", "triad", 32 * FULL, 64 * FULL * 256, 32 * FULL * 256),
    Case("compute_bound", "multiply_add", 2 * FULL, 1024, 2 * FULL * 256),
    Case("compute_bound", "transcendental", 2 * FULL, 1024, 2 * FULL * 256),
    Case("lds_bank_conflicts", "bank_conflicts", 2 * FULL, 2048, 2 * FULL * 256),
    Case("divergence_limited", "divergent", 2 * FULL, 1024, 2 * FULL * 256),
    Case("latency_bound", "dependent_loads", FULL, 32768, FULL * 256),
    Case("under_occupied", "multiply_add", 40, 1024, 40 * 256),
    Case("under_occupied", "dependent_loads", 30, 32768, 30 * 256),
    Case("under_occupied", "many_registers", 2 * 304, 32768, 2 * 304 * 256),
    Case("launch_bound", "nothing", FULL, 64, FULL * 256),
)


@dataclass(frozen=True)
class Outcome:
    """What the classifier said."""

    case: Case
    name: str
    confidence: float
    reason: str


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="print tables for docs/BOTTLENECKS.md")
    options = parser.parse_args()
    outcomes = list(classify_all())
    _print(outcomes, markdown=options.markdown)


def classify_all() -> Iterator[Outcome]:
    """Every case through the whole path of the data."""
    code = compile_source(CompileRequest(source=SOURCE, architecture="gfx942")).code_object
    counters = yaml.safe_load((resource_dir("conf") / "passes" / "default.yaml").read_text())["counters"]
    target = load_target("mi300x")
    device = EmulatorDevice(target=target)
    for case in CASES:
        kernel = find_kernel(code, case.kernel)
        buffers = (
            BufferValue("in", _input(case), False),
            BufferValue("out", np.zeros(case.outputs, np.float32), True),
        )
        launch = Launch(code, kernel.symbol, (case.workgroups, 1, 1), (case.block, 1, 1), 0, buffers)
        with tempfile.TemporaryDirectory() as folder:
            passes = run_passes(device, launch, folder=Path(folder), runs=1, counters=counters)
            profile = build_profile(passes.trace, target=target, resources=kernel, symbol=kernel.symbol)
            found = diagnose(profile, passes.trace, deterministic=True).bottleneck
        yield Outcome(case, found.name, found.confidence, found.reasons[0] if found.reasons else "")


def _input(case: Case) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    if case.kernel in ("dependent_loads", "many_registers"):
        return np.random.default_rng(1).permutation(case.inputs).astype(np.uint32)
    return np.linspace(0.1, 1.0, case.inputs, dtype=np.float32)


def _print(outcomes: list[Outcome], *, markdown: bool) -> None:
    names = sorted({o.case.label for o in outcomes} | {o.name for o in outcomes})
    counts = Counter((o.case.label, o.name) for o in outcomes)
    if markdown:
        print("| kernel | workgroups | built to be | found | confidence | first reason |\n| --- | --- | --- | --- | --- | --- |")
        for o in outcomes:
            print(f"| {o.case.kernel} | {o.case.workgroups} | {o.case.label} | {o.name} | {o.confidence:.0%} | {o.reason} |")
        print(f"\n| built to be \\ found | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
        for row in names:
            print(f"| {row} | {' | '.join(str(counts[row, column] or '') for column in names)} |")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("kernel", "built to be", "found", "confidence", title="bottlenecks")
    for o in outcomes:
        table.add_row(f"{o.case.kernel} x {o.case.workgroups}", o.case.label, o.name, f"{o.confidence:.0%}")
    console = Console()
    console.print(table)
    right = sum(o.case.label == o.name for o in outcomes)
    console.print(f"{right} of {len(outcomes)} as built")


if __name__ == "__main__":
    main()
