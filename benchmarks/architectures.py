"""Cost of adding gfx950, and the timing parameters of its family: `python -m benchmarks.architectures`.

Lines of the commits whose message names gfx950 or its products, by kind; many of them add gfx90a as well. The last column counts
the lines of committed files whose names contain those of gfx950 or its products.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.figures import REPOSITORY, Publisher
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES = "gfx950|CDNA4|MI35[05]"
OWN_FILES = re.compile("gfx950|cdna4|mi35[05]", re.IGNORECASE)
KINDS = {
    "data": re.compile(r"(rocm_perf_lab|conf)/.*\.yaml"),
    "code, Python": re.compile(r"rocm_perf_lab/.*\.py"),
    "code, C": re.compile(r"rocm_perf_lab/.*\.[ch]"),
    "tests": re.compile(r"tests/(?!data/).*\.(py|hip)"),
}
PRODUCTS = ("mi250x", "mi300x", "mi355x")


@dataclass
class LineCount:
    """Files that commits changed, and the lines that they added and removed."""

    files: set[str] = field(default_factory=set)
    added: int = 0
    removed: int = 0


def main(arguments: list[str] | None = None) -> None:
    """Count, print and write both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.architectures", description=(__doc__ or "").partition("\n")[0])
    publisher = Publisher("architectures", parser, arguments)
    commits = _git("log", "--format=%h", "--extended-regexp", f"--grep={NAMES}").split()
    counts, own = changed_lines(commits), own_lines()
    rows = {
        kind: (kind, str(len(counts[kind].files)), f"{counts[kind].added:,}", f"{counts[kind].removed:,}", f"{own[kind]:,}")
        for kind in KINDS
    }
    columns = ("kind", "files", "lines added", "lines removed", "lines of files only for gfx950")
    publisher.publish("lines of the commits that name gfx950", columns, rows, {"commits": commits})
    publisher.publish("timing parameters", ("parameter", *PRODUCTS), parameters(), suffix="_timing")


def changed_lines(commits: Iterable[str]) -> dict[str, LineCount]:
    """Return the lines that commits changed, by kind."""
    counts: dict[str, LineCount] = defaultdict(LineCount)
    for commit in commits:
        for line in _git("show", "--numstat", "--no-renames", "--format=", commit).splitlines():
            added, removed, path = line.split("\t")
            kind = _kind(path)
            if kind is not None:
                counts[kind].files.add(path)
                counts[kind].added += int(added)
                counts[kind].removed += int(removed)
    return counts


def own_lines() -> dict[str, int]:
    """Return the lines of committed files whose names contain those of gfx950 or its products, by kind."""
    counts = dict.fromkeys(KINDS, 0)
    for path in _git("ls-files").splitlines():
        kind = _kind(path)
        if kind is not None and OWN_FILES.search(path):
            counts[kind] += len((REPOSITORY / path).read_text().splitlines())
    return counts


def parameters() -> dict[str, tuple[str, ...]]:
    """Return the timing parameters of the products by name."""
    timings = [timing.model_dump() for name in PRODUCTS if (timing := load_target(name).timing) is not None]
    names = [name for name, value in timings[0].items() if not isinstance(value, dict)]
    return {name: (name, *("passes" if one[name] is None else str(one[name]) for one in timings)) for name in names}


def _kind(path: str) -> str | None:
    return next((kind for kind, pattern in KINDS.items() if pattern.fullmatch(path)), None)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(REPOSITORY), *arguments], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
