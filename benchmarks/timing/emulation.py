"""Emulated times of benchmark kernels: `Emulation(clock_mhz=...).nanoseconds(launch)`.

Kernels are compiled from `benchmarks/kernels/timing` or from a kernel description, and run on the emulator device with its
default settings, as for any user.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.device.protocol import BufferValue, Launch, ScalarValue
from rocm_perf_lab.languages.compilation import compile_description
from rocm_perf_lab.languages.description import KernelDescription
from rocm_perf_lab.rocprof.reader import read_database
from rocm_perf_lab.target.catalog import load_target
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.compilers import find_compiler
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocm_perf_lab.core.geometry import Dim3
    from rocm_perf_lab.toolchain.code_object import CodeObject

KERNELS = Path(__file__).parent.parent / "kernels" / "timing"
TARGET = "mi300x"
DIFFERENCES = {"MI300X": {}, "MI300A": {"compute_units": 228, "xcds": 6, "shader_engines": 24}}
"""Configuration of other GPUs of the architecture, where it differs from TARGET; the memory system is the same."""


class Emulation:
    """Emulated MI300X at one clock.

    Args:
        clock_mhz: Clock of the published measurement; the maximum clock of the target if None.
        gpu: Key of DIFFERENCES.
        quick: Whether measures may use smaller problems, for a first look.
        record: `dispatch`, or `repetition` for times per launch of many in a row.
        cache: `warm` if the same launch ran before, or `cold`; see :class:`EmulatorDevice`.
    """

    def __init__(
        self,
        *,
        clock_mhz: int | None = None,
        gpu: str = "MI300X",
        quick: bool = False,
        cache: str = "warm",
        record: str = "dispatch",
    ) -> None:
        target = load_target(TARGET)
        changes: dict[str, Any] = dict(DIFFERENCES[gpu])
        if clock_mhz is not None:
            changes["max_clock_mhz"] = clock_mhz
        if record == "repetition" and target.timing is not None:
            changes["timing"] = target.timing.model_copy(update={"dispatch_record_ns": 0})
        self.target = target.model_copy(update=changes)
        self.quick = quick
        self._device = EmulatorDevice(target=self.target, cache=cache)

    @property
    def clock_ghz(self) -> float:
        """Return the clock."""
        return self.target.max_clock_mhz / 1000

    def launch(
        self,
        source: str,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        arguments: tuple[BufferValue | ScalarValue, ...],
        *,
        dynamic_lds_bytes: int = 0,
        **defines: float | str,
    ) -> Launch:
        """Return a launch of a kernel in `benchmarks/kernels/timing`; `grid` is in workgroups."""
        code = _compiled(source, tuple(sorted(defines.items())))
        return Launch(code, find_kernel(code, kernel).symbol, grid, block, dynamic_lds_bytes, arguments)

    def described(self, directory: Path, **params: Any) -> Launch:
        """Return the launch of a directory with `kernel.yaml`, with some parameters replaced."""
        row = _yaml(directory / "kernel.yaml")
        description = KernelDescription.model_validate(row | {"directory": directory, "params": row.get("params", {}) | params})
        built = compile_description(
            description,
            description.source_path,
            architecture=self.target.architecture,
            compiler=lambda: find_compiler(("hipcc", "clang", "pip")),
        )
        symbol = find_kernel(built.code_object, description.entry).symbol
        return build_launch(description, built.code_object, symbol, built.contract)

    def nanoseconds(self, launch: Launch) -> float:
        """Return the emulated duration of one dispatch."""
        with tempfile.TemporaryDirectory() as directory:
            run = self._device.run(launch, database=Path(directory) / "run_results.db", runs=1, counters=())
            return float(read_database(run.database).dispatches.duration_ns[0])

    def cycles_per_step(self, launch: Callable[[int], Launch], few: int, many: int) -> float:
        """Return the clocks of one step in the steady state.

        Args:
            launch: Returns the launch for a number of steps.
            few: Steps of a launch whose time is subtracted, so that the start of the kernel does not count.
            many: Steps of the other launch.
        """
        return (self.nanoseconds(launch(many)) - self.nanoseconds(launch(few))) / (many - few) * self.clock_ghz


def scalar(name: str, value: float, dtype: str) -> ScalarValue:
    """Return an argument passed by value; `dtype` is a NumPy name such as `i4` or `f8`."""
    return ScalarValue(name, np.array(value, dtype).tobytes())


def output(name: str, count: int, dtype: str) -> BufferValue:
    """Return a buffer of zeros that the kernel writes."""
    return BufferValue(name, np.zeros(count, dtype), True)


def source_buffer(name: str, data: np.ndarray[Any, Any]) -> BufferValue:
    """Return a buffer that the kernel only reads."""
    return BufferValue(name, data, False)


@lru_cache(maxsize=64)
def _compiled(source: str, defines: tuple[tuple[str, int | float | str], ...]) -> CodeObject:
    request = CompileRequest(source=KERNELS / source, architecture=load_target(TARGET).architecture, defines=dict(defines))
    return compile_source(request).code_object


def _yaml(path: Path) -> dict[str, Any]:
    from rocm_perf_lab.core.resources import load_yaml

    content: dict[str, Any] = load_yaml(path.read_text())
    return content
