"""Gain of transforms on naive kernels, and distance to expert versions: `python -m benchmarks.rewrites`.

In each round the rewrites of all transforms are timed on the emulator, each at its own launch. The fastest one that the guards
and trials accept is the source of the next round, if it is faster by more than the error band of two emulated times. All times
are emulated. A run that ended early, or after `--minutes`, continues with `--resume`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import asdict, dataclass
from itertools import islice
from math import exp, log
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure, Publisher
from benchmarks.rewrites.measuring import BenchmarkKernel, emulated_us, kernels, rejection
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.optimize.source_tree import parse_source
from rocm_perf_lab.target.catalog import load_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocm_perf_lab.optimize.candidate import CandidateChecker
    from rocm_perf_lab.optimize.transforms.base import Rewrite

_IMPROVED = 1.2
_MOST_CHECKED = 3


@dataclass(frozen=True)
class Row:
    """Emulated times of one kernel in us, the accepted rewrites, and the rejected ones with their reasons.

    Args:
        kernel: Name.
        naive: Time of the naive version.
        ours: Time of the accepted rewrites; `naive` if there is none.
        expert: Time of the expert version.
        rewrites: Accepted rewrites, each on top of the one before.
        rejected: Rewrites that are faster, and that the guards or trials reject, with the reason.
        obstacles: Why a transform proposes nothing for the naive version, by transform.
        settings: Hash of both sources, the description and the options.
        expert_rejected: Why the guards or trials reject the expert version; None if they do not, or if it was not checked.
    """

    kernel: str
    naive: float
    ours: float
    expert: float
    rewrites: tuple[str, ...]
    rejected: tuple[str, ...]
    obstacles: dict[str, str]
    settings: str
    expert_rejected: str | None = None

    @property
    def gain(self) -> float:
        """Speed-up over the naive version."""
        return self.naive / self.ours

    @property
    def distance(self) -> float:
        """Time of the rewrite relative to the better of expert and naive version."""
        return self.ours / min(self.expert, self.naive)


@dataclass(frozen=True)
class Settings:
    """Limits of one kernel.

    Args:
        proposals: Most rewrites that are timed in one round.
        rounds: Most rounds.
        instructions: Instructions of the naive version in all trials.
        check_expert: Run the guards and trials of the expert version too.
    """

    proposals: int
    rounds: int
    instructions: int
    check_expert: bool

    def hash_with(self, kernel: BenchmarkKernel) -> str:
        """Return a hash of the settings and of the kernel to which they apply."""
        parts = [repr(self), kernel.description.model_dump_json(exclude={"directory"}), kernel.naive, kernel.expert]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def measured(kernel: BenchmarkKernel, settings: Settings) -> Row:
    """Rewrite one kernel."""
    instructions = settings.instructions
    best = kernel.naive
    naive = ours = emulated_us(kernel, best)
    expert = emulated_us(kernel, kernel.expert)
    checker: CandidateChecker | None = None
    accepted: list[str] = []
    rejected: list[str] = []
    if settings.check_expert:
        checker = kernel.checker(instructions)
    for _ in range(settings.rounds):
        timed = _timed(kernel, best, settings.proposals)
        chosen = None
        for found, rewrite in islice((row for row in timed if row[0] * _band() < ours), _MOST_CHECKED):
            checker = checker or kernel.checker(instructions)
            reason = rejection(checker, rewrite.text)
            if reason is None:
                chosen = (found, rewrite)
                break
            rejected.append(f"{rewrite.description}: {reason}")
        if chosen is None:
            break
        ours, best = chosen[0], chosen[1].text
        accepted.append(chosen[1].description)
    wrong = rejection(checker, kernel.expert) if settings.check_expert and checker is not None else None
    return Row(
        kernel.name, naive, ours, expert, tuple(accepted), tuple(rejected), _obstacles(kernel), settings.hash_with(kernel), wrong
    )


def _obstacles(kernel: BenchmarkKernel) -> dict[str, str]:
    """Return the reasons why transforms propose no rewrite for the naive version."""
    unit = parse_source(kernel.naive.encode(), kernel.description.entry)
    rows = {transform.name: transform.rejections(unit) for transform in kernel.transforms() if not transform.propose(unit)}
    return {name: f"line {found[0].line}: {found[0].reason}" for name, found in rows.items() if found}


def _timed(kernel: BenchmarkKernel, text: str, proposals: int) -> list[tuple[float, Rewrite]]:
    """Return rewrites of a source with their times, the fastest first; those that do not compile or fault are skipped."""
    unit = parse_source(text.encode(), kernel.description.entry)
    rewrites: Iterable[Rewrite] = (rewrite for transform in kernel.transforms() for rewrite in transform.propose(unit))
    found = []
    for rewrite in islice(rewrites, proposals):
        try:
            found.append((emulated_us(kernel, rewrite.text), rewrite))
        except LabError as error:
            print(f"{kernel.name}: {rewrite.description}: {error}", file=sys.stderr)
    return sorted(found, key=lambda row: row[0])


def _band() -> float:
    """Return the factor within which two emulated times are indistinguishable."""
    errors = load_target("mi300x").timing_errors
    return errors.decisive.factor if errors is not None and errors.decisive is not None else 1.0


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean; 1 for no values."""
    return exp(sum(map(log, values)) / len(values)) if values else 1.0


