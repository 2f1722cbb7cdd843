"""Figures of the optimizer: proposals judged per minute, what tracking costs, and false accepts among mutants.

    python -m benchmarks.optimizer [--proposals 12] [--mutants 200] [--seed 1] [--json FILE]

Proposals are those of `+experiment=softmax_optimize` at 512 x 4096, from an empty cache of builds: compiled, inspected,
guarded, gated, verified and measured. The first run makes what all later ones share (compiler root, native runtime) and is
not counted. A mutant counts as a false accept when the judge calls it right and a second judge with other seeds and other
shapes does not; those that both call right have the same machine code as the original, or compute the same.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from benchmarks.mutants import mutants
from rocm_perf_lab.components import Component, build
from rocm_perf_lab.device.kernel import KernelDescription
from rocm_perf_lab.optimize.judge import Judge
from rocm_perf_lab.optimize.trial_policy import TrialPolicy
from rocm_perf_lab.resources import resource_dir
from rocm_perf_lab.target.model import Target
from rocm_perf_lab.toolchain.compilers import find_compiler

_EXPERIMENTS: dict[str, dict[str, int]] = {
    "softmax": {"rows": 6, "cols": 300},
    "softmax_atomics": {"rows": 6, "cols": 300},
    "layernorm": {"rows": 6, "cols": 300},
    "transpose": {"rows": 96, "cols": 70},
    "gemm_naive": {"m": 12, "n": 70, "k": 36},
    "reduction": {"n": 40_000, "groups": 8},
    "histogram": {"n": 8_000, "groups": 4},
}
_OTHER_SHAPES: dict[str, tuple[dict[str, int], ...]] = {
    "softmax": ({"rows": 4, "cols": 257}, {"rows": 9, "cols": 64}, {"rows": 2, "cols": 777}),
    "softmax_atomics": ({"rows": 4, "cols": 257}, {"rows": 9, "cols": 64}, {"rows": 2, "cols": 777}),
    "layernorm": ({"rows": 4, "cols": 257}, {"rows": 9, "cols": 64}, {"rows": 2, "cols": 777}),
    "transpose": ({"rows": 65, "cols": 31}, {"rows": 32, "cols": 96}, {"rows": 33, "cols": 100}),
    "gemm_naive": ({"m": 77, "n": 65, "k": 21}, {"m": 4, "n": 128, "k": 8}, {"m": 11, "n": 40, "k": 50}),
    "reduction": ({"n": 4_097}, {"n": 70_001}, {"n": 512}),
    "histogram": ({"n": 4_097}, {"n": 9_999}, {"n": 512}),
}
_SECOND_SEED = 987_654_321


def proposals_per_minute(proposals: int, tracking: str) -> dict[str, float]:
    """Judge some proposals in a process of their own, from an empty cache.

    Args:
        proposals: How many are counted.
        tracking: `none` or `mlflow`.
    """
    with tempfile.TemporaryDirectory(prefix="optimizer-benchmark-") as folder:
        (few, few_cpu), (many, many_cpu) = (_run(Path(folder), count, tracking) for count in (1, proposals + 1))
    each = (many - few) / proposals
    return {
        "seconds_per_proposal": each,
        "per_minute": 60 / each,
        "cpu_seconds_per_proposal": (many_cpu - few_cpu) / proposals,
    }


def _run(folder: Path, proposals: int, tracking: str) -> tuple[float, float]:
    """Seconds of one optimization, by the clock and of processors; builds of the run before are thrown away."""
    shutil.rmtree(folder / "cache" / "builds", ignore_errors=True)
    words = ["+experiment=softmax_optimize", "device=emulator", f"tracking={tracking}", f"optimizer.max_proposals={proposals}"]
    environment = {**os.environ, "ROCM_PERF_LAB_CACHE": str(folder / "cache"), "PYTHONPATH": str(Path.cwd())}
    start, spent = time.perf_counter(), _children_cpu_s()
    subprocess.run(
        [sys.executable, "-m", "rocm_perf_lab", *words], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start, _children_cpu_s() - spent


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def judged_mutants(count: int, seed: int) -> dict[str, Any]:
    """Stages by number of mutants, and the false accepts."""
    stages: Counter[str] = Counter()
    false_accepts: list[str] = []
    equivalent: list[str] = []
    share = -(-count // len(_EXPERIMENTS))
    left = count
    with tempfile.TemporaryDirectory(prefix="optimizer-mutants-") as folder:
        for number, name in enumerate(_EXPERIMENTS):
            judge, second = _judge(name), None
            description = _described(name)
            drawn = mutants(description.source_path.read_bytes(), description.entry, min(share, left), seed + number)
            left -= len(drawn)
            for index, mutant in enumerate(drawn):
                source = Path(folder) / name / str(index) / description.source.name
                source.parent.mkdir(parents=True)
                source.write_text(mutant.text)
                stage = judge.judge(source).stage
                stages[stage] += 1
                if stage == "right":
                    second = second or _judge(name, other=True)
                    again = second.judge(source)
                    row = f"{name}, {mutant.what}"
                    (equivalent if again.stage == "right" else false_accepts).append(row)
                print(f"{name:16} {stage:13} {mutant.what}", file=sys.stderr, flush=True)
    return {"mutants": count - left, "stages": dict(stages), "equivalent": equivalent, "false_accepts": false_accepts}


def _described(name: str, *, other: bool = False) -> KernelDescription:
    folder = resource_dir("experiments") / name
    data = yaml.safe_load((folder / "kernel.yaml").read_text())
    params = {**data["params"], **_EXPERIMENTS[name]}
    if other:
        data["trials"] = [params | shape for shape in _OTHER_SHAPES[name]]
    return KernelDescription.model_validate({**data, "folder": folder, "params": params})


def _judge(name: str, *, other: bool = False) -> Judge:
    conf = resource_dir("conf")
    target = Target.model_validate(yaml.safe_load((conf / "target" / "mi300x.yaml").read_text()))
    rows = yaml.safe_load((conf / "optimizer" / "guards.yaml").read_text())["guards"]
    guards = [build(Component.model_validate(row), where="optimizer.guards", target=target) for row in rows]
    policy = TrialPolicy(seed=_SECOND_SEED) if other else TrialPolicy()
    return Judge(_described(name, other=other), compiler=find_compiler(), target=target, guards=guards, policy=policy)


def main() -> None:
    """Print the figures; exit code 1 where a mutant was accepted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proposals", type=int, default=12)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    if options.proposals:
        plain, tracked = (proposals_per_minute(options.proposals, tracking) for tracking in ("none", "mlflow"))
        overhead = tracked["seconds_per_proposal"] / plain["seconds_per_proposal"] - 1
        figures |= {"tracking_none": plain, "tracking_mlflow": tracked, "tracking_overhead": overhead}
        print(f"proposals per minute  {plain['per_minute']:.1f} without tracking, {tracked['per_minute']:.1f} with MLflow")
        cpu = tracked["cpu_seconds_per_proposal"] / plain["cpu_seconds_per_proposal"] - 1
        print(f"processor time        {plain['cpu_seconds_per_proposal']:.2f} s a proposal")
        print(f"tracking overhead     {overhead:.1%} by the clock, {cpu:.1%} of processor time")
    if options.mutants:
        result = judged_mutants(options.mutants, options.seed)
        figures["mutants"] = result
        print(f"mutants               {result['mutants']}: " + ", ".join(f"{n} {s}" for s, n in sorted(result["stages"].items())))
        print(f"equivalent            {len(result['equivalent'])}: {'; '.join(result['equivalent'])}")
        print(f"false accepts         {len(result['false_accepts'])}: {'; '.join(result['false_accepts']) or 'none'}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    if figures.get("mutants", {}).get("false_accepts"):
        sys.exit(1)


if __name__ == "__main__":
    main()
