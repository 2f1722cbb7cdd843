"""Who still measures: heartbeats of the trials in hand, and an end for trials whose heartbeats have stopped.

A heartbeat is the time of day among a trial's user attributes, so that every storage of Optuna has them, the journal too. The
clocks of machines that share a study have to agree within a minute.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from rocm_perf_lab.autotune.storage import StorageError, storage_errors
from rocm_perf_lab.autotune.trials import HEARTBEAT, INTERRUPTED, REASON

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

INTERVAL_S = 15
GRACE_S = 120
"""A trial without a heartbeat for this long belongs to nobody any more."""


class Heartbeats:
    """Of the trials that this process has in hand, from a thread: a slot may block the caller for as long as its trial takes.

    Args:
        study: Of the trials. One that is in memory is nobody else's, and needs none.
    """

    def __init__(self, study: Study) -> None:
        from optuna.storages import InMemoryStorage

        self._study = study
        self._needed = not isinstance(study._storage, InMemoryStorage)
        self._own: frozenset[int] = frozenset()
        self._silent_since: dict[int, float] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, trial_id: int) -> None:
        """From now on this trial is being measured."""
        if not self._needed:
            return
        self._own |= {trial_id}
        self._beat(trial_id)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)
            self._thread.start()

    def end(self, trial_id: int) -> None:
        """It has come to its end."""
        self._own -= {trial_id}

    def release_dead(self) -> int:
        """Give back what others began and will not finish; how many trials that were."""
        if not self._needed:
            return 0
        from optuna.trial import TrialState

        running = self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        dead = [trial for trial in running if trial._trial_id not in self._own and self._is_dead(trial)]
        return sum(self._release(trial) for trial in dead)

    def _is_dead(self, trial: FrozenTrial) -> bool:
        """Who died before the first heartbeat is known by our own clock: dates of trials have no time zone."""
        beat = trial.user_attrs.get(HEARTBEAT)
        if beat is not None:
            return bool(time.time() - beat > GRACE_S)
        return time.monotonic() - self._silent_since.setdefault(trial._trial_id, time.monotonic()) > GRACE_S

    def _release(self, trial: FrozenTrial) -> bool:
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        storage = self._study._storage
        try:
            storage.set_trial_user_attr(trial._trial_id, INTERRUPTED, True)
            storage.set_trial_user_attr(trial._trial_id, REASON, "who measured it ended without finishing it")
            return storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return False  # somebody else was faster

    def _beat(self, trial_id: int) -> None:
        self._study._storage.set_trial_user_attr(trial_id, HEARTBEAT, round(time.time()))

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            for trial_id in self._own:
                with suppress(StorageError), storage_errors(f"study {self._study.study_name}"):
                    self._beat(trial_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
