"""Errors of whole optimizations with noisy times: `python -m benchmarks.acceptance`.

Each run is the closed loop with its default settings on 40 candidates. In half of the runs no candidate differs from the
baseline: every acceptance is false. In the others one candidate, at a random place, needs 3 % less time. The noise of one time is
3 %: normal, with heavy tails, with a drifting clock, autocorrelated, or with a penalty for the second time of a pair.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.figures import Figure, Publisher
from rocm_perf_lab.optimize.bench import BuiltCandidate, Evaluation, MeasuredSource
from rocm_perf_lab.optimize.config import OptimizerConfig
from rocm_perf_lab.optimize.loop import ClosedLoop
from rocm_perf_lab.optimize.policy import LoopPolicy
from rocm_perf_lab.optimize.proposal import Proposal, Verdict
from rocm_perf_lab.statistics.interleaving import InterleavedPairs
from rocm_perf_lab.statistics.paired_test import compare_sequentially
from rocm_perf_lab.toolchain.code_object import KernelDescriptor, KernelMetadata
from rocm_perf_lab.verify.outputs import VerificationResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocm_perf_lab.optimize.loop_result import LoopResult
    from rocm_perf_lab.optimize.proposers.base import Offers
    from rocm_perf_lab.optimize.search import ParentSelection
    from rocm_perf_lab.statistics.paired_test import AcceptanceRule, PairedComparison

CANDIDATES = 40
NOISE = 0.03
GAIN = 0.03
_SOURCE = 'extern "C" __global__ void k() {}  // candidate '
_CHUNK = 4096
_DEGREES = 2.5
"""Degrees of freedom of heavy tails: the variance is finite, the fourth moment is not."""
_CORRELATION = 0.8
_PENALTY = 0.01
_TIMES_PER_PERIOD = 400

Noise = Callable[[np.random.Generator, int], "np.ndarray[Any, np.dtype[np.float64]]"]


def _normal(random: np.random.Generator, start: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return NOISE * random.standard_normal(_CHUNK)


def _heavy(random: np.random.Generator, start: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return NOISE * math.sqrt((_DEGREES - 2) / _DEGREES) * random.standard_t(_DEGREES, _CHUNK)


def _drifting(random: np.random.Generator, start: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    places = np.arange(start, start + _CHUNK)
    slow = 0.05 * np.sin(2 * np.pi * places / _TIMES_PER_PERIOD) + 1e-4 * places
    return _normal(random, start) + slow


def _autocorrelated(random: np.random.Generator, start: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    steps = NOISE * math.sqrt(1 - _CORRELATION**2) * random.standard_normal(_CHUNK)
    steps[0] = NOISE * random.standard_normal()
    for place in range(1, _CHUNK):
        steps[place] += _CORRELATION * steps[place - 1]
    return steps


def _second_is_slower(random: np.random.Generator, start: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return _normal(random, start) + np.where(np.arange(start, start + _CHUNK) % 2, _PENALTY, 0.0)


MODELS: dict[str, tuple[str, Noise]] = {
    "normal": ("normal", _normal),
    "heavy": ("heavy tails (Student, 2.5 degrees of freedom)", _heavy),
    "drifting": ("drifting clock", _drifting),
    "autocorrelated": ("autocorrelated (0.8)", _autocorrelated),
    "second": ("second time of a pair 1 % longer", _second_is_slower),
}


@dataclass
class NoisyBench:
    """Bench whose sources have true times and whose measurements are noisy.

    Args:
        true_ns: True time by text of the candidate; others need 1000 ns.
        noise: Logarithms of the noise of consecutive times.
    """

    true_ns: dict[str, float]
    noise: Iterator[float]
    measured: int = 0

    def build(self, proposal: Proposal) -> BuiltCandidate:
        """Return a build without code."""
        return BuiltCandidate(_METADATA, proposal.id, occupancy_waves=8.0, cached=False)

    def evaluate(self, proposal: Proposal, built: BuiltCandidate) -> Evaluation:
        """Return a correct result and one time."""
        return Evaluation(VerificationResult(()), self._time_ns(proposal))

    def compare(self, old: MeasuredSource, new: MeasuredSource, acceptance: AcceptanceRule) -> PairedComparison:
        """Compare as on a GPU."""
        pairs = InterleavedPairs(
            lambda: self._time_ns(old.proposal), lambda: self._time_ns(new.proposal), f"{old.proposal.id} {new.proposal.id}"
        )
        return compare_sequentially(pairs, acceptance)

    def _time_ns(self, proposal: Proposal) -> float:
        self.measured += 1
        return self.true_ns.get(proposal.text, 1000.0) * math.exp(next(self.noise))


@dataclass
class FixedCandidates:
    """Proposer that offers one candidate per round, whatever the parent."""

    texts: list[str]
    learns: bool = True

    def offers(self, parents: Sequence[ParentSelection], verdicts: Sequence[Verdict]) -> Offers:
        """Offer the next candidate."""
        parent = parents[0].parent
        if self.texts:
            yield Proposal.of(self.texts.pop(0), transform="fixed", description="candidate", parent=parent)
        return None if self.texts else "no candidate is left"


@dataclass
class AcceptanceRecord:
    """Observer that records accepted candidates, including those withdrawn later."""

    accepted_texts: list[str] = field(default_factory=list)

    def proposed(self, proposal: Proposal, number: int) -> None:
        """Ignore the event."""

    def evaluated(self, verdict: Verdict) -> None:
        """Ignore the event."""

    def accepted(self, verdict: Verdict) -> None:
        """Record a candidate."""
        self.accepted_texts.append(verdict.proposal.text)

    def rolled_back(self, verdict: Verdict) -> None:
        """Ignore the event."""

    def withdrawn(self, verdict: Verdict) -> None:
        """Ignore the event."""


@dataclass(frozen=True)
class SimulatedRun:
    """Whether a run accepted a candidate that is not faster, whether its result is wrong, and whether it found the gain."""

    false_step: bool
    false_result: bool
    found: bool
    pairs: float
    """Pairs of times per comparison."""
    smallest_gain: float


def simulate(model: str, seed: int, *, with_gain: bool) -> SimulatedRun:
    """Run the closed loop once.

    Args:
        model: Key of :data:`MODELS`.
        seed: Seed of noise and of the place of the better candidate.
        with_gain: Whether one candidate is better.
    """
    random = np.random.default_rng([seed, int(with_gain)])
    names = [random.integers(10**12) for _ in range(CANDIDATES)]
    texts = [f"{_SOURCE}{name}\n" for name in names]
    better = {texts[random.integers(CANDIDATES)]: 1000.0 * (1 - GAIN)} if with_gain else {}
    bench, record = NoisyBench(better, _stream(MODELS[model][1], random)), AcceptanceRecord()
    result = _run(bench, FixedCandidates(list(texts)), record)
    comparisons = [v.comparison for v in result.verdicts if v.comparison is not None]
    weakest = result.weakest_comparison
    return SimulatedRun(
        false_step=any(text not in better for text in record.accepted_texts),
        false_result=result.best.id != result.baseline.id and result.best.text not in better,
        found=result.best.text in better,
        pairs=float(np.mean([c.pairs for c in comparisons])),
        smallest_gain=weakest.smallest_gain if weakest is not None and weakest.smallest_gain is not None else 0.0,
    )


def _run(bench: NoisyBench, proposer: FixedCandidates, record: AcceptanceRecord) -> LoopResult:
    settings = OptimizerConfig.model_validate({})
    policy = LoopPolicy(
        min_improvement=settings.min_improvement,
        max_iterations=CANDIDATES,
        max_proposals=CANDIDATES,
        confidence=settings.confidence,
        first_pairs=settings.first_pairs,
        most_pairs=settings.most_pairs,
    )
    loop = ClosedLoop(bench=bench, entry="k", proposer=proposer, guards=(), policy=policy, observer=record)
    baseline = Proposal.of(f"{_SOURCE}0\n", transform="none", description="the unmodified source", parent=None)
    return loop.run(baseline, bench.build(baseline), Evaluation(VerificationResult(()), 1000.0))


def _stream(noise: Noise, random: np.random.Generator) -> Iterator[float]:
    start = 0
    while True:
        yield from noise(random, start).tolist()
        start += _CHUNK


def main(arguments: list[str] | None = None) -> None:
    """Simulate, print and write the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.acceptance", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=400, help="runs per kind of noise, with and without a gain (default: 400)")
    parser.add_argument("--only", nargs="*", default=list(MODELS), choices=list(MODELS), help="kinds of noise")
    publisher = Publisher("acceptance", parser, arguments)
    options = publisher.options
    figures, data = [], {}
    for model in options.only:
        null = [simulate(model, seed, with_gain=False) for seed in range(options.runs)]
        real = [simulate(model, seed, with_gain=True) for seed in range(options.runs)]
        data[model] = _summary(null, real)
        figures += _figures(model, data[model], options.runs)
    title = f"{options.runs} runs of {CANDIDATES} candidates, 3 % noise, defaults of optimizer"
    publisher.publish_figures(title, figures, data)


