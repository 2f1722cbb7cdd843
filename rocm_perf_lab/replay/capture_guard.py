"""Guard process that waits for the end of a capture's launcher: `python -m rocm_perf_lab.replay.capture_guard ORDER ENTRY`.

The launcher writes the process group of the application ("group N"; "process N" for that of an emulated GPU) and finally "done"
to standard input. If the input ends without "done", the launcher was killed: the application is killed, sealed captures are moved
to the output, and the rest is removed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from rocm_perf_lab.replay.capture_work import settle

_ENDING_S = 0.5
"""Seconds until killed processes have stopped writing."""


def main(order: str, entry: str) -> None:
    """Wait for the launcher, and clean up if it was killed."""
    killed = []
    for line in sys.stdin:
        if line == "done\n":
            return
        kind, number = line.split()
        killed.append((os.killpg if kind == "group" else os.kill, int(number)))
    for kill, process in killed:
        with suppress(ProcessLookupError, PermissionError):
            kill(process, signal.SIGKILL)
    time.sleep(_ENDING_S)
    work = json.loads(order)
    settle(Path(work["work"]), Path(work["output"]), several=work["several"])
    Path(entry).unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
