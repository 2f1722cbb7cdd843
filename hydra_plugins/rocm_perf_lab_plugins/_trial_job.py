"""One trial of a sweep as a Hydra job, in any process, with its result as plain data.

Exceptions are returned as text, since not all of them can be pickled.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocm_perf_lab.autotune.objective import Infeasible, Measurement, Unmeasured
from rocm_perf_lab.autotune.repeats import MOST_KEPT
from rocm_perf_lab.core.errors import LabError
from rocm_perf_lab.tracking.run import TrackingError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hydra.core.utils import JobReturn
    from hydra.types import HydraContext, TaskFunction
    from omegaconf import DictConfig

_LONGEST_REASON = 2000
_RESOURCES = {
    "vgpr": "vgpr_per_thread",
    "agpr": "agpr_per_thread",
    "sgpr": "sgpr_per_wave",
    "lds_bytes": "lds_bytes",
    "scratch_bytes": "scratch_bytes",
    "vgpr_spills": "vgpr_spills",
}
"""Detail of a trial, as in a search without workers -> its key in profile.json."""


@dataclass(frozen=True)
class TrialJob:
    """The part that all jobs of a sweep share.

    Args:
        context: Hydra's loaders and callbacks.
        config: Composed configuration of the sweep.
        task: Function that runs a job.
        singletons: Hydra's global state, which a new process does not have.
    """

    context: HydraContext
    config: DictConfig
    task: TaskFunction
    singletons: Mapping[Any, Any]

    def run(self, overrides: Sequence[str], number: int) -> Measurement | Infeasible | Unmeasured:
        """Compose and run one job in this process."""
        from hydra.core.hydra_config import HydraConfig
        from hydra.core.singleton import Singleton
        from hydra.core.utils import run_job, setup_globals
        from omegaconf import open_dict

        setup_globals()
        Singleton.set_state(dict(self.singletons))
        composed = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(composed):
            composed.hydra.job.id = number
            composed.hydra.job.num = number
        HydraConfig.instance().set_config(composed)
        returned = run_job(
            task_function=self.task,
            config=composed,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
            hydra_context=self.context,
        )
        return result_of(returned)

    def launch(self, overrides: Sequence[str], number: int) -> Measurement | Infeasible | Unmeasured:
        """Run one job through the launcher that the configuration names, which may use another machine."""
        from hydra.core.plugins import Plugins
        from hydra.core.singleton import Singleton
        from hydra.core.utils import setup_globals

        setup_globals()
        Singleton.set_state(dict(self.singletons))
        launcher = Plugins.instance().instantiate_launcher(
            hydra_context=self.context, task_function=self.task, config=self.config
        )
        return result_of(launcher.launch([list(overrides)], initial_job_idx=number)[0])


def result_of(returned: JobReturn) -> Measurement | Infeasible | Unmeasured:
    """Return the result of a Hydra job."""
    from hydra.core.utils import JobStatus

    directory = Path(returned.hydra_cfg.hydra.runtime.output_dir) if returned.hydra_cfg is not None else None
    value = returned._return_value  # the property prints and raises if the job failed
    if isinstance(value, TrackingError):
        return Unmeasured(value.what)
    if returned.status != JobStatus.COMPLETED:
        return Infeasible(reason_of(value))
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        return Infeasible(f"the job returned {value!r}; a sweep minimises a positive time in ms")
    return Measurement(float(value), _details(directory) if directory is not None else {})


def reason_of(error: object) -> str:
    """Return the message of an error, with its type unless it is a :class:`LabError`."""
    text = str(error) if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
    return text if len(text) <= _LONGEST_REASON else text[:_LONGEST_REASON] + " …"


def _details(directory: Path) -> dict[str, Any]:
    """Return the directory of a job, and the provenance and stability in its profile.json if it wrote one.

    Measured times are details as well, since only those are raced: emulated ones of a configuration are all equal.
    """
    details: dict[str, Any] = {"directory": str(directory)}
    document = directory / "profile.json"
    if document.is_file():
        profile = json.loads(document.read_text(encoding="utf-8"))
        details |= {name: profile["provenance"][name] for name in ("device", "time_kind", "note")}
        details |= {name: profile["stability"][name] for name in ("runs", "cv")}
        if not profile["provenance"]["emulated"]:
            details["times_ms"] = profile["stability"]["durations_ms"][-MOST_KEPT:]
        resources, occupancy = profile.get("resources"), profile.get("occupancy")
        if resources is not None:
            known = {name: resources[key] for name, key in _RESOURCES.items()}
            details |= {name: value for name, value in known.items() if value is not None}
        if occupancy is not None:
            details["waves_per_simd"] = occupancy["waves_per_simd"]
    return details
