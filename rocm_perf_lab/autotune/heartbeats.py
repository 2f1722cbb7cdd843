"""Heartbeats of running trials, and the release of trials whose process has died.

A heartbeat is a Unix time among the user attributes of a trial, so that it works with every Optuna storage. The clocks of
machines that share a study must agree within a minute. On the machine of a trial's process, its end is known without waiting.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rocm_perf_lab.autotune.storage import StorageError, storage_errors
from rocm_perf_lab.autotune.trials import HEARTBEAT, PROCESS

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial, Trial

INTERVAL_S = 15
GRACE_S = 120
"""Time without a heartbeat after which a trial is released."""


class Heartbeats:
    """Background thread that writes heartbeats of the trials that this process measures.

    Args:
        study: Study of the trials.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._own: dict[int, Trial] = {}
        self._silent_since: dict[int, float] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, trial: Trial) -> None:
        """Write heartbeats of this trial from now on."""
        self._own = {**self._own, trial.number: trial}
        trial.set_user_attr(PROCESS, [_machine(), os.getpid(), _start_of(os.getpid())])
        _beat(trial)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)
            self._thread.start()

    def end(self, trial: Trial) -> None:
        """Stop writing heartbeats of this trial."""
        self._own = {number: other for number, other in self._own.items() if number != trial.number}

    def release_dead(self) -> int:
        """Fail the trials of processes that died, so that their configurations are free again; return their number."""
        from optuna.trial import TrialState

        running = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        dead = [trial for trial in running if trial.number not in self._own and self._is_dead(trial)]
        return sum(self._release(trial) for trial in dead)

    def _is_dead(self, trial: FrozenTrial) -> bool:
        """Before the first heartbeat, count from when this process saw the trial first: trial dates have no time zone."""
        if _has_ended(trial.user_attrs.get(PROCESS)):
            return True
        beat = trial.user_attrs.get(HEARTBEAT)
        if beat is not None:
            return bool(time.time() - beat > GRACE_S)
        return time.monotonic() - self._silent_since.setdefault(trial.number, time.monotonic()) > GRACE_S

    def _release(self, trial: FrozenTrial) -> bool:
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        try:
            self._study.tell(trial.number, state=TrialState.FAIL)
        except (UpdateFinishedTrialError, ValueError):
            return False  # another process released or finished it
        return True

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            for trial in self._own.values():
                with suppress(StorageError), storage_errors(f"study {self._study.study_name}"):
                    _beat(trial)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()


def _beat(trial: Trial) -> None:
    trial.set_user_attr(HEARTBEAT, round(time.time()))


def _has_ended(process: list[object] | None) -> bool:
    """Return whether a process of this machine has ended; False for processes of others, which are not visible."""
    if process is None:
        return False
    machine, number, start = process
    return machine is not None and machine == _machine() and start is not None and _start_of(number) != start


def _machine() -> list[str] | None:
    """Return the identity of this machine since it was started, and of the process numbers visible here; None if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return [boot, str(Path("/proc/self/ns/pid").readlink())]
    except OSError:
        return None


def _start_of(number: object) -> str | None:
    """Return the start time of a process; None if it has ended, or is unknown."""
    try:
        # After the name, which may have spaces and parentheses: state (3rd field), then 18 fields, then the start time.
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[19] if fields[0] not in "ZX" else None
