"""The bench of the closed loop for an application of the user's own: built by their command, timed under rocprofv3.

Guards look at the device code as the lab's compiler makes it from the candidate, with the macros and include directories of the
user's command; only then is that command run, and the application that it makes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.jobs.optimize.bench import share_of
from rocm_perf_lab.optimize.acceptance import compare_exactly, compare_sequentially
from rocm_perf_lab.optimize.guards import Inspection
from rocm_perf_lab.optimize.loop import Built, Evaluation
from rocm_perf_lab.target.occupancy import launch_occupancy
from rocm_perf_lab.toolchain.build import CompileRequest, compile_source
from rocm_perf_lab.toolchain.kernel_lookup import find_kernel
from rocm_perf_lab.toolchain.kernel_occupancy import occupancy_request
from rocm_perf_lab.toolchain.syntax import read_syntax
from rocm_perf_lab.verify.application_outputs import ApplicationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocm_perf_lab.jobs.analyze.examination import Examination
    from rocm_perf_lab.jobs.profile.workbench import Turn
    from rocm_perf_lab.optimize.acceptance import Acceptance, Comparison, Pair
    from rocm_perf_lab.optimize.loop import Measured
    from rocm_perf_lab.optimize.proposal import Proposal
    from rocm_perf_lab.target.model import Target
    from rocm_perf_lab.toolchain.build import BuildResult
    from rocm_perf_lab.toolchain.compilers import Compiler
    from rocm_perf_lab.toolchain.sandbox import Sandbox
    from rocm_perf_lab.verify.application_outputs import OutputJudge, Outputs

_DEVICE_FLAGS = re.compile(r"-(?:D|U|I|std=|isystem|include|f|m(?!arch)|O).*")
_TAKES_A_WORD = frozenset({"-D", "-U", "-I", "-isystem", "-include"})
_HIDDEN_DIRECTORIES = (".git",)


@dataclass(frozen=True)
class ApplicationSource:
    """What is rewritten, how it is built, and what is run.

    Args:
        source: The user's file; read, never written.
        build: Command with `{source}` and `{binary}`.
        command: Of the application; `{binary}`, or else the first word, becomes the binary that was built.
    """

    source: Path
    build: str
    command: tuple[str, ...]

    def words_of_build(self, source: Path, binary: Path) -> list[str]:
        """The build command for one candidate; no shell reads it."""
        return [w.replace("{source}", str(source)).replace("{binary}", str(binary)) for w in shlex.split(self.build)]

    def words_of_run(self, binary: Path) -> list[str]:
        """The application's command for one candidate."""
        if any("{binary}" in word for word in self.command):
            return [word.replace("{binary}", str(binary)) for word in self.command]
        return [str(binary), *self.command[1:]]

    def device_flags(self) -> tuple[str, ...]:
        """Of the build command, what decides how the source is read."""
        flags: list[str] = []
        words = shlex.split(self.build)
        for number, word in enumerate(words):
            if word in _TAKES_A_WORD and number + 1 < len(words):
                flags += [word, words[number + 1]]
            elif _DEVICE_FLAGS.fullmatch(word) and "{" not in word and word not in _TAKES_A_WORD:
                flags.append(word)
        return tuple(flags)


