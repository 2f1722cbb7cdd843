"""Dependency files for make and ninja: the compiler options -MD, -MMD, -MF, -MT, -MQ and -MP."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_WANTED, _PHONY = ("-MD", "-MMD"), "-MP"
_FILE, _TARGET, _QUOTED_TARGET = "-MF", "-MT", "-MQ"


@dataclass(frozen=True)
class DependencyOptions:
    """Dependency file of a compilation, and the targets of its rule."""

    is_wanted: bool = False
    file: Path | None = None
    """None: next to the output, with the suffix `.d`."""
    targets: tuple[str, ...] = ()
    """Targets of the rule, quoted for make; empty: the output."""
    has_phony_targets: bool = False
    """Whether headers become phony targets, so that make does not fail if one is removed."""

    @classmethod
    def take(cls, words: Sequence[str]) -> tuple[Self, list[str]]:
        """Return the dependency options among compiler arguments, and the other arguments.

        Raises:
            LabError: An option has no value.
        """
        rest, others, targets = list(words), list[str](), list[str]()
        file = None
        while rest:
            word = rest.pop(0)
            option = next((name for name in (_FILE, _TARGET, _QUOTED_TARGET) if word.startswith(name)), None)
            if option is None:
                others.append(word)
                continue
            if word == option and not rest:
                raise LabError(f"{option} has no value", where="rocm-perf hipcc")
            value = word.removeprefix(option) or rest.pop(0)
            if option == _FILE:
                file = Path(value)
            else:
                targets.append(_quoted(value) if option == _QUOTED_TARGET else value)
        is_wanted = any(word in _WANTED for word in others)
        kept = [word for word in others if word not in (*_WANTED, _PHONY)]
        return cls(is_wanted, file, tuple(targets), _PHONY in others), kept

    def write(self, output: Path, dependencies: Sequence[Path]) -> None:
        """Write the dependency file of an output, if requested, without system headers.

        Raises:
            LabError: The file cannot be written.
        """
        if not self.is_wanted:
            return
        phony = [f"{_quoted(str(path))}:\n" for path in dependencies[1:]] if self.has_phony_targets else []
        file = self.file or output.with_suffix(".d")
        try:
            write_text(file, f"{rule(' '.join(self.targets) or _quoted(str(output)), dependencies)}{''.join(phony)}")
        except OSError as error:
            raise LabError(f"the dependency file cannot be written: {error.strerror}", where=str(file)) from error


def rule(target: str, dependencies: Sequence[Path]) -> str:
    """Return a make rule for a target, which must be quoted."""
    return " \\\n  ".join((f"{target}:", *(_quoted(str(path)) for path in dependencies))) + "\n"


def _quoted(name: str) -> str:
    """Return a file name quoted for make."""
    return re.sub(r"([ #])", r"\\\1", name).replace("$", "$$")
