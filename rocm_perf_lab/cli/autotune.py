"""`rocm-perf autotune`: arguments and options as overrides of the autotune job, or as changes to a resumed run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from rocm_perf_lab.cli.completion import complete_overrides, complete_spaces
from rocm_perf_lab.cli.exit_codes import answer
from rocm_perf_lab.cli.options import DEBUG
from rocm_perf_lab.config.overrides import application_setting, quoted
from rocm_perf_lab.core.errors import LabError

_COMMANDS_OUTPUT = "outputs/${now:%Y-%m-%d}/${now:%H-%M-%S-%f}-autotune-command"


@click.command(short_help="Find the fastest configuration of a kernel or command.")
@click.argument("args", nargs=-1, metavar="[ARGS]...", shell_complete=complete_overrides)
@click.option(
    "--space",
    type=click.Path(),
    metavar="FILE",
    shell_complete=complete_spaces,
    help="YAML space, or JSON list of configurations.",
)
@click.option("--cmd-template", metavar="TEXT", help="Command to tune: './kernel --bm {BLOCK_M}'.")
@click.option("--budget", type=click.IntRange(min=1), help="Configurations to evaluate, including those of a resumed run.")
@click.option("--seed", type=click.IntRange(min=0), help="Random seed; the same seed repeats the same search.")
@click.option("--timing", type=click.Choice(["auto", "rocprof", "printed", "wall"]), help="Time source for a command.")
@click.option(
    "--time-regex", metavar="REGEX", help="Regular expression for a time in the command's output; its group matches the number."
)
@click.option("--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Unit of the printed number (default: ms).")
@click.option(
    "--kernel", metavar="REGEX", help="Kernel of the command to time (default: the one with the longest exclusive time)."
)
@click.option("--root", type=click.Path(), metavar="DIR", help="ROCm directory tree for the emulated GPU (see make rocm-root).")
@click.option("--runs", type=click.IntRange(min=1), help="Measurements per round.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Time limit of one run of a command.")
@click.option(
    "--resume", type=click.Path(file_okay=False), metavar="RUN", help="Resume a run; completed measurements are not repeated."
)
@click.option("--output", type=click.Path(file_okay=False), metavar="DIR", help="Directory of the run.")
@click.option("--json", "as_json", is_flag=True, help="Print only autotune.json.")
@DEBUG
def autotune(args: tuple[str, ...], debug: bool, **options: Any) -> None:
    """Find the fastest configuration of a kernel, or of any command.

    \b
    rocm-perf autotune kernel=gemm_triton --space conf/space/gemm.yaml
    rocm-perf autotune --space space.json --cmd-template "./app --bm {BLOCK_M}"
    rocm-perf autotune --resume RUN --budget 200
    """

    def run() -> None:
        parsed = AutotuneArguments.parse(args, **options)
        if parsed.resume is None:
            from rocm_perf_lab.cli.entry import run_hydra

            run_hydra(parsed.overrides())
        else:
            from rocm_perf_lab.jobs.autotune.resume import resume

            resume(parsed.resume, parsed.changes())

    answer(run, debug=debug)


@dataclass(frozen=True)
class AutotuneArguments:
    """Arguments and options of `rocm-perf autotune`."""

    args: tuple[str, ...]
    space: str | None = None
    cmd_template: str | None = None
    budget: int | None = None
    seed: int | None = None
    timing: str | None = None
    time_regex: str | None = None
    time_unit: str | None = None
    kernel: str | None = None
    root: str | None = None
    runs: int | None = None
    timeout: float | None = None
    resume: Path | None = None
    output: str | None = None
    as_json: bool = False

    @classmethod
    def parse(cls, args: tuple[str, ...], **options: Any) -> AutotuneArguments:
        """Check that the options fit together.

        Raises:
            LabError: Neither a kernel nor a command nor a run is selected, or options exclude each other.
        """
        resume = options.pop("resume")
        found = cls(args, resume=Path(resume) if resume is not None else None, **options)
        if found.resume is not None:
            found._check_resume()
        else:
            found._check_new_run()
        return found

    def _of_commands(self) -> list[str]:
        """Return the given options that apply to commands only."""
        options = {
            "--timing": self.timing,
            "--time-regex": self.time_regex,
            "--time-unit": self.time_unit,
            "--kernel": self.kernel,
            "--timeout": self.timeout,
            "--root": self.root,
        }
        return [name for name, value in options.items() if value is not None]

    def _check_resume(self) -> None:
        fixed = {"--cmd-template": self.cmd_template, "--seed": self.seed, "--output": self.output, "--runs": self.runs}
        given = [*self._of_commands(), *self.args, *(name for name, value in fixed.items() if value is not None)]
        if given:
            raise LabError(
                f"{given[0]} cannot change in a resumed run",
                where="--resume",
                hint="--resume accepts --budget, --space and --json",
            )

    def _check_new_run(self) -> None:
        of_commands = self._of_commands()
        if self.cmd_template is None:
            if not any(argument.startswith("kernel=") for argument in self.args):
                hint = "pass kernel=NAME, or --space FILE --cmd-template COMMAND, or --resume RUN"
                raise LabError("no kernel, command or run to tune", hint=hint)
            if of_commands:
                hint = "a described kernel is timed by its device"
                raise LabError(f"{of_commands[0]} applies to commands only", where=self.args[0], hint=hint)
        elif self.space is None and not any("space=" in argument for argument in self.args):
            raise LabError("a command needs a space", where="--cmd-template", hint="add --space search_space.json")

    def overrides(self) -> list[str]:
        """Return the overrides for Hydra."""
        is_command = self.cmd_template is not None
        settings = {
            "autotune.space": self._space_override(),
            "autotune.budget": self.budget,
            "autotune.seed": self.seed,
            "job.command": quoted(self.cmd_template) if self.cmd_template is not None else None,
            "job.timing": self.timing,
            "job.time_regex": quoted(self.time_regex) if self.time_regex is not None else None,
            "job.time_unit": self.time_unit,
            "job.kernel": quoted(self.kernel) if self.kernel is not None else None,
            "job.root": quoted(str(Path(self.root).absolute())) if self.root is not None else None,
            "job.runs" if is_command else "passes.runs": self.runs,
            "job.timeout_s": self.timeout,
            "hydra.run.dir": quoted(self.output) if self.output else _COMMANDS_OUTPUT if is_command else None,
            "display": "json" if self.as_json else None,
        }
        words = [application_setting(word) for word in self.args] if is_command else self.args
        return ["job=autotune", *(f"{key}={value}" for key, value in settings.items() if value is not None), *words]

    def _space_override(self) -> str | None:
        if not self.space:
            return None
        path = Path(self.space)
        return quoted(
            str(path.absolute()) if path.exists() else self.space
        )  # A file that does not exist here may be one of the installed spaces.

    def changes(self) -> dict[str, Any]:
        """Return the changed keys of the resumed run's configuration, with their new values."""
        changes: dict[str, Any] = {"display": "json" if self.as_json else "table"}
        if self.budget is not None:
            changes["autotune.budget"] = self.budget
        if self.space is not None:
            changes["autotune.space"] = self.space
        return changes
