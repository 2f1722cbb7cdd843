"""`rocm-perf profile ./app device=emulator`: AMD's runtime on the emulated GPU, and the database of its dispatches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import connect
from typing import TYPE_CHECKING, Any

import pytest

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.jobs.profile.application_profiler import chosen_device
from rocm_perf_lab.rocprof.att.directories import read_kernel_trace
from rocm_perf_lab.rocprof.reader import read_databases
from tests.builders.rocm_programs import RocmPrograms

if TYPE_CHECKING:
    from rocm_perf_lab.rocprof.trace import Trace

ELEMENTS, BLOCK, ROUNDS = 1 << 18, 256, 3


@dataclass(frozen=True)
class Profiled:
    """A finished profile."""

    process: subprocess.CompletedProcess[str]
    directory: Path

    @property
    def trace(self) -> Trace:
        return read_databases(sorted((self.directory / ".rocpd_profile").rglob("*_results.db")))

    def document(self, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.directory / name).read_text())
        return content


def profile(root: Path, directory: Path, *words: str | Path) -> Profiled:
    """Run `rocm-perf profile` with words of the command line."""
    rocm_perf = Path(sys.executable).with_name("rocm-perf")
    command = [rocm_perf, "profile", "device=emulator", f"job.root={root}", "tracking=none", "--output", directory, *words]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    done = subprocess.run(
        list(map(str, command)), cwd=directory.parent, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    return Profiled(done, directory)


@pytest.fixture(scope="module")
def profiled(rocm_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Profiled:
    program = RocmPrograms(rocm_root).compile("profiled")
    directory = tmp_path_factory.mktemp("profile") / "run"
    return profile(rocm_root, directory, "--json", "--deep-analysis", "--kernel", "saxpy", "--", program, str(ROUNDS))


@pytest.mark.slow
def test_every_dispatch_is_in_the_database(profiled: Profiled) -> None:
    trace = profiled.trace
    names = [trace.kernels[kernel].name.partition("(")[0] for kernel in trace.dispatches.kernel.tolist()]
    assert names == ["saxpy", "reduce"] * ROUNDS
    assert trace.dispatches.grid[:, 0].tolist() == [ELEMENTS, 256 * BLOCK] * ROUNDS
    assert (trace.dispatches.start_ns[1:] >= trace.dispatches.end_ns[:-1]).all()
    assert trace.processes[0].command.endswith(f"{ROUNDS}")


@pytest.mark.slow
def test_equal_dispatches_have_equal_times_and_exact_counters(profiled: Profiled) -> None:
    trace = profiled.trace
    assert len(set(trace.dispatches.duration_ns[::2].tolist())) == 1
    waves = trace.counters["SQ_WAVES"].value.tolist()
    assert waves == [ELEMENTS / 64, 256 * BLOCK / 64] * ROUNDS
    assert trace.counters["SQ_INSTS_VMEM_WR"].value[0] == ELEMENTS / 64


@pytest.mark.slow
def test_copies_to_and_from_the_gpu_are_recorded(profiled: Profiled) -> None:
    copies = [copy for copy in profiled.trace.memory_copies if copy.size_bytes == 4 * ELEMENTS]
    assert [copy.direction for copy in copies] == [*["MEMORY_COPY_HOST_TO_DEVICE"] * 2, "MEMORY_COPY_DEVICE_TO_HOST"]


@pytest.mark.slow
def test_documents_say_that_times_are_emulated(profiled: Profiled) -> None:
    assert profiled.process.returncode == 0, profiled.process.stderr
    document = json.loads(profiled.process.stdout)
    assert document == profiled.document("profile.json")
    assert document["provenance"]["time_kind"] == "emulated"
    assert document["kernel"]["name"].startswith("saxpy")
    assert profiled.document("analysis.json")["time_kind"] == "emulated"
    database = next((profiled.directory / ".rocpd_profile").rglob("*_results.db"))
    with closing(connect(database)) as connection:
        (extdata,) = connection.execute("SELECT extdata FROM rocpd_info_agent WHERE type = 'GPU'").fetchone()
    assert json.loads(extdata)["rocm_perf_lab"]["emulated"] is True


@pytest.mark.slow
def test_the_output_of_the_application_is_in_the_log(profiled: Profiled) -> None:
    log = profiled.directory / ".rocpd_profile" / "trace.log"
    assert f"{ROUNDS} rounds in" in log.read_text()


@pytest.mark.slow
def test_a_thread_trace_has_the_instructions_of_the_kernel(profiled: Profiled) -> None:
    trace = read_kernel_trace(profiled.directory / "att", "_Z5saxpyfPKfPfi")
    assert trace.provenance.emulated
    assert any("global_store_dword" in row.text for row in trace.rows)


@pytest.mark.slow
def test_a_failing_application_is_one_error(rocm_root: Path, tmp_path: Path) -> None:
    found = profile(rocm_root, tmp_path / "run", "sh", "-c", "echo before; exit 3")
    assert found.process.returncode == 2
    assert "the application ended with exit code 3:\n  before" in found.process.stderr
    assert "Traceback" not in found.process.stderr


@pytest.mark.slow
def test_an_application_without_dispatches_is_an_error(rocm_root: Path, tmp_path: Path) -> None:
    found = profile(rocm_root, tmp_path / "run", "true")
    assert found.process.returncode == 2
    assert "the application dispatched no kernel on the emulated GPU" in found.process.stderr


@pytest.mark.slow
def test_an_application_that_takes_too_long_is_ended(rocm_root: Path, tmp_path: Path) -> None:
    found = profile(rocm_root, tmp_path / "run", "--timeout", "1", "sleep", "100")
    assert found.process.returncode == 2
    assert "took more than 1 s and was stopped" in found.process.stderr


def test_the_device_is_chosen_by_name() -> None:
    assert chosen_device("rocm") == "rocm"
    assert chosen_device("emulator") == "emulator"
    with pytest.raises(LabError, match="no device 'gpu'"):
        chosen_device("gpu")


@pytest.mark.skipif(Path("/dev/kfd").exists(), reason="this machine has a GPU")
def test_a_directory_with_rocm_chooses_the_emulator_without_a_gpu() -> None:
    assert chosen_device("auto", Path("/somewhere")) == "emulator"
