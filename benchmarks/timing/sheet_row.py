"""One constant of the thread traces, and short probes shared by several constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.timing.probes import Probe, ProbeRun, run_probe

if TYPE_CHECKING:
    from collections.abc import Callable

WAVE_NUMBER = """
  v_readfirstlane_b32 s8, v0
  s_lshr_b32 s8, s8, 6
"""
"""Puts the number of the wavefront in its workgroup into s8."""


@dataclass(frozen=True)
class Constant:
    """Range of one quantity in the traces and the probe that measures it in the model.

    Confidence is H (many samples, unambiguous), M (inferred from a pattern) or L (few samples).
    """

    name: str
    low: float
    high: float
    confidence: str
    measure: Callable[[], float]
    unit: str = "clk"


def repeated(times: int, *lines: str) -> str:
    """Return instructions repeated by the assembler."""
    return "\n".join([f".rept {times}", *lines, ".endr", ""])


def gap(body: str, first: str, second: str, *, setup: str = "", waves: int = 1) -> Callable[[], float]:
    """Return a probe of the clocks from the issue of `first` to that of `second` directly after it."""
    return lambda: run_probe(Probe(body, setup=setup, waves=waves)).gap(first, second)


def latency(body: str, first: str, *, setup: str = "", waves: int = 1) -> Callable[[], float]:
    """Return a probe of the clocks from the issue of `first` to the end of the next wait."""
    return lambda: run_probe(Probe(body, setup=setup, waves=waves)).latency(first)


def best_rate(run: ProbeRun, start: str, *, simd: int | None = None, window: int = 32) -> float:
    """Return the smallest number of clocks per instruction over `window` consecutive instructions of a CU or a SIMD."""
    issues = np.sort([e.issue for wave in run.waves if simd is None or wave.simd == simd for e in wave.find(start)])
    spans = issues[window:] - issues[:-window]
    return float(spans.min()) / window


def rate(body: str, start: str, *, setup: str = "", waves: int = 4, simd: int | None = None) -> Callable[[], float]:
    """Return a probe of the clocks per instruction, on the CU or on one SIMD."""
    return lambda: best_rate(run_probe(Probe(body, setup=setup, waves=waves)), start, simd=simd)
