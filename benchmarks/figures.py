"""Results of benchmarks: printed, stored with their origin, and quoted by the documentation.

A benchmark prints a table and writes `benchmarks/results/NAME.json` through a `Publisher`, which adds date, commit, command and
machine. A page quotes stored results in a block. `python -m benchmarks.figures [PAGE]...` rewrites the blocks, and
`tests/test_evidence.py` fails if that would change a page:

    <!-- figures: emulator -->                      all rows of a result
    <!-- figures: slice/version, overhead/wall -->  chosen rows of several results
    <!-- /figures -->                               end of a block
    <!-- example: analyze tests/data/... -->        the text block below is the output of `rocm-perf` with these arguments
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.files import write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPOSITORY = Path(__file__).parent.parent
RESULTS = Path(__file__).with_name("results")
FIGURE_COLUMNS = ("figure", "value", "goal")
BUSY_LOAD_PER_CORE = 0.5
"""Load average per core above which a result is marked as measured on a busy machine."""
_BLOCK = re.compile(
    r"(?P<open><!-- figures: (?P<references>[^>]+?) -->\n)(?P<content>.*?)(?P<close><!-- /figures -->)", re.DOTALL
)

_EXAMPLE = re.compile(
    r"(?P<open><!-- example: (?P<arguments>[^>]+?) -->\n```text\n)(?P<content>.*?)(?P<close>^```)", re.DOTALL | re.MULTILINE
)
_LOCATION = "files "
"""Start of the line that names the directory of the documents, which differs from run to run."""


@dataclass(frozen=True)
class Figure:
    """One row of a result with a goal."""

    key: str
    name: str
    value: str
    goal: str = ""


@dataclass(frozen=True)
class Result:
    """A benchmark result with its origin.

    Args:
        title: Heading of the printed table.
        command: Command that produced the result.
        date: Day of the measurement, ISO 8601.
        commit: Abbreviated commit, with `-dirty` if the checkout had changes.
        machine: Cores, architecture, memory and GPU.
        busy: Whether other processes competed for the processor when the benchmark started.
        columns: Headings of `rows`.
        rows: Printed cells by row key.
        data: Unrounded values.
    """

    title: str
    command: str
    date: str
    commit: str
    machine: str
    busy: bool
    columns: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    data: Any

    @classmethod
    def load(cls, name: str) -> Result:
        """Read `benchmarks/results/NAME.json`."""
        return cls(**json.loads((RESULTS / f"{name}.json").read_text()))

    def origin(self) -> str:
        """Return command, date, commit and machine as one sentence."""
        busy = ", busy" if self.busy else ""
        return f"`{self.command}`, {self.date}, commit {self.commit}, {self.machine}{busy}."


class Publisher:
    """Output of one benchmark: a printed table and a JSON file.

    Construct it before measuring: it notes whether the machine is busy.
    """

    def __init__(self, name: str, parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> None:
        """Add `--json` to the parser and parse the arguments.

        Args:
            name: Name of the benchmark module.
            parser: Parser with the benchmark's own options.
            arguments: Command-line arguments; `sys.argv` if None.
        """
        default = RESULTS / f"{name}.json"
        parser.add_argument("--json", type=Path, default=default, help=f"file for the results (default: {_shown(default)})")
        given = list(sys.argv[1:] if arguments is None else arguments)
        self.options = parser.parse_args(given)
        self._command = shlex.join(["python", "-m", f"benchmarks.{name}", *_without_output(given)])
        self._busy = os.getloadavg()[0] > BUSY_LOAD_PER_CORE * (os.cpu_count() or 1)

    def publish(
        self,
        title: str,
        columns: Sequence[str],
        rows: Mapping[str, Sequence[str]],
        data: Any = None,
        *,
        width: int | None = None,
        suffix: str = "",
    ) -> None:
        """Print a table and write the JSON file; `suffix` is appended to its name, for benchmarks with several tables."""
        from rich.console import Console
        from rich.table import Table

        table = Table(*columns, title=title, title_justify="left")
        for row in rows.values():
            table.add_row(*row)
        Console(width=width, highlight=False).print(table)
        result = Result(
            title=title,
            command=self._command,
            date=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
            commit=_commit(),
            machine=_machine(),
            busy=self._busy,
            columns=tuple(columns),
            rows={key: tuple(row) for key, row in rows.items()},
            data=data,
        )
        path = self.options.json.with_stem(self.options.json.stem + suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n")

    def publish_figures(self, title: str, figures: Iterable[Figure], data: Any = None, *, suffix: str = "") -> None:
        """Print and write figures with their goals."""
        rows = {figure.key: (figure.name, figure.value, figure.goal) for figure in figures}
        self.publish(title, FIGURE_COLUMNS, rows, data, suffix=suffix)


def refreshed(page: Path) -> str:
    """Return the text of a page with figures rewritten from the stored results, and examples from their commands.

    Raises:
        FileNotFoundError: A block names a result that is not stored.
        KeyError: A block names a row that the result does not have.
    """
    text = _BLOCK.sub(lambda match: match["open"] + _rendered(match["references"], page) + match["close"], page.read_text())
    return _EXAMPLE.sub(lambda match: match["open"] + _output(match["arguments"]) + match["close"], text)


def without_blocks(text: str) -> str:
    """Return the text of a page without its blocks of figures."""
    return _BLOCK.sub("", text)


def _rendered(references: str, page: Path) -> str:
    names = [name.strip() for name in references.split(",")]
    if len(names) == 1 and "/" not in names[0]:
        result = Result.load(names[0])
        return f"{_table(result.columns, result.rows.values())}\n{_linked(names[0], page)}: {result.origin()}\n"
    rows = []
    for name in names:
        stored, _, key = name.partition("/")
        result = Result.load(stored)
        cells = result.rows[key]
        rows.append((cells[0], cells[1], f"{_linked(stored, page)}{', busy machine' if result.busy else ''}"))
    return _table(("figure", "value", "source"), rows)


def _output(arguments: str) -> str:
    """Return the output of `rocm-perf` at 80 columns."""
    with tempfile.TemporaryDirectory() as directory:
        program = "import sys; from rocm_perf_lab.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, *shlex.split(arguments), "--output", directory]
        environment = os.environ | {"COLUMNS": "80", "NO_COLOR": "1"}
        run = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True)
    return "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines() if not line.startswith(_LOCATION))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _linked(name: str, page: Path) -> str:
    file = os.path.relpath(RESULTS / f"{name}.json", page.resolve().parent)
    return f"[{name}]({file})"


def _without_output(arguments: Sequence[str]) -> list[str]:
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument != "--json" and not argument.startswith("--json="):
            kept.append(argument)
        skip = argument == "--json"
    return kept


def _commit() -> str:
    def git(*arguments: str) -> str:
        run = subprocess.run(["git", "-C", str(REPOSITORY), *arguments], capture_output=True, text=True, check=False)
        return run.stdout.strip()

    changes = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
    return (git("rev-parse", "--short=10", "HEAD") or "unknown") + ("-dirty" if changes else "")


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    gpu = "AMD GPU" if Path("/dev/kfd").exists() else "no GPU"
    return f"{os.cpu_count()} cores {platform.machine()}, {memory:.0f} GiB, {gpu}"


def _shown(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def main() -> None:
    """Rewrite the blocks of figures in the given pages."""
    parser = argparse.ArgumentParser(description="Rewrite the blocks of figures in Markdown pages from benchmarks/results.")
    parser.add_argument(
        "pages", type=Path, nargs="*", default=[REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
    )
    for page in parser.parse_args().pages:
        text = refreshed(page)
        if text != page.read_text():
            write_text(page, text)
            print(f"rewritten: {page}")


if __name__ == "__main__":
    main()
