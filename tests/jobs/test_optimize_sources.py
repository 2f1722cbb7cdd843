"""Sources that optimization rejects or must not alter, and answers that attack the compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.cli.entry import run_lab
from rocm_perf_lab.jobs.optimize.application_source import ApplicationSource
from rocm_perf_lab.optimize.proposers.model import ModelAnswer, TokenUsage
from rocm_perf_lab.optimize.proposers.transcript import RecordedCall

if TYPE_CHECKING:
    from collections.abc import Sequence

KERNEL = """name: scale
language: hip
source: scale.hip
entry: {entry}
params: {{n: 1024}}
arguments:
  - {{name: x, kind: buffer, dtype: f32, shape: [n], access: in, init: {{kind: normal, seed: 1}}}}
  - {{name: y, kind: buffer, dtype: f32, shape: [n], access: out}}
  - {{name: n, kind: scalar, dtype: i32, value: n}}
grid: [1]
block: [64]
reference:
  y: x * 2
"""
BODY = "(const float* x, float* y, int n) {\n  for (int i = threadIdx.x; i < n; i += 64) y[i] = 2.0f * x[i];\n}\n"
HEAD = "#include <hip/hip_runtime.h>\n"
GOOD = f'{HEAD}extern "C" __global__ void scale{BODY}'
FASTER = GOOD.replace("for (", '_Pragma("unroll 8") for (')


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def place(workplace: Path, source: bytes, entry: str = "scale", answers: Sequence[str] = ()) -> None:
    directory = workplace / "experiments" / "scale"
    directory.mkdir(parents=True)
    (directory / "kernel.yaml").write_text(KERNEL.format(entry=entry))
    (directory / "scale.hip").write_bytes(source)
    calls = [
        RecordedCall(call=number, answer=ModelAnswer(text=text, usage=TokenUsage(read=0, written=0)))
        for number, text in enumerate(answers, start=1)
    ]
    (directory / "transcript.jsonl").write_text("".join(call.model_dump_json() + "\n" for call in calls))


def optimize(*words: str) -> tuple[int, Any]:
    run = ["job=optimize", "kernel=scale", "tracking=none", "display=runtime", "hydra.run.dir=run", "optimizer.max_iterations=1"]
    code = run_lab([*run, *words])
    path = Path("run/optimize.json")
    return code, json.loads(path.read_text()) if path.exists() else None


RECORDED = (
    "optimizer=llm",
    "optimizer.proposer=recorded",
    "optimizer.llm.transcript=transcript.jsonl",
    "optimizer.llm.repairs=0",
)


@pytest.mark.parametrize(
    ("source", "entry", "message"),
    [
        (f"{HEAD}int main() {{ return 0; }}\n", "scale", "kernel"),
        (f"{GOOD}namespace other {{ __global__ void scale{BODY}}}\n", "scale", "scale"),
        (f"{HEAD}__global__ void scale{BODY}__global__ void scale(float* y) {{ y[0] = 0; }}\n", "scale", "scale"),
        (f"{HEAD}template <int N> __global__ void scale{BODY}", "scale", "the code object has no kernels"),
    ],
    ids=["no kernel", "two of a name", "overloaded", "template without instances"],
)
def test_a_source_without_exactly_one_matching_kernel_is_rejected(
    workplace: Path, capsys: pytest.CaptureFixture[str], source: str, entry: str, message: str
) -> None:
    place(workplace, source.encode(), entry)

    code, summary = optimize()

    printed = capsys.readouterr()
    assert (code, summary, printed.out) == (2, None, "")
    assert message in printed.err
    assert "Traceback" not in printed.err


@pytest.mark.slow
def test_an_instantiated_template_is_found_by_its_symbol(workplace: Path) -> None:
    source = f"{HEAD}template <int N> __global__ void scale{BODY}template __global__ void scale<4>(const float*, float*, int);\n"
    place(workplace, source.encode(), "_Z5scaleILi4EEvPKfPfi")

    code, summary = optimize()

    assert code == 0
    assert summary["verdicts"]


@pytest.mark.slow
def test_reasons_are_printed_if_there_is_no_proposal(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = GOOD.replace("i += 64) y[i]", "i += 64) __syncthreads(), y[i]")
    place(workplace, waiting.encode())

    code = run_lab(["job=optimize", "kernel=scale", "tracking=none", "hydra.run.dir=run"])

    printed = " ".join(capsys.readouterr().out.split())
    assert code == 0
    assert "no proposal by unroll: line 3:" in printed
    assert "optimizer=transforms" in printed


@pytest.mark.slow
def test_a_loop_in_a_macro_is_not_unrolled(workplace: Path) -> None:
    source = GOOD.replace("for (int i = threadIdx.x; i < n; i += 64)", "EACH(i)")
    macro = f"#define EACH(i) for (int i = threadIdx.x; i < n; i += 64)\n{source}"
    place(workplace, macro.encode())

    code, summary = optimize()

    assert code == 0
    assert [v for v in summary["verdicts"] if v["transform"] == "unroll"] == []


@pytest.mark.slow
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_characters_of_the_source_are_preserved(workplace: Path, mark: str) -> None:
    source = mark + GOOD.replace("2.0f", "/* zwei · 二 */ 2.0f").replace("\n", "\r\n")
    answer = FASTER.replace("2.0f", "/* zwei · 二 */ 2.0f")
    place(workplace, source.encode(), answers=[f"Unrolled.\n```cpp\n{answer}```\n"])

    code, summary = optimize(*RECORDED)

    (verdict,) = summary["verdicts"]
    stored = (Path("run/proposals") / verdict["proposal"] / "scale.hip").read_bytes()
    assert code == 0
    assert stored == (mark + answer.replace("\n", "\r\n")).encode()
    assert verdict["stage"] in ("measurement", "duplicate", "guard")


def test_a_source_that_is_not_utf_8_is_rejected(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place(workplace, GOOD.encode() + b"// caf\xe9\n")

    assert optimize()[0] == 2
    assert "not UTF-8" in capsys.readouterr().err


ENDLESS = (
    "template <long N, long M> struct B { static constexpr long v = B<N - 1, 2 * M>::v + B<N - 1, 2 * M + 1>::v; };\n"
    "template <long M> struct B<0, M> { static constexpr long v = M; };\n"
)


@pytest.mark.slow
def test_an_answer_that_hangs_the_compiler_is_rejected(workplace: Path) -> None:
    """The limit is shorter than the baseline needs: it applies to answers only."""
    attack = GOOD.replace('extern "C"', f'{ENDLESS}extern "C"').replace("2.0f *", "(2.0f + 0 * B<40, 1>::v) *")
    place(workplace, GOOD.encode(), answers=[f"```cpp\n{attack}```\n"])

    code, summary = optimize(*RECORDED, "optimizer.isolation.compile_timeout_s=0.3")

    (verdict,) = summary["verdicts"]
    assert (code, verdict["stage"]) == (0, "compile")
    assert verdict["reason"].startswith("the compiler was stopped: it ")


@pytest.mark.slow
def test_an_endless_kernel_is_rejected(workplace: Path) -> None:
    attack = GOOD.replace("i < n; i += 64", "i < n; i += n > 4096 ? 64 : 0")
    place(workplace, GOOD.encode(), answers=[f"```cpp\n{attack}```\n"])

    code, summary = optimize(*RECORDED)

    (verdict,) = summary["verdicts"]
    assert code == 0
    assert verdict["stage"] in ("gate", "verification")
    assert verdict["runtime_ms"] is None


def test_a_triton_kernel_is_rejected(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_lab(["job=optimize", "kernel=softmax_triton", "tracking=none"]) == 2
    assert "only HIP sources can be rewritten" in capsys.readouterr().err


def test_macros_and_include_directories_of_the_build_command_are_device_flags(tmp_path: Path) -> None:
    build = "hipcc -O3 -DN=4 -I inc -std=c++20 --offload-arch=gfx942 {source} -o {binary} -lm"

    application = ApplicationSource(tmp_path / "k.hip", build, ("./app", "--size", "4"))

    assert application.device_flags() == ("-O3", "-DN=4", "-I", "inc", "-std=c++20")
    assert application.run_arguments(tmp_path / "new") == [str(tmp_path / "new"), "--size", "4"]
    assert ApplicationSource(tmp_path, build, ("python", "run.py", "{binary}")).run_arguments(tmp_path / "b") == [
        "python", "run.py", str(tmp_path / "b")
    ]  # fmt: skip
