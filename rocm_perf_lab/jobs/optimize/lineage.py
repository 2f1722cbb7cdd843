"""`rocm-perf lineage`: the tree of proposals of an optimization, their verdicts, and the best patch."""

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
    """Directory without an optimization, or with a damaged one."""


@dataclass(frozen=True)
class LineageNode:
    """One proposal, or the baseline, and the proposals derived from it."""

    id: str
    description: str
    outcome: str
    reason: str
    improvement: float | None
    children: tuple[LineageNode, ...]

    def document(self) -> dict[str, Any]:
        """Return the tree as a JSON document."""
        own = {name: value for name, value in vars(self).items() if name != "children"}
        return {**own, "children": [child.document() for child in self.children]}


def show_lineage(console: Console, directory: Path, *, with_diff: bool, as_json: bool) -> None:
    """Print the tree of proposals.

    Args:
        console: Output.
        directory: Directory of a run, which may be interrupted.
        with_diff: Also print the best patch.
        as_json: Write one JSON document to standard output instead.

    Raises:
        LineageError: The directory contains no optimization, or a damaged one.
    """
    rows, baseline, summary = _read(directory)
    root = LineageNode(baseline, "the unmodified source", "baseline", "", None, _children(baseline, rows))
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
        speedup = "indistinguishable" if summary.get("indistinguishable") else f"{summary['speedup']:.2f}x"
        console.print(f"[bold]speed-up[/] {speedup} ({summary['time_kind']}); stopped: {escape(summary['stop_reason'])}")
    if diff is not None:
        _print_diff(console, diff)


def _print_diff(console: Console, diff: str) -> None:
    """Print a patch, coloured on a terminal and verbatim elsewhere."""
    if not diff:
        console.print("the source did not change: no proposal was accepted")
    elif console.is_terminal:
        console.print(Syntax(diff, "diff"))
    else:
        console.file.write(diff)


def _read(directory: Path) -> tuple[list[Mapping[str, Any]], str, Mapping[str, Any] | None]:
    """Return rows of verdicts, the id of the baseline, and the content of optimize.json if the run is finished."""
    path = directory / "optimize.json"
    if path.is_file():
        try:
            summary: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            rows, baseline = list(summary["verdicts"]), str(summary["baseline"]["proposal"])
        except (ValueError, KeyError, TypeError) as error:
            raise LineageError(
                "this is not a valid optimize.json", where=str(path), hint="pass the directory of an optimization"
            ) from error
        return rows, baseline, summary
    if not (directory / JOURNAL).is_file():
        raise LineageError(
            "this directory does not contain an optimization",
            where=str(directory),
            hint="pass the directory of a run of rocm-perf optimize: outputs/<date>/<time>-optimize-<kernel>",
        )
    journal = Journal(directory / JOURNAL)
    if journal.header is None:
        raise LineageError("this run ended before its first proposal", where=str(directory), hint="start a new run")
    return [_row(verdict) for verdict in journal.verdicts], journal.header.baseline, None


def _row(verdict: Verdict) -> Mapping[str, Any]:
    return {
        "proposal": verdict.proposal.id,
        "parent": verdict.proposal.parent_id,
        "description": verdict.proposal.description,
        "accepted": False,  # The accepted proposal of a round is known only at its end.
        "unsettled": verdict.accepted,
        "stage": verdict.stage,
        "reason": verdict.reason,
        "improvement": verdict.improvement,
    }


def _children(parent: str, rows: Sequence[Mapping[str, Any]]) -> tuple[LineageNode, ...]:
    """Return the children of a proposal in evaluation order. Parents precede their children, so the recursion ends."""
    found = []
    for number, row in enumerate(rows):
        if (row["parent"] or "") == parent:
            later = [other for other in rows[number + 1 :] if other["proposal"] != row["proposal"]]
            outcome = _outcome(row)
            node = LineageNode(
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
    """Return `rolled back` for proposals that were measured, and `rejected` for those that were not."""
    if row["accepted"]:
        return "accepted"
    if row.get("unsettled"):
        return "fast enough"
    return "rolled back" if row["stage"] in ("verification", "measurement") else f"rejected: {row['stage']}"


def _drawn(node: LineageNode) -> Tree:
    tree = Tree(_label(node))
    for child in node.children:
        tree.add(_drawn(child))
    return tree


def _label(node: LineageNode) -> str:
    gain = f" [bold]{node.improvement:+.1%}[/]" if node.improvement is not None else ""
    colour = {"accepted": "green", "baseline": "bold"}.get(node.outcome, "dim")
    first = node.reason.splitlines()[0] if node.reason else ""
    reason = f" {escape(first)}" if first and node.outcome != "accepted" else ""
    return f"[{colour}]{node.outcome}[/] {escape(node.description)}{gain} [dim]{node.id}{reason}[/]"


def _diff(directory: Path, summary: Mapping[str, Any] | None) -> str:
    if summary is None:
        raise LineageError("an interrupted run has no best patch yet", where=str(directory), hint="resume the run first")
    patch = directory / f"{summary['best']['source']}.diff"
    try:
        return patch.read_text(encoding="utf-8")
    except OSError as error:
        raise LineageError(f"the best patch cannot be read: {error.strerror}", where=str(patch)) from error
