"""Slots of a sweep for each launcher: this process, a worker process per slot, Slurm, or a Ray cluster.

Hydra's launchers run a batch and return when its slowest job has ended. A slot runs one job at a time and is free as soon as that
job ends. Launchers not known here run inside worker processes, one job per call.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hydra_plugins.rocm_perf_lab_plugins._slurm_jobs import ended_from_outside, has_ended, slurm_state
from rocm_perf_lab.autotune.clocks import ENDED_FROM_OUTSIDE, is_stopped
from rocm_perf_lab.autotune.objective import Infeasible, Preempted, Unmeasured
from rocm_perf_lab.autotune.slots import too_slow
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hydra_plugins.rocm_perf_lab_plugins._trial_job import TrialJob
    from rocm_perf_lab.autotune.objective import Measurement
    from rocm_perf_lab.autotune.slots import Task

    Result = Measurement | Infeasible | Unmeasured | Preempted
    Overrides = Callable[[Task], Sequence[str]]

_POLL_S = 0.3
_FALLBACK_SLOTS = 2
_SLURM_COMMANDS = ("sbatch", "srun", "scancel", "scontrol")
_SLURM_POLL_S = 3.0
_TIMED_OUT = "Job not requeued because: timed-out"
"""Part of the error that submitit raises in a job shortly before its time limit."""
_SHARED_FILE_S = 10.0
"""Seconds until the result of an ended job is visible on a shared file system."""


@dataclass(frozen=True)
class SlotSettings:
    """Settings that all kinds of slots share.

    Args:
        job: Job that runs a trial.
        overrides: Returns the overrides of one trial.
        count: Number of slots.
        directory: Directory of the sweep, for logs.
    """

    job: TrialJob
    overrides: Overrides
    count: int
    directory: Path


class InProcessSlots:
    """One slot in this process, for Hydra's basic launcher."""

    on_this_machine = True

    def __init__(self, settings: SlotSettings) -> None:
        self._settings = settings
        self.count = settings.count
        if settings.count != 1:
            raise LabError(
                f"the basic launcher runs one job at a time, not {settings.count}",
                where="hydra.sweeper.slots",
                hint="choose a launcher with several: hydra/launcher=joblib",
            )

    def start(self, task: Task) -> Future[Result]:
        """Run the job to its end, or to its limit of wall-clock time."""
        future: Future[Result] = Future()
        try:
            with _interrupted_after(task.limit_s):
                future.set_result(self._settings.job.run(self._settings.overrides(task), task.number))
        except _LimitReached:
            future.set_result(too_slow(task.limit_s or 0.0))
        return future

    def stop(self) -> None:
        """Do nothing: no job is running."""


class _LimitReached(BaseException):
    """The job of this process has reached its limit. No job catches it as an error of its own."""


