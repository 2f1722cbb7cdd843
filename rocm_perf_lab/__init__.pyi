from rocm_perf_lab.api import Comparison as Comparison
from rocm_perf_lab.api import EndedApplication as EndedApplication
from rocm_perf_lab.api import LabError as LabError
from rocm_perf_lab.api import LabRun as LabRun
from rocm_perf_lab.api import NegativeResult as NegativeResult
from rocm_perf_lab.api import Optimization as Optimization
from rocm_perf_lab.api import ReplayedCapture as ReplayedCapture
from rocm_perf_lab.api import Tuning as Tuning
from rocm_perf_lab.api import analyze as analyze
from rocm_perf_lab.api import autotune as autotune
from rocm_perf_lab.api import compare as compare
from rocm_perf_lab.api import optimize as optimize
from rocm_perf_lab.api import profile as profile
from rocm_perf_lab.api import replay as replay
from rocm_perf_lab.api import report as report
from rocm_perf_lab.api import run as run
from rocm_perf_lab.api import runs as runs

__version__: str
