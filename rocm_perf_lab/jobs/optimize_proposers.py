"""The proposer that the configuration names, ready to be asked."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocm_perf_lab.optimize.proposers.transforms import TransformProposer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rocm_perf_lab.jobs.lab import Lab
    from rocm_perf_lab.optimize.guards import Guard
    from rocm_perf_lab.optimize.proposers.base import Proposer
    from rocm_perf_lab.optimize.transforms.base import Transform
    from rocm_perf_lab.tracking.store import RunTracker


@contextmanager
def open_proposer(lab: Lab, transforms: Sequence[Transform], guards: Sequence[Guard], tracker: RunTracker) -> Iterator[Proposer]:
    """Where rewrites come from."""
    yield TransformProposer(transforms)
