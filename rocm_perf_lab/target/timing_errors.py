"""Error bands of emulated times on one GPU; values are in the `timing.errors` section of targets and architectures."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt

from rocm_perf_lab.core.models import StrictModel
from rocm_perf_lab.statistics.error_bands import RatioBand, TimeBand

BandStatus = Literal["provisional", "estimated"]
NO_EMULATED_TIME = "no emulated time for this architecture"
"""Text in the place of a time if a target has no timing model."""


class TimingErrors(StrictModel):
    """Error bands of the timing model, each by increasing coverage, and the cases that they follow from.

    `provisional` bands are assumed; `estimated` ones are those of `python -m benchmarks.error_bands`.
    """

    status: BandStatus
    source: str
    """Cases, date and commit of the estimate."""
    time: tuple[TimeBand, ...] = Field(min_length=1)
    ratio: tuple[RatioBand, ...] = Field(min_length=1)
    cases: NonNegativeInt = 0
    """Held-out cases."""
    families: NonNegativeInt = 0
    """Families of these cases."""
    pairs: NonNegativeInt = 0
    """Pairs of variants of one family."""

    @property
    def expected(self) -> TimeBand:
        """Band that is shown with a time."""
        return self.time[0]

    @property
    def decisive(self) -> RatioBand:
        """Band within which two variants are indistinguishable."""
        return self.ratio[-1]

    @property
    def widest(self) -> TimeBand:
        """Band outside which a measured time contradicts an emulated one."""
        return self.time[-1]

    def around(self, time: float) -> tuple[float, float]:
        """Return the bounds of the expected time, in the unit of `time`."""
        return self.expected.around(time)


UNVALIDATED = TimingErrors(
    status="provisional",
    source="assumed: this timing model was not compared with measurements",
    time=(TimeBand(coverage=0.8, low=0.25, high=4.0), TimeBand(coverage=0.95, low=0.1, high=10.0)),
    ratio=(RatioBand(coverage=0.8, factor=2.0), RatioBand(coverage=0.9, factor=4.0)),
)
"""Bands of a timing model without estimated ones: wider than those of gfx942, which were estimated from measurements."""


def bounds_word(status: BandStatus) -> str:
    """Return the word that follows the bounds of an emulated time."""
    return "expected" if status == "estimated" else "assumed, not validated"
