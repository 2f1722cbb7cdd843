"""Arguments of `rocm-perf verify`, translated to overrides of the configuration.

Overrides come first; the first argument that is not an override starts the command line of an application.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocm_perf_lab.cli.application_arguments import ApplicationArguments
from rocm_perf_lab.config.overrides import quoted, quoted_list
from rocm_perf_lab.core.errors import LabError


@dataclass(frozen=True)
class VerifyArguments(ApplicationArguments):
    """Arguments and options of `rocm-perf verify`."""

    candidates: tuple[str, ...] = ()
    seed: int | None = None
    argument_sets: tuple[str, ...] = ()
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
        given = [name for name, value in {**found.application_options(), "--args": found.argument_sets}.items() if value]
        if not found.command and given:
            raise LabError(
                f"{given[0]} applies to applications only",
                where=args[0],
                hint="rocm-perf verify ./app --source kernel.hip --candidate new.hip",
            )
        if found.command and found.seed is not None:
            raise LabError("--seed applies to described kernels only", where=first, hint="an application reads its own inputs")
        return found

    def overrides(self) -> list[str]:
        """Return the overrides of the configuration. Runs are tracked only if an argument selects `tracking`."""
        common = [
            f"job.candidates={quoted_list(self.candidates)}",
            *([f"optimizer.verification.seed={self.seed}"] if self.seed is not None else []),
            *(["display=json"] if self.as_json else []),
            *([f"hydra.run.dir={quoted(self.output)}"] if self.output else []),
        ]
        if not self.command:
            return ["tracking=none", *self.args, "job=verify", *common]
        described = [*self.application_overrides(), f"job.argument_sets={quoted_list(self.argument_sets)}"]
        return ["job=verify_application", "tracking=none", *described, *self.settings, *common]
