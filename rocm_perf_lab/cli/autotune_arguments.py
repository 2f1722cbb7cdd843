"""Words of `rocm-perf autotune` -> overrides of the configuration, or changes to that of a run which goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocm_perf_lab.cli.overrides import quoted
from rocm_perf_lab.core.errors import LabError

_COMMANDS_OUTPUT = "outputs/${now:%Y-%m-%d}/${now:%H-%M-%S-%f}-autotune-command"


@dataclass(frozen=True)
class AutotuneArguments:
    """What a user asked `rocm-perf autotune` for."""

    words: tuple[str, ...]
    space: str | None = None
    cmd_template: str | None = None
    budget: int | None = None
    seed: int | None = None
    timing: str | None = None
    time_regex: str | None = None
    time_unit: str | None = None
    kernel: str | None = None
    runs: int | None = None
    timeout: float | None = None
    resume: Path | None = None
    output: str | None = None
    as_json: bool = False

    @classmethod
    def parse(cls, words: tuple[str, ...], **options: Any) -> AutotuneArguments:
        """Check what goes together.

        Raises:
            LabError: Nothing to tune, or options that exclude each other.
        """
        resume = options.pop("resume")
        found = cls(words, resume=Path(resume) if resume is not None else None, **options)
        of_commands = {
            "--timing": found.timing,
            "--time-regex": found.time_regex,
            "--time-unit": found.time_unit,
            "--kernel": found.kernel,
            "--timeout": found.timeout,
        }
        given = [name for name, value in of_commands.items() if value is not None]
        if found.resume is not None:
            given += [
                name for name, value in (("--cmd-template", found.cmd_template), ("--seed", found.seed)) if value is not None
            ]
            given += [*words, *(["--output"] if found.output else []), *(["--runs"] if found.runs else [])]
            if given:
                raise LabError(
                    f"{given[0]} cannot change on the way", where="--resume", hint="a resumed run takes --budget and --json"
                )
        elif found.cmd_template is None and not any(word.startswith("kernel=") for word in words):
            raise LabError("nothing to tune", hint="give kernel=NAME, or --space FILE --cmd-template COMMAND, or --resume RUN")
        elif found.cmd_template is None and given:
            raise LabError(f"{given[0]} is for commands", where=words[0], hint="a described kernel is timed by its device")
        elif found.cmd_template is not None and found.space is None and not any("space=" in word for word in words):
            raise LabError("a command needs a space", where="--cmd-template", hint="add --space search_space.json")
        return found

    def overrides(self) -> list[str]:
        """For Hydra."""
        settings = {
            "autotune.space": quoted(str(Path(self.space).absolute())) if self.space and Path(self.space).exists() else None,
            "autotune.budget": self.budget,
            "autotune.seed": self.seed,
            "job.command": quoted(self.cmd_template) if self.cmd_template is not None else None,
            "job.timing": self.timing,
            "job.time_regex": quoted(self.time_regex) if self.time_regex is not None else None,
            "job.time_unit": self.time_unit,
            "job.kernel": quoted(self.kernel) if self.kernel is not None else None,
            "job.runs" if self.cmd_template is not None else "passes.runs": self.runs,
            "job.timeout_s": self.timeout,
            "hydra.run.dir": quoted(self.output) if self.output else _COMMANDS_OUTPUT if self.cmd_template is not None else None,
            "display": "json" if self.as_json else None,
        }
        if self.space and settings["autotune.space"] is None:
            settings["autotune.space"] = quoted(self.space)  # one that ships with the lab, or an error that names it
        return ["job=autotune", *(f"{key}={value}" for key, value in settings.items() if value is not None), *self.words]

    def changes(self) -> dict[str, Any]:
        """Keys of the resumed run's configuration that change, with their values."""
        changes: dict[str, Any] = {"display": "json" if self.as_json else "table"}
        if self.budget is not None:
            changes["autotune.budget"] = self.budget
        if self.space is not None:
            changes["autotune.space"] = self.space
        return changes
