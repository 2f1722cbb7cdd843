"""Where the trials of a sweep run, by launcher: this process, a worker process for each slot, Slurm, or a Ray cluster.

Hydra's launchers take a batch and return when the slowest of it has ended. Here each slot has one job at a time and is free
as soon as that has ended. Launchers that nothing below knows run inside worker processes, one job a call.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.objective import Infeasible
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hydra_plugins.rocm_perf_lab_plugins._worker import HydraJob
    from rocm_perf_lab.autotune.objective import Measurement, Unmeasured
    from rocm_perf_lab.autotune.slots import Task

    Result = Measurement | Infeasible | Unmeasured
    Words = Callable[[Task], Sequence[str]]

_POLL_S = 0.3
_FALLBACK_SLOTS = 2


@dataclass(frozen=True)
class Setting:
    """What every place needs.

    Args:
        job: What a trial runs.
        words: The overrides of one trial.
        count: Slots.
        directory: Of the sweep; for logs.
    """

    job: HydraJob
    words: Words
    count: int
    directory: Path


class Here:
    """In this process, one after the other: Hydra's basic launcher."""

    on_this_machine = True

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.count = setting.count
        if setting.count != 1:
            raise LabError(
                f"the basic launcher runs one job at a time, not {setting.count}",
                where="hydra.sweeper.slots",
                hint="choose a launcher with several: hydra/launcher=joblib",
            )

    def start(self, task: Task) -> Future[Result]:
        """Run it, then return."""
        future: Future[Result] = Future()
        future.set_result(self._setting.job.run(self._setting.words(task), task.number))
        return future

    def stop(self) -> None:
        """Nothing is left running."""


class _Followed:
    """One thread a slot waits for what runs elsewhere."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.count = setting.count
        self._threads = ThreadPoolExecutor(setting.count, thread_name_prefix="slot")
        self._stopped = threading.Event()

    def start(self, task: Task) -> Future[Result]:
        """Begin, and follow it in a thread."""
        return self._threads.submit(self._follow, task, list(self._setting.words(task)))

    def stop(self) -> None:
        """End everything that still runs."""
        self._stopped.set()
        self._end()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _follow(self, task: Task, words: list[str]) -> Result:
        raise NotImplementedError

    def _end(self) -> None:
        raise NotImplementedError


class Workers(_Followed):
    """A worker process for each slot: joblib, and every launcher that has no better place.

    joblib's own pool loses all its jobs when one worker is killed, and starts the next batch when the last has ended.
    """

    on_this_machine = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._workers: dict[int, WorkerProcess] = {}

    def _follow(self, task: Task, words: list[str]) -> Result:
        worker = self._workers.get(task.slot)
        if worker is None:
            log = self._setting.directory / "workers" / f"{task.slot}.log"
            worker = self._workers[task.slot] = WorkerProcess(self._setting.job, log)
        try:
            return worker.run(words, task.number)
        except WorkerDied as died:
            del self._workers[task.slot]
            return Infeasible(str(died))

    def _end(self) -> None:
        for worker in list(self._workers.values()):
            worker.kill()


class WorkerDied(Exception):
    """A worker process ended in the middle of a job."""


class WorkerProcess:
    """A process of its own session, which runs jobs one after the other; an interrupt of the terminal does not reach it."""

    def __init__(self, job: HydraJob, log: Path) -> None:
        import multiprocessing

        import cloudpickle

        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._process = spawn.Process(target=_serve, args=(theirs, cloudpickle.dumps(job), str(log)), daemon=False)
        self._process.start()
        theirs.close()

    def run(self, words: Sequence[str], number: int) -> Result:
        """One job.

        Raises:
            WorkerDied: The process was killed, or crashed.
        """
        try:
            self._connection.send((list(words), number))
            result: Result = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join()
            code = self._process.exitcode or 0
            how = f"was killed by {_signal(-code)}" if code < 0 else f"ended with exit code {code}"
            raise WorkerDied(f"the worker process {how}; its output: {self._log}") from error
        return result

    def kill(self) -> None:
        """End it and what it has started."""
        import signal

        try:
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        except ProcessLookupError:
            self._process.kill()  # before it has a session of its own
        self._process.join()


def _signal(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _serve(connection: Any, pickled: bytes, log: str) -> None:
    """The life of a worker process: until the sweep closes its end."""
    import cloudpickle

    from hydra_plugins.rocm_perf_lab_plugins._worker import reason_of

    os.setsid()
    with open(log, "ab", buffering=0) as sink:  # noqa: PTH123 — a file descriptor is needed
        os.dup2(sink.fileno(), 1)
        os.dup2(sink.fileno(), 2)
    job: HydraJob = cloudpickle.loads(pickled)
    while True:
        try:
            words, number = connection.recv()
        except EOFError:
            return
        try:
            result: Result = job.launch(words, number)
        except Exception as error:  # noqa: BLE001 — a job may raise anything; it must not end the worker
            result = Infeasible(reason_of(error))
        connection.send(result)


class Submitit(_Followed):
    """Slurm, or submitit's local executor: one submission a trial."""

    def __init__(self, setting: Setting, launcher: Any) -> None:
        import submitit

        super().__init__(setting)
        cluster = launcher._EXECUTOR
        self.on_this_machine = cluster == "local"
        params = dict(launcher.params)
        directory, retries = params.pop("submitit_folder"), params.pop("max_num_timeout", None)
        more = {f"{cluster}_max_num_timeout": retries} if retries is not None else {}
        self._executor = submitit.AutoExecutor(folder=directory, cluster=cluster, **more)
        params.pop("array_parallelism", None)  # that is the number of slots
        self._executor.update_parameters(**{_parameter(cluster, name): value for name, value in params.items()})
        self._jobs: dict[int, Any] = {}

    def _follow(self, task: Task, words: list[str]) -> Result:
        job = self._executor.submit(self._setting.job.run, words, task.number)
        self._jobs[task.number] = job
        try:
            while not job.done():
                if self._stopped.is_set():
                    job.cancel()
                    return Infeasible("cancelled")
                time.sleep(_POLL_S)
            result: Result = job.result()
            return result
        finally:
            del self._jobs[task.number]

    def _end(self) -> None:
        for job in list(self._jobs.values()):
            job.cancel(check=False)


