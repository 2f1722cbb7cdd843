"""Directory for sweeps: a cheap job that records its place of execution, and a space for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
JOB = '''
import json, os, signal, time
from rocm_perf_lab.core.errors import LabError

class Stand:
    """A job whose time is |block - 256| + 1 ms; some blocks kill their worker, are refused, or raise.

    With `lucky`, times are measured ones, and the trial of that block is faster than all runs of the race.
    """

    def __init__(self, *, kill=-1, refuse=-1, fail=-1, hang=-1, pause=0.0, meet=1, lucky=-1, kill_race=False):
        self.kill, self.refuse, self.fail, self.hang, self.pause, self.meet = kill, refuse, fail, hang, pause, meet
        self.lucky, self.kill_race = lucky, kill_race

    def run(self, lab):
        params = lab.config.kernel.params
        block = params["block"]
        device = lab.config.device.arguments
        told = {"block": block, "n": params["n"], "pid": os.getpid(), "gpu": os.environ.get("HIP_VISIBLE_DEVICES"),
                "threads": device.get("threads"), "display": lab.config.display,
                "slurm": os.environ.get("SLURM_JOB_ID")}
        (lab.output_dir / "told.json").write_text(json.dumps(told))
        sweeps, waited = lab.output_dir.parents[1], time.monotonic()
        while len({told.parents[1] for told in sweeps.glob("*/*/told.json")}) < self.meet and time.monotonic() - waited < 100:
            time.sleep(0.05)  # until that many sweeps have begun
        with lab.tracker as tracker:
            tracker.log_params({"block": block})
            time.sleep(self.pause)
            if block == self.hang:
                time.sleep(600)
            if block == self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if block == self.refuse:
                raise LabError("the kernel computes something else", where="block 96", hint="correct it")
            if block == self.fail:
                raise ZeroDivisionError("by hand")
        return self.measured(lab, block) if self.lucky > 0 else abs(block - 256) + 1.0

    def measured(self, lab, block):
        is_race = "race" in lab.output_dir.parts
        if is_race and self.kill_race:
            os.kill(os.getpid(), signal.SIGKILL)
        time_ms = 1.05 if block != self.lucky else 1.08 if is_race else 1.04
        times = [time_ms * (1 + 0.001 * (run % 3)) for run in range(6)]
        profile = {"provenance": {"device": "stand", "time_kind": "measured", "note": "by hand", "emulated": False},
                   "stability": {"runs": 6, "cv": 0.001, "durations_ms": times}}
        (lab.output_dir / "profile.json").write_text(json.dumps(profile))
        return times[1]
'''
BLOCKS = [64, 96, 128, 256, 512, 1024]


def _restore_interrupt() -> None:
    """Undo an ignored SIGINT, which a background process of a shell inherits."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class SweepPlace:
    """`directory` has the job's module and `space.yaml`; sweeps run there."""

    def __init__(self, directory: Path, blocks: list[int] | None = None) -> None:
        self.directory = directory
        (directory / "stand_job.py").write_text(JOB)
        self.space = directory / "space.yaml"
        self.space.write_text(yaml.safe_dump({"parameters": {"block": blocks or BLOCKS}}))
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]),
            "RAY_DISABLE_IMPORT_WARNING": "1",
        }

    def words(self, *more: str) -> list[str]:
        """Return the command line of a sweep over the space."""
        tracking = [] if any(word.startswith("tracking") for word in more) else ["tracking=none"]
        return [
            "job._target_=stand_job.Stand", "kernel=vector_add", "device=emulator", f"autotune.space={self.space}",
            "hydra.sweep.dir=swept", *tracking, *more, "--multirun",
        ]  # fmt: skip

    def begin(self, *more: str) -> subprocess.Popen[str]:
        """Start a sweep in a separate process group."""
        return subprocess.Popen(
            [sys.executable, "-m", "rocm_perf_lab", *self.words(*more)],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=_restore_interrupt,  # noqa: PLW1509 - no threads here
        )

    def sweep(self, *more: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a sweep to its end."""
        process = self.begin(*more)
        try:
            out, err = process.communicate(timeout=timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def result(self, sweep: str = "swept") -> dict[str, Any]:
        """Return autotune.json of a sweep."""
        content: dict[str, Any] = json.loads((self.directory / sweep / "autotune.json").read_text())
        return content

    def told(self, sweep: str = "swept") -> list[dict[str, Any]]:
        """Return the record of each job, in the order of trials."""
        files = sorted((self.directory / sweep).glob("*/told.json"), key=lambda path: int(path.parent.name))
        return [json.loads(path.read_text()) for path in files]
