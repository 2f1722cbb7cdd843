"""Decoded thread traces without source lines, next to the code objects of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.jobs.analyze.request import AnalyzeRequest
from rocm_perf_lab.jobs.analyze.results import analyze_recording
from rocm_perf_lab.rocprof.att.directories import read_kernel_trace
from rocm_perf_lab.rocprof.att.model import KernelLabel
from rocm_perf_lab.rocprof.att.writer import write_trace
from rocm_perf_lab.toolchain.disassembly import disassemble
from tests.builders.att import thread_trace
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.att.model import AttTrace
    from rocm_perf_lab.toolchain.code_object import CodeObject

SOURCE = r"""#include <hip/hip_runtime.h>
extern "C" __global__ void total(const float* x, float* y, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++)
    sum += x[i * 64 + threadIdx.x];
  y[threadIdx.x] = sum;
}
"""
SAVED = "lab_7_gfx942_code_object_id_1.out"


@pytest.fixture(scope="module")
def code_object(tmp_path_factory: pytest.TempPathFactory) -> CodeObject:
    return build_hip(SOURCE, tmp_path_factory.mktemp("code")).code_object


def traced(code_object: CodeObject, *, source: str = "", moved: int = 0) -> AttTrace:
    """Return a trace of one wavefront that waits 400 cycles at every wait for vector memory, and 4 at other instructions."""
    lines = disassemble(code_object, "total")
    executed = [(number, 0, 396, 400) if "vmcnt(0)" in line.text else (number, 0, 0, 4) for number, line in enumerate(lines, 1)]
    trace = thread_trace([(line.text, source if not number else "") for number, line in enumerate(lines)], executed)
    rows = tuple(replace(row, address=line.address + moved) for row, line in zip(trace.rows, lines, strict=True))
    label = KernelLabel(0, "total", "total", 1, code_object.kernels[0].entry_address + moved)
    return replace(trace, rows=rows, kernels=(label,))


def loads(trace: AttTrace) -> set[str]:
    return {row.source for row in trace.rows if row.text.startswith("global_load")}


@pytest.mark.parametrize("moved", [0, 0x7F00_0000_1000])
@pytest.mark.parametrize("name", [SAVED, "lab_7_gfx942_code_object_id_3.out"])
def test_rows_get_the_lines_of_the_code_object_beside_them(
    tmp_path: Path, code_object: CodeObject, moved: int, name: str
) -> None:
    decoded = write_trace(traced(code_object, moved=moved), tmp_path)
    assert loads(read_kernel_trace(decoded, "total")) == {""}

    (tmp_path / name).write_bytes(code_object.data)
    trace = read_kernel_trace(decoded, "total")

    assert loads(trace) == {"kernel.hip:5"}
    assert trace.notes[-1] == f"the decoded trace has no source lines: those of {name} are used"


def test_the_loss_names_the_line_of_the_load(tmp_path: Path, code_object: CodeObject) -> None:
    write_trace(traced(code_object), tmp_path / "run")
    (tmp_path / "run" / "kernel.hsaco").write_bytes(code_object.data)

    found = analyze_recording(AnalyzeRequest.of([tmp_path / "run"], output=tmp_path / "out"), tmp_path / "out")

    assert found.ledger is not None and found.thread_trace is not None
    assert found.ledger.losses[0].location == "kernel.hip:5"
    assert found.thread_trace.lines[0].source == "kernel.hip:5"


def test_lines_of_the_decoder_are_kept(tmp_path: Path, code_object: CodeObject) -> None:
    (tmp_path / SAVED).write_bytes(code_object.data)

    trace = read_kernel_trace(write_trace(traced(code_object, source="other.hip:1"), tmp_path), "total")

    assert {row.source for row in trace.rows} == {"", "other.hip:1"}


def test_a_code_object_of_another_build_is_not_used(tmp_path: Path, code_object: CodeObject) -> None:
    decoded = write_trace(traced(code_object), tmp_path)
    other = build_hip(SOURCE.replace("sum += x", "sum *= sum - x"), tmp_path, optimisation="-O1").code_object
    (tmp_path / SAVED).write_bytes(other.data)

    trace = read_kernel_trace(decoded, "total")

    assert loads(trace) == {""}
    assert trace.notes[-1] == f"{SAVED} is of another build of the traced kernel: its source lines are not used"

    (tmp_path / "lab_8_gfx942_code_object_id_1.out").write_bytes(code_object.data)
    assert loads(read_kernel_trace(decoded, "total")) == {"kernel.hip:5"}


def test_a_damaged_code_object_is_a_note(tmp_path: Path, code_object: CodeObject) -> None:
    decoded = write_trace(traced(code_object), tmp_path)
    (tmp_path / SAVED).write_bytes(code_object.data[: len(code_object.data) // 2] + b"total.debug_line")

    trace = read_kernel_trace(decoded, "total")

    assert loads(trace) == {""}
    assert [note.partition(":")[0] for note in trace.notes] == [f"{SAVED} was ignored"]
