"""Parameters of the emulator's timing model; values and their sources are in `conf/target/*.yaml`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class TimingParameters(BaseModel):
    """Latencies in shader clocks, bandwidths in bytes per clock. Extended by the timing engine as it needs."""

    model_config = ConfigDict(extra="forbid", frozen=True)
