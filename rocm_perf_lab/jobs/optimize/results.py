"""Results of an optimization: files, tracking and console output."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.core.files import write_text
from rocm_perf_lab.jobs.records import expected_metrics, optimize_document
from rocm_perf_lab.jobs.show import time_text, verdict_table
from rocm_perf_lab.report.page import write_report
from rocm_perf_lab.statistics.power import POWER
from rocm_perf_lab.target.timing_errors import NO_EMULATED_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rich.console import Console

    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.jobs.records import RebuildCheck, RunSeeds
    from rocm_perf_lab.optimize.loop_result import LoopResult
    from rocm_perf_lab.optimize.proposers.spending import Spending
    from rocm_perf_lab.target.timing_errors import TimingErrors
    from rocm_perf_lab.tracking.run import RunTracker


_FINAL = {None: "none", True: "confirmed", False: "not confirmed"}


def write_results(
    lab: Lab,
    tracker: RunTracker,
    result: LoopResult,
    *,
    rebuild: Callable[[Path], RebuildCheck],
    isolation: str,
    word: str,
    errors: TimingErrors | None,
    seeds: RunSeeds | None = None,
    spending: Spending | None = None,
) -> None:
    """Write the best source, its patch, optimize.json and the HTML report; track and print them.

    Args:
        lab: Run.
        tracker: Tracker of the run.
        result: Result of the closed loop.
        rebuild: Compiles the stored source again.
        isolation: Description of the sandbox.
        word: Kind of times, `measured` or `emulated`.
        errors: Error bands of emulated times; None for measured ones.
        seeds: Secret seeds of the run; None if it has none.
        spending: Calls, tokens and cost of models; None without models.

    Raises:
        LabError: The stored source compiles to a different code object.
    """
    best = lab.output_dir / "best" / lab.config.kernel.source.name
    write_text(best, result.best.text)
    rebuilt = rebuild(best)
    source = str(best.relative_to(lab.output_dir))
    document = optimize_document(
        result, word, source, rebuild=rebuilt, isolation=isolation, errors=errors, seeds=seeds, spending=spending
    )
    for path in (*_written(lab, result, document, best.name), best):
        tracker.log_artifact(path, "best" if path.parent.name == "best" else None)
    tracker.log_metrics(_metrics(result, errors), step=len(result.verdicts) + 1)
    tracker.set_tags(
        {
            "stop_reason": result.stop_reason,
            "best_proposal": result.best.id,
            "final_comparison": _FINAL[result.is_confirmed],
            "indistinguishable": str(result.by_counters).lower(),
            "rebuild_identical": str(rebuilt.is_identical).lower(),
        }
    )
    _show(lab.console, result, word, errors)
    if spending is not None:
        cost = f", cost {spending.cost:.4g}" if spending.cost else ""
        lab.console.print(f"[bold]spent[/]   {spending.calls} calls of models, {spending.tokens:,} tokens{cost}")
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


def _metrics(result: LoopResult, errors: TimingErrors | None) -> dict[str, float]:
    least, most = result.comparison.speedup_interval if result.comparison is not None and result.is_confirmed else (1.0, 1.0)
    bounds = {"speedup_least": least, "speedup_most": most} if isfinite(least) and isfinite(most) else {}
    times = {
        "speedup": result.speedup,
        "runtime_us": result.best_runtime_ns / 1e3,
        "baseline_runtime_us": result.baseline_runtime_ns / 1e3,
        **bounds,
    }
    if errors is not None:
        times |= expected_metrics(result.best_runtime_ns, errors)
    return {
        **(times if result.best_runtime_ns else {}),
        "indistinguishable": float(sum(verdict.is_indistinguishable for verdict in result.verdicts)),
        "proposals": float(len(result.verdicts)),
        "accepted": float(sum(verdict.accepted for verdict in result.verdicts)),
    }


def _show(console: Console, result: LoopResult, word: str, errors: TimingErrors | None) -> None:
    """Print all verdicts and the speed-up."""
    console.print(verdict_table(result.verdicts, word))
    if not result.baseline_runtime_ns:
        decided = f"exact counters decided; stopped: {result.stop_reason}"
        console.print(f"[bold]result[/]  {NO_EMULATED_TIME}: {decided}", soft_wrap=True)
        return
    speedup = "indistinguishable" if result.by_counters else f"{result.speedup:.2f}x"
    console.print(
        f"[bold]speed-up[/] {speedup} ({word}){_expected(result)}: "
        f"{time_text(result.baseline_runtime_ns, word)} to {time_text(result.best_runtime_ns, word, errors)}; "
        f"stopped: {result.stop_reason}"
    )
    if result.is_confirmed is False:
        console.print(f"[yellow]note[/]    the result is the baseline: {escape(result.final_reason)}", soft_wrap=True)
    weakest = result.weakest_comparison
    if weakest is not None and weakest.smallest_gain is not None:
        console.print(
            f"[bold]power[/]   gains above {weakest.smallest_gain:.1%} are found with {POWER:.0%} power "
            f"at {weakest.planned_pairs} pairs; the run accepts a rewrite that is not faster with at most "
            f"{1 - weakest.confidence:.0%} probability",
            soft_wrap=True,
        )
    tied = sum(verdict.is_indistinguishable for verdict in result.verdicts)
    if tied and errors is not None:
        console.print(
            f"[yellow]note[/]    {tied} of {len(result.verdicts)} proposals are indistinguishable on the emulator: a difference "
            f"below {errors.decisive.factor:.2f}x is inside its error band ({errors.status}); measure them on a GPU",
            soft_wrap=True,
        )


def _expected(result: LoopResult) -> str:
    """Return the bounds of the speed-up and their origin."""
    if result.comparison is None or not result.is_confirmed:
        return ""
    least, most = result.comparison.speedup_interval
    if result.comparison.band is None:
        return f"; {result.comparison.method}"
    return f", {least:.2f}x to {most:.2f}x expected on hardware at {result.comparison.confidence:.0%} confidence"
