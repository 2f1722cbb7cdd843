"""Thread traces of the rocm device, with a stand-in for rocprofv3."""

from __future__ import annotations

import stat
import sys
from typing import TYPE_CHECKING

import pytest

from rocm_perf_lab.device import rocm
from rocm_perf_lab.device.protocol import Launch
from rocm_perf_lab.device.rocm import RocmDevice, RocmDeviceError
from rocm_perf_lab.device.rocprofv3 import ProfilerError
from rocm_perf_lab.rocprof.att.directories import find_directories
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.code_object import CodeObject
from tests.builders.profiles import vec_copy_trace

if TYPE_CHECKING:
    from pathlib import Path

TARGET = load_target("mi300x")
STAND_IN = """#!{python}
import json, pathlib, shutil, sys
arguments = sys.argv[1:]
pathlib.Path({log!r}).write_text(json.dumps(arguments))
if {message!r}:
    print({message!r}, file=sys.stderr)
    sys.exit(1)
out = pathlib.Path(arguments[arguments.index("-d") + 1])
out.mkdir()
shutil.copy({database!r}, out / "run_results.db")
if {decoded!r}:
    (out / "ui_output_agent_9_dispatch_1").mkdir()
    (out / "ui_output_agent_9_dispatch_1" / "code.json").write_text("{{}}")
    (out / "stats_ui_output_agent_9_dispatch_1.csv").touch()
    (out / "1_9_shader_engine_0_1.att").touch()
"""


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Launch:
    monkeypatch.setattr(rocm, "missing_for_gpu", lambda: None)
    monkeypatch.setattr(rocm, "_write_launch", lambda *_: None)
    return Launch(CodeObject(b"", "gfx942", "", ()), "a.b$k.kd", (1, 1, 1), (64, 1, 1), 0, ())


def stand_in(directory: Path, monkeypatch: pytest.MonkeyPatch, *, message: str = "", decoded: bool = True) -> Path:
    """Put the stand-in on PATH; return the file with its arguments."""
    log = directory / "arguments.json"
    database = str(vec_copy_trace(directory).path)
    program = directory / "bin" / "rocprofv3"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable, log=str(log), message=message, decoded=decoded, database=database))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return log


def run(launch: Launch, directory: Path) -> None:
    RocmDevice(target=TARGET).run(launch, database=directory / "x.db", runs=1, counters=(), att=directory / "att")


def test_the_kernel_is_traced_by_its_mangled_name_and_the_directory_kept(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = stand_in(tmp_path, monkeypatch)

    run(launch, tmp_path)

    arguments = log.read_text()
    assert '"--att", "--att-target-cu", "1", "--att-shader-engine-mask", "0x1", "-M"' in arguments
    assert '"--kernel-include-regex", "^a\\\\.b\\\\$k$"' in arguments
    assert [directory.name for directory in find_directories(tmp_path / "att")] == ["ui_output_agent_9_dispatch_1"]
    assert sorted(path.name for path in (tmp_path / "att").iterdir()) == [
        "stats_ui_output_agent_9_dispatch_1.csv",
        "ui_output_agent_9_dispatch_1",
    ]


@pytest.mark.parametrize(
    "message",
    [
        "Fatal error: rocprof-trace-decoder library path not found in ['lib']",
        "Error loading decoder",
        "Decoder library not found!",
    ],
)
def test_a_missing_decoder_is_an_error_with_a_hint(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    stand_in(tmp_path, monkeypatch, message=message)

    with pytest.raises(ProfilerError, match="rocprof-trace-decoder is missing") as caught:
        run(launch, tmp_path)
    assert "ROCPROF_ATT_LIBRARY_PATH" in str(caught.value.hint)


def test_a_run_without_a_decoded_trace_is_an_error(launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, decoded=False)

    with pytest.raises(RocmDeviceError, match="no decoded thread trace"):
        run(launch, tmp_path)