@dataclass(frozen=True)
class ApplicationMaker:
    """Runs the user's build command on candidates.

    Args:
        application: Source, build and command.
        directory: Gets one directory per proposal.
        timeout_s: Of one build.
    """

    application: ApplicationSource
    directory: Path
    timeout_s: float

    def directory_of(self, proposal: Proposal) -> Path:
        """Where a proposal's files are."""
        return self.directory / proposal.id

    def binary(self, proposal: Proposal) -> Path:
        """What the user's command makes of it."""
        return (self.directory_of(proposal) / "application").absolute()

    def source(self, proposal: Proposal) -> Path:
        """Its file, in a directory with links to everything that lies beside the user's file."""
        return (self.directory_of(proposal) / "source" / self.application.source.name).absolute()

    def place(self, proposal: Proposal) -> Path:
        """Write the source where includes beside it are found."""
        path = self.source(proposal)
        shutil.rmtree(path.parent, ignore_errors=True)
        write_text(path, proposal.text)
        for sibling in sorted(self.application.source.absolute().parent.iterdir()):
            if sibling.name != path.name and sibling.name not in _HIDDEN_DIRECTORIES:
                (path.parent / sibling.name).symlink_to(sibling)
        return path

    def command(self, proposal: Proposal) -> list[str]:
        """How it is run."""
        return self.application.words_of_run(self.binary(proposal))

    def make(self, proposal: Proposal) -> None:
        """Run the user's build command.

        Raises:
            ApplicationError: It fails or leaves no binary.
        """
        source, binary = self.source(proposal), self.binary(proposal)
        binary.unlink(missing_ok=True)
        words = self.application.words_of_build(source, binary)
        try:
            ended = subprocess.run(
                words,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.timeout_s,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            raise ApplicationError(f"the build command does not run: {error.strerror}", where=shlex.join(words)) from error
        except subprocess.TimeoutExpired as error:
            raise ApplicationError(f"the build took more than {self.timeout_s:g} s", where=shlex.join(words)) from error
        if ended.returncode != 0 or not os.access(binary, os.X_OK):
            said = (ended.stderr or ended.stdout).strip()[-500:] or "no executable file was made"
            raise ApplicationError(f"the build command failed: {said}", where=shlex.join(words), hint="check --build")


@dataclass
class ApplicationBench:
    """Builds, runs and compares candidates.

    Args:
        maker: Runs the user's build command.
        kernel: Symbol of the kernel.
        block: Work-items of its workgroups, in the profiled run.
        target: The GPU.
        compiler: The lab's, for guards.
        sandbox: Where the lab's compiler runs.
        judge: Compares outputs.
        profile: Runs a command under the profiler into a directory.
        time_ns: Runs a command under the profiler into a directory: time of one dispatch of the kernel.
        deterministic: Whether times are emulated.
    """

    maker: ApplicationMaker
    kernel: str
    block: int
    target: Target
    compiler: Compiler
    sandbox: Sandbox
    judge: OutputJudge
    profile: Callable[[list[str], Path], Examination]
    time_ns: Callable[[list[str], Path], float]
    deterministic: bool = False
    turns: dict[str, Turn] = field(default_factory=dict)
    """None: an application has no turns of the workbench."""
    _expected: tuple[Outputs, Outputs] | None = None

    def build(self, proposal: Proposal) -> Built:
        """Compile its device code with the lab's compiler, for guards."""
        path = self.maker.place(proposal)
        build = self.compile(path)
        kernel = find_kernel(build.code_object, self.kernel)
        asked = occupancy_request(kernel, workgroup_size=self.block, dynamic_lds_bytes=0)
        inspection = Inspection(
            syntax=read_syntax(self._request(path), compiler=self.compiler, sandbox=self.sandbox),
            code_object=build.code_object,
            dependencies=frozenset(str(d) for d in build.dependencies if d.name != path.name),
            work_items=self.block,
        )
        return Built(
            kernel, build.code_object.sha256, launch_occupancy(self.target, asked).waves_per_simd, build.cached, inspection
        )

    def compile(self, path: Path, *, fresh: bool = False) -> BuildResult:
        """Device code by the lab's compiler."""
        return compile_source(self._request(path), compiler=self.compiler, sandbox=self.sandbox, fresh=fresh)

    def evaluate(self, proposal: Proposal, built: Built) -> Evaluation:
        """Run the user's command, then the application: outputs first, then times."""
        self.maker.make(proposal)
        command = self.maker.command(proposal)
        new = self.judge.run(command, self.maker.binary(proposal))
        if self._expected is None:
            second = self.judge.run(command, self.maker.binary(proposal))
            self.judge.require_something_to_compare(new, second)
            self._expected = (new, second)
        verification = self.judge.judge(*self._expected, new)
        if not verification.passed:
            return Evaluation(verification, 0.0)
        found = self.profile(command, self.maker.directory_of(proposal))
        return Evaluation(verification, found.runtime_ns, share_of(found))

    def compare(self, old: Measured, new: Measured, acceptance: Acceptance) -> Comparison:
        """Pairs of profiled runs, taking turns at going first; a comparison where times are emulated."""
        if self.deterministic:
            return compare_exactly(old.runtime_ns, new.runtime_ns)
        taken = 0

        def measure(count: int) -> list[Pair]:
            nonlocal taken
            pairs = [self._pair(old.proposal, new.proposal, taken + n) for n in range(count)]
            taken += count
            return pairs

        return compare_sequentially(measure, acceptance)

    def _pair(self, old: Proposal, new: Proposal, number: int) -> Pair:
        times = {}
        for proposal in (old, new) if number % 2 == 0 else (new, old):
            if not self.maker.binary(proposal).exists():  # judged before an interruption
                self.maker.place(proposal)
                self.maker.make(proposal)
            command = self.maker.command(proposal)
            times[proposal.id] = self.time_ns(command, self.maker.directory_of(new) / "comparison" / proposal.id)
        return times[old.id], times[new.id]

    def _request(self, path: Path) -> CompileRequest:
        return CompileRequest(
            source=path,
            architecture=self.target.architecture,
            flags=self.maker.application.device_flags(),
            include_dirs=(self.maker.application.source.absolute().parent,),
        )
