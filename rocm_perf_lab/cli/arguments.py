"""Words of `rocm-perf profile` and `rocm-perf optimize` -> overrides of the configuration.

A first word like `kernel=softmax` describes a kernel; anything else is an application's command line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from rocm_perf_lab.core.errors import LabError

_PROFILE_OPTIONS = (
    "--json", "--quiet", "--runs", "--kernel", "--focus-critical", "--deep-analysis", "--roofline", "--no-roofline",
    "--roofline-csv", "--no-rocprof", "--timeout", "--output", "--debug", "--help",
)  # fmt: skip
_OVERRIDE = re.compile(r"[+~]{0,2}[\w/@.]+=")


def quoted(text: str) -> str:
    """A string as Hydra's override grammar and OmegaConf's interpolation read it back unchanged.

    Backslashes count there only in front of `${`, of a quote, and at the end of the text.
    """
    literal = re.sub(r"(\\*)\$\{", lambda m: m[1] * 2 + r"\${", text)
    return "'" + re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + (r"\'" if m[2] else ""), literal) + "'"


@dataclass(frozen=True)
class ProfileWords:
    """What a user asked `rocm-perf profile` for."""

    words: tuple[str, ...]
    as_json: bool = False
    quiet: bool = False
    runs: int | None = None
    kernel: str | None = None
    focus_critical: bool = False
    deep_analysis: bool = False
    roofline: bool | None = None
    roofline_csv: str | None = None
    no_rocprof: bool = False
    timeout: float | None = None
    output: str | None = None

    @classmethod
    def parse(cls, words: tuple[str, ...], **options: object) -> ProfileWords:
        """Check what goes together.

        Raises:
            LabError: Options that exclude each other, or that only an application takes.
        """
        found = cls(words, **options)  # type: ignore[arg-type]
        if found.as_json and found.quiet:
            raise LabError("--json and --quiet exclude each other", hint="give one of them")
        if not words:
            raise LabError("nothing to profile", hint="rocm-perf profile ./app [arguments], or kernel=NAME")
        if words[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(words[0].partition("=")[0], _PROFILE_OPTIONS, 1)
            raise LabError(
                f"there is no option {words[0]}, and no program of this name",
                where="rocm-perf profile",
                hint=f"did you mean {near[0]}?"
                if near
                else "options of the application stand behind it: profile ./app --size 4096",
            )
        only_application = {"--kernel": found.kernel, "--focus-critical": found.focus_critical, "--no-rocprof": found.no_rocprof}
        given = [name for name, value in only_application.items() if value]
        if found.is_described and given:
            raise LabError(f"{given[0]} is for applications", where=words[0], hint="a described kernel is the only one")
        return found

    @property
    def is_described(self) -> bool:
        """Whether the words are overrides and not a command line."""
        return bool(_OVERRIDE.match(self.words[0]))

    @property
    def display(self) -> str | None:
        """What is printed; None for tables."""
        return "json" if self.as_json else "runtime" if self.quiet else None

    def overrides(self) -> list[str]:
        """For Hydra. An application's command, directory and display are not among them: they change from run to run."""
        common = [
            *(["passes=deep"] if self.deep_analysis else []),
            *(["passes.counters=[]"] if self.roofline is False else []),
            *([f"passes.roofline_csv={quoted(str(Path(self.roofline_csv).absolute()))}"] if self.roofline_csv else []),
        ]
        if self.is_described:
            runs = [f"passes.runs={self.runs}"] if self.runs else []
            timeout = [f"device.timeout_s={self.timeout}"] if self.timeout else []
            directory = [f"hydra.run.dir={quoted(self.output)}"] if self.output else []
            display = [f"display={self.display}"] if self.display else []
            return ["job=profile", *display, *common, *directory, *runs, *timeout, *self.words]
        return [
            "job=application",
            "job.command=[]",
            f"passes.plots={str(self.roofline is True).lower()}",
            *common,
            *([f"job.runs={self.runs}"] if self.runs else []),
            *([f"job.kernel={quoted(self.kernel)}"] if self.kernel else []),
            *([f"job.timeout_s={self.timeout}"] if self.timeout else []),
            f"job.focus_critical={str(self.focus_critical).lower()}",
            f"job.rocprof={str(not self.no_rocprof).lower()}",
        ]


