"""Emulated machine in a process that outlives its starter: `python -m rocm_perf_lab.replay.background_machine ORDER RESULT`.

The emulated GPU is in the process that starts the application. An application that continues after the command therefore needs a
separate process. The arguments are file descriptors; order and result are JSON documents.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocm_perf_lab.replay.emulated_machine import EmulatedMachine

_ENDING_S = 15.0
"""Seconds until an application ends after SIGTERM or is killed by its guardian."""


@dataclass
class BackgroundRun:
    """Application that runs on an emulated machine in a separate process, which is the leader of a session."""

    process: subprocess.Popen[bytes]
    _result: int

    @classmethod
    def start(
        cls,
        machine: EmulatedMachine,
        command: tuple[str, ...],
        variables: Mapping[str, str],
        shared: Sequence[Path],
        timeout_s: float | None,
        output: IO[bytes] | None,
    ) -> BackgroundRun:
        """Start an application; the arguments are those of :meth:`EmulatedMachine.run`, and the file of its output."""
        order = {
            "target": machine.target.model_dump(mode="json", by_alias=True),
            "root": str(machine.root) if machine.root is not None else None,
            "runtime_variables": dict(machine.runtime_variables),
            "gpus": machine.gpus,
            "command": command,
            "variables": dict(variables),
            "shared": [str(path) for path in shared],
            "timeout_s": timeout_s,
        }
        reading, writing = os.pipe()
        with tempfile.TemporaryFile() as file:
            file.write(json.dumps(order).encode())
            file.flush()
            process = subprocess.Popen(
                [sys.executable, "-m", "rocm_perf_lab.replay.background_machine", str(file.fileno()), str(writing)],
                stdout=output,
                stderr=output,
                pass_fds=(file.fileno(), writing),
                start_new_session=True,
            )
        os.close(writing)
        return cls(process, reading)

    def has_ended(self, wait_s: float) -> bool:
        """Wait for at most `wait_s` seconds; return whether the application has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(wait_s)
        return self.process.returncode is not None

    def exit_code(self) -> int | None:
        """Return the result of :meth:`EmulatedMachine.run` after the end.

        Raises:
            LabError: The application or the emulated driver could not be started.
        """
        with os.fdopen(self._result, "rb") as file:
            text = file.read()
        if not text:
            raise LabError(f"the emulated machine ended with exit code {self.process.returncode}", where="its standard error")
        answer: dict[str, Any] = json.loads(text)
        if "what" in answer:
            raise LabError(answer["what"], where=answer["where"], hint=answer["hint"])
        exit_code: int | None = answer["exit_code"]
        return exit_code

    def end(self) -> None:
        """Stop the application if it still runs, like SIGTERM to `rocm-perf run`."""
        if self.process.poll() is not None:
            return
        self.process.terminate()
        if not self.has_ended(_ENDING_S):
            self.process.kill()  # The guardian stops the application.
            self.process.wait()


def main(order_descriptor: int, result_descriptor: int) -> None:
    """Run the application of an order, and write the result."""
    from rocm_perf_lab.replay.emulated_machine import EmulatedMachine
    from rocm_perf_lab.target.model import Target

    os.set_inheritable(result_descriptor, False)  # The application must not keep it open.
    order = json.loads(os.pread(order_descriptor, os.fstat(order_descriptor).st_size, 0))
    os.close(order_descriptor)
    machine = EmulatedMachine(
        Target.model_validate(order["target"]),
        Path(order["root"]) if order["root"] is not None else None,
        order["runtime_variables"],
        order["gpus"],
    )
    shared = [Path(path) for path in order["shared"]]
    answer: dict[str, Any]
    try:
        answer = {"exit_code": machine.run(tuple(order["command"]), order["variables"], shared, order["timeout_s"])}
    except LabError as error:
        answer = {"what": error.what, "where": error.where, "hint": error.hint}
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # The starter may have ended without reading the result.
    os.write(result_descriptor, json.dumps(answer).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
