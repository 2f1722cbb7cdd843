"""Figures of the optimizer: proposals judged per minute, what tracking costs, and false accepts among mutants.

    python -m benchmarks.optimizer [--proposals 12] [--mutants 200] [--seed 1] [--json FILE]

Proposals are those of all transforms for softmax at 512 x 4096, from an empty cache of builds: compiled, inspected,
guarded, gated, verified and measured. The first run makes what all later ones share (compiler root, native runtime) and is
not counted. A mutant counts as a false accept when the judge calls it right although the mutation is one that makes a kernel
wrong, whatever trials say; unless its machine code is that of the original. All that are called right are printed with what
was changed.
"""

from __future__ import annotations

import argparse
import difflib
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
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.mutants import mutants
from rocm_perf_lab.core.components import Component, build
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.optimize.judge import Judge
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.code_object import KernelMetadata

_EXPERIMENTS: dict[str, dict[str, int]] = {
    "softmax": {"rows": 6, "cols": 300},
    "softmax_atomics": {"rows": 6, "cols": 300},
    "layernorm": {"rows": 6, "cols": 300},
    "transpose": {"rows": 96, "cols": 70},
    "gemm_naive": {"m": 12, "n": 70, "k": 36},
    "reduction": {"n": 40_000, "groups": 8},
    "histogram": {"n": 8_000, "groups": 4},
}

_IDENTITIES = {
    ("layernorm", "line 36: + for -"): "the sum of (x + m)(x - m) is that of (x - m)(x - m), since m is the mean of x",
}
"""Mutations that an identity makes harmless, which nobody can see from the place of the edit alone."""


def proposals_per_minute(proposals: int, tracking: str) -> dict[str, float]:
    """Judge some proposals in a process of their own, from an empty cache.

    Args:
        proposals: How many are counted.
        tracking: `none` or `mlflow`.
    """
    with tempfile.TemporaryDirectory(prefix="optimizer-benchmark-") as directory:
        (few, few_cpu), (many, many_cpu) = (_run(Path(directory), count, tracking) for count in (1, proposals + 1))
    each = (many - few) / proposals
    return {
        "seconds_per_proposal": each,
        "per_minute": 60 / each,
        "cpu_seconds_per_proposal": (many_cpu - few_cpu) / proposals,
    }


def _run(directory: Path, proposals: int, tracking: str) -> tuple[float, float]:
    """Seconds of one optimization, by the clock and of processors; builds of the run before are thrown away."""
    shutil.rmtree(directory / "cache" / "builds", ignore_errors=True)
    words = ["job=optimize", "kernel=softmax", "optimizer=transforms", "device=emulator"]
    words += [f"tracking={tracking}", f"optimizer.max_proposals={proposals}"]
    environment = {**os.environ, "ROCM_PERF_LAB_CACHE": str(directory / "cache"), "PYTHONPATH": str(Path.cwd())}
    start, spent = time.perf_counter(), _children_cpu_s()
    subprocess.run(
        [sys.executable, "-m", "rocm_perf_lab", *words], cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start, _children_cpu_s() - spent


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def judged_mutants(count: int, seed: int) -> dict[str, Any]:
    """Stages by number of mutants, those called right that may be, and the false accepts."""
    stages: Counter[str] = Counter()
    told: dict[str, list[str]] = {"same_machine_code": [], "harmless": [], "false_accepts": []}
    share = -(-count // len(_EXPERIMENTS))
    left = count
    with tempfile.TemporaryDirectory(prefix="optimizer-mutants-") as directory:
        for number, name in enumerate(_EXPERIMENTS):
            description = _described(name)
            judge, original = _judge(description), _built(description, description.source_path)
            content = description.source_path.read_bytes()
            drawn = mutants(
                content, description.entry, min(share, left), seed + number, first_word=_first_word(description, original)
            )
            left -= len(drawn)
            for index, mutant in enumerate(drawn):
                source = Path(directory) / name / str(index) / description.source.name
                source.parent.mkdir(parents=True)
                source.write_text(mutant.text)
                stage = judge.judge(source).stage
                stages[stage] += 1
                print(f"{name:16} {stage:13} {mutant.effect:13} {mutant.what}", file=sys.stderr, flush=True)
                if stage == "right":
                    same = _machine_code(_built(description, source)) == _machine_code(original)
                    why = _IDENTITIES.get((name, mutant.what), mutant.effect)
                    is_harmless = why != mutant.effect or mutant.effect == "harmless"
                    verdict = "same_machine_code" if same else "harmless" if is_harmless else "false_accepts"
                    told[verdict].append(f"{name}, {mutant.what} ({why})\n{_difference(content.decode(), mutant.text)}")
    return {"mutants": count - left, "stages": dict(stages), **told}


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(f"    {line}" for line in lines if not line.startswith(("---", "+++")))


def _described(name: str) -> KernelDescription:
    directory = resource_dir("experiments") / name
    data = yaml.safe_load((directory / "kernel.yaml").read_text())
    params = {**data["params"], **_EXPERIMENTS[name]}
    return KernelDescription.model_validate({**data, "directory": directory, "params": params})


def _judge(description: KernelDescription) -> Judge:
    target = load_target("mi300x")
    rows = yaml.safe_load((resource_dir("conf") / "optimizer" / "guards.yaml").read_text())["guards"]
    guards = [build(Component.model_validate(row), where="optimizer.guards", target=target) for row in rows]
    return Judge(description, compiler=find_compiler(), target=target, guards=guards)


def _built(description: KernelDescription, source: Path) -> tuple[BuildResult, KernelMetadata]:
    result = compile_description(description, source, architecture="gfx942", compiler=find_compiler)
    return result, find_kernel(result.code_object, description.entry)


def _machine_code(built: tuple[BuildResult, KernelMetadata]) -> bytes:
    result, kernel = built
    return parse_elf(result.code_object.data).read(kernel.entry_address, kernel.code_bytes)


def _first_word(description: KernelDescription, built: tuple[BuildResult, KernelMetadata]) -> int:
    """The first four bytes of the first buffer, as the description fills it."""
    result, kernel = built
    launch = build_launch(description, result.code_object, kernel.symbol, result.contract)
    first = next(a for a in launch.arguments if isinstance(a, BufferValue))
    return int.from_bytes(first.data.tobytes()[:4], "little")


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
        for key in ("same_machine_code", "harmless", "false_accepts"):
            print(f"{key.replace('_', ' '):21} {len(result[key])}", *result[key], sep="\n")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    if figures.get("mutants", {}).get("false_accepts"):
        sys.exit(1)


if __name__ == "__main__":
    main()
