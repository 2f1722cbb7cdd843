"""Model of the config group `passes`."""

from __future__ import annotations

from pathlib import Path

from pydantic import PositiveInt

from rocm_perf_lab.core.models import StrictModel


class PassesConfig(StrictModel):
    """Profiling passes, and the number of dispatches on a device with varying times."""

    runs: PositiveInt = 10
    counters: tuple[str, ...] = ()
    helper_kernels: tuple[str, ...] = ()
    thread_trace: bool = False
    """Also trace single wavefronts, instruction by instruction."""
    roofline_csv: Path | None = None
    """Measured peaks of the GPU in rocprof-compute's format; theoretical peaks are used without them."""
    plots: bool = True
    """Draw roofline.png and roofline.html in the profile job."""
    dag_nodes: PositiveInt = 5000
    """Maximum number of nodes in dag.json; a larger run lists the longest nodes of its critical path."""
