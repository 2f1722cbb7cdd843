"""`job=replay`: capture the dispatch of a described kernel, replay it and an optimized version on the same memory, and compare.

The tracking run has four child runs: capture, replay of the captured code object, replay with the override, comparison.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.markup import escape

from rocm_perf_lab.core.errors import LabError, NegativeResult
from rocm_perf_lab.core.files import write_bytes, write_text
from rocm_perf_lab.device.emulator import EmulatorDevice
from rocm_perf_lab.jobs.profile.workbench import Workbench
from rocm_perf_lab.jobs.replay.capture import capture_described
from rocm_perf_lab.jobs.show import runtime_text, show_locations, time_text
from rocm_perf_lab.replay.messages import CheckRequest, ReplayRequest
from rocm_perf_lab.replay.reader import open_capture
from rocm_perf_lab.replay.report import ReplayedPair, replay_document
from rocm_perf_lab.replay.session import ReplaySession
from rocm_perf_lab.report.page import write_report
from rocm_perf_lab.target.timing_errors import UNVALIDATED, bounds_word

if TYPE_CHECKING:
    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.report import ReplayDocument
    from rocm_perf_lab.replay.session import DeviceName
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.tracking.run import RunTracker


class ReplayJob:
    """Job that compares the captured code object with another one on the captured memory.

    Args:
        capture: Existing capture; None captures the described kernel on the emulator.
        override: Source that replaces that of the description, relative to the directory of the kernel; or a .hsaco file.
        iterations: Number of replays of each code object.
        rtol: Relative tolerance for floating-point values.
        atol: Absolute tolerance for floating-point values.
        device: Device of the replays.
        timeout_s: Time limit in seconds of one series of replays.

    Raises:
        LabError: A tolerance is negative or not finite.
    """

    def __init__(
        self,
        override: str,
        capture: str | None = None,
        iterations: int = 20,
        rtol: float = 1e-5,
        atol: float = 1e-7,
        device: Literal["emulator", "rocm"] = "emulator",
        timeout_s: float = 600.0,
    ) -> None:
        for name, tolerance in (("rtol", rtol), ("atol", atol)):
            if not 0 <= tolerance < math.inf:
                raise LabError(f"{tolerance} is not a valid tolerance", where=f"job.{name}", hint="Use 0 or a positive number.")
        self._override = Path(override)
        self._capture = Path(capture) if capture is not None else None
        self._iterations = iterations
        self._check = CheckRequest(rtol=rtol, atol=atol, nan="equal")
        self._device: DeviceName = device
        self._timeout_s = timeout_s

    def run(self, lab: Lab) -> float:
        """Run the job and return the median time of the override in ms.

        Raises:
            NegativeResult: The memory after a replay is wrong.
            LabError: The override cannot replace the captured code object, or the capture cannot be replayed.
        """
        lab.announce_device()
        with lab.tracker as tracker:
            capture = self._captured(lab, tracker)
            hsaco = self._compiled(lab)
            with self._session(lab, capture) as session:
                replays = [
                    self._replay(lab, tracker, session, capture, "replay of the captured code object", None),
                    self._replay(lab, tracker, session, capture, "replay with the override", hsaco),
                ]
            before, after = replays
            speedup = before.timing.median / after.timing.median
            path = lab.output_dir / "replay.json"
            kind, tied = after.timing.kind, _are_indistinguishable(before, after)
            pair = ReplayedPair(captured=before, override=after, speedup=speedup, time_kind=kind, indistinguishable=tied)
            write_text(path, pair.model_dump_json(indent=2) + "\n")
            with tracker.child("comparison", tags={"time_kind": kind, "indistinguishable": str(tied).lower()}) as child:
                child.log_metrics({"speedup": speedup})
                child.log_artifact(path)
            tracker.log_artifact(write_report(lab.output_dir, documents=lab.output_dir, title=f"Replay of {before.kernel.name}"))
            tracker.set_tags({"time_kind": kind})
            tracker.log_metrics({"speedup": speedup, "runtime_us": after.timing.median})
            tracker.log_params({"override": str(self._override), "iterations": self._iterations})
            lab.console.print(
                f"[bold]speed-up[/] {speedup:.2f}x ({kind}): {time_text(before.timing.median * 1e3, kind)} to {_time_text(after)}"
            )
            if tied and after.timing.expected is not None:
                band = after.timing.expected
                lab.console.print(
                    f"[yellow]indistinguishable on the emulator[/]: the times differ by less than {band.ratio_factor:.2f}x"
                )
            _require_correct(replays, self._override)
        show_locations(lab)
        lab.answer(path, runtime_text(after.timing.median * 1e3, kind))
        return after.timing.median / 1e3

    def _captured(self, lab: Lab, tracker: RunTracker) -> Capture:
        directory = self._capture if self._capture is not None else lab.output_dir / "capture"
        if self._capture is None:
            with lab.console.status("capturing"):
                capture_described(lab.config, lab.device, directory)
        capture = open_capture(directory)
        with tracker.child("capture", tags={"kernel": capture.dispatch.kernel.name, "capture": str(directory)}) as child:
            child.log_metrics({"captured_bytes": float(capture.total_bytes), "regions": float(len(capture.regions))})
            for name in ("dispatch.json", "memory_regions.json", "manifest.json"):
                if (directory / name).is_file():
                    child.log_artifact(directory / name)
        lab.console.print(f"[bold]capture[/] {escape(str(directory))}: {len(capture.regions)} regions", soft_wrap=True)
        return capture

    def _compiled(self, lab: Lab) -> Path:
        """Compile the override if it is a source; return the path of the code object."""
        path = self._override if self._override.is_absolute() else lab.config.kernel.directory / self._override
        if not path.is_file():
            raise LabError(
                "the override does not exist", where=str(path), hint="Set job.override to a kernel source or a .hsaco file."
            )
        if path.suffix == ".hsaco":
            return path
        with lab.console.status("compiling the override"):
            build = Workbench(lab.config, lab.device).compile(path).build
        target = lab.output_dir / "override.hsaco"
        write_bytes(target, build.code_object.data)
        return target

    def _session(self, lab: Lab, capture: Capture) -> ReplaySession:
        if self._device == "rocm" or not isinstance(lab.device, EmulatorDevice):
            target = lab.config.target if self._device == "emulator" else None
            return ReplaySession(capture, device=self._device, target=target, timeout_s=self._timeout_s)
        return ReplaySession(
            capture,
            device="emulator",
            target=lab.config.target,
            timeout_s=self._timeout_s,
            max_instructions=lab.device.max_instructions,
            threads=lab.device.threads,
            sample=lab.device.sample,
        )

    def _replay(
        self, lab: Lab, tracker: RunTracker, session: ReplaySession, capture: Capture, title: str, hsaco: Path | None
    ) -> ReplayDocument:
        job = ReplayRequest(iterations=self._iterations, hsaco=str(hsaco) if hsaco is not None else None, check=self._check)
        with lab.console.status(title):
            document = replay_document(capture, job, session.run(job), _errors(lab, self._device))
        kind, check = document.timing.kind, document.verification
        path = lab.output_dir / ("replay_override.json" if hsaco is not None else "replay_captured.json")
        write_text(path, document.model_dump_json(indent=2) + "\n")
        verdict = "not checked" if check is None else "correct" if check.passed else "wrong"
        with tracker.child(
            title, tags={"time_kind": kind, "verdict": verdict, "gpu_agent": document.environment.gpu_agent}
        ) as child:
            child.log_metrics(
                {
                    "runtime_us": document.timing.median,
                    "runtime_min_us": document.timing.min,
                    "replay_wall_ms": document.wall_time_ms,
                    "iterations": float(document.execution.iterations),
                    **_expected_metrics(document),
                }
            )
            child.log_artifact(path)
            if hsaco is not None:
                child.log_artifact(hsaco)
        lab.console.print(f"[bold]{title}[/]: {_time_text(document)}, memory {verdict}")
        return document


def _errors(lab: Lab, device: DeviceName) -> TimingErrors:
    """Return the error bands of emulated times: those of the target, or assumed ones for other emulators of HSA devices."""
    return lab.config.target.timing_errors if device == "emulator" else UNVALIDATED


def _time_text(document: ReplayDocument) -> str:
    timing = document.timing
    text = time_text(timing.median * 1e3, timing.kind)
    if timing.expected is None:
        return text
    return f"{text}, {timing.expected.low:.3g} to {timing.expected.high:.3g} us {bounds_word(timing.expected.status)}"


def _expected_metrics(document: ReplayDocument) -> dict[str, float]:
    """Return the bounds of an emulated time."""
    expected = document.timing.expected
    if expected is None:
        return {}
    return {
        "runtime_low_us": expected.low,
        "runtime_high_us": expected.high,
        "ratio_band": expected.ratio_factor,
    }


def _are_indistinguishable(before: ReplayDocument, after: ReplayDocument) -> bool:
    """Return whether two emulated times differ by less than the error band of their ratio; False for measured times."""
    if before.timing.expected is None or after.timing.expected is None:
        return False
    times = before.timing.median, after.timing.median
    return max(times) <= after.timing.expected.ratio_factor * min(times)


def _require_correct(replays: list[ReplayDocument], override: Path) -> None:
    """Check the memory after all replays.

    Raises:
        NegativeResult: The memory differs from that after the captured dispatch.
    """
    wrong = [m for r in replays if r.verification is not None for m in r.verification.mismatches]
    if wrong:
        raise NegativeResult(
            "the memory after a replay differs from the memory after the captured dispatch",
            where="\n".join([str(override), *wrong]),
            hint="Correct the override, or adjust the tolerance: job.rtol, job.atol.",
        )
