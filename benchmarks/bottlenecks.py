"""Bottleneck classification of kernels whose bottleneck is known by construction: `python -m benchmarks.bottlenecks`.

The kernels of `benchmarks/bottleneck_cases.py` run on the emulator and pass through the same database, profile and rules as any
other kernel.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from benchmarks.bottleneck_cases import SUITES
from benchmarks.figures import Publisher
from rocm_perf_lab.analysis.diagnosis import diagnose
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.protocol import BufferValue, Launch
from rocm_perf_lab.profiling.passes import run_passes
from rocm_perf_lab.profiling.profile import build_profile
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.bottleneck_cases import Case

_ROLES = {
    "labelled": "labelled: used to write the rules",
    "held_out": "held out: labelled before they ran, used to correct the rules",
    "unseen": "held out last: labelled after the first rules, later used to correct them",
}
KERNELS = Path(__file__).with_name("kernels")


@dataclass(frozen=True)
class Outcome:
    """Classification of one case."""

    case: Case
    name: str
    confidence: float
    reason: str
    others: tuple[str, ...]


def main(arguments: list[str] | None = None) -> None:
    """Classify, print and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bottlenecks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", choices=SUITES, help="run only this suite")
    parser.add_argument("--markdown", action="store_true", help="print tables with reasons instead, as in docs/BOTTLENECKS.md")
    publisher = Publisher("bottlenecks", parser, arguments)
    chosen = {name: cases for name, cases in SUITES.items() if publisher.options.suite in (None, name)}
    outcomes = {name: list(classify_all(cases)) for name, cases in chosen.items()}
    if publisher.options.markdown:
        for name, found in outcomes.items():
            print(f"### {name}: {_correct(found)} of {len(found)} correct\n")
            _print_markdown(found)
        return
    rows = {name: (_ROLES[name], f"{_correct(found)} of {len(found)}") for name, found in outcomes.items()}
    data = {name: [_row(outcome) for outcome in found] for name, found in outcomes.items()}
    publisher.publish("bottleneck classification", ("suite", "correct"), rows, data)


def _correct(outcomes: Sequence[Outcome]) -> int:
    return sum(outcome.case.label == outcome.name for outcome in outcomes)


def _row(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "kernel": case.kernel,
        "workgroups": case.workgroups,
        "expected": case.label,
        "found": outcome.name,
        "confidence": round(outcome.confidence, 3),
    }


def classify_all(cases: Sequence[Case]) -> Iterator[Outcome]:
    """Compile, run, profile and classify every case."""
    counters = yaml.safe_load((resource_dir("conf") / "passes" / "default.yaml").read_text())["counters"]
    target = load_target("mi300x")
    device = EmulatorDevice(target=target)
    sources = {case.suite: KERNELS / f"{case.suite}.hip" for case in cases}
    codes = {
        name: compile_source(CompileRequest(source=file, architecture="gfx942")).code_object for name, file in sources.items()
    }
    for case in cases:
        code = codes[case.suite]
        kernel = find_kernel(code, case.kernel)
        inputs = (BufferValue(f"in{number}", data, False) for number, data in enumerate(case.inputs()))
        output = BufferValue("out", np.zeros(case.outputs, case.kind), True)
        launch = Launch(code, kernel.symbol, (case.workgroups, 1, 1), (case.block, 1, 1), case.dynamic_lds, (*inputs, output))
        with tempfile.TemporaryDirectory() as directory:
            passes = run_passes(device, launch, directory=Path(directory), runs=1, counters=counters)
            profile = build_profile(passes.trace, target=target, resources=kernel, symbol=kernel.symbol)
            diagnosis = diagnose(profile, passes.trace, deterministic=True)
        found = diagnosis.bottleneck
        yield Outcome(case, found.name, found.confidence, found.reasons[0] if found.reasons else "", found.others)


def _print_markdown(outcomes: list[Outcome]) -> None:
    print("| kernel, workgroups | expected | because | found | confidence | first reason |")
    print("| --- | --- | --- | --- | --- | --- |")
    for o in outcomes:
        case, found = o.case, o.name if o.name == o.case.label else f"**{o.name}**"
        print(f"| {case.kernel}, {case.workgroups} | {case.label} | {case.why} | {found} | {o.confidence:.0%} | {o.reason} |")
    names = sorted({o.case.label for o in outcomes} | {o.name for o in outcomes})
    counts = Counter((o.case.label, o.name) for o in outcomes)
    print(f"\n| expected \\ found | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
    for row in names:
        print(f"| {row} | {' | '.join(str(counts[row, column] or '') for column in names)} |")
    for o in outcomes:
        if o.name != o.case.label:
            print(f"\n- {o.case.kernel}: {o.case.miss or 'not explained'}.")
    print()


if __name__ == "__main__":
    main()
