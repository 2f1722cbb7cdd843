"""Secret seeds of an optimization: of the trials, and of the sample of workgroups for emulated times.

Unless set in the configuration, both are drawn for each run, so that the author of a rewrite cannot know them. They are stored in
the journal, for resumed runs, and in `optimize.json`, to repeat a run exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocm_perf_lab.device.protocol import SampledDevice
from rocm_perf_lab.emulator.sampling import drawn_seed
from rocm_perf_lab.jobs.records import RunSeeds
from rocm_perf_lab.optimize.resume import JOURNAL, Journal
from rocm_perf_lab.verify.policy import seeded

if TYPE_CHECKING:
    from rocm_perf_lab.jobs.lab import Lab


def with_run_seeds(lab: Lab) -> Lab:
    """Return a run with seeds from the configuration, else from the journal, else drawn at random.

    Raises:
        ResumeError: The journal cannot be read.
    """
    header = Journal(lab.output_dir / JOURNAL).header if lab.resumed else None
    config, recorded = lab.config, header.sample_seed if header is not None else None
    verification = seeded(config.optimizer.verification, header.trial_seed if header is not None else None)
    optimizer = config.optimizer.model_copy(update={"verification": verification})
    return replace(
        lab,
        settings=config.model_copy(update={"optimizer": optimizer}),
        sample_seed=recorded if recorded is not None else drawn_seed(),
    )


def seeds_of(lab: Lab) -> RunSeeds:
    """Return the seeds of a run. The device may set the seed of the sample; a GPU has none."""
    device = lab.measuring_device
    samples = device.sample.seed if isinstance(device, SampledDevice) else None
    return RunSeeds(trials=lab.config.optimizer.verification.seed, samples=samples)
