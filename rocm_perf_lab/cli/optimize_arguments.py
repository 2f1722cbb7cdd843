"""Arguments of `rocm-perf optimize`, translated to overrides of the configuration.

Overrides come first; the first argument that is not an override starts the command line of an application.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rocm_perf_lab.cli.application_arguments import ApplicationArguments
from rocm_perf_lab.config.overrides import application_setting, quoted
from rocm_perf_lab.core.errors import LabError

_WITH_RESUME = ("resume", "as_json", "quiet", "yes")


@dataclass(frozen=True)
class OptimizeArguments(ApplicationArguments):
    """Arguments and options of `rocm-perf optimize`."""

    proposer: str | None = None
    search: str | None = None
    min_improvement: float | None = None
    max_iterations: int | None = None
    resume: str | None = None
    yes: bool = False
    as_json: bool = False
    quiet: bool = False
    output: str | None = None
    root: str | None = None

    @classmethod
    def parse(cls, args: tuple[str, ...], **options: object) -> OptimizeArguments:
        """Check that the options are consistent.

        Raises:
            LabError: Two options exclude each other, or an option applies to applications only.
        """
        found = cls(args, **options)  # type: ignore[arg-type]
        if found.as_json and found.quiet:
            raise LabError("--json and --quiet exclude each other", hint="use one of them")
        if found.resume is not None:
            changing = [name for name, value in vars(found).items() if value and name not in _WITH_RESUME]
            if changing:
                raise LabError(
                    f"--resume resumes a run with its stored settings and cannot be combined with {', '.join(changing)}",
                    hint="omit them, or start a new run",
                )
            return found
        given = [name for name, value in {**found.application_options(), "--root": found.root}.items() if value]
        if not found.is_application and given:
            raise LabError(
                f"{given[0]} applies to applications only",
                where=args[0] if args else None,
                hint='rocm-perf optimize ./app --source kernel.hip --build "hipcc -O3 {source} -o {binary}"',
            )
        return found

    @property
    def is_application(self) -> bool:
        """Return whether a command line follows the overrides."""
        return bool(self.command)

    @property
    def display(self) -> str | None:
        """Output format; None prints tables."""
        return "json" if self.as_json else "runtime" if self.quiet else None

    def overrides(self) -> list[str]:
        """Return the overrides of the configuration."""
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
            return ["job=optimize", *self.args, *common]
        root = [f"job.root={quoted(str(Path(self.root).absolute()))}"] if self.root else []
        given = map(application_setting, self.settings)
        return ["job=optimize_application", *self.application_overrides(), *root, *given, *common]
