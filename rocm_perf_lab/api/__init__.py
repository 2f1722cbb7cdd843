"""The Python API: one function per command, which returns its results and prints nothing.

Errors are exceptions with the text of the command line: :class:`LabError`, and :class:`NegativeResult` for the answer "no".
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
