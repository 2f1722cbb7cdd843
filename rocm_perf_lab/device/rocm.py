"""A real AMD GPU: a private process launches the code object through HIP, under rocprofv3.

Takes a launch, gives outputs and the rocpd database that rocprofv3 wrote; command line and output layout are those of
ROCm 7 (`rocprofv3 --kernel-trace -f rocpd`), options before the mandatory `--`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.device.choice import missing_for_gpu
from rocm_perf_lab.device.protocol import BufferValue, DeviceIdentity, DeviceRun
from rocm_perf_lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.target.model import Target


class RocmDeviceError(LabError):
    """rocprofv3 or the launched kernel failed, or left no database."""


class RocmDevice:
    """Runs launches on the first visible GPU.

    Args:
        target: The GPU that the configuration names; the code object must fit it.
        timeout_s: Longest time for one profiled run; the whole process group is ended after it.
    """

    deterministic = False

    def __init__(self, *, target: Target, timeout_s: float = 600.0) -> None:
        self._target = target
        self._timeout_s = timeout_s

    @cached_property
    def identity(self) -> DeviceIdentity:
        """Named after the target; rocprofv3's version is asked once."""
        reason = missing_for_gpu() or "/dev/kfd and rocprofv3 are here"
        return DeviceIdentity(name="rocm", emulated=False, reason=reason, versions={"rocprofv3": _profiler_version()})

    def run(self, launch: Launch, *, database: Path, runs: int, counters: Sequence[str]) -> DeviceRun:
        """Dispatch `runs` times under one rocprofv3 run; `counters` must fit into one pass.

        Raises:
            RocmDeviceError: No GPU, a failing or hanging run, or no database with dispatches.
        """
        problem = missing_for_gpu()
        if problem:
            raise RocmDeviceError(
                f"no GPU to run on: {problem}", where="device=rocm", remedy="use device=emulator, or install ROCm"
            )
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as folder:
            work = Path(folder)
            _write_launch(work, launch, runs)
            self._profile(work, counters)
            found = sorted((work / "rocpd").rglob("*_results.db"))
            if not found:
                raise RocmDeviceError("rocprofv3 left no *_results.db", where=str(work), remedy="run it by hand")
            shutil.move(found[-1], database)
            outputs = {a.name: _read_output(work, a) for a in launch.arguments if isinstance(a, BufferValue) and a.written}
        return DeviceRun(outputs=outputs, database=database)

    def _profile(self, work: Path, counters: Sequence[str]) -> None:
        selection = ["--pmc", *counters] if counters else ["--kernel-trace"]
        harness = [sys.executable, "-m", "rocm_perf_lab.device.hip_harness", str(work)]
        command = ["rocprofv3", *selection, "-f", "rocpd", "-d", str(work / "rocpd"), "-o", "run", "--", *harness]
        log = work / "log.txt"
        with log.open("wb") as sink:
            process = subprocess.Popen(command, stdout=sink, stderr=sink, start_new_session=True)
            try:
                code = process.wait(self._timeout_s)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise RocmDeviceError(
                    f"the profiled run took more than {self._timeout_s:g} s",
                    where=" ".join(command),
                    remedy="raise device.timeout_s, or look for an endless loop with device=emulator",
                ) from error
        if code != 0:
            tail = log.read_text(errors="replace")[-2000:]
            raise RocmDeviceError(f"rocprofv3 exited with {code}:\n{tail}", where=" ".join(command))


def _profiler_version() -> str:
    profiler = shutil.which("rocprofv3")
    if profiler is None:
        return "not found"
    answer = subprocess.run([profiler, "--version"], capture_output=True, text=True, timeout=30, check=False)
    lines = answer.stdout.strip().splitlines()
    return lines[0] if lines else "unknown"


def _write_launch(work: Path, launch: Launch, runs: int) -> None:
    kernel = next(k for k in launch.code_object.kernels if k.symbol == launch.symbol)
    slots = [a for a in kernel.arguments if not a.value_kind.startswith("hidden")]
    arguments: list[dict[str, Any]] = []
    for slot, value in zip(slots, launch.arguments, strict=True):
        row: dict[str, Any] = {"offset": slot.offset, "name": value.name}
        if isinstance(value, BufferValue):
            value.data.view(np.uint8).tofile(work / f"{value.name}.in")
            row |= {"bytes": value.data.nbytes, "written": value.written}
        else:
            row |= {"encoded": value.encoded.hex()}
        arguments.append(row)
    (work / "code_object.hsaco").write_bytes(launch.code_object.data)
    spec = {
        "symbol": launch.symbol,
        "grid": launch.grid,
        "block": launch.block,
        "dynamic_lds_bytes": launch.dynamic_lds_bytes,
        "runs": runs,
        "arguments": arguments,
    }
    (work / "launch.json").write_text(json.dumps(spec))


def _read_output(work: Path, argument: BufferValue) -> np.ndarray[Any, np.dtype[Any]]:
    path = work / f"{argument.name}.out"
    if not path.is_file():
        raise RocmDeviceError(f"the run left no output {argument.name!r}", where=str(path))
    return np.fromfile(path, np.uint8).view(argument.data.dtype).reshape(argument.data.shape)
