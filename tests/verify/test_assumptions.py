"""Conditions that rewrites assume: true ones pass, a false one is reported with its line and the trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rocm_perf_lab.languages.arguments import BufferArgument, NormalInit, ScalarArgument
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.verify.assumptions import AssumptionTrials
from rocm_perf_lab.verify.comparison import EXACT, BaselineTrial
from rocm_perf_lab.verify.execution import TrialExecutor
from rocm_perf_lab.verify.trial_runs import DEFAULT_BUDGET, EmulatorRunner
from rocm_perf_lab.verify.trials import Trial
from tests.builders.targets import mi300x

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.verify.trial_runs import TrialRun

HEAD = "#include <hip/hip_runtime.h>\n#define ASSUME(x) __builtin_assume(x)\n"
KERNEL = """extern "C" __global__ void twice(const float* x, float* y, int n) {{
  int i = blockIdx.x * 64 + threadIdx.x;
{body}
  if (i < n) y[i] = x[i] + x[i];
}}
"""
SIZES = (1, 8, 64, 117, 130)
LINE = 5
"""Line of the first statement of a body."""


@dataclass
class CountingRunner(EmulatorRunner):
    """Emulator that counts trials."""

    count: int = 0

    def __init__(self) -> None:
        super().__init__(mi300x())

    def run(self, *args: object, **settings: object) -> TrialRun:
        """Run launches and count them as one trial."""
        self.count += 1
        return super().run(*args, **settings)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Place:
    """A kernel that doubles its input, and trials of it with several sizes."""

    directory: Path

    def check(self, body: str, baseline: str = "", runner: EmulatorRunner | None = None) -> tuple[str | None, tuple[str, ...]]:
        """Return which condition of a body is false, and the notes on the body of the unmodified kernel."""
        for name, text in (("a", baseline), ("b", body)):
            (self.directory / f"{name}.hip").write_text(HEAD + KERNEL.format(body=text))
        description = KernelDescription(
            name="twice",
            source="a.hip",  # type: ignore[arg-type]
            entry="twice",
            params={"n": 64},
            arguments=(
                BufferArgument(name="x", dtype="f32", shape=("n",), init=NormalInit(seed=1)),
                BufferArgument(name="y", dtype="f32", shape=("n",), access="out"),
                ScalarArgument(kind="scalar", name="n", dtype="i32", value="n"),
            ),
            grid=("(n + 63) // 64",),
            block=(64,),
        )
        executor = TrialExecutor(
            description,
            lambda d, source: compile_description(d, source, architecture="gfx942", compiler=find_compiler, promise_checks=True),
        )
        trials = AssumptionTrials(executor, runner or EmulatorRunner(mi300x()), [_trial(size) for size in SIZES])
        notes = trials.record_baseline(self.directory / "a.hip")
        return trials.check(self.directory / "b.hip"), notes


def _trial(size: int) -> BaselineTrial:
    trial = Trial(f"n={size}", {"n": size}, (5,))
    empty = {"y": np.zeros(size, np.float32)}
    masks = {"y": np.zeros(size, np.bool_)}
    return BaselineTrial(trial, empty, empty, masks, masks, frozenset(), DEFAULT_BUDGET, 100, {"y": EXACT})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Sources in a separate directory."""
    return Place(tmp_path)


RIGHT = {
    "none": "",
    "launch": "unsigned t = blockDim.x; __builtin_assume(t == 64); __builtin_assume(threadIdx.x < 64);",
    "size": "ASSUME(n >= 1);",
    "attribute": "[[assume(n < 131)]];",
    "lanes": "if (i < n) { __builtin_assume(i < n); } else { __builtin_assume(i >= n); }",
    "ignored": "__builtin_assume(n++ > 1000);",
    "switch": "switch (n & 3) { case 0: case 1: case 2: case 3: break; default: __builtin_unreachable(); }",
    "unreached": "if (n < 0) __builtin_unreachable();",
}
WRONG = {
    "multiple": ("__builtin_assume(n % 4 == 0);", "the assumption `n % 4 == 0` is false [n=1]"),
    "nested": ("ASSUME((n | 1) != (116 + 1));", "the assumption `(n | 1) != (116 + 1)` is false [n=117]"),
    "attribute": ("[[assume(n < 130)]];", "the assumption `n < 130` is false [n=130]"),
    "two": ("__builtin_assume(n > 0); __builtin_assume(n != 8);", "the assumption is false [n=8]"),
    "conjunction": ("__builtin_assume(n > 0 && n != 64);", "the assumption `n > 0 && n != 64` is false [n=64]"),
    "conjunction in an attribute": (
        "unsigned t = threadIdx.x;\n[[assume(n > 0 && n != 8)]];",
        "the assumption `n > 0 && n != 8` is false [n=8]",
    ),
    "lanes": ("__builtin_assume(i < n);", "the assumption `i < n` is false [n=1]"),
    "last lane": ("if (i == 129) __builtin_assume(n != 130);", "the assumption `n != 130` is false [n=130]"),
    "value": ("__builtin_assume(x[0] > 1e30f);", "the assumption `x[0] > 1e30f` is false [n=1]"),
    "unreachable": ("if (n % 61 == 3) __builtin_unreachable();", "the source declares code unreachable that is reached [n=64]"),
    "switch": (
        "switch (n & 3) { case 0: case 1: break; default: __builtin_unreachable(); }",
        "the source declares code unreachable that is reached [n=130]",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_true_conditions_pass(place: Place, name: str) -> None:
    assert place.check(RIGHT[name]) == (None, ())


@pytest.mark.parametrize("name", WRONG)
def test_a_false_condition_is_reported_with_its_line(place: Place, name: str) -> None:
    body, reason = WRONG[name]
    line = LINE + body.count("\n")

    found, notes = place.check(body)

    assert found == f"b.hip:{line}: {reason}"
    assert notes == ()


def test_only_sources_with_conditions_need_all_trials(place: Place) -> None:
    counts = []
    for body in ("", "ASSUME(n >= 1);"):
        runner = CountingRunner()
        place.check(body, runner=runner)
        counts.append(runner.count)

    assert counts == [2, 1 + len(SIZES)]  # one of the unmodified kernel


def test_trials_in_which_the_unmodified_kernel_assumes_wrongly_do_not_count(place: Place) -> None:
    body = "ASSUME(n % 13 == 0);"

    found, notes = place.check(body + " ASSUME(n != 130);", baseline=body)

    assert found == f"b.hip:{LINE}: the assumption is false [n=130]"
    assert notes == (
        f"assumptions not checked in 3 trials: the unmodified kernel: a.hip:{LINE}: the assumption `n % 13 == 0` is false",
    )
