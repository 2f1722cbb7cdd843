"""Small documents of commands, as their `--json` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocm_perf_lab.analysis.comparison_document import ComparedKernel, CompareDocument, ComparedRun
from rocm_perf_lab.jobs.run.document import FoundDefect, RunDocument
from rocm_perf_lab.jobs.verify.document import VerifyDocument, VerifyEvidence
from rocm_perf_lab.replay.report import (
    EnvironmentSection,
    ExecutionSection,
    ExpectedTime,
    KernelSection,
    ReplayDocument,
    TimingSection,
)

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "</script><img src=x onerror=alert(1)>"


def run_document() -> RunDocument:
    """Return the document of an application with one defect, whose message contains HTML."""
    defect = FoundDefect(
        check="bounds",
        kind="out_of_bounds",
        message=f"load past the end of {HOSTILE}",
        count=3,
        kernel="stencil(float const*)",
        source="/src/main.hip:9",
        instruction="s_load_dword s4, s[0:1], 0x0",
        call_site="/src/main.hip:16",
    )
    return RunDocument(
        command=("./app", "--n", "4"),
        target="mi300x",
        architecture="gfx942",
        gpus=1,
        runtime="lab",
        root=None,
        exit_code=0,
        findings=(defect,),
        used_gpu=True,
        dispatches=1,
        instructions=1648,
        kernel_time_ns=2989,
        wall_time_s=1.2,
    )


def replay_document(median: float = 10.0) -> ReplayDocument:
    """Return the document of three emulated replays whose memory was not checked."""
    samples = (median, median - 1, median + 1)
    expected = ExpectedTime(coverage=0.8, low=3.0, high=30.0, ratio_factor=1.25, status="estimated")
    return ReplayDocument(
        kernel=KernelSection(name="softmax_kernel"),
        execution=ExecutionSection(iterations=3, mode="stateless"),
        timing=TimingSection(
            kind="emulated", average=median, median=median, min=median - 1, max=median + 1, stddev=1.0, samples=samples,
            expected=expected,
        ),
        environment=EnvironmentSection(gpu_agent="gfx942 (emulator)", rocm_version="none", pid=1),
        capture="captured",
        hsaco_path="captured/kernel.hsaco",
        wall_time_ms=12.0,
        restored_bytes=4096,
        verification=None,
        notes=(),
    )  # fmt: skip


def compare_document() -> CompareDocument:
    """Return the document of two measured runs with a kernel that is 20% slower and one that is gone."""
    side = {"time_kind": "measured", "timed": "kernels", "gpu": "AMD Instinct MI300X", "versions": {}}
    common = {"p_value": None, "basis": "ranks", "match": "symbol", "base_name": None, "note": None}
    slower = ComparedKernel.model_validate(
        {"name": "gemm", "mangled_name": "gemm", "verdict": "slower", "reason": "20% slower", "base_ms": 1.0, "new_ms": 1.2,
         "base_runs": 5, "new_runs": 5, "change": 0.2, "interval": (0.15, 0.25),
         "significant": True, "regression": True, **common}
    )  # fmt: skip
    gone = ComparedKernel.model_validate(
        {"name": "copy", "mangled_name": "copy", "verdict": "gone", "reason": "only before", "base_ms": 1.0, "new_ms": None,
         "base_runs": 5, "new_runs": None, "change": None, "interval": None,
         "significant": None, "regression": False, **common}
    )  # fmt: skip
    return CompareDocument(
        base=ComparedRun.model_validate({"path": "before", **side}),
        new=ComparedRun.model_validate({"path": "after", **side}),
        differences=(),
        remarks=("the clock was not locked",),
        fail_over=0.05,
        verdicts={"slower": 1, "gone": 1, "same": 0},
        kernels=(slower, gone),
        regressions=("gemm",),
    )


def verify_document() -> VerifyDocument:
    """Return the document of a wrong candidate."""
    return VerifyDocument(
        verdict="wrong",
        stage="verification",
        reason="output differs at [3]",
        evidence=VerifyEvidence(output="y", element=(3,), actual=1.0, expected=2.0),
        candidate="new.hip",
        sha256="0" * 64,
        kernel="vector_add",
        source="vector_add.hip",
        target="mi300x",
        architecture="gfx942",
        trials=5,
        tried=("n=4",),
        isolation="limits on time",
    )


def write_command_documents(directory: Path) -> dict[str, Path]:
    """Write the documents of all commands; return their files by command."""
    texts = {
        "run": run_document().model_dump_json(indent=2),
        "replay": replay_document().model_dump_json(indent=2),
        "compare": compare_document().model_dump_json(indent=2),
        "verify": "\n".join([verify_document().line(), verify_document().line()]),
    }
    for name, text in texts.items():
        (directory / f"{name}-output.json").write_text(text + "\n")
    return {name: directory / f"{name}-output.json" for name in texts}
