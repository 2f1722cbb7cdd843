"""`rocm-perf run --profile`: an application from sources keeps its output and exit code, and gets the profile of a GPU run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from rocm_perf_lab.cli import main
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.rocprof.att.directories import find_directories
from rocm_perf_lab.rocprof.att.reader import read_directory
from rocm_perf_lab.rocprof.reader import read_databases
from rocm_perf_lab.runtime.selection import DispatchSelection

SOURCE = """
#include <cstdio>
#include <hip/hip_runtime.h>
__global__ void fill(float *p) { p[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
__global__ void twice(float *p) { p[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }
int main() {
  float *p = nullptr, last = 0;
  if (hipMalloc(&p, 64 * 256 * sizeof *p) != hipSuccess) return 1;
  fill<<<64, 256>>>(p);
  for (int round = 0; round < 6; round++) twice<<<64, 256>>>(p);
  if (hipMemcpy(&last, p, sizeof last, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  printf("last %g\\n", last);
  return 7;
}
"""
WAVES = 64 * 256 / 64


def _profiled(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    rocm_perf = Path(sys.executable).with_name("rocm-perf")
    command = [str(rocm_perf), "run", "--runtime", "lab", "--profile", "--output", str(directory), *options, "main.hip"]
    return subprocess.run(command, cwd=directory.parent, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_a_program_keeps_its_output_and_has_exact_counters_of_selected_dispatches(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text(SOURCE)
    everything, some, by_name = tmp_path / "everything", tmp_path / "some", tmp_path / "by_name"

    done = _profiled(everything)
    assert (done.returncode, done.stdout) == (7, "last 64\n")
    assert "launch overhead" in done.stderr
    assert "7 dispatches of 2 kernels" in done.stderr
    assert "the time between dispatches is not emulated" in done.stderr
    assert "idle" not in done.stderr
    trace = read_databases(sorted((everything / ".rocpd_profile").rglob("*_results.db")))
    assert [trace.kernels[k].name.partition("(")[0] for k in trace.dispatches.kernel.tolist()] == ["fill", *["twice"] * 6]
    assert trace.counters["SQ_WAVES"].value.tolist() == [WAVES] * 7
    assert trace.counters["SQ_INSTS_VMEM_RD"].value.tolist() == [0, *[WAVES] * 6]
    assert json.loads((everything / "profile.json").read_text())["provenance"]["time_kind"] == "emulated"

    done = _profiled(some, "--dispatches", "1:6", "--every", "2")
    assert done.returncode == 7
    trace = read_databases(sorted((some / ".rocpd_profile").rglob("*_results.db")))
    assert len(trace.dispatches.kernel) == 7
    assert trace.counters["SQ_WAVES"].dispatch.tolist() == [1, 3, 5]
    assert "4 of 7 dispatches have no counters" in (some / "profile.json").read_text()

    done = _profiled(by_name, "--kernel", "^fill", "--json")
    assert (done.returncode, json.loads(done.stdout)["kernel"]["mangled_name"]) == (7, "_Z4fillPf")
    assert "last 64\n" in done.stderr
    trace = read_databases(sorted((by_name / ".rocpd_profile").rglob("*_results.db")))
    assert trace.counters["SQ_WAVES"].dispatch.tolist() == [0]


@pytest.mark.slow
def test_a_device_trace_has_the_first_selected_dispatch_of_each_kernel_under_its_number(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text(SOURCE)

    done = _profiled(tmp_path / "all", "--device-trace")
    assert (done.returncode, done.stdout) == (7, "last 64\n")
    traces = [read_directory(path) for path in find_directories(tmp_path / "all" / "att")]
    assert [(trace.provenance.dispatch, trace.kernels[0].mangled_name) for trace in traces] == [
        (1, "_Z4fillPf"),
        (2, "_Z5twicePf"),
    ]
    assert all(trace.provenance.emulated and trace.waves for trace in traces)
    assert any("main.hip:5" in row.source for row in traces[1].rows)

    done = _profiled(tmp_path / "one", "--device-trace", "--kernel", "twice", "--dispatches", "4:6")
    assert done.returncode == 7
    assert [path.name for path in find_directories(tmp_path / "one" / "att")] == ["ui_output_agent_1_dispatch_5"]


def test_a_range_may_have_one_end() -> None:
    assert DispatchSelection.parse(None, "5:", 1).settings()["record_first"] == 5
    assert DispatchSelection.parse(None, ":5", 3).settings() == {"record_first": 0, "record_end": 5, "record_every": 3}


def test_kernels_are_selected_by_mangled_and_demangled_names() -> None:
    assert DispatchSelection.parse(r"fill\(float", None, 1).has_kernel("_Z4fillPf")
    assert DispatchSelection.parse("^_Z4fill", None, 1).has_kernel("_Z4fillPf")
    assert not DispatchSelection.parse("twice", None, 1).has_kernel("_Z4fillPf")


@pytest.mark.parametrize(("kernel", "dispatches"), [("(", None), (None, "5:5"), (None, "7:5"), (None, "-1:5"), (None, "some")])
def test_an_invalid_selection_is_an_error(kernel: str | None, dispatches: str | None) -> None:
    with pytest.raises(LabError, match="invalid regular expression" if kernel else "no range of dispatches"):
        DispatchSelection.parse(kernel, dispatches, 1)


def test_options_of_a_profile_need_it() -> None:
    found = CliRunner().invoke(main, ["run", "--kernel", "fill", "--", "true"])

    assert found.exit_code == 2
    assert "add --profile" in found.output
