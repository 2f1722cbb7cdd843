"""The Python API: one function per command, which returns its results without printing.

Errors are exceptions with the same text as on the command line: :class:`LabError`, and :class:`NegativeResult` if a check fails.
"""

from rocm_perf_lab.api.applications import EndedApplication, run
from rocm_perf_lab.api.commands import analyze, autotune, compare, optimize, profile, replay, report, runs
from rocm_perf_lab.api.results import Comparison, LabRun, Optimization, ReplayedCapture, Tuning
from rocm_perf_lab.core.errors import LabError, NegativeResult

__all__ = [
    "Comparison",
    "EndedApplication",
    "LabError",
    "LabRun",
    "NegativeResult",
    "Optimization",
    "ReplayedCapture",
    "Tuning",
    "analyze",
    "autotune",
    "compare",
    "optimize",
    "profile",
    "replay",
    "report",
    "run",
    "runs",
]
