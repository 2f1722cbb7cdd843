"""Model of the config group `passes`."""

from __future__ import annotations

from pathlib import Path

from pydantic import PositiveInt

from rocm_perf_lab.core.models import StrictModel


class PassesConfig(StrictModel):
    """What is collected, and how often a dispatch is repeated on a device whose times vary."""

    runs: PositiveInt = 10
    counters: tuple[str, ...] = ()
    helper_kernels: tuple[str, ...] = ()
    thread_trace: bool = False
    """Also trace single wavefronts, instruction by instruction."""
    roofline_csv: Path | None = None
    """Measured peaks of the GPU, as rocprof-compute writes them; the theoretical ones are taken without it."""
    plots: bool = True
    """The profile job draws roofline.png and roofline.html."""
    dag_nodes: PositiveInt = 5000
    """Nodes in dag.json, at most; of a larger run the longest of its critical path."""