def _summary(null: Sequence[SimulatedRun], real: Sequence[SimulatedRun]) -> dict[str, float]:
    return {
        "false_steps": float(np.mean([run.false_step for run in null])),
        "false_results": float(np.mean([run.false_result for run in null])),
        "false_steps_upper": _upper(sum(run.false_step for run in null), len(null)),
        "found": float(np.mean([run.found for run in real])),
        "found_lower": 1 - _upper(sum(not run.found for run in real), len(real)),
        "pairs_per_candidate": float(np.mean([run.pairs for run in (*null, *real)])),
        "smallest_gain": float(np.median([run.smallest_gain for run in (*null, *real)])),
    }


def _upper(count: int, total: int) -> float:
    """Return the upper Clopper-Pearson bound of a share with 97.5 % confidence."""
    from scipy.stats import beta

    return float(beta.ppf(0.975, count + 1, total - count)) if count < total else 1.0


def _figures(model: str, row: dict[str, float], runs: int) -> list[Figure]:
    name = MODELS[model][0]
    alpha = 1 - OptimizerConfig.model_validate({}).confidence
    return [
        Figure(
            f"false/{model}",
            f"runs that accept a candidate that is not faster, at any time; noise: {name}",
            f"{row['false_steps']:.1%} of {runs} (at most {row['false_steps_upper']:.1%}); "
            f"as the result: {row['false_results']:.1%}",
            f"at most {alpha:.0%}",
        ),
        Figure(
            f"found/{model}",
            f"runs that find the candidate with 3 % less time; noise: {name}",
            f"{row['found']:.1%} (at least {row['found_lower']:.1%}), {row['pairs_per_candidate']:.0f} pairs per candidate",
            "at least 80%",
        ),
    ]


_METADATA = KernelMetadata(
    symbol="k",
    name="k",
    entry_address=0,
    code_bytes=4,
    descriptor_address=0,
    descriptor=KernelDescriptor(0, 0, 0, 0, 0, 0, 0, 0, 0),
    vgpr_count=4,
    agpr_count=0,
    sgpr_count=8,
    vgpr_spill_count=0,
    sgpr_spill_count=0,
    lds_bytes=0,
    scratch_bytes=0,
    kernarg_bytes=0,
    kernarg_alignment=8,
    wavefront_size=64,
    max_flat_workgroup_size=1024,
    required_workgroup_size=None,
    uses_dynamic_stack=False,
    arguments=(),
)


if __name__ == "__main__":
    main()
