"""What every run needs of a configuration: all that an application's profile does, which has no kernel and no space."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, PositiveInt

from rocm_perf_lab.components import Component
from rocm_perf_lab.target.model import Target


class StrictModel(BaseModel):
    """Further keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


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


class RunConfig(StrictModel):
    """The GPU, what is collected, the verb, and where its results go."""

    target: Target
    passes: PassesConfig
    tracking: Component
    job: Component
    display: Literal["table", "json", "runtime", "none"] = "table"
