"""A command line as an objective: a template like `./kernel --bm {BLOCK_M}`, run once per configuration and timed."""

from __future__ import annotations

import shlex
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.autotune.clocks import CommandFailed
from rocm_perf_lab.autotune.objective import Infeasible, Measurement
from rocm_perf_lab.autotune.repeats import Gate, measure
from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rocm_perf_lab.autotune.clocks import Clock
    from rocm_perf_lab.autotune.space import Configuration


class TemplateError(LabError):
    """A command template that cannot be filled."""


@dataclass(frozen=True)
class CommandTemplate:
    """Words with placeholders; a value stays one word, whatever is in it. `{{` and `}}` stand for braces."""

    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, names: Iterable[str]) -> CommandTemplate:
        """Split into words as a shell does, and check the placeholders.

        Raises:
            TemplateError: Unbalanced quotes or braces, or a placeholder that the space lacks.
        """
        known = sorted(names)
        try:
            words = tuple(shlex.split(text))
            fields = [found for word in words for found in string.Formatter().parse(word) if found[1] is not None]
        except ValueError as error:
            raise TemplateError(
                f"the command template cannot be read: {error}", where=text, hint="balance quotes and braces"
            ) from error
        if not words:
            raise TemplateError(
                "the command template is empty", where="--cmd-template", hint="for example './kernel --bm {BLOCK_M}'"
            )
        for _, name, form, conversion in fields:
            if name not in known or form or conversion:
                shown = "{" + str(name) + "}"
                raise TemplateError(
                    f"the template names {shown}, which the space does not have",
                    where=text,
                    hint=f"placeholders: {', '.join('{' + name + '}' for name in known)}; write {{{{ and }}}} for braces",
                )
        return cls(words)

    def fill(self, configuration: Configuration) -> tuple[str, ...]:
        """The command of one configuration; true and false are written so."""
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in configuration.items()}
        return tuple(word.format_map(texts) for word in self.words)


@dataclass(frozen=True)
class CommandObjective:
    """Times a command for each configuration. One that fails is infeasible, with the last line that it said."""

    template: CommandTemplate
    clock: Clock
    gate: Gate
    deterministic: bool = False

    @property
    def time_kind(self) -> str:
        """`measured`, or `emulated` where the profiler's database says so."""
        return self.clock.time_kind

    def __call__(self, configuration: Configuration) -> Measurement | Infeasible:
        """Measure one configuration."""
        words = self.template.fill(configuration)
        try:
            found = measure(lambda runs: self.clock.times_ms(words, runs), self.gate, deterministic=False)
        except CommandFailed as error:
            return Infeasible(error.what)
        return Measurement(found.runtime_ms, {**found.details, "command": shlex.join(words)})

    def sample(self, configuration: Configuration, runs: int) -> tuple[float, ...] | Infeasible:
        """More times of a configuration, in ms."""
        try:
            return self.clock.times_ms(self.template.fill(configuration), runs)
        except CommandFailed as error:
            return Infeasible(error.what)
