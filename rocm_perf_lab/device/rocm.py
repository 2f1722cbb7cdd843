"""A real AMD GPU: rocprofv3 profiles a separate process that launches the code object through HIP.

Command line and output layout are those of ROCm 7: `rocprofv3 --kernel-trace -f rocpd ... -- COMMAND`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.choice import missing_for_gpu
from rocm_perf_lab.device.hip_harness import ENERGY_FILE
from rocm_perf_lab.device.protocol import BufferValue, DeviceIdentity, DeviceRun
from rocm_perf_lab.device.rocprofv3 import ProfilerError, Rocprofv3, run_logged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.device.protocol import Launch
    from rocm_perf_lab.target.model import Target


HARNESS = (sys.executable, "-m", "rocm_perf_lab.device.hip_harness")
"""Command that dispatches the launch in a directory, its last argument."""
_ENERGY_S = 0.5
_UJ_PER_MJ = 1e3


class RocmDeviceError(LabError):
    """Failure of rocprofv3 or of the launched kernel, or a missing database."""


class RocmDevice:
    """Device that runs launches on the first visible GPU.

    Args:
        target: The configured GPU; the code object must be compiled for it.
        timeout_s: Longest duration of one profiled run in seconds; then its process group is ended.
        att_target_cu: Compute unit of each shader engine whose wavefronts a thread trace shows instruction by instruction.
        att_shader_engines: Bit mask of the shader engines that a thread trace covers.
    """

    deterministic = False

    def __init__(self, *, target: Target, timeout_s: float = 600.0, att_target_cu: int = 1, att_shader_engines: int = 1) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._att_target_cu = att_target_cu
        self._att_shader_engines = att_shader_engines

    def with_time_limit(self, seconds: float) -> RocmDevice:
        """Return this device with a limit of wall-clock time per profiled run."""
        device = copy(self)
        device._timeout_s = min(self._timeout_s, seconds)
        return device

    @cached_property
    def identity(self) -> DeviceIdentity:
        """Name, reason and the version of rocprofv3, which is queried once."""
        reason = missing_for_gpu() or "/dev/kfd and rocprofv3 exist"
        return DeviceIdentity(name="rocm", emulated=False, reason=reason, versions={"rocprofv3": _version()})

    def run(self, launch: Launch, *, database: Path, runs: int, counters: Sequence[str], att: Path | None = None) -> DeviceRun:
        """Dispatch `runs` times under one rocprofv3 run; see :meth:`Device.run`.

        `counters` must fit into one pass. A thread trace disturbs times and excludes some counters, so it needs a separate run.

        Raises:
            RocmDeviceError: There is no GPU, or the run has no database or no decoded thread trace.
            ProfilerError: rocprofv3 is missing, or the run fails or hangs.
        """
        _require_gpu()
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
            work = Path(directory)
            _write_launch(work, launch, runs)
            self._profile(work, counters, self._att_options(launch) if att is not None else ())
            found = sorted((work / "rocpd").rglob("*_results.db"))
            if not found:
                raise RocmDeviceError(
                    "rocprofv3 wrote no *_results.db", where=str(work), hint="check that rocprofv3 works: see rocm-perf doctor"
                )
            shutil.move(found[-1], database)
            if att is not None:
                _keep_thread_trace(work / "rocpd", att)
            outputs = {a.name: _read_output(work, a) for a in launch.arguments if isinstance(a, BufferValue) and a.written}
        return DeviceRun(outputs=outputs, database=database)

    def energy_mj(self, launch: Launch) -> float:
        """Return the energy of a dispatch in mJ, the mean over half a second of dispatches one after the other.

        It is that of the whole GPU, with what it uses when idle. Inputs are not restored between these dispatches.

        Raises:
            RocmDeviceError: There is no GPU, it has no energy counter, or `amdsmi` is missing.
        """
        _require_gpu()
        with tempfile.TemporaryDirectory(prefix="rocm-perf-lab-") as directory:
            work = Path(directory)
            _write_launch(work, launch, runs=1, energy_s=_ENERGY_S)
            code, tail = run_logged([*HARNESS, str(work)], None, self._timeout_s)
            if code != 0:
                reason = (
                    f"no result after {self._timeout_s:g} s" if code is None else (tail.strip().splitlines() or ["no output"])[-1]
                )
                raise RocmDeviceError(f"energy is not measured: {reason}", where="device=rocm", hint="remove energy_mj")
            found = json.loads((work / ENERGY_FILE).read_text())
        return float(found["microjoules"] / found["dispatches"] / _UJ_PER_MJ)

    def _att_options(self, launch: Launch) -> tuple[str, ...]:
        """Return the options that trace the first dispatch of this kernel only."""
        return (
            "--att",
            "--att-target-cu",
            str(self._att_target_cu),
            "--att-shader-engine-mask",
            f"{self._att_shader_engines:#x}",
            "-M",
            "--kernel-include-regex",
            f"^{re.escape(launch.symbol.removesuffix('.kd'))}$",
        )

    def _profile(self, work: Path, counters: Sequence[str], att_options: Sequence[str] = ()) -> None:
        selection = [*(["--pmc", *counters] if counters else ["--kernel-trace"]), *att_options]
        Rocprofv3.find().run(selection, [*HARNESS, str(work)], work / "rocpd", timeout_s=self._timeout_s)


def _require_gpu() -> None:
    problem = missing_for_gpu()
    if problem:
        raise RocmDeviceError(f"no GPU to run on: {problem}", where="device=rocm", hint="use device=emulator, or install ROCm")


def _keep_thread_trace(output: Path, att: Path) -> None:
    """Move decoded directories and totals to `att`, but not the raw trace, which can be large.

    Raises:
        RocmDeviceError: rocprofv3 decoded no trace.
    """
    found = sorted({*output.rglob("ui_output_agent_*"), *output.rglob("stats_ui_output_agent_*.csv")})
    if not any(path.is_dir() for path in found):
        raise RocmDeviceError(
            "rocprofv3 wrote no decoded thread trace (ui_output_agent_*)",
            where=str(output),
            hint="choose another device.att_target_cu, more device.att_shader_engines, or launch more workgroups",
        )
    att.mkdir(parents=True, exist_ok=True)
    for path in found:
        shutil.move(path, att / path.name)


def _version() -> str:
    try:
        return Rocprofv3.find().version
    except ProfilerError:
        return "not found"


def _write_launch(work: Path, launch: Launch, runs: int, energy_s: float | None = None) -> None:
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
    for variable in launch.variables:
        variable.data.view(np.uint8).tofile(work / f"{variable.name}.variable")
    (work / "code_object.hsaco").write_bytes(launch.code_object.data)
    spec = {
        "symbol": launch.symbol,
        "grid": launch.grid,
        "work_items": launch.geometry.work_items if any(launch.remainder) else None,
        "block": launch.block,
        "dynamic_lds_bytes": launch.dynamic_lds_bytes,
        "runs": runs,
        "energy_s": energy_s,
        "cooperative": launch.cooperative,
        "arguments": arguments,
        "variables": [variable.name for variable in launch.variables],
    }
    (work / "launch.json").write_text(json.dumps(spec))


def _read_output(work: Path, argument: BufferValue) -> np.ndarray[Any, np.dtype[Any]]:
    path = work / f"{argument.name}.out"
    if not path.is_file():
        raise RocmDeviceError(f"the run wrote no output {argument.name!r}", where=str(path))
    return np.fromfile(path, np.uint8).view(argument.data.dtype).reshape(argument.data.shape)
