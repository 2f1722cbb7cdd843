"""Arguments and options of `rocm-perf analyze`, checked before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rocm_perf_lab.core.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PATHS = ("att", "counters", "roofline_csv", "output")
_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True)
class AnalyzeRequest:
    """Arguments and options of `rocm-perf analyze`."""

    paths: tuple[Path, ...]
    att: Path | None = None
    counters: Path | None = None
    target: str | None = None
    kernel: str | None = None
    focus_critical: bool = False
    roofline: bool = False
    roofline_csv: Path | None = None
    series: bool = False
    verbose: bool = False
    as_json: bool = False
    quiet: bool = False
    output: Path | None = None

    @classmethod
    def of(cls, paths: Sequence[Path], **options: object) -> Self:
        """Create a request from options of the command line, in which paths are strings.

        Raises:
            LabError: Two options exclude each other, or a pattern matches no file.
        """
        _exclude(options, ("as_json", "quiet"), ("as_json", "verbose"), ("quiet", "verbose"))
        if options.get("series"):
            for name in ("att", "counters", "target", "focus_critical", "roofline", "roofline_csv", "verbose"):
                _exclude(options, ("series", name))
        chosen = {name: Path(str(options.pop(name))) for name in _PATHS if options.get(name)}
        plain = {name: value for name, value in options.items() if name not in _PATHS}
        return cls(tuple(_expanded(paths)), **chosen, **plain)  # type: ignore[arg-type]

    @property
    def directory(self) -> Path:
        """Directory of the documents."""
        return self.output or Path("outputs") / f"{datetime.now():%Y-%m-%d/%H-%M-%S-%f}-analyze"


def _exclude(options: dict[str, object], *pairs: tuple[str, str]) -> None:
    for first, second in pairs:
        if options.get(first) and options.get(second):
            names = [f"--{'json' if name == 'as_json' else name.replace('_', '-')}" for name in (first, second)]
            raise LabError(f"{names[0]} and {names[1]} exclude each other", hint="use one of them")


def _expanded(paths: Sequence[Path]) -> Iterable[Path]:
    """Yield the paths; patterns that the shell did not expand are replaced by the matching files."""
    for path in paths:
        if path.exists() or not _WILDCARDS & set(str(path)):
            yield path
            continue
        matches = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
        if not matches:
            raise LabError("no file matches this pattern", where=str(path), hint="check the pattern")
        yield from matches
