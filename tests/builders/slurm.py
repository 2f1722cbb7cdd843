"""Slurm of one node with separate daemons, configuration, ports and state: Debian's packages, unpacked into the cache."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import locked
from rocm_perf_lab.core.resources import cache_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "libmunge2", "libhwloc15", "liblua5.1-0",
)  # fmt: skip
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_STARTS_WITHIN_S = 60
_CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={state}/munge.socket
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={state}/controller
SlurmdSpoolDir={state}/spool
SlurmctldPidFile={state}/controller.pid
SlurmdPidFile={state}/node.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1
KillWait=2
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class SlurmUnavailable(Exception):
    """Slurm cannot be had or started on this machine; the message says why."""


@dataclass(frozen=True)
class LocalSlurm:
    """A running cluster, and the environment in which its commands find it."""

    environment: dict[str, str]

    def call(self, *command: str) -> str:
        """Run a command of Slurm and return its output."""
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True, timeout=60).stdout


@contextmanager
def running_slurm() -> Iterator[LocalSlurm]:
    """Start munge, the controller and a node with all cores, and end them.

    Raises:
        SlurmUnavailable: The packages cannot be had, or a daemon does not start.
    """
    root = _unpacked()
    libraries, plugins = root / _LIBRARIES, root / _LIBRARIES / "slurm-wlm"
    state = Path(tempfile.mkdtemp(prefix="slurm-"))  # paths of sockets are short
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(root / "usr/bin"), str(root / "usr/sbin"), os.environ["PATH"]]),
        "LD_LIBRARY_PATH": f"{libraries}:{plugins}",
        "SLURM_CONF": str(state / "slurm.conf"),
    }
    ports = _free_ports(2)
    (state / "slurm.conf").write_text(
        _CONFIGURATION.format(
            host=socket.gethostname().split(".")[0], user=user, state=state, plugins=plugins, cores=os.cpu_count(),
            controller_port=ports[0], node_port=ports[1],
        )
    )  # fmt: skip
    for name in ("controller", "spool"):
        (state / name).mkdir()
    key = state / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log"}
    munge = [f"--{name}={state / file}" for name, file in {**files, "seed-file": "munge.seed"}.items()]
    daemons = (
        ["munged", "--foreground", "--force", *munge],
        ["slurmctld-wlm", "-D"],
        ["slurmd-wlm", "-D", "-d", str(root / "usr/sbin/slurmstepd-wlm")],
    )
    try:
        with ExitStack() as running:
            for command in daemons:
                running.enter_context(_daemon(command, environment, state / f"{command[0]}.out"))
                time.sleep(0.5)
            cluster = LocalSlurm(environment)
            running.callback(_cancel_all, cluster)
            _wait_until_idle(cluster, state)
            yield cluster
    finally:
        shutil.rmtree(state, ignore_errors=True)


def _unpacked() -> Path:
    """Return the directory with the unpacked packages; download them with apt if it is missing. The system is not changed."""
    root = cache_dir() / "slurm-wlm"
    with locked(root.with_name("slurm-wlm.lock")):
        if root.is_dir():
            return root
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise SlurmUnavailable(f"{tool} is not installed")
        with tempfile.TemporaryDirectory(dir=root.parent) as made:
            downloads, new = Path(made, "packages"), Path(made, "root")
            downloads.mkdir()
            command = ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=", *_PACKAGES]
            done = subprocess.run(command, cwd=downloads, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SlurmUnavailable(f"Debian's packages of Slurm cannot be downloaded: {done.stderr.strip()[-200:]}")
            for package in downloads.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", package, new], check=True, capture_output=True)
            new.rename(root)
    return root


@contextmanager
def _daemon(command: Sequence[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    with log.open("w") as sink:
        process = subprocess.Popen(command, env=environment, stdout=sink, stderr=sink, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_idle(cluster: LocalSlurm, state: Path) -> None:
    until = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until:
        done = subprocess.run(
            ["sinfo", "--noheader", "--format=%T"], env=cluster.environment, capture_output=True, text=True, check=False
        )
        if done.stdout.strip() == "idle":
            return
        time.sleep(0.5)
    logs = "; ".join(f"{log.name}: {log.read_text()[-300:]}" for log in sorted(state.glob("*.out")))
    raise SlurmUnavailable(f"the daemons do not start: {logs}")


def _cancel_all(cluster: LocalSlurm) -> None:
    """End all jobs before the daemons."""
    jobs = cluster.call("squeue", "--noheader", "--format=%i").split()
    if jobs:
        cluster.call("scancel", *jobs)
        until = time.monotonic() + 30
        while cluster.call("squeue", "--noheader", "--format=%i").split() and time.monotonic() < until:
            time.sleep(0.5)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
