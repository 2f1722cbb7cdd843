"""Arguments of `rocm-perf verify`, translated to overrides of the configuration.

Overrides come first; the first argument that is not an override starts the command line of an application.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile

from rocm_perf_lab.cli.overrides import is_override, quoted
from rocm_perf_lab.core.errors import LabError


@dataclass(frozen=True)
class VerifyArguments:
    """Arguments and options of `rocm-perf verify`."""

    args: tuple[str, ...]
    candidates: tuple[str, ...] = ()
    seed: int | None = None
    source: str | None = None
    build_command: str | None = None
    argument_sets: tuple[str, ...] = ()
    verify: str | None = None
    compare_files: tuple[str, ...] = ()
    kernel: str | None = None
    as_json: bool = False
    output: str | None = None

    @classmethod
    def parse(cls, args: tuple[str, ...], **options: object) -> VerifyArguments:
        """Check that the options are consistent.

        Raises:
            LabError: There is no kernel, or an option does not apply.
        """
        found = cls(args, **options)  # type: ignore[arg-type]
        if not args:
            raise LabError("no kernel to verify", hint="rocm-perf verify kernel=NAME --candidate new.hip")
        first = next(iter(found.command), "")
        if first.startswith("-"):
            raise LabError(
                f"there is no option {first}", where="rocm-perf verify", hint="write the application before its options"
            )
        only_application = {
            "--source": found.source,
            "--build": found.build_command,
            "--args": found.argument_sets,
            "--verify": found.verify,
            "--compare-file": found.compare_files,
            "--kernel": found.kernel,
        }
        given = [name for name, value in only_application.items() if value]
        if not found.command and given:
            raise LabError(
                f"{given[0]} applies to applications only",
                where=args[0],
                hint="rocm-perf verify ./app --source kernel.hip --candidate new.hip",
            )
        if found.command and found.seed is not None:
            raise LabError(
                "--seed applies to described kernels only", where=first, hint="an application is tried with its own inputs"
            )
        return found

    @property
    def command(self) -> tuple[str, ...]:
        """Command line of the application; empty for a described kernel."""
        return tuple(dropwhile(is_override, self.args))

    def overrides(self) -> list[str]:
        """Return the overrides of the configuration. Runs are tracked only if an argument selects `tracking`."""
        files = ",".join(quoted(name) for name in self.candidates)
        common = [
            f"job.candidates=[{files}]",
            *([f"optimizer.verification.seed={self.seed}"] if self.seed is not None else []),
            *(["display=json"] if self.as_json else []),
            *([f"hydra.run.dir={quoted(self.output)}"] if self.output else []),
        ]
        if not self.command:
            return ["tracking=none", *self.args, "job=verify", *common]
        return ["job=verify_application", "tracking=none", *self._of_application(), *self.args[: -len(self.command)], *common]

    def _of_application(self) -> list[str]:
        command = ",".join(quoted(argument) for argument in self.command)
        sets = ",".join(quoted(text) for text in self.argument_sets)
        files = ",".join(quoted(name) for name in self.compare_files)
        return [
            f"job.command=[{command}]",
            *([f"job.source={quoted(self.source)}"] if self.source else []),
            *([f"job.build={quoted(self.build_command)}"] if self.build_command else []),
            *([f"job.verify={quoted(self.verify)}"] if self.verify else []),
            f"job.argument_sets=[{sets}]",
            f"job.compare_files=[{files}]",
            *([f"job.kernel={quoted(self.kernel)}"] if self.kernel else []),
        ]
