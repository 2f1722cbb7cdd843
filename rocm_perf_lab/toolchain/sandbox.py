"""Sandbox for compilers of untrusted sources.

Commands run with limits on time, memory, file size and processes, an empty standard input, only the environment variables that
tools need, and a private directory for home and temporary files. They have no network, can open only tools, headers and the
private directory, and do not see other processes; see :meth:`Sandbox.protection` and :meth:`Sandbox.require`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CHILD = Path(__file__).parent / "sandbox_child.py"
_PASSED_ON = ("PATH", "ROCM_PATH", "HIP_PATH", "HIP_CLANG_PATH", "HIP_DEVICE_LIB_PATH", "LD_LIBRARY_PATH")
_TOOLS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/gnu/store", "/etc/alternatives",
          "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/proc", "/sys/devices/system/cpu", "/dev/null",
          "/dev/urandom")  # fmt: skip
_MIB = 1 << 20
_LONGEST_LOG = 1 << 20


@dataclass(frozen=True)
class SandboxLimits:
    """Limits of one command: wall-clock seconds, bytes of memory and per file, number of processes."""

    seconds: float = 60.0
    memory_bytes: int = 4096 * _MIB
    file_bytes: int = 256 * _MIB
    processes: int = 256


@dataclass(frozen=True)
class SandboxProtection:
    """Protection that the kernel supports: no network, no access to other files, other processes are not visible."""

    network: bool
    files: bool
    processes: bool

    @property
    def missing(self) -> tuple[str, ...]:
        """Protection that this machine does not support, with the reason."""
        rows = (
            (self.network, "network access (the kernel permits neither user namespaces nor seccomp filters)"),
            (self.files, "access to all files (the kernel has no Landlock)"),
            (
                self.processes,
                "visible command lines of other processes (the kernel permits neither user namespaces nor Landlock)",
            ),
        )
        return tuple(text for present, text in rows if not present)

    def __str__(self) -> str:
        rows = (
            (self.network, "no network"),
            (self.files, "no access to other files"),
            (self.processes, "no other processes visible"),
        )
        present = tuple(text for has, text in rows if has)
        return "; ".join(("limits on time, memory, file size and processes", *present, *self.missing))


class SandboxUnavailable(LabError):
    """Machine on which untrusted sources cannot be compiled safely."""


@dataclass(frozen=True)
class SandboxResult:
    """Exit code and output of a command; `reason` names the limit that it exceeded, or is None."""

    returncode: int
    stdout: str
    stderr: str
    reason: str | None


@dataclass(frozen=True)
class Sandbox:
    """Sandbox in which commands run.

    Args:
        limits: Limits of each command.
        readable: Files and directories that commands may read in addition to system tools.
        without: Restrictions of the kernel that are not used: `namespaces`, `proc`, `landlock`, `seccomp`.
    """

    limits: SandboxLimits = SandboxLimits()
    readable: tuple[Path, ...] = ()
    without: tuple[str, ...] = ()

    def protection(self) -> SandboxProtection:
        """Return the protection on this machine."""
        return _protection(self.without)

    def require(self) -> None:
        """Check that the protection is complete.

        Raises:
            SandboxUnavailable: The kernel does not support a part of it.
        """
        missing = self.protection().missing
        if missing:
            raise SandboxUnavailable(
                f"the sandbox cannot be set up; candidates would have {'; '.join(missing)}",
                where="optimizer.isolation",
                hint="use a kernel with Landlock (Linux 5.13 or later, enabled at boot), in a container a seccomp profile that "
                "permits it; or accept the risk with optimizer.isolation.required=false",
            )

    def run(
        self,
        command: Sequence[str],
        private: Path,
        *,
        readable: Sequence[Path] = (),
        longest_output: int = _LONGEST_LOG,
        cwd: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> SandboxResult:
        """Run a command until it ends or exceeds a limit; its child processes are then killed.

        Args:
            command: Program and arguments.
            private: Directory that the command may write to.
            readable: Additional files and directories that this command may read.
            longest_output: Maximum number of bytes of standard output to keep.
            cwd: Working directory; None keeps that of this process.
            variables: Environment variables in addition to those that tools need.
        """
        paths = (*self.readable, *readable, Path(sys.prefix), Path(sys.base_prefix), Path(command[0]).parent)
        request: dict[str, object] = {
            "limits": self._limits(),
            "readable": [*_TOOLS, *(str(path.resolve()) for path in paths if path != Path())],
            "writable": [str(private.resolve())],
            "without": list(self.without),
        }
        process = subprocess.Popen(
            [*_child_command(request), *command],
            cwd=cwd or Path.cwd(),
            env={**_environment(private), **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        reason = None
        try:
            stdout, stderr = process.communicate(timeout=self.limits.seconds)
        except subprocess.TimeoutExpired:
            reason = f"took more than {self.limits.seconds:g} s"
            _kill(process)
            stdout, stderr = process.communicate()
        except BaseException:
            _kill(process)
            raise
        said = _text(stderr)
        if reason is None and process.returncode != 0:
            reason = self._broken_limit(process.returncode, said)
        return SandboxResult(process.returncode, _text(stdout, longest_output), said, reason)

    def _limits(self) -> dict[str, int]:
        return {
            "RLIMIT_AS": self.limits.memory_bytes,
            "RLIMIT_FSIZE": self.limits.file_bytes,
            "RLIMIT_NPROC": self.limits.processes,
            "RLIMIT_CPU": int(self.limits.seconds) + 1,
            "RLIMIT_CORE": 0,
        }

    def _broken_limit(self, returncode: int, said: str) -> str | None:
        if returncode == -signal.SIGXCPU:
            return f"took more than {self.limits.seconds:g} s"
        if returncode == -signal.SIGXFSZ or "File too large" in said:
            return f"wrote a file of more than {self.limits.file_bytes // _MIB} MiB"
        if any(word in said for word in ("out of memory", "bad_alloc", "Cannot allocate memory")):
            return f"needed more than {self.limits.memory_bytes // _MIB} MiB of memory"
        return None


def _child_command(request: dict[str, object]) -> list[str]:
    return [sys.executable, "-I", "-S", str(_CHILD), json.dumps(request)]


def _environment(private: Path) -> dict[str, str]:
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed_on, "LC_ALL": "C.UTF-8", "HOME": str(private), "TMPDIR": str(private)}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and its children: it is the leader of a separate session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _text(output: bytes, longest: int = _LONGEST_LOG) -> str:
    return output[:longest].decode(errors="replace")


@cache
def _protection(without: tuple[str, ...]) -> SandboxProtection:
    request: dict[str, object] = {"limits": {}, "readable": list(_TOOLS), "writable": [], "probe": True, "without": list(without)}
    run = subprocess.run(_child_command(request), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    try:
        return SandboxProtection(**json.loads(run.stdout))
    except ValueError:
        return SandboxProtection(network=False, files=False, processes=False)