def _parameter(cluster: str, name: str) -> str:
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

    return name if name in BaseQueueConf.__dataclass_fields__ else f"{cluster}_{name}"


class RayCluster:
    """A Ray cluster: the one that `hydra.launcher.ray.init` names, or one started here.

    Without a number of slots it takes as many as the cluster has room for.
    """

    on_this_machine = False

    def __init__(self, setting: Setting, slots: int | None, init: dict[str, Any], remote: dict[str, Any]) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import cloudpickle
        import ray

        self._setting = setting
        cluster: Any = ray  # partly untyped
        self._ray = cluster
        if not cluster.is_initialized():
            cluster.init(**{"configure_logging": True, "logging_level": "ERROR", "log_to_driver": False, **init})
        options = {"max_retries": 0, "num_cpus": 1, **remote}
        self.count = slots or max(1, _room(cluster.cluster_resources(), options))
        self._job = cluster.put(cloudpickle.dumps(setting.job))
        self._run = cluster.remote(**options)(_run_pickled)
        self._references: list[Any] = []

    def start(self, task: Task) -> Future[Result]:
        """Submit it; Ray finds a place."""
        reference = self._run.remote(self._job, list(self._setting.words(task)), task.number)
        self._references.append(reference)
        future: Future[Result] = reference.future()
        return future

    def stop(self) -> None:
        """Cancel what still runs, and leave the cluster."""
        for reference in self._references:
            self._ray.cancel(reference, force=True)
        self._ray.shutdown()


def _room(has: dict[str, float], options: dict[str, Any]) -> int:
    """How many jobs with these options fit at once."""
    needs = {"CPU": options.get("num_cpus"), "GPU": options.get("num_gpus"), **(options.get("resources") or {})}
    return min(int(has.get(name, 0) // need) for name, need in needs.items() if need)


def _run_pickled(pickled: bytes, words: list[str], number: int) -> Result:
    import cloudpickle

    job: HydraJob = cloudpickle.loads(pickled)
    return job.run(words, number)
