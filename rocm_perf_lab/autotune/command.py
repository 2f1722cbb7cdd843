"""A command line as an objective: a template like `./kernel --bm {BLOCK_M}` is run and timed for each configuration."""

from __future__ import annotations

import shlex
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.clocks import CommandFailed, CommandKilled
from rocm_perf_lab.autotune.cutoff import Cutoff
from rocm_perf_lab.autotune.objective import Infeasible, Measurement, Preempted
from rocm_perf_lab.autotune.repeats import Gate, measure
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocm_perf_lab.autotune.clocks import Clock
    from rocm_perf_lab.autotune.printed_metrics import PrintedMetrics
    from rocm_perf_lab.autotune.spaces.space import Configuration


class TemplateError(LabError):
    """Invalid command template."""


@dataclass(frozen=True)
class CommandTemplate:
    """Command line with placeholders. A value is always one argument; `{{` and `}}` are literal braces."""

    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, names: Iterable[str]) -> CommandTemplate:
        """Split a template like a shell, and check its placeholders.

        Raises:
            TemplateError: Quotes or braces are unbalanced, or the space does not have a placeholder.
        """
        known = sorted(names)
        try:
            arguments = tuple(shlex.split(text))
            fields = [found for argument in arguments for found in string.Formatter().parse(argument) if found[1] is not None]
        except ValueError as error:
            raise TemplateError(
                f"the command template cannot be read: {error}", where=text, hint="balance quotes and braces"
            ) from error
        if not arguments:
            raise TemplateError(
                "the command template is empty", where="--cmd-template", hint="for example './kernel --bm {BLOCK_M}'"
            )
        for _, name, form, conversion in fields:
            if name not in known or form or conversion:
                shown = "{" + str(name) + "}"
                raise TemplateError(
                    f"the template has the placeholder {shown}, which the space does not have",
                    where=text,
                    hint=f"placeholders: {', '.join('{' + name + '}' for name in known)}; write {{{{ and }}}} for literal braces",
                )
        return cls(arguments)

    def fill(self, configuration: Configuration) -> tuple[str, ...]:
        """Return the command of one configuration; booleans become `true` and `false`."""
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in configuration.items()}
        return tuple(argument.format_map(texts) for argument in self.arguments)


@dataclass(frozen=True)
class CommandObjective:
    """Objective that times a command.

    If the command fails, the last line of its output is the reason.

    Args:
        template: Command line with placeholders.
        clock: Time source.
        gate: Number of repetitions.
        deterministic: Whether all runs of a configuration have equal times.
        printed: Metrics that the command prints, or None.
        cutoff: Limit of wall-clock time of one run, relative to the best configuration.
    """

    template: CommandTemplate
    clock: Clock
    gate: Gate
    deterministic: bool = False
    printed: PrintedMetrics | None = None
    cutoff: Cutoff = field(default_factory=Cutoff)

    @property
    def time_kind(self) -> str:
        """`measured`, or `emulated` if the profiler's database is of an emulator."""
        return self.clock.time_kind

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible | Preempted:
        """Measure one configuration."""
        arguments = self.template.fill(configuration)
        try:
            found = measure(lambda runs: self._times_ms(arguments, runs), self.gate, deterministic=self.deterministic)
        except CommandFailed as error:
            self.cutoff.finished(None)
            if self.printed is not None:
                self.printed.take()
            return Preempted(error.what) if isinstance(error, CommandKilled) else Infeasible(error.what)
        self.cutoff.finished(found.runtime_ms)
        metrics = self.printed.take() if self.printed is not None else {}
        return Measurement(found.runtime_ms, {**found.details, **metrics, "command": shlex.join(arguments)})

    def sample(self, configuration: Configuration, runs: int) -> tuple[float, ...] | Infeasible:
        """Return further times of a configuration in ms."""
        try:
            return self._times_ms(self.template.fill(configuration), runs)
        except CommandFailed as error:
            return Infeasible(error.what)

    def _times_ms(self, arguments: tuple[str, ...], runs: int) -> tuple[float, ...]:
        with self.cutoff.measuring(runs):
            return self.clock.times_ms(arguments, runs, self.cutoff.limit_s)
