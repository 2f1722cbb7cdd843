"""`job=replay_capture`: run a described kernel on the emulator and capture its dispatch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.device.launch import build_launch
from rocm_perf_lab.jobs.profile.workbench import Workbench
from rocm_perf_lab.replay.emulated_capture import capture_described_launch
from rocm_perf_lab.replay.packing import pack_in_place

if TYPE_CHECKING:
    from rocm_perf_lab.config.lab import LabConfig
    from rocm_perf_lab.device.protocol import Device
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.jobs.profile.workbench import CompiledKernel
    from rocm_perf_lab.replay.format import CaptureMode


class CaptureJob:
    """Job that compiles the described kernel, runs it and captures its dispatch.

    Args:
        output: Directory to create, relative to the working directory; None for `capture` in the directory of the run.
        mode: Captured memory: reachable, full or arguments.
        entry: Expected name of the kernel; None accepts any.
        dispatch: Index of the dispatch; a description has one dispatch, 0.
    """

    def __init__(
        self, output: str | None = None, mode: CaptureMode = "reachable", entry: str | None = None, dispatch: int = 0
    ) -> None:
        self._output = Path(output) if output is not None else None
        self._mode: CaptureMode = mode
        self._entry = entry
        self._dispatch = dispatch

    def run(self, lab: Lab) -> None:
        """Run the job.

        Raises:
            LabError: The kernel faults, the dispatch does not exist, or the directory cannot be written.
        """
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
                where=f"the description of {config.kernel.name} dispatches {entry} once",
                hint=f"Use --kernel {entry}, or omit --kernel.",
            )
        if self._dispatch:
            raise LabError(
                f"kernel {entry} was dispatched once; dispatch {self._dispatch} (from 0) does not exist",
                where=f"the description of {config.kernel.name}",
                hint="Omit --dispatch.",
            )


def capture_described(config: LabConfig, device: Device, directory: Path, *, mode: CaptureMode = "reachable") -> CompiledKernel:
    """Compile the described kernel and capture its dispatch on the emulator.

    Raises:
        LabError: The kernel does not compile or faults, or the device is a GPU.
    """
    bench = Workbench(config, device)
    compiled = bench.compile(config.kernel.source_path)
    build = compiled.build
    launch = build_launch(config.kernel, build.code_object, compiled.kernel.symbol, build.contract)
    capture_described_launch(device, launch, directory, kernel=config.kernel, target=config.target, mode=mode)
    pack_in_place(directory)
    return compiled
