"""PC samples with the code of the code objects that rocprofv3 saved next to them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.analysis.ledger import Cause
from rocm_perf_lab.analysis.sample_account import sample_account
from rocm_perf_lab.rocprof.discovery import discover
from rocm_perf_lab.rocprof.pc_samples import StallReason
from rocm_perf_lab.rocprof.pc_samples_code import saved_code_objects, with_code
from rocm_perf_lab.rocprof.pc_samples_loading import sampled_files
from rocm_perf_lab.rocprof.pc_samples_reader import read_pc_samples
from rocm_perf_lab.toolchain.listing import list_kernel
from tests.builders.kernels import build_hip

if TYPE_CHECKING:
    from pathlib import Path

    from rocm_perf_lab.rocprof.pc_samples import PcSampling

SOURCE = r"""#include <hip/hip_runtime.h>
extern "C" __global__ void total(const float* x, float* y, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++)
    sum += x[i * 64 + threadIdx.x];
  y[threadIdx.x] = sum;
}
"""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """JSON with two samples of every instruction of `total`: an issue, and at waits and memory operations a stall."""
    code_object = build_hip(SOURCE, tmp_path).code_object
    directory = tmp_path / "recorded"
    directory.mkdir()
    (directory / "out_gfx942_code_object_id_4.out").write_bytes(code_object.data)
    records: list[dict[str, Any]] = []
    for line in list_kernel(code_object, code_object.kernels[0], with_source=False).instructions:
        if line.text.startswith(("s_waitcnt", "global_")):
            reason = (
                f"ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_{'WAITCNT' if 's_wait' in line.text else 'OTHER_WAIT'}"
            )
            for issued in (0, 1):
                counter = {"code_object_id": 4, "code_object_offset": line.address}
                record = {"pc": counter, "exec_mask": 1, "dispatch_id": 1, "wave_issued": issued, "wave_cnt": 4}
                records.append({"record": {**record, "snapshot": {"stall_reason": reason}}, "inst_index": -1})
    document = {"rocprofiler-sdk-tool": [{"buffer_records": {"pc_sample_stochastic": records}, "strings": {}}]}
    (directory / "out_results.json").write_text(json.dumps(document))
    return directory


def _loaded(directory: Path) -> tuple[PcSampling, tuple[str, ...]]:
    files = discover([directory])
    (path,) = sampled_files(files)
    (sampling,) = read_pc_samples(path)
    code_objects, notes = saved_code_objects(files.code_objects)
    return with_code(sampling, code_objects), notes


def test_instructions_get_text_line_and_kernel_from_the_code_object(recording: Path) -> None:
    sampling, notes = _loaded(recording)

    (kernel,) = sampling.kernels
    assert (kernel.name, notes, sampling.notes) == ("total", (), ())
    loads = [one for one in kernel.instructions if one.text.startswith("global_load")]
    assert loads
    assert all((one.samples, one.issued, one.reasons) == (2, 1, {StallReason.OTHER_WAIT: 1}) for one in loads)
    assert any(one.source.endswith("kernel.hip:5") for one in loads)
    assert any(one.samples == 0 and one.mnemonic == "s_endpgm" for one in kernel.instructions)


def test_waits_in_loops_are_charged_to_the_line_of_the_load(recording: Path) -> None:
    sampling, _ = _loaded(recording)

    account = sample_account(sampling, "total")

    memory = [part for part in account.losses if part.cause is Cause.MEMORY_LATENCY]
    assert {part.location for part in memory} == {"kernel.hip:5"}


def test_unreadable_code_objects_are_noted(recording: Path) -> None:
    path = recording / "out_gfx942_code_object_id_4.out"
    path.write_bytes(path.read_bytes()[:100])

    found, notes = saved_code_objects([path])
    sampling, told = _loaded(recording)

    assert found == {}
    assert "ignored" in notes[0]
    assert sampling.kernels[0].name == ""
    assert len(told) <= 1
