"""`job=replay_capture`: run a described kernel on the emulator once, and keep that dispatch as a capture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.markup import escape

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.jobs.profile.workbench import Workbench
from rocm_perf_lab.languages.description import BufferArgument
from rocm_perf_lab.replay.device import ReplayDevice
from rocm_perf_lab.replay.emulated_capture import capture_launch
from rocm_perf_lab.replay.kernarg import explicit_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.device.protocol import Device, Launch
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.jobs.profile.workbench import CompiledKernel

Mode = Literal["reachable", "full", "arguments"]


class CaptureJob:
    """Compiles the kernel, runs it, captures its dispatch.

    Args:
        output: The directory to make; relative to the working directory. None makes `capture` in the run's directory.
        mode: Which memory is kept.
        entry: Name of the kernel, where the caller expects one.
        dispatch: Which of its dispatches; a description has one, number 0.
    """

    def __init__(self, output: str | None = None, mode: Mode = "reachable", entry: str | None = None, dispatch: int = 0) -> None:
        self._output = Path(output) if output is not None else None
        self._mode: Mode = mode
        self._entry = entry
        self._dispatch = dispatch

    def run(self, lab: Lab) -> None:
        """Raises LabError where the kernel faults, or the directory cannot be written."""
        self._require_the_dispatch(lab.config)
        lab.announce_device()
        directory = self._output if self._output is not None else lab.output_dir / "capture"
        with lab.tracker as tracker:
            capture_described(lab.config, lab.device, directory, mode=self._mode)
            tracker.set_tags({"capture": str(directory), "device": lab.device.identity.name})
            for name in ("dispatch.json", "memory_regions.json", "manifest.json"):
                tracker.log_artifact(directory / name, "capture")
        lab.console.print(f"[bold]capture[/] {escape(str(directory))}", soft_wrap=True)

    def _require_the_dispatch(self, config: LabConfig) -> None:
        entry = config.kernel.entry
        if self._entry is not None and self._entry not in (entry, config.kernel.name):
            raise LabError(
                f"kernel {self._entry!r} was never dispatched",
                where=f"the description of {config.kernel.name} dispatches {entry}, once",
                hint=f"Name {entry}, or leave --kernel out.",
            )
        if self._dispatch:
            raise LabError(
                f"kernel {entry} was dispatched once, number {self._dispatch} (from 0) does not exist",
                where=f"the description of {config.kernel.name}",
                hint="Leave --dispatch out.",
            )


def capture_described(config: LabConfig, device: Device, directory: Path, *, mode: Mode = "reachable") -> CompiledKernel:
    """Compile the described kernel and capture its dispatch on the emulator.

    Raises:
        LabError: The device is a GPU: there an application is captured.
    """
    bench = Workbench(config, device)
    compiled = bench.compile(config.kernel.source_path)
    build = compiled.build
    launch = build_launch(config.kernel, build.code_object, compiled.kernel.symbol, build.contract)
    capture_on_emulator(config, device, launch, directory, mode=mode)
    return compiled


def capture_on_emulator(config: LabConfig, device: Device, launch: Launch, directory: Path, *, mode: Mode = "reachable") -> None:
    """Run a launch on the emulator and capture it.

    Raises:
        LabError: The device is a GPU.
    """
    if not isinstance(device, EmulatorDevice):
        raise LabError(
            f"a described kernel is captured on the emulator, the device is {device.identity.name}",
            where=f"kernel {config.kernel.name}",
            hint="Add device=emulator, or capture an application: rocm-perf replay capture --kernel NAME -- ./app",
        )
    with device.machine() as machine:
        capture_launch(
            machine, launch, directory, target=config.target, mode=mode, argument_types=_argument_types(config, launch)
        )


def replaying(config: LabConfig, device: Device, directory: Path) -> Device:
    """Replays in place of runs: the first launch is captured, every launch runs on its memory.

    Raises:
        LabError: The device is a GPU: there an application is captured first, and device=replay takes the capture.
    """
    if isinstance(device, ReplayDevice):
        return device
    if not isinstance(device, EmulatorDevice):
        raise LabError(
            f"measure=replay captures described kernels on the emulator, the device is {device.identity.name}",
            where="device.measure or optimizer.measure",
            hint="rocm-perf replay capture --kernel NAME -- ./app, then device=replay device.capture=DIR",
        )

    def source(launch: Launch) -> Path:
        capture_on_emulator(config, device, launch, directory, mode="reachable")
        return directory

    return ReplayDevice(
        target=config.target,
        device="emulator",
        source=source,
        max_instructions=device.max_instructions,
        threads=device.threads,
    )


def _argument_types(config: LabConfig, launch: Launch) -> Mapping[str, str]:
    """The description knows what pointers point to; compilers mostly do not say."""
    kernel = next(k for k in launch.code_object.kernels if k.symbol == launch.symbol)
    dtypes = {argument.name: argument.dtype for argument in config.kernel.arguments if isinstance(argument, BufferArgument)}
    pairs = zip(explicit_arguments(kernel), launch.arguments, strict=False)
    return {f"@{place.offset}": dtypes[value.name] for place, value in pairs if value.name in dtypes}