@contextmanager
def _interrupted_after(seconds: float | None) -> Iterator[None]:
    """Raise :class:`_LimitReached` after some seconds; without effect outside of the main thread, which has no signals."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise _LimitReached

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _ThreadedSlots:
    """Base class: one thread per slot waits for a job that runs elsewhere."""

    def __init__(self, settings: SlotSettings) -> None:
        self._settings = settings
        self.count = settings.count
        self._threads = ThreadPoolExecutor(settings.count, thread_name_prefix="slot")
        self._stopped = threading.Event()

    def start(self, task: Task) -> Future[Result]:
        """Begin the job, and wait for it in a thread."""
        return self._threads.submit(self._wait_for, task, list(self._settings.overrides(task)))

    def stop(self) -> None:
        """End all running jobs."""
        self._stopped.set()
        self._end()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _wait_for(self, task: Task, overrides: list[str]) -> Result:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError


class WorkerSlots(_ThreadedSlots):
    """A worker process per slot, for joblib and for launchers not known here.

    joblib's own pool loses all jobs when one worker is killed, and starts the next batch only when the last job has ended.
    """

    on_this_machine = True

    def __init__(self, settings: SlotSettings) -> None:
        super().__init__(settings)
        self._workers: dict[int, WorkerProcess] = {}
        self._too_slow: set[int] = set()
        """Numbers of the trials that were ended at their limit although their worker ran."""

    def _wait_for(self, task: Task, overrides: list[str]) -> Result:
        worker = self._workers.get(task.slot)
        if worker is None:
            log = self._settings.directory / "workers" / f"{task.slot}.log"
            worker = self._workers[task.slot] = WorkerProcess(self._settings.job, log)
        try:
            return worker.run(overrides, task.number)
        except WorkerDied as died:
            del self._workers[task.slot]
            outside = died.from_outside and not self._stopped.is_set() and task.number not in self._too_slow
            return Preempted(str(died)) if outside else Infeasible(str(died))

    def end(self, task: Task) -> None:
        """Kill the worker of a running trial; the next trial of the slot has a new one.

        A trial whose worker was stopped from outside (SIGSTOP) is preempted instead of slow.
        """
        worker = self._workers.get(task.slot)
        if worker is not None:
            if not worker.is_stopped:
                self._too_slow.add(task.number)
            worker.signal()

    def _end(self) -> None:
        for worker in list(self._workers.values()):
            worker.kill()


class WorkerDied(Exception):
    """A worker process ended during a job; `from_outside` if that was not its own doing."""

    def __init__(self, how: str, *, from_outside: bool) -> None:
        super().__init__(how)
        self.from_outside = from_outside


class WorkerProcess:
    """Process in a separate session (Ctrl-C does not reach it) that runs jobs one after the other."""

    def __init__(self, job: TrialJob, log: Path) -> None:
        import multiprocessing

        import cloudpickle

        spawn = multiprocessing.get_context("spawn")
        self._connection, remote = spawn.Pipe()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._process = spawn.Process(target=_serve, args=(remote, cloudpickle.dumps(job), str(log)), daemon=False)
        self._process.start()
        remote.close()

    def run(self, overrides: Sequence[str], number: int) -> Result:
        """Run one job.

        Raises:
            WorkerDied: The process was killed, or crashed.
        """
        try:
            self._connection.send((list(overrides), number))
            result: Result = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join()
            code = self._process.exitcode or 0
            how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
            outside = -code in ENDED_FROM_OUTSIDE
            raise WorkerDied(f"the worker process {how}; its output: {self._log}", from_outside=outside) from error
        return result

    @property
    def is_stopped(self) -> bool:
        """Return whether the process was stopped by a signal."""
        return is_stopped(self._process.pid or 0)

    def kill(self) -> None:
        """Kill the process and those that it started, and wait for its end."""
        self.signal()
        self._process.join()

    def signal(self) -> None:
        """Kill the process and those that it started."""
        try:
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        except ProcessLookupError:
            self._process.kill()  # it has not created its session yet


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _serve(connection: Any, pickled: bytes, log: str) -> None:
    """Serve jobs in a worker process until the sweep closes the connection."""
    import cloudpickle

    from hydra_plugins.rocm_perf_lab_plugins._trial_job import reason_of

    os.setsid()
    with open(log, "ab", buffering=0) as sink:  # noqa: PTH123 — a file descriptor is needed
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    job: TrialJob = cloudpickle.loads(pickled)
    while True:
        try:
            overrides, number = connection.recv()
        except EOFError:
            return
        try:
            result: Result = job.launch(overrides, number)
        except Exception as error:  # noqa: BLE001 — a job may raise anything; it must not end the worker
            result = Infeasible(reason_of(error))
        connection.send(result)


class SubmititSlots(_ThreadedSlots):
    """Slots of Slurm or of submitit's local executor: one submission per trial."""

    def __init__(self, settings: SlotSettings, launcher: Any) -> None:
        import submitit

        super().__init__(settings)
        cluster = launcher._EXECUTOR
        self.on_this_machine = cluster == "local"
        if not self.on_this_machine and (missing := [name for name in _SLURM_COMMANDS if shutil.which(name) is None]):
            raise LabError(
                f"Slurm's commands are not on PATH: {', '.join(missing)}",
                where="hydra/launcher=submitit_slurm",
                hint="start the sweep on a login node of the cluster, or use hydra/launcher=joblib on this machine",
            )
        params = dict(launcher.params)
        directory, retries = params.pop("submitit_folder"), params.pop("max_num_timeout", None)
        more = {f"{cluster}_max_num_timeout": retries} if retries is not None else {}
        self._executor = submitit.AutoExecutor(folder=directory, cluster=cluster, **more)
        params.pop("array_parallelism", None)  # the number of slots instead
        self._executor.update_parameters(**{_parameter(cluster, name): value for name, value in params.items()})
        self._timeout_min = params.get("timeout_min")
        self._submitting = threading.Lock()
        self._jobs: dict[int, Any] = {}

    def _wait_for(self, task: Task, overrides: list[str]) -> Result:
        from submitit.core.utils import FailedJobError, FailedSubmissionError

        try:
            with self._submitting:  # submitit's executor is not made for threads
                job = self._executor.submit(self._settings.job.run, overrides, task.number)
        except (FailedJobError, FailedSubmissionError) as error:
            return Unmeasured(f"sbatch refused the job of a trial: {_refusal(error)}")
        self._jobs[task.number] = job
        try:
            return self._wait_locally(job) if self.on_this_machine else self._wait_for_slurm(job)
        finally:
            del self._jobs[task.number]

    def _wait_locally(self, job: Any) -> Result:
        while not job.done():
            if self._stopped.is_set():
                job.cancel()
                return Infeasible("cancelled")
            time.sleep(_POLL_S)
        result: Result = job.result()
        return result

    def _wait_for_slurm(self, job: Any) -> Result:
        """Wait for the result of a job, or for its end without one."""
        asked, ended, state = time.monotonic(), None, None
        while not job.paths.result_pickle.exists():
            if self._stopped.is_set():
                job.cancel(check=False)
                return Infeasible("cancelled")
            time.sleep(_POLL_S)
            now = time.monotonic()
            if ended is not None and now - ended > _SHARED_FILE_S:
                return self._without_result(job, state)
            if ended is None and now - asked > _SLURM_POLL_S:
                asked, state = now, slurm_state(job.job_id)
                ended = now if has_ended(state) else None
        outcome, result = job._get_outcome_and_result()
        if _TIMED_OUT in str(result.reason if isinstance(result, Infeasible) else result):
            return Infeasible(_time_limit(self._timeout_min))
        if outcome == "success":
            measured: Result = result
            return measured
        return Infeasible(_last_line(str(result)))

    def _without_result(self, job: Any, state: str | None) -> Result:
        if ended_from_outside(state):
            return Preempted(f"Slurm ended the job {job.job_id}: {state}")
        if state == "TIMEOUT":
            return Infeasible(_time_limit(self._timeout_min))
        return Infeasible(f"the Slurm job {job.job_id} ended without a result ({state}); its output: {job.paths.stderr}")

    def _end(self) -> None:
        for job in list(self._jobs.values()):
            job.cancel(check=False)


