"""`rocm-perf lineage`: which proposal came from which, what became of it, and the patch that won."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.syntax import Syntax
from rich.tree import Tree

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.resume import JOURNAL, Journal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from rocm_perf_lab.optimize.proposal import Verdict


class LineageError(LabError):
    """A directory without an optimization."""


@dataclass(frozen=True)
class Node:
    """One proposal and those that were made from it; `id` of the baseline too."""

    id: str
    description: str
    outcome: str
    reason: str
    improvement: float | None
    children: tuple[Node, ...]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        own = {name: value for name, value in vars(self).items() if name != "children"}
        return {**own, "children": [child.document() for child in self.children]}


def show_lineage(console: Console, directory: Path, *, with_diff: bool, as_json: bool) -> None:
    """Print the tree.

    Args:
        console: Where to.
        directory: Of a run; an interrupted one has a lineage too.
        with_diff: The winning patch as well.
        as_json: One document on standard output.

    Raises:
        LineageError: There was no optimization, or it is damaged.
    """
    rows, baseline, summary = _read(directory)
    root = Node(baseline, "the source as it is", "baseline", "", None, _children(baseline, rows))
    diff = _diff(directory, summary) if with_diff else None
    if as_json:
        document = {
            "schema_version": "1.0",
            "run": str(directory),
            "finished": summary is not None,
            "speedup": summary["speedup"] if summary else None,
            "time_kind": summary["time_kind"] if summary else None,
            "stop_reason": summary["stop_reason"] if summary else None,
            "best": summary["best"]["proposal"] if summary else None,
            "tree": root.document(),
            **({"diff": diff} if with_diff else {}),
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    console.print(_drawn(root))
    if summary is None:
        console.print(f"[yellow]interrupted[/]: rocm-perf optimize --resume {escape(str(directory))}", soft_wrap=True)
    else:
        console.print(
            f"[bold]speed-up[/] {summary['speedup']:.2f}x ({summary['time_kind']}); stopped: {escape(summary['stop_reason'])}"
        )
    if diff is not None:
        _print_diff(console, diff)


def _print_diff(console: Console, diff: str) -> None:
    """Coloured on a terminal; elsewhere as it is, for `patch`."""
    if not diff:
        console.print("the source is as it was: nothing was accepted")
    elif console.is_terminal:
        console.print(Syntax(diff, "diff"))
    else:
        console.file.write(diff)


def _read(directory: Path) -> tuple[list[Mapping[str, Any]], str, Mapping[str, Any] | None]:
    """Rows of verdicts, the baseline's id, and optimize.json where the run has ended."""
    path = directory / "optimize.json"
    if path.is_file():
        try:
            summary: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            rows, baseline = list(summary["verdicts"]), str(summary["baseline"]["proposal"])
        except (ValueError, KeyError, TypeError) as error:
            raise LineageError(
                "this is no optimize.json", where=str(path), hint="give the directory of an optimization"
            ) from error
        return rows, baseline, summary
    if not (directory / JOURNAL).is_file():
        raise LineageError(
            "there is no optimization in this directory",
            where=str(directory),
            hint="give the directory of a run of rocm-perf optimize: outputs/<date>/<time>-optimize-<kernel>",
        )
    journal = Journal(directory / JOURNAL)
    if journal.beginning is None:
        raise LineageError("this run ended before its first proposal", where=str(directory), hint="start a new run")
    return [_row(verdict) for verdict in journal.verdicts], journal.beginning.baseline, None


def _row(verdict: Verdict) -> Mapping[str, Any]:
    return {
        "proposal": verdict.proposal.id,
        "parent": verdict.proposal.parent_id,
        "description": verdict.proposal.description,
        "accepted": False,  # which of a round wins is known at its end alone
        "unsettled": verdict.accepted,
        "stage": verdict.stage,
        "reason": verdict.reason,
        "improvement": verdict.improvement,
    }


def _children(parent: str, rows: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """In the order of their verdicts. Parents are judged before their children, so there is no circle."""
    found = []
    for number, row in enumerate(rows):
        if (row["parent"] or "") == parent:
            later = [other for other in rows[number + 1 :] if other["proposal"] != row["proposal"]]
            outcome = _outcome(row)
            node = Node(
                row["proposal"],
                row["description"],
                outcome,
                row["reason"],
                row["improvement"],
                _children(row["proposal"], later) if row["proposal"] != parent else (),
            )
            found.append(node)
    return tuple(found)


def _outcome(row: Mapping[str, Any]) -> str:
    """In the words of the run itself: what ran is rolled back, what never did is rejected."""
    if row["accepted"]:
        return "accepted"
    if row.get("unsettled"):
        return "clears the bar"
    return "rolled back" if row["stage"] in ("verification", "measurement") else f"rejected: {row['stage']}"


def _drawn(node: Node) -> Tree:
    tree = Tree(_label(node))
    for child in node.children:
        tree.add(_drawn(child))
    return tree


def _label(node: Node) -> str:
    gain = f" [bold]{node.improvement:+.1%}[/]" if node.improvement is not None else ""
    colour = {"accepted": "green", "baseline": "bold"}.get(node.outcome, "dim")
    first = node.reason.splitlines()[0] if node.reason else ""
    told = f" {escape(first)}" if first and node.outcome != "accepted" else ""
    return f"[{colour}]{node.outcome}[/] {escape(node.description)}{gain} [dim]{node.id}{told}[/]"


def _diff(directory: Path, summary: Mapping[str, Any] | None) -> str:
    if summary is None:
        raise LineageError("an interrupted run has no winner yet", where=str(directory), hint="go on with it first")
    patch = directory / f"{summary['best']['source']}.diff"
    try:
        return patch.read_text(encoding="utf-8")
    except OSError as error:
        raise LineageError(f"the winning patch cannot be read: {error.strerror}", where=str(patch)) from error