def figures_of(rows: Sequence[Row], *, experts_checked: bool) -> list[Figure]:
    """Return the figures of the benchmark.

    Args:
        rows: Results by kernel.
        experts_checked: Whether the guards and trials ran on the expert versions too.
    """
    improved = sum(row.gain > _IMPROVED for row in rows)
    wrong = sum(row.expert_rejected is not None for row in rows)
    count = len(kernels())
    figures = [
        Figure("kernels", "kernels measured", f"{len(rows)} of {count}{', incomplete' if len(rows) < count else ''}", f"{count}"),
        Figure(
            "distance",
            "emulated time of rewrites / time of expert versions, geometric mean",
            f"{geometric_mean([r.distance for r in rows]):.2f}",
            "1.3",
        ),
        Figure("improved", "kernels improved by more than 1.2x (emulated)", f"{improved} of {len(rows)}", "20 of 25"),
        Figure(
            "gain", "speed-up over the naive kernels, geometric mean (emulated)", f"{geometric_mean([r.gain for r in rows]):.2f}x"
        ),
    ]
    if experts_checked:
        figures.append(Figure("wrong", "expert versions that the guards or trials reject", f"{wrong}", "0"))
    return figures


def main(arguments: list[str] | None = None) -> None:
    """Rewrite all kernels, print and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rewrites", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kernels", nargs="*", help="names of kernels (default: all); results of others are kept")
    parser.add_argument("--proposals", type=int, default=8, help="rewrites timed per round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--instructions", type=int, default=1_500_000, help="instructions of the naive kernel in all trials")
    parser.add_argument("--experts", action="store_true", help="check the expert versions too")
    parser.add_argument("--resume", action="store_true", help="keep the results of kernels with the same sources and options")
    parser.add_argument("--minutes", type=float, help="time after which no kernel begins (default: no limit)")
    publisher = Publisher("rewrites", parser, arguments)
    options = publisher.options
    settings = Settings(options.proposals, options.rounds, options.instructions, options.experts)
    end = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    known: dict[str, Any] = {}
    if (options.kernels or options.resume) and options.json.exists():
        known = {row["kernel"]: row for row in json.loads(options.json.read_text())["data"]}
    chosen = kernels(options.kernels)
    left = [k for k in chosen if not options.resume or known.get(k.name, {}).get("settings") != settings.hash_with(k)]
    for place, kernel in enumerate(left):
        if end is not None and time.monotonic() > end:
            print(f"{len(left) - place} kernels are left; continue with --resume", file=sys.stderr)
            break
        row = measured(kernel, settings)
        print(
            f"{row.kernel:20} {row.naive:9.2f} {row.ours:9.2f} {row.expert:9.2f} us emulated  {', '.join(row.rewrites)}",
            flush=True,
        )
        known[row.kernel] = asdict(row)
        rows = [Row(**known[name]) for name in sorted(known)]  # After each kernel, so that an interrupted run keeps its results.
        publisher.publish_figures(
            "rewrites", figures_of(rows, experts_checked=settings.check_expert), [asdict(row) for row in rows]
        )


if __name__ == "__main__":
    main()