def _refusal(error: Exception) -> str:
    """Return the reason that sbatch printed, which submitit puts before its own stack."""
    lines = [line.split("error: ", 1)[-1] for line in str(error).splitlines() if line.startswith("sbatch: ")]
    return "; ".join(dict.fromkeys(lines)) or _last_line(str(error))


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no reason")


def _time_limit(minutes: int | None) -> str:
    return f"not finished within {minutes} min, the time limit of its Slurm job (hydra.launcher.timeout_min)"


def _parameter(cluster: str, name: str) -> str:
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

    return name if name in BaseQueueConf.__dataclass_fields__ else f"{cluster}_{name}"


class RaySlots:
    """Slots of a Ray cluster: the one that `hydra.launcher.ray.init` names, or a new local one.

    Without a number of slots, as many as fit into the cluster.
    """

    on_this_machine = False

    def __init__(self, settings: SlotSettings, slots: int | None, init: dict[str, Any], remote: dict[str, Any]) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import cloudpickle
        import ray

        self._settings = settings
        cluster: Any = ray  # partly untyped
        self._ray = cluster
        if not cluster.is_initialized():
            cluster.init(**{"configure_logging": True, "logging_level": "ERROR", "log_to_driver": False, **init})
        options = {"max_retries": 0, "num_cpus": 1, **remote}
        self.count = slots or max(1, _capacity(cluster.cluster_resources(), options))
        self._job = cluster.put(cloudpickle.dumps(settings.job))
        self._run = cluster.remote(**options)(_run_pickled)
        self._references: list[Any] = []

    def start(self, task: Task) -> Future[Result]:
        """Submit the job; Ray schedules it."""
        reference = self._run.remote(self._job, list(self._settings.overrides(task)), task.number)
        self._references.append(reference)
        future: Future[Result] = reference.future()
        return future

    def stop(self) -> None:
        """Cancel running jobs, and disconnect."""
        for reference in self._references:
            self._ray.cancel(reference, force=True)
        self._ray.shutdown()


def _capacity(has: dict[str, float], options: dict[str, Any]) -> int:
    """Return how many jobs with these options fit at once."""
    needs = {"CPU": options.get("num_cpus"), "GPU": options.get("num_gpus"), **(options.get("resources") or {})}
    return min(int(has.get(name, 0) // need) for name, need in needs.items() if need)


def _run_pickled(pickled: bytes, overrides: list[str], number: int) -> Result:
    import cloudpickle

    job: TrialJob = cloudpickle.loads(pickled)
    return job.run(overrides, number)
