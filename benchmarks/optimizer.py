"""Speed and false accepts of the optimizer: `python -m benchmarks.optimizer [--proposals 12] [--mutants 200]`.

Proposals are those of all transforms for softmax at 512 x 4096. They are compiled with an empty build cache, inspected, guarded,
verified and measured. The first run creates shared files (compiler root, native runtime) and is not measured.

A mutant is a false accept if it passes all checks although the mutation makes the kernel wrong, unless its machine code equals
that of the original. All accepted mutants are printed with their edit.
"""

from __future__ import annotations

import argparse
import difflib
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

from benchmarks.figures import Figure, Publisher
from benchmarks.mutants import mutants
from rocm_perf_lab.core.components import Component, build
from rocm_perf_lab.core.resources import resource_dir
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.optimize.candidate import CandidateChecker
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.elf_file import parse_elf
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.verify.policy import TrialPolicy

if TYPE_CHECKING:
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.code_object import KernelMetadata

_TRIAL_SEED = 20_261_121
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
"""Mutations without effect because of an algebraic identity, which is not visible from the position of the edit."""


def proposals_per_minute(proposals: int, tracking: str) -> dict[str, float]:
    """Measure the evaluation of proposals in a separate process with an empty build cache.

    Args:
        proposals: Number of proposals that count.
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
    """Return wall-clock and processor seconds of one optimization, without the builds of the previous run."""
    shutil.rmtree(directory / "cache" / "builds", ignore_errors=True)
    overrides = ["job=optimize", "kernel=softmax", "optimizer=transforms", "device=emulator"]
    overrides += [f"tracking={tracking}", f"optimizer.max_proposals={proposals}"]
    environment = {**os.environ, "ROCM_PERF_LAB_CACHE": str(directory / "cache"), "PYTHONPATH": str(Path.cwd())}
    start, spent = time.perf_counter(), _children_cpu_s()
    subprocess.run(
        [sys.executable, "-m", "rocm_perf_lab", *overrides], cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - start, _children_cpu_s() - spent


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def check_mutants(count: int, seed: int) -> dict[str, Any]:
    """Return the number of mutants by stage, the accepted mutants that are equivalent, and the false accepts."""
    stages: Counter[str] = Counter()
    accepted: dict[str, list[str]] = {"same_machine_code": [], "harmless": [], "false_accepts": []}
    share = -(-count // len(_EXPERIMENTS))
    left = count
    with tempfile.TemporaryDirectory(prefix="optimizer-mutants-") as directory:
        for number, name in enumerate(_EXPERIMENTS):
            description = _described(name)
            checker, original = _checker(description), _built(description, description.source_path)
            content = description.source_path.read_bytes()
            drawn = mutants(
                content, description.entry, min(share, left), seed + number, first_word=_first_word(description, original)
            )
            left -= len(drawn)
            for index, mutant in enumerate(drawn):
                source = Path(directory) / name / str(index) / description.source.name
                source.parent.mkdir(parents=True)
                source.write_text(mutant.text)
                stage = checker.check(source).stage
                stages[stage] += 1
                print(f"{name:16} {stage:13} {mutant.effect:13} {mutant.what}", file=sys.stderr, flush=True)
                if stage == "right":
                    same = _machine_code(_built(description, source)) == _machine_code(original)
                    why = _IDENTITIES.get((name, mutant.what), mutant.effect)
                    is_harmless = why != mutant.effect or mutant.effect == "harmless"
                    verdict = "same_machine_code" if same else "harmless" if is_harmless else "false_accepts"
                    accepted[verdict].append(f"{name}, {mutant.what} ({why})\n{_difference(content.decode(), mutant.text)}")
    return {"mutants": count - left, "stages": dict(stages), **accepted}


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(f"    {line}" for line in lines if not line.startswith(("---", "+++")))


def _described(name: str) -> KernelDescription:
    directory = resource_dir("experiments") / name
    data = yaml.safe_load((directory / "kernel.yaml").read_text())
    params = {**data["params"], **_EXPERIMENTS[name]}
    return KernelDescription.model_validate({**data, "directory": directory, "params": params})


def _checker(description: KernelDescription) -> CandidateChecker:
    target = load_target("mi300x")
    rows = yaml.safe_load((resource_dir("conf") / "optimizer" / "guards.yaml").read_text())["guards"]
    guards = [build(Component.model_validate(row), where="optimizer.guards", target=target) for row in rows]
    policy = TrialPolicy(seed=_TRIAL_SEED)
    return CandidateChecker(description, compiler=find_compiler(), target=target, guards=guards, policy=policy)


def _built(description: KernelDescription, source: Path) -> tuple[BuildResult, KernelMetadata]:
    result = compile_description(description, source, architecture="gfx942", compiler=find_compiler)
    return result, find_kernel(result.code_object, description.entry)


def _machine_code(built: tuple[BuildResult, KernelMetadata]) -> bytes:
    result, kernel = built
    return parse_elf(result.code_object.data).read(kernel.entry_address, kernel.code_bytes)


def _first_word(description: KernelDescription, built: tuple[BuildResult, KernelMetadata]) -> int:
    """Return the first four bytes of the first buffer as the description initialises it."""
    result, kernel = built
    launch = build_launch(description, result.code_object, kernel.symbol, result.contract)
    first = next(a for a in launch.arguments if isinstance(a, BufferValue))
    return int.from_bytes(first.data.tobytes()[:4], "little")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and write the figures; exit with 1 after a false accept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimizer", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--proposals", type=int, default=12)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    publisher = Publisher("optimizer", parser, arguments)
    options = publisher.options
    data: dict[str, Any] = {}
    figures: list[Figure] = []
    if options.proposals:
        data |= {f"tracking_{tracking}": proposals_per_minute(options.proposals, tracking) for tracking in ("none", "mlflow")}
        figures += _speed_figures(data["tracking_none"], data["tracking_mlflow"])
    if options.mutants:
        data["mutants"] = check_mutants(options.mutants, options.seed)
        figures += _mutant_figures(data["mutants"])
    publisher.publish_figures("optimizer", figures, data)
    if data.get("mutants", {}).get("false_accepts"):
        sys.exit(1)


def _speed_figures(plain: dict[str, float], tracked: dict[str, float]) -> list[Figure]:
    wall = tracked["seconds_per_proposal"] / plain["seconds_per_proposal"] - 1
    return [
        Figure("proposals", "proposals evaluated per minute, without tracking", f"{plain['per_minute']:.1f}"),
        Figure("proposals_tracked", "proposals evaluated per minute, with MLflow", f"{tracked['per_minute']:.1f}"),
        Figure("processor", "processor time per proposal", f"{plain['cpu_seconds_per_proposal']:.2f} s"),
        Figure("tracking", "wall-clock overhead of tracking", f"{wall:.1%}"),
    ]


def _mutant_figures(found: dict[str, Any]) -> list[Figure]:
    for key in ("same_machine_code", "harmless", "false_accepts"):
        print(f"{key.replace('_', ' '):21} {len(found[key])}", *found[key], sep="\n")
    stages = ", ".join(f"{count} {stage}" for stage, count in sorted(found["stages"].items()))
    return [
        Figure("mutants", "mutants by the stage that decided", f"{found['mutants']}: {stages}"),
        Figure("false_accepts", "accepted mutants that are wrong", f"{len(found['false_accepts'])}", "0"),
    ]


if __name__ == "__main__":
    main()