@dataclass(frozen=True)
class OptimizeWords:
    """What a user asked `rocm-perf optimize` for."""

    words: tuple[str, ...]
    proposer: str | None = None
    search: str | None = None
    min_improvement: float | None = None
    max_iterations: int | None = None
    source: str | None = None
    build_command: str | None = None
    verify: str | None = None
    compare_files: tuple[str, ...] = ()
    kernel: str | None = None
    resume: str | None = None
    yes: bool = False
    as_json: bool = False
    quiet: bool = False
    output: str | None = None

    @classmethod
    def parse(cls, words: tuple[str, ...], **options: object) -> OptimizeWords:
        """Check what goes together.

        Raises:
            LabError: Options that exclude each other, or that only an application takes.
        """
        found = cls(words, **options)  # type: ignore[arg-type]
        if found.as_json and found.quiet:
            raise LabError("--json and --quiet exclude each other", hint="give one of them")
        if found.resume is not None:
            changing = [
                name for name, value in vars(found).items() if value and name not in ("resume", "as_json", "quiet", "yes")
            ]
            if changing:
                raise LabError(
                    f"an interrupted run goes on as it was begun: --resume does not go with {', '.join(changing)}",
                    hint="leave them out, or start a new run",
                )
            return found
        only_application = {
            "--source": found.source,
            "--build": found.build_command,
            "--verify": found.verify,
            "--compare-file": found.compare_files,
            "--kernel": found.kernel,
        }
        given = [name for name, value in only_application.items() if value]
        if not found.is_application and given:
            raise LabError(
                f"{given[0]} is for applications",
                where=words[0] if words else None,
                hint='rocm-perf optimize ./app --source kernel.hip --build "hipcc -O3 {source} -o {binary}"',
            )
        return found

    @property
    def is_application(self) -> bool:
        """Whether a command line stands behind the overrides."""
        return bool(self.command)

    @property
    def command(self) -> tuple[str, ...]:
        """From the first word that is no override: what stands before it is the lab's, the rest the application's."""
        return tuple(dropwhile(_OVERRIDE.match, self.words))

    @property
    def display(self) -> str | None:
        """What is printed; None for tables."""
        return "json" if self.as_json else "runtime" if self.quiet else None

    def overrides(self) -> list[str]:
        """For Hydra."""
        settings = {
            "proposer": self.proposer,
            "search": self.search,
            "min_improvement": self.min_improvement,
            "max_iterations": self.max_iterations,
        }
        common = [
            *(f"optimizer.{name}={value}" for name, value in settings.items() if value is not None),
            *([] if self.yes else ["optimizer.confirm=true"]),
            *([f"display={self.display}"] if self.display else []),
            *([f"hydra.run.dir={quoted(self.output)}"] if self.output else []),
        ]
        if not self.is_application:
            return ["job=optimize", *self.words, *common]
        command = ",".join(quoted(word) for word in self.command)
        files = ",".join(quoted(name) for name in self.compare_files)
        return [
            "job=optimize_application",
            f"job.command=[{command}]",
            *([f"job.source={quoted(self.source)}"] if self.source else []),
            *([f"job.build={quoted(self.build_command)}"] if self.build_command else []),
            *([f"job.verify={quoted(self.verify)}"] if self.verify else []),
            f"job.compare_files=[{files}]",
            *([f"job.kernel={quoted(self.kernel)}"] if self.kernel else []),
            *self.words[: len(self.words) - len(self.command)],
            *common,
        ]
