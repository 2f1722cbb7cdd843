"""Results of an optimization: files, tracking and console output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.jobs.records import optimize_document
from rocm_perf_lab.jobs.show import time_text, verdict_table
from rocm_perf_lab.report.page import write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rich.console import Console

    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.jobs.records import RebuildCheck
    from rocm_perf_lab.optimize.loop import LoopResult
    from rocm_perf_lab.tracking.run import RunTracker


def write_results(
    lab: Lab,
    tracker: RunTracker,
    result: LoopResult,
    *,
    rebuild: Callable[[Path], RebuildCheck],
    isolation: str,
    word: str,
) -> None:
    """Write the best source, its patch, optimize.json and the HTML report; track and print them.

    Args:
        lab: Run.
        tracker: Tracker of the run.
        result: Result of the closed loop.
        rebuild: Compiles the stored source again.
        isolation: Description of the sandbox.
        word: `measured` or `emulated`.

    Raises:
        LabError: The stored source compiles to a different code object.
    """
    best = lab.output_dir / "best" / lab.config.kernel.source.name
    write_text(best, result.best.text)
    rebuilt = rebuild(best)
    document = optimize_document(result, word, str(best.relative_to(lab.output_dir)), rebuild=rebuilt, isolation=isolation)
    for path in (*_written(lab, result, document, best.name), best):
        tracker.log_artifact(path, "best" if path.parent.name == "best" else None)
    tracker.log_metrics(_metrics(result, word))
    tracker.set_tags(
        {
            "stop_reason": result.stop_reason,
            "best_proposal": result.best.id,
            "rebuild_identical": str(rebuilt.is_identical).lower(),
        }
    )
    _show(lab.console, result, word)
    lab.console.print(f"[bold]rebuild[/] {rebuilt}")
    lab.console.print(f"[bold]best[/]    {best}", soft_wrap=True)
    if not rebuilt.is_identical:
        raise LabError(
            "the best source does not compile to the code object that was measured, so its results are not valid",
            where=str(best),
            hint="check for __TIME__ and __DATE__, and for a compiler that is not deterministic",
        )


def _written(lab: Lab, result: LoopResult, document: Mapping[str, Any], name: str) -> tuple[Path, ...]:
    """Write optimize.json, the HTML report and the patch of the best source."""
    summary, patch = lab.output_dir / "optimize.json", lab.output_dir / "best" / f"{name}.diff"
    write_text(patch, result.baseline.diff(result.best, name))
    write_text(summary, json.dumps(document, indent=2) + "\n")
    title = f"Optimization of {lab.config.kernel.name}"
    return summary, write_report(lab.output_dir, documents=lab.output_dir / "baseline", title=title), patch


def _metrics(result: LoopResult, word: str) -> dict[str, float]:
    return {
        f"{word}_speedup": result.speedup,
        f"{word}_best_runtime_us": result.best_runtime_ns / 1e3,
        "proposals": float(len(result.verdicts)),
        "accepted": float(sum(verdict.accepted for verdict in result.verdicts)),
    }


def _show(console: Console, result: LoopResult, word: str) -> None:
    """Print all verdicts and the speed-up."""
    console.print(verdict_table(result.verdicts, word))
    how = f"; {result.comparison.method}" if result.comparison is not None else ""
    console.print(
        f"[bold]speed-up[/] {result.speedup:.2f}x ({word}): {time_text(result.baseline_runtime_ns, word)} to "
        f"{time_text(result.best_runtime_ns, word)}{how}; stopped: {result.stop_reason}"
    )
