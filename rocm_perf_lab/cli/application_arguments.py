"""Arguments shared by the commands for applications: overrides, a command line, and options for build and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile

from rocm_perf_lab.config.overrides import is_override, quoted, quoted_list


@dataclass(frozen=True)
class ApplicationArguments:
    """Arguments and the options that apply to applications only."""

    args: tuple[str, ...]
    source: str | None = None
    build_command: str | None = None
    verify: str | None = None
    compare_files: tuple[str, ...] = ()
    kernel: str | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """Command line of the application; empty for a described kernel."""
        return tuple(dropwhile(is_override, self.args))

    @property
    def settings(self) -> tuple[str, ...]:
        """Configuration overrides that precede the command line."""
        return self.args[: len(self.args) - len(self.command)]

    def application_options(self) -> dict[str, object]:
        """Return the values of the options that apply to applications only, by option."""
        return {
            "--source": self.source,
            "--build": self.build_command,
            "--verify": self.verify,
            "--compare-file": self.compare_files,
            "--kernel": self.kernel,
        }

    def application_overrides(self) -> list[str]:
        """Return the overrides that describe the application."""
        settings = {"source": self.source, "build": self.build_command, "verify": self.verify, "kernel": self.kernel}
        return [
            f"job.command={quoted_list(self.command)}",
            *(f"job.{name}={quoted(value)}" for name, value in settings.items() if value),
            f"job.compare_files={quoted_list(self.compare_files)}",
        ]
