"""`rocm-perf optimize ./app --source ... --build ...`: an application under a simulated rocprofv3."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.core.resources import resource_dir
from tests.builders.workplace import APPLICATION, REPOSITORY

if TYPE_CHECKING:
    from click.testing import Result

    from tests.builders.workplace import Workplace

SOURCE = resource_dir("experiments") / "softmax" / "softmax.hip"
BUILDER = REPOSITORY / "tests" / "builders" / "buildable_application.py"
BUILD = f"{shlex.quote(sys.executable)} {shlex.quote(str(BUILDER))} {{source}} {{binary}}"
NARROW = "+target.timing.error.ratio=[{coverage:0.95,factor:1.001}]"
"""Error band of a timing model that hardly errs, so that small differences are accepted."""
TRANSCRIPT = resource_dir("experiments") / "softmax" / "transcript.jsonl"


def optimize(workplace: Workplace, *arguments: str, build: str = BUILD) -> Result:
    given = [NARROW, "optimizer=llm", f"optimizer.llm.transcript={TRANSCRIPT}", "passes.counters=[]", "./app", "--rows", "8"]
    given += ["--source", "my kernel.hip", "--build", build, "--proposer", "recorded", "--output", "run"]
    return workplace.rocm_perf("optimize", *given, *arguments)


@pytest.fixture
def placed(workplace: Workplace) -> Workplace:
    (workplace.directory / "my kernel.hip").write_text(SOURCE.read_text())
    return workplace


def summary() -> Any:
    return json.loads(Path("run/optimize.json").read_text())


@pytest.mark.slow
def test_the_application_is_built_profiled_rewritten_and_compared(placed: Workplace) -> None:
    answer = optimize(placed, "--compare-file", "result.bin")

    assert answer.exit_code == 0, answer.output
    verdicts = [("accepted" if v["accepted"] else v["stage"], v["reason"]) for v in summary()["verdicts"]]
    # An application has its own inputs, so there are no other shapes, and the second answer stays within its buffers.
    assert [stage for stage, _ in verdicts] == ["compile", "verification", "verification", "measurement", "accepted"], verdicts
    assert "standard output" in verdicts[1][1]
    assert summary()["time_kind"] == "emulated"
    assert summary()["speedup"] > 1.3
    assert summary()["rebuild"]["identical"]
    assert (placed.directory / "my kernel.hip").read_text() == SOURCE.read_text()


TWO_KERNELS = """
from tests.builders.rocprof_stand_in import DISPATCHES
if DISPATCHES in os.environ:
    launch("vector_add", source={source!r}, n=1 << 21)
    launch("vector_add", source={source!r}, n=1 << 21)
    launch("softmax", source={source!r}, rows=4)
else:
    print("result 1.5")
"""


@pytest.mark.slow
def test_the_kernel_with_the_largest_possible_gain_is_rewritten(workplace: Workplace) -> None:
    experiments = resource_dir("experiments")
    texts = [(experiments / name / f"{name}.hip").read_text() for name in ("vector_add", "softmax")]
    (workplace.directory / "two.hip").write_text("\n".join(text.replace("#pragma once", "") for text in texts))
    builder = workplace.directory / "build.py"
    frame = {"python": sys.executable, "repository": str(REPOSITORY)}
    builder.write_text(
        "import sys\nfrom pathlib import Path\n"
        f"body = {TWO_KERNELS!r}.format(source=sys.argv[1])\n"
        f"Path(sys.argv[2]).write_text({APPLICATION!r}.format(body=body, **{frame!r}))\nPath(sys.argv[2]).chmod(0o755)\n"
    )
    build = f"{shlex.quote(sys.executable)} {shlex.quote(str(builder))} {{source}} {{binary}}"

    answer = workplace.rocm_perf(
        "optimize", "optimizer=quick", "optimizer.max_proposals=1", "tracking=none", "./app",
        "--source", "two.hip", "--build", build, "--output", "run",
    )  # fmt: skip

    assert answer.exit_code == 0, answer.output
    ranks = [line for line in answer.output.splitlines() if line.startswith("rank ")]
    shares = [int(found[1]) for line in ranks if (found := re.search(r"(\d+)% of the critical path", line))]
    assert ranks[0].startswith("rank 1  softmax_kernel: ")
    assert ranks[1].startswith("rank 2  vector_add(")
    assert shares[1] > shares[0]
    # the rewrite is of softmax: no transform applies to vector_add
    assert [v["improvement"] is not None for v in summary()["verdicts"]] == [True]


@pytest.mark.parametrize(
    ("arguments", "build", "message"),
    [
        ((), "make", "the build command has no {source} and no {binary}"),
        ((), "false {source} {binary}", "the build command failed"),
        ((), "true {source} {binary}", "no executable file was written"),
        ((), "no-such-compiler {source} {binary}", "the build command cannot be started: No such file"),
        (("--kernel", "other"), BUILD, "no kernel matches 'other'"),
    ],
)
def test_failed_builds_and_unknown_kernels_are_reported(
    placed: Workplace, arguments: tuple[str, ...], build: str, message: str
) -> None:
    answer = optimize(placed, *arguments, build=build)

    assert answer.exit_code == 2
    assert message in " ".join(answer.output.split())
    assert not Path("run/optimize.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("./app",), "no source file with a __global__ function"),
        (("kernel=softmax", "--build", "x"), "--build applies to applications only"),
        (("--resume", "run", "--max-iterations", "3"), "cannot be combined with max_iterations"),
        (("--resume", "nowhere"), "there is no run to resume"),
        (("kernel=softmax", "--json", "--quiet"), "exclude each other"),
    ],
)
def test_conflicting_arguments_are_reported(workplace: Workplace, arguments: tuple[str, ...], message: str) -> None:
    answer = workplace.rocm_perf("optimize", *arguments)

    assert answer.exit_code == 2
    assert message in " ".join(answer.output.split())


@pytest.mark.parametrize("name", ["app.cu", "other.cpp"])
def test_the_default_source_has_the_name_of_the_application_or_is_the_only_one(workplace: Workplace, name: str) -> None:
    (workplace.directory / "host.cpp").write_text("int main() {}")
    (workplace.directory / name).write_text(SOURCE.read_text())
    hipcc = workplace.directory / "bin" / "hipcc"
    build = BUILD.format(source='"$2"', binary='"$4"')
    hipcc.write_text(f'#!/bin/sh\n[ "$1 $3" = "-O3 -o" ] && exec {build}\n')
    hipcc.chmod(0o755)

    answer = workplace.rocm_perf("optimize", "passes.counters=[]", "./app", "--rows", "8", "--output", "run", "--kernel", "none")

    assert f"/{name}\nbuild   hipcc -O3 {{source}} -o {{binary}}\n        (default; set --source and --build" in answer.output
    assert "no kernel matches 'none'" in answer.output  # it was built and profiled


def test_several_files_with_kernels_are_listed(workplace: Workplace) -> None:
    for name in ("a.hip", "b.hip"):
        (workplace.directory / name).write_text(SOURCE.read_text())

    answer = workplace.rocm_perf("optimize", "./app")

    assert answer.exit_code == 2
    assert "several source files have kernels: a.hip, b.hip" in " ".join(answer.output.split())
